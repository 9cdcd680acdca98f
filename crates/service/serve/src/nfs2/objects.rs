//! Reading and changing attributes, names and links: GETATTR, SETATTR, LOOKUP and READLINK.

use leasehold_base::limits::PATH_V2_BYTES_MAX;
use leasehold_base::xdr::{Encode, Writer};
use leasehold_fs::{self as fs, FsError, ops};
use leasehold_wire::nfs2 as wire;

use super::convert;
use crate::context::{Context, Target as Object};
use crate::procedure::Refusal;

pub(super) async fn getattr(
    context: &Context,
    args: wire::getattr::Args,
) -> Result<wire::Attributes, Refusal<()>> {
    let target = context.target(&args.0).await?;
    let attributes = ops::getattr(&target.request, &target.object).await?;
    Ok(convert::attributes(&attributes))
}

pub(super) async fn setattr(
    context: &Context,
    args: wire::setattr::Args,
) -> Result<wire::Attributes, Refusal<()>> {
    let target = context.target(&args.object.0).await?;
    let changes = convert::set_attributes(&args.attributes);
    let changed = ops::setattr(&target.request, &target.object, &changes, None).await;
    settled(&target, changed).await.map(|((), attributes)| attributes)
}

/// Returns the result of a change with the attributes after the change, which the replies of
/// version 2 always contain.
pub(super) async fn settled<T>(
    target: &Object<'_>,
    changed: fs::Changed<T>,
) -> Result<(T, wire::Attributes), Refusal<()>> {
    let value = changed.result?;
    let attributes = match changed.wcc.after {
        Some(attributes) => attributes,
        None => ops::getattr(&target.request, &target.object).await?,
    };
    Ok((value, convert::attributes(&attributes)))
}

pub(super) async fn lookup(
    context: &Context,
    args: wire::lookup::Args<'_>,
) -> Result<wire::Found, Refusal<()>> {
    let target = context.target(&args.directory.0).await?;
    let found = ops::lookup(&target.request, &target.object, args.name.0).await?;
    Ok(convert::found(context, &target, &found))
}

pub(super) async fn readlink(
    context: &Context,
    args: wire::readlink::Args,
) -> Result<Target, Refusal<()>> {
    let target = context.target(&args.0).await?;
    let (path, _) = ops::readlink(&target.request, &target.object).await?;
    if path.len() > PATH_V2_BYTES_MAX as usize {
        return Err(FsError::NameTooLong.into());
    }
    Ok(Target(path))
}

/// The target of a symbolic link.
pub(super) struct Target(fs::Target);

impl Encode for Target {
    fn encode(&self, writer: &mut Writer) {
        wire::Path(&self.0).encode(writer);
    }
}
