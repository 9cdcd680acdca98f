//! What is open.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold_fuse::Errno;
use leasehold_session::Credential;
use leasehold_session::nfs::Listed;

use crate::nodes::Node;

/// An opening of a file or a directory.
pub(crate) struct Open {
    pub(crate) node: Arc<Node>,
    /// Who opened it: reads and writes go by its right.
    pub(crate) who: Credential,
    /// The part of a directory that was read last, and whether it has attributes.
    pub(crate) listed: Mutex<Option<(Listed, bool)>>,
}

/// All that is open, by the numbers that the kernel names it by.
#[derive(Default)]
pub(crate) struct Openings(Mutex<Table>);

#[derive(Default)]
struct Table {
    next: u64,
    open: BTreeMap<u64, Arc<Open>>,
}

impl Openings {
    pub(crate) fn insert(&self, node: Arc<Node>, who: Credential) -> u64 {
        node.state().open_count += 1;
        let mut table = self.table();
        let number = table.next;
        table.next += 1;
        table.open.insert(number, Arc::new(Open { node, who, listed: Mutex::default() }));
        number
    }

    pub(crate) fn find(&self, number: u64) -> Result<Arc<Open>, Errno> {
        self.table().open.get(&number).cloned().ok_or(Errno::BADF)
    }

    /// Closes; says whether it was the last opening of its node.
    pub(crate) fn remove(&self, number: u64) -> Option<(Arc<Open>, bool)> {
        let open = self.table().open.remove(&number)?;
        let mut state = open.node.state();
        state.open_count -= 1;
        let last = state.open_count == 0;
        drop(state);
        Some((open, last))
    }

    pub(crate) fn count(&self) -> usize {
        self.table().open.len()
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<(u64, Arc<Open>)> {
        self.table().open.iter().map(|(number, open)| (*number, Arc::clone(open))).collect()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
