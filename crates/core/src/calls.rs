//! The call table of a client: each call ends exactly once, even if messages are lost.
//!
//! Criteria in order of weight:
//! - All copies of a call have one xid, so that the server's duplicate request cache recognises the
//!   copies.
//! - A call ends once: with its reply or, for a soft mount, with a timeout.
//! - A lost message is detected soon, and a slow reply is not mistaken for a lost message.
//! - An overloaded server receives fewer calls, not more.
//!
//! Rules:
//! 1. Xids count up from a random start; an xid in use is skipped.
//! 2. The first reply ends its call. A reply without a call is ignored.
//! 3. The number of calls in transit is bounded; further calls wait in order, and the number of
//!    waiting calls is bounded too.
//! 4. A datagram is sent again when its timeout expires; each timeout is twice the previous
//!    timeout.
//! 5. The first timeout of a datagram is estimated from round trips as in RFC 6298 section 2,
//!    separately for light and heavy calls, and never from a call that was sent twice (section 3).
//!    A doubled timeout also applies to new calls until the next round trip is measured (section
//!    5.5 and 5.6).
//! 6. On a stream a call is sent once on each connection, unless rule 7 sends it again. On a new
//!    connection all calls that were sent before and have no reply are sent again in the order of
//!    their ids, before the waiting calls.
//! 7. If a call on a stream has no reply within its timeout, while bytes move on its connection and
//!    no later call was answered, the link is slow: the call waits until no byte has moved for the
//!    timeout, or ten minutes have passed. Otherwise, if a reply arrived after the call was sent,
//!    the server may have dropped the call, and it is sent again; without any reply, the connection
//!    counts as dead.
//! 8. A connection is opened when a call needs it. A lost connection is reopened at once; after
//!    that, until a reply arrives, each attempt follows a pause that doubles.
//! 9. A call of a soft mount ends without a reply when its time limit has passed, in every state.
//!    On a stream the time limit restarts with each sign of life of the server, for up to ten
//!    minutes and unless a later call was answered, as in rule 7: many calls on a narrow link take
//!    long, and the timeout is to detect silence.
//! 10. When a caller does not wait for its call any more, the table forgets the call: another call
//!     can be sent instead, and the forgotten call is not sent again.
//!
//! Limits: the table contains no message. The owner keeps the bytes of a call until the call ends,
//! and writes the xid into these bytes.

mod estimate;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use leasehold_base::random::Random;
use leasehold_base::units::{Time, Xid};

use estimate::Estimate;

/// The transport of the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// Connections that are reliable while they last.
    Stream,
    /// Messages that may be lost, duplicated and reordered.
    Datagram,
}

/// The parameters of a client's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The transport.
    pub carrier: Carrier,
    /// The maximum number of calls in transit.
    pub in_flight_max: usize,
    /// The maximum number of calls in transit and waiting calls together.
    pub calls_max: usize,
    /// The time after which a call ends without a reply; `None` for a hard mount.
    pub soft: Option<Duration>,
    /// The first timeout of a call on a stream.
    pub patience: Duration,
}

/// Identifies a call. The owner assigns increasing call ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// The work of a call: each kind has its own round-trip estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Weight {
    /// The call concerns names or attributes.
    Light,
    /// The call transfers file data, or waits for a disk of the server.
    Heavy,
}

/// An event for the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The owner requests that a call is sent.
    Begin {
        /// The new call.
        call: CallId,
        /// The work of the call.
        weight: Weight,
    },
    /// The caller does not wait for the call any more. The call may have ended already.
    Forget {
        /// The call.
        call: CallId,
    },
    /// A reply arrived.
    Reply {
        /// The xid of the reply.
        xid: Xid,
    },
    /// The connection that [`Effect::Connect`] requested is established.
    Connected,
    /// The connection that [`Effect::Connect`] requested could not be established, or is lost.
    Disconnected,
    /// The peer gave a sign of life: a part of a message arrived, or the peer accepted queued
    /// bytes.
    Moved,
    /// Time has passed.
    Tick,
}

/// An action that the owner of the table must perform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send the call, under this xid.
    Send {
        /// The call.
        call: CallId,
        /// The xid of all copies of the call.
        xid: Xid,
    },
    /// The call ended with the reply that just arrived.
    Done(CallId),
    /// The call ended without a reply.
    TimedOut(CallId),
    /// The call was refused: too many calls wait.
    Refused(CallId),
    /// Open a connection. An older connection must be closed, and its events must be ignored.
    Connect,
}

/// The calls of one client to one server.
#[derive(Clone, Debug)]
pub struct Calls {
    options: Options,
    random: Random,
    next_xid: Xid,
    calls: BTreeMap<CallId, Call>,
    /// The calls in transit, by xid.
    on_their_way: BTreeMap<Xid, CallId>,
    /// The calls that were not sent yet.
    waiting: BTreeSet<CallId>,
    /// The times at which calls must be examined, at most one for each call.
    alarms: BTreeSet<(Time, CallId)>,
    link: Link,
    /// The time of the server's last sign of life on a stream, on any connection.
    alive: Option<Time>,
    /// The pause before the next attempt to connect.
    pause: Duration,
    light: Estimate,
    heavy: Estimate,
}

#[derive(Clone, Debug)]
struct Call {
    weight: Weight,
    begun: Time,
    /// The time at which the call must be examined, if any.
    alarm: Option<Time>,
    /// The copies of the call, after the first one was sent.
    sent: Option<Sent>,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    xid: Xid,
    /// The time at which the newest copy was sent.
    at: Time,
    /// The timeout of the newest copy.
    patience: Duration,
    /// True if the call was sent only once.
    once: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Datagrams,
    NotConnected,
    Pausing {
        until: Time,
    },
    Connecting,
    Connected {
        /// The time of the last reply on this connection.
        heard: Time,
        /// The time of the peer's last sign of life on this connection.
        moved: Time,
        /// The latest send time of a call that was answered on this connection.
        answered: Time,
    },
}

/// The first timeout of a call on a stream, and the longest timeout: the values of Linux.
pub const STREAM_PATIENCE: Duration = Duration::from_secs(60);
const STREAM_PATIENCE_MAX: Duration = Duration::from_secs(600);

/// The shortest and the longest pause between attempts to connect: a restarted server is found
/// soon, and an unreachable server is not flooded.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(30);

impl Calls {
    /// Creates a table without calls and without a connection.
    #[must_use]
    pub fn new(options: Options, mut random: Random) -> Self {
        let link = match options.carrier {
            Carrier::Stream => Link::NotConnected,
            Carrier::Datagram => Link::Datagrams,
        };
        Self {
            options,
            next_xid: Xid((random.next_u64() >> 32) as u32),
            random,
            calls: BTreeMap::new(),
            on_their_way: BTreeMap::new(),
            waiting: BTreeSet::new(),
            alarms: BTreeSet::new(),
            link,
            alive: None,
            pause: Duration::ZERO,
            light: Estimate::default(),
            heavy: Estimate::default(),
        }
    }

    /// Handles one event, and appends the resulting actions in order.
    ///
    /// # Panics
    /// Panics if a new call has an id that is not greater than all ids in use, or if a connection
    /// is reported that was not requested.
    pub fn step(&mut self, now: Time, event: Event, effects: &mut Vec<Effect>) {
        match event {
            Event::Begin { call, weight } => self.begin(now, call, weight, effects),
            Event::Forget { call } => self.forget(call),
            Event::Reply { xid } => self.reply(now, xid, effects),
            Event::Connected => self.connected(now, effects),
            Event::Disconnected => self.disconnected(now),
            Event::Moved => {
                self.alive = Some(now);
                if let Link::Connected { moved, .. } = &mut self.link {
                    *moved = now;
                }
            }
            Event::Tick => {}
        }
        self.ring(now, effects);
        self.connect_where_needed(now, effects);
        self.send_what_waits(now, effects);
        if cfg!(debug_assertions) && self.calls.len() <= AUDITED_MAX {
            self.check();
        }
    }

    /// Returns the next time at which the passing of time alone requires a step.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        let alarm = self.alarms.first().map(|(time, _)| *time);
        match self.link {
            Link::Pausing { until } if !self.calls.is_empty() => {
                Some(alarm.map_or(until, |alarm| alarm.min(until)))
            }
            Link::Pausing { .. }
            | Link::Datagrams
            | Link::NotConnected
            | Link::Connecting
            | Link::Connected { .. } => alarm,
        }
    }

    /// Returns the number of calls that have not ended.
    #[must_use]
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Returns true if all calls have ended.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Audits the whole state.
    ///
    /// # Panics
    /// Panics if the state is inconsistent or exceeds its limits.
    pub fn check(&self) {
        assert!(self.calls.len() <= self.options.calls_max, "calls are bounded");
        assert!(self.on_their_way.len() <= self.options.in_flight_max, "sent calls are bounded");
        for (id, call) in &self.calls {
            assert_eq!(
                self.waiting.contains(id),
                call.sent.is_none(),
                "a waiting call is not sent"
            );
            if let Some(sent) = call.sent {
                assert_eq!(self.on_their_way.get(&sent.xid), Some(id), "an xid has one call");
            }
            assert!(call.alarm.is_none_or(|time| self.alarms.contains(&(time, *id))));
        }
        let alarms = self.calls.values().filter(|call| call.alarm.is_some());
        assert_eq!(alarms.count(), self.alarms.len(), "an alarm has a call");
        assert_eq!(self.waiting.len() + self.on_their_way.len(), self.calls.len());
        let room = self.on_their_way.len() < self.options.in_flight_max;
        assert!(
            !self.can_send() || !room || self.waiting.is_empty(),
            "no call waits while there is room"
        );
    }

    fn begin(&mut self, now: Time, id: CallId, weight: Weight, effects: &mut Vec<Effect>) {
        // Rule 3: the number of calls is bounded, so a call that exceeds the bound is refused.
        if self.calls.len() >= self.options.calls_max {
            return effects.push(Effect::Refused(id));
        }
        let newest = self.calls.last_key_value().map(|(newest, _)| *newest);
        assert!(newest.is_none_or(|newest| newest < id), "calls are numbered upwards");
        self.calls.insert(id, Call { weight, begun: now, alarm: None, sent: None });
        self.waiting.insert(id);
        self.set_alarm(id, None);
    }

    /// Rule 10: forgets a call for which no caller waits, so that another call can be sent instead.
    fn forget(&mut self, id: CallId) {
        if self.calls.contains_key(&id) {
            self.end(id);
        }
    }

    fn reply(&mut self, now: Time, xid: Xid, effects: &mut Vec<Effect>) {
        if let Link::Connected { heard, .. } = &mut self.link {
            *heard = now;
            self.pause = Duration::ZERO;
        }
        // Rule 2: the first reply ends its call, and a reply without a call is ignored.
        let Some(id) = self.on_their_way.get(&xid).copied() else { return };
        let call = self.end(id);
        if let (Link::Connected { answered, .. }, Some(sent)) = (&mut self.link, call.sent) {
            *answered = sent.at.max(*answered);
        }
        // Rule 5: only a call that was sent once is measured, because the reply to a repeated call
        // does not show which copy the server answered.
        if let (Link::Datagrams, Some(sent)) = (self.link, call.sent)
            && sent.once
        {
            self.estimate(call.weight).measured(now.since(sent.at));
        }
        effects.push(Effect::Done(id));
    }

    fn connected(&mut self, now: Time, effects: &mut Vec<Effect>) {
        assert_eq!(self.link, Link::Connecting, "a connection was requested");
        self.link = Link::Connected { heard: now, moved: now, answered: now };
        // Rule 6: all unanswered calls are sent again on the new connection, oldest first.
        let unanswered: BTreeSet<CallId> = self.on_their_way.values().copied().collect();
        for id in unanswered {
            self.send(now, id, effects);
        }
    }

    fn disconnected(&mut self, now: Time) {
        let asked = matches!(self.link, Link::Connecting | Link::Connected { .. });
        assert!(asked, "a connection was requested");
        self.silence();
        self.link = Link::NotConnected;
        // Rule 8: after a reply the pause is zero, and a lost connection is reopened at once.
        if !self.pause.is_zero() {
            // Half of the pause is random, so that the clients of a failed server do not all
            // reconnect at the same time.
            let half = u64::try_from(self.pause.as_nanos() / 2).unwrap_or(u64::MAX);
            let pause = self.pause - Duration::from_nanos(self.random.below(half));
            self.link = Link::Pausing { until: now + pause };
        }
    }

    /// Rule 8: opens a connection when a call needs it, and doubles the pause before the next
    /// attempt.
    fn connect_where_needed(&mut self, now: Time, effects: &mut Vec<Effect>) {
        let ready = match self.link {
            Link::NotConnected => true,
            Link::Pausing { until } => until <= now,
            Link::Datagrams | Link::Connecting | Link::Connected { .. } => false,
        };
        if ready && !self.calls.is_empty() {
            self.pause = (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
            self.link = Link::Connecting;
            effects.push(Effect::Connect);
        }
    }

    /// Rule 3: sends the waiting calls in order while the bound on calls in transit permits.
    fn send_what_waits(&mut self, now: Time, effects: &mut Vec<Effect>) {
        if !self.can_send() {
            return;
        }
        while self.on_their_way.len() < self.options.in_flight_max
            && let Some(id) = self.waiting.pop_first()
        {
            self.send(now, id, effects);
        }
    }

    /// Returns true if a call can be sent now.
    fn can_send(&self) -> bool {
        matches!(self.link, Link::Datagrams | Link::Connected { .. })
    }

    /// Sends the first or a further copy of a call.
    fn send(&mut self, now: Time, id: CallId, effects: &mut Vec<Effect>) {
        let call = &self.calls[&id];
        let sent = match call.sent {
            Some(sent) => Sent { at: now, once: false, ..sent },
            None => {
                let weight = call.weight;
                let xid = self.new_xid();
                self.on_their_way.insert(xid, id);
                let patience = match self.options.carrier {
                    Carrier::Stream => self.options.patience,
                    Carrier::Datagram => self.estimate(weight).timeout(),
                };
                Sent { xid, at: now, patience, once: true }
            }
        };
        self.calls.get_mut(&id).expect("a call that is sent has begun").sent = Some(sent);
        self.set_alarm(id, Some(now + sent.patience));
        effects.push(Effect::Send { call: id, xid: sent.xid });
    }

    /// Rule 1: returns the next xid, and skips the xids in use.
    fn new_xid(&mut self) -> Xid {
        loop {
            let xid = self.next_xid;
            self.next_xid = Xid(xid.0.wrapping_add(1));
            if !self.on_their_way.contains_key(&xid) {
                return xid;
            }
        }
    }

    /// Handles the calls whose alarms are due.
    fn ring(&mut self, now: Time, effects: &mut Vec<Effect>) {
        while let Some((time, id)) = self.alarms.first().copied()
            && time <= now
        {
            let call = &self.calls[&id];
            if self.deadline(call).is_some_and(|deadline| deadline <= now) {
                self.end(id);
                effects.push(Effect::TimedOut(id));
            } else if let (true, Some(sent)) = (self.can_send(), call.sent) {
                self.unanswered(now, id, sent, effects);
            } else {
                self.set_alarm(id, None);
            }
        }
    }

    /// Rules 4 and 7: handles a call whose timeout has passed.
    fn unanswered(&mut self, now: Time, id: CallId, sent: Sent, effects: &mut Vec<Effect>) {
        if let Some(until) = self.moves_until(sent).filter(|until| *until > now) {
            return self.set_alarm(id, Some(until));
        }
        let patience_max = match self.options.carrier {
            Carrier::Stream => STREAM_PATIENCE_MAX,
            Carrier::Datagram => estimate::MAX,
        };
        let patience = (sent.patience * 2).min(patience_max);
        let call = self.calls.get_mut(&id).expect("a call with an alarm has begun");
        let weight = call.weight;
        call.sent = Some(Sent { patience, ..sent });
        match self.link {
            Link::Datagrams => {
                // Rule 5: the doubled timeout also applies to new calls until the next measurement.
                self.estimate(weight).back_off(patience);
                self.send(now, id, effects);
            }
            Link::Connected { heard, .. } if heard > sent.at => self.send(now, id, effects),
            Link::Connected { .. } => {
                self.silence();
                self.link = Link::NotConnected;
            }
            Link::NotConnected | Link::Pausing { .. } | Link::Connecting => {
                unreachable!("without a connection no call is sent again")
            }
        }
    }

    /// Returns true if a call that was sent later on the connection was answered.
    fn is_overtaken(&self, sent: Sent) -> bool {
        matches!(self.link, Link::Connected { answered, .. } if answered > sent.at)
    }

    /// Returns the time until which a call waits because its connection may be slow; `None` if a
    /// later call was answered.
    fn moves_until(&self, sent: Sent) -> Option<Time> {
        match self.link {
            Link::Connected { moved, .. } if !self.is_overtaken(sent) => {
                Some((moved + sent.patience).min(sent.at + STREAM_PATIENCE_MAX))
            }
            Link::Connected { .. }
            | Link::Datagrams
            | Link::NotConnected
            | Link::Pausing { .. }
            | Link::Connecting => None,
        }
    }

    /// Rule 9: returns the time at which a call ends without a reply, unless the server gives
    /// another sign of life; `None` for a hard mount.
    fn deadline(&self, call: &Call) -> Option<Time> {
        let soft = self.options.soft?;
        let is_overtaken = call.sent.is_some_and(|sent| self.is_overtaken(sent));
        let alive = self.alive.filter(|_| !is_overtaken).unwrap_or(call.begun);
        let slow = (alive + soft).min(call.begun + STREAM_PATIENCE_MAX);
        Some(slow.max(call.begun + soft))
    }

    /// Removes the alarms of all sent calls, except the deadlines of soft calls: without a
    /// connection no call can be sent again.
    fn silence(&mut self) {
        let ids: Vec<CallId> = self.on_their_way.values().copied().collect();
        for id in ids {
            self.set_alarm(id, None);
        }
    }

    /// Sets a call's alarm to a time, or to its deadline if that is sooner.
    fn set_alarm(&mut self, id: CallId, time: Option<Time>) {
        let deadline = self.deadline(&self.calls[&id]);
        let call = self.calls.get_mut(&id).expect("a call with an alarm has begun");
        if let Some(old) = call.alarm.take() {
            self.alarms.remove(&(old, id));
        }
        call.alarm = [time, deadline].into_iter().flatten().min();
        if let Some(new) = call.alarm {
            self.alarms.insert((new, id));
        }
    }

    fn end(&mut self, id: CallId) -> Call {
        let call = self.calls.remove(&id).expect("a call that ends has begun");
        match call.sent {
            Some(sent) => drop(self.on_their_way.remove(&sent.xid)),
            None => drop(self.waiting.remove(&id)),
        }
        if let Some(alarm) = call.alarm {
            self.alarms.remove(&(alarm, id));
        }
        call
    }

    fn estimate(&mut self, weight: Weight) -> &mut Estimate {
        match weight {
            Weight::Light => &mut self.light,
            Weight::Heavy => &mut self.heavy,
        }
    }
}

/// The maximum number of calls with which a debug build audits the table after each step.
const AUDITED_MAX: usize = 64;

#[cfg(test)]
mod tests;
