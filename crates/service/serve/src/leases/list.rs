//! The stable list of clients that may hold leases: the admission of calls that ask for leases, and
//! the writes of the list.
//!
//! A call never fails because its client is not on the list: the call then goes on and is granted
//! nothing. `core::leases::clients` has the rules of the list.

use core::time::Duration;
use std::sync::Arc;

use futures_channel::oneshot;
use leasehold_base::units::Time;
use leasehold_core::leases::clients::{self, Name};
use leasehold_core::leases::{Client, Ticket};

use super::{Leases, Outs, State, Waiting};

/// The time for which the server sends away calls that ask for leases while earlier calls that
/// passed no gate still run. A call that hangs, as on a disk that is away, must not hold up every
/// mount.
const DRAIN_PATIENCE: Duration = Duration::from_secs(2);

/// The permission of a call to ask for leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The client is on the stable list.
    Allowed,
    /// The call goes on and is granted nothing.
    Declined,
    /// The call is to be made again: the first leases are about to be granted.
    Later,
}

/// A write of the stable list that is to be done.
pub(super) struct ListWrite {
    number: u64,
    list: Vec<([u8; 16], u64)>,
}

/// The writes of the stable list. One write is under way at a time, and all changes of that time
/// become one further write: a peer that comes and goes in a loop fills no queue of writes.
#[derive(Default)]
pub(super) struct Writes {
    /// The number of the latest write.
    number: u64,
    /// The clients that wait for the write under way, each with its instance; none, where no write
    /// is under way.
    under_way: Option<Vec<(Name, u64)>>,
    /// The clients that wait for the next write; none, where the list has not changed since.
    pub(super) due: Option<Vec<(Name, u64)>>,
    /// True if the write under way has succeeded, false if it has failed, until a turn takes note.
    ended: Option<bool>,
}

impl Leases {
    /// Waits for the decision whether a client may ask for leases.
    pub(crate) async fn may_ask(self: &Arc<Self>, client: Client) -> Admission {
        let asked = self.with(Time::ZERO, |state, outs| {
            if let Some(admission) = state.drained() {
                return Err(admission);
            }
            let (ticket, receiver) = state.await_list(client).ok_or(Admission::Declined)?;
            state.registry(clients::Event::Asks(client, ticket), outs);
            state.be_patient(ticket);
            Ok(receiver)
        });
        match asked {
            Ok(receiver) => match receiver.await {
                Ok(true) => Admission::Allowed,
                Ok(false) | Err(_) => Admission::Declined,
            },
            Err(admission) => admission,
        }
    }

    /// Writes the stable list where the write may block. The writing thread only notes the outcome:
    /// a turn of the leases may end in work of a store, and a thread for the server's own files
    /// does no work of a store.
    pub(super) fn write_list(self: &Arc<Self>, write: &ListWrite) {
        let leases = Arc::clone(self);
        let done = move |is_written: bool| {
            leases.lock().writes.ended = Some(is_written);
            if let Some(post) = leases.post.get() {
                post.hurry();
            }
        };
        match &self.ledger {
            Some(ledger) => ledger.write(write.number, &write.list, Box::new(done)),
            None => done(true),
        }
        // A ledger may have written at once.
        if self.lock().writes.ended.is_some() {
            self.with(Time::ZERO, |_, _| ());
        }
    }
}

impl State {
    /// The reason why no lease is granted yet, if calls may still run that passed no gate.
    fn drained(&mut self) -> Option<Admission> {
        if !self.is_draining() {
            return None;
        }
        let is_long = self.now.since(self.draining_since) >= DRAIN_PATIENCE;
        Some(if is_long { Admission::Declined } else { Admission::Later })
    }

    /// Makes a call wait for the stable list; returns none where too many calls wait.
    fn await_list(&mut self, client: Client) -> Option<(Ticket, oneshot::Receiver<bool>)> {
        let (sender, receiver) = oneshot::channel();
        Some((self.keep_waiting(Waiting::List(client, sender)).ok()?, receiver))
    }

    /// Tells the clients that waited for a write of the stable list how the write has ended.
    pub(super) fn take_written(&mut self, outs: &mut Outs) {
        let Some(is_written) = self.writes.ended.take() else { return };
        for (name, instance) in self.writes.under_way.take().unwrap_or_default() {
            let event = if is_written {
                clients::Event::Listed(name, instance)
            } else {
                clients::Event::NotListed(name, instance)
            };
            self.registry(event, outs);
        }
    }

    /// The stable list to be written, where a turn has changed it and no write is under way.
    pub(super) fn list_to_write(&mut self) -> Option<ListWrite> {
        if self.writes.under_way.is_some() {
            return None;
        }
        self.writes.under_way = Some(self.writes.due.take()?);
        self.writes.number += 1;
        let list = self.list.iter().map(|(name, at)| (name.0, *at)).collect();
        Some(ListWrite { number: self.writes.number, list })
    }
}
