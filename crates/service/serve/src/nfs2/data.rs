//! What a file holds: READ and WRITE.

use leasehold_base::limits::TRANSFER_V2_BYTES_MAX;
use leasehold_fs::{Stability, ops};
use leasehold_wire::nfs2 as wire;

use super::{convert, objects};
use crate::context::Context;
use crate::procedure::Refusal;

pub(super) async fn read(
    context: &Context,
    args: wire::read::Args,
) -> Result<wire::read::Done, Refusal<()>> {
    let target = context.target(&args.file.0)?;
    let count = args.count.min(TRANSFER_V2_BYTES_MAX);
    let (caller, file) = (&context.caller, &target.object);
    let done = ops::read(target.export, caller, file, args.offset.into(), count).await?;
    Ok(wire::read::Done { attributes: convert::attributes(&done.attributes), data: done.data })
}

/// Every WRITE of version 2 is on stable storage before it is answered (RFC 1094 1.3).
pub(super) async fn write(
    context: &Context,
    args: wire::write::Args,
) -> Result<wire::Attributes, Refusal<()>> {
    let target = context.target(&args.file.0)?;
    let changed = ops::write(
        target.export,
        &context.caller,
        &target.object,
        args.offset.into(),
        args.data,
        Stability::FileSync,
    )
    .await;
    objects::settled(&target, changed).await.map(|(_, attributes)| attributes)
}
