//! The capability to keep a file after the removal of its last name.

use core::fmt;

use super::Store;
use crate::{FsError, MaybeReady, ObjectId};

/// Files that stay accessible after the removal of their last name, for the opens of NFS version 4
/// (RFC 8881 18.25.4).
pub trait OpenFiles: Send + Sync {
    /// Keeps a regular file until the result is dropped: operations on the id of the file succeed
    /// even after its last name is removed. The link count is then zero, and the file cannot get a
    /// name again ([`FsError::Stale`]). Several results may keep one file. A restart of the store
    /// ends their effect. Needs no permission.
    ///
    /// # Errors
    /// [`FsError::Delay`] if the store keeps as many files as it can, [`FsError::WrongType`] for an
    /// object that is not a regular file.
    fn hold<'a>(&'a self, object: &'a ObjectId) -> MaybeReady<'a, Result<Held, FsError>>;
}

impl dyn Store + '_ {
    /// Calls [`OpenFiles::hold`]; fails with [`FsError::NotSupported`] for a store that cannot keep
    /// a file without a name.
    pub fn hold<'a>(&'a self, object: &'a ObjectId) -> MaybeReady<'a, Result<Held, FsError>> {
        match self.capabilities().open_files {
            Some(files) => files.hold(object),
            None => MaybeReady::now(Err(FsError::NotSupported)),
        }
    }
}

/// A file that the store keeps until this value is dropped.
pub struct Held(Option<Box<dyn FnOnce() + Send + Sync>>);

impl Held {
    /// Returns a value that calls `end` when it is dropped. The call must not sleep.
    pub fn until(end: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(end)))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(|end| end());
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").finish_non_exhaustive()
    }
}
