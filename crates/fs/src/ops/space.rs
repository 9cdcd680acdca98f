//! Room on a file system.

use super::Failed;
use crate::{Attributes, ObjectId, Request, Space};

/// Room on the file system of an object, as the caller may use it (RFC 1813 3.3.18).
///
/// # Errors
/// The store's, with the object's attributes.
pub async fn space(
    request: &Request<'_>,
    object: &ObjectId,
) -> Result<(Space, Attributes), Failed> {
    match request.export.store.space(&request.caller, object).await {
        Ok(space) => Ok(space),
        Err(error) => Err(Failed::new(request.export, object, error).await),
    }
}
