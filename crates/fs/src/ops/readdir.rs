//! Listing a directory.

use leasehold_base::units::Cookie;

use super::Failed;
use crate::{Budget, ObjectId, Page, Request, Wanted};

/// A part of a directory, from behind `cookie` on (RFC 1813 3.3.16 and 3.3.17).
///
/// # Errors
/// [`FsError::TooSmall`](crate::FsError::TooSmall) when the budget does not hold the next entry;
/// the store's others; with the directory's attributes.
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
