//! Space on a file system.

use super::Failed;
use crate::{Attributes, ObjectId, Request, Space};

/// Returns the space on the file system of an object that is available to the caller (RFC 1813
/// 3.3.18).
///
/// # Errors
/// The errors of the store, with the object's attributes.
pub async fn space(
    request: &Request<'_>,
    object: &ObjectId,
) -> Result<(Space, Attributes), Failed> {
    match request.export.store.space(&request.caller, object).await {
        Ok(space) => Ok(space),
        Err(error) => Err(Failed::new(request.export, object, error).await),
    }
}
