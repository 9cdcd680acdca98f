//! The opens of NFSv4: stateids, share reservations and the stateids of byte-range locks. The
//! machine is sharded by file. It has no clock: the owner of the machine decides when a lease or
//! the grace period ends.
//!
//! Criteria in order of weight:
//! - Two conflicting share reservations never exist at the same time.
//! - A client learns of each loss of its state: a lost stateid stays known until its client
//!   acknowledges the loss.
//! - A client without a lease delays no other client.
//!
//! Rules:
//! 1. An open-owner has one open of a file, with one stateid. Each further OPEN adds its access and
//!    its denied access to the open (RFC 8881 section 9.9).
//! 2. The first stateid of a state has sequence number 1, and each change increments the number; 1
//!    follows 2^32 - 1. In a request, zero means the present number, a lower number is old, and a
//!    higher number is bad (RFC 8881 section 8.2.2).
//! 3. Two opens conflict if one denies a form of access that the other has. An OPEN that conflicts
//!    with any open is refused, also if its open-owner has the other open (RFC 8881 section 9.7).
//! 4. OPEN_DOWNGRADE reduces an open to access, and to denied access, that some of its OPENs
//!    together requested (RFC 8881 section 18.18).
//! 5. CLOSE ends the open with all locks under it, which RFC 8881 section 18.2.3 permits, so CLOSE
//!    never fails because of locks. Its reply has the invalid stateid.
//! 6. READ needs an open with read access, and WRITE and SETATTR of the size need write access; a
//!    lock stateid has the access of its open (RFC 8881 section 9.1.2).
//! 7. The anonymous stateid is refused if an open denies the access, also an open of the same
//!    client. READ with the bypass stateid ignores opens; WRITE with it is anonymous. During the
//!    grace period, both are refused.
//! 8. A stateid is bad if its client, its file or its kind differs from the request, and stale if
//!    another epoch of the server made it. Revoked state is reported before its kind is compared
//!    (RFC 8881 section 8.2.4).
//! 9. A lock-owner has one stateid for its locks under one open. The first LOCK creates it, and
//!    each LOCK and LOCKU increments its sequence number. A lock needs the same access as a READ
//!    or WRITE.
//! 10. TEST_STATEID reports the validity of a stateid of any kind. FREE_STATEID frees a lock
//!     stateid without locks and acknowledges the loss of revoked state; an open is a lock.
//! 11. During the grace period, opens are reclaimed only, and only by clients that may reclaim; an
//!     open under a delegation is permitted at any time. A reclaim that conflicts is refused.
//! 12. The opens of a silent client, whose lease has expired, conflict with no request: if they are
//!     the only obstacle, the client is reported as expired, and all its state is revoked. A
//!     request from the client ends its silence.
//! 13. Revoked state holds no share reservation and no lock. Its stateids stay known, as expired or
//!     as revoked by the administrator, until the client frees them or is forgotten.
//! 14. The machine reports the first open and the end of the last open of a file, so that the
//!     server can keep an unlinked file until its last CLOSE.
//! 15. An OPEN or a first LOCK that would exceed a limit is refused. Revoked state counts.
//!
//! The machine does not know byte ranges: `locks` has them, under the number of their open.

mod checks;
mod claims;
mod courtesy;
mod locking;
mod shares;
mod stateids;
mod states;

use std::collections::BTreeSet;

use leasehold_base::limits::state as limits;

pub use crate::leases::Object;
use crate::owners::{Client, GraceError, Name};
pub use checks::Basis;
pub use claims::{Claim, Open, Opened};
pub use locking::{LockBasis, LockOwner};
pub use shares::{Modes, Share};
pub use stateids::{Special, StateId, StateKind, StateNumber};
pub use states::Tally;
use states::{Cause, Kind, States};

/// The reason for which a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// An administrator revoked the state: NFS4ERR_ADMIN_REVOKED.
    AdminRevoked,
    /// The stateid designates no state, or a state that does not fit the request:
    /// NFS4ERR_BAD_STATEID.
    BadStateId,
    /// The state was lost when the lease expired: NFS4ERR_EXPIRED.
    Expired,
    /// A limit is reached: NFS4ERR_DELAY.
    Full,
    /// The request must wait for the end of the grace period: NFS4ERR_GRACE.
    Grace,
    /// The access is empty, or no OPEN requested it: NFS4ERR_INVAL.
    Invalid,
    /// An open denies the access: NFS4ERR_LOCKED.
    Locked,
    /// The stateid has locks: NFS4ERR_LOCKS_HELD.
    LocksHeld,
    /// Nothing can be reclaimed now: NFS4ERR_NO_GRACE.
    NoGrace,
    /// The stateid has an old sequence number: NFS4ERR_OLD_STATEID.
    OldStateId,
    /// The open does not have the access: NFS4ERR_OPENMODE.
    OpenMode,
    /// The client has nothing to reclaim: NFS4ERR_RECLAIM_BAD.
    ReclaimBad,
    /// Another open conflicts with a reclaim: NFS4ERR_RECLAIM_CONFLICT.
    ReclaimConflict,
    /// Another open conflicts: NFS4ERR_SHARE_DENIED.
    ShareDenied,
    /// An earlier epoch of the server made the stateid: NFS4ERR_STALE_STATEID in version 4.0, and
    /// NFS4ERR_BAD_STATEID in later versions (RFC 8881 section 15.1.16.5).
    StaleStateId,
}

impl From<GraceError> for Refusal {
    fn from(error: GraceError) -> Self {
        match error {
            GraceError::Grace => Self::Grace,
            GraceError::NoGrace => Self::NoGrace,
            GraceError::ReclaimBad => Self::ReclaimBad,
        }
    }
}

impl From<Cause> for Refusal {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Administrator => Self::AdminRevoked,
            Cause::Expired => Self::Expired,
        }
    }
}

/// An action that the owner of the machine must perform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The silent client has lost its state in this shard: all other state of the client is
    /// revoked as well ([`Opens::expire`] in the other shards, and the release of its locks).
    Expire(Client),
    /// The file has its first open: keep the file even if it is unlinked.
    First(Object),
    /// The last open of the file has ended.
    Last(Object),
    /// Release the locks of this lock-owner under this open.
    Unlock {
        /// The file.
        object: Object,
        /// The client of the lock-owner.
        client: Client,
        /// The lock-owner.
        owner: Name,
        /// The number of the open.
        open: StateNumber,
    },
}

/// The limits of one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest number of stateids, revoked ones included.
    pub states: usize,
    /// The largest number of stateids of one client.
    pub of_client: usize,
    /// The largest number of open-owners, and likewise of lock-owners.
    pub owners: usize,
}

impl Limits {
    /// The limits of the limits table.
    pub const DEFAULT: Self = Self {
        states: limits::STATES_MAX,
        of_client: limits::STATES_OF_CLIENT_MAX,
        owners: limits::OWNERS_MAX,
    };
}

/// The opens of the files of one shard.
#[derive(Clone, Debug)]
pub struct Opens {
    states: States,
    /// The clients whose leases have expired.
    silent: BTreeSet<Client>,
}

/// The maximum number of states with which a debug build audits the machine after each step.
const AUDITED_MAX: usize = 64;

impl Opens {
    /// Creates a machine without opens. The epoch is never zero, and grows with each start of the
    /// server.
    #[must_use]
    pub const fn new(limits: Limits, epoch: u32, shard: u8) -> Self {
        Self { states: States::new(limits, epoch, shard), silent: BTreeSet::new() }
    }

    /// Returns the union of the share reservations of a file.
    #[must_use]
    pub fn share(&self, object: Object) -> Share {
        self.states.share(object)
    }

    /// Returns the union of the share reservations that other clients have on a file, which decides
    /// if a client may have a delegation.
    #[must_use]
    pub fn share_of_others(&self, object: Object, client: Client) -> Share {
        let others = self.states.opens_on(object).filter(|(other, _)| *other != client);
        others.fold(Share::default(), |sum, (_, share)| Share {
            access: sum.access.union(share.access),
            deny: sum.deny.union(share.deny),
        })
    }

    /// Returns the numbers of states of a client in this shard.
    #[must_use]
    pub fn tally(&self, client: Client) -> Tally {
        self.states.tally(client)
    }

    /// Returns the number of stateids, revoked ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// Returns true if no stateid exists.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.states.len() == 0
    }

    /// Returns the number of opens, without revoked ones.
    #[must_use]
    pub fn opens(&self) -> usize {
        self.states.opens()
    }

    /// Returns the number of opens of a client, without revoked ones.
    #[must_use]
    pub fn opens_of(&self, client: Client) -> usize {
        self.states.of_client(client).filter(|number| self.states.has_open(*number)).count()
    }

    /// Lists the opens with their files, clients and open-owners.
    pub fn holders(&self) -> impl Iterator<Item = (Object, Client, &Name, Share)> {
        self.states.iter().filter_map(|(_, state)| match state.kind {
            Kind::Open { owner, opened } => {
                let name = self.states.open_owner(owner);
                Some((state.object, state.client, name, opened.share()))
            }
            Kind::Locks { .. } | Kind::Revoked(_) => None,
        })
    }

    /// Audits the whole state.
    ///
    /// # Panics
    /// Panics if the state is inconsistent or exceeds its limits.
    pub fn check(&self) {
        self.states.check();
        for client in &self.silent {
            assert_ne!(self.tally(*client), Tally::default(), "a silent client has state");
        }
    }

    fn audit(&self) {
        if cfg!(debug_assertions) && self.states.len() <= AUDITED_MAX {
            self.check();
        }
    }
}

#[cfg(test)]
mod tests;
