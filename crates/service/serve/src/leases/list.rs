//! The stable list of clients that may hold leases: which calls may ask for leases, and how the list
//! is written.
//!
//! A call never fails because its client is not on the list: the call then goes on and is granted
//! nothing. The rules of the list are those of `core::leases::clients`.

use core::time::Duration;
use std::sync::Arc;

use futures_channel::oneshot;
use leasehold_base::units::Time;
use leasehold_core::leases::clients::{self, Name};
use leasehold_core::leases::{Client, Ticket};

use super::{Leases, Outs, State, Waiting, Waits};

/// How long calls that ask for leases are sent away while calls still run that passed no gate. One
/// that hangs, as on a disk that is away, must not hold up every mount.
const DRAIN_PATIENCE: Duration = Duration::from_secs(2);

/// Whether a call may ask for leases.
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
    /// Clients that wait for it, each with its instance.
    added: Vec<(Name, u64)>,
}

impl Leases {
    /// Waits until it is known whether a client may ask for leases.
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

    /// Writes the stable list where it may block, and tells the clients that wait for it.
    pub(super) fn write_list(self: &Arc<Self>, write: ListWrite) {
        let ListWrite { number, list, added } = write;
        let leases = Arc::clone(self);
        let done = move |is_written: bool| {
            if added.is_empty() {
                return;
            }
            leases.with(Time::ZERO, |state, outs| {
                for (name, instance) in added {
                    let event = if is_written {
                        clients::Event::Listed(name, instance)
                    } else {
                        clients::Event::NotListed(name, instance)
                    };
                    state.registry(event, outs);
                }
            });
        };
        match &self.ledger {
            Some(ledger) => ledger.write(number, &list, Box::new(done)),
            None => done(true),
        }
    }
}

impl State {
    /// Why no lease is granted yet, if calls may still run that passed no gate.
    fn drained(&mut self) -> Option<Admission> {
        if !self.is_draining() {
            return None;
        }
        let is_long = self.now.since(self.draining_since) >= DRAIN_PATIENCE;
        Some(if is_long { Admission::Declined } else { Admission::Later })
    }

    /// Has a call wait for the stable list; none, where too many calls wait.
    fn await_list(&mut self, client: Client) -> Option<(Ticket, oneshot::Receiver<bool>)> {
        let (sender, receiver) = oneshot::channel();
        let waiting = Waiting { object: None, waits: Waits::List(client, sender) };
        Some((self.keep_waiting(waiting).ok()?, receiver))
    }

    /// What is to be written of the stable list, where a turn has changed it.
    pub(super) fn list_to_write(&mut self, outs: &mut Outs) -> Option<ListWrite> {
        let added = outs.list.take()?;
        let list = self.list.iter().map(|(name, at)| (name.0, *at)).collect();
        self.list_number += 1;
        Some(ListWrite { number: self.list_number, list, added })
    }
}
