//! Operations on byte ranges (RFC 7862 15).

use super::{Failed, refused, writable};
use crate::{ByteRange, Changed, Content, FsError, ObjectId, RangeCopy, Request, Seek, WriteDone};

/// Returns the next offset with data or with a hole.
///
/// # Errors
/// [`FsError::NoSuchDevice`] if the offset is not below the size of the file.
pub async fn seek(
    request: &Request<'_>,
    object: &ObjectId,
    offset: u64,
    content: Content,
) -> Result<Seek, Failed> {
    let Request { export, caller, .. } = request;
    match export.store.seek(caller, object, offset, content).await {
        Ok(found) => Ok(found),
        Err(error) => Err(Failed::new(export, object, error).await),
    }
}

/// Reserves space for a range.
pub async fn allocate(request: &Request<'_>, object: &ObjectId, range: ByteRange) -> Changed<()> {
    let Request { export, caller, .. } = request;
    match must_fit(request, object, range) {
        Ok(()) => export.store.allocate(caller, object, range).await,
        Err(error) => refused(export, object, error).await,
    }
}

/// Frees the space of a range.
pub async fn deallocate(request: &Request<'_>, object: &ObjectId, range: ByteRange) -> Changed<()> {
    let Request { export, caller, .. } = request;
    match must_fit(request, object, range) {
        Ok(()) => export.store.deallocate(caller, object, range).await,
        Err(error) => refused(export, object, error).await,
    }
}

/// Makes two ranges share their data.
pub async fn clone_range(request: &Request<'_>, copy: &RangeCopy) -> Changed<()> {
    let Request { export, caller, .. } = request;
    match writable(request) {
        Ok(()) => export.store.clone_range(caller, copy).await,
        Err(error) => refused(export, &copy.to, error).await,
    }
}

/// Copies bytes, up to a limit of the store.
pub async fn copy_range(request: &Request<'_>, copy: &RangeCopy) -> Changed<WriteDone> {
    let Request { export, caller, .. } = request;
    match writable(request) {
        Ok(()) => export.store.copy_range(caller, copy).await,
        Err(error) => refused(export, &copy.to, error).await,
    }
}

fn must_fit(request: &Request<'_>, object: &ObjectId, range: ByteRange) -> Result<(), FsError> {
    writable(request)?;
    let file_bytes_max = request.export.store.properties(object).file_bytes_max;
    if range.end()? > file_bytes_max { Err(FsError::FileTooBig) } else { Ok(()) }
}
