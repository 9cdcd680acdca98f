//! Writing data.

use bytes::Bytes;

use super::{refused, writable};
use crate::{Caller, Changed, Export, FsError, ObjectId, Stability, WriteDone};

/// Writes data, and makes it as stable as asked before it answers (RFC 1813 3.3.7).
pub async fn write(
    export: &Export,
    caller: &Caller,
    object: &ObjectId,
    offset: u64,
    data: Bytes,
    stability: Stability,
) -> Changed<WriteDone> {
    if let Err(error) = check(export, offset, data.len()) {
        return refused(export, object, error).await;
    }
    export.store.write(caller, object, offset, data, stability).await
}

fn check(export: &Export, offset: u64, length: usize) -> Result<(), FsError> {
    writable(export)?;
    let end = offset.checked_add(length as u64).ok_or(FsError::FileTooBig)?;
    if end > export.store.properties().file_bytes_max {
        return Err(FsError::FileTooBig);
    }
    Ok(())
}
