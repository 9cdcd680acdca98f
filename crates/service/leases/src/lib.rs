//! The owner of a server's leases: the state machines of `core::leases`, the waiting calls, and the
//! messages to clients; and the store that enforces leases ([`LeasedStore`]).
//!
//! The front ends are above this crate and the stores below it, so a call takes one way down: front
//! end, file operation, lease-enforcing store, store. The front ends admit the clients of their
//! programs here, and report messages and closed connections.
//!
//! While no client holds a lease, no call uses this crate: the exports then contain the stores
//! themselves. The first HELLO of a client replaces the stores by lease-enforcing stores. The server
//! grants no lease before the last call that started without the
//! lease-enforcing stores has ended, because such a call recalls no lease. After the last client
//! with leases has gone, the server removes the lease-enforcing stores again.
//!
//! One mutex protects the state. A thread holds the mutex for one step of the state machines, and
//! sends the resulting messages after it has released the mutex.

mod callback;
mod handles;
mod held;
mod hosts;
mod layouts;
mod leased_store;
mod list;
mod names;
mod operation_guard;
mod programs;
mod recall;
mod room;
mod unacknowledged;

use core::any::Any;
use core::net::{IpAddr, SocketAddr};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use futures_channel::oneshot;
use leasehold_base::limits::durations::JUKEBOX_AFTER;
use leasehold_base::units::{ConnectionId, FileSystemId, Time, Xid};
use leasehold_base::xdr::Message;
use leasehold_core::leases::clients::{self, Clients, Name, Refusal};
use leasehold_core::leases::modrevs::Modrevs;
use leasehold_core::leases::table::{self, Origin, Run, Table};
use leasehold_core::leases::{Client, Kind, Modrev, Object, Open, Serial, Terms, Ticket};
use leasehold_fs::{ExportId, FsError, ObjectId};

use callback::Asked as Callback;
pub use handles::{HandleBytes, HandleKey, Handles, export_of};
pub use held::{HeldLease, LeaseCounts, LeaseHolder, LeaseView, LeaseWaiter, LeaseWaits};
use layouts::LaidOut;
pub use leased_store::{Asked, Asks, By, LeasedStore, MadeFrom, Outcome};
pub use list::Admission;
use names::Names;
use programs::Program;
use unacknowledged::Unacknowledged;

/// The maximum number of leases. At this limit the server grants no further lease, and the call of
/// a client that requests one runs without a lease.
const LEASES_MAX: usize = 1 << 20;

/// The maximum number of waiting calls. At this limit the server replies to a call that would have
/// to wait with a status that requests a retry.
const WAITING_MAX: usize = 1 << 14;

/// The maximum number of calls from the server to clients whose reply has not arrived.
const ASKED_MAX: usize = 1 << 14;

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

/// A sender of messages to clients that are not replies to their calls.
pub trait Post: Send + Sync {
    /// Sends a message over a connection, if the connection is still open.
    fn send(&self, to: ConnectionId, message: Message);

    /// Sends a message by datagram from an address of the server. A client accepts the message only
    /// from the server port that the client calls, so the implementation sends the message from
    /// each port of the server.
    fn send_datagram(&self, to: SocketAddr, from: IpAddr, message: Message);

    /// Requests that the owner calls [`Leases::wake`] soon.
    fn hurry(&self);
}

/// The stable storage of the list of clients that may hold leases. After a restart the server waits
/// for the listed clients to reclaim their leases.
pub trait Ledger: Send + Sync {
    /// Writes the list, which replaces every list with a lower `number`. The implementation always
    /// calls `done`: with true once the list is on stable storage, or with false if the write
    /// failed.
    fn write(&self, number: u64, list: &[([u8; 16], u64)], done: Box<dyn FnOnce(bool) + Send>);
}

/// The state of leases that an earlier run of the server has stored.
#[derive(Clone, Debug, Default)]
pub struct Remembered {
    /// The server epoch, greater than the epoch of every earlier start.
    pub epoch: u64,
    /// The clients that may hold leases: ids with client incarnations (instances).
    pub list: Vec<([u8; 16], u64)>,
}

/// All leases of a server.
pub struct Leases {
    state: Mutex<State>,
    post: OnceLock<Arc<dyn Post>>,
    ledger: Option<Arc<dyn Ledger>>,
    handles: Handles,
    terms: Terms,
}

struct State {
    /// The latest time that an event reported.
    now: Time,
    clients: Clients,
    table: Table,
    modrevs: Modrevs,
    next_ticket: u64,
    waiting: BTreeMap<Ticket, Waiting>,
    waits: LeaseWaits,
    /// The deadlines of waiting calls.
    patience: BTreeSet<(Time, Ticket)>,
    peers: BTreeMap<Client, Peer>,
    /// The number of clients of each origin.
    origins: BTreeMap<Origin, usize>,
    /// The number of clients that the server refused because there were too many.
    refused_clients: u64,
    names: Names,
    asked: BTreeMap<Xid, Callback>,
    next_xid: u32,
    list: BTreeMap<Name, u64>,
    writes: list::Writes,
    /// The time of the next [`Leases::wake`] call that the owner has already scheduled.
    announced: Option<Time>,
    /// The exports without lease enforcement that running calls still use.
    draining: Vec<Arc<dyn Any + Send + Sync>>,
    /// The time since which `draining` has exports.
    draining_since: Time,
    /// The files that calls are writing, each with the queue of calls that wait to write the file.
    writing: BTreeMap<Object, VecDeque<oneshot::Sender<()>>>,
    /// The file systems on which a call reclaims reserved space, each with the other calls that
    /// wait for the end of that reclaim.
    making_room: BTreeMap<FileSystemId, Vec<oneshot::Sender<()>>>,
    /// The files that clients write directly at the iods, each with the modrev of the file at the
    /// start of the layout.
    layouts: BTreeMap<Object, (LaidOut, Modrev)>,
    unacknowledged: Unacknowledged,
}

/// A waiting call or local program.
enum Waiting {
    /// A call that waits for its operation guard on an object.
    Call(Object, oneshot::Sender<Option<Run>>),
    /// A lease request that waits until its client is on the stable list; the sender carries true
    /// if the call may request leases.
    List(Client, oneshot::Sender<bool>),
    /// A local program that waits for access to an object.
    Program(Object, Program),
}

/// A client with its return paths.
struct Peer {
    name: String,
    origin: Origin,
    protocol: Protocol,
    /// The return paths, the latest first; empty after the connection has closed.
    ways: VecDeque<Way>,
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
pub enum Way {
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

/// The actions of a step, which the caller performs after it has released the mutex.
#[derive(Default)]
struct Outs {
    messages: Vec<(Way, Message)>,
    evictions: BTreeMap<Client, Vec<(Object, Serial)>>,
    inquiries: Vec<Callback>,
    hurry: bool,
    /// Calls that waited, with their results.
    settled: Vec<Settled>,
    /// Lease requests that waited for the stable list, each with true if the call may request
    /// leases.
    admitted: Vec<(oneshot::Sender<bool>, bool)>,
    /// Local programs that may continue, each with the object and the ticket of its call in the
    /// lease table. The call ends when the program has continued.
    freed: Vec<(Program, Option<(Object, Ticket)>)>,
}

/// A call whose wait has ended.
struct Settled {
    object: Object,
    ticket: Ticket,
    sender: oneshot::Sender<Option<Run>>,
    run: Option<Run>,
}

impl Leases {
    /// Creates the leases of a server with the state that an earlier server has stored, and with the
    /// stable storage for the list of clients.
    #[must_use]
    pub fn new(
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
            unacknowledged: Unacknowledged::default(),
        };
        Self { state: Mutex::new(state), post: OnceLock::new(), ledger, handles, terms }
    }

    /// Returns the leases of a server without stored state and without stable storage.
    #[must_use]
    pub fn without_past(key: HandleKey) -> Self {
        let remembered = Remembered { epoch: 1, list: Vec::new() };
        Self::new(Handles::new(key), remembered, None, Time::ZERO)
    }

    /// Sets the sender of messages to clients.
    pub fn call_by(&self, post: Arc<dyn Post>) {
        // The owner starts a service once, so the sender is not set yet and `set` cannot fail.
        let _ = self.post.set(post);
    }

    /// Advances the time from which waits are measured.
    pub fn tell(&self, now: Time) {
        let mut state = self.lock();
        state.now = state.now.max(now);
    }

    /// Returns true if there are no clients, leases, waiting calls or layouts, so that calls can
    /// skip this module.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let state = self.lock();
        let nobody = state.clients.is_empty() && state.table.is_empty();
        // A client that the server forgot without a GOODBYE may still write under a layout, so the
        // module is not idle while layouts exist.
        nobody && state.waiting.is_empty() && state.layouts.is_empty()
    }

    /// Delays grants until the last call that uses these exports has ended.
    pub fn drain(&self, offered: Arc<dyn Any + Send + Sync>) {
        let mut state = self.lock();
        if !state.is_draining() {
            state.draining_since = state.now;
        }
        state.draining.push(offered);
    }

    /// Runs the actions that are due, and returns the time of the next action.
    pub fn wake(self: &Arc<Self>, now: Time) -> Option<Time> {
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

    /// Runs one step on the state, releases the mutex, and then performs the effects of the step.
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
            // The send fails if the caller has cancelled its call. A cancelled call needs no
            // result, so the failure is ignored.
            let _ = sender.send(may);
        }
        self.tell_settled(outs.settled);
        for (program, ran) in outs.freed {
            self.free(program, ran);
        }
        value
    }

    /// Sends the results to the waiting calls, which may continue inside this function. If the
    /// receiver of a result no longer exists, ends the operation guard of that call in the lease
    /// table.
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
    /// Returns true if calls without lease enforcement may still run.
    fn is_draining(&mut self) -> bool {
        self.draining.retain(|offered| Arc::strong_count(offered) > 1);
        !self.draining.is_empty()
    }

    fn next_wake(&self) -> Option<Time> {
        let patience = self.patience.first().map(|(at, _)| *at);
        [self.clients.next_wake(), self.table.next_wake(), patience].into_iter().flatten().min()
    }

    /// Adds the return path on which a call arrived. A client of the lease program has only the
    /// latest path.
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

    /// Stores a client's return paths.
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

    /// Records a call that waits for its operation guard on an object. Fails if too many calls
    /// wait.
    fn park(
        &mut self,
        object: Object,
    ) -> Result<(Ticket, oneshot::Receiver<Option<Run>>), FsError> {
        let (sender, receiver) = oneshot::channel();
        let ticket = self.keep_waiting(Waiting::Call(object, sender))?;
        Ok((ticket, receiver))
    }

    /// Assigns a ticket to a waiting call. Fails if too many calls wait.
    fn keep_waiting(&mut self, waiting: Waiting) -> Result<Ticket, FsError> {
        if self.waiting.len() >= WAITING_MAX {
            return Err(FsError::Delay);
        }
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.waiting.insert(ticket, waiting);
        Ok(ticket)
    }

    /// Returns true if a client retransmits its waiting calls, as a client of the lease program
    /// over datagrams does. The server bounds the wait of such a call, because each retransmitted
    /// copy waits as well and delays the other calls on the same socket. Hosts of NQNFS are
    /// excluded, because a host sleeps for a long time after a retry status.
    fn repeats(&self, client: Client) -> bool {
        self.peers.get(&client).is_some_and(|peer| {
            let way = peer.ways.front();
            peer.protocol == Protocol::Lease && matches!(way, Some(Way::Datagrams { .. }))
        })
    }

    /// Sets the deadline ([`JUKEBOX_AFTER`] from now) of a call that still waits.
    fn be_patient(&mut self, ticket: Ticket) {
        if self.waiting.contains_key(&ticket) {
            self.patience.insert((self.now + JUKEBOX_AFTER, ticket));
        }
    }

    /// Ends the wait of a call with a result.
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

    /// Ends the wait of a lease request for the stable list; `may` is true if the call may request
    /// leases.
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
                    outs.inquiries.push(Callback::report(client, object, serial, round));
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

/// The exclusive right of one call of this server to write a file, until this value is dropped.
pub(crate) struct Alone {
    leases: Arc<Leases>,
    object: Object,
    has: bool,
    waits: Option<oneshot::Receiver<()>>,
}

impl Drop for Alone {
    fn drop(&mut self) {
        // The previous owner may have sent the right to a receiver that was never polled: this
        // value then owns the right and must pass the right on. `close` prevents that a send to the
        // receiver succeeds after this check.
        let given = |waits: &mut oneshot::Receiver<()>| {
            waits.close();
            matches!(waits.try_recv(), Ok(Some(())))
        };
        if !self.has && !self.waits.as_mut().is_some_and(given) {
            return;
        }
        let mut state = self.leases.lock();
        // Passes the right to the first receiver that still exists. The mutex is released before
        // each send, because the woken receiver may run inside `send` and acquire the mutex itself.
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

impl Leases {
    /// Returns the client of a call of the lease program, and stores the call's connection as the client's return path.
    ///
    /// # Errors
    /// The reason for which the call has no effect.
    pub fn admit(
        self: &Arc<Self>,
        now: Time,
        way: Way,
        caller: &leasehold_wire::lease::Caller,
    ) -> Result<Client, Refusal> {
        self.with(now, |state, outs| {
            let who = (Name(caller.client), caller.instance);
            let client = state.clients.admit(state.now, who, caller.epoch)?;
            state.heard(client, way, outs);
            Ok(client)
        })
    }

    /// Records that a client has returned a lease.
    pub fn returned(
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

    /// Waits for the exclusive right to write a file.
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

    /// Returns true if no other client holds a write lease on the object, so that the store's
    /// attributes are current.
    pub(crate) fn is_known(&self, object: Object, client: Option<Client>) -> bool {
        let state = self.lock();
        !state.table.leases(object).iter().any(|lease| {
            lease.cachable && lease.kind == Kind::Write && Some(lease.client) != client
        })
    }

    /// Registers a client that sent HELLO, with the call's connection as the client's return path.
    ///
    /// # Errors
    /// The reason for which the server does not register the client.
    pub fn hello(
        self: &Arc<Self>,
        now: Time,
        (way, host): (Way, IpAddr),
        (id, instance): ([u8; 16], u64),
        protocol: Protocol,
        name: &str,
    ) -> Result<(), Refusal> {
        self.with(now, |state, outs| {
            let origin = origin_of(host);
            let of_origin = state.origins.get(&origin).copied().unwrap_or(0);
            let is_full = state.peers.len() >= CLIENTS_MAX || of_origin >= CLIENTS_OF_ORIGIN_MAX;
            let is_known = |client| state.clients.name(client) == Some(Name(id));
            if is_full && !state.peers.keys().copied().any(is_known) {
                state.refused_clients += 1;
                return Err(Refusal::Later);
            }
            for effect in state.registry(clients::Event::Hello(Name(id), instance), outs) {
                match effect {
                    clients::Effect::Superseded(_, known) => {
                        return Err(Refusal::Instance(known));
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

    /// Ends all leases of a client. The server no longer waits for that client to reclaim or return
    /// a lease.
    pub fn goodbye(self: &Arc<Self>, id: [u8; 16]) {
        self.with(Time::ZERO, |state, outs| {
            state.registry(clients::Event::Gone(Name(id)), outs);
        });
    }

    /// Removes a closed connection from the return paths of all clients.
    pub fn connection_closed(&self, connection: ConnectionId) {
        let mut state = self.lock();
        let gone = Way::Connection(connection);
        state.peers.values_mut().for_each(|peer| peer.ways.retain(|way| *way != gone));
    }

    /// Records the progress of a client's recovery since the start of the server.
    pub fn progressed(self: &Arc<Self>, event: clients::Event) {
        self.with(Time::ZERO, |state, outs| drop(state.registry(event, outs)));
    }

    /// Returns the server epoch, and true if the server is in its grace period.
    #[must_use]
    pub fn standing(&self) -> (u64, bool) {
        let state = self.lock();
        (state.clients.epoch(), state.clients.missing().is_some())
    }

    /// Returns the time limits of the leases.
    #[must_use]
    pub const fn terms(&self) -> &Terms {
        &self.terms
    }
}

#[cfg(test)]
mod tests;
