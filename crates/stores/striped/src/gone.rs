//! Files that another metaserver removes while this metaserver uses the files.
//!
//! A metaserver that removes a file removes its name first and its objects afterwards, and no lock
//! excludes the other metaservers. So a call of another metaserver may find the name and miss an
//! object, or may write an object again after its removal.
//!
//! Rules:
//! 1. The client receives the error of an iod only if the metafile still exists. Without the
//!    metafile the handle is stale; a LOOKUP or CREATE by name starts again, and finds the next
//!    file of the name, or none. A CREATE that finds no file has made the file, and the reply
//!    reports the new file even if the file is removed afterwards.
//! 2. A change of data that ends with a stale metafile removes the objects of the file once more,
//!    since the change may have created the objects again.
//! 3. An object that is shorter than its known size is a hole only if the metafile still exists.

use leasehold_fs::{Changed, FsError, ObjectId};

use crate::Striped;
use crate::file::Data;

/// The number of attempts of a LOOKUP or CREATE. If the file of the name changes in each attempt,
/// the client must retry.
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

    /// Returns the reply to a call that reads a file.
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

    /// Returns the reply to a call that changes the data of a file.
    pub(crate) async fn changed_unless_gone<T>(
        &self,
        object: &ObjectId,
        done: Changed<T>,
    ) -> Changed<T> {
        if !self.failed_for_gone(object, &done.result).await {
            return done;
        }
        // Rule 2. If no other metaserver exists, the removal waits for calls that use the file.
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
