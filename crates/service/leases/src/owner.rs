//! The owner of all leases of a server: the registry of clients, and the shards.

use core::any::Any;
use core::net::{IpAddr, SocketAddr};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use leasehold_base::units::{ConnectionId, Time};
use leasehold_base::xdr::Message;
use leasehold_core::leases::clients::Name;
use leasehold_core::leases::table;
use leasehold_core::leases::{Client, Kind, Object, Open, Serial, Terms};
use leasehold_fs::{ExportId, ObjectId};

use crate::admissions::Admissions;
use crate::common::Common;
use crate::draining::Draining;
use crate::effects::{Effects, Settled};
use crate::registry::{Registry, ReturnPath};
use crate::room::Reclaims;
use crate::shard::{SHARDS, Shard, shard_of};
use crate::{HandleKey, Handles};

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
///
/// Order of the mutexes: the registry, then one shard, then the state that all shards share. No
/// thread holds the mutexes of two shards.
pub struct Leases {
    registry: Mutex<Registry>,
    pub(crate) admissions: Admissions,
    shards: [Mutex<Shard>; SHARDS],
    pub(crate) common: Arc<Common>,
    pub(crate) draining: Draining,
    pub(crate) reclaims: Reclaims,
    pub(crate) post: OnceLock<Arc<dyn Post>>,
    pub(crate) ledger: Option<Arc<dyn Ledger>>,
    pub(crate) handles: Handles,
    pub(crate) epoch: u64,
    terms: Terms,
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
        let common = Arc::new(Common::new(now, !list.is_empty()));
        let shard =
            |number| Mutex::new(Shard::new(number, Arc::clone(&common), (terms, epoch), now));
        Self {
            registry: Mutex::new(Registry::new(now, terms, epoch, list)),
            admissions: Admissions::default(),
            shards: core::array::from_fn(shard),
            common,
            draining: Draining::default(),
            reclaims: Reclaims::default(),
            post: OnceLock::new(),
            ledger,
            handles,
            epoch,
            terms,
        }
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
        self.common.tell(now);
    }

    /// Returns true if there are no clients, leases, waiting calls or layouts, so that calls can
    /// skip this module. The caller prevents that a client registers meanwhile.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        // A client that the server forgot without a GOODBYE may still write under a layout, so the
        // module is not idle while layouts exist.
        let has_clients = !self.registry().clients.is_empty();
        !has_clients && self.common.waiting() == 0 && self.shards().all(|shard| shard.is_idle())
    }

    /// Delays grants until the last call that uses these exports has ended.
    pub fn drain(&self, offered: Arc<dyn Any + Send + Sync>) {
        self.draining.add(self.common.now(), offered);
    }

    /// Runs the actions that are due, and returns the time of the next action.
    pub fn wake(self: &Arc<Self>, now: Time) -> Option<Time> {
        self.tell(now);
        self.common.is_waking();
        let mut effects = Effects::default();
        self.in_registry(&mut effects, Registry::wake);
        for number in 0..SHARDS {
            self.in_shard(number, &mut effects, Shard::wake);
        }
        // The caller schedules the next wake-up, so the effects need not request it.
        let next = effects.next.take();
        if let Some(next) = next {
            self.common.announce(next);
        }
        self.perform(effects);
        next
    }

    /// Records that a client has returned a lease.
    pub fn returned(
        self: &Arc<Self>,
        client: Client,
        handle: (ExportId, ObjectId),
        serial: Serial,
        open: Open,
    ) {
        if let Some(object) = self.common.handles.object(&handle) {
            self.on(object, |shard, effects| {
                shard.step(table::Event::Returned(client, object, serial, open), effects);
            });
        }
    }

    /// Returns true if no other client holds a write lease on the object, so that the store's
    /// attributes are current.
    pub(crate) fn is_known(&self, object: Object, client: Option<Client>) -> bool {
        !self.shard(object).table.leases(object).iter().any(|lease| {
            lease.cachable && lease.kind == Kind::Write && Some(lease.client) != client
        })
    }

    /// Returns the server epoch, and true if the server is in its grace period.
    #[must_use]
    pub fn standing(&self) -> (u64, bool) {
        (self.epoch, self.common.is_recovering())
    }

    /// Returns true if the server is in the grace period of leases.
    #[must_use]
    pub fn is_recovering(&self) -> bool {
        self.common.is_recovering()
    }

    /// Reports if clients of another protocol may reclaim state from before the start. Until they
    /// have, clients are granted no leases that they do not reclaim.
    pub fn share_grace(&self, others_recover: bool) {
        self.common.set_others_recovering(others_recover);
    }

    /// Returns the time limits of the leases.
    #[must_use]
    pub const fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Runs one step on the shard of an object, releases the mutex, and then performs the effects of
    /// the step.
    pub(crate) fn on<T>(
        self: &Arc<Self>,
        object: Object,
        step: impl FnOnce(&mut Shard, &mut Effects) -> T,
    ) -> T {
        let mut effects = Effects::default();
        let value = self.in_shard(shard_of(object), &mut effects, step);
        self.perform(effects);
        value
    }

    /// Runs one step on the registry, releases the mutex, and then performs the effects of the step.
    pub(crate) fn register<T>(
        self: &Arc<Self>,
        now: Time,
        step: impl FnOnce(&mut Registry, &mut Effects) -> T,
    ) -> T {
        self.tell(now);
        let mut effects = Effects::default();
        let value = self.in_registry(&mut effects, step);
        self.perform(effects);
        value
    }

    fn in_shard<T>(
        &self,
        number: usize,
        effects: &mut Effects,
        step: impl FnOnce(&mut Shard, &mut Effects) -> T,
    ) -> T {
        let mut shard = lock(&self.shards[number]);
        shard.begin();
        let value = step(&mut shard, effects);
        effects.next_at(shard.end());
        value
    }

    /// Runs one step on the registry, and the resulting events on all shards.
    fn in_registry<T>(
        &self,
        effects: &mut Effects,
        step: impl FnOnce(&mut Registry, &mut Effects) -> T,
    ) -> T {
        let mut registry = self.registry();
        registry.now = registry.now.max(self.common.now());
        if registry.is_due() {
            self.admissions.report(self.epoch, &mut registry.clients);
        }
        registry.take_written(effects);
        let value = step(&mut registry, effects);
        effects.listed.drain(..).for_each(|client| self.admissions.list(client));
        for (name, client) in effects.forgotten.drain(..) {
            self.admissions.forget(name, client);
        }
        let events = core::mem::take(&mut effects.events);
        if !events.is_empty() {
            // The mutex of the registry is held, so all shards receive the events in one order.
            for number in 0..SHARDS {
                self.in_shard(number, effects, |shard, effects| {
                    events.iter().for_each(|event| shard.step(*event, effects));
                });
            }
        }
        effects.next_at(registry.end(&self.common));
        effects.list = registry.list_to_write();
        value
    }

    /// Performs the effects of a step. The caller holds no mutex.
    fn perform(self: &Arc<Self>, effects: Effects) {
        let Effects { evictions, inquiries, settled, admitted, freed, charges, .. } = effects;
        let mut messages = Vec::new();
        if !evictions.is_empty() || !inquiries.is_empty() {
            self.registry().write_calls(evictions, &inquiries, &self.handles, &mut messages);
        }
        let is_sooner = effects.next.is_some_and(|next| self.common.announce(next));
        if let Some(post) = self.post.get() {
            for (way, message) in messages {
                match way {
                    ReturnPath::Connection(to) => post.send(to, message),
                    ReturnPath::Datagrams { to, from } => post.send_datagram(to, from, message),
                }
            }
            if is_sooner {
                post.hurry();
            }
        }
        if let Some(list) = effects.list {
            self.write_list(&list);
        }
        for (sender, may) in admitted {
            // The send fails if the caller has cancelled its call. A cancelled call needs no
            // result, so the failure is ignored.
            let _ = sender.send(may);
        }
        if !charges.is_empty() {
            let mut effects = Effects::default();
            for number in 0..SHARDS {
                self.in_shard(number, &mut effects, |shard, effects| {
                    shard.charged(&charges, effects);
                });
            }
            self.perform(effects);
        }
        self.tell_settled(settled);
        for (program, ran) in freed {
            self.free(program, ran);
        }
    }

    /// Sends the results to the waiting calls, which may continue inside this function. If the
    /// receiver of a result no longer exists, ends the operation guard of that call in the lease
    /// table.
    fn tell_settled(self: &Arc<Self>, settled: Vec<Settled>) {
        for Settled { object, ticket, sender, run } in settled {
            if let Err(Some(_)) = sender.send(run) {
                let outcome = table::Outcome { used: 0, void: true };
                self.on(object, |shard, effects| {
                    shard.step(table::Event::Done(object, ticket, outcome), effects);
                });
            }
        }
    }

    pub(crate) fn registry(&self) -> MutexGuard<'_, Registry> {
        lock(&self.registry)
    }

    /// Returns the shard of an object. A caller that changes the lease table uses [`Leases::on`].
    pub(crate) fn shard(&self, object: Object) -> MutexGuard<'_, Shard> {
        lock(&self.shards[shard_of(object)])
    }

    /// Returns the shards one after the other.
    pub(crate) fn shards(&self) -> impl Iterator<Item = MutexGuard<'_, Shard>> {
        self.shards.iter().map(lock)
    }
}

fn lock<T>(part: &Mutex<T>) -> MutexGuard<'_, T> {
    part.lock().expect("a core that panicked is not used again")
}
