//! Removing names.

use super::{place, refused, writable};
use crate::{Caller, Changed, Export, FsError, ObjectId, Place};

/// Removes a name of anything but a directory (RFC 1813 3.3.12); `.` and `..` are directories.
pub async fn remove(
    export: &Export,
    caller: &Caller,
    directory: &ObjectId,
    name: &[u8],
) -> Changed<()> {
    match check(export, directory, name, FsError::IsDirectory) {
        Ok(place) => export.store.remove(caller, place).await,
        Err(error) => refused(export, directory, error).await,
    }
}

/// Removes an empty directory (RFC 1813 3.3.13, which names the errors of `.` and `..`).
pub async fn rmdir(
    export: &Export,
    caller: &Caller,
    directory: &ObjectId,
    name: &[u8],
) -> Changed<()> {
    let dots = if name == b".." { FsError::AlreadyExists } else { FsError::Invalid };
    match check(export, directory, name, dots) {
        Ok(place) => export.store.rmdir(caller, place).await,
        Err(error) => refused(export, directory, error).await,
    }
}

fn check<'a>(
    export: &Export,
    directory: &ObjectId,
    name: &'a [u8],
    dots: FsError,
) -> Result<Place<'a>, FsError> {
    writable(export)?;
    place(export, directory, name, dots)
}
