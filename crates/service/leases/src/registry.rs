//! The registry of the clients with leases: their names and return paths, the stable list, and the
//! calls from the server to clients.
//!
//! The registry has one mutex. A step of the registry may step the shards while it holds this mutex;
//! a step of a shard never waits for the registry. An operation of an admitted client without a
//! conflict needs no step of the registry.

use core::net::{IpAddr, SocketAddr};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use futures_channel::oneshot;
use leasehold_base::limits::durations::JUKEBOX_AFTER;
use leasehold_base::units::{ConnectionId, Time};
use leasehold_core::leases::clients::{self, Clients, Name, Refusal};
use leasehold_core::leases::table::{self, Origin};
use leasehold_core::leases::{Client, Terms, Ticket};

use crate::Leases;
use crate::callback::Callbacks;
use crate::common::Common;
use crate::effects::Effects;
use crate::list::Writes;

/// The maximum number of clients with leases. At this limit the server replies to the HELLO of a
/// further client with a status that requests a retry.
const CLIENTS_MAX: usize = 1 << 14;

/// The maximum number of clients with leases from one origin. Each mount of a machine, and each
/// container behind the same address, is a client of that origin.
const CLIENTS_OF_ORIGIN_MAX: usize = 512;

/// The maximum number of return paths (connections or datagram addresses) to one client. A client
/// of the lease program has one return path. In NQNFS all mounts of a host form one client, and
/// each mount has its own return path.
const WAYS_MAX: usize = 8;

/// The clients with leases.
pub(crate) struct Registry {
    pub(crate) now: Time,
    pub(crate) clients: Clients,
    pub(crate) peers: BTreeMap<Client, Peer>,
    /// The number of clients of each origin.
    origins: BTreeMap<Origin, usize>,
    /// The number of clients that the server refused because there were too many.
    pub(crate) refused_clients: u64,
    pub(crate) callbacks: Callbacks,
    /// The contents of the stable list.
    pub(crate) list: BTreeMap<Name, u64>,
    pub(crate) writes: Writes,
    next_ticket: u64,
    /// The lease requests that wait until their client is on the stable list. The sender carries
    /// true if the call may request leases.
    waiting: BTreeMap<Ticket, (Client, oneshot::Sender<bool>)>,
    /// The number of waiting requests that [`Common`] contains.
    counted: usize,
    /// The deadlines of waiting requests.
    deadlines: BTreeSet<(Time, Ticket)>,
}

/// A client with its return paths.
pub(crate) struct Peer {
    pub(crate) id: Name,
    pub(crate) name: String,
    pub(crate) origin: Origin,
    pub(crate) protocol: Protocol,
    /// The return paths, the latest first; empty after the connection has closed.
    pub(crate) ways: VecDeque<ReturnPath>,
}

/// The protocol of the messages about leases that the server sends to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// The callbacks of the lease program.
    Lease,
    /// EVICTED of NQNFS.
    Nqnfs,
}

/// A return path to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnPath {
    /// A connection.
    Connection(ConnectionId),
    /// Datagrams to an address of the client from an address of the server.
    Datagrams {
        /// The address of the client.
        to: SocketAddr,
        /// The address of the server that the client calls.
        from: IpAddr,
    },
}

/// Returns the origin of a host: its IPv4 address, or its IPv6 network, because one machine may own
/// every address of such a network.
#[must_use]
pub fn origin_of(host: IpAddr) -> Origin {
    match host.to_canonical() {
        IpAddr::V4(host) => Origin(u64::from(host.to_bits())),
        IpAddr::V6(host) => {
            let network = host.to_bits() >> 64;
            Origin(u64::try_from(network).unwrap_or(u64::MAX))
        }
    }
}

impl Registry {
    pub(crate) fn new(now: Time, terms: Terms, epoch: u64, list: BTreeMap<Name, u64>) -> Self {
        Self {
            now,
            clients: Clients::new(now, terms, epoch, list.clone()),
            peers: BTreeMap::new(),
            origins: BTreeMap::new(),
            refused_clients: 0,
            callbacks: Callbacks::default(),
            list,
            writes: Writes::default(),
            next_ticket: 1,
            waiting: BTreeMap::new(),
            counted: 0,
            deadlines: BTreeSet::new(),
        }
    }

    /// Ends a step: counts the waiting requests, and returns the time of the next action.
    pub(crate) fn end(&mut self, common: &Common) -> Option<Time> {
        common.count_waiting(&mut self.counted, self.waiting.len());
        common.set_recovering(self.clients.missing().is_some());
        let deadline = self.deadlines.first().map(|(at, _)| *at);
        self.clients.next_wake().into_iter().chain(deadline).min()
    }

    /// Returns true if the time of an action has come, so that the next step may forget clients.
    pub(crate) fn is_due(&self) -> bool {
        self.clients.next_wake().is_some_and(|next| next <= self.now)
    }

    /// Runs the actions that are due.
    pub(crate) fn wake(&mut self, effects: &mut Effects) {
        self.step(clients::Event::Tick, effects);
        let due = |deadlines: &BTreeSet<(Time, Ticket)>, now| {
            deadlines.first().copied().filter(|(at, _)| *at <= now)
        };
        while let Some((_, ticket)) = due(&self.deadlines, self.now) {
            self.deadlines.pop_first();
            if let Some((client, _)) = self.waiting.get(&ticket) {
                self.step(clients::Event::GivenUp(ticket, *client), effects);
            }
        }
    }

    /// Handles one event of the list of clients, and returns its effects.
    pub(crate) fn step(
        &mut self,
        event: clients::Event,
        effects: &mut Effects,
    ) -> Vec<clients::Effect> {
        let mut actions = Vec::new();
        self.clients.step(self.now, event, &mut actions);
        for action in &actions {
            match *action {
                clients::Effect::Welcome(..) | clients::Effect::Superseded(..) => {}
                clients::Effect::List(name, instance) => {
                    self.list.insert(name, instance);
                    self.writes.due.get_or_insert_default().push((name, instance));
                }
                clients::Effect::Unlist(name) => {
                    if self.list.remove(&name).is_some() {
                        self.writes.due.get_or_insert_default();
                    }
                }
                clients::Effect::Proceed(ticket) => self.admit_request(ticket, true, effects),
                clients::Effect::Decline(ticket) => self.admit_request(ticket, false, effects),
                clients::Effect::Forget(client) => {
                    self.forget_peer(client, effects);
                    effects.events.push(table::Event::Forgotten(client));
                }
                clients::Effect::Reclaimed => effects.events.push(table::Event::Reclaimed),
                clients::Effect::Open => effects.events.push(table::Event::Opened),
            }
        }
        actions
    }

    /// Records a lease request that waits for a write of the stable list. Returns None if too many
    /// calls wait.
    pub(crate) fn await_list(
        &mut self,
        client: Client,
        common: &Common,
    ) -> Option<(Ticket, oneshot::Receiver<bool>)> {
        if !common.may_wait() {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.waiting.insert(ticket, (client, sender));
        Some((ticket, receiver))
    }

    /// Sets the deadline ([`JUKEBOX_AFTER`] from now) of a request that still waits.
    pub(crate) fn bound_wait(&mut self, ticket: Ticket) {
        if self.waiting.contains_key(&ticket) {
            self.deadlines.insert((self.now + JUKEBOX_AFTER, ticket));
        }
    }

    /// Ends the wait of a lease request for the stable list; `may` is true if the call may request
    /// leases.
    fn admit_request(&mut self, ticket: Ticket, may: bool, effects: &mut Effects) {
        if let Some((client, sender)) = self.waiting.remove(&ticket) {
            if may && self.clients.name(client).is_some() {
                effects.listed.push(client);
            }
            effects.admitted.push((sender, may));
        }
    }

    /// Adds the return path on which a call arrived. A client of the lease program has only the
    /// latest path.
    pub(crate) fn heard(&mut self, client: Client, way: ReturnPath, effects: &mut Effects) {
        let Some(peer) = self.peers.get_mut(&client).filter(|peer| !peer.ways.contains(&way))
        else {
            return;
        };
        let ways_max = match peer.protocol {
            Protocol::Lease => 1,
            Protocol::Nqnfs => WAYS_MAX,
        };
        peer.ways.push_front(way);
        peer.ways.truncate(ways_max);
        effects.events.push(table::Event::Reconnected(client));
    }

    /// Returns true if a client retransmits its waiting calls, as a client of the lease program
    /// over datagrams does. The server bounds the wait of such a call, because each retransmitted
    /// copy waits as well and delays the other calls on the same socket. Hosts of NQNFS are
    /// excluded, because a host sleeps for a long time after a retry status.
    pub(crate) fn repeats(&self, client: Client) -> bool {
        self.peers.get(&client).is_some_and(|peer| {
            let way = peer.ways.front();
            peer.protocol == Protocol::Lease && matches!(way, Some(ReturnPath::Datagrams { .. }))
        })
    }

    /// Stores a client's return paths.
    fn keep_peer(&mut self, client: Client, peer: Peer, effects: &mut Effects) {
        self.forget_peer(client, effects);
        *self.origins.entry(peer.origin).or_default() += 1;
        self.peers.insert(client, peer);
    }

    fn forget_peer(&mut self, client: Client, effects: &mut Effects) {
        let Some(Peer { id, origin, .. }) = self.peers.remove(&client) else { return };
        effects.forgotten.push((id, client));
        if let Entry::Occupied(mut count) = self.origins.entry(origin) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

impl Leases {
    /// Returns the client of a call of the lease program, and stores the call's connection as the
    /// client's return path.
    ///
    /// # Errors
    /// The reason for which the call has no effect.
    pub fn admit(
        self: &Arc<Self>,
        now: Time,
        way: ReturnPath,
        caller: &leasehold_wire::lease::Caller,
    ) -> Result<Client, Refusal> {
        let who = (Name(caller.client), caller.instance);
        self.admit_of_epoch(now, way, who, caller.epoch)
    }

    /// Returns the client with a name and an instance, for a call that names this epoch.
    pub(crate) fn admit_of_epoch(
        self: &Arc<Self>,
        now: Time,
        way: ReturnPath,
        who: (Name, u64),
        epoch: u64,
    ) -> Result<Client, Refusal> {
        if epoch == self.epoch
            && let Some(client) = self.admissions.admit(now, way, who)
        {
            self.tell(now);
            return Ok(client);
        }
        self.register(now, |registry, effects| {
            let client = registry.clients.admit(registry.now, who, epoch)?;
            registry.heard(client, way, effects);
            // During the grace period the registry admits listed clients only.
            if registry.clients.missing().is_none() {
                self.admissions.remember(registry.now, way, who, client);
            }
            Ok(client)
        })
    }

    /// Registers a client that sent HELLO, with the call's connection as the client's return path.
    ///
    /// # Errors
    /// The reason for which the server does not register the client.
    pub fn hello(
        self: &Arc<Self>,
        now: Time,
        (way, host): (ReturnPath, IpAddr),
        (id, instance): ([u8; 16], u64),
        protocol: Protocol,
        name: &str,
    ) -> Result<(), Refusal> {
        self.register(now, |registry, effects| {
            let (id, origin) = (Name(id), origin_of(host));
            let of_origin = registry.origins.get(&origin).copied().unwrap_or(0);
            let is_full = registry.peers.len() >= CLIENTS_MAX || of_origin >= CLIENTS_OF_ORIGIN_MAX;
            let is_known = |client| registry.clients.name(client) == Some(id);
            if is_full && !registry.peers.keys().copied().any(is_known) {
                registry.refused_clients += 1;
                return Err(Refusal::Later);
            }
            for effect in registry.step(clients::Event::Hello(id, instance), effects) {
                match effect {
                    clients::Effect::Superseded(_, known) => {
                        return Err(Refusal::Instance(known));
                    }
                    clients::Effect::Welcome(_, client) => {
                        let (name, ways) = (name.to_owned(), VecDeque::from([way]));
                        let peer = Peer { id, name, origin, protocol, ways };
                        registry.keep_peer(client, peer, effects);
                        let met = table::Event::Met(client, origin);
                        effects.events.extend([met, table::Event::Reconnected(client)]);
                    }
                    clients::Effect::List(..)
                    | clients::Effect::Unlist(_)
                    | clients::Effect::Proceed(_)
                    | clients::Effect::Decline(_)
                    | clients::Effect::Forget(_)
                    | clients::Effect::Reclaimed
                    | clients::Effect::Open => {}
                }
            }
            Ok(())
        })
    }

    /// Ends all leases of a client. The server no longer waits for that client to reclaim or return
    /// a lease.
    pub fn goodbye(self: &Arc<Self>, id: [u8; 16]) {
        self.register(Time::ZERO, |registry, effects| {
            registry.step(clients::Event::Gone(Name(id)), effects);
        });
    }

    /// Ends all leases of a client that will not return, and the wait for its reclaims. Returns
    /// true if the client is known.
    #[must_use]
    pub fn forget(self: &Arc<Self>, id: [u8; 16]) -> bool {
        let name = Name(id);
        self.register(Time::ZERO, |registry, effects| {
            let known = registry.list.contains_key(&name)
                || registry.peers.values().any(|peer| peer.id == name);
            registry.step(clients::Event::Gone(name), effects);
            known
        })
    }

    /// Removes a closed connection from the return paths of all clients.
    pub fn connection_closed(&self, connection: ConnectionId) {
        let mut registry = self.registry();
        let gone = ReturnPath::Connection(connection);
        for peer in registry.peers.values_mut().filter(|peer| peer.ways.contains(&gone)) {
            peer.ways.retain(|way| *way != gone);
            // The next call of the client reports its new return path to the registry.
            self.admissions.forget_way(peer.id);
        }
    }

    /// Records the progress of a client's recovery since the start of the server.
    pub fn progressed(self: &Arc<Self>, event: clients::Event) {
        self.register(Time::ZERO, |registry, effects| drop(registry.step(event, effects)));
    }
}
