//! Several metaservers with one file system, kept consistent lazily (Avila et al. 2004, after
//! Keleher, Cox and Zwaenepoel 1992). `spec/replica.x` defines the protocol between them.
//!
//! Each object has a home, the only metaserver that stores its metadata file; other metaservers
//! have cached copies. There are nine state machines, none of which holds a metadata file.
//! [`peers`] records the peers and decides whether this metaserver may serve. [`copies`] decides
//! when a cached copy is valid, [`covers`] holds the delegable leases for client caches, and
//! [`changes`] sends changes to the home. [`search`] selects the peers to ask for a name. [`home`]
//! changes the names of objects, [`yields`] hides objects that are replaced by objects of other
//! homes, [`names`] keeps names unique, and [`moves`] prevents cycles of directories. The head of
//! each module lists its numbered rules. A tenth machine, [`epochs`], runs on iods and refuses
//! superseded metaservers. [`distances`] orders peers by distance for a search.
//!
//! Criteria in order of weight:
//! - The name space is a tree at every moment, and no failure at any time loses a file.
//! - A removed object does not reappear.
//! - No caller receives a state older than a window; if that cannot be guaranteed, the caller must
//!   retry.
//! - An access without conflicts costs no message within a window, and one message after the
//!   window.

pub mod changes;
pub mod copies;
pub mod covers;
pub mod distances;
pub mod epochs;
pub mod home;
pub mod moves;
pub mod names;
pub mod peers;
pub mod search;
pub mod yields;

use core::fmt;
use core::time::Duration;
use std::collections::BTreeMap;

use leasehold_base::units::FileId;

/// A metaserver, identified by its number on the administrator's list of metaservers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer(pub u32);

/// The version number of a change at a home. The version of a metadata file is the version number
/// of the last change to the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(pub u64);

/// A call to a peer, identified by a call id that is unique within the calling state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call(pub u64);

/// Identifies a waiting call to the owner of the state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// A directory and a name in it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The directory.
    pub directory: FileId,
    /// The name.
    pub name: Vec<u8>,
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.directory.0, self.name.escape_ascii())
    }
}

/// Time limits and size limits, which are equal at all peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The staleness bound: the time for which a cached copy is valid, and the timeout of a call
    /// that fetches a copy.
    pub window: Duration,
    /// The time after the last WRITE after which the changes are released to the home.
    pub release: Duration,
    /// The time limit for a change of a name.
    pub patience: Duration,
    /// The maximum number of entries in each table of a state machine.
    pub most: usize,
}

impl Bounds {
    /// The window equals the shortest attribute cache timeout of a client (3 s in Linux), so no
    /// client sees data older than twice the bound with a single server. A full table of copies
    /// takes about 16 MiB.
    pub const DEFAULT: Self = Self {
        window: Duration::from_secs(3),
        release: Duration::from_secs(1),
        patience: Duration::from_secs(10),
        most: 1 << 17,
    };
}

/// The number of low bits of an object id that identify the object within its range; the high bits
/// are the number of the range.
const RANGE_BITS: u32 = 48;

/// The number of ids that are reserved on stable storage at once, before the first of them is used.
const BLOCK: u64 = 4096;

/// The homes of objects: each range of object ids has one home.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Homes(BTreeMap<u64, Peer>);

impl Homes {
    /// Creates the map from ranges to homes.
    #[must_use]
    pub const fn new(ranges: BTreeMap<u64, Peer>) -> Self {
        Self(ranges)
    }

    /// Returns the home of an object; `None` if its id belongs to no range, so no home issued it.
    #[must_use]
    pub fn of(&self, object: FileId) -> Option<Peer> {
        self.0.get(&(object.0 >> RANGE_BITS)).copied()
    }
}

/// Issues the ids of a range, each once: a block of ids is reserved on stable storage before the
/// first of them is used, and a restart continues after that block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ids {
    range: u64,
    next: u64,
    stored: u64,
}

impl Ids {
    /// Creates the state that continues with the stored counter. The counter value zero is never
    /// issued.
    #[must_use]
    pub fn new(range: u64, stored: u64) -> Self {
        Self { range, next: stored.max(1), stored: stored.max(1) }
    }

    /// Returns a new object id; `None` until more ids are reserved.
    pub fn take(&mut self) -> Option<FileId> {
        let given = (self.next < self.stored).then_some(self.next)?;
        self.next += 1;
        Some(FileId(self.range << RANGE_BITS | given))
    }

    /// Returns the counter to store so that more ids are available; `None` if enough ids are
    /// reserved, or if the range is exhausted.
    #[must_use]
    pub fn to_store(&self) -> Option<u64> {
        let end = (self.stored + BLOCK).min(1 << RANGE_BITS);
        (self.stored - self.next < BLOCK / 2 && end > self.stored).then_some(end)
    }

    /// Records that the counter is on stable storage.
    pub fn stored(&mut self, stored: u64) {
        self.stored = self.stored.max(stored);
    }
}

#[cfg(test)]
mod tests;
