//! Operations on the data of files: READ, WRITE and COMMIT.

use leasehold_fs::ops;
use leasehold_wire::nfs4::{
    Status, WriteVerifier, commit as wire_commit, read as wire_read, write as wire_write,
};

use super::attribute_ops::data_status;
use super::compound::Compound;
use super::opens::{self, Access};
use crate::context::Target;
use crate::nfs3::convert::{stability, wire_stability};

/// The bytes of a READ or READ_PLUS reply in addition to the data: the RPC header, flags, lengths
/// and the holes on both sides of the data.
const READ_HEAD_BYTES: usize = 128;

pub(super) async fn read(
    compound: &mut Compound,
    args: wire_read::Args,
) -> Result<wire_read::Done, Status> {
    let target = compound.target(Status::IsDirectory).await?;
    opens::may_use(compound, &target, args.stateid, Access::Read).await?;
    let count = readable(compound, &target, args.count);
    let done = ops::read(&target.request, &target.object, args.offset, count).await;
    let done = done.map_err(|failed| data_status(failed.error))?;
    Ok(wire_read::Done { end: done.end, data: done.data })
}

/// Returns the number of bytes that a reply can contain of the requested bytes.
pub(super) fn readable(compound: &Compound, target: &Target<'_>, wanted: u32) -> u32 {
    let most = target.offer.transfer_bytes_max(compound.context.arrival.transport());
    let left = compound.reply_bytes_left().saturating_sub(READ_HEAD_BYTES);
    wanted.min(most).min(u32::try_from(left).unwrap_or(u32::MAX))
}

pub(super) async fn write(
    compound: &mut Compound,
    args: wire_write::Args,
) -> Result<wire_write::Done, Status> {
    let target = compound.target(Status::IsDirectory).await?;
    opens::may_use(compound, &target, args.stateid, Access::Write).await?;
    let stability = stability(args.stability);
    let (object, offset) = (&target.object, args.offset);
    let changed = ops::write(&target.request, object, offset, args.data, stability).await;
    compound.noted(&changed);
    let done = changed.result.map_err(data_status)?;
    Ok(wire_write::Done {
        count: done.count,
        stability: wire_stability(done.stability),
        verifier: WriteVerifier(done.verifier.0),
    })
}

pub(super) async fn commit(
    compound: &mut Compound,
    args: wire_commit::Args,
) -> Result<WriteVerifier, Status> {
    let target = compound.target(Status::IsDirectory).await?;
    if args.offset.checked_add(u64::from(args.count)).is_none() {
        return Err(Status::Invalid);
    }
    let changed = ops::commit(&target.request, &target.object, args.offset, args.count).await;
    changed.result.map(|done| WriteVerifier(done.verifier.0)).map_err(data_status)
}
