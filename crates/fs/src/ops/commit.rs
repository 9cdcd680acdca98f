//! Making unstable data stable.

use super::{refused, writable};
use crate::{Caller, Changed, Committed, Export, ObjectId};

/// Puts on stable storage what was written unstably within a range, to the end of the file when
/// `length` is zero (RFC 1813 3.3.21).
pub async fn commit(
    export: &Export,
    caller: &Caller,
    object: &ObjectId,
    offset: u64,
    length: u32,
) -> Changed<Committed> {
    if let Err(error) = writable(export) {
        return refused(export, object, error).await;
    }
    export.store.commit(caller, object, offset, length).await
}
