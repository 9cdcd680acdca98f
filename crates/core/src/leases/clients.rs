//! The clients of a server, and the recovery after a restart.
//!
//! Rules:
//! 1. A client registers by a HELLO call with its name and its instance. A HELLO with a greater
//!    instance voids all leases of the client's earlier instance; the server refuses a HELLO with a
//!    lesser instance.
//! 2. The server writes a client to the stable list before it grants the client a first lease: the
//!    lease requests of the client wait for that write. (a) If the owner gives up a call that waits
//!    for the write, the call proceeds without a lease, and later calls of the client do not wait
//!    for this write. (b) If the write fails, waiting and later calls proceed without a lease until
//!    a write succeeds. The server retries the write with pauses that double. One write of the list
//!    includes all clients that wait to be listed.
//! 3. The server forgets a client that sends GOODBYE, or that an administrator removes, and takes
//!    the client off the list.
//! 4. The server also forgets a client that has sent no call for so long that all leases of the
//!    client have expired.
//! 5. A server that starts with an empty list needs no recovery.
//! 6. Otherwise it recovers in two phases. First it waits until each client on the list has
//!    reclaimed its leases, has called with a greater instance, or is gone or forgotten; or until
//!    the longest term and the allowance for drift have passed since the start. Then it waits until
//!    each client has written back late data; or until the write slack has passed since that time
//!    limit of the first phase and since the last WRITE of late data, which extends the wait by at
//!    most `slack_max`.
//! 7. During recovery, only clients on the list are admitted.
//! 8. The server refuses a call that names another epoch than the server's epoch.
//! 9. A client of instance zero (a client of NQNFS) has no memory of a restart: it reclaims
//!    nothing, and the server waits only for its late data.
//!
//! The stable list contains names and instances. A client is removed from it only after all its
//! leases have ended, so a list with too many clients only lengthens the recovery after a restart.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use leasehold_base::units::Time;

use super::{Client, Terms, Ticket};

/// The identity of a client: bytes that no other client has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(pub [u8; 16]);

/// An event for the list of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A client identifies itself by its name and instance.
    Hello(Name, u64),
    /// A client requests leases in a call. The call waits for [`Effect::Proceed`] or
    /// [`Effect::Decline`].
    Asks(Client, Ticket),
    /// The client is on the stable list with this instance, as [`Effect::List`] requested.
    Listed(Name, u64),
    /// The list could not be written with this client and instance ([`Effect::List`]).
    NotListed(Name, u64),
    /// The owner of a call that waits for the list gave the call up.
    GivenUp(Ticket, Client),
    /// A client has reclaimed all leases from before the start.
    Reclaimed(Client),
    /// A client has written back all changes from before the start.
    Recovered(Client),
    /// A WRITE of late data was served during recovery.
    Wrote,
    /// A client has gone, or an administrator removed it.
    Gone(Name),
    /// Time has passed.
    Tick,
}

/// An action that the owner of this state machine must perform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The server accepts the HELLO and identifies the client by this client number.
    Welcome(Name, Client),
    /// The server refuses the HELLO, because it knows this greater instance of the client.
    Superseded(Name, u64),
    /// Write the client and its instance to the stable list; [`Event::Listed`] follows.
    List(Name, u64),
    /// Remove the client from the stable list; the removal is not urgent.
    Unlist(Name),
    /// The call may request leases.
    Proceed(Ticket),
    /// The call proceeds and is granted no lease.
    Decline(Ticket),
    /// All leases of the client are void.
    Forget(Client),
    /// All leases of the previous epoch are reclaimed or have expired.
    Reclaimed,
    /// The recovery has ended.
    Open,
}

/// The reason for which a call is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The call names another epoch. The value is the epoch of the server.
    Epoch(u64),
    /// The call names another instance than the current one. The value is the current instance.
    Instance(u64),
    /// The server does not know the client: the client must send HELLO.
    Unknown,
    /// The server is recovering, and the client is not on the stable list: the client must retry
    /// later.
    Later,
}

/// The clients of a server.
#[derive(Clone, Debug)]
pub struct Clients {
    terms: Terms,
    epoch: u64,
    known: BTreeMap<Name, Known>,
    names: BTreeMap<Client, Name>,
    /// For each known client, the time at which the server checks if the client has been silent for
    /// too long (rule 4).
    idle: BTreeSet<(Time, Name)>,
    recovery: Option<Recovery>,
    /// Clients that requested leases while the list could not be written.
    unlisted: BTreeSet<Name>,
    /// The next write of the list, if the last one failed.
    retry: Option<Retry>,
    next_client: u32,
    #[cfg(feature = "mutants")]
    ignores_epochs: bool,
}

#[derive(Clone, Debug)]
struct Known {
    client: Client,
    instance: u64,
    /// The time of the client's last call.
    heard: Time,
    /// The time of the client's entry in the set `Clients::idle`.
    idle: Time,
    listing: Listing,
}

/// The state of a client with respect to the stable list.
#[derive(Clone, Debug)]
enum Listing {
    No,
    /// A write of the list with the client is pending.
    Asked {
        waiting: Vec<Ticket>,
        /// True if later calls do not wait for this write, because the owner gave up a waiting call
        /// or because the previous write failed (rule 2).
        slow: bool,
    },
    /// The list could not be written; the client is in the set `Clients::unlisted`.
    Failed,
    Yes,
}

/// The next write of the list after a failed write.
#[derive(Clone, Copy, Debug)]
struct Retry {
    at: Time,
    pause: Duration,
}

/// The pause between the first failed write of the list and the next write.
const RETRY_FIRST: Duration = Duration::from_secs(1);

/// The longest pause between a failed write of the list and the next write. A write is cheap,
/// because the list is a small file, and after an operator frees disk space, clients expect leases
/// soon.
const RETRY_MAX: Duration = Duration::from_secs(16);

#[derive(Clone, Debug)]
struct Recovery {
    /// The clients that have not recovered, with their instances.
    missing: BTreeMap<Name, u64>,
    /// The clients that may still reclaim; `None` when the time for reclaims has ended.
    reclaiming: Option<BTreeSet<Name>>,
    /// The time at which all leases of the previous epoch have expired.
    end: Time,
    /// The time of the last WRITE of late data.
    last_write: Time,
}

impl Clients {
    /// Creates the state of a server that starts a new epoch with the stable list.
    #[must_use]
    pub fn new(now: Time, terms: Terms, epoch: u64, list: BTreeMap<Name, u64>) -> Self {
        let end = now + terms.waited(terms.longest_term);
        // Rule 5: if the list is empty, no client can hold a lease of an earlier epoch, so the
        // server needs no recovery.
        let recovery = (!list.is_empty()).then(|| Recovery {
            // Rule 9: a client of instance zero reclaims no leases, so the server does not wait for
            // it here.
            reclaiming: Some(
                list.iter().filter(|(_, at)| **at != 0).map(|(name, _)| *name).collect(),
            ),
            missing: list,
            end,
            last_write: now,
        });
        Self {
            terms,
            epoch,
            known: BTreeMap::new(),
            names: BTreeMap::new(),
            idle: BTreeSet::new(),
            recovery,
            unlisted: BTreeSet::new(),
            retry: None,
            next_client: 1,
            #[cfg(feature = "mutants")]
            ignores_epochs: false,
        }
    }

    /// Injects a fault: calls of every epoch are accepted, and a client that calls counts as
    /// recovered.
    #[cfg(feature = "mutants")]
    pub const fn ignore_epochs(&mut self) {
        self.ignores_epochs = true;
    }

    /// Handles one event, and appends the resulting actions in order.
    pub fn step(&mut self, now: Time, event: Event, effects: &mut Vec<Effect>) {
        match event {
            Event::Hello(name, instance) => self.hello(now, name, instance, effects),
            Event::Asks(client, ticket) => self.asks(client, ticket, effects),
            Event::Listed(name, instance) => {
                self.retry = None;
                self.written(name, instance, Listing::Yes, effects);
            }
            Event::NotListed(name, instance) => {
                self.put_off(now);
                self.written(name, instance, Listing::Failed, effects);
            }
            Event::GivenUp(ticket, client) => self.give_up(ticket, client, effects),
            Event::Reclaimed(client) => {
                if let (Some(name), Some(Recovery { reclaiming: Some(names), .. })) =
                    (self.names.get(&client), &mut self.recovery)
                {
                    names.remove(name);
                }
            }
            Event::Recovered(client) => {
                if let (Some(recovery), Some(name)) = (&mut self.recovery, self.names.get(&client))
                {
                    recovery.missing.remove(name);
                }
            }
            Event::Wrote => {
                self.recovery.iter_mut().for_each(|recovery| recovery.last_write = now);
            }
            Event::Gone(name) => self.gone(name, effects),
            Event::Tick => {}
        }
        self.recover(now, effects);
        self.drop_idle(now, effects);
        self.list_again(now, effects);
        if cfg!(debug_assertions) {
            self.check();
        }
    }

    /// Returns the client of a call with this name, instance and epoch, and records that it called
    /// now.
    ///
    /// # Errors
    /// Returns a refusal if the call must have no effect.
    pub fn admit(
        &mut self,
        now: Time,
        (name, instance): (Name, u64),
        epoch: u64,
    ) -> Result<Client, Refusal> {
        #[cfg(feature = "mutants")]
        if self.ignores_epochs && !self.known.contains_key(&name) {
            self.hello(now, name, instance, &mut Vec::new());
            self.expect_no_more(name);
        }
        let is_of_epoch = epoch == self.epoch;
        #[cfg(feature = "mutants")]
        let is_of_epoch = is_of_epoch || self.ignores_epochs;
        // Rule 8: the server refuses a call of another epoch, because the client's leases belong to
        // that epoch.
        if !is_of_epoch {
            return Err(Refusal::Epoch(self.epoch));
        }
        let known = self.known.get_mut(&name).ok_or(Refusal::Unknown)?;
        if known.instance != instance {
            return Err(Refusal::Instance(known.instance));
        }
        known.heard = now;
        // Rule 7: a client that is not on the list must retry after the recovery.
        if self.recovery.is_some() && !matches!(known.listing, Listing::Yes) {
            return Err(Refusal::Later);
        }
        Ok(known.client)
    }

    /// Returns the next time at which a client has been silent for too long, the recovery may end,
    /// or the list must be written again.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        let idle = self.idle.first().map(|(time, _)| *time);
        idle.into_iter()
            .chain(self.recovery.as_ref().map(|recovery| recovery.next_wake(&self.terms)))
            .chain(self.retry.filter(|_| !self.unlisted.is_empty()).map(|retry| retry.at))
            .min()
    }

    /// Returns the epoch.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Lists the clients that have not recovered; `None` if the server is not recovering.
    #[must_use]
    pub fn missing(&self) -> Option<impl Iterator<Item = Name> + '_> {
        self.recovery.as_ref().map(|recovery| recovery.missing.keys().copied())
    }

    /// Returns true if no client is known and the server is not recovering.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty() && self.recovery.is_none()
    }

    /// Returns the number of clients that requested leases and are granted none because the list
    /// could not be written.
    #[must_use]
    pub fn unlisted(&self) -> usize {
        self.unlisted.len()
    }

    /// Returns the name of a client.
    #[must_use]
    pub fn name(&self, client: Client) -> Option<Name> {
        self.names.get(&client).copied()
    }

    /// Audits the whole state.
    ///
    /// # Panics
    /// Panics if the state is inconsistent.
    pub fn check(&self) {
        assert_eq!(self.known.len(), self.names.len(), "each client has a number");
        assert_eq!(self.known.len(), self.idle.len(), "each client has an idle time");
        for (name, known) in &self.known {
            assert_eq!(self.names.get(&known.client), Some(name));
            assert!(self.idle.contains(&(known.idle, *name)));
            let has_failed = matches!(known.listing, Listing::Failed);
            assert_eq!(has_failed, self.unlisted.contains(name), "unlisted clients are known");
        }
        assert!(self.unlisted.len() <= self.known.len(), "each unlisted client is known");
    }

    fn hello(&mut self, now: Time, name: Name, instance: u64, effects: &mut Vec<Effect>) {
        let listed = self.recovery.as_ref().and_then(|recovery| recovery.missing.get(&name));
        let was = self.known.get(&name).map(|known| known.instance).or(listed.copied());
        // Rule 1: the server refuses a HELLO with a lesser instance, because a later instance of
        // the client exists.
        if let Some(was) = was.filter(|was| *was > instance) {
            effects.push(Effect::Superseded(name, was));
            return;
        }
        if let Some(known) = self.known.get_mut(&name).filter(|known| known.instance == instance) {
            known.heard = now;
            effects.push(Effect::Welcome(name, known.client));
            return;
        }
        // If the list has a lesser instance, the client counts as unlisted: after another restart
        // the server would otherwise accept the lesser instance as the current one.
        let listing = if listed == Some(&instance) { Listing::Yes } else { Listing::No };
        // Rule 1: a HELLO with a greater instance voids all leases of the client's earlier
        // instance.
        if was.is_some_and(|was| was < instance) {
            self.expect_no_more(name);
            self.drop_known(name, effects);
        }
        let client = Client(self.next_client);
        self.next_client += 1;
        let idle = now + self.idle_max();
        self.known.insert(name, Known { client, instance, heard: now, idle, listing });
        self.names.insert(client, name);
        self.idle.insert((idle, name));
        effects.push(Effect::Welcome(name, client));
    }

    fn asks(&mut self, client: Client, ticket: Ticket, effects: &mut Vec<Effect>) {
        let name = self.names.get(&client);
        let Some((name, known)) = name.and_then(|name| Some((*name, self.known.get_mut(name)?)))
        else {
            effects.push(Effect::Proceed(ticket));
            return;
        };
        match &mut known.listing {
            Listing::Yes => effects.push(Effect::Proceed(ticket)),
            Listing::Asked { slow: true, .. } | Listing::Failed => {
                effects.push(Effect::Decline(ticket));
            }
            Listing::Asked { waiting, slow: false } => waiting.push(ticket),
            Listing::No if self.retry.is_some() => {
                known.listing = Listing::Failed;
                self.unlisted.insert(name);
                effects.push(Effect::Decline(ticket));
            }
            Listing::No => {
                known.listing = Listing::Asked { waiting: vec![ticket], slow: false };
                effects.push(Effect::List(name, known.instance));
            }
        }
    }

    /// Rule 2: a write of the list for a client has ended.
    fn written(&mut self, name: Name, instance: u64, now: Listing, effects: &mut Vec<Effect>) {
        let known = self.known.get_mut(&name).filter(|known| known.instance == instance);
        if let Some(known) = known
            && matches!(known.listing, Listing::Asked { .. })
        {
            let is_listed = matches!(now, Listing::Yes);
            let Listing::Asked { waiting, .. } = core::mem::replace(&mut known.listing, now) else {
                return;
            };
            if is_listed {
                effects.extend(waiting.into_iter().map(Effect::Proceed));
            } else {
                self.unlisted.insert(name);
                effects.extend(waiting.into_iter().map(Effect::Decline));
            }
        }
    }

    /// Rule 2b: schedules the next write; the pauses double. A failed write may be reported once
    /// for each of several clients, so only the first report doubles the pause.
    fn put_off(&mut self, now: Time) {
        let pause = match self.retry {
            Some(Retry { at, .. }) if at > now => return,
            Some(Retry { pause, .. }) => (pause * 2).min(RETRY_MAX),
            None => RETRY_FIRST,
        };
        self.retry = Some(Retry { at: now + pause, pause });
    }

    /// Rule 2b: requests another write of the list, with all clients that requested leases and are
    /// not listed.
    fn list_again(&mut self, now: Time, effects: &mut Vec<Effect>) {
        if self.unlisted.is_empty() || self.retry.is_some_and(|retry| retry.at > now) {
            return;
        }
        for name in core::mem::take(&mut self.unlisted) {
            if let Some(known) = self.known.get_mut(&name) {
                // Calls that arrive during this write do not wait for it, because it may fail
                // again.
                known.listing = Listing::Asked { waiting: Vec::new(), slow: true };
                effects.push(Effect::List(name, known.instance));
            }
        }
    }

    /// Rule 2a: lets a waiting call that its owner gave up proceed without a lease.
    fn give_up(&mut self, ticket: Ticket, client: Client, effects: &mut Vec<Effect>) {
        let known = self.names.get(&client).and_then(|name| self.known.get_mut(name));
        if let Some(Known { listing: Listing::Asked { waiting, slow }, .. }) = known
            && let Some(at) = waiting.iter().position(|other| *other == ticket)
        {
            waiting.swap_remove(at);
            *slow = true;
            effects.push(Effect::Decline(ticket));
        }
    }

    /// Rule 3: forgets a client that has sent GOODBYE or that an administrator has removed, and
    /// takes the client off the list.
    fn gone(&mut self, name: Name, effects: &mut Vec<Effect>) {
        self.expect_no_more(name);
        self.drop_known(name, effects);
        effects.push(Effect::Unlist(name));
    }

    /// Stops the recovery from waiting for this client.
    fn expect_no_more(&mut self, name: Name) {
        if let Some(recovery) = &mut self.recovery {
            recovery.missing.remove(&name);
            recovery.reclaiming.iter_mut().for_each(|names| {
                names.remove(&name);
            });
        }
    }

    fn drop_known(&mut self, name: Name, effects: &mut Vec<Effect>) {
        if let Some(Known { client, idle, listing, .. }) = self.known.remove(&name) {
            self.names.remove(&client);
            self.idle.remove(&(idle, name));
            self.unlisted.remove(&name);
            if let Listing::Asked { waiting, .. } = listing {
                effects.extend(waiting.into_iter().map(Effect::Decline));
            }
            effects.push(Effect::Forget(client));
        }
    }

    fn recover(&mut self, now: Time, effects: &mut Vec<Effect>) {
        if let Some(recovery) = &mut self.recovery
            && let Some(names) = &recovery.reclaiming
            && (names.is_empty() || now >= recovery.end)
        {
            recovery.reclaiming = None;
            effects.push(Effect::Reclaimed);
        }
        let over = |recovery: &mut Recovery| {
            recovery.missing.is_empty() || now >= recovery.due(&self.terms)
        };
        if let Some(recovery) = self.recovery.take_if(over) {
            // All leases of these clients have ended, although the clients may still send late
            // data. The list therefore does not need their entries.
            let unknown = recovery.missing.into_keys();
            let unknown = unknown.filter(|name| !self.known.contains_key(name));
            effects.extend(unknown.map(Effect::Unlist));
            effects.push(Effect::Open);
        }
    }

    /// Returns the time of silence after which all leases and all pending requests of a client have
    /// ended: a request waits for another client's lease at most for the lifetime of that lease.
    fn idle_max(&self) -> core::time::Duration {
        (self.terms.waited(self.terms.longest_term) + self.terms.slack_max) * 2
    }

    /// Rule 4: forgets each client that has sent no call for so long that all its leases have
    /// expired.
    fn drop_idle(&mut self, now: Time, effects: &mut Vec<Effect>) {
        while let Some((time, name)) = self.idle.first().copied().filter(|(time, _)| *time <= now) {
            self.idle.remove(&(time, name));
            let idle_max = self.idle_max();
            let known = self.known.get_mut(&name).expect("each entry of `idle` is a known client");
            known.idle = known.heard + idle_max;
            self.idle.insert((known.idle, name));
            if known.idle <= now {
                self.drop_known(name, effects);
                effects.push(Effect::Unlist(name));
            }
        }
    }
}

impl Recovery {
    fn due(&self, terms: &Terms) -> Time {
        // Rule 6: the write slack counts from the time limit of the first phase, even if that phase
        // ended earlier.
        let slack = self.end.max(self.last_write) + terms.write_slack;
        slack.min(self.end + terms.slack_max)
    }

    fn next_wake(&self, terms: &Terms) -> Time {
        if self.reclaiming.is_some() { self.end } else { self.due(terms) }
    }
}

#[cfg(test)]
mod tests;
