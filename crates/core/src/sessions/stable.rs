//! The stable records of clients: the clients that may reclaim state after a restart.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use leasehold_base::limits::sessions::{RECORD_RETRY_FIRST, RECORD_RETRY_MAX};
use leasehold_base::units::Time;

use super::Effect;
use super::types::{ClientId, Owner, Principal};

/// The record of a client on stable storage (RFC 8881 8.4.3). A client without a record, or with a
/// flag in its record, may not reclaim state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The principal of the client.
    pub principal: Principal,
    /// True if state of the client was revoked and the client has not acknowledged this.
    pub is_expired: bool,
    /// True if a grace period ended before the client had reclaimed its state.
    pub is_incomplete: bool,
}

/// Identifies a write of a record to the owner of the state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// The stable records, and the writes that are pending.
#[derive(Clone, Debug)]
pub(super) struct Stable {
    entries: BTreeMap<Owner, Entry>,
    /// The pending writes.
    writes: BTreeMap<Ticket, Owner>,
    next_ticket: u64,
    /// The owners whose last write failed.
    failed: BTreeSet<Owner>,
    retry: Option<Retry>,
    /// The number of waiting [`Waiter::Expelled`].
    leaving: usize,
}

#[derive(Clone, Debug)]
struct Entry {
    /// The record of the last write.
    record: Record,
    writing: Writing,
    /// The changes that wait for a write with this ticket or a later one.
    waiters: Vec<(Ticket, Waiter)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writing {
    Done,
    Failed,
    Pending(Ticket),
}

/// A change that must not happen before a record is stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiter {
    /// The client was dropped, and its state becomes void.
    Expelled(ClientId),
    /// State of the client is revoked.
    Revoked(ClientId),
}

/// The next write after a failed write.
#[derive(Clone, Copy, Debug)]
struct Retry {
    at: Time,
    pause: Duration,
}

impl Stable {
    /// Creates the state from the records on stable storage.
    pub(super) fn new(records: BTreeMap<Owner, Record>) -> Self {
        let entry = |record| Entry { record, writing: Writing::Done, waiters: Vec::new() };
        Self {
            entries: records.into_iter().map(|(owner, record)| (owner, entry(record))).collect(),
            writes: BTreeMap::new(),
            next_ticket: 1,
            failed: BTreeSet::new(),
            retry: None,
            leaving: 0,
        }
    }

    /// Lists the owners, their principals, and true if they may reclaim.
    pub(super) fn reclaimers(&self) -> impl Iterator<Item = (&Owner, &Principal)> {
        let clean = self.entries.iter().filter(|(_, entry)| entry.record.is_clean());
        clean.map(|(owner, entry)| (owner, &entry.record.principal))
    }

    /// Lists the owners with a flag in their records.
    pub(super) fn flagged(&self) -> Vec<Owner> {
        let flagged = self.entries.iter().filter(|(_, entry)| !entry.record.is_clean());
        flagged.map(|(owner, _)| owner.clone()).collect()
    }

    pub(super) fn is_listed(&self, owner: &Owner) -> bool {
        self.entries.contains_key(owner)
    }

    /// Returns true if the last record of an owner is stable.
    pub(super) fn is_stable(&self, owner: &Owner) -> bool {
        self.entries.get(owner).is_some_and(|entry| entry.writing == Writing::Done)
    }

    /// Returns the number of dropped clients whose state is not void yet.
    pub(super) const fn leaving(&self) -> usize {
        self.leaving
    }

    /// Rule 15: writes a record, unless an equal record is stable or is being written.
    pub(super) fn remember(&mut self, owner: &Owner, record: Record, effects: &mut Vec<Effect>) {
        match self.entries.get_mut(owner) {
            Some(entry) if entry.record == record && entry.writing != Writing::Failed => return,
            Some(entry) => entry.record = record,
            None => {
                let entry = Entry { record, writing: Writing::Failed, waiters: Vec::new() };
                self.entries.insert(owner.clone(), entry);
            }
        }
        self.write(owner, effects);
    }

    /// Rule 13: sets the flag of revoked state. Returns true if the flag is stable, or if the client
    /// has no record, so that the change need not wait.
    #[must_use]
    pub(super) fn mark_expired(
        &mut self,
        owner: &Owner,
        waiter: Waiter,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let Some(entry) = self.entries.get_mut(owner) else { return true };
        if entry.record.is_expired && entry.writing == Writing::Done {
            return true;
        }
        if entry.waiters.iter().any(|(_, other)| *other == waiter) {
            return false;
        }
        let needs_write = !entry.record.is_expired;
        let ticket = match entry.writing {
            Writing::Pending(ticket) if !needs_write => ticket,
            Writing::Done | Writing::Failed | Writing::Pending(_) => Ticket(self.next_ticket),
        };
        entry.record.is_expired = true;
        entry.waiters.push((ticket, waiter));
        self.leaving += usize::from(matches!(waiter, Waiter::Expelled(_)));
        if needs_write {
            self.write(owner, effects);
        }
        false
    }

    /// Rule 17: sets the flag of incomplete reclaims, and returns the ticket of the write.
    pub(super) fn mark_incomplete(
        &mut self,
        owner: &Owner,
        effects: &mut Vec<Effect>,
    ) -> Option<Ticket> {
        let entry = self.entries.get_mut(owner)?;
        entry.record.is_incomplete = true;
        Some(self.write(owner, effects))
    }

    /// Rule 13: removes the flag of revoked state, unless more state is about to be revoked.
    pub(super) fn acknowledge(
        &mut self,
        owner: &Owner,
        client: ClientId,
        effects: &mut Vec<Effect>,
    ) {
        let revokes = self.is_revoking(owner, client);
        if let Some(entry) = self.entries.get_mut(owner)
            && entry.record.is_expired
            && !revokes
        {
            entry.record.is_expired = false;
            self.write(owner, effects);
        }
    }

    /// Returns true if state of the client will be revoked after a write.
    pub(super) fn is_revoking(&self, owner: &Owner, client: ClientId) -> bool {
        let waiter = Waiter::Revoked(client);
        let waits = |entry: &Entry| entry.waiters.iter().any(|(_, other)| *other == waiter);
        self.entries.get(owner).is_some_and(waits)
    }

    /// Removes a record. A record for which changes wait is removed after the last of them.
    pub(super) fn forget(&mut self, owner: &Owner, effects: &mut Vec<Effect>) {
        if self.entries.get(owner).is_some_and(|entry| entry.waiters.is_empty()) {
            self.entries.remove(owner);
            self.failed.remove(owner);
            effects.push(Effect::Forget(owner.clone()));
        }
    }

    /// A write has ended well. Returns its owner, and the changes that waited for it.
    pub(super) fn persisted(&mut self, ticket: Ticket) -> Option<(Owner, Vec<Waiter>)> {
        let owner = self.writes.remove(&ticket)?;
        self.retry = None;
        let Some(entry) = self.entries.get_mut(&owner) else { return Some((owner, Vec::new())) };
        if entry.writing == Writing::Pending(ticket) {
            entry.writing = Writing::Done;
        }
        let (released, waiters) = entry.waiters.iter().partition(|(since, _)| *since <= ticket);
        entry.waiters = waiters;
        let released: Vec<(Ticket, Waiter)> = released;
        let released: Vec<Waiter> = released.into_iter().map(|(_, waiter)| waiter).collect();
        let left = released.iter().filter(|waiter| matches!(waiter, Waiter::Expelled(_)));
        self.leaving -= left.count();
        Some((owner, released))
    }

    /// Rule 15: a write has failed; it is repeated with pauses that double.
    pub(super) fn not_persisted(&mut self, now: Time, ticket: Ticket) {
        let Some(owner) = self.writes.remove(&ticket) else { return };
        let Some(entry) = self.entries.get_mut(&owner) else { return };
        if entry.writing == Writing::Pending(ticket) {
            entry.writing = Writing::Failed;
            self.failed.insert(owner);
        }
        let pause = match self.retry {
            Some(Retry { at, .. }) if at > now => return,
            Some(Retry { pause, .. }) => (pause * 2).min(RECORD_RETRY_MAX),
            None => RECORD_RETRY_FIRST,
        };
        self.retry = Some(Retry { at: now + pause, pause });
    }

    /// Rule 15: repeats the failed writes when their pause has passed.
    pub(super) fn write_again(&mut self, now: Time, effects: &mut Vec<Effect>) {
        if self.retry.is_none_or(|retry| retry.at <= now) {
            for owner in core::mem::take(&mut self.failed) {
                self.write(&owner, effects);
            }
        }
    }

    pub(super) fn next_wake(&self) -> Option<Time> {
        self.retry.filter(|_| !self.failed.is_empty()).map(|retry| retry.at)
    }

    fn write(&mut self, owner: &Owner, effects: &mut Vec<Effect>) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        let entry = self.entries.get_mut(owner).expect("a written record has an entry");
        entry.writing = Writing::Pending(ticket);
        self.failed.remove(owner);
        self.writes.insert(ticket, owner.clone());
        let record = entry.record.clone();
        effects.push(Effect::Remember { owner: owner.clone(), record, ticket });
        ticket
    }

    pub(super) fn check(&self) {
        let mut leaving = 0;
        for (owner, entry) in &self.entries {
            let has_failed = entry.writing == Writing::Failed;
            assert_eq!(has_failed, self.failed.contains(owner), "failed writes are repeated");
            if let Writing::Pending(ticket) = entry.writing {
                assert_eq!(self.writes.get(&ticket), Some(owner), "a pending write is known");
            }
            let waits = !entry.waiters.is_empty();
            assert!(!waits || entry.writing != Writing::Done, "a waiting change has a write");
            let expelled = entry.waiters.iter().filter(|(_, w)| matches!(w, Waiter::Expelled(_)));
            leaving += expelled.count();
        }
        assert_eq!(leaving, self.leaving, "leaving clients are counted");
    }
}

impl Record {
    /// Returns true if the client may reclaim its state after a restart.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        !self.is_expired && !self.is_incomplete
    }
}
