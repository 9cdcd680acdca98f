//! The shared state of the connections of one loop: memory, waiting calls, access to the service.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use core::task::Poll;
use leasehold_base::units::{ConnectionId, Time};
use leasehold_base::xdr::{Message, Writer};
use leasehold_fs::MaybeReady;
use leasehold_serve::account::ClientId;
use leasehold_serve::{Arrival, Response};

use crate::buffers::{Buffers, Held};
use crate::counters::Counters;
use crate::limits::{LOOP_PARKED_BYTES_MAX, LOOP_PARKED_MAX, LOOP_UNSENT_BYTES_MAX, WRITERS_MAX};
use crate::metering::{Meter, Metered};
use crate::outbox::Outbox;
use crate::remote::Remote;
use crate::server::Shared;
use crate::slab::Key;
use crate::tasks::{Origin, Outcome, Parked, Tasks};

/// The shared state of the connections of one loop.
pub(crate) struct LoopContext {
    pub(crate) shared: Arc<Shared>,
    pub(crate) remote: Arc<Remote>,
    pub(crate) buffers: Buffers,
    pub(crate) tasks: Tasks,
    pub(crate) meter: Meter,
    /// The time at the start of the current round.
    pub(crate) now: Time,
    /// False after the server has stopped: the loop then receives no more data.
    pub(crate) receiving: bool,
    /// The next time at which the loop asks the send scheduler for the next connection that may
    /// send a large reply.
    pub(crate) look_for_departures: Option<Time>,
    /// The bytes of memory that connections hold for unsent replies.
    pub(crate) unsent: usize,
    /// The bytes of memory that connections hold for partly received records.
    pub(crate) held: usize,
    writers: Vec<Writer>,
    outbox: Outbox,
}

/// The immediate result of a call.
pub(crate) enum Answered {
    /// The reply.
    Reply(Message),
    /// There is no reply to send.
    Nothing,
    /// The call waits. The loop sends the reply to the origin of the call later.
    Parked,
    /// The service panicked.
    Panicked,
}

impl LoopContext {
    pub(crate) fn new(shared: Arc<Shared>, remote: Arc<Remote>) -> Self {
        Self {
            shared,
            remote,
            buffers: Buffers::default(),
            tasks: Tasks::default(),
            meter: Meter::default(),
            now: Time::ZERO,
            receiving: true,
            look_for_departures: None,
            unsent: 0,
            held: 0,
            writers: Vec::new(),
            outbox: Outbox::default(),
        }
    }

    /// Returns the id of a connection of this loop.
    pub(crate) fn connection_id(&self, key: Key) -> ConnectionId {
        let event_loop = u32::try_from(self.remote.index).expect("there are few loops");
        ConnectionId { event_loop, slot: key.index, generation: key.generation }
    }

    /// Returns true if a connection may send a large reply now. Otherwise the connection receives
    /// the permission later.
    pub(crate) fn ask_to_depart(&mut self, key: Key) -> bool {
        let Some(departures) = &self.shared.departures else { return true };
        if self.unsent >= LOOP_UNSENT_BYTES_MAX / 2 {
            // Replies that wait for the permission occupy memory, and the loop closes blocked
            // connections when this memory is full. At half of the limit replies therefore go
            // without the permission.
            return true;
        }
        let has_turn = departures.ask(self.connection_id(key), self.now);
        if !has_turn {
            self.look_for_departures = departures.latest();
        }
        has_turn
    }

    /// Records that a connection has sent its large reply or is closed.
    pub(crate) fn has_departed(&mut self, key: Key) {
        if let Some(departures) = &self.shared.departures {
            departures.leave(self.connection_id(key));
            self.look_for_departures = Some(self.now);
        }
    }

    /// Notifies the next connection that has received the permission to send a large reply.
    pub(crate) fn let_depart(&mut self) {
        let Some(departures) = &self.shared.departures else { return };
        if self.look_for_departures.is_none_or(|look| self.now < look) {
            return;
        }
        if let Some(ConnectionId { event_loop, slot, generation }) = departures.next(self.now)
            && let Some(remote) = self.shared.remotes.get(event_loop as usize)
        {
            remote.depart(Key { index: slot, generation });
        }
        self.look_for_departures = departures.latest();
    }

    /// Passes a message of a client to the service.
    pub(crate) fn call(
        &mut self,
        arrival: Arrival,
        held: Held,
        client: ClientId,
        origin: Origin,
    ) -> Answered {
        let Held { call, memory: call_memory } = held;
        let metered = self.meter.begin(&call, client, self.now);
        let writer = self.writers.pop().unwrap_or_default();
        let handler = &self.shared.handler;
        // `AssertUnwindSafe` is correct here: the service keeps its own state consistent in a
        // panic, and the call does not change the loop's state.
        let answer = AssertUnwindSafe(|| handler.answer(arrival, call, writer));
        let Response { reply, must_end } = match catch_unwind(answer) {
            Ok(response) => response,
            Err(panic) => return self.answered(Err(panic), metered),
        };
        match reply {
            MaybeReady::Now(reply) => self.answered(Ok(reply.flatten()), metered),
            MaybeReady::Later(pending) => {
                let parked = Parked { pending, must_end, origin, call_memory, metered };
                match self.tasks.start(&self.remote, parked) {
                    Poll::Pending => Answered::Parked,
                    Poll::Ready(done) => self.answered(done.outcome, done.metered),
                }
            }
        }
    }

    /// Records the end of a call and returns its result.
    pub(crate) fn answered(&mut self, outcome: Outcome, metered: Metered) -> Answered {
        self.meter.end(metered, outcome.as_ref().ok().and_then(Option::as_ref));
        match outcome {
            Ok(Some(reply)) => Answered::Reply(reply),
            Ok(None) => Answered::Nothing,
            Err(_) => {
                Counters::count(&self.shared.counters.panics);
                tracing::error!("a call panicked");
                Answered::Panicked
            }
        }
    }

    /// Returns true if more calls of this loop may wait.
    pub(crate) fn has_room(&self) -> bool {
        self.tasks.len() < LOOP_PARKED_MAX
            && self.tasks.bytes() < LOOP_PARKED_BYTES_MAX
            && self.unsent < LOOP_UNSENT_BYTES_MAX
    }

    /// Keeps a reply buffer for later use.
    pub(crate) fn keep(&mut self, writer: Option<Writer>) {
        if let Some(writer) = writer
            && self.writers.len() < WRITERS_MAX
        {
            self.writers.push(writer);
        }
    }

    /// Lends a connection memory for its replies. A connection without replies has no such memory.
    pub(crate) fn lend(&mut self, outbox: &mut Outbox) {
        if outbox.is_empty() {
            *outbox = core::mem::take(&mut self.outbox);
        }
    }

    /// Takes the memory of a connection's replies back if all replies are sent.
    pub(crate) fn reclaim(&mut self, outbox: &mut Outbox) {
        if outbox.is_empty() {
            self.outbox = core::mem::take(outbox);
        }
    }

    /// Frees memory that an idle loop does not need.
    pub(crate) fn shrink(&mut self) {
        self.buffers.shrink();
        self.writers = Vec::new();
        self.outbox = Outbox::default();
    }
}
