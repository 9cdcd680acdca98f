//! The open files and directories, by the client's open ids, which are also the handles that the
//! kernel uses.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold_client::{Client, Credential, Entry, NodeId, OpenId};
use leasehold_fuse::Errno;

use crate::positions::Positions;

/// An open file or directory.
pub(crate) struct Open {
    pub(crate) id: OpenId,
    pub(crate) node: NodeId,
    /// The credential of the opening user, for reads and writes.
    pub(crate) who: Credential,
    /// True if the kernel caches pages of the data that it reads through this open file.
    pub(crate) keeps_pages: bool,
    /// The last part of the directory that the server returned.
    listed: Mutex<Option<Listed>>,
    /// The positions in a directory that programs have received.
    positions: Mutex<Positions>,
}

/// A part of a directory listing.
pub(crate) struct Listed {
    pub(crate) entries: Vec<Entry>,
    /// True if the directory has no more entries.
    pub(crate) end: bool,
    /// True if attributes were requested.
    pub(crate) plus: bool,
}

/// All open files and directories.
#[derive(Default)]
pub(crate) struct Openings(Mutex<BTreeMap<OpenId, Arc<Open>>>);

impl Open {
    pub(crate) fn new(id: OpenId, node: NodeId, who: Credential, keeps_pages: bool) -> Self {
        Self { id, node, who, keeps_pages, listed: Mutex::default(), positions: Mutex::default() }
    }

    pub(crate) fn positions(&self) -> MutexGuard<'_, Positions> {
        self.positions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn take_listed(&self) -> Option<Listed> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Stores the last part of a listing, and releases the previous part.
    pub(crate) fn keep_listed(&self, client: &Client, listed: Option<Listed>) {
        let mut kept = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *kept, listed);
        drop(kept);
        if let Some(before) = before {
            before.give_back(client);
        }
    }
}

impl Listed {
    /// Gives back the references to the objects that the kernel did not receive.
    pub(crate) fn give_back(self, client: &Client) {
        for found in self.entries.into_iter().filter_map(|entry| entry.found) {
            client.forget(found.node, 1);
        }
    }
}

impl Openings {
    pub(crate) fn insert(&self, open: Open) -> u64 {
        let number = open.id.0;
        self.table().insert(open.id, Arc::new(open));
        number
    }

    pub(crate) fn find(&self, number: u64) -> Result<Arc<Open>, Errno> {
        self.table().get(&OpenId(number)).cloned().ok_or(Errno::BADF)
    }

    pub(crate) fn remove(&self, number: u64) -> Option<Arc<Open>> {
        self.table().remove(&OpenId(number))
    }

    pub(crate) fn count(&self) -> usize {
        self.table().len()
    }

    /// Returns all open files and directories.
    pub(crate) fn all(&self) -> Vec<Arc<Open>> {
        self.table().values().cloned().collect()
    }

    fn table(&self) -> MutexGuard<'_, BTreeMap<OpenId, Arc<Open>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
