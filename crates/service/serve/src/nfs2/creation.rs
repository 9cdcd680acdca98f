//! Creating objects: CREATE, SYMLINK and MKDIR.

use leasehold_fs::{FsError, NewFile, NewNode, SetAttributes, ops};
use leasehold_wire::nfs2::{self as wire, DirectoryArgs, Found};

use super::convert::{self, type_bits};
use crate::context::Context;
use crate::procedure::Refusal;

/// CREATE. Accepts an existing file, and sets its size if the call contains a size. CREATE also
/// makes special files: the mode contains the type, and the size contains the device number. All
/// clients of version 2 follow this convention, which is not part of RFC 1094.
pub(super) async fn create(
    context: &Context,
    args: wire::create::Args<'_>,
) -> Result<Found, Refusal<()>> {
    let attributes = convert::set_attributes(&args.attributes);
    let number = args.attributes.size;
    let node = match args.attributes.mode.unwrap_or(0) & type_bits::MASK {
        0 | type_bits::REGULAR => {
            let target = context.target(&args.place.directory.0).await?;
            let name = args.place.name.0;
            let file = NewFile::Unchecked(attributes);
            let made = ops::create(&target.request, &target.object, name, &file).await;
            return Ok(convert::found(context, &target, &made.result?));
        }
        type_bits::FIFO => NewNode::Fifo,
        type_bits::SOCKET => NewNode::Socket,
        type_bits::BLOCK_DEVICE => {
            NewNode::BlockDevice(convert::unpack_device(number.unwrap_or(0)))
        }
        type_bits::CHARACTER_DEVICE => match number {
            Some(number) => NewNode::CharacterDevice(convert::unpack_device(number)),
            // Clients that have no type bits for named pipes request a named pipe as a character
            // device without a number.
            None => NewNode::Fifo,
        },
        _ => return Err(FsError::BadType.into()),
    };
    make(context, &args.place, &node, SetAttributes { size: None, ..attributes }).await
}

pub(super) async fn mkdir(
    context: &Context,
    args: wire::mkdir::Args<'_>,
) -> Result<Found, Refusal<()>> {
    let attributes = convert::set_attributes(&args.attributes);
    make(context, &args.place, &NewNode::Directory, SetAttributes { size: None, ..attributes })
        .await
}

pub(super) async fn symlink(
    context: &Context,
    args: wire::symlink::Args<'_>,
) -> Result<(), Refusal<()>> {
    let attributes = convert::set_attributes(&args.attributes);
    let node = NewNode::Symlink(args.target.0);
    make(context, &args.place, &node, SetAttributes { size: None, ..attributes }).await.map(drop)
}

async fn make(
    context: &Context,
    place: &DirectoryArgs<'_>,
    node: &NewNode<'_>,
    attributes: SetAttributes,
) -> Result<Found, Refusal<()>> {
    let target = context.target(&place.directory.0).await?;
    let name = place.name.0;
    let made = ops::make(&target.request, &target.object, name, node, &attributes).await;
    Ok(convert::found(context, &target, &made.result?))
}
