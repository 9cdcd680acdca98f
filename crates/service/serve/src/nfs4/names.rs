//! Operations that change names: CREATE, LINK, REMOVE and RENAME.

use leasehold_fs::{Device, FileType, FsError, NewNode, ObjectId, ops};
use leasehold_wire::nfs4::{
    ChangeInfo, Name, Status, create as wire_create, rename as wire_rename,
};

use super::attribute_ops;
use super::attributes;
use super::compound::{Compound, Place};
use super::convert;
use super::handles::{name, saved};
use crate::context::Target;

pub(super) async fn create(
    compound: &mut Compound,
    args: wire_create::Args<'_>,
) -> Result<wire_create::Done, Status> {
    use wire_create::Kind;
    let (export, directory) = compound.object(Status::ReadOnly)?;
    let device =
        |device: leasehold_wire::nfs4::Device| Device { major: device.major, minor: device.minor };
    let node = match args.kind {
        Kind::Directory => NewNode::Directory,
        Kind::BlockDevice(of) => NewNode::BlockDevice(device(of)),
        Kind::CharacterDevice(of) => NewNode::CharacterDevice(device(of)),
        Kind::Symlink(path) => NewNode::Symlink(path.0),
        Kind::Socket => NewNode::Socket,
        Kind::Fifo => NewNode::Fifo,
        Kind::Other(_) => return Err(Status::BadType),
    };
    let new = name(args.name.0)?;
    let wanted =
        attribute_ops::decode(compound, &args.attributes, &attributes::settable(compound.minor))?;
    let changes = convert::set_attributes(&wanted)?;
    let target = compound.target_of((export, directory)).await?;
    let made = ops::make(&target.request, &directory, new.as_bytes(), &node, &changes).await;
    let (found, info) = compound.settled(made)?;
    compound.changed_file(&found.attributes);
    compound.go_to(Place::Object(export, found.object));
    // A size has no meaning for these objects, and the store ignores it.
    let mut set = args.attributes.mask;
    set.remove(leasehold_wire::nfs4::Attribute::Size);
    Ok(wire_create::Done { directory: info, set })
}

pub(super) async fn link(compound: &mut Compound, new: Name<'_>) -> Result<ChangeInfo, Status> {
    let object = saved(compound)?;
    let directory = compound.object(Status::CrossDevice)?;
    let new = name(new.0)?;
    let file = compound.target_of(object).await?;
    let into = compound.target_of(directory).await?;
    file.same_export(&into).map_err(convert::status)?;
    let linked = ops::link(&into.request, &object.1, &directory.1, new.as_bytes()).await;
    match linked.result {
        Ok(()) => {
            linked.attributes.iter().for_each(|file| compound.changed_file(file));
            Ok(compound.changed(&linked.directory))
        }
        Err(FsError::Invalid)
            if linked.attributes.is_some_and(|of| of.file_type == FileType::Directory) =>
        {
            Err(Status::IsDirectory)
        }
        Err(error) => Err(convert::status(error)),
    }
}

/// REMOVE of any object. The store has two operations, so the server tries the second if the first
/// reports a directory.
pub(super) async fn remove(compound: &mut Compound, old: Name<'_>) -> Result<ChangeInfo, Status> {
    let directory = compound.object(Status::ReadOnly)?;
    let old = name(old.0)?;
    compound.nfs4.may_remove_names()?;
    let target = compound.target_of(directory).await?;
    let removed = ops::remove(&target.request, &directory.1, old.as_bytes()).await;
    let removed = match removed.result {
        Err(FsError::IsDirectory) => {
            ops::rmdir(&target.request, &directory.1, old.as_bytes()).await
        }
        _ => removed,
    };
    compound.settled(removed).map(|((), info)| info)
}

pub(super) async fn rename(
    compound: &mut Compound,
    args: wire_rename::Args<'_>,
) -> Result<wire_rename::Done, Status> {
    let from = saved(compound)?;
    let to = compound.object(Status::CrossDevice)?;
    let (old, new) = (name(args.from.0)?, name(args.to.0)?);
    compound.nfs4.may_remove_names()?;
    let source = compound.target_of(from).await?;
    let target = compound.target_of(to).await?;
    source.same_export(&target).map_err(convert::status)?;
    let renamed =
        ops::rename(&target.request, (&from.1, old.as_bytes()), (&to.1, new.as_bytes())).await;
    match renamed.result {
        Ok(()) => {
            let from_info = compound.changed(&renamed.from);
            // A rename within a directory is one change.
            let to_info = match from == to {
                true => from_info,
                false => compound.changed(&renamed.to),
            };
            Ok(wire_rename::Done { from: from_info, to: to_info })
        }
        // RFC 8881 18.26.3: a name of another kind is an existing name.
        Err(FsError::IsDirectory | FsError::NotDirectory | FsError::NotEmpty)
            if is_directory(&source, &from.1).await && is_directory(&target, &to.1).await =>
        {
            Err(Status::AlreadyExists)
        }
        Err(error) => Err(convert::status(error)),
    }
}

async fn is_directory(target: &Target<'_>, object: &ObjectId) -> bool {
    let found = ops::getattr(&target.request, object).await;
    found.is_ok_and(|attributes| attributes.file_type == FileType::Directory)
}
