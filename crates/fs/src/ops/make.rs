//! Creating objects other than regular files.

use leasehold_base::limits::PATH_BYTES_MAX;

use super::{new_place, refused, valid};
use crate::{Changed, Found, FsError, NewNode, ObjectId, Place, Request, SetAttributes};

/// Creates a directory, symbolic link or special file (RFC 1813 3.3.9 to 3.3.11).
pub async fn make(
    request: &Request<'_>,
    directory: &ObjectId,
    name: &[u8],
    node: &NewNode<'_>,
    attributes: &SetAttributes,
) -> Changed<Found> {
    match check(request, directory, name, node, attributes) {
        Ok(place) => request.export.store.make(&request.caller, place, node, attributes).await,
        Err(error) => refused(request.export, directory, error).await,
    }
}

fn check<'a>(
    request: &Request<'_>,
    directory: &ObjectId,
    name: &'a [u8],
    node: &NewNode<'_>,
    attributes: &SetAttributes,
) -> Result<Place<'a>, FsError> {
    let place = new_place(request, directory, name)?;
    valid(attributes)?;
    match node {
        NewNode::Symlink(target) if target.is_empty() || target.contains(&0) => {
            Err(FsError::Invalid)
        }
        NewNode::Symlink(target) if target.len() >= PATH_BYTES_MAX as usize => {
            Err(FsError::NameTooLong)
        }
        NewNode::Symlink(_)
        | NewNode::Directory
        | NewNode::BlockDevice(_)
        | NewNode::CharacterDevice(_)
        | NewNode::Socket
        | NewNode::Fifo => Ok(place),
    }
}
