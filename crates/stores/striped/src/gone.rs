//! Files that another metaserver removes while this metaserver reads or writes them.
//!
//! A metaserver removes the name of a file first and the file's objects afterwards, without a lock
//! against the other metaservers. So a call at another metaserver may find the name but no object,
//! or may create an object again after its removal.
//!
//! Rules:
//! 1. If an iod reports an error, the store checks that the metafile still exists. If the metafile
//!    is gone, the client receives a stale status instead of the error; a LOOKUP or CREATE by name
//!    starts again. A CREATE that has made a new file reports success even if another metaserver
//!    has removed the file since.
//! 2. If the metafile is gone at the end of a WRITE, SETATTR or COMMIT, the store removes the
//!    objects of the file once more, since the call may have created them again.
//! 3. An object that is shorter than its known size is a hole only if the metafile still exists.

use leasehold_fs::{Changed, FsError, ObjectId};

use crate::Striped;
use crate::file::Data;

/// The maximum number of attempts of a LOOKUP or CREATE. If the file of the name is gone after each
/// attempt, the client must retry.
pub(crate) const ATTEMPTS: u32 = 8;

impl Striped {
    /// Returns true if the metafile of a file is gone.
    pub(crate) async fn is_gone(&self, object: &ObjectId) -> bool {
        self.names.getattr(object).await == Err(FsError::Stale)
    }

    /// Returns true if a call failed because its file is gone (rule 1).
    pub(crate) async fn failed_for_gone<T>(
        &self,
        object: &ObjectId,
        result: &Result<T, FsError>,
    ) -> bool {
        match result {
            Err(FsError::Stale) => true,
            Err(FsError::Io) => self.is_gone(object).await,
            Ok(_) | Err(_) => false,
        }
    }

    /// Returns the result of a call that reads a file, with a stale status if the file is gone.
    pub(crate) async fn unless_gone<T>(
        &self,
        object: &ObjectId,
        result: Result<T, FsError>,
    ) -> Result<T, FsError> {
        match self.failed_for_gone(object, &result).await {
            true => Err(FsError::Stale),
            false => result,
        }
    }

    /// Returns the result of a call that changes the data of a file, with a stale status if the
    /// file is gone.
    pub(crate) async fn changed_unless_gone<T>(
        &self,
        object: &ObjectId,
        done: Changed<T>,
    ) -> Changed<T> {
        if !self.failed_for_gone(object, &done.result).await {
            return done;
        }
        // Rule 2. Without other metaservers this is not necessary, because the removal of the
        // objects takes the lock of the file and so waits for this call.
        if self.options.shared && self.is_gone(object).await {
            let head = match &*self.file(object).read().await {
                Data::OnIods(objects) => Some(objects.head.clone()),
                Data::Nowhere | Data::Inline(_) | Data::Unknown | Data::Gone => None,
            };
            if let Some(head) = head {
                self.purge(object, head).await;
            }
        }
        Changed { result: Err(FsError::Stale), ..done }
    }
}
