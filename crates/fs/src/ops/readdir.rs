//! Listing a directory.

use leasehold_base::units::Cookie;

use super::Failed;
use crate::{Budget, ObjectId, Page, Request, Wanted};

/// Returns the entries of a directory that follow `cookie` (RFC 1813 3.3.16 and 3.3.17).
///
/// # Errors
/// [`FsError::TooSmall`](crate::FsError::TooSmall) if the budget is too small for the next entry,
/// and the other errors of the store; with the directory's attributes.
pub async fn readdir(
    request: &Request<'_>,
    directory: &ObjectId,
    cookie: Cookie,
    budget: Budget,
    wanted: Wanted,
) -> Result<Page, Failed> {
    match request.export.store.readdir(&request.caller, directory, cookie, budget, wanted).await {
        Ok(page) => Ok(page),
        Err(error) => Err(Failed::new(request.export, directory, error).await),
    }
}
