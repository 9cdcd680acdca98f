//! Changing names: REMOVE, RMDIR, RENAME and LINK.

use leasehold_fs::ops;
use leasehold_wire::nfs2 as wire;

use crate::context::Context;
use crate::procedure::Refusal;

pub(super) async fn remove(
    context: &Context,
    args: wire::remove::Args<'_>,
) -> Result<(), Refusal<()>> {
    let target = context.target(&args.directory.0).await?;
    let removed = ops::remove(&target.request, &target.object, args.name.0).await;
    Ok(removed.result?)
}

pub(super) async fn rmdir(
    context: &Context,
    args: wire::rmdir::Args<'_>,
) -> Result<(), Refusal<()>> {
    let target = context.target(&args.directory.0).await?;
    let removed = ops::rmdir(&target.request, &target.object, args.name.0).await;
    Ok(removed.result?)
}

pub(super) async fn rename(
    context: &Context,
    args: wire::rename::Args<'_>,
) -> Result<(), Refusal<()>> {
    let from = context.target(&args.from.directory.0).await?;
    let to = context.target(&args.to.directory.0).await?;
    from.same_export(&to)?;
    let renamed =
        ops::rename(&from.request, (&from.object, args.from.name.0), (&to.object, args.to.name.0))
            .await;
    Ok(renamed.result?)
}

pub(super) async fn link(context: &Context, args: wire::link::Args<'_>) -> Result<(), Refusal<()>> {
    let file = context.target(&args.file.0).await?;
    let directory = context.target(&args.link.directory.0).await?;
    file.same_export(&directory)?;
    let name = args.link.name.0;
    let linked = ops::link(&file.request, &file.object, &directory.object, name).await;
    Ok(linked.result?)
}
