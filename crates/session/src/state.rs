//! The state of a session: its lanes, its open calls, and its sleepers.

use core::task::Waker;
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use leasehold_base::random::Random;
use leasehold_base::units::{Time, Xid};
use leasehold_base::xdr::Message;
use leasehold_core::calls::{CallId, Calls, Carrier, Effect, Event, Weight};

use crate::error::Error;
use crate::options::Options;
use crate::transport::{Connection, Traffic};

/// The number of checks for traffic within the reply timeout.
const LOOKS: u32 = 4;

/// The counters of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// The number of calls that started.
    pub calls: u64,
    /// The number of calls that ended with a reply.
    pub replies: u64,
    /// The number of retransmissions.
    pub sent_again: u64,
    /// The number of calls that timed out.
    pub timed_out: u64,
    /// The number of calls that their callers dropped.
    pub forgotten: u64,
    /// The number of replies without an open call, for example second replies to retransmitted
    /// calls.
    pub late: u64,
    /// The number of connections that were opened.
    pub connections: u64,
    /// The number of calls from the server that were dropped because the session has no receiver.
    pub unclaimed: u64,
}

/// The actions that run after the lock is released.
#[derive(Default)]
pub(crate) struct Actions {
    pub(crate) connects: Vec<Connection>,
    pub(crate) sends: Vec<(Connection, Arc<Message>)>,
    pub(crate) wakers: Vec<Waker>,
    pub(crate) wake_at: Option<Time>,
}

pub(crate) struct State {
    lanes: Vec<Lane>,
    calls: BTreeMap<CallId, Pending>,
    next_call: u64,
    sleepers: BTreeMap<(Time, u64), Waker>,
    next_sleeper: u64,
    /// The time at which the transport was last requested to wake the session.
    asked: Option<Time>,
    carrier: Carrier,
    /// The interval of checks for traffic on a connection.
    look_every: Duration,
    fail_unreached: bool,
    closed: bool,
    /// Reusable memory for effects.
    effects: Vec<Effect>,
    pub(crate) counters: Counters,
}

/// A lane: one of the parallel connections of a session, including its reconnections, with the
/// calls that are assigned to it.
struct Lane {
    calls: Calls,
    generation: u32,
    is_connected: bool,
    /// True if a connection ever succeeded or a message arrived.
    was_reached: bool,
    /// The time of the next check for traffic; None without open calls.
    look_at: Option<Time>,
    /// The traffic of the lane's connection at the last check.
    seen: Option<Traffic>,
}

/// A call whose caller has not taken the outcome yet.
struct Pending {
    lane: usize,
    message: Arc<Message>,
    copies: u64,
    waker: Waker,
    outcome: Option<Result<Bytes, Error>>,
}

impl State {
    pub(crate) fn new(options: &Options, mut random: Random) -> Self {
        let lane = |_| Lane {
            calls: Calls::new(options.of_lane(), random.fork()),
            generation: 0,
            is_connected: options.carrier == Carrier::Datagram,
            was_reached: false,
            look_at: None,
            seen: None,
        };
        Self {
            lanes: (0..options.lanes()).map(lane).collect(),
            calls: BTreeMap::new(),
            next_call: 0,
            sleepers: BTreeMap::new(),
            next_sleeper: 0,
            asked: None,
            carrier: options.carrier,
            look_every: options.patience / LOOKS,
            fail_unreached: options.fail_unreached,
            closed: false,
            effects: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// Begins a call in the given lane, or in the lane with the fewest calls.
    pub(crate) fn begin(
        &mut self,
        now: Time,
        ((message, weight), lane): ((Message, Weight), Option<usize>),
        waker: Waker,
        actions: &mut Actions,
    ) -> Result<CallId, Error> {
        if self.closed {
            return Err(Error::Closed);
        }
        let lane = lane.filter(|lane| *lane < self.lanes.len());
        let lane = lane.unwrap_or_else(|| self.lane_with_fewest());
        let call = CallId(self.next_call);
        self.next_call += 1;
        self.counters.calls += 1;
        let message = Arc::new(message);
        self.calls.insert(call, Pending { lane, message, copies: 0, waker, outcome: None });
        self.step(now, lane, Event::Begin { call, weight }, None, actions);
        self.watch(now, lane, actions);
        Ok(call)
    }

    /// Schedules checks for traffic in a lane while it has calls. Datagrams have no such checks.
    fn watch(&mut self, now: Time, lane: usize, actions: &mut Actions) {
        let known = &mut self.lanes[lane];
        if known.look_at.is_none() && self.carrier == Carrier::Stream {
            known.look_at = Some(now + self.look_every);
            self.ask(self.lanes[lane].look_at, actions);
        }
    }

    fn lane_with_fewest(&self) -> usize {
        let lanes = self.lanes.iter().enumerate();
        // Among lanes with equally few calls, a connected lane is preferred, because a new
        // connection would delay the call.
        let fewest = lanes.min_by_key(|(_, lane)| (lane.calls.len(), !lane.is_connected));
        fewest.expect("a session has a lane").0
    }

    /// Returns the outcome of a call; registers `waker` if the call is still open.
    pub(crate) fn outcome(&mut self, call: CallId, waker: &Waker) -> Option<Result<Bytes, Error>> {
        let pending = self.calls.get_mut(&call).expect("a call is kept until its outcome is taken");
        if pending.outcome.is_none() {
            pending.waker.clone_from(waker);
            return None;
        }
        self.calls.remove(&call).and_then(|pending| pending.outcome)
    }

    /// Forgets a call that its caller has dropped.
    pub(crate) fn forget(&mut self, now: Time, call: CallId, actions: &mut Actions) {
        let Some(pending) = self.calls.remove(&call) else { return };
        if pending.outcome.is_none() {
            self.counters.forgotten += 1;
            self.step(now, pending.lane, Event::Forget { call }, None, actions);
        }
    }

    pub(crate) fn reply(
        &mut self,
        now: Time,
        connection: Connection,
        (xid, message): (Xid, Bytes),
        actions: &mut Actions,
    ) {
        if !self.is_current(connection) {
            return;
        }
        self.lanes[connection.lane].was_reached = true;
        let ended = self.counters.replies;
        self.step(now, connection.lane, Event::Reply { xid }, Some(message), actions);
        self.counters.late += u64::from(self.counters.replies == ended);
    }

    pub(crate) fn connected(&mut self, now: Time, connection: Connection, actions: &mut Actions) {
        if !self.is_current(connection) {
            return;
        }
        let lane = &mut self.lanes[connection.lane];
        (lane.is_connected, lane.was_reached) = (true, true);
        self.counters.connections += 1;
        self.step(now, connection.lane, Event::Connected, None, actions);
    }

    pub(crate) fn disconnected(
        &mut self,
        now: Time,
        connection: Connection,
        why: &str,
        actions: &mut Actions,
    ) {
        if !self.is_current(connection) {
            return;
        }
        if self.fail_unreached && !self.lanes.iter().any(|lane| lane.was_reached) {
            self.end_all(now, &Error::Unreachable(why.into()), actions);
        }
        if self.carrier == Carrier::Stream {
            let lane = &mut self.lanes[connection.lane];
            lane.is_connected = false;
            // Ignore further messages of the old connection.
            lane.generation = lane.generation.wrapping_add(1);
            self.step(now, connection.lane, Event::Disconnected, None, actions);
        }
    }

    /// Returns the lanes whose traffic the next tick needs: the check is due, or a call is overdue.
    pub(crate) fn lanes_to_look_at(&self, now: Time) -> Vec<usize> {
        let is_due = |lane: &Lane| {
            let times = [lane.look_at, lane.calls.next_wake()];
            lane.look_at.is_some() && times.into_iter().flatten().any(|time| time <= now)
        };
        let lanes = self.lanes.iter().enumerate();
        lanes.filter(|(_, lane)| is_due(lane)).map(|(number, _)| number).collect()
    }

    /// Records the current traffic of a lane.
    pub(crate) fn looked(
        &mut self,
        now: Time,
        lane: usize,
        traffic: Traffic,
        actions: &mut Actions,
    ) {
        let known = &mut self.lanes[lane];
        if known.calls.is_empty() {
            // A lane without calls needs no checks; the next call starts the checks again.
            (known.look_at, known.seen) = (None, None);
            return;
        }
        known.look_at = Some(now + self.look_every);
        let moves = known.seen.replace(traffic).is_some_and(|seen| traffic.moves(seen));
        if moves {
            self.step(now, lane, Event::Moved, None, actions);
        }
    }

    pub(crate) fn tick(&mut self, now: Time, actions: &mut Actions) {
        self.asked = None;
        while let Some(sleeper) = self.sleepers.first_entry()
            && sleeper.key().0 <= now
        {
            actions.wakers.push(sleeper.remove());
        }
        for lane in 0..self.lanes.len() {
            self.step(now, lane, Event::Tick, None, actions);
        }
        self.ask(self.sleepers.first_key_value().map(|((time, _), _)| *time), actions);
        self.ask(self.lanes.iter().filter_map(|lane| lane.look_at).min(), actions);
    }

    /// Ends all calls, and refuses further ones.
    pub(crate) fn close(&mut self, now: Time, actions: &mut Actions) {
        self.closed = true;
        self.end_all(now, &Error::Closed, actions);
    }

    fn end_all(&mut self, now: Time, why: &Error, actions: &mut Actions) {
        let open: Vec<CallId> = self.open().map(|(call, _)| *call).collect();
        // All calls end before the call tables forget them, so that the end of one call does not
        // send a queued call.
        for call in &open {
            self.end(*call, Err(why.clone()), actions);
        }
        for call in open.into_iter().rev() {
            let lane = self.calls[&call].lane;
            self.step(now, lane, Event::Forget { call }, None, actions);
        }
    }

    fn open(&self) -> impl Iterator<Item = (&CallId, &Pending)> {
        self.calls.iter().filter(|(_, pending)| pending.outcome.is_none())
    }

    /// Returns the number of open calls.
    pub(crate) fn open_count(&self) -> usize {
        self.lanes.iter().map(|lane| lane.calls.len()).sum()
    }

    /// Returns the number of connections.
    pub(crate) fn connected_count(&self) -> usize {
        self.lanes.iter().filter(|lane| lane.is_connected).count()
    }

    /// Registers a sleeper, or replaces its waker.
    pub(crate) fn sleep(
        &mut self,
        until: Time,
        sleeper: Option<u64>,
        waker: &Waker,
        actions: &mut Actions,
    ) -> u64 {
        let sleeper = sleeper.unwrap_or_else(|| {
            self.next_sleeper += 1;
            self.next_sleeper
        });
        self.sleepers.insert((until, sleeper), waker.clone());
        self.ask(Some(until), actions);
        sleeper
    }

    pub(crate) fn no_sleep(&mut self, until: Time, sleeper: u64) {
        self.sleepers.remove(&(until, sleeper));
    }

    pub(crate) fn is_current(&self, connection: Connection) -> bool {
        let lane = self.lanes.get(connection.lane);
        lane.is_some_and(|lane| lane.generation == connection.generation)
    }

    fn step(
        &mut self,
        now: Time,
        lane: usize,
        event: Event,
        mut reply: Option<Bytes>,
        actions: &mut Actions,
    ) {
        let mut effects = core::mem::take(&mut self.effects);
        self.lanes[lane].calls.step(now, event, &mut effects);
        for effect in effects.drain(..) {
            match effect {
                Effect::Send { call, xid } => self.send(call, xid, actions),
                Effect::Done(call) => {
                    self.counters.replies += 1;
                    let reply = reply.take().expect("a call ends with the reply that came in");
                    self.end(call, Ok(reply), actions);
                }
                Effect::TimedOut(call) => {
                    self.counters.timed_out += 1;
                    self.end(call, Err(Error::TimedOut), actions);
                }
                Effect::Refused(call) => self.end(call, Err(Error::Busy), actions),
                Effect::Connect => {
                    let lane_state = &mut self.lanes[lane];
                    lane_state.generation = lane_state.generation.wrapping_add(1);
                    (lane_state.is_connected, lane_state.seen) = (false, None);
                    let generation = lane_state.generation;
                    actions.connects.push(Connection { lane, generation });
                }
            }
        }
        self.effects = effects;
        self.ask(self.lanes[lane].calls.next_wake(), actions);
    }

    fn send(&mut self, call: CallId, xid: Xid, actions: &mut Actions) {
        let pending = self.calls.get_mut(&call).expect("a call is sent before its end");
        if pending.outcome.is_some() {
            // The call has already ended (`end_all`), but its call table does not know that yet.
            // The message must not be sent.
            return;
        }
        if pending.copies == 0 {
            let message = Arc::get_mut(&mut pending.message).expect("the first copy has one owner");
            message.replace_first_word(xid.0);
        } else {
            self.counters.sent_again += 1;
        }
        pending.copies += 1;
        let connection =
            Connection { lane: pending.lane, generation: self.lanes[pending.lane].generation };
        actions.sends.push((connection, Arc::clone(&pending.message)));
    }

    fn end(&mut self, call: CallId, outcome: Result<Bytes, Error>, actions: &mut Actions) {
        // The caller may have dropped the call; a dropped call has no entry.
        if let Some(pending) = self.calls.get_mut(&call)
            && pending.outcome.is_none()
        {
            pending.outcome = Some(outcome);
            actions.wakers.push(core::mem::replace(&mut pending.waker, Waker::noop().clone()));
        }
    }

    /// Requests that the transport wakes the session at `wake`, if this time is earlier than the
    /// last requested time. A step changes only its own deadlines, so the caller passes only the
    /// deadlines of its change.
    fn ask(&mut self, wake: Option<Time>, actions: &mut Actions) {
        if let Some(wake) = wake
            && self.asked.is_none_or(|asked| wake < asked)
        {
            self.asked = Some(wake);
            actions.wake_at = Some(wake);
        }
    }
}
