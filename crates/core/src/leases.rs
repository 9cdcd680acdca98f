//! Leases: caches that are never stale (Gray and Cheriton 1989; Macklem 1994). A client may cache
//! an object on which it holds a lease until the server recalls the lease or its term expires.
//!
//! There are three state machines. [`table`] runs on the server and records the leases; it is
//! sharded by file. [`clients`] also runs on the server, once for all shards; it records the
//! clients and decides when the recovery after a restart ends. [`holder`] runs on a client.
//! `spec/lease.x` defines the protocol between them. The head of each module lists its numbered
//! rules.
//!
//! Criteria in order of weight:
//! - A read under a lease returns the most recently written data, whichever client wrote it.
//! - Data that a client wrote is never lost silently, and never mixed with later writes of other
//!   clients.
//! - A crashed client delays other callers for at most one term. A slow client delays only the
//!   callers that use the same objects.
//! - A lease without conflicting requests costs memory and no work.
//!
//! The clocks of clients and server need not agree, because only intervals matter. The holder
//! counts a term from the moment when it sent the request; the server counts it from its reply,
//! plus an allowance for clocks that run at different rates.

pub mod clients;
pub mod holder;
pub mod modrevs;
pub mod table;

use core::time::Duration;

use leasehold_base::units::{FileId, FileSystemId};

/// An object on which leases are granted. The id is unique while the object exists; the leases end
/// with the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Object {
    /// The object's file system.
    pub file_system: FileSystemId,
    /// The object's file id in its file system.
    pub file: FileId,
}

/// The number by which the server identifies a client. The server never reuses a client number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Client(pub u32);

/// Identifies a waiting call to the owner of the state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// The sequence number of a lease. A later lease on an object has a greater serial, even in a later
/// epoch; a renewal keeps the serial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Serial(pub u64);

/// An object's revision: each state of the object's data or names has its own modrev, which is
/// never reused. A crash may restore an earlier state together with its modrev; a change after that
/// gets a modrev greater than every earlier one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Modrev(pub u64);

impl Modrev {
    /// Returns true if late data that was made from this state may be written to an object whose
    /// modrev is `now`. The data may not be written if the object was changed after this state. A
    /// crash that restored an earlier state also removed the changes of other clients, so a lower
    /// modrev is accepted.
    #[must_use]
    pub fn admits_late(self, now: Self) -> bool {
        now <= self
    }
}

/// The content that a lease allows its holder to cache; `Write` includes `Read`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Content read from the server.
    Read,
    /// Content read from the server, and local writes.
    Write,
}

/// The mode in which programs on a client have an object open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Open {
    /// No program has the object open.
    #[default]
    No,
    /// For reading only.
    Read,
    /// For writing.
    Write,
}

/// Time limits, which all state machines of a server share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The term that the server grants if a request specifies no term.
    pub default_term: Duration,
    /// The longest term that the server grants.
    pub longest_term: Duration,
    /// The write slack: how long the server waits for further WRITEs after the last WRITE under an
    /// expired lease. The value is a few times a client's timeout.
    pub write_slack: Duration,
    /// The longest time for which an expired lease is kept while WRITEs still arrive.
    pub slack_max: Duration,
    /// The largest relative drift between two clocks, in parts per million.
    pub drift_ppm: u32,
    /// The longest pause before the server sends an unanswered recall again.
    pub again_max: Duration,
    /// True if holders are known to return recalled leases soon, as the servers of one volume do.
    /// Then no waiting call has precedence, and no client is barred.
    pub trusts_holders: bool,
}

impl Terms {
    /// The terms of the paper, which found 30 s best on a local network and permits requests for
    /// twice this term. The drift assumes 100 ppm error of each quartz clock and 500 ppm of slewing
    /// by NTP: 1200 ppm between two clocks, plus a margin.
    pub const DEFAULT: Self = Self {
        default_term: Duration::from_secs(30),
        longest_term: Duration::from_secs(60),
        write_slack: Duration::from_secs(5),
        slack_max: Duration::from_secs(60),
        drift_ppm: 2000,
        again_max: Duration::from_secs(8),
        trusts_holders: false,
    };

    /// Returns the term that is granted for a requested term.
    fn clamp(&self, asked: Duration) -> Duration {
        if asked.is_zero() { self.default_term } else { asked.min(self.longest_term) }
    }

    /// Returns how long the server waits until a term has surely expired at its holder.
    fn waited(&self, term: Duration) -> Duration {
        term + term * self.drift_ppm / 1_000_000
    }
}

#[cfg(test)]
mod tests;
