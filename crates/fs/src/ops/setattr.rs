//! Changing attributes.

use leasehold_base::units::FileTime;

use super::{refused, valid, writable};
use crate::{Changed, FsError, ObjectId, Request, SetAttributes};

/// Changes either all the given attributes or none; with `guard`, only if the object's change time
/// equals `guard` (RFC 1813 3.3.2).
pub async fn setattr(
    request: &Request<'_>,
    object: &ObjectId,
    changes: &SetAttributes,
    guard: Option<FileTime>,
) -> Changed<()> {
    if let Err(error) = check(request, object, changes) {
        return refused(request.export, object, error).await;
    }
    request.export.store.setattr(&request.caller, object, changes, guard).await
}

fn check(request: &Request<'_>, object: &ObjectId, changes: &SetAttributes) -> Result<(), FsError> {
    writable(request)?;
    if changes
        .size
        .is_some_and(|size| size > request.export.store.properties(object).file_bytes_max)
    {
        return Err(FsError::FileTooBig);
    }
    valid(changes)
}
