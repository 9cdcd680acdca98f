//! Reading and changing attributes, names and links: GETATTR, SETATTR, LOOKUP, ACCESS and READLINK.

use leasehold_base::xdr::{Encode, Writer};
use leasehold_fs::{self as fs, ops};
use leasehold_wire::nfs3::{self as wire, Wcc};

use super::{After, convert};
use crate::context::Context;
use crate::procedure::Refusal;

pub(super) async fn getattr(
    context: &Context,
    args: wire::getattr::Args,
) -> Result<wire::getattr::Done, Refusal<()>> {
    let target = context.target(args.object.as_bytes()).await?;
    let attributes = ops::getattr(&target.request, &target.object).await?;
    Ok(wire::getattr::Done { attributes: convert::attributes(&attributes) })
}

pub(crate) async fn setattr(
    context: &Context,
    args: wire::setattr::Args,
) -> Result<Wcc, Refusal<Wcc>> {
    let target = context.target(args.object.as_bytes()).await?;
    let changes = convert::set_attributes(&args.attributes);
    let guard = args.guard.map(Into::into);
    let changed = ops::setattr(&target.request, &target.object, &changes, guard).await;
    convert::settled(changed).map(|((), wcc)| wcc)
}

pub(super) async fn lookup(
    context: &Context,
    args: wire::lookup::Args<'_>,
) -> Result<wire::lookup::Done, Refusal<After>> {
    let target = context.target(args.directory.as_bytes()).await?;
    let found = ops::lookup(&target.request, &target.object, args.name.0).await?;
    Ok(wire::lookup::Done {
        object: convert::handle(context, &target, &found.object),
        attributes: Some(convert::attributes(&found.attributes)),
        directory: found.directory.as_ref().map(convert::attributes),
    })
}

pub(super) async fn access(
    context: &Context,
    args: wire::access::Args,
) -> Result<wire::access::Done, Refusal<After>> {
    let target = context.target(args.object.as_bytes()).await?;
    let wire::access::Access { read, lookup, modify, extend, delete, execute } = args.access;
    let wanted = fs::Access { read, lookup, modify, extend, delete, execute };
    let (granted, attributes) = match target.sent {
        Some(sent) => (sent.granted(wanted), None),
        None => {
            let answered = ops::access(&target.request, &target.object, wanted).await?;
            (answered.0, Some(convert::attributes(&answered.1)))
        }
    };
    let fs::Access { read, lookup, modify, extend, delete, execute } = granted;
    let access = wire::access::Access { read, lookup, modify, extend, delete, execute };
    Ok(wire::access::Done { attributes, access })
}

pub(super) async fn readlink(
    context: &Context,
    args: wire::readlink::Args,
) -> Result<Target, Refusal<After>> {
    let target = context.target(args.symlink.as_bytes()).await?;
    let (path, attributes) = ops::readlink(&target.request, &target.object).await?;
    Ok(Target { attributes: convert::attributes(&attributes), path })
}

/// The target of a symbolic link: [`wire::readlink::Done`] with an owned path.
pub(super) struct Target {
    attributes: wire::Attributes,
    path: fs::Target,
}

impl Encode for Target {
    fn encode(&self, writer: &mut Writer) {
        let Self { attributes, path } = self;
        wire::readlink::Done { attributes: Some(*attributes), target: wire::Path(path) }
            .encode(writer);
    }
}
