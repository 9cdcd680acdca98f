//! What a caller may do.

use super::Failed;
use crate::{Access, Attributes, ObjectId, Request};

/// Which of the wanted kinds of access the caller has (RFC 1813 3.3.4); none that changes
/// anything where the export is read-only.
///
/// # Errors
/// The store's.
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
