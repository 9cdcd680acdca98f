//! Leases as they are served: the machines of `core::leases`, who waits for them, and what they
//! have said to clients.
//!
//! While nobody holds a lease nothing here is asked: the exports then have the stores themselves.
//! The first HELLO has them replaced by gates ([`gate`]), which every operation passes, and no lease
//! is granted before the last call has ended that went by without. When the last client is gone the
//! gates go as well.
//!
//! One lock is for all of it, held for the length of a step; what is to be sent is sent behind it.

mod callback;
pub(crate) mod gate;
mod held;
mod layouts;
mod list;
mod names;
pub(crate) mod nqnfs;
pub(crate) mod program;
mod programs;
mod room;
mod turn;
mod untold;
mod vacate;

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use futures_channel::oneshot;
use leasehold_base::units::{ConnectionId, FileSystemId, Time, Xid};
use leasehold_base::xdr::Message;
use leasehold_core::leases::clients::{self, Clients, Name, Refusal};
use leasehold_core::leases::modrevs::Modrevs;
use leasehold_core::leases::table::{self, Origin, Run, Table};
use leasehold_core::leases::{Client, Kind, Modrev, Object, Open, Serial, Terms, Ticket};
use leasehold_fs::{ExportId, FsError, ObjectId};

use crate::Arrival;
use crate::exports::Exports;
use crate::handles::{HandleKey, Handles};
use callback::Asked;
pub use held::{HeldLease, LeaseCounts, LeaseHolder, LeaseView, LeaseWaiter, LeaseWaits};
use layouts::LaidOut;
use names::Names;
use programs::Program;
use untold::Untold;

/// How many leases there are at most. Whoever asks for more works by calls.
const LEASES_MAX: usize = 1 << 20;

/// How many calls wait at most; one more is answered that it is to be made again later.
const WAITING_MAX: usize = 1 << 14;

/// How long a call of a plain client, or of one with leases by datagram, waits before it is to be
/// made again (RFC 1813 2.6, NFS3ERR_JUKEBOX), and a call for leases before its client is on the
/// stable list; the call for leases then goes on without a lease.
const PATIENCE: Duration = Duration::from_secs(2);

/// How many calls to clients are remembered until they are answered.
const ASKED_MAX: usize = 1 << 14;

/// How many clients with leases there are at most; a further one is to come again later.
const CLIENTS_MAX: usize = 1 << 14;

/// The number of clients with leases that may come from one origin: the mounts of a machine, or of
/// all containers behind one address.
const CLIENTS_OF_ORIGIN_MAX: usize = 512;

/// By how many ways a client is reached at most: each mount of a host is a way of its own to one
/// client of NQNFS.
const WAYS_MAX: usize = 8;

/// What reaches clients by itself, without a call of theirs.
pub trait Post: Send + Sync {
    /// Sends a message down a connection, if that is still there.
    fn send(&self, to: ConnectionId, message: Message);

    /// Sends a message by datagram, from an address of the server. A client takes it from the port
    /// that it calls, so it goes out from each that the server has.
    fn send_datagram(&self, to: SocketAddr, from: IpAddr, message: Message);

    /// Has [`Service::wake`](crate::Service::wake) called soon.
    fn hurry(&self);
}

/// Where the list of clients that may hold leases is on stable storage.
pub trait Ledger: Send + Sync {
    /// Writes the list, in the place of lists with lesser numbers, and calls `done` in any case:
    /// with true once the list is on stable storage, with false if it could not be written.
    fn write(&self, number: u64, list: &[([u8; 16], u64)], done: Box<dyn FnOnce(bool) + Send>);
}

/// What an earlier server has left of leases.
#[derive(Clone, Debug, Default)]
pub struct Remembered {
    /// The number of this start, greater than that of every one before.
    pub epoch: u64,
    /// Clients that may hold leases, by id, with their instances.
    pub list: Vec<([u8; 16], u64)>,
}

/// All leases of a server.
pub(crate) struct Leases {
    state: Mutex<State>,
    post: OnceLock<Arc<dyn Post>>,
    ledger: Option<Arc<dyn Ledger>>,
    handles: Handles,
    terms: Terms,
}

struct State {
    /// The latest time that was seen.
    now: Time,
    clients: Clients,
    table: Table,
    modrevs: Modrevs,
    next_ticket: u64,
    waiting: BTreeMap<Ticket, Waiting>,
    waits: LeaseWaits,
    /// Who waits no longer than that.
    patience: BTreeSet<(Time, Ticket)>,
    peers: BTreeMap<Client, Peer>,
    /// The number of clients of each origin.
    origins: BTreeMap<Origin, usize>,
    /// How often the server did not take up a client, as there were too many clients.
    refused_clients: u64,
    names: Names,
    asked: BTreeMap<Xid, Asked>,
    next_xid: u32,
    list: BTreeMap<Name, u64>,
    writes: list::Writes,
    /// When the owner was told to wake it.
    announced: Option<Time>,
    /// What was offered before there were gates, as long as calls may run that passed none.
    draining: Vec<Arc<Exports>>,
    /// The time since which `draining` has exports.
    draining_since: Time,
    /// Files that are written, each with who is to write it next.
    writing: BTreeMap<Object, VecDeque<oneshot::Sender<()>>>,
    /// File systems on which a call makes room, each with who waits for that.
    making_room: BTreeMap<FileSystemId, Vec<oneshot::Sender<()>>>,
    /// Files whose data clients write where it lies, each with the modrev at which that was told.
    layouts: BTreeMap<Object, (LaidOut, Modrev)>,
    untold: Untold,
}

/// A call or program that waits.
enum Waiting {
    /// A call, for its turn at an object.
    Call(Object, oneshot::Sender<Option<Run>>),
    /// A call that asks for leases, until its client is on the stable list; the sender carries true
    /// if the call may ask.
    List(Client, oneshot::Sender<bool>),
    /// A program of this machine, for its turn at an object.
    Program(Object, Program),
}

/// A client, as it is reached.
struct Peer {
    name: String,
    origin: Origin,
    protocol: Protocol,
    /// By which ways, the latest first; by none when its connection is gone.
    ways: VecDeque<Way>,
}

/// What a client is told of its leases by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// The callbacks of the lease program.
    Lease,
    /// EVICTED of NQNFS.
    Nqnfs,
}

/// How a client is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By its connection.
    Connection(ConnectionId),
    /// By datagrams from an address of the server.
    Datagrams { to: SocketAddr, from: IpAddr },
}

impl Way {
    /// The way back to where a call came from.
    pub(crate) fn back(arrival: &Arrival) -> Self {
        let Arrival { from, to, connection, .. } = *arrival;
        connection.map_or(Self::Datagrams { to: from, from: to }, Self::Connection)
    }
}

/// The origin of a host: its address of version 4, or its network of version 6, as one machine may
/// have every address of such a network.
pub(crate) fn origin_of(host: IpAddr) -> Origin {
    match host.to_canonical() {
        IpAddr::V4(host) => Origin(u64::from(host.to_bits())),
        IpAddr::V6(host) => {
            let network = host.to_bits() >> 64;
            Origin(u64::try_from(network).unwrap_or(u64::MAX))
        }
    }
}

/// What is to be done when the lock is free again.
#[derive(Default)]
struct Outs {
    messages: Vec<(Way, Message)>,
    evictions: BTreeMap<Client, Vec<(Object, Serial)>>,
    inquiries: Vec<Asked>,
    hurry: bool,
    /// Calls that waited, and what came of it.
    settled: Vec<Settled>,
    /// Calls that waited for the stable list, each with true if the call may ask for leases.
    admitted: Vec<(oneshot::Sender<bool>, bool)>,
    /// Programs that can go on, each with the call that then ends.
    freed: Vec<(Program, Option<(Object, Ticket)>)>,
}

/// A call that waits no more.
struct Settled {
    object: Object,
    ticket: Ticket,
    sender: oneshot::Sender<Option<Run>>,
    run: Option<Run>,
}

impl Leases {
    pub(crate) fn new(
        handles: Handles,
        remembered: Remembered,
        ledger: Option<Arc<dyn Ledger>>,
        now: Time,
    ) -> Self {
        let Remembered { epoch, list } = remembered;
        let terms = Terms::DEFAULT;
        let list: BTreeMap<Name, u64> = list.into_iter().map(|(id, at)| (Name(id), at)).collect();
        let table = Table::new(terms, LEASES_MAX, epoch, !list.is_empty());
        let clients = Clients::new(now, terms, epoch, list.clone());
        let state = State {
            now,
            clients,
            table,
            modrevs: Modrevs::default(),
            next_ticket: 1,
            waiting: BTreeMap::new(),
            waits: LeaseWaits::default(),
            patience: BTreeSet::new(),
            peers: BTreeMap::new(),
            origins: BTreeMap::new(),
            refused_clients: 0,
            names: Names::default(),
            asked: BTreeMap::new(),
            next_xid: 1,
            list,
            writes: list::Writes::default(),
            announced: None,
            draining: Vec::new(),
            draining_since: Time::ZERO,
            writing: BTreeMap::new(),
            making_room: BTreeMap::new(),
            layouts: BTreeMap::new(),
            untold: Untold::default(),
        };
        Self { state: Mutex::new(state), post: OnceLock::new(), ledger, handles, terms }
    }

    /// Those of a server that remembers nothing and keeps nothing.
    pub(crate) fn without_past(key: HandleKey) -> Self {
        let remembered = Remembered { epoch: 1, list: Vec::new() };
        Self::new(Handles::new(key), remembered, None, Time::ZERO)
    }

    /// Calls clients by this from now on.
    pub(crate) fn call_by(&self, post: Arc<dyn Post>) {
        // A service is started once.
        let _ = self.post.set(post);
    }

    /// What is waited for is waited for from now on.
    pub(crate) fn tell(&self, now: Time) {
        let mut state = self.lock();
        state.now = state.now.max(now);
    }

    /// Whether there is nobody, so that no call has to ask here.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.lock();
        let nobody = state.clients.is_empty() && state.table.is_empty();
        // Who went without a word may still write by a layout.
        nobody && state.waiting.is_empty() && state.layouts.is_empty()
    }

    /// Grants nothing before the last call has ended that began when this was offered.
    pub(crate) fn drain(&self, offered: Arc<Exports>) {
        let mut state = self.lock();
        if !state.is_draining() {
            state.draining_since = state.now;
        }
        state.draining.push(offered);
    }

    /// Does what is due, and says when there is more to do.
    pub(crate) fn wake(self: &Arc<Self>, now: Time) -> Option<Time> {
        self.with(now, |state, outs| {
            state.registry(clients::Event::Tick, outs);
            state.step(table::Event::Tick, outs);
            state.modrevs.forget(now);
            state.names.forget(&state.table);
            while let Some((_, ticket)) =
                state.patience.first().copied().filter(|(at, _)| *at <= now)
            {
                state.patience.pop_first();
                state.give_up(ticket, outs);
            }
            state.announced = state.next_wake();
            state.announced
        })
    }

    /// Takes one turn of the state, and does what follows from it.
    fn with<T>(self: &Arc<Self>, now: Time, turn: impl FnOnce(&mut State, &mut Outs) -> T) -> T {
        let mut outs = Outs::default();
        let mut state = self.lock();
        state.now = state.now.max(now);
        state.take_written(&mut outs);
        let value = turn(&mut state, &mut outs);
        state.write_calls(&self.handles, &mut outs);
        let next = state.next_wake();
        if next.is_some_and(|next| state.announced.is_none_or(|announced| next < announced)) {
            state.announced = next;
            outs.hurry = true;
        }
        let list = state.list_to_write();
        drop(state);
        if let Some(post) = self.post.get() {
            for (way, message) in outs.messages {
                match way {
                    Way::Connection(to) => post.send(to, message),
                    Way::Datagrams { to, from } => post.send_datagram(to, from, message),
                }
            }
            if outs.hurry {
                post.hurry();
            }
        }
        if let Some(list) = list {
            self.write_list(&list);
        }
        for (sender, may) in outs.admitted {
            // A call without its caller asks for nothing.
            let _ = sender.send(may);
        }
        self.tell_settled(outs.settled);
        for (program, ran) in outs.freed {
            self.free(program, ran);
        }
        value
    }

    /// Tells who waits what came of it, who may go on at once. A call whose caller is gone ends.
    fn tell_settled(self: &Arc<Self>, settled: Vec<Settled>) {
        for Settled { object, ticket, sender, run } in settled {
            if let Err(Some(_)) = sender.send(run) {
                let outcome = table::Outcome { used: 0, void: true };
                self.with(Time::ZERO, |state, outs| {
                    state.step(table::Event::Done(object, ticket, outcome), outs);
                });
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("a core that panicked is not used again")
    }
}

impl State {
    /// Whether calls may still run that passed no gate.
    fn is_draining(&mut self) -> bool {
        self.draining.retain(|offered| Arc::strong_count(offered) > 1);
        !self.draining.is_empty()
    }

    fn next_wake(&self) -> Option<Time> {
        let patience = self.patience.first().map(|(at, _)| *at);
        [self.clients.next_wake(), self.table.next_wake(), patience].into_iter().flatten().min()
    }

    /// A client is reached by the way that its call came on; one of the lease program by that way
    /// only.
    fn heard(&mut self, client: Client, way: Way, outs: &mut Outs) {
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
        self.step(table::Event::Reconnected(client), outs);
    }

    /// Keeps the peer by which the server reaches a client.
    fn keep_peer(&mut self, client: Client, peer: Peer) {
        self.forget_peer(client);
        *self.origins.entry(peer.origin).or_default() += 1;
        self.peers.insert(client, peer);
    }

    fn forget_peer(&mut self, client: Client) {
        let Some(Peer { origin, .. }) = self.peers.remove(&client) else { return };
        if let Entry::Occupied(mut count) = self.origins.entry(origin) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// Has a call wait; fails where too many do.
    fn park(
        &mut self,
        object: Object,
    ) -> Result<(Ticket, oneshot::Receiver<Option<Run>>), FsError> {
        let (sender, receiver) = oneshot::channel();
        let ticket = self.keep_waiting(Waiting::Call(object, sender))?;
        Ok((ticket, receiver))
    }

    /// Gives a ticket to a call that waits; fails where too many calls wait.
    fn keep_waiting(&mut self, waiting: Waiting) -> Result<Ticket, FsError> {
        if self.waiting.len() >= WAITING_MAX {
            return Err(FsError::Later);
        }
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.waiting.insert(ticket, waiting);
        Ok(ticket)
    }

    /// Whether calls of a client come again while they wait: each copy waits as well, and holds up
    /// who calls by the same socket. Hosts of NQNFS would sleep for long if they were sent away.
    fn repeats(&self, client: Client) -> bool {
        self.peers.get(&client).is_some_and(|peer| {
            let way = peer.ways.front();
            peer.protocol == Protocol::Lease && matches!(way, Some(Way::Datagrams { .. }))
        })
    }

    /// Has a call that still waits give up in a while.
    fn be_patient(&mut self, ticket: Ticket) {
        if self.waiting.contains_key(&ticket) {
            self.patience.insert((self.now + PATIENCE, ticket));
        }
    }

    /// Has who waits be told what came of it.
    fn settle(&mut self, ticket: Ticket, run: Option<Run>, outs: &mut Outs) {
        match self.waiting.remove(&ticket) {
            Some(Waiting::Call(object, sender)) => {
                outs.settled.push(Settled { object, ticket, sender, run });
            }
            Some(Waiting::List(_, sender)) => outs.admitted.push((sender, false)),
            Some(Waiting::Program(object, program)) => {
                outs.freed.push((program, run.map(|_| (object, ticket))));
            }
            None => {}
        }
    }

    fn give_up(&mut self, ticket: Ticket, outs: &mut Outs) {
        match self.waiting.get(&ticket) {
            Some(&Waiting::List(client, _)) => {
                self.registry(clients::Event::GivenUp(ticket, client), outs);
            }
            Some(&(Waiting::Call(object, _) | Waiting::Program(object, _))) => {
                self.settle(ticket, None, outs);
                self.step(table::Event::GivenUp(object, ticket), outs);
            }
            None => {}
        }
    }

    /// Tells a call that waited for the stable list whether it may ask for leases.
    fn admit_asks(&mut self, ticket: Ticket, may: bool, outs: &mut Outs) {
        if let Some(Waiting::List(_, sender)) = self.waiting.remove(&ticket) {
            outs.admitted.push((sender, may));
        }
    }

    fn step(&mut self, event: table::Event, outs: &mut Outs) {
        let mut effects = Vec::new();
        self.table.step(self.now, event, &mut effects);
        for effect in effects {
            match effect {
                table::Effect::Run(run) => self.settle(run.ticket, Some(run), outs),
                table::Effect::Later(ticket) => self.settle(ticket, None, outs),
                table::Effect::Evict(client, object, serial) => {
                    outs.evictions.entry(client).or_default().push((object, serial));
                }
                table::Effect::Inquire(client, object, serial, round) => {
                    outs.inquiries.push(Asked::report(client, object, serial, round));
                }
            }
        }
    }

    fn registry(&mut self, event: clients::Event, outs: &mut Outs) -> Vec<clients::Effect> {
        let mut effects = Vec::new();
        self.clients.step(self.now, event, &mut effects);
        for effect in &effects {
            match *effect {
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
                clients::Effect::Proceed(ticket) => self.admit_asks(ticket, true, outs),
                clients::Effect::Decline(ticket) => self.admit_asks(ticket, false, outs),
                clients::Effect::Forget(client) => {
                    self.forget_peer(client);
                    self.step(table::Event::Forgotten(client), outs);
                }
                clients::Effect::Reclaimed => self.step(table::Event::Reclaimed, outs),
                clients::Effect::Open => self.step(table::Event::Opened, outs),
            }
        }
        effects
    }
}

/// Who writes a file alone, until this is dropped.
pub(crate) struct Alone {
    leases: Arc<Leases>,
    object: Object,
    has: bool,
    waits: Option<oneshot::Receiver<()>>,
}

impl Drop for Alone {
    fn drop(&mut self) {
        // Who was given it and did not look has it all the same; who was not is not given it now.
        let given = |waits: &mut oneshot::Receiver<()>| {
            waits.close();
            matches!(waits.try_recv(), Ok(Some(())))
        };
        if !self.has && !self.waits.as_mut().is_some_and(given) {
            return;
        }
        let mut state = self.leases.lock();
        // One after the other, until one is still there; each is woken with nothing locked, as it
        // may go on there and then, and take the lock itself.
        while let Some(queue) = state.writing.get_mut(&self.object) {
            let Some(next) = queue.pop_front() else {
                state.writing.remove(&self.object);
                return;
            };
            drop(state);
            if next.send(()).is_ok() {
                return;
            }
            state = self.leases.lock();
        }
    }
}

/// Why a call of the lease program has no effect.
pub(crate) type Refused = Refusal;

impl Leases {
    /// Whose call it is; he is reached by the connection that it came on.
    pub(crate) fn admit(
        self: &Arc<Self>,
        now: Time,
        way: Way,
        caller: &leasehold_wire::lease::Caller,
    ) -> Result<Client, Refused> {
        self.with(now, |state, outs| {
            let who = (Name(caller.client), caller.instance);
            let client = state.clients.admit(state.now, who, caller.epoch)?;
            state.heard(client, way, outs);
            Ok(client)
        })
    }

    /// A lease is given back.
    pub(crate) fn returned(
        self: &Arc<Self>,
        client: Client,
        handle: (ExportId, ObjectId),
        serial: Serial,
        open: Open,
    ) {
        self.with(Time::ZERO, |state, outs| {
            if let Some(object) = state.names.object(&handle) {
                state.step(table::Event::Returned(client, object, serial, open), outs);
            }
        });
    }

    /// Waits until nobody else writes a file.
    pub(crate) async fn alone(self: &Arc<Self>, object: Object) -> Alone {
        let waits = self.with(Time::ZERO, |state, _| match state.writing.entry(object) {
            Entry::Vacant(place) => {
                place.insert(VecDeque::new());
                None
            }
            Entry::Occupied(mut queue) => {
                let (sender, receiver) = oneshot::channel();
                queue.get_mut().push_back(sender);
                Some(receiver)
            }
        });
        let mut alone = Alone { leases: Arc::clone(self), object, has: waits.is_none(), waits };
        if let Some(waits) = &mut alone.waits {
            alone.has = waits.await.is_ok();
        }
        alone
    }

    /// Whether nobody but this client knows an object better than the store.
    pub(crate) fn is_known(&self, object: Object, client: Option<Client>) -> bool {
        let state = self.lock();
        !state.table.leases(object).iter().any(|lease| {
            lease.cachable && lease.kind == Kind::Write && Some(lease.client) != client
        })
    }

    /// A client says who it is. It is reached by the connection that its call came on.
    ///
    /// # Errors
    /// Why it is not taken up.
    pub(crate) fn hello(
        self: &Arc<Self>,
        now: Time,
        (way, host): (Way, IpAddr),
        (id, instance): ([u8; 16], u64),
        protocol: Protocol,
        name: &str,
    ) -> Result<(), Refused> {
        self.with(now, |state, outs| {
            let origin = origin_of(host);
            let of_origin = state.origins.get(&origin).copied().unwrap_or(0);
            let is_full = state.peers.len() >= CLIENTS_MAX || of_origin >= CLIENTS_OF_ORIGIN_MAX;
            let is_known = |client| state.clients.name(client) == Some(Name(id));
            if is_full && !state.peers.keys().copied().any(is_known) {
                state.refused_clients += 1;
                return Err(Refused::Later);
            }
            for effect in state.registry(clients::Event::Hello(Name(id), instance), outs) {
                match effect {
                    clients::Effect::Superseded(_, known) => {
                        return Err(Refused::Instance(known));
                    }
                    clients::Effect::Welcome(_, client) => {
                        let (name, ways) = (name.to_owned(), VecDeque::from([way]));
                        state.keep_peer(client, Peer { name, origin, protocol, ways });
                        state.step(table::Event::Met(client, origin), outs);
                        state.step(table::Event::Reconnected(client), outs);
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

    /// A client gives back all that it has and is not waited for.
    pub(crate) fn goodbye(self: &Arc<Self>, id: [u8; 16]) {
        self.with(Time::ZERO, |state, outs| {
            state.registry(clients::Event::Gone(Name(id)), outs);
        });
    }

    /// Nobody is reached by a connection any more.
    pub(crate) fn connection_closed(&self, connection: ConnectionId) {
        let mut state = self.lock();
        let gone = Way::Connection(connection);
        state.peers.values_mut().for_each(|peer| peer.ways.retain(|way| *way != gone));
    }

    /// How far a client is since the server was started.
    pub(crate) fn progressed(self: &Arc<Self>, event: clients::Event) {
        self.with(Time::ZERO, |state, outs| drop(state.registry(event, outs)));
    }

    /// The epoch, and whether the server is recovering.
    pub(crate) fn standing(&self) -> (u64, bool) {
        let state = self.lock();
        (state.clients.epoch(), state.clients.missing().is_some())
    }

    pub(crate) const fn terms(&self) -> &Terms {
        &self.terms
    }
}

#[cfg(test)]
mod tests;
