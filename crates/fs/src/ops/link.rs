//! Adding a name to an object.

use super::{attributes, new_place, refused};
use crate::{Linked, ObjectId, Request};

/// Adds a name to an object that is not a directory (RFC 1813 3.3.15).
pub async fn link(
    request: &Request<'_>,
    object: &ObjectId,
    directory: &ObjectId,
    name: &[u8],
) -> Linked {
    match new_place(request, directory, name) {
        Ok(place) => request.export.store.link(&request.caller, object, place).await,
        Err(error) => Linked {
            result: Err(error),
            attributes: attributes(request.export, object, error).await,
            directory: refused::<()>(request.export, directory, error).await.wcc,
        },
    }
}
