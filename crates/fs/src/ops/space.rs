//! Room on a file system.

use super::Failed;
use crate::{Attributes, Caller, Export, ObjectId, Space};

/// Room on the file system of an object, as the caller may use it (RFC 1813 3.3.18).
///
/// # Errors
/// The store's, with the object's attributes.
pub async fn space(
    export: &Export,
    caller: &Caller,
    object: &ObjectId,
) -> Result<(Space, Attributes), Failed> {
    match export.store.space(caller, object).await {
        Ok(space) => Ok(space),
        Err(error) => Err(Failed::new(export, object, error).await),
    }
}
