//! The attributes of an object.

use crate::{Attributes, Export, FsError, ObjectId};

/// The attributes of an object; needs no permission (RFC 1813 3.3.1).
///
/// # Errors
/// The store's.
pub async fn getattr(export: &Export, object: &ObjectId) -> Result<Attributes, FsError> {
    export.store.getattr(object).await
}
