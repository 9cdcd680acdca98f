//! One client's stream.

use core::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use leasehold_base::units::Time;
use leasehold_base::xdr::Message;
use leasehold_serve::account::ClientId;
use leasehold_serve::{Arrival, Trust};
use leasehold_wire::record::{self, MARK_BYTES, Next, Splitter};
use rustix::io::Errno;

use crate::bench::{Answered, Bench};
use crate::buffers::{Held, Received};
use crate::counters::Counters;
use crate::departures::{Departure, LARGE_BYTES};
use crate::limits::{
    BATCH_BYTES_MAX, BATCH_CALLS_MAX, CONNECTION_PARKED_BYTES_MAX, CONNECTION_PARKED_MAX,
};
use crate::outbox::{Outbox, Sent};
use crate::slab::Key;
use crate::sys;
use crate::tasks::Origin;
use crate::threshold::Threshold;

/// One client's stream and all that is known of it.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: OwnedFd,
    pub(crate) from: SocketAddr,
    /// Whose it is.
    pub(crate) client: ClientId,
    to: IpAddr,
    trust: Trust,
    received: Received,
    splitter: Splitter,
    /// How many bytes are missing of the next record, at least; with zero there may be a whole one.
    missing: usize,
    threshold: Threshold,
    outbox: Outbox,
    /// What the loop has counted of the memory for replies, and of that for what comes.
    unsent: usize,
    held: usize,
    /// Calls that wait, and the memory that they hold.
    parked: u32,
    parked_bytes: usize,
    departure: Departure,
    /// Whether the socket may have more to read, and whether it takes more to send.
    readable: bool,
    writable: bool,
    /// Whether the end of what the client sends has come, and whether it was read.
    end_came: bool,
    ended: bool,
    /// Whether the connection stands in the loop's list of those with work.
    pub(crate) listed: bool,
    /// Whether it stands in the loop's list of those that wait for room.
    pub(crate) wants_room: bool,
    /// When bytes last went either way.
    moved: Time,
}

/// How a turn ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// There is more to do at once.
    Again,
    /// Nothing can be done before an event.
    Wait,
    /// There is more to do once the loop has room for more calls.
    NoRoom,
}

/// Why a connection is closed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    /// The client ended it, and has all replies.
    Ended,
    /// The socket failed.
    Failed(Errno),
    /// What came cannot be understood.
    Garbled(record::Error),
    /// A call of it panicked: closed so that the client notices.
    Panicked,
    /// Nothing moved for too long in the middle of a record or a reply.
    Stalled,
    /// The connections hold too much memory for large records of which a part has come, or for
    /// replies that are not read, and this one for longest; or its address has more connections
    /// than another that wants one, and this one rested for longest.
    Crowded,
}

impl Closing {
    /// What the client did, where that is why.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        match self {
            Self::Garbled(record::Error::TooLong) => Some("sends more than the largest message"),
            Self::Garbled(record::Error::TooManyFragments) => Some("sends fragments without end"),
            Self::Stalled => Some("stopped in the middle of a call or a reply"),
            Self::Crowded => Some("holds what others need, and was silent for longest"),
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

    /// Notes that the socket has more to read, has the end to read, or takes more to send. Says
    /// whether the end is new, of which [`Self::tell_end`] tells.
    pub(crate) fn note(&mut self, readable: bool, end: bool, writable: bool) -> bool {
        self.readable |= readable || end;
        self.writable |= writable;
        end && !core::mem::replace(&mut self.end_came, true)
    }

    /// Tells the service that the client has ended the stream.
    ///
    /// Not only when it is closed, nor when the end is read: calls of it may wait for long, or its
    /// replies may go unread, and its client may come back meanwhile and ask again.
    pub(crate) fn tell_end(&self, key: Key, bench: &Bench) {
        bench.shared.handler.connection_closed(self.from, bench.connection_id(key));
    }

    /// Takes the reply of a call that waited; it is sent in the connection's next turn.
    pub(crate) fn complete(
        &mut self,
        reply: Option<Message>,
        call_memory: usize,
        bench: &mut Bench,
    ) {
        self.parked -= 1;
        self.parked_bytes -= call_memory;
        if let Some(reply) = reply {
            self.post(reply, bench);
        }
    }

    /// Takes a message for the client; it is sent in the connection's next turn.
    pub(crate) fn post(&mut self, message: Message, bench: &mut Bench) {
        bench.lend(&mut self.outbox);
        bench.keep(self.outbox.push(message));
        self.count_unsent(bench);
    }

    /// Brings the loop's count of memory for replies up to date.
    fn count_unsent(&mut self, bench: &mut Bench) {
        let unsent = self.outbox.memory();
        bench.unsent = bench.unsent - self.unsent + unsent;
        self.unsent = unsent;
    }

    /// Brings the loop's count of memory for what comes up to date.
    fn count_held(&mut self, bench: &mut Bench) {
        let held = self.received.memory() + self.splitter.memory();
        bench.held = bench.held - self.held + held;
        self.held = held;
    }

    /// Receives once, answers what there is, sends once.
    // Instructions are counted within it, by its name.
    #[inline(never)]
    pub(crate) fn turn(&mut self, key: Key, bench: &mut Bench) -> Result<Turn, Closing> {
        if !self.writable {
            return Ok(Turn::Wait);
        }
        bench.lend(&mut self.outbox);
        if self.may_answer(bench) {
            if self.missing > 0 && self.readable && bench.receiving {
                self.receive(key, bench)?;
            }
            let calls = self.answer(key, bench)?;
            if self.end_came && calls > 0 {
                // They are calls of a stream that has ended, as those before them.
                self.tell_end(key, bench);
            }
        }
        if !self.readable {
            self.threshold.expect(&self.socket, self.missing);
        }
        self.send(key, bench)?;
        self.count_unsent(bench);
        bench.reclaim(&mut self.outbox);
        bench.buffers.settle(&mut self.received);
        self.count_held(bench);
        if self.ended && self.missing > 0 && self.parked == 0 && self.outbox.is_empty() {
            return Err(Closing::Ended);
        }
        let more = self.missing == 0 || (self.readable && bench.receiving);
        if !more || !self.writable || self.departure.waits() {
            return Ok(Turn::Wait);
        }
        if self.may_answer(bench) {
            return Ok(Turn::Again);
        }
        Counters::count(&bench.shared.counters.parked_limit_met);
        Ok(if bench.has_room() { Turn::Wait } else { Turn::NoRoom })
    }

    /// Whether more calls may be taken on.
    fn may_answer(&self, bench: &Bench) -> bool {
        self.parked < CONNECTION_PARKED_MAX
            && self.parked_bytes < CONNECTION_PARKED_BYTES_MAX
            && bench.has_room()
            && self.outbox.len() < BATCH_BYTES_MAX
    }

    fn receive(&mut self, key: Key, bench: &mut Bench) -> Result<(), Closing> {
        bench.buffers.make_room(&mut self.received, self.missing);
        let bytes = &mut self.received.bytes;
        let room = bytes.capacity() - bytes.len();
        match sys::receive(&self.socket, bytes) {
            Ok(0) => {
                self.ended = true;
                self.readable = false;
                self.tell_end(key, bench);
            }
            Ok(count) => {
                // Less than there was room for: all that had come, and more makes a new edge;
                // but the end may have made its edge together with what was read.
                self.readable = count == room || self.end_came;
                self.missing = self.missing.saturating_sub(count);
                self.moved = bench.now;
            }
            Err(Errno::AGAIN) => self.readable = false,
            Err(Errno::INTR) => {}
            Err(error) => return Err(Closing::Failed(error)),
        }
        Ok(())
    }

    /// Answers what there is of calls; says how many.
    fn answer(&mut self, key: Key, bench: &mut Bench) -> Result<usize, Closing> {
        let arrival = Arrival {
            from: self.from,
            to: self.to,
            connection: Some(bench.connection_id(key)),
            trust: self.trust,
            now: bench.now,
        };
        bench.meter.heard(self.client, bench.now);
        let mut calls = 0;
        while self.missing == 0 && calls < BATCH_CALLS_MAX && self.may_answer(bench) {
            match self.splitter.next(&mut self.received.bytes).map_err(Closing::Garbled)? {
                Next::Need(missing) => self.missing = missing,
                Next::Record(call) => {
                    let call = Held::of(call, self.received.memory());
                    let memory = call.memory;
                    calls += 1;
                    match bench.call(arrival, call, self.client, Origin::Connection(key)) {
                        Answered::Reply(reply) => bench.keep(self.outbox.push(reply)),
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

    /// Sends as much as the socket takes, but of a large reply nothing before its turn.
    fn send(&mut self, key: Key, bench: &mut Bench) -> Result<(), Closing> {
        let before = self.outbox.len();
        if before >= LARGE_BYTES && self.departure.is_free() {
            if self.departure.is_slow() || bench.ask_to_depart(key) {
                self.departure.begin(before, bench.now);
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
            self.moved = bench.now;
        }
        if self.departure.sent(sent, bench.now) {
            bench.has_departed(key);
        }
        Ok(())
    }

    /// Has its turn to send what it waits with.
    pub(crate) fn depart(&mut self, now: Time) {
        self.departure.begin(self.outbox.len(), now);
    }

    /// Whether it has a turn to send, or waits for one.
    pub(crate) const fn departs(&self) -> bool {
        !self.departure.is_free()
    }

    /// Whether the connection is in the middle of something, and since when nothing moved.
    pub(crate) fn stalled_since(&self) -> Option<Time> {
        let half_received = !self.received.bytes.is_empty() || self.splitter.is_midway();
        (half_received && self.missing > 0 || !self.writable).then_some(self.moved)
    }

    /// Whether some of a large call may have come without a word of it.
    pub(crate) const fn may_have_more(&self) -> bool {
        self.threshold.hides()
    }

    /// The memory that it holds for a record of which a part has come.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// The memory that it holds for replies that its client does not take.
    pub(crate) fn blocked(&self) -> usize {
        if self.writable { 0 } else { self.unsent }
    }

    /// Since when nothing moved.
    pub(crate) fn rests_since(&self) -> Time {
        self.moved
    }

    /// Whether calls of it wait.
    pub(crate) fn has_parked(&self) -> bool {
        self.parked > 0
    }

    /// Gives its memory back.
    pub(crate) fn end(mut self, bench: &mut Bench) {
        bench.unsent -= self.unsent;
        bench.held -= self.held;
        bench.buffers.take_back(&mut self.received);
    }

    /// Whether nothing is left to be answered or sent of what was received.
    pub(crate) fn is_done(&self) -> bool {
        self.missing > 0 && self.parked == 0 && self.outbox.is_empty()
    }
}
