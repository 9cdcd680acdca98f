//! Reading data.

use super::Failed;
use crate::{ObjectId, ReadDone, Request};

/// Reads data of a file; returns fewer bytes than requested only at its end (RFC 1813 3.3.6). The
/// front end bounds `count` by the size of its replies.
///
/// # Errors
/// The errors of the store, with the file's attributes.
pub async fn read(
    request: &Request<'_>,
    object: &ObjectId,
    offset: u64,
    count: u32,
) -> Result<ReadDone, Failed> {
    match request.export.store.read(&request.caller, object, offset, count).await {
        Ok(done) => Ok(done),
        Err(error) => Err(Failed::new(request.export, object, error).await),
    }
}
