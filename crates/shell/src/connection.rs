//! A client's stream connection.

use core::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use leasehold_base::units::Time;
use leasehold_base::xdr::Message;
use leasehold_serve::account::ClientId;
use leasehold_serve::{Arrival, Trust};
use leasehold_wire::record::{self, MARK_BYTES, Next, Splitter};
use rustix::io::Errno;

use crate::buffers::{Held, Received};
use crate::counters::Counters;
use crate::limits::{
    BATCH_BYTES_MAX, BATCH_CALLS_MAX, CONNECTION_PARKED_BYTES_MAX, CONNECTION_PARKED_MAX,
};
use crate::loop_context::{Answered, LoopContext};
use crate::outbox::{Outbox, Sent};
use crate::rcvlowat::Threshold;
use crate::send_scheduler::{Departure, LARGE_BYTES};
use crate::slab::Key;
use crate::sys;
use crate::tasks::Origin;

/// The state of a client's stream connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: OwnedFd,
    pub(crate) from: SocketAddr,
    /// The client.
    pub(crate) client: ClientId,
    to: IpAddr,
    trust: Trust,
    received: Received,
    splitter: Splitter,
    /// A lower bound for the number of missing bytes of the next record. If it is zero, a complete
    /// record may be present.
    missing: usize,
    threshold: Threshold,
    outbox: Outbox,
    /// The number of bytes for unsent replies that the loop has counted for this connection. `held`
    /// is the number of bytes for received data.
    unsent: usize,
    held: usize,
    /// The number of waiting calls of this connection. `parked_bytes` is the memory that these
    /// calls hold.
    parked: u32,
    parked_bytes: usize,
    departure: Departure,
    /// True if the socket may have data to read. `writable` is true if the socket accepts data to
    /// send.
    readable: bool,
    writable: bool,
    /// True if the end of the client's stream has arrived at the socket. `ended` is true if the
    /// loop has read this end.
    end_came: bool,
    ended: bool,
    /// True if the connection is in the loop's list of connections with work.
    pub(crate) listed: bool,
    /// True if the connection is in the loop's list of connections that wait until fewer calls of
    /// the loop wait.
    pub(crate) wants_room: bool,
    /// The last time at which the connection transferred bytes in either direction.
    moved: Time,
}

/// The result of a turn of a connection: one receive, the answers to the complete calls, and one
/// send.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The connection has more work now.
    Again,
    /// The connection waits for an event.
    Wait,
    /// The connection has received calls that it cannot answer until fewer calls of the loop wait.
    NoRoom,
}

/// The reason for which a connection is closed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    /// The client ended the stream and has all replies.
    Ended,
    /// The socket failed.
    Failed(Errno),
    /// The received data is invalid.
    Garbled(record::Error),
    /// A call panicked; the close informs the client.
    Panicked,
    /// No bytes were transferred for too long in the middle of a record or a reply.
    Stalled,
    /// Other connections need resources, and this connection has been idle for longest. Either the
    /// connections of the loop hold too much memory for partly received records or unread replies,
    /// or the address of this connection has more connections than another address that requests a
    /// new connection.
    Crowded,
}

impl Closing {
    /// Returns a text with the client's fault, if a fault is the reason for the close.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        match self {
            Self::Garbled(record::Error::TooLong) => Some("sends more than the largest message"),
            Self::Garbled(record::Error::TooManyFragments) => Some("sends fragments without end"),
            Self::Stalled => Some("stopped in the middle of a call or a reply"),
            Self::Crowded => Some("holds resources that others need, and was idle for longest"),
            Self::Ended | Self::Failed(_) | Self::Panicked => None,
        }
    }
}

impl Connection {
    pub(crate) fn new(
        socket: OwnedFd,
        from: SocketAddr,
        client: ClientId,
        to: IpAddr,
        trust: Trust,
        now: Time,
    ) -> Self {
        Self {
            socket,
            from,
            client,
            to,
            trust,
            received: Received::default(),
            splitter: Splitter::default(),
            missing: MARK_BYTES,
            threshold: Threshold::default(),
            outbox: Outbox::default(),
            unsent: 0,
            held: 0,
            parked: 0,
            parked_bytes: 0,
            departure: Departure::default(),
            readable: true,
            writable: true,
            end_came: false,
            ended: false,
            listed: false,
            wants_room: false,
            moved: now,
        }
    }

    /// Records that the socket has more data to read, has reached the end of the stream, or accepts
    /// more data. Returns true if the end of the stream is new; the caller must then call
    /// [`Self::tell_end`].
    pub(crate) fn note(&mut self, readable: bool, end: bool, writable: bool) -> bool {
        self.readable |= readable || end;
        self.writable |= writable;
        end && !core::mem::replace(&mut self.end_came, true)
    }

    /// Informs the service that the client has ended the stream.
    ///
    /// The loop calls this function when the end arrives at the socket, and not only when it reads
    /// the end or closes the connection. The loop may not read the end for a long time, because
    /// calls wait or replies stay unread, and meanwhile the client may reconnect and retransmit its
    /// calls.
    pub(crate) fn tell_end(&self, key: Key, loop_context: &LoopContext) {
        loop_context.shared.handler.connection_closed(self.from, loop_context.connection_id(key));
    }

    /// Accepts the reply of a call that waited; the connection sends it in its next turn.
    pub(crate) fn complete(
        &mut self,
        reply: Option<Message>,
        call_memory: usize,
        loop_context: &mut LoopContext,
    ) {
        self.parked -= 1;
        self.parked_bytes -= call_memory;
        if let Some(reply) = reply {
            self.post(reply, loop_context);
        }
    }

    /// Accepts a message for the client; the connection sends it in its next turn.
    pub(crate) fn post(&mut self, message: Message, loop_context: &mut LoopContext) {
        loop_context.lend(&mut self.outbox);
        loop_context.keep(self.outbox.push(message));
        self.count_unsent(loop_context);
    }

    /// Updates the loop's count of memory for replies.
    fn count_unsent(&mut self, loop_context: &mut LoopContext) {
        let unsent = self.outbox.memory();
        loop_context.unsent = loop_context.unsent - self.unsent + unsent;
        self.unsent = unsent;
    }

    /// Updates the loop's count of memory for received data.
    fn count_held(&mut self, loop_context: &mut LoopContext) {
        let held = self.received.memory() + self.splitter.memory();
        loop_context.held = loop_context.held - self.held + held;
        self.held = held;
    }

    /// Receives once, answers the complete calls, and sends once.
    // A benchmark counts the instructions of this function by its name, so the function must not be
    // inlined.
    #[inline(never)]
    pub(crate) fn turn(
        &mut self,
        key: Key,
        loop_context: &mut LoopContext,
    ) -> Result<Turn, Closing> {
        if !self.writable {
            return Ok(Turn::Wait);
        }
        loop_context.lend(&mut self.outbox);
        if self.may_answer(loop_context) {
            if self.missing > 0 && self.readable && loop_context.receiving {
                self.receive(key, loop_context)?;
            }
            let calls = self.answer(key, loop_context)?;
            if self.end_came && calls > 0 {
                // The service must learn that these calls, too, belong to a stream that has ended.
                // Otherwise it would not accept their retransmissions on another connection.
                self.tell_end(key, loop_context);
            }
        }
        if !self.readable {
            self.threshold.expect(&self.socket, self.missing);
        }
        self.send(key, loop_context)?;
        self.count_unsent(loop_context);
        loop_context.reclaim(&mut self.outbox);
        loop_context.buffers.settle(&mut self.received);
        self.count_held(loop_context);
        if self.ended && self.missing > 0 && self.parked == 0 && self.outbox.is_empty() {
            return Err(Closing::Ended);
        }
        let more = self.missing == 0 || (self.readable && loop_context.receiving);
        if !more || !self.writable || self.departure.waits() {
            return Ok(Turn::Wait);
        }
        if self.may_answer(loop_context) {
            return Ok(Turn::Again);
        }
        Counters::count(&loop_context.shared.counters.parked_limit_met);
        Ok(if loop_context.has_room() { Turn::Wait } else { Turn::NoRoom })
    }

    /// Returns true if the connection may accept more calls.
    fn may_answer(&self, loop_context: &LoopContext) -> bool {
        self.parked < CONNECTION_PARKED_MAX
            && self.parked_bytes < CONNECTION_PARKED_BYTES_MAX
            && loop_context.has_room()
            && self.outbox.len() < BATCH_BYTES_MAX
    }

    fn receive(&mut self, key: Key, loop_context: &mut LoopContext) -> Result<(), Closing> {
        loop_context.buffers.make_room(&mut self.received, self.missing);
        let bytes = &mut self.received.bytes;
        let room = bytes.capacity() - bytes.len();
        match sys::receive(&self.socket, bytes) {
            Ok(0) => {
                self.ended = true;
                self.readable = false;
                self.tell_end(key, loop_context);
            }
            Ok(count) => {
                // A short read has emptied the socket, and later data raises a new event, so the
                // socket is no longer readable. But the end of the stream may have raised its event
                // together with this data, and then no new event follows, so the loop must read
                // again.
                self.readable = count == room || self.end_came;
                self.missing = self.missing.saturating_sub(count);
                self.moved = loop_context.now;
            }
            Err(Errno::AGAIN) => self.readable = false,
            Err(Errno::INTR) => {}
            Err(error) => return Err(Closing::Failed(error)),
        }
        Ok(())
    }

    /// Answers the complete calls and returns their number.
    fn answer(&mut self, key: Key, loop_context: &mut LoopContext) -> Result<usize, Closing> {
        let arrival = Arrival {
            from: self.from,
            to: self.to,
            connection: Some(loop_context.connection_id(key)),
            trust: self.trust,
            now: loop_context.now,
        };
        loop_context.meter.heard(self.client, loop_context.now);
        let mut calls = 0;
        while self.missing == 0 && calls < BATCH_CALLS_MAX && self.may_answer(loop_context) {
            match self.splitter.next(&mut self.received.bytes).map_err(Closing::Garbled)? {
                Next::Need(missing) => self.missing = missing,
                Next::Record(call) => {
                    let call = Held::of(call, self.received.memory());
                    let memory = call.memory;
                    calls += 1;
                    match loop_context.call(arrival, call, self.client, Origin::Connection(key)) {
                        Answered::Reply(reply) => loop_context.keep(self.outbox.push(reply)),
                        Answered::Nothing => {}
                        Answered::Parked => {
                            self.parked += 1;
                            self.parked_bytes += memory;
                        }
                        Answered::Panicked => return Err(Closing::Panicked),
                    }
                }
            }
        }
        Ok(calls)
    }

    /// Sends as much as the socket accepts, but no part of a large reply before the connection has
    /// the permission to send it.
    fn send(&mut self, key: Key, loop_context: &mut LoopContext) -> Result<(), Closing> {
        let before = self.outbox.len();
        if before >= LARGE_BYTES && self.departure.is_free() {
            if self.departure.is_slow() || loop_context.ask_to_depart(key) {
                self.departure.begin(before, loop_context.now);
            } else {
                self.departure.wait();
            }
        }
        if self.departure.waits() {
            return Ok(());
        }
        self.writable = self.outbox.send(&self.socket).map_err(Closing::Failed)? == Sent::All;
        let sent = before - self.outbox.len();
        if sent > 0 {
            self.moved = loop_context.now;
        }
        if self.departure.sent(sent, loop_context.now) {
            loop_context.has_departed(key);
        }
        Ok(())
    }

    /// Records that the connection has received the permission to send its large reply.
    pub(crate) fn depart(&mut self, now: Time) {
        self.departure.begin(self.outbox.len(), now);
    }

    /// Returns true if the connection has the permission to send a large reply or waits for it.
    pub(crate) const fn departs(&self) -> bool {
        !self.departure.is_free()
    }

    /// Returns the time of the last transfer if the connection is in the middle of a record or a
    /// reply.
    pub(crate) fn stalled_since(&self) -> Option<Time> {
        let half_received = !self.received.bytes.is_empty() || self.splitter.is_midway();
        (half_received && self.missing > 0 || !self.writable).then_some(self.moved)
    }

    /// Returns true if a part of a large call may have arrived without an event.
    pub(crate) const fn may_have_more(&self) -> bool {
        self.threshold.hides()
    }

    /// Returns the memory that the connection holds for a partly received record.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Returns the memory that the connection holds for replies that its client does not read.
    pub(crate) fn blocked(&self) -> usize {
        if self.writable { 0 } else { self.unsent }
    }

    /// Returns the time of the last transfer.
    pub(crate) fn rests_since(&self) -> Time {
        self.moved
    }

    /// Returns true if calls of the connection wait.
    pub(crate) fn has_parked(&self) -> bool {
        self.parked > 0
    }

    /// Gives the memory of the connection back to the loop.
    pub(crate) fn end(mut self, loop_context: &mut LoopContext) {
        loop_context.unsent -= self.unsent;
        loop_context.held -= self.held;
        loop_context.buffers.take_back(&mut self.received);
    }

    /// Returns true if the connection has no received data to process and no reply to send.
    pub(crate) fn is_done(&self) -> bool {
        self.missing > 0 && self.parked == 0 && self.outbox.is_empty()
    }
}
