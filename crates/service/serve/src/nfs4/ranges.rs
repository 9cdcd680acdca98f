//! Operations on ranges of files (RFC 7862): SEEK, READ_PLUS, ALLOCATE, DEALLOCATE, CLONE, COPY and
//! IO_ADVISE.

use leasehold_fs::{self as fs, ByteRange, Content, FileType, FsError, RangeCopy, ops};
use leasehold_wire::list::Array;
use leasehold_wire::nfs4::read_plus::{self, Data, Segment};
use leasehold_wire::nfs4::{
    self as wire, Bitmap, Requirements, Stateid, Status, WriteResponse, WriteVerifier, allocate,
    clone as wire_clone, copy as wire_copy, io_advise as wire_advise, seek as wire_seek,
};

use super::attribute_ops;
use super::compound::Compound;
use super::convert;
use super::data;
use super::handles::saved;
use super::opens::{self, Access};
use crate::context::Target;

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

/// READ_PLUS: at most one part with data, and the holes on both sides of it. A reply may have less
/// than the client requested (RFC 7862 15.10.3).
pub(super) async fn read_plus(
    compound: &mut Compound,
    args: read_plus::Args,
) -> Result<read_plus::Done, Status> {
    let target = compound.target(Status::IsDirectory).await?;
    opens::may_use(compound, &target, args.stateid, Access::Read).await?;
    let count = data::readable(compound, &target, args.count);
    let attributes = ops::getattr(&target.request, &target.object).await;
    let fs::Attributes { file_type, size, .. } = attributes.map_err(convert::status)?;
    if file_type != FileType::Regular {
        return Err(attribute_ops::not_a_file(file_type));
    }
    let limit = args.offset.saturating_add(u64::from(count)).min(size);
    let (mut segments, mut at) = (Vec::new(), args.offset);
    at = pass_hole(&target, (at, limit), &mut segments).await?;
    if at < limit {
        let hole = next(&target, at, Content::Hole).await?.unwrap_or(limit);
        let count = u32::try_from(limit.min(hole.max(at + 1)) - at).unwrap_or(count);
        let done = ops::read(&target.request, &target.object, at, count).await;
        let done = done.map_err(|failed| attribute_ops::data_status(failed.error))?;
        let (offset, bytes) = (at, done.data.len() as u64);
        segments.push(Segment::Data(Data { offset, data: done.data }));
        at += bytes;
        if done.end || bytes < u64::from(count) {
            return Ok(read_plus::Done { end: done.end, segments: Array(segments) });
        }
        at = pass_hole(&target, (at, limit), &mut segments).await?;
    }
    Ok(read_plus::Done { end: at >= size, segments: Array(segments) })
}

/// Appends the hole at an offset, if there is one, up to a limit. Returns the offset after the hole.
async fn pass_hole(
    target: &Target<'_>,
    (offset, limit): (u64, u64),
    segments: &mut Vec<Segment>,
) -> Result<u64, Status> {
    if offset >= limit {
        return Ok(offset);
    }
    let end = next(target, offset, Content::Data).await?.unwrap_or(limit).min(limit);
    if end > offset {
        segments.push(Segment::Hole(read_plus::Hole { offset, length: end - offset }));
    }
    Ok(end.max(offset))
}

/// Returns the offset of the next content of a kind: none if the file has no more of it. A store
/// that does not find holes has only data.
async fn next(target: &Target<'_>, offset: u64, content: Content) -> Result<Option<u64>, Status> {
    match ops::seek(&target.request, &target.object, offset, content).await {
        Ok(found) => Ok((!found.end).then_some(found.offset)),
        Err(failed) if failed.error == FsError::NotSupported => {
            Ok((content == Content::Data).then_some(offset))
        }
        // The file has become shorter than the offset.
        Err(failed) if failed.error == FsError::NoSuchDevice => Ok(None),
        Err(failed) => Err(convert::status(failed.error)),
    }
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
