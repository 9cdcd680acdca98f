//! Operations on ranges of files (RFC 7862): SEEK, ALLOCATE, DEALLOCATE, CLONE, COPY and IO_ADVISE.

use leasehold_fs::{ByteRange, Content, RangeCopy, ops};
use leasehold_wire::nfs4::{
    self as wire, Bitmap, Requirements, Stateid, Status, WriteResponse, WriteVerifier, allocate,
    clone as wire_clone, copy as wire_copy, io_advise as wire_advise, seek as wire_seek,
};

use super::compound::Compound;
use super::convert;
use super::handles::saved;
use super::opens::{self, Access};

/// The number of bytes after which COPY replies, so that the client's call does not time out. The
/// client repeats the operation for the rest.
const COPY_BYTES_MAX: u64 = 256 << 20;

pub(super) async fn seek(
    compound: &mut Compound,
    args: wire_seek::Args,
) -> Result<wire_seek::Done, Status> {
    let target = compound.target(Status::IsDirectory).await?;
    let content = match args.content {
        wire::Content::DATA => Content::Data,
        wire::Content::HOLE => Content::Hole,
        _ => return Err(Status::UnionNotSupported),
    };
    opens::may_use(compound, &target, args.stateid, Access::Read).await?;
    let found = ops::seek(&target.request, &target.object, args.offset, content).await;
    let found = found.map_err(|failed| convert::status(failed.error))?;
    Ok(wire_seek::Done { end: found.end, offset: found.offset })
}

pub(super) async fn allocate(compound: &mut Compound, args: allocate::Args) -> Result<(), Status> {
    let target = compound.target(Status::IsDirectory).await?;
    opens::may_use(compound, &target, args.stateid, Access::Write).await?;
    let range = range(args)?;
    let changed = ops::allocate(&target.request, &target.object, range).await;
    compound.noted(&changed);
    changed.result.map_err(convert::status)
}

pub(super) async fn deallocate(
    compound: &mut Compound,
    args: allocate::Args,
) -> Result<(), Status> {
    let target = compound.target(Status::IsDirectory).await?;
    opens::may_use(compound, &target, args.stateid, Access::Write).await?;
    let range = range(args)?;
    let changed = ops::deallocate(&target.request, &target.object, range).await;
    compound.noted(&changed);
    changed.result.map_err(convert::status)
}

fn range(args: allocate::Args) -> Result<ByteRange, Status> {
    let range = ByteRange { offset: args.offset, length: args.length };
    range.end().map(|_| range).map_err(|_| Status::Invalid)
}

/// Checks both files of a copy, and returns the copy.
async fn both(
    compound: &Compound,
    (from_id, to_id): (Stateid, Stateid),
    (from_offset, to_offset, length): (u64, u64, u64),
) -> Result<RangeCopy, Status> {
    let (from, to) = (saved(compound)?, compound.object(Status::IsDirectory)?);
    let source = compound.target_of(from).await?;
    let target = compound.target_of(to).await?;
    source.same_export(&target).map_err(convert::status)?;
    opens::may_use(compound, &source, from_id, Access::Read).await?;
    opens::may_use(compound, &target, to_id, Access::Write).await?;
    Ok(RangeCopy { from: from.1, from_offset, to: to.1, to_offset, length })
}

pub(super) async fn clone(compound: &mut Compound, args: wire_clone::Args) -> Result<(), Status> {
    let ranges = (args.from_offset, args.to_offset, args.count);
    let copy = both(compound, (args.from, args.to), ranges).await?;
    let target = compound.target(Status::IsDirectory).await?;
    let cloned = ops::clone_range(&target.request, &copy).await;
    compound.noted(&cloned);
    cloned.result.map_err(convert::status)
}

/// COPY within the server, complete at the reply. A client that requires an asynchronous copy
/// receives a synchronous one, which RFC 7862 15.2.3 permits.
pub(super) async fn copy(
    compound: &mut Compound,
    args: wire_copy::Args<'_>,
) -> Result<wire_copy::Done, Status> {
    if !args.sources.0.is_empty() {
        return Err(Status::NotSupported);
    }
    let ranges = (args.from_offset, args.to_offset, args.count);
    let mut copy = both(compound, (args.from, args.to), ranges).await?;
    let target = compound.target(Status::IsDirectory).await?;
    let (mut count, mut verifier) = (0, None);
    while count < COPY_BYTES_MAX {
        let changed = ops::copy_range(&target.request, &copy).await;
        compound.noted(&changed);
        let done = match changed.result {
            Ok(done) => done,
            // The bytes before the error are copied, and the client continues after them.
            Err(_) if count > 0 => break,
            Err(error) => return Err(convert::status(error)),
        };
        verifier = Some(done.verifier);
        let bytes = u64::from(done.count);
        count += bytes;
        copy.from_offset += bytes;
        copy.to_offset += bytes;
        if bytes == 0 || (args.count > 0 && count >= args.count) {
            break;
        }
        copy.length = args.count.saturating_sub(count);
    }
    let response = WriteResponse {
        stateid: None,
        count,
        stability: wire::Stability::Unstable,
        verifier: WriteVerifier(verifier.map_or([0; 8], |verifier| verifier.0)),
    };
    Ok(wire_copy::Done {
        response,
        requirements: Requirements { consecutive: true, synchronous: true },
    })
}

/// IO_ADVISE: the server follows no hint.
pub(super) async fn io_advise(
    compound: &mut Compound,
    args: wire_advise::Args,
) -> Result<Bitmap, Status> {
    let target = compound.target(Status::IsDirectory).await?;
    opens::may_use(compound, &target, args.stateid, Access::Read).await?;
    Ok(Bitmap::EMPTY)
}
