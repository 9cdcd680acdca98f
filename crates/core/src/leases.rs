//! Leases: caches that are never stale (Gray and Cheriton 1989; Macklem 1994). A client may cache
//! what it has a lease on, until the server evicts it or the lease's term is over.
//!
//! Three machines: [`table`] is the server's and knows who holds what, sharded by file; [`clients`]
//! is the server's too, one for all shards, and knows who there is and what a restart has to wait
//! for; [`holder`] is a client's. `spec/lease.x` has what they say to each other, and
//! each has its rules by number at its head.
//!
//! Criteria in order of weight:
//! - What is read under a lease is what was last written, by whomever.
//! - What a client wrote is never lost silently, and never mixed with what others wrote since.
//! - A client that is gone holds nobody up for longer than a term, and one that is slow holds
//!   nobody up who has nothing to do with it.
//! - A lease that nobody disputes costs memory and no work.
//!
//! Only differences of time count: a term runs from when the client sent its request to when the
//! server has counted it from its answer, and an allowance for clocks that differ in rate.

pub mod clients;
pub mod holder;
pub mod modrevs;
pub mod table;

use core::time::Duration;

use leasehold_base::units::{FileId, FileSystemId};

/// An object that leases are about. It is unique while it exists; when it is gone its leases are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Object {
    /// Its file system.
    pub file_system: FileSystemId,
    /// Its number in there.
    pub file: FileId,
}

/// A client, as the server numbers those that it knows; no number is given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Client(pub u32);

/// Names something that waits, to its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// The number of a lease. A later lease on an object has a greater one, also in a later epoch; a
/// renewal keeps it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Serial(pub u64);

/// An object's revision: a state of its data or names has one of its own for ever. A crash may
/// bring an earlier state back, with its modrev; what changes from there gets a greater modrev than
/// any there was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Modrev(pub u64);

impl Modrev {
    /// Whether data that was made from this state, and comes after its lease is over, may be put
    /// into an object with the modrev `now`. It may not if the object was changed since; a crash
    /// that took the object back to an earlier state took changes of others with it.
    #[must_use]
    pub fn admits_late(self, now: Self) -> bool {
        now <= self
    }
}

/// What a lease allows to be cached; the later includes the earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// What was read.
    Read,
    /// What was written, too.
    Write,
}

/// How programs of a client have an object open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Open {
    /// Not at all.
    #[default]
    No,
    /// For reading only.
    Read,
    /// For writing.
    Write,
}

/// How long things take, the same for all machines of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The term of who asks for none.
    pub default_term: Duration,
    /// The longest term.
    pub longest_term: Duration,
    /// How long after the last WRITE more are waited for: some times a client's patience.
    pub write_slack: Duration,
    /// How long leases that are over are waited out at most while WRITEs still come.
    pub slack_max: Duration,
    /// How differently two clocks may run, in millionths.
    pub drift_ppm: u32,
    /// How long it takes at most until what is wanted back is asked for again.
    pub again_max: Duration,
    /// True if holders are known to give recalled leases back soon, as the servers of one volume
    /// do: then no call that waits has precedence, and no client is barred.
    pub trusts_holders: bool,
}

impl Terms {
    /// The paper's terms, which found 30 s best on a local network and let twice that be asked for.
    /// Of clocks it believes that each is off by 100 millionths as quartz is, and is slewed by
    /// another 500 as NTP does it: 1200 between two, and some more.
    pub const DEFAULT: Self = Self {
        default_term: Duration::from_secs(30),
        longest_term: Duration::from_secs(60),
        write_slack: Duration::from_secs(5),
        slack_max: Duration::from_secs(60),
        drift_ppm: 2000,
        again_max: Duration::from_secs(8),
        trusts_holders: false,
    };

    /// The term that is granted to who asks for this one.
    fn clamp(&self, asked: Duration) -> Duration {
        if asked.is_zero() { self.default_term } else { asked.min(self.longest_term) }
    }

    /// How long the server waits a term out.
    fn waited(&self, term: Duration) -> Duration {
        term + term * self.drift_ppm / 1_000_000
    }
}

#[cfg(test)]
mod tests;
