//! Writing data.

use bytes::Bytes;

use super::{refused, writable};
use crate::{Changed, FsError, ObjectId, Request, Stability, WriteDone};

/// Writes data, and returns when the data is as stable as `stability` requires (RFC 1813 3.3.7).
pub async fn write(
    request: &Request<'_>,
    object: &ObjectId,
    offset: u64,
    data: Bytes,
    stability: Stability,
) -> Changed<WriteDone> {
    if let Err(error) = check(request, object, offset, data.len()) {
        return refused(request.export, object, error).await;
    }
    request.export.store.write(&request.caller, object, offset, data, stability).await
}

fn check(
    request: &Request<'_>,
    object: &ObjectId,
    offset: u64,
    length: usize,
) -> Result<(), FsError> {
    writable(request)?;
    let end = offset.checked_add(length as u64).ok_or(FsError::FileTooBig)?;
    if end > request.export.store.properties(object).file_bytes_max {
        return Err(FsError::FileTooBig);
    }
    Ok(())
}
