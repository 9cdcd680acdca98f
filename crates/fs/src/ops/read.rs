//! Reading data.

use super::Failed;
use crate::{ObjectId, ReadDone, Request};

/// Data of a file, fewer bytes than asked for only at its end (RFC 1813 3.3.6). The front end
/// bounds `count` by what its replies can hold.
///
/// # Errors
/// The store's, with the file's attributes.
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
