//! What is offered to clients.

use std::sync::Arc;

use crate::{Caller, Store};

/// The number of an export, part of every handle of its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExportId(pub u16);

/// A store that is offered to clients under a name.
pub struct Export {
    /// Its number.
    pub id: ExportId,
    /// Its name, as clients mount it: `/name`.
    pub name: String,
    /// Its absolute path on the server, which clients may mount as well; empty where it has none.
    pub path: String,
    /// Whether every change is refused with [`FsError::ReadOnly`](crate::FsError::ReadOnly), whoever
    /// asks.
    pub read_only: bool,
    /// Where its files lie.
    pub store: Arc<dyn Store>,
}

impl Export {
    /// The same export over another store.
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

/// On whose behalf and in which export an operation is done.
#[derive(Clone)]
pub struct Request<'a> {
    /// The export.
    pub export: &'a Export,
    /// Who asks, after all mapping.
    pub caller: Caller,
    /// Whether every change is refused with [`FsError::ReadOnly`](crate::FsError::ReadOnly).
    pub read_only: bool,
}
