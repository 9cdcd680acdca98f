//! Exports: the stores that clients can mount.

use std::sync::Arc;

use crate::{Caller, Store};

/// The number of an export, part of every handle of its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExportId(pub u16);

/// A store that clients can mount under a name.
pub struct Export {
    /// The number of the export.
    pub id: ExportId,
    /// The name under which clients mount the export: `/name`.
    pub name: String,
    /// The absolute path of the exported directory on the server, which clients may mount as well;
    /// empty if the export has no path.
    pub path: String,
    /// True if every change, from any caller, fails with
    /// [`FsError::ReadOnly`](crate::FsError::ReadOnly).
    pub read_only: bool,
    /// The store of the exported files.
    pub store: Arc<dyn Store>,
}

impl Export {
    /// Returns the same export with another store.
    #[must_use]
    pub fn over(&self, store: Arc<dyn Store>) -> Self {
        Self {
            id: self.id,
            name: self.name.clone(),
            path: self.path.clone(),
            read_only: self.read_only,
            store,
        }
    }
}

/// The export and the caller of an operation.
#[derive(Clone)]
pub struct Request<'a> {
    /// The export.
    pub export: &'a Export,
    /// The caller, after all identity mapping and squashing.
    pub caller: Caller,
    /// True if every change fails with [`FsError::ReadOnly`](crate::FsError::ReadOnly).
    pub read_only: bool,
}
