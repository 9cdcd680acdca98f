//! The owner of the clients and sessions: performs the effects of the state machine, and carries
//! callbacks to clients.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use leasehold_base::limits::sessions::CALLBACKS_MAX;
use leasehold_base::units::{ConnectionId, Time, Xid};
use leasehold_base::xdr::{Decode as _, Message, Reader};
use leasehold_core::locks::{Effect as LockEffect, Locker, Owner};
use leasehold_core::opens::{Effect as OpenEffect, Object, StateId};
use leasehold_core::owners::Grace;
use leasehold_core::sessions::{
    Admitted, Answer, CallbackCall, Cause, ClientId, Effect, Error, Event, ExchangeFlags, Limits,
    Payload, PayloadId, Request, SequenceId, Server, SessionId, Sessions, SlotId,
};
use leasehold_wire::nfs4::callback::{Args, notify_lock};
use leasehold_wire::nfs4::{self as wire, Handle, Identifier, StateOwner, Status, sequence};
use leasehold_wire::rpc::{Reply, ReplyStatus};

use super::callbacks;
use super::changes::Numbers;
use super::compound::{Compound, InSession};
use super::convert;
use super::counts::Counts;
use super::opens;
use super::recovery::{Outcome, Records};
use super::stable::{ClientLedger, ClientRecords};
use super::state::{Consequences, Notice, Shard, State as Opened};
use crate::Service;
use leasehold_leases::Post;

/// The clients and sessions of a server, with their callbacks.
pub(crate) struct Clients {
    pub(super) service: Arc<Service>,
    machine: Mutex<State>,
    /// The opens and locks of the clients.
    pub(super) state: Opened,
    /// The change attributes of objects.
    pub(super) numbers: Numbers,
    pub(super) counts: Counts,
    server: Server,
    pub(super) post: Arc<OnceLock<Arc<dyn Post>>>,
    /// The stable storage of the client records.
    pub(super) ledger: Option<Arc<dyn ClientLedger>>,
    pub(super) outcome: Arc<Outcome>,
}

/// An event in the life of a client that changes its opens and locks.
#[derive(Clone, Copy)]
enum Fate {
    /// Its lease has expired.
    Silent,
    /// It has called again.
    Heard,
    /// Its state is revoked.
    Revoked,
    /// It has ended or restarted.
    Void,
}

pub(super) struct State {
    pub(super) sessions: Sessions,
    /// The time of the last event.
    now: Time,
    /// The callbacks that clients have not answered, by the transaction number.
    calls: BTreeMap<Xid, (ConnectionId, Request)>,
    next_xid: u32,
    /// The operations of the callbacks that have not ended; the state machine bounds their number.
    payloads: BTreeMap<PayloadId, LockNotice>,
    next_payload: u64,
    /// The records of clients on stable storage, if there is one.
    pub(super) records: Option<Records>,
    /// True if all clients have returned or the time of the grace period has passed, until the
    /// grace period ends.
    pub(super) has_returned: bool,
    /// True if the observer knows that the grace period has begun.
    pub(super) is_grace_known: bool,
    /// The number of clients that had not returned at the end of the grace period.
    pub(super) missing: usize,
}

/// The arguments of CB_NOTIFY_LOCK.
struct LockNotice {
    file: Handle,
    owner: Owner,
}

impl Clients {
    /// Creates the clients of a server with this name, which is the same after each restart. With
    /// stable storage, the clients of the records may reclaim their state.
    pub(crate) fn new(
        (service, name): (Arc<Service>, [u8; 16]),
        (records, ledger): (ClientRecords, Option<Arc<dyn ClientLedger>>),
        now: Time,
    ) -> Self {
        let server = Server {
            minor: 0,
            major: Bytes::copy_from_slice(&name),
            scope: Bytes::copy_from_slice(&name),
            flags: ExchangeFlags::USE_NON_PNFS,
        };
        let (of_run, records) = (records.epoch(), records.into_records());
        let epoch = u32::try_from(of_run).unwrap_or(u32::MAX);
        let state = State {
            sessions: Sessions::new(now, Limits::DEFAULT, server.clone(), epoch, records.clone()),
            now,
            calls: BTreeMap::new(),
            next_xid: 1,
            payloads: BTreeMap::new(),
            next_payload: 1,
            records: ledger.is_some().then(|| Records::new(of_run, records)),
            has_returned: false,
            is_grace_known: false,
            missing: 0,
        };
        let clients = Self {
            service,
            machine: Mutex::new(state),
            state: Opened::new(epoch),
            numbers: Numbers::default(),
            counts: Counts::new(),
            server,
            post: Arc::default(),
            ledger,
            outcome: Arc::default(),
        };
        clients.begin_grace(now);
        clients
    }

    pub(crate) fn call_by(&self, post: Arc<dyn Post>) {
        // A second sender is never set: a service has one shell.
        let _ = self.post.set(post);
        // The result of a write before this call has woken nothing.
        self.post.get().iter().for_each(|post| post.hurry());
    }

    pub(super) const fn server(&self) -> &Server {
        &self.server
    }

    pub(super) fn machine(&self) -> MutexGuard<'_, State> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a step of the sessions, and performs its effects. Time never runs backwards.
    fn with<T>(&self, now: Time, step: impl FnOnce(&mut State, Time, &mut Vec<Effect>) -> T) -> T {
        let mut effects = Vec::new();
        let mut state = self.machine();
        state.now = state.now.max(now);
        let now = state.now;
        let result = step(&mut state, now, &mut effects);
        self.perform(state, now, effects);
        result
    }

    /// Reads the clients and sessions.
    pub(super) fn with_sessions<T>(&self, read: impl FnOnce(&Sessions) -> T) -> T {
        read(&self.machine().sessions)
    }

    /// Runs a request of a client, and performs its effects.
    pub(super) fn run<T>(
        &self,
        now: Time,
        request: impl FnOnce(&mut Sessions, Time, &mut Vec<Effect>) -> Result<T, Error>,
    ) -> Result<T, Status> {
        let result =
            self.with(now, |state, now, effects| request(&mut state.sessions, now, effects));
        result.map_err(convert::session_status)
    }

    /// Handles an event.
    pub(crate) fn step(&self, now: Time, event: Event) {
        self.with(now, |state, now, effects| state.sessions.step(now, event, effects));
    }

    pub(super) fn sequence(
        &self,
        compound: &Compound,
        args: &sequence::Args,
    ) -> Result<Admitted, Status> {
        let connection = compound.connection();
        let call = leasehold_core::sessions::Sequence {
            session: SessionId(args.session.0),
            slot: SlotId(args.slot.0),
            sequence: SequenceId(args.sequence.0),
            highest: SlotId(args.highest_slot.0),
            cache_this: args.cache,
            connection,
            principal: compound.principal(),
            digest: compound.digest,
            request_bytes: compound.request_bytes,
            operations: compound.operations,
        };
        self.run(compound.now(), |sessions, now, effects| sessions.sequence(now, &call, effects))
    }

    /// Ends the request of a compound, and caches the part of its reply after the RPC header.
    pub(super) fn complete(&self, session: &InSession, message: &Message, body_at: usize) {
        let is_small =
            message.len() <= leasehold_base::limits::sessions::CACHED_REPLY_BYTES_MAX as usize;
        let reply = is_small.then(|| message.to_bytes().slice(body_at..));
        self.machine().sessions.complete(session.request, reply);
    }

    /// Returns true if a message is the answer to a callback, and handles it.
    pub(crate) fn answered(&self, now: Time, from: ConnectionId, message: &Bytes) -> bool {
        let mut reader = Reader::new(message);
        let Ok(Reply { xid, status }) = Reply::decode(&mut reader) else { return false };
        self.with(now, |state, now, effects| {
            // Only the connection of the callback may carry its answer.
            let Some((_, request)) = state.calls.get(&xid).copied().filter(|(to, _)| *to == from)
            else {
                return false;
            };
            state.calls.remove(&xid);
            let answer = if status == ReplyStatus::Success {
                callbacks::answer(&mut reader)
            } else {
                Answer::Garbled
            };
            state.sessions.step(now, Event::Answered(request, answer), effects);
            true
        })
    }

    pub(crate) fn connection_closed(&self, closed: ConnectionId) {
        // The shell reports the end of a connection without the time.
        self.with(Time::ZERO, |state, now, effects| {
            state.calls.retain(|_, (to, _)| *to != closed);
            state.sessions.step(now, Event::ConnectionLost(closed), effects);
        });
    }

    /// Runs the work that is due, and returns the time of the next work.
    pub(crate) fn wake(&self, now: Time) -> Option<Time> {
        self.settle(now);
        if self.machine().has_returned {
            self.step(now, Event::Tick);
        }
        if self.machine().sessions.next_wake().is_some_and(|wake| wake <= now) {
            self.step(now, Event::Tick);
        }
        let (of_locks, consequences) = self.state.wake(now);
        self.follow(now, consequences);
        let next = self.machine().sessions.next_wake();
        next.into_iter().chain(of_locks).chain(self.next_look(now)).min()
    }

    /// Runs a step on the opens and locks of a file.
    pub(super) fn on_file<T>(
        &self,
        now: Time,
        object: Object,
        step: impl FnOnce(&mut Shard, &mut Vec<OpenEffect>, &mut Vec<LockEffect>) -> T,
    ) -> T {
        let (result, consequences) = self.state.on_file(now, object, step);
        self.follow(now, consequences);
        result
    }

    /// Runs a step on the opens and locks of the shard of a state id.
    pub(super) fn on_stateid<T>(
        &self,
        now: Time,
        id: StateId,
        step: impl FnOnce(&mut Shard, &mut Vec<OpenEffect>, &mut Vec<LockEffect>) -> T,
    ) -> T {
        let (result, consequences) = self.state.on_stateid(now, id, step);
        self.follow(now, consequences);
        result
    }

    /// Reports to the sessions that other clients needed state of silent clients, and that clients
    /// should request a lock again.
    fn follow(&self, now: Time, consequences: Consequences) {
        for client in consequences.expired {
            self.step(now, Event::Conflict(ClientId(client.0)));
        }
        for Notice { files, owner } in consequences.notices {
            let Locker::Client(client) = owner.locker else { continue };
            for (export, id) in files {
                let handle = Handle::new(&self.service.handles.seal(export, &id));
                let file = handle.expect("a handle of ours has 32 bytes");
                self.notify(now, ClientId(client.0), LockNotice { file, owner: owner.clone() });
            }
        }
    }

    /// Sends CB_NOTIFY_LOCK to a client. A client without a backchannel polls.
    fn notify(&self, now: Time, client: ClientId, notice: LockNotice) {
        self.with(now, |state, now, effects| {
            if state.sessions.has_callback_path(client) {
                let payload = PayloadId(state.next_payload);
                state.next_payload += 1;
                state.payloads.insert(payload, notice);
                let event = Event::Callback(client, payload, Vec::new());
                state.sessions.step(now, event, effects);
            }
        });
    }

    /// Returns true if the server can send callbacks to a client.
    pub(super) fn has_callback_path(&self, client: ClientId) -> bool {
        self.machine().sessions.has_callback_path(client)
    }

    /// Records if a client has any state.
    pub(super) fn has_state(&self, now: Time, client: ClientId, has: bool) {
        self.step(now, Event::HasState(client, has));
    }

    /// Records that a client has acknowledged the loss of state.
    pub(super) fn freed(&self, now: Time, client: ClientId, states: usize) {
        let states = u32::try_from(states).unwrap_or(u32::MAX);
        self.step(now, Event::Freed(client, Cause::ExpiredAll, states));
    }

    /// Returns the relation of a client to the grace period.
    pub(super) fn grace(&self, client: ClientId) -> Result<Grace, Status> {
        let machine = self.machine();
        let may_reclaim = machine.sessions.may_reclaim(client).is_ok();
        opens::grace_of(machine.sessions.may_grant(client), may_reclaim)
    }

    /// Returns true during the grace period.
    pub(super) fn is_grace(&self) -> bool {
        self.machine().sessions.in_grace()
    }

    /// Performs effects. The state is locked while the state machine runs, and unlocked while
    /// messages are sent.
    pub(super) fn perform(
        &self,
        mut state: MutexGuard<'_, State>,
        now: Time,
        mut effects: Vec<Effect>,
    ) {
        let (mut messages, mut fates, mut has_opened) = (Vec::new(), Vec::new(), false);
        self.end_grace(&mut state, now, &mut effects);
        while !effects.is_empty() {
            for effect in core::mem::take(&mut effects) {
                match effect {
                    Effect::Send(call) => state.send(&call, &mut messages),
                    Effect::Remember { owner, record, ticket } => {
                        state.remember(now, (owner, record, ticket), &mut effects);
                    }
                    Effect::Forget(owner) => {
                        state.records.iter_mut().for_each(|records| records.forget(&owner));
                    }
                    Effect::Returned => {
                        state.has_returned = true;
                        self.end_grace(&mut state, now, &mut effects);
                    }
                    Effect::Opened => has_opened = core::mem::take(&mut state.is_grace_known),
                    Effect::Expired(client) => fates.push((client, Fate::Silent)),
                    Effect::Renewed(client) => fates.push((client, Fate::Heard)),
                    Effect::Revoke(client) => fates.push((client, Fate::Revoked)),
                    Effect::Void(client) => fates.push((client, Fate::Void)),
                    Effect::Delivered { payload, .. } | Effect::Undelivered { payload, .. } => {
                        state.payloads.remove(&payload);
                    }
                    Effect::Remembered(_) => {}
                }
            }
        }
        let (write, missing) =
            (state.records.as_mut().and_then(Records::next_write), state.missing);
        drop(state);
        if has_opened {
            self.grace_ended(missing);
        }
        if let Some(write) = write {
            self.start(now, write);
        }
        if let Some(post) = self.post.get() {
            messages.into_iter().for_each(|(to, message)| post.send(to, message));
        }
        fates.into_iter().for_each(|(client, fate)| self.meet(now, client, fate));
    }

    /// Applies the fate of a client to its opens and locks.
    fn meet(&self, now: Time, id: ClientId, fate: Fate) {
        let (client, locker) = (opens::client(id), Locker::Client(opens::client(id)));
        let before = self.state.revoked(client);
        let consequences = self.state.everywhere(now, |shard, of_opens, of_locks| match fate {
            Fate::Silent => {
                shard.opens.silence(client);
                shard.locks.silence(now, client, of_locks);
            }
            Fate::Heard => {
                shard.opens.heard(client);
                shard.locks.heard(client);
            }
            Fate::Revoked => {
                shard.opens.expire(client, of_opens);
                shard.locks.release(now, locker, of_locks);
            }
            Fate::Void => {
                shard.opens.forget(client, of_opens);
                shard.locks.release(now, locker, of_locks);
            }
        });
        self.follow(now, consequences);
        if matches!(fate, Fate::Revoked) {
            let revoked = self.state.revoked(client).saturating_sub(before);
            let revoked = u32::try_from(revoked).unwrap_or(u32::MAX);
            self.step(now, Event::Revoked(id, Cause::ExpiredAll, revoked));
        }
    }
}

impl LockNotice {
    fn args(&self) -> Args<'_> {
        let client = match self.owner.locker {
            Locker::Client(client) => wire::ClientId(client.0),
            Locker::Host(_) | Locker::Local => wire::ClientId(0),
        };
        let owner = StateOwner { client, owner: Identifier(self.owner.name.bytes()) };
        Args::NotifyLock(notify_lock::Args { file: self.file, owner })
    }
}

impl State {
    fn send(&mut self, call: &CallbackCall, messages: &mut Vec<(ConnectionId, Message)>) {
        let operation = match call.payload {
            Payload::Nothing => None,
            Payload::RecallSlots(SlotId(target)) => Some(Args::RecallSlot(wire::SlotId(target))),
            Payload::Operation(payload) => match self.payloads.get(&payload) {
                Some(notice) => Some(notice.args()),
                None => return,
            },
        };
        let Some(program) = self.sessions.callback_program(call.session) else { return };
        let xid = Xid(self.next_xid);
        messages.push((call.connection, callbacks::encode(xid, program, call, operation.as_ref())));
        self.next_xid = self.next_xid.wrapping_add(1);
        // At the limit the server forgets its oldest callback: the state machine repeats a callback
        // whose answer does not arrive.
        if self.calls.len() >= CALLBACKS_MAX {
            self.calls.pop_first();
        }
        let request = Request { session: call.session, slot: call.slot, sequence: call.sequence };
        self.calls.insert(xid, (call.connection, request));
    }
}
