//! Several metaservers, one file system, kept consistent lazily (Avila et al. 2004, after Keleher,
//! Cox and Zwaenepoel 1992). `spec/replica.x` has what they say to each other.
//!
//! Each object has a home, which alone has its metafile; other metaservers have copies of it. Nine
//! machines, none of which holds a metafile: [`peers`] knows who there is and whether this one may
//! serve; [`copies`] when a copy is good, [`covers`] what clients may cache of it, and [`changes`]
//! when what was changed goes to the home; [`search`] whom to ask for a name; [`home`] makes places
//! for objects, and [`yields`] gives them up for those of other homes; [`names`] keeps names apart,
//! and [`moves`] keeps directories from becoming their own ancestors. Each has its rules by number at its head. A tenth, [`epochs`], is for iods: by it they
//! refuse a metaserver that is over.
//! [`distances`] tells a search who is near.
//!
//! Criteria in order of weight:
//! - The name space is a tree at every moment, and no file is lost, whatever fails and whenever.
//! - What is gone does not come back.
//! - Nothing older than a window is shown; where that cannot be kept to, nothing is.
//! - A use that nobody disputes costs no message in a window, and one behind it.

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

/// A metaserver, by its number on the administrator's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer(pub u32);

/// Which of a home's changes; the last that was made to a metafile is its version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(pub u64);

/// A call to a peer, by a number that no other has of the machine that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call(pub u64);

/// Names something that waits, to its owner.
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

/// How long things take, and how many there may be, the same at all peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// How long a copy is good, and how long a call for one may take.
    pub window: Duration,
    /// How long after the last WRITE what was written is released.
    pub release: Duration,
    /// How long a place is tried for.
    pub patience: Duration,
    /// The most of anything that a machine remembers.
    pub most: usize,
}

impl Bounds {
    /// The window is that of a client's own cache of attributes at its shortest (3 s in Linux), so
    /// that nobody sees more than twice what one server would show; a table of copies takes about
    /// 16 MiB.
    pub const DEFAULT: Self = Self {
        window: Duration::from_secs(3),
        release: Duration::from_secs(1),
        patience: Duration::from_secs(10),
        most: 1 << 17,
    };
}

/// Bits of an id that count within its range.
const RANGE_BITS: u32 = 48;

/// Ids that are put on stable storage as given before the first of them is.
const BLOCK: u64 = 4096;

/// Who is the home of what: each range of ids has one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Homes(BTreeMap<u64, Peer>);

impl Homes {
    /// The home of each range.
    #[must_use]
    pub const fn new(ranges: BTreeMap<u64, Peer>) -> Self {
        Self(ranges)
    }

    /// The home of an object; none when its id is of no range, and so nobody gave it.
    #[must_use]
    pub fn of(&self, object: FileId) -> Option<Peer> {
        self.0.get(&(object.0 >> RANGE_BITS)).copied()
    }
}

/// Gives the ids of a range, each once: a block of them is on stable storage as given before the
/// first of it is, and a restart goes on behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ids {
    range: u64,
    next: u64,
    stored: u64,
}

impl Ids {
    /// Goes on behind what is stored; zero was never given.
    #[must_use]
    pub fn new(range: u64, stored: u64) -> Self {
        Self { range, next: stored.max(1), stored: stored.max(1) }
    }

    /// An id; none until more are stored.
    pub fn take(&mut self) -> Option<FileId> {
        let given = (self.next < self.stored).then_some(self.next)?;
        self.next += 1;
        Some(FileId(self.range << RANGE_BITS | given))
    }

    /// What is to be stored so that there are more; none when there are enough, or no more at all.
    #[must_use]
    pub fn to_store(&self) -> Option<u64> {
        let end = (self.stored + BLOCK).min(1 << RANGE_BITS);
        (self.stored - self.next < BLOCK / 2 && end > self.stored).then_some(end)
    }

    /// It is stored.
    pub fn stored(&mut self, stored: u64) {
        self.stored = self.stored.max(stored);
    }
}

#[cfg(test)]
mod tests;
