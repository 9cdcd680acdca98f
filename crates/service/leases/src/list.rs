//! The stable list of clients that may hold leases: admission of lease requests, and writes of the
//! list.
//!
//! A call whose client is not on the list does not fail: the call continues without a grant.
//! `core::leases::clients` has the rules of the list.

use core::time::Duration;
use std::sync::Arc;

use leasehold_base::units::Time;
use leasehold_core::leases::Client;
use leasehold_core::leases::clients::{self, Name};

use super::Leases;
use crate::effects::Effects;
use crate::registry::Registry;

/// The time for which the server replies to lease requests with a retry status while earlier calls
/// without lease enforcement still run. After this time the requests run without a grant, so that a
/// call that hangs, for example on an unreachable disk, does not delay every mount.
const DRAIN_PATIENCE: Duration = Duration::from_secs(2);

/// The permission of a call to request leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The client is on the stable list.
    Allowed,
    /// The call continues without a grant.
    Declined,
    /// The client must retry the call, because earlier calls without lease enforcement still run.
    Later,
}

/// A pending write of the stable list.
pub(super) struct ListWrite {
    number: u64,
    list: Vec<([u8; 16], u64)>,
}

/// The writes of the stable list. One write runs at a time. All changes of the list during that
/// write share the next write, so a client that sends HELLO and GOODBYE in a loop cannot fill a
/// queue of writes.
#[derive(Default)]
pub(super) struct Writes {
    /// The number of the latest write.
    number: u64,
    /// The clients that wait for the running write, each with its instance; None if no write runs.
    under_way: Option<Vec<(Name, u64)>>,
    /// The clients that wait for the next write; None if the list has not changed since the start
    /// of the last write.
    pub(super) due: Option<Vec<(Name, u64)>>,
    /// The result of a finished write (true for success) until the next step processes it.
    ended: Option<bool>,
}

impl Leases {
    /// Waits until the stable list contains the client if necessary, and returns the permission of
    /// the client's call to request leases.
    pub async fn may_ask(self: &Arc<Self>, client: Client) -> Admission {
        if let Some(admission) = self.until_drained() {
            return admission;
        }
        // The grace period of a server is one period: a client with leases obtains none while
        // clients of another protocol reclaim. Calls continue, because they conflict with no state
        // of another protocol.
        if self.common.is_for_others() {
            return Admission::Declined;
        }
        if self.admissions.is_listed(client) {
            return Admission::Allowed;
        }
        let receiver = self.register(Time::ZERO, |registry, effects| {
            let (ticket, receiver) = registry.await_list(client, &self.common)?;
            registry.step(clients::Event::Asks(client, ticket), effects);
            registry.bound_wait(ticket);
            Some(receiver)
        });
        let Some(receiver) = receiver else { return Admission::Declined };
        match receiver.await {
            Ok(true) => Admission::Allowed,
            Ok(false) | Err(_) => Admission::Declined,
        }
    }

    /// Returns the answer to a lease request while calls without lease enforcement may still run.
    fn until_drained(&self) -> Option<Admission> {
        let since = self.draining.since()?;
        let is_long = self.common.now().since(since) >= DRAIN_PATIENCE;
        Some(if is_long { Admission::Declined } else { Admission::Later })
    }

    /// Starts a write of the stable list, which may block in another thread. The callback in that
    /// thread only records the result and requests a call of `wake`: a step of the lease state
    /// machines may run work of a store, which must not run on the thread for the server's own
    /// files.
    pub(super) fn write_list(self: &Arc<Self>, write: &ListWrite) {
        let leases = Arc::clone(self);
        let done = move |is_written: bool| {
            leases.registry().writes.ended = Some(is_written);
            if let Some(post) = leases.post.get() {
                post.hurry();
            }
        };
        match &self.ledger {
            Some(ledger) => ledger.write(write.number, &write.list, Box::new(done)),
            None => done(true),
        }
        // A ledger may write synchronously and call `done` before `write` returns. An empty step
        // then processes the result.
        if self.registry().writes.ended.is_some() {
            self.register(Time::ZERO, |_, _| ());
        }
    }
}

impl Registry {
    /// Reports the result of a finished write to the clients that waited for it.
    pub(super) fn take_written(&mut self, effects: &mut Effects) {
        let Some(is_written) = self.writes.ended.take() else { return };
        for (name, instance) in self.writes.under_way.take().unwrap_or_default() {
            let event = if is_written {
                clients::Event::Listed(name, instance)
            } else {
                clients::Event::NotListed(name, instance)
            };
            self.step(event, effects);
        }
    }

    /// Returns the next write of the stable list, if a step has changed the list and no write runs.
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
