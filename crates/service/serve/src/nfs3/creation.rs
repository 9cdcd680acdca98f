//! Creating objects: CREATE, MKDIR, SYMLINK and MKNOD.

use leasehold_fs::{Changed, Device, Found, FsError, NewFile, NewNode, SetAttributes, ops};
use leasehold_wire::nfs3::{self as wire, DirectoryArgs, Made, Wcc};

use super::convert;
use crate::context::{Context, Target};
use crate::procedure::Refusal;

pub(super) async fn create(
    context: &Context,
    args: wire::create::Args<'_>,
) -> Result<Made, Refusal<Wcc>> {
    use wire::create::How;
    let file = match &args.how {
        How::Unchecked(attributes) => NewFile::Unchecked(convert::set_attributes(attributes)),
        How::Guarded(attributes) => NewFile::Guarded(convert::set_attributes(attributes)),
        How::Exclusive(verifier) => NewFile::exclusive(*verifier),
    };
    let target = context.target(args.place.directory.as_bytes()).await?;
    let name = args.place.name.0;
    let changed = ops::create(&target.request, &target.object, name, &file).await;
    made(context, &target, changed)
}

pub(super) async fn mkdir(
    context: &Context,
    args: wire::mkdir::Args<'_>,
) -> Result<Made, Refusal<Wcc>> {
    let attributes = convert::set_attributes(&args.attributes);
    make(context, &args.place, &NewNode::Directory, &attributes).await
}

pub(super) async fn symlink(
    context: &Context,
    args: wire::symlink::Args<'_>,
) -> Result<Made, Refusal<Wcc>> {
    let attributes = convert::set_attributes(&args.attributes);
    make(context, &args.place, &NewNode::Symlink(args.target.0), &attributes).await
}

pub(super) async fn mknod(
    context: &Context,
    args: wire::mknod::Args<'_>,
) -> Result<Made, Refusal<Wcc>> {
    use wire::mknod::Node;
    let device = |device: wire::Device| Device { major: device.major, minor: device.minor };
    let (node, attributes) = match &args.node {
        Node::BlockDevice(data) => (NewNode::BlockDevice(device(data.device)), &data.attributes),
        Node::CharacterDevice(data) => {
            (NewNode::CharacterDevice(device(data.device)), &data.attributes)
        }
        Node::Socket(attributes) => (NewNode::Socket, attributes),
        Node::Fifo(attributes) => (NewNode::Fifo, attributes),
        Node::Regular | Node::Directory | Node::Symlink => return Err(FsError::BadType.into()),
    };
    make(context, &args.place, &node, &convert::set_attributes(attributes)).await
}

async fn make(
    context: &Context,
    place: &DirectoryArgs<'_>,
    node: &NewNode<'_>,
    attributes: &SetAttributes,
) -> Result<Made, Refusal<Wcc>> {
    let target = context.target(place.directory.as_bytes()).await?;
    let name = place.name.0;
    let changed = ops::make(&target.request, &target.object, name, node, attributes).await;
    made(context, &target, changed)
}

fn made(
    context: &Context,
    directory: &Target<'_>,
    changed: Changed<Found>,
) -> Result<Made, Refusal<Wcc>> {
    let (found, wcc) = convert::settled(changed)?;
    Ok(Made {
        object: Some(convert::handle(context, directory, &found.object)),
        attributes: Some(convert::attributes(&found.attributes)),
        directory: wcc,
    })
}
