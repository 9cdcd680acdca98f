//! Data of files: READ and WRITE.

use leasehold_base::limits::TRANSFER_V2_BYTES_MAX;
use leasehold_fs::{FsError, Stability, ops};
use leasehold_wire::nfs2 as wire;

use super::{convert, objects};
use crate::context::Context;
use crate::procedure::Refusal;

/// The largest file size that version 2 can express. Clients can neither read nor write beyond this
/// offset.
const END: u32 = u32::MAX;

/// READ. Reads a larger file up to the offset [`END`]. A read at `END` of a larger file fails,
/// because an empty result would falsely report the end of the file
/// (`docs/design/0006-statuses.md`).
pub(super) async fn read(
    context: &Context,
    args: wire::read::Args,
) -> Result<wire::read::Done, Refusal<()>> {
    let target = context.target(&args.file.0).await?;
    let count = args.count.min(TRANSFER_V2_BYTES_MAX).min(END - args.offset);
    let file = &target.object;
    let done = ops::read(&target.request, file, args.offset.into(), count).await?;
    if args.offset == END && done.attributes.size > END.into() {
        return Err(FsError::FileTooBig.into());
    }
    Ok(wire::read::Done { attributes: convert::attributes(&done.attributes), data: done.data })
}

/// WRITE. In version 2 the data of every WRITE is on stable storage before the reply (RFC 1094
/// 1.3).
pub(super) async fn write(
    context: &Context,
    args: wire::write::Args,
) -> Result<wire::Attributes, Refusal<()>> {
    let target = context.target(&args.file.0).await?;
    if args.data.len() > (END - args.offset) as usize {
        // A client that appends to a larger file takes `END` for the end of the file, and would
        // overwrite data in the middle. The server therefore refuses every write beyond `END`.
        return Err(FsError::FileTooBig.into());
    }
    let mut written = 0;
    loop {
        // A reply of version 2 cannot report a partial write. After a partial write the loop
        // therefore continues with the rest of the data, and returns the error if that write fails.
        let (offset, rest) = (u64::from(args.offset) + written as u64, args.data.slice(written..));
        let stability = Stability::FileSync;
        let changed = ops::write(&target.request, &target.object, offset, rest, stability).await;
        let (done, attributes) = objects::settled(&target, changed).await?;
        written += done.count as usize;
        if written >= args.data.len() {
            return Ok(attributes);
        }
        if done.count == 0 {
            return Err(FsError::Io.into());
        }
    }
}
