//! Making unstable data stable.

use super::{refused, writable};
use crate::{Changed, Committed, ObjectId, Request};

/// Makes the unstable data within a range stable, to the end of the file if `length` is zero (RFC
/// 1813 3.3.21).
pub async fn commit(
    request: &Request<'_>,
    object: &ObjectId,
    offset: u64,
    length: u32,
) -> Changed<Committed> {
    if let Err(error) = writable(request) {
        return refused(request.export, object, error).await;
    }
    request.export.store.commit(&request.caller, object, offset, length).await
}
