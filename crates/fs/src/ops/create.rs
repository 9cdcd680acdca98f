//! Making regular files.

use super::{new_place, refused, valid};
use crate::{Caller, Changed, Export, Found, FsError, NewFile, ObjectId, Place};

/// Makes a regular file (RFC 1813 3.3.8).
pub async fn create(
    export: &Export,
    caller: &Caller,
    directory: &ObjectId,
    name: &[u8],
    file: &NewFile,
) -> Changed<Found> {
    match check(export, directory, name, file) {
        Ok(place) => export.store.create(caller, place, file).await,
        Err(error) => refused(export, directory, error).await,
    }
}

fn check<'a>(
    export: &Export,
    directory: &ObjectId,
    name: &'a [u8],
    file: &NewFile,
) -> Result<Place<'a>, FsError> {
    let place = new_place(export, directory, name)?;
    match file {
        NewFile::Unchecked(attributes) | NewFile::Guarded(attributes) => valid(attributes)?,
        NewFile::Exclusive(_) => {}
    }
    Ok(place)
}
