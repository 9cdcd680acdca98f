//! The attributes of an object.

use crate::{Attributes, FsError, ObjectId, Request};

/// Returns the attributes of an object; needs no permission (RFC 1813 3.3.1).
///
/// # Errors
/// The errors of the store.
pub async fn getattr(request: &Request<'_>, object: &ObjectId) -> Result<Attributes, FsError> {
    request.export.store.getattr(object).await
}
