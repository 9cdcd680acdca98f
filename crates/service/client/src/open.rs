//! Open files and directories.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_core::leases;
use leasehold_session::Credential;

use crate::nodes::NodeId;

/// Identifies an open file or directory until its release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpenId(pub u64);

/// The access mode of an open file or directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenHow {
    /// Permits reads of a file, or listings of a directory.
    pub read: bool,
    /// Permits writes.
    pub write: bool,
    /// Bypasses the cache: each read goes to the server, and each write is stable when it
    /// completes.
    pub direct: bool,
    /// The program executes the file; the client then reads the data of the file, too.
    pub execute: bool,
}

impl OpenHow {
    /// Read access.
    pub const READ: Self = Self { read: true, write: false, direct: false, execute: false };

    /// Read and write access.
    pub const READ_WRITE: Self = Self { write: true, ..Self::READ };
}

#[derive(Clone, Debug)]
pub(crate) struct Open {
    pub(crate) node: NodeId,
    pub(crate) who: Credential,
    pub(crate) how: OpenHow,
    /// The number of failed saves of the file that this open file has reported, or that occurred
    /// before the open.
    pub(crate) failures_seen: u64,
    /// The cookie verifier of the directory listing.
    pub(crate) verifier: [u8; 8],
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Opens {
    opens: BTreeMap<OpenId, Open>,
    by_node: BTreeSet<(NodeId, OpenId)>,
    next: u64,
}

impl Opens {
    pub(crate) fn insert(&mut self, open: Open) -> OpenId {
        self.next += 1;
        let id = OpenId(self.next);
        self.by_node.insert((open.node, id));
        self.opens.insert(id, open);
        id
    }

    pub(crate) fn get(&self, open: OpenId) -> Option<&Open> {
        self.opens.get(&open)
    }

    /// Returns the strongest access mode of all opens of a node.
    pub(crate) fn of(&self, node: NodeId) -> leases::Open {
        let of_node = self.by_node.range((node, OpenId(0))..=(node, OpenId(u64::MAX)));
        let how = |(_, id): &(NodeId, OpenId)| match self.opens[id].how.write {
            true => leases::Open::Write,
            false => leases::Open::Read,
        };
        of_node.map(how).max().unwrap_or_default()
    }

    pub(crate) fn get_mut(&mut self, open: OpenId) -> Option<&mut Open> {
        self.opens.get_mut(&open)
    }

    pub(crate) fn remove(&mut self, open: OpenId) -> Option<Open> {
        let removed = self.opens.remove(&open)?;
        self.by_node.remove(&(removed.node, open));
        Some(removed)
    }
}
