//! Renaming objects.

use super::{place, refused, writable};
use crate::{FsError, ObjectId, Place, Renamed, Request};

/// Renames an object atomically and replaces an object that has the new name (RFC 1813 3.3.14).
/// Neither name may be `.` or `..`.
pub async fn rename(
    request: &Request<'_>,
    from: (&ObjectId, &[u8]),
    to: (&ObjectId, &[u8]),
) -> Renamed {
    let error = match check(request, from, to) {
        Ok((from, to)) => return request.export.store.rename(&request.caller, from, to).await,
        Err(error) => error,
    };
    let from = refused::<()>(request.export, from.0, error).await.wcc;
    let to = refused::<()>(request.export, to.0, error).await.wcc;
    Renamed { result: Err(error), from, to }
}

fn check<'a>(
    request: &Request<'_>,
    from: (&ObjectId, &'a [u8]),
    to: (&ObjectId, &'a [u8]),
) -> Result<(Place<'a>, Place<'a>), FsError> {
    writable(request)?;
    Ok((
        place(request.export, from.0, from.1, FsError::Invalid)?,
        place(request.export, to.0, to.1, FsError::Invalid)?,
    ))
}
