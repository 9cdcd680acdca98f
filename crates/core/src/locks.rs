//! Byte-range locks: one space of locks for NFSv4 (LOCK, LOCKT, LOCKU), NLM and local programs
//! (locks of open-file descriptions). The machine is sharded by file.
//!
//! Criteria in order of weight:
//! - Two conflicting locks never exist at the same time.
//! - A request that waits is served when the locks allow it, in the order of arrival.
//! - Work and memory for one request are bounded.
//!
//! Rules:
//! 1. A range has at least one byte and ends at 2^64 - 2, or it extends to the end of the file. A
//!    length of zero and an end behind 2^64 - 1 are invalid (RFC 8881 section 18.10.3).
//! 2. A new lock replaces the locks of its owner in the range, so that an owner upgrades,
//!    downgrades, splits and unlocks parts. Adjacent locks that are alike become one lock.
//! 3. Locks of different owners conflict if they overlap and one of them is a write lock. A
//!    conflicting request changes no lock, and its refusal names the conflicting lock with the
//!    lowest offset.
//! 4. Each byte belongs to the open under which its owner locked the byte last (RFC 8881 section
//!    9.5). The end of an open ends the locks under it, and no lock of the same owner under another
//!    open.
//! 5. A denied request that polls joins the queue of its file; its repetition keeps the place. The
//!    request leaves the queue when it is granted, when a request for the same lock that does not
//!    wait is denied (RFC 8881 section 9.6), or when it was not repeated for too long.
//! 6. When a conflicting lock has ended, the queue is served in the order of arrival. For a polling
//!    request, the range is reserved, and its owner is notified, which grants nothing (RFC 8881
//!    section 20.11). The reservation acts as a lock until its owner requests the lock or the time
//!    of the reservation has passed; then the next request is served.
//! 7. A blocking request waits until it is granted or cancelled. The owner returns an unwanted
//!    grant by an unlock.
//! 8. A blocking request is refused if its owner would wait for itself, over owners whose requests
//!    also block. Polling requests and locks of open-file descriptions are not part of the search.
//! 9. During the grace period, locks are reclaimed only, and only by clients that may reclaim.
//!    A conflicting reclaim does not wait.
//! 10. The locks of a silent client, whose lease has expired, conflict with no request: if they are
//!     the only obstacle, the client loses all its locks and is reported as expired. The waiting
//!     requests of a silent client are removed.
//! 11. The release of an owner, a client or a host ends all its locks and requests at once.
//! 12. A request that would exceed a limit is refused and changes nothing, even if it unlocks the
//!     middle of a lock. A polling request that does not fit into its queue is only denied.
//!
//! Limits: the deadlock search does not see other shards and examines at most 64 owners. Requests
//! that wait do not prevent a lock that conflicts with no other lock, so a sequence of read locks
//! can delay a write lock. Locks are advisory: the machine does not check reads and writes.

mod changes;
mod deadlock;
mod ranges;
mod waiters;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use leasehold_base::limits::state as limits;
use leasehold_base::units::{FileId, FileSystemId, Time};

pub use crate::leases::{Object, Ticket};
use crate::owners::{Client, Grace, GraceError, Name, OwnerNumber, Owners};
use ranges::{Held, Ranges};
pub use ranges::{InvalidRange, Range};
use waiters::{Queues, Stage, Waiter};

/// A host that uses NLM; the owner of the machine assigns the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Host(pub u64);

/// The program or machine to which lock-owners belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Locker {
    /// An NFSv4 client.
    Client(Client),
    /// A host that uses NLM.
    Host(Host),
    /// The server's own machine; each open-file description is an owner.
    Local,
}

/// The owner of a lock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// The program or machine.
    pub locker: Locker,
    /// The name of the owner within its program or machine.
    pub name: Name,
}

/// The kind of a lock: READ_LT or WRITE_LT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Shared with other read locks.
    Read,
    /// Exclusive.
    Write,
}

/// The number of the open under which an owner requests a lock; zero for a protocol without opens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Under(pub u64);

/// The behaviour of a request that cannot be granted at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The request is refused.
    No,
    /// The request is refused, and the client will repeat it: READW_LT and WRITEW_LT.
    Poll,
    /// The request waits for [`Effect::Granted`].
    Block(Ticket),
}

/// A request for a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The file.
    pub object: Object,
    /// The owner of the lock.
    pub owner: Owner,
    /// The open under which the lock is requested.
    pub under: Under,
    /// The range.
    pub range: Range,
    /// The kind of lock.
    pub kind: Kind,
    /// The behaviour if another lock conflicts.
    pub wait: Wait,
    /// True if the client reclaims a lock from before a restart.
    pub reclaim: bool,
    /// The state of the grace period for the client.
    pub grace: Grace,
}

/// The answer to a request that is not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The owner has the lock.
    Granted,
    /// The request waits; nlm4_blocked.
    Blocked,
}

/// A conflicting lock or reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// The owner of the conflicting lock.
    pub owner: Owner,
    /// The range of the conflicting lock.
    pub range: Range,
    /// The kind of the conflicting lock.
    pub kind: Kind,
}

/// The reason for which a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The owner would wait for itself: NFS4ERR_DEADLOCK, nlm4_deadlck.
    Deadlock,
    /// Another lock conflicts: NFS4ERR_DENIED, nlm4_denied.
    Denied(Box<Denied>),
    /// A limit is reached: NFS4ERR_DELAY, nlm4_denied_nolocks.
    Full,
    /// New locks must wait for the end of the grace period: NFS4ERR_GRACE,
    /// nlm4_denied_grace_period.
    Grace,
    /// Nothing can be reclaimed now: NFS4ERR_NO_GRACE, nlm4_denied.
    NoGrace,
    /// The client has nothing to reclaim: NFS4ERR_RECLAIM_BAD, nlm4_denied.
    ReclaimBad,
    /// Another lock conflicts with a reclaim: NFS4ERR_RECLAIM_CONFLICT, nlm4_denied.
    ReclaimConflict,
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

/// An action that the owner of the machine must perform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The silent client has lost its locks in this shard: all other state of the client is
    /// revoked as well ([`Locks::release`] in the other shards, `opens` by its event).
    Expire(Client),
    /// The blocking request has become a lock.
    Granted(Ticket),
    /// Send CB_NOTIFY_LOCK to the owner: the lock of its polling request is probably free.
    Notify(Object, Owner),
    /// The blocking request ends without a lock, because a limit is reached.
    Refused(Ticket),
}

/// The limits of one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest number of locks.
    pub locks: usize,
    /// The largest number of locks on one file.
    pub of_file: usize,
    /// The largest number of locks and waiting requests of one owner.
    pub of_owner: usize,
    /// The largest number of lock-owners.
    pub owners: usize,
    /// The largest number of waiting requests.
    pub waiters: usize,
    /// The largest number of waiting requests of one file.
    pub waiters_of_file: usize,
    /// The duration of a reservation.
    pub reservation: Duration,
    /// The time after which an unrepeated polling request leaves its queue.
    pub poll_max: Duration,
}

impl Limits {
    /// The limits of the limits table.
    pub const DEFAULT: Self = Self {
        locks: limits::LOCKS_MAX,
        of_file: limits::LOCKS_OF_FILE_MAX,
        of_owner: limits::LOCKS_OF_OWNER_MAX,
        owners: limits::OWNERS_MAX,
        waiters: limits::LOCK_WAITERS_MAX,
        waiters_of_file: limits::LOCK_WAITERS_OF_FILE_MAX,
        reservation: limits::LOCK_RESERVATION,
        poll_max: limits::LOCK_POLL_MAX,
    };
}

/// The locks of the files of one shard.
#[derive(Clone, Debug)]
pub struct Locks {
    limits: Limits,
    files: BTreeMap<Object, Ranges>,
    queues: Queues,
    owners: Owners<Owner>,
    /// The files on which each owner has locks or waiting requests.
    places: BTreeSet<(OwnerNumber, Object)>,
    silent: BTreeSet<Client>,
    locks: usize,
}

/// The maximum number of files that one step examines because time has passed.
const DUE_AT_ONCE_MAX: usize = 256;

/// The maximum number of locks with which a debug build audits the machine after each step.
const AUDITED_MAX: usize = 64;

impl Locks {
    /// Creates a machine without locks.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        Self {
            limits,
            files: BTreeMap::new(),
            queues: Queues::new(),
            owners: Owners::new(limits.owners),
            places: BTreeSet::new(),
            silent: BTreeSet::new(),
            locks: 0,
        }
    }

    /// Requests a lock (LOCK). A client that requests a lock is no longer silent.
    ///
    /// # Errors
    /// Returns a refusal if the request is not granted and does not block.
    pub fn lock(
        &mut self,
        now: Time,
        request: &Request,
        effects: &mut Vec<Effect>,
    ) -> Result<Answer, Refusal> {
        // Rule 9
        request.grace.admit(request.reclaim)?;
        if let Locker::Client(client) = request.owner.locker {
            self.silent.remove(&client);
        }
        let owner = self.owners.enter(&request.owner).ok_or(Refusal::Full)?;
        let Request { object, range, kind, under, .. } = *request;
        let wanted = Held { range, under, owner, kind };
        let mut touched = BTreeSet::new();
        let answer = match self.blocker(object, &wanted) {
            Some(blocker) => self.put_off(now, request, wanted, &blocker, &mut touched),
            None => self.take(object, wanted, &mut touched, effects).map(|()| Answer::Granted),
        };
        self.settle_owner(owner, object);
        self.serve(now, touched, effects);
        answer
    }

    /// Returns the conflicting lock with the lowest offset, if a lock conflicts (LOCKT). Locks of
    /// silent clients and reservations do not count.
    ///
    /// # Errors
    /// Returns the conflicting lock.
    pub fn test(
        &self,
        object: Object,
        owner: &Owner,
        range: Range,
        kind: Kind,
    ) -> Result<(), Denied> {
        let number = self.owners.find(owner);
        let conflict = self.hard_conflicts(object, number, range, kind).next();
        conflict.map_or(Ok(()), |held| Err(self.denied(held)))
    }

    /// Ends the owner's locks in a range (LOCKU), under whichever open they were requested.
    ///
    /// # Errors
    /// Returns [`Refusal::Full`] if the unlock would split a lock and exceed a limit.
    pub fn unlock(
        &mut self,
        now: Time,
        object: Object,
        owner: &Owner,
        range: Range,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        let Some(number) = self.owners.find(owner) else { return Ok(()) };
        self.set(object, number, range, None)?;
        self.settle_owner(number, object);
        self.serve(now, BTreeSet::from([object]), effects);
        Ok(())
    }

    /// Cancels a waiting request, and returns true if it waited (rule 7). A cancelled request is
    /// not granted; a request that was granted before the call stays granted.
    pub fn cancel(
        &mut self,
        now: Time,
        object: Object,
        owner: &Owner,
        (range, kind): (Range, Kind),
        effects: &mut Vec<Effect>,
    ) -> bool {
        let Some(number) = self.owners.find(owner) else { return false };
        let gone = self.queues.remove(object, |waiter| waiter.is_for(number, range, kind));
        self.owners.subtract(number, gone.len());
        self.settle_owner(number, object);
        self.serve(now, BTreeSet::from([object]), effects);
        !gone.is_empty()
    }

    /// Ends all locks and requests of an owner on a file (rule 11), or only those under one open
    /// (rule 4).
    pub fn release_owner(
        &mut self,
        now: Time,
        object: Object,
        owner: &Owner,
        under: Option<Under>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(number) = self.owners.find(owner) else { return };
        self.remove(object, number, under);
        self.settle_owner(number, object);
        self.serve(now, BTreeSet::from([object]), effects);
    }

    /// Ends all locks and requests of a client, a host or the local programs (rule 11).
    pub fn release(&mut self, now: Time, locker: Locker, effects: &mut Vec<Effect>) {
        if let Locker::Client(client) = locker {
            self.silent.remove(&client);
        }
        let touched = self.remove_all(locker);
        self.serve(now, touched, effects);
    }

    /// Records that the lease of a client has expired: its locks conflict softly from now on (rule
    /// 10). [`Self::release`] must follow when the client is forgotten.
    pub fn silence(&mut self, now: Time, client: Client, effects: &mut Vec<Effect>) {
        let locker = Locker::Client(client);
        let numbers = self.numbers_of(locker);
        if numbers.is_empty() {
            return;
        }
        self.silent.insert(client);
        let mut touched = BTreeSet::new();
        for number in numbers {
            for object in self.objects_of(number).collect::<Vec<_>>() {
                let gone = self.queues.remove(object, |waiter| waiter.wanted.owner == number);
                self.owners.subtract(number, gone.len());
                self.place(number, object);
                touched.insert(object);
            }
            self.owners.settle(number);
        }
        self.serve(now, touched, effects);
    }

    /// Records that a client has renewed its lease.
    pub fn heard(&mut self, client: Client) {
        self.silent.remove(&client);
    }

    /// Handles the passing of time.
    pub fn tick(&mut self, now: Time, effects: &mut Vec<Effect>) {
        let touched = self.queues.due(now).take(DUE_AT_ONCE_MAX).collect();
        self.serve(now, touched, effects);
    }

    /// Returns the next time at which the passing of time requires a call of [`Self::tick`].
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        self.queues.next_due()
    }

    /// Returns true if an owner has locks on a file that it requested under an open; the check of
    /// FREE_STATEID.
    #[must_use]
    pub fn holds(&self, object: Object, owner: &Owner, under: Under) -> bool {
        let Some(number) = self.owners.find(owner) else { return false };
        let ranges = self.files.get(&object);
        ranges.is_some_and(|ranges| {
            ranges.iter().any(|held| (held.owner, held.under) == (number, under))
        })
    }

    /// Returns the number of locks.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.locks
    }

    /// Returns true if no lock exists.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.locks == 0
    }

    /// Returns the number of requests that wait.
    #[must_use]
    pub const fn waiting(&self) -> usize {
        self.queues.len()
    }

    /// Lists all locks with their files and owners.
    pub fn holders(&self) -> impl Iterator<Item = (Object, &Owner, Range, Kind)> {
        self.files.iter().flat_map(|(object, ranges)| {
            let locks = ranges.iter();
            locks.map(|held| (*object, self.owners.key(held.owner), held.range, held.kind))
        })
    }
}

#[cfg(test)]
mod tests;
