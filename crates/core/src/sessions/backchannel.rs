//! The backchannel: callbacks to clients, and the slots that they use.

mod delivery;

use core::time::Duration;
use std::collections::BTreeMap;

use leasehold_base::units::{ConnectionId, Time};

use super::create::CallbackProgram;
use super::sequence::Request;
use super::session::Session;
use super::types::{SequenceId, SessionId, SlotId};

/// Identifies the operations of a callback to the owner of the state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PayloadId(pub u64);

/// The operations of a CB_COMPOUND after CB_SEQUENCE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// No operation: the callback examines the backchannel or the number of a slot.
    Nothing,
    /// The operations that the owner of the state machine knows.
    Operation(PayloadId),
    /// CB_RECALL_SLOT with this highest slot.
    RecallSlots(SlotId),
}

/// A CB_COMPOUND to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallbackCall {
    /// The connection.
    pub connection: ConnectionId,
    /// The session.
    pub session: SessionId,
    /// The slot.
    pub slot: SlotId,
    /// The number of the callback in its slot.
    pub sequence: SequenceId,
    /// The highest slot with an unfinished callback.
    pub highest: SlotId,
    /// The operations.
    pub payload: Payload,
    /// The requests that created the state to which the operations refer (RFC 8881 2.10.6.3).
    pub referring: Vec<Request>,
    /// True if the client may have received the callback before.
    pub is_retry: bool,
}

/// The answer of a client to a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The client has handled the operations, with any status but NFS4ERR_DELAY. The highest slot
    /// is the target of the client. A retry for which the client answers NFS4ERR_SEQ_FALSE_RETRY or
    /// NFS4ERR_RETRY_UNCACHED_REP also counts as handled.
    Done {
        /// The highest slot that the client wishes the server to use.
        target: SlotId,
    },
    /// The client answered NFS4ERR_DELAY.
    Delay {
        /// True if CB_SEQUENCE succeeded, so that the number of the slot is used up.
        is_sequenced: bool,
    },
    /// CB_SEQUENCE failed because the two sides count differently: NFS4ERR_SEQ_MISORDERED,
    /// NFS4ERR_BADSLOT or NFS4ERR_BAD_HIGH_SLOT.
    Misordered,
    /// The answer is not an answer to the callback: garbage, an error of RPC, or
    /// NFS4ERR_BADSESSION. The connection cannot carry callbacks.
    Garbled,
}

/// The reason for which a callback was not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The client has gone.
    ClientGone,
    /// Too many callbacks are unfinished.
    Full,
    /// The client did not answer within a lease.
    Timeout,
}

/// The backchannel of a session.
#[derive(Clone, Debug)]
pub(super) struct Back {
    pub(super) program: CallbackProgram,
    slots: Vec<BackSlot>,
    /// The number of slots that the client permits.
    permitted: u32,
    slots_max: u32,
    /// True if the client has answered a callback over the present connections.
    pub(super) is_proven: bool,
    /// True if the two sides count differently; the session must end.
    pub(super) is_faulty: bool,
    /// True if the session has had a connection for callbacks.
    pub(super) was_connected: bool,
}

/// A slot of a backchannel.
#[derive(Clone, Copy, Debug, Default)]
struct BackSlot {
    /// The number of the last callback that the client accepted.
    accepted: SequenceId,
    /// The unfinished callback, which has the next number.
    callback: Option<u64>,
}

/// The unfinished callbacks of a client.
#[derive(Clone, Debug)]
pub(super) struct Callbacks {
    list: BTreeMap<u64, Callback>,
    /// The number of callbacks with operations.
    counted: usize,
    /// The time of the client's entry in the set `Sessions::callback_wakes`.
    wake: Option<Time>,
}

#[derive(Clone, Debug)]
struct Callback {
    payload: Payload,
    referring: Vec<Request>,
    /// The only session on which the callback may be sent.
    session: Option<SessionId>,
    deadline: Option<Time>,
    /// The last pause after NFS4ERR_DELAY.
    pause: Duration,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The callback waits for a slot, and for this time.
    Queued(Time),
    /// The callback was sent and its answer is due.
    Sent { place: Place, connection: ConnectionId, until: Time },
    /// The client may have received the callback. It is sent again in the same slot.
    Adrift { place: Place, ready: Time },
}

/// A slot of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    session: SessionId,
    slot: SlotId,
}

impl Back {
    pub(super) const fn new(program: CallbackProgram, slots_max: u32) -> Self {
        Self {
            program,
            slots: Vec::new(),
            permitted: slots_max,
            slots_max,
            is_proven: false,
            is_faulty: false,
            was_connected: false,
        }
    }

    /// Returns the lowest free slot.
    fn free(&mut self) -> Option<SlotId> {
        let free = self.slots.iter().position(|slot| slot.callback.is_none());
        let at = free.unwrap_or(self.slots.len());
        let slot = u32::try_from(at).ok().filter(|slot| *slot < self.permitted)?;
        if at == self.slots.len() {
            self.slots.push(BackSlot::default());
        }
        Some(SlotId(slot))
    }

    fn is_idle(&self) -> bool {
        self.slots.iter().all(|slot| slot.callback.is_none())
    }

    fn slot(&mut self, slot: SlotId) -> Option<&mut BackSlot> {
        self.slots.get_mut(slot.0 as usize)
    }

    /// Returns the highest slot with an unfinished callback.
    fn highest(&self) -> SlotId {
        let busy = self.slots.iter().rposition(|slot| slot.callback.is_some());
        SlotId(busy.and_then(|at| u32::try_from(at).ok()).unwrap_or(0))
    }
}

impl Callbacks {
    pub(super) const fn new() -> Self {
        Self { list: BTreeMap::new(), counted: 0, wake: None }
    }

    /// Returns the next time at which the passing of time requires a step.
    fn next_wake(&self, now: Time) -> Option<Time> {
        let times = self.list.values().flat_map(|callback| {
            let state = match callback.state {
                State::Sent { until, .. } => Some(until),
                State::Queued(ready) | State::Adrift { ready, .. } => {
                    Some(ready).filter(|ready| *ready > now)
                }
            };
            state.into_iter().chain(callback.deadline)
        });
        times.min()
    }
}

impl Callback {
    const fn new(payload: Payload, session: Option<SessionId>, now: Time) -> Self {
        let pause = Duration::ZERO;
        let state = State::Queued(now);
        Self { payload, referring: Vec::new(), session, deadline: None, pause, state }
    }

    /// Returns the slot that the callback uses.
    const fn place(&self) -> Option<Place> {
        match self.state {
            State::Queued(_) => None,
            State::Sent { place, .. } | State::Adrift { place, .. } => Some(place),
        }
    }

    const fn is_counted(&self) -> bool {
        !matches!(self.payload, Payload::Nothing)
    }

    /// Returns the callback that remains in a slot after its operations have left: a callback
    /// without operations, which finds the number of the slot.
    fn emptied(&self, session: SessionId) -> Self {
        let state = self.state;
        Self { state, ..Self::new(Payload::Nothing, Some(session), Time::ZERO) }
    }

    /// Drops the referring requests whose replies the client has received, because it has used
    /// their slots again or has destroyed their sessions.
    fn drop_received(&mut self, sessions: &BTreeMap<SessionId, Session>) {
        let is_last = |request: &Request| {
            let session = sessions.get(&request.session);
            session.is_some_and(|session| session.slots.is_last(request.slot, request.sequence))
        };
        self.referring.retain(is_last);
    }

    fn call(&self, place: Place, connection: ConnectionId, back: &Back) -> CallbackCall {
        let Place { session, slot } = place;
        let accepted = back.slots[slot.0 as usize].accepted;
        CallbackCall {
            connection,
            session,
            slot,
            sequence: accepted.next(),
            highest: back.highest(),
            payload: self.payload,
            referring: self.referring.clone(),
            is_retry: matches!(self.state, State::Adrift { .. }),
        }
    }
}
