//! Data of files: READ, WRITE and COMMIT.

use leasehold_fs::{FsError, ops};
use leasehold_wire::nfs3::{self as wire, Wcc};

use super::{After, convert};
use crate::context::Context;
use crate::procedure::Refusal;

pub(super) async fn read(
    context: &Context,
    args: wire::read::Args,
) -> Result<wire::read::Done, Refusal<After>> {
    let target = context.target(args.file.as_bytes()).await?;
    let count = args.count.min(target.offer.transfer_bytes_max(context.arrival.transport()));
    let done = ops::read(&target.request, &target.object, args.offset, count).await;
    let done = done.map_err(|failed| target.shown(failed.into()))?;
    let attributes = Some(convert::attributes(&done.attributes));
    Ok(wire::read::Done {
        attributes: target.told(attributes),
        count: u32::try_from(done.data.len()).map_err(|_| FsError::ServerFault)?,
        end: done.end,
        data: done.data,
    })
}

pub(crate) async fn write(
    context: &Context,
    args: wire::write::Args,
) -> Result<wire::write::Done, Refusal<Wcc>> {
    let target = context.target(args.file.as_bytes()).await?;
    if args.data.len() != args.count as usize {
        return Err(FsError::Invalid.into());
    }
    let stability = convert::stability(args.stability);
    let changed =
        ops::write(&target.request, &target.object, args.offset, args.data, stability).await;
    let (done, file) = convert::settled(changed).map_err(|refusal| target.shown(refusal))?;
    Ok(wire::write::Done {
        file: target.told(file),
        count: done.count,
        stability: convert::wire_stability(done.stability),
        verifier: done.verifier.0,
    })
}

pub(super) async fn commit(
    context: &Context,
    args: wire::commit::Args,
) -> Result<wire::commit::Done, Refusal<Wcc>> {
    let target = context.target(args.file.as_bytes()).await?;
    let changed = ops::commit(&target.request, &target.object, args.offset, args.count).await;
    let (done, file) = convert::settled(changed).map_err(|refusal| target.shown(refusal))?;
    Ok(wire::commit::Done { file: target.told(file), verifier: done.verifier.0 })
}
