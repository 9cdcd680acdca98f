//! Removing names.

use super::{place, refused, writable};
use crate::{Changed, FsError, ObjectId, Place, Request};

/// Removes a name of any object except a directory (RFC 1813 3.3.12); `.` and `..` are directories.
pub async fn remove(request: &Request<'_>, directory: &ObjectId, name: &[u8]) -> Changed<()> {
    match check(request, directory, name, FsError::IsDirectory) {
        Ok(place) => request.export.store.remove(&request.caller, place).await,
        Err(error) => refused(request.export, directory, error).await,
    }
}

/// Removes an empty directory (RFC 1813 3.3.13, which specifies the errors of `.` and `..`).
pub async fn rmdir(request: &Request<'_>, directory: &ObjectId, name: &[u8]) -> Changed<()> {
    let dots = if name == b".." { FsError::AlreadyExists } else { FsError::Invalid };
    match check(request, directory, name, dots) {
        Ok(place) => request.export.store.rmdir(&request.caller, place).await,
        Err(error) => refused(request.export, directory, error).await,
    }
}

fn check<'a>(
    request: &Request<'_>,
    directory: &ObjectId,
    name: &'a [u8],
    dots: FsError,
) -> Result<Place<'a>, FsError> {
    writable(request)?;
    place(request.export, directory, name, dots)
}
