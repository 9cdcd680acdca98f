//! The restart of a server with clients of version 4: the writes of the client records, and the
//! grace period.
//!
//! Rules:
//! 1. One write of the records runs at a time. All changes during a write share the next write, so
//!    that clients that come and go in a loop cannot fill a queue of writes.
//! 2. The reply to RECLAIM_COMPLETE waits for the end of the write of the client's record, so that
//!    the next OPEN of the client succeeds. Without a stable record, the state machine of sessions
//!    refuses OPEN and LOCK.
//! 3. The grace period of the server is one period. It ends after all clients of version 4 have
//!    returned or their time has passed, and after the grace period of leases has ended. Until then
//!    neither part of the server grants state that its client does not reclaim.
//! 4. While a client may reclaim opens, REMOVE and RENAME fail with NFS4ERR_GRACE: the name may be
//!    the last name of a file that the client has open.
//!
//! Limits: with each change the server writes all records. The largest number of clients, each with
//! the longest name, makes 16 MiB. The server looks for the end of the grace period of leases once
//! a second.

use core::sync::atomic::{AtomicU8, Ordering};
use std::collections::BTreeMap;
use std::sync::Arc;

use futures_channel::oneshot;
use leasehold_base::limits::sessions::GRACE_POLL;
use leasehold_base::units::Time;
use leasehold_core::sessions::{Effect, Event, Owner, Record, Ticket};
use leasehold_wire::nfs4::Status;

use super::clients::{Clients, State};
use super::stable::stored;
use crate::events;

/// The client records, and their writes.
pub(super) struct Records {
    epoch: u64,
    records: BTreeMap<Owner, Record>,
    /// The number of the latest write.
    number: u64,
    /// The write that runs.
    running: Option<Batch>,
    /// The next write; None if the records have not changed since the start of the last write.
    due: Option<Batch>,
}

/// The changes of the records that one write makes stable.
#[derive(Default)]
pub(super) struct Batch {
    tickets: Vec<Ticket>,
    /// The calls that wait for the end of the write.
    waiting: Vec<oneshot::Sender<()>>,
}

/// A write of the records that the owner must start.
pub(super) struct Write {
    number: u64,
    stored: Vec<u8>,
}

/// The result of a write, which another thread may report.
#[derive(Default)]
pub(super) struct Outcome(AtomicU8);

impl Outcome {
    const FAILED: u8 = 1;
    const WRITTEN: u8 = 2;

    fn set(&self, is_written: bool) {
        self.0.store(if is_written { Self::WRITTEN } else { Self::FAILED }, Ordering::Release);
    }

    fn take(&self) -> Option<bool> {
        // Most calls find no result, and do not write the word that all threads read.
        if self.0.load(Ordering::Relaxed) == 0 {
            return None;
        }
        match self.0.swap(0, Ordering::Acquire) {
            Self::WRITTEN => Some(true),
            Self::FAILED => Some(false),
            _ => None,
        }
    }
}

impl Records {
    /// Creates the records of a run, which are on stable storage.
    pub(super) const fn new(epoch: u64, records: BTreeMap<Owner, Record>) -> Self {
        Self { epoch, records, number: 0, running: None, due: None }
    }

    pub(super) fn remember(&mut self, owner: Owner, record: Record, ticket: Ticket) {
        self.records.insert(owner, record);
        self.due.get_or_insert_default().tickets.push(ticket);
    }

    pub(super) fn forget(&mut self, owner: &Owner) {
        if self.records.remove(owner).is_some() {
            self.due.get_or_insert_default();
        }
    }

    /// Returns the next write, if there is a change and no write runs.
    // Rule 1.
    pub(super) fn next_write(&mut self) -> Option<Write> {
        if self.running.is_some() {
            return None;
        }
        self.running = Some(self.due.take()?);
        self.number += 1;
        Some(Write { number: self.number, stored: stored(self.epoch, &self.records) })
    }

    /// Returns a signal of the end of the last write that the records need, if there is one.
    fn end_of_write(&mut self) -> Option<oneshot::Receiver<()>> {
        let batch = self.due.as_mut().or(self.running.as_mut())?;
        let (sender, receiver) = oneshot::channel();
        batch.waiting.push(sender);
        Some(receiver)
    }
}

impl Clients {
    /// Begins the grace period, if clients may reclaim, or if clients with leases do.
    pub(super) fn begin_grace(&self, now: Time) {
        self.step(now, Event::Tick);
        let mut state = self.machine();
        if state.sessions.in_grace() {
            let clients = state.sessions.missing().count();
            state.is_grace_known = true;
            drop(state);
            self.service.leases.share_grace(true);
            self.service.observer.event(&events::Event::GraceBegan { clients });
        }
    }

    /// Ends the grace period if both parts of the server have ended theirs.
    // Rule 3.
    pub(super) fn end_grace(&self, state: &mut State, now: Time, effects: &mut Vec<Effect>) {
        if state.has_returned && !self.service.leases.is_recovering() {
            state.has_returned = false;
            state.missing = state.sessions.missing().count();
            state.sessions.step(now, Event::EndGrace, effects);
        }
    }

    /// Reports the end of the grace period, before which `missing` clients have not returned.
    pub(super) fn grace_ended(&self, missing: usize) {
        self.service.leases.share_grace(false);
        self.service.observer.event(&events::Event::GraceEnded { missing });
    }

    /// Returns the time of the next look for the end of the grace period of leases.
    pub(super) fn next_look(&self, now: Time) -> Option<Time> {
        if self.machine().has_returned { Some(now + GRACE_POLL) } else { None }
    }

    /// Starts a write of the records.
    pub(super) fn start(&self, now: Time, write: Write) {
        let Some(ledger) = &self.ledger else { return };
        let (outcome, post) = (Arc::clone(&self.outcome), Arc::clone(&self.post));
        let done = move |is_written| {
            outcome.set(is_written);
            if let Some(post) = post.get() {
                post.hurry();
            }
        };
        ledger.write(write.number, write.stored, Box::new(done));
        // A ledger may write at once.
        self.settle(now);
    }

    /// Handles the result of a finished write.
    pub(super) fn settle(&self, now: Time) {
        let Some(is_written) = self.outcome.take() else { return };
        let mut state = self.machine();
        let batch = state.records.as_mut().and_then(|records| records.running.take());
        let Batch { tickets, waiting } = batch.unwrap_or_default();
        let mut effects = Vec::new();
        for ticket in tickets {
            let event = match is_written {
                true => Event::Persisted(ticket),
                false => Event::NotPersisted(ticket),
            };
            state.sessions.step(now, event, &mut effects);
        }
        self.perform(state, now, effects);
        for waiting in waiting {
            // The send fails if the caller has ended, which needs no result.
            let _ = waiting.send(());
        }
    }

    /// Waits for the write of the records that have changed. Each client waits at most once, after
    /// its RECLAIM_COMPLETE.
    // Rule 2.
    pub(super) async fn until_recorded(&self) {
        let end = self.machine().records.as_mut().and_then(Records::end_of_write);
        if let Some(end) = end {
            // Without a sender the server has ended.
            let _ = end.await;
        }
    }

    /// Checks that an operation may remove names.
    ///
    /// # Errors
    /// [`Status::Grace`].
    // Rule 4.
    pub(super) fn may_remove_names(&self) -> Result<(), Status> {
        let may = self.machine().sessions.all_returned();
        if may { Ok(()) } else { Err(Status::Grace) }
    }
}

impl State {
    /// Begins the write of a record. A server without stable storage knows no client after a
    /// restart, so its records need no write.
    pub(super) fn remember(
        &mut self,
        now: Time,
        (owner, record, ticket): (Owner, Record, Ticket),
        effects: &mut Vec<Effect>,
    ) {
        match &mut self.records {
            Some(records) => records.remember(owner, record, ticket),
            None => self.sessions.step(now, Event::Persisted(ticket), effects),
        }
    }
}
