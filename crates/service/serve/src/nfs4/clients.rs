//! The owner of the clients and sessions: performs the effects of the state machine, and carries
//! callbacks to clients.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use leasehold_base::limits::sessions::CALLBACKS_MAX;
use leasehold_base::units::{ConnectionId as Connection, Time, Xid};
use leasehold_base::xdr::{Decode as _, Message, Reader};
use leasehold_core::locks::{Effect as LockEffect, Locker};
use leasehold_core::opens::{Effect as OpenEffect, Object, StateId};
use leasehold_core::owners::Grace;
use leasehold_core::sessions::{
    Admitted, Answer, CallbackCall, Cause, ClientId, ConnectionId, Effect, Error, Event,
    ExchangeFlags, Limits, Payload, Request, SequenceId, Server, SessionId, Sessions, SlotId,
};
use leasehold_wire::nfs4::{Status, sequence};
use leasehold_wire::rpc::{Reply, ReplyStatus};

use super::callbacks;
use super::compound::{Compound, InSession};
use super::convert;
use super::counts::Counts;
use super::opens;
use super::state::{Consequences, Shard, State as Opened};
use leasehold_leases::Post;

/// The clients and sessions of a server, with their callbacks.
pub(crate) struct Clients {
    machine: Mutex<State>,
    /// The opens and locks of the clients.
    pub(super) state: Opened,
    pub(super) counts: Counts,
    server: Server,
    post: OnceLock<Arc<dyn Post>>,
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

struct State {
    sessions: Sessions,
    /// The time of the last event.
    now: Time,
    /// The callbacks that clients have not answered, by the transaction number.
    calls: BTreeMap<Xid, (ConnectionId, Request)>,
    next_xid: u32,
    /// The connections of the numbers that the state machine knows.
    connections: BTreeMap<ConnectionId, Connection>,
}

/// Returns the number of a connection, which is unique within the process.
pub(super) fn connection(connection: Connection) -> ConnectionId {
    let Connection { event_loop, slot, generation } = connection;
    ConnectionId(
        u64::from(event_loop & 0xff) << 56
            | u64::from(slot & 0x00ff_ffff) << 32
            | u64::from(generation),
    )
}

impl Clients {
    /// Creates the clients of a server with this name, which is the same after each restart.
    pub(crate) fn new(now: Time, name: [u8; 16], epoch: u32) -> Self {
        let server = Server {
            minor: 0,
            major: Bytes::copy_from_slice(&name),
            scope: Bytes::copy_from_slice(&name),
            flags: ExchangeFlags::USE_NON_PNFS,
        };
        let mut sessions =
            Sessions::new(now, Limits::DEFAULT, server.clone(), epoch, BTreeMap::new());
        let mut effects = Vec::new();
        sessions.step(now, Event::Tick, &mut effects);
        sessions.step(now, Event::EndGrace, &mut effects);
        let state = State {
            sessions,
            now,
            calls: BTreeMap::new(),
            next_xid: 1,
            connections: BTreeMap::new(),
        };
        Self {
            machine: Mutex::new(state),
            state: Opened::new(epoch),
            counts: Counts::new(),
            server,
            post: OnceLock::new(),
        }
    }

    pub(crate) fn call_by(&self, post: Arc<dyn Post>) {
        // A second sender is never set: a service has one shell.
        let _ = self.post.set(post);
    }

    pub(super) const fn server(&self) -> &Server {
        &self.server
    }

    fn machine(&self) -> MutexGuard<'_, State> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
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
        let mut effects = Vec::new();
        let mut state = self.machine();
        state.now = state.now.max(now);
        let now = state.now;
        let result = request(&mut state.sessions, now, &mut effects);
        self.perform(state, now, effects);
        result.map_err(convert::session_status)
    }

    /// Handles an event.
    pub(crate) fn step(&self, now: Time, event: Event) {
        let mut effects = Vec::new();
        let mut state = self.machine();
        state.now = state.now.max(now);
        let now = state.now;
        state.sessions.step(now, event, &mut effects);
        self.perform(state, now, effects);
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
    pub(crate) fn answered(&self, now: Time, from: Connection, message: &Bytes) -> bool {
        let mut reader = Reader::new(message);
        let Ok(Reply { xid, status }) = Reply::decode(&mut reader) else { return false };
        let mut state = self.machine();
        // Only the connection of the callback may carry its answer.
        let from = connection(from);
        let Some((to, request)) = state.calls.get(&xid).copied().filter(|(to, _)| *to == from)
        else {
            return false;
        };
        debug_assert_eq!(to, from);
        state.calls.remove(&xid);
        let answer = if status == ReplyStatus::Success {
            callbacks::answer(&mut reader)
        } else {
            Answer::Garbled
        };
        let mut effects = Vec::new();
        state.sessions.step(now, Event::Answered(request, answer), &mut effects);
        self.perform(state, now, effects);
        true
    }

    pub(crate) fn connection_closed(&self, closed: Connection) {
        let number = connection(closed);
        let mut state = self.machine();
        state.connections.remove(&number);
        state.calls.retain(|_, (to, _)| *to != number);
        // The shell reports the end of a connection without the time.
        let now = state.now;
        let mut effects = Vec::new();
        state.sessions.step(now, Event::ConnectionLost(number), &mut effects);
        self.perform(state, now, effects);
    }

    /// Remembers the connection of a client, so that callbacks can be sent to it.
    pub(super) fn note(&self, connected: Option<Connection>) {
        if let Some(connected) = connected {
            self.machine().connections.insert(connection(connected), connected);
        }
    }

    /// Runs the work that is due, and returns the time of the next work.
    pub(crate) fn wake(&self, now: Time) -> Option<Time> {
        if self.machine().sessions.next_wake().is_some_and(|wake| wake <= now) {
            self.step(now, Event::Tick);
        }
        let (of_locks, consequences) = self.state.wake(now);
        self.follow(now, consequences);
        self.machine().sessions.next_wake().into_iter().chain(of_locks).min()
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

    /// Reports to the sessions that other clients needed state of silent clients.
    fn follow(&self, now: Time, consequences: Consequences) {
        for client in consequences.expired {
            self.step(now, Event::Conflict(ClientId(client.0)));
        }
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
    fn perform(&self, mut state: MutexGuard<'_, State>, now: Time, mut effects: Vec<Effect>) {
        let (mut messages, mut fates) = (Vec::new(), Vec::new());
        while !effects.is_empty() {
            for effect in core::mem::take(&mut effects) {
                match effect {
                    Effect::Send(call) => state.send(&call, &mut messages),
                    // The list of clients is in memory only, as is all state that clients hold.
                    Effect::Remember { ticket, .. } => {
                        state.sessions.step(now, Event::Persisted(ticket), &mut effects);
                    }
                    Effect::Returned => state.sessions.step(now, Event::EndGrace, &mut effects),
                    Effect::Expired(client) => fates.push((client, Fate::Silent)),
                    Effect::Renewed(client) => fates.push((client, Fate::Heard)),
                    Effect::Revoke(client) => fates.push((client, Fate::Revoked)),
                    Effect::Void(client) => fates.push((client, Fate::Void)),
                    Effect::Delivered { .. }
                    | Effect::Forget(_)
                    | Effect::Opened
                    | Effect::Remembered(_)
                    | Effect::Undelivered { .. } => {}
                }
            }
        }
        drop(state);
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

impl State {
    fn send(&mut self, call: &CallbackCall, messages: &mut Vec<(Connection, Message)>) {
        let Some(&to) = self.connections.get(&call.connection) else { return };
        let xid = Xid(self.next_xid);
        self.next_xid = self.next_xid.wrapping_add(1);
        // At the limit the server forgets its oldest callback: the state machine repeats a callback
        // whose answer does not arrive.
        if self.calls.len() >= CALLBACKS_MAX {
            self.calls.pop_first();
        }
        let request = Request { session: call.session, slot: call.slot, sequence: call.sequence };
        self.calls.insert(xid, (call.connection, request));
        if let Payload::Operation(_) = call.payload {
            // No operation is sent to clients yet.
            return;
        }
        let Some(program) = self.sessions.callback_program(call.session) else { return };
        messages.push((to, callbacks::encode(xid, program, call)));
    }
}
