//! Giving an object one more name.

use super::{attributes, new_place, refused};
use crate::{Caller, Export, Linked, ObjectId};

/// Gives an object that is no directory one more name (RFC 1813 3.3.15).
pub async fn link(
    export: &Export,
    caller: &Caller,
    object: &ObjectId,
    directory: &ObjectId,
    name: &[u8],
) -> Linked {
    match new_place(export, directory, name) {
        Ok(place) => export.store.link(caller, object, place).await,
        Err(error) => Linked {
            result: Err(error),
            attributes: attributes(export, object, error).await,
            directory: refused::<()>(export, directory, error).await.wcc,
        },
    }
}
