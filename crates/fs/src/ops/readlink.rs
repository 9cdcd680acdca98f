//! Reading symbolic links.

use super::Failed;
use crate::{Attributes, ObjectId, Request, Target};

/// Returns the target of a symbolic link unchanged (RFC 1813 3.3.5); the server never follows the
/// link.
///
/// # Errors
/// [`FsError::Invalid`](crate::FsError::Invalid) for an object of another kind, and the errors of
/// the store.
pub async fn readlink(
    request: &Request<'_>,
    object: &ObjectId,
) -> Result<(Target, Attributes), Failed> {
    match request.export.store.readlink(&request.caller, object).await {
        Ok(target) => Ok(target),
        Err(error) => Err(Failed::new(request.export, object, error).await),
    }
}
