//! The clients and sessions of NFS version 4.1 and 4.2 (RFC 8881 2.10): client records, sessions,
//! slots, connections, callbacks, leases, and the records from which a restarted server knows the
//! clients that may reclaim state.
//!
//! This state machine decides which requests run and which clients may hold state. It does not know
//! the state itself (opens, locks, delegations, layouts): the owner reports with
//! [`Event::HasState`] if a client has any. Requests that need an answer at once are methods, which
//! append effects like [`Sessions::step`]. The owner sends the answer before it performs an effect
//! that sends a callback on the same connection.
//!
//! Criteria in order of weight:
//! - Each request with a session, slot and sequence number runs at most once, and each answer to it
//!   is the answer of that run, however often and on whichever connection copies arrive.
//! - No client reclaims state after a restart that another client may have obtained meanwhile.
//! - Memory is bounded, and no client takes the share of another client.
//! - An idle client with one session and few used slots costs less than 8 KiB.
//!
//! Rules:
//! 1. EXCHANGE_ID follows the nine cases of RFC 8881 18.35.4. An owner has at most one confirmed
//!    and one unconfirmed record. The reply contains no flag that the server does not support.
//! 2. An unconfirmed record leaves after one lease. If there are too many records, the oldest
//!    unconfirmed record leaves, or the client whose lease expired first.
//! 3. A client's last CREATE_SESSION and its result are stored in one step, and a retry gets the
//!    stored result. If the attributes were refused, which changed nothing, the client may use the
//!    number again: some clients count refused requests, and others do not.
//! 4. The first CREATE_SESSION of a record confirms the record, and voids all state of the owner's
//!    earlier incarnation.
//! 5. A session gets the channel attributes that its client requests, up to the limits of the
//!    server. Attributes that permit no COMPOUND are refused.
//! 6. In a slot, the sequence number after the last one runs, the last one is a retry, and any
//!    other is NFS4ERR_SEQ_MISORDERED. An error of SEQUENCE changes neither slot nor lease.
//! 7. A retry of a running request is answered with NFS4ERR_DELAY, and a retry of a finished one
//!    with the cached reply, or with NFS4ERR_RETRY_UNCACHED_REP for the second operation. A retry
//!    by another user or with another digest is NFS4ERR_SEQ_FALSE_RETRY.
//! 8. Memory for a reply that the client wants cached is reserved before the request runs; without
//!    memory the request is answered with NFS4ERR_DELAY. If the channel caches no reply as large as
//!    the results of SEQUENCE, the request is NFS4ERR_REP_TOO_BIG_TO_CACHE. Each client may use its
//!    guaranteed memory in any case. A small reply is also cached without a request while memory is
//!    plentiful.
//! 9. A client that uses all slots of a session gets more. If memory is short, or the owner limits
//!    the session, the target falls. A slot above the target is retired once the client has
//!    received the target in its last replies and uses no slot above it. The numbers of a retired
//!    slot continue.
//! 10. A SEQUENCE binds its connection to the fore channel. BIND_CONN_TO_SESSION binds it to the
//!     requested channels; it changes an implicit binding, and adds the second channel to an
//!     explicit one, but takes no channel away. The loss of connections ends nothing.
//! 11. DESTROY_SESSION needs a connection that is bound to any session of the same client.
//!     DESTROY_CLIENTID is refused while the client has sessions, or state under a valid lease, and
//!     to another principal.
//! 12. Each SEQUENCE or CB_SEQUENCE without error renews the lease of the client. A client whose
//!     lease expires keeps state and sessions as a courtesy: for a day, unless other clients need
//!     them.
//! 13. State of a client is revoked only after the stable record says so; the same holds for
//!     a client that the server drops although it may rely on state. The record is corrected when
//!     the client has freed all revoked stateids, or has a new incarnation.
//! 14. The status flags of SEQUENCE report revoked state until the client has freed it, reclaims
//!     until RECLAIM_COMPLETE, and failures of the backchannel until the client has repaired them.
//! 15. A client obtains state only after its record is stable; RECLAIM_COMPLETE starts the write. A
//!     failed write is repeated with pauses that double.
//! 16. A client may reclaim during the grace period, until its RECLAIM_COMPLETE, if its record from
//!     before the restart has no flag. Only then is its owner reserved for its principal. A client
//!     obtains other state after the grace period and its own RECLAIM_COMPLETE. RECLAIM_COMPLETE
//!     for one file system has no effect.
//! 17. [`Effect::Returned`] reports that all clients of rule 16 have completed their reclaims, or
//!     that the time of the grace period has passed. After [`Event::EndGrace`], the record of each
//!     client that has not completed gets a flag. [`Effect::Opened`] follows the last write.
//! 18. A callback is sent on a session that its client has used, in a slot of its own, or waits.
//!     It names each referring request whose reply the client may not have received. Each callback
//!     ends as delivered or, after a lease or without memory, as undelivered.
//! 19. A callback whose connection is lost or silent is sent again in the same slot with the same
//!     number over another connection of the session. Without one, its operations move to another
//!     session of the client; an empty callback remains in the slot to find the slot's number.
//! 20. A callback that the client answers with NFS4ERR_DELAY is sent again after a pause. If the two
//!     sides count differently, the session gets no more callbacks. An answer that is garbage ends
//!     the use of its connection for callbacks.
//! 21. A backchannel is proven by an answer. A session whose backchannel is not proven sends an
//!     empty callback after the next SEQUENCE of its client.
//! 22. An administrator can remove an owner, known or only listed.
//! 23. A host has a bounded number of client records. If it has too many, its oldest unconfirmed
//!     record leaves, then its client whose lease expired first. Without either, the host gets
//!     NFS4ERR_DELAY.
//!
//! The grace period is one period for these clients and for the clients of [`crate::leases`], which
//! have a list of their own. The owner starts both state machines at one time. It waits for
//! [`Effect::Returned`] here and for `Open` of [`crate::leases::clients`], in any order, then sends
//! [`Event::EndGrace`], and reports `Opened` to the lease tables after [`Effect::Opened`] here.
//! Until then [`Sessions::may_grant`] refuses, and reclaims of both kinds run.
//!
//! Limits: session ids can be guessed, and with AUTH_SYS any host can claim any principal, as in
//! every version of NFS. State protection is SP4_NONE; for SP4_MACH_CRED the owner checks the
//! principal of each operation first. The reply cache does not survive a restart. A client that
//! numbers a retired slot from 1 gets NFS4ERR_SEQ_MISORDERED and creates another session. A client
//! that applies the target of an earlier reply after the target of a later one may use a retired
//! slot and gets NFS4ERR_BADSLOT.

mod backchannel;
mod clients;
mod create;
mod flags;
mod grace;
mod hosts;
mod leases;
mod sequence;
mod session;
mod slots;
mod stable;
mod types;
mod view;

use std::collections::{BTreeMap, BTreeSet};

use leasehold_base::units::{ConnectionId, Time};

pub use backchannel::{Answer, CallbackCall, Payload, PayloadId, Reason};
use clients::Clients;
pub use clients::{ExchangeId, Exchanged};
pub use create::{CallbackProgram, CreateSession, Created};
pub use flags::{Cause, StatusFlags};
use grace::Grace;
pub use sequence::{Admitted, Request, Sequence, Sequenced};
use session::Session;
pub use session::{Bound, Direction};
use stable::Stable;
pub use stable::{Record, Ticket};
pub use types::{
    Channel, ClientId, Error, ExchangeFlags, Limits, Owner, Principal, SequenceId, Server,
    SessionId, SlotId, Verifier,
};
pub use view::{ClientView, Totals};

/// An event for the sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A client answered a callback.
    Answered(Request, Answer),
    /// The owner needs a callback with these operations, which refer to state that the requests
    /// created.
    Callback(ClientId, PayloadId, Vec<Request>),
    /// Another client needs state of this client, whose lease has expired.
    Conflict(ClientId),
    /// A connection was closed.
    ConnectionLost(ConnectionId),
    /// All clients of the server have reclaimed their state, or the time has passed.
    EndGrace,
    /// An administrator removes an owner.
    Forget(Owner),
    /// A client has freed this number of revoked stateids.
    Freed(ClientId, Cause, u32),
    /// Reports if a client has opens, locks, delegations or layouts.
    HasState(ClientId, bool),
    /// The highest slot that the client of a session should use.
    LimitSlots(SessionId, SlotId),
    /// The record could not be written ([`Effect::Remember`]).
    NotPersisted(Ticket),
    /// The record is on stable storage ([`Effect::Remember`]).
    Persisted(Ticket),
    /// The owner of the state needs memory: the client whose lease expired first leaves.
    Pressure,
    /// State of a client with a valid lease must be revoked: an administrator requests this, or the
    /// client has not returned a delegation.
    Revoke(ClientId),
    /// The owner has revoked this number of stateids. It reports this after each
    /// [`Effect::Revoke`], also with the number zero, and before the next event.
    Revoked(ClientId, Cause, u32),
    /// Time has passed.
    Tick,
}

/// An action that the owner of this state machine must perform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A callback was answered; the owner knows the results of its operations.
    Delivered {
        /// The client.
        client: ClientId,
        /// The operations.
        payload: PayloadId,
    },
    /// The lease of the client has expired. The client keeps its state until another client needs
    /// it, which the owner reports by [`Event::Conflict`].
    Expired(ClientId),
    /// Remove the record from stable storage, in the order of the writes; not urgent.
    Forget(Owner),
    /// The grace period has ended.
    Opened,
    /// Write the record to stable storage, in order; [`Event::Persisted`] or
    /// [`Event::NotPersisted`] follows.
    Remember {
        /// The owner.
        owner: Owner,
        /// The record, which replaces the owner's earlier record.
        record: Record,
        /// Identifies the write.
        ticket: Ticket,
    },
    /// The record of the client is stable; [`Sessions::may_grant`] may now permit state.
    Remembered(ClientId),
    /// The client of an expired lease has called, and its lease is valid again.
    Renewed(ClientId),
    /// All clients have reclaimed their state, or the time has passed; [`Event::EndGrace`] follows.
    Returned,
    /// Revoke the state of the client that other clients need; [`Event::Revoked`] follows.
    Revoke(ClientId),
    /// Send the callback.
    Send(CallbackCall),
    /// A callback has failed.
    Undelivered {
        /// The client.
        client: ClientId,
        /// The operations.
        payload: PayloadId,
        /// The reason.
        reason: Reason,
    },
    /// The client id no longer exists, and all its state is void.
    Void(ClientId),
}

/// A deliberate fault, which a test of exactly-once execution or of recovery must find.
#[cfg(any(test, feature = "mutants"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The result of CREATE_SESSION is not stored in the step that stores its number.
    CachesCreationLate,
    /// RECLAIM_COMPLETE for one file system counts as global.
    CompletesOneFileSystem,
    /// An error of SEQUENCE advances the number of the slot.
    CountsErrors,
    /// Cached replies are dropped.
    DropsReplies,
    /// The records of clients that did not complete their reclaims get no flag.
    ForgetsIncomplete,
    /// State is granted before the record is stable.
    GrantsUnremembered,
    /// A copy of a running request runs.
    RunsCopies,
}

/// The clients and sessions of a server.
#[derive(Clone, Debug)]
pub struct Sessions {
    limits: Limits,
    server: Server,
    epoch: u32,
    clients: Clients,
    sessions: BTreeMap<SessionId, Session>,
    /// The sessions to which each connection is bound.
    connections: BTreeMap<ConnectionId, BTreeSet<SessionId>>,
    /// The number of sessions that were created.
    created: u64,
    /// The number of slots of all sessions.
    slots: usize,
    /// The memory of all cached replies, with the memory reserved for running requests.
    reply_bytes: usize,
    /// The number of unfinished callbacks with operations.
    callbacks: usize,
    next_callback: u64,
    /// The times at which callbacks of clients need a step.
    callback_wakes: BTreeSet<(Time, ClientId)>,
    stable: Stable,
    /// The grace period, until it ends.
    grace: Option<Grace>,
    #[cfg(any(test, feature = "mutants"))]
    mutant: Option<Mutant>,
}

/// The maximum number of clients with which a debug build audits the state after each step: an
/// audit takes time in proportion to the state, and small states show the same faults.
const AUDITED_MAX: usize = 32;

impl Sessions {
    /// Creates the state of a server that starts its grace period with the stable records. Each
    /// start of the server has an epoch of its own.
    #[must_use]
    pub fn new(
        now: Time,
        limits: Limits,
        server: Server,
        epoch: u32,
        records: BTreeMap<Owner, Record>,
    ) -> Self {
        let stable = Stable::new(records);
        let grace = Some(Grace::new(&stable, now + limits.grace));
        Self {
            limits,
            server,
            epoch,
            clients: Clients::new(),
            sessions: BTreeMap::new(),
            connections: BTreeMap::new(),
            created: 0,
            slots: 0,
            reply_bytes: 0,
            callbacks: 0,
            next_callback: 0,
            callback_wakes: BTreeSet::new(),
            stable,
            grace,
            #[cfg(any(test, feature = "mutants"))]
            mutant: None,
        }
    }

    /// Injects a fault.
    #[cfg(any(test, feature = "mutants"))]
    pub const fn plant(&mut self, mutant: Mutant) {
        self.mutant = Some(mutant);
    }

    /// Handles one event, and appends the resulting actions in order.
    pub fn step(&mut self, now: Time, event: Event, effects: &mut Vec<Effect>) {
        self.pass(now, effects);
        match event {
            Event::Answered(request, answer) => self.answered(now, (request, answer), effects),
            Event::Callback(client, payload, referring) => {
                self.call_back(now, (client, payload), referring, effects);
            }
            Event::Conflict(client) => self.conflict(client, effects),
            Event::ConnectionLost(connection) => self.lose_connection(now, connection, effects),
            Event::EndGrace => self.end_grace(effects),
            Event::Forget(owner) => self.forget(&owner, effects),
            Event::Freed(client, cause, stateids) => {
                self.freed((client, cause, stateids), effects);
            }
            Event::HasState(client, has_state) => {
                if let Some(client) = self.clients.get_mut(client) {
                    client.has_state = has_state;
                }
            }
            Event::LimitSlots(session, slot) => self.recall_slots(now, (session, slot), effects),
            Event::NotPersisted(ticket) => self.stable.not_persisted(now, ticket),
            Event::Persisted(ticket) => self.persisted(ticket, effects),
            Event::Pressure => self.expel_oldest(effects),
            Event::Revoke(client) => self.revoke(client, effects),
            Event::Revoked(client, cause, stateids) => {
                self.revoked((client, cause, stateids), effects);
            }
            Event::Tick => {}
        }
        self.end_phase(now, effects);
        self.audit();
    }

    /// Returns the next time at which a lease, the grace period, a callback or the write of a record
    /// needs a step.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        let lease = self.clients.first_wake().map(|(time, _)| time);
        let callback = self.callback_wakes.first().map(|(time, _)| *time);
        let grace = self.grace.as_ref().and_then(Grace::next_wake);
        let times = [lease, callback, grace, self.stable.next_wake()];
        times.into_iter().flatten().min()
    }

    /// Returns the identity of the server.
    #[must_use]
    pub const fn server(&self) -> &Server {
        &self.server
    }

    /// Returns the client of a session.
    #[must_use]
    pub fn client_of(&self, session: SessionId) -> Option<ClientId> {
        self.sessions.get(&session).map(|session| session.client)
    }

    /// Returns the owner and the flags of a client.
    #[must_use]
    pub fn describe(&self, client: ClientId) -> Option<(&Owner, ExchangeFlags)> {
        self.clients.get(client).map(|client| (&client.owner, client.flags))
    }

    /// Returns the number of client records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.clients.len()
    }

    /// Returns true if no client is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.clients.len() == 0
    }

    /// Returns the size of all cached replies in bytes, with the memory that is reserved for the
    /// replies to running requests.
    #[must_use]
    pub const fn reply_bytes(&self) -> usize {
        self.reply_bytes
    }

    /// Handles the passing of time.
    fn pass(&mut self, now: Time, effects: &mut Vec<Effect>) {
        self.lapse(now, effects);
        self.time_callbacks(now, effects);
        self.stable.write_again(now, effects);
        self.end_phase(now, effects);
    }

    /// Audits a small state in a debug build.
    fn audit(&self) {
        if cfg!(debug_assertions) && self.clients.len() <= AUDITED_MAX {
            self.check();
        }
    }

    /// Audits the whole state.
    ///
    /// # Panics
    /// Panics if the state is inconsistent or exceeds its limits.
    pub fn check(&self) {
        self.clients.check();
        self.stable.check();
        self.check_callbacks();
        let limits = &self.limits;
        assert!(
            self.clients.len() + self.stable.leaving() <= limits.clients,
            "clients are bounded"
        );
        assert!(self.sessions.len() <= limits.sessions, "sessions are bounded");
        assert!(self.callbacks <= limits.callbacks, "callbacks are bounded");
        let (mut slots, mut bytes, mut sessions) = (0, 0, 0);
        for (id, client) in self.clients.iter() {
            let (mut own_slots, mut own_bytes) = (0, 0);
            for id in &client.sessions {
                let session = self.sessions.get(id).expect("a client's session exists");
                own_slots += session.slots.accounted();
                own_bytes += session.slots.bytes();
            }
            assert!(client.sessions.len() <= limits.sessions_of_client, "sessions are bounded");
            assert_eq!(own_slots, client.slots, "slots of a client are counted");
            assert_eq!(own_bytes, client.reply_bytes, "replies of a client are counted");
            let of_client = self.sessions.values().filter(|session| session.client == id);
            assert_eq!(of_client.count(), client.sessions.len(), "a session has a client");
            (slots, bytes) = (slots + own_slots, bytes + own_bytes);
            sessions += client.sessions.len();
        }
        assert_eq!(sessions, self.sessions.len(), "each session has a client");
        assert_eq!(slots, self.slots, "slots are counted");
        assert_eq!(bytes, self.reply_bytes, "replies are counted");
        let guaranteed = self.clients.len() * limits.guaranteed_bytes;
        assert!(bytes <= limits.replies_bytes + guaranteed, "replies are bounded");
        self.check_connections();
    }

    fn check_connections(&self) {
        let mut bindings = 0;
        for (id, session) in &self.sessions {
            session.slots.check();
            bindings += session.connections.len();
            let most = self.limits.connections_of_session;
            assert!(session.connections.len() <= most, "connections are bounded");
            for connection in session.connections.keys() {
                let ids = self.connections.get(connection);
                assert!(ids.is_some_and(|ids| ids.contains(id)), "a binding has two sides");
            }
        }
        let bound: usize = self.connections.values().map(BTreeSet::len).sum();
        assert_eq!(bound, bindings, "a binding has two sides");
    }
}

#[cfg(test)]
mod tests;
