//! What a file holds: READ and WRITE.

use leasehold_base::limits::TRANSFER_V2_BYTES_MAX;
use leasehold_fs::{FsError, Stability, ops};
use leasehold_wire::nfs2 as wire;

use super::{convert, objects};
use crate::context::Context;
use crate::procedure::Refusal;

/// Where a file ends for version 2, however large it is: the largest size that it has a number
/// for. What lies beyond can neither be read nor written.
const END: u32 = u32::MAX;

/// Up to the largest size all can be read of a larger file. There its end is not the end of the
/// file, and what a client takes for the end would be a lie: it is told so (`docs/design/0006-statuses.md`).
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

/// Every WRITE of version 2 is on stable storage before it is answered (RFC 1094 1.3).
pub(super) async fn write(
    context: &Context,
    args: wire::write::Args,
) -> Result<wire::Attributes, Refusal<()>> {
    let target = context.target(&args.file.0).await?;
    if args.data.len() > (END - args.offset) as usize {
        // A client that adds to the end of a larger file as it sees it would write into its middle.
        return Err(FsError::FileTooBig.into());
    }
    let mut written = 0;
    loop {
        // Only a reply of version 3 can tell that a part was written: go on, and say what is in
        // the way of the rest.
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
