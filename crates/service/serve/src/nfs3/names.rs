//! Changing names: REMOVE, RMDIR, RENAME and LINK.

use leasehold_fs::ops;
use leasehold_wire::nfs3::{self as wire, Wcc};

use super::convert;
use crate::context::Context;
use crate::procedure::Refusal;

pub(super) async fn remove(
    context: &Context,
    args: wire::remove::Args<'_>,
) -> Result<Wcc, Refusal<Wcc>> {
    let target = context.target(args.directory.as_bytes()).await?;
    let changed = ops::remove(&target.request, &target.object, args.name.0).await;
    convert::settled(changed).map(|((), wcc)| wcc)
}

pub(super) async fn rmdir(
    context: &Context,
    args: wire::rmdir::Args<'_>,
) -> Result<Wcc, Refusal<Wcc>> {
    let target = context.target(args.directory.as_bytes()).await?;
    let changed = ops::rmdir(&target.request, &target.object, args.name.0).await;
    convert::settled(changed).map(|((), wcc)| wcc)
}

pub(super) async fn rename(
    context: &Context,
    args: wire::rename::Args<'_>,
) -> Result<wire::rename::Done, Refusal<wire::rename::Done>> {
    let from = context.target(args.from.directory.as_bytes()).await?;
    let to = context.target(args.to.directory.as_bytes()).await?;
    from.same_export(&to)?;
    let renamed =
        ops::rename(&from.request, (&from.object, args.from.name.0), (&to.object, args.to.name.0))
            .await;
    let results =
        wire::rename::Done { from: convert::wcc(&renamed.from), to: convert::wcc(&renamed.to) };
    match renamed.result {
        Ok(()) => Ok(results),
        Err(error) => Err(Refusal { error, results }),
    }
}

pub(super) async fn link(
    context: &Context,
    args: wire::link::Args<'_>,
) -> Result<wire::link::Done, Refusal<wire::link::Done>> {
    let file = context.target(args.file.as_bytes()).await?;
    let directory = context.target(args.link.directory.as_bytes()).await?;
    file.same_export(&directory)?;
    let name = args.link.name.0;
    let linked = ops::link(&file.request, &file.object, &directory.object, name).await;
    let results = wire::link::Done {
        attributes: linked.attributes.as_ref().map(convert::attributes),
        directory: convert::wcc(&linked.directory),
    };
    match linked.result {
        Ok(()) => Ok(results),
        Err(error) => Err(Refusal { error, results }),
    }
}
