//! Who there is, and what a server that was started anew waits for.
//!
//! Rules:
//! 1. A client is known when it has said who it is: its name and its instance. A greater instance
//!    voids all that the lesser one held; a lesser one is refused.
//! 2. A client is on the stable list before it is granted its first lease: what it asks for waits
//!    until the list is written. (a) A call whose owner gives it up while it waits goes on without
//!    a lease. From then on calls of the client do not wait for this write. (b) When the list cannot
//!    be written, the calls that wait and later calls go on without a lease, until a write
//!    succeeds. The write is tried again, with pauses that double. One write serves all clients
//!    that wait for the list.
//! 3. A client that goes, or that an administrator forgets, is known no more and is off the list.
//! 4. So is one that was not heard of for so long that nothing it held is alive.
//! 5. A server that starts with nobody on its list is open at once.
//! 6. Otherwise it is recovering. First it waits until each client on the list has reclaimed what it
//!    held, has come with a greater instance, has gone or was forgotten; or until the longest term
//!    and the allowance for drift have passed since the start. Then it waits until each has brought
//!    back all else; or until a write slack has passed since then and since the last WRITE of before,
//!    which is not waited for longer than the longest slack.
//! 7. While it is recovering, only clients on the list are let in.
//! 8. What is of another epoch than the server's is refused.
//! 9. A client of instance zero has no memory of a server that was started anew: it reclaims
//!    nothing, and is waited for with late data only. It is one of NQNFS.
//!
//! The stable list is names and instances. A client is taken off it only after nothing of what it
//! held is alive, so a list that is too long costs time after a restart and nothing else.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use leasehold_base::units::Time;

use super::{Client, Terms, Ticket};

/// What a client calls itself: bytes that no other client has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(pub [u8; 16]);

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A client says who it is.
    Hello(Name, u64),
    /// A client asks for leases, in a call that waits until it may.
    Asks(Client, Ticket),
    /// The client is on the stable list with this instance, as [`Effect::List`] said.
    Listed(Name, u64),
    /// The list could not be written with this client and instance, as [`Effect::List`] said.
    NotListed(Name, u64),
    /// A call that waits for the list waits no more, because its owner gave the call up.
    GivenUp(Ticket, Client),
    /// A client has reclaimed all that it held before the start.
    Reclaimed(Client),
    /// A client has brought back all from before the start.
    Recovered(Client),
    /// A WRITE of before was served while the server was recovering.
    Wrote,
    /// A client has gone, or is not to be waited for.
    Gone(Name),
    /// Time went on.
    Tick,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The client is known by this number.
    Welcome(Name, Client),
    /// The client is not known, because this instance of it is.
    Superseded(Name, u64),
    /// The client and its instance go to the stable list; [`Event::Listed`] follows.
    List(Name, u64),
    /// The client comes off the stable list, some time.
    Unlist(Name),
    /// The call may ask.
    Proceed(Ticket),
    /// The call goes on and is granted nothing.
    Decline(Ticket),
    /// The client holds nothing any more.
    Forget(Client),
    /// All leases of before are reclaimed or over.
    Reclaimed,
    /// The recovery is over.
    Open,
}

/// Why a call is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is of another epoch than this, which is.
    Epoch(u64),
    /// It is of an instance that is over; this is the one that is.
    Instance(u64),
    /// Its client is not known.
    Unknown,
    /// The server is recovering, and does not wait for its client.
    Later,
}

/// The clients of a server.
#[derive(Clone, Debug)]
pub struct Clients {
    terms: Terms,
    epoch: u64,
    known: BTreeMap<Name, Known>,
    names: BTreeMap<Client, Name>,
    /// When each client that is known will not have been heard of for too long, or later.
    idle: BTreeSet<(Time, Name)>,
    recovery: Option<Recovery>,
    /// Clients that asked for leases while the list could not be written.
    unlisted: BTreeSet<Name>,
    /// When the list is written again, since the last write failed.
    retry: Option<Retry>,
    next_client: u32,
    #[cfg(feature = "mutants")]
    ignores_epochs: bool,
}

#[derive(Clone, Debug)]
struct Known {
    client: Client,
    instance: u64,
    heard: Time,
    /// Its entry among the idle.
    idle: Time,
    listing: Listing,
}

/// Whether a client is on the stable list.
#[derive(Clone, Debug)]
enum Listing {
    No,
    /// A write of the list with the client is under way.
    Asked {
        waiting: Vec<Ticket>,
        /// True if no further call waits: the owner gave a waiting call up, or a write failed.
        slow: bool,
    },
    /// The list could not be written; the client is among the unlisted.
    Failed,
    Yes,
}

/// A write of the list that failed.
#[derive(Clone, Copy, Debug)]
struct Retry {
    at: Time,
    pause: Duration,
}

/// The pause between the first failed write of the list and the next write.
const RETRY_FIRST: Duration = Duration::from_secs(1);

/// The longest pause between a failed write of the list and the next write. Each write is a small
/// file, and after an operator makes room, clients expect leases soon.
const RETRY_MAX: Duration = Duration::from_secs(16);

#[derive(Clone, Debug)]
struct Recovery {
    /// Who is waited for, and which instance.
    missing: BTreeMap<Name, u64>,
    /// Who of them may still reclaim; none when nobody may any more.
    reclaiming: Option<BTreeSet<Name>>,
    /// When all leases of before have run out.
    end: Time,
    last_write: Time,
}

impl Clients {
    /// Starts in a new epoch with the stable list.
    #[must_use]
    pub fn new(now: Time, terms: Terms, epoch: u64, list: BTreeMap<Name, u64>) -> Self {
        let end = now + terms.waited(terms.longest_term);
        let recovery = (!list.is_empty()).then(|| Recovery {
            // Rule 9.
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

    /// Plants a fault: calls are taken whatever epoch they are of, and a client that calls is one
    /// that has recovered.
    #[cfg(feature = "mutants")]
    pub const fn ignore_epochs(&mut self) {
        self.ignores_epochs = true;
    }

    /// Takes one event, and appends what is to be done in order.
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

    /// The client of a call that names itself, its instance and an epoch; it was heard of now.
    ///
    /// # Errors
    /// When the call must have no effect.
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
        if !is_of_epoch {
            return Err(Refusal::Epoch(self.epoch));
        }
        let known = self.known.get_mut(&name).ok_or(Refusal::Unknown)?;
        if known.instance != instance {
            return Err(Refusal::Instance(known.instance));
        }
        known.heard = now;
        if self.recovery.is_some() && !matches!(known.listing, Listing::Yes) {
            return Err(Refusal::Later);
        }
        Ok(known.client)
    }

    /// The next time at which a client is idle for too long, the recovery may be over, or the list
    /// is to be written again.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        let idle = self.idle.first().map(|(time, _)| *time);
        idle.into_iter()
            .chain(self.recovery.as_ref().map(|recovery| recovery.next_wake(&self.terms)))
            .chain(self.retry.filter(|_| !self.unlisted.is_empty()).map(|retry| retry.at))
            .min()
    }

    /// The epoch.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Who is waited for; none when the server is not recovering.
    #[must_use]
    pub fn missing(&self) -> Option<impl Iterator<Item = Name> + '_> {
        self.recovery.as_ref().map(|recovery| recovery.missing.keys().copied())
    }

    /// Whether there is nobody, and nobody is waited for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty() && self.recovery.is_none()
    }

    /// How many clients asked for leases and are not granted any, because the list could not be
    /// written.
    #[must_use]
    pub fn unlisted(&self) -> usize {
        self.unlisted.len()
    }

    /// The name of a client.
    #[must_use]
    pub fn name(&self, client: Client) -> Option<Name> {
        self.names.get(&client).copied()
    }

    /// Audits the whole state.
    ///
    /// # Panics
    /// When it contradicts itself.
    pub fn check(&self) {
        assert_eq!(self.known.len(), self.names.len(), "each client has a number");
        assert_eq!(self.known.len(), self.idle.len(), "each is looked after");
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
        if let Some(was) = was.filter(|was| *was > instance) {
            effects.push(Effect::Superseded(name, was));
            return;
        }
        if let Some(known) = self.known.get_mut(&name).filter(|known| known.instance == instance) {
            known.heard = now;
            effects.push(Effect::Welcome(name, known.client));
            return;
        }
        // A lesser instance on the list is none: a restart would take that for the one that is.
        let listing = if listed == Some(&instance) { Listing::Yes } else { Listing::No };
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

    /// Rule 2: a write of the list with a client has ended.
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

    /// Rule 2b: the pauses double. One failed write may have been for several clients.
    fn put_off(&mut self, now: Time) {
        let pause = match self.retry {
            Some(Retry { at, .. }) if at > now => return,
            Some(Retry { pause, .. }) => (pause * 2).min(RETRY_MAX),
            None => RETRY_FIRST,
        };
        self.retry = Some(Retry { at: now + pause, pause });
    }

    /// Rule 2b: asks for another write of the list, with all clients that asked for leases.
    fn list_again(&mut self, now: Time, effects: &mut Vec<Effect>) {
        if self.unlisted.is_empty() || self.retry.is_some_and(|retry| retry.at > now) {
            return;
        }
        for name in core::mem::take(&mut self.unlisted) {
            if let Some(known) = self.known.get_mut(&name) {
                // Calls that come meanwhile do not wait for a write that may fail again.
                known.listing = Listing::Asked { waiting: Vec::new(), slow: true };
                effects.push(Effect::List(name, known.instance));
            }
        }
    }

    /// Rule 2a.
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

    fn gone(&mut self, name: Name, effects: &mut Vec<Effect>) {
        self.expect_no_more(name);
        self.drop_known(name, effects);
        effects.push(Effect::Unlist(name));
    }

    /// Nothing from before the start is waited for of this client any more.
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
            // They may come with late data, but nothing that they held is alive.
            let unknown = recovery.missing.into_keys();
            let unknown = unknown.filter(|name| !self.known.contains_key(name));
            effects.extend(unknown.map(Effect::Unlist));
            effects.push(Effect::Open);
        }
    }

    /// The time in which all leases of a client that is not heard of have ended, and all that it
    /// asked for before: it waits for a lease of another no longer than one is alive.
    fn idle_max(&self) -> core::time::Duration {
        (self.terms.waited(self.terms.longest_term) + self.terms.slack_max) * 2
    }

    fn drop_idle(&mut self, now: Time, effects: &mut Vec<Effect>) {
        while let Some((time, name)) = self.idle.first().copied().filter(|(time, _)| *time <= now) {
            self.idle.remove(&(time, name));
            let idle_max = self.idle_max();
            let known = self.known.get_mut(&name).expect("who is looked after is known");
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
        let slack = self.end.max(self.last_write) + terms.write_slack;
        slack.min(self.end + terms.slack_max)
    }

    fn next_wake(&self, terms: &Terms) -> Time {
        if self.reclaiming.is_some() { self.end } else { self.due(terms) }
    }
}

#[cfg(test)]
mod tests;
