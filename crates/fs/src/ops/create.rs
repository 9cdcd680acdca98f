//! Creating regular files.

use super::{new_place, refused, valid};
use crate::{Changed, Found, FsError, NewFile, ObjectId, Place, Request};

/// Creates a regular file (RFC 1813 3.3.8).
pub async fn create(
    request: &Request<'_>,
    directory: &ObjectId,
    name: &[u8],
    file: &NewFile,
) -> Changed<Found> {
    match check(request, directory, name, file) {
        Ok(place) => request.export.store.create(&request.caller, place, file).await,
        Err(error) => refused(request.export, directory, error).await,
    }
}

fn check<'a>(
    request: &Request<'_>,
    directory: &ObjectId,
    name: &'a [u8],
    file: &NewFile,
) -> Result<Place<'a>, FsError> {
    let place = new_place(request, directory, name)?;
    match file {
        NewFile::Unchecked(attributes) | NewFile::Guarded(attributes) => valid(attributes)?,
        NewFile::Exclusive { attributes, .. } => {
            valid(attributes)?;
            // A new file is empty, and a retry must not change the size of the file.
            if attributes.size.is_some_and(|size| size > 0) {
                return Err(FsError::Invalid);
            }
        }
    }
    Ok(place)
}
