//! Checking a caller's access.

use super::Failed;
use crate::{Access, Attributes, ObjectId, Request};

/// Returns the subset of the wanted kinds of access that the caller has (RFC 1813 3.3.4). On a
/// read-only export the result contains no right to change anything.
///
/// # Errors
/// The errors of the store.
pub async fn access(
    request: &Request<'_>,
    object: &ObjectId,
    wanted: Access,
) -> Result<(Access, Attributes), Failed> {
    let may_change = !request.read_only;
    let wanted = Access {
        modify: wanted.modify && may_change,
        extend: wanted.extend && may_change,
        delete: wanted.delete && may_change,
        ..wanted
    };
    match request.export.store.access(&request.caller, object, wanted).await {
        Ok(granted) => Ok(granted),
        Err(error) => Err(Failed::new(request.export, object, error).await),
    }
}
