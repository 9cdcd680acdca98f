//! The call table of a client: each call that is begun ends once, whatever the network loses.
//!
//! Criteria in order of weight:
//! - All copies of a call carry one xid, so that the server's reply cache knows them.
//! - A call ends once: with its reply, or where the user asked for that, with a time-out.
//! - A loss is noticed soon, and a slow server is not mistaken for one.
//! - A server that cannot keep up is asked less often, not more.
//!
//! Rules:
//! 1. Xids count up from a random start; one that is in use is left out.
//! 2. The first reply ends its call. Replies to what is not called (any more) are ignored.
//! 3. At most so many calls are on their way; others wait in order, and at most so many wait.
//! 4. A datagram is sent again when its time is over; each time is double the one before.
//! 5. A first datagram's time is estimated from round trips as RFC 6298 section 2 does, apart for
//!    light and heavy calls, and never from a call that was sent twice (section 3). A doubled time
//!    holds for new calls too until the next round trip is measured (section 5.5 and 5.6).
//! 6. On a stream a call is sent once for each connection. All that is unanswered is sent again on
//!    a new one, oldest first.
//! 7. When a call on a stream is unanswered for long while bytes move on its connection, and none
//!    was answered that was sent later, then the link is slow: it is waited for until nothing has
//!    moved for as long, or ten minutes are over. Else it is sent again if a reply came in since it
//!    was sent, for then the server may have dropped it; otherwise the connection is taken for dead.
//! 8. A connection is opened when a call needs it. A lost one is opened anew at once; after that,
//!    until a reply comes, there is a pause before each attempt that doubles.
//! 9. A soft call ends without reply when its time is over, wherever it then is. On a stream it
//!    has its whole time from the last sign of life, for ten minutes and unless it was overtaken, as
//!    in rule 7: many calls on a narrow link take long, and silence is what it is to notice.
//! 10. A call that nobody waits for any more is forgotten: it frees its place, and is not sent again.
//!
//! What it does not do: it holds no message. Its owner keeps the bytes of a call until it ends and
//! puts the xid into them.

mod estimate;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use leasehold_base::random::Random;
use leasehold_base::units::{Time, Xid};

use estimate::Estimate;

/// What carries the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// Connections that lose nothing while they last.
    Stream,
    /// Messages that may get lost, doubled and out of order.
    Datagram,
}

/// How a client calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// What carries the calls.
    pub carrier: Carrier,
    /// The number of calls on their way at once.
    pub in_flight_max: usize,
    /// The number of calls on their way and waiting.
    pub calls_max: usize,
    /// When a call ends without reply: never for a hard mount.
    pub soft: Option<Duration>,
    /// How long a reply on a stream is waited for before anything is done about it, at first.
    pub patience: Duration,
}

/// Names a call to the owner, who gives a greater one to each call than to those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// How much work a call is: each kind has round trips of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Weight {
    /// Names and attributes.
    Light,
    /// File data and what waits for a disk.
    Heavy,
}

/// What happens to the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The owner wants to call.
    Begin {
        /// The new call.
        call: CallId,
        /// How much work it is.
        weight: Weight,
    },
    /// Nobody waits for the call any more. One that has ended is not missed.
    Forget {
        /// The call.
        call: CallId,
    },
    /// A reply came in.
    Reply {
        /// The number in it.
        xid: Xid,
    },
    /// The connection that was asked for last is there.
    Connected,
    /// The connection that was asked for last could not be had, or is lost.
    Disconnected,
    /// The other side of the connection gave a sign of life: a part of something came in, or it
    /// took what had waited to be sent.
    Moved,
    /// Time went on.
    Tick,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The call is sent, under this number.
    Send {
        /// The call.
        call: CallId,
        /// The number of this and of every other copy.
        xid: Xid,
    },
    /// The call ended with the reply that just came in.
    Done(CallId),
    /// The call ended without reply.
    TimedOut(CallId),
    /// The call was not taken: too many wait.
    Refused(CallId),
    /// A connection is opened; an older one is closed, and nothing more is heard of it.
    Connect,
}

/// The calls of one client to one server.
#[derive(Clone, Debug)]
pub struct Calls {
    options: Options,
    random: Random,
    next_xid: Xid,
    calls: BTreeMap<CallId, Call>,
    on_their_way: BTreeMap<Xid, CallId>,
    waiting: BTreeSet<CallId>,
    /// When which call needs attention; each at most once.
    alarms: BTreeSet<(Time, CallId)>,
    link: Link,
    /// When the server gave the last sign of life on a stream, on whichever connection.
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
    /// Its alarm, when it has one.
    alarm: Option<Time>,
    /// Its copies, once there are any.
    sent: Option<Sent>,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    xid: Xid,
    /// When the newest copy was sent.
    at: Time,
    /// How long is waited for a reply to it.
    patience: Duration,
    /// Whether there is one copy only.
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
        /// When a reply came in last.
        heard: Time,
        /// When anything moved last, as far as that was told.
        moved: Time,
        /// When the call was sent that was sent last of those that were answered.
        answered: Time,
    },
}

/// How long a reply on a stream is waited for, at first and at most: what Linux waits.
pub const STREAM_PATIENCE: Duration = Duration::from_secs(60);
const STREAM_PATIENCE_MAX: Duration = Duration::from_secs(600);

/// The first pause and the longest between attempts to connect: a restarted server is found soon,
/// and one that is gone is not flooded.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(30);

impl Calls {
    /// Starts without calls and without a connection.
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

    /// Takes one event, and appends what is to be done in order.
    ///
    /// # Panics
    /// When a call is begun under a number that is not greater than those in use, and when a
    /// connection is reported that was not asked for.
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

    /// When time alone will be an event.
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

    /// How many calls have not ended.
    #[must_use]
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether all calls have ended.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Audits the whole state.
    ///
    /// # Panics
    /// When it contradicts itself or is above its limits.
    pub fn check(&self) {
        assert!(self.calls.len() <= self.options.calls_max, "calls are bounded");
        assert!(self.on_their_way.len() <= self.options.in_flight_max, "sent calls are bounded");
        for (id, call) in &self.calls {
            assert_eq!(self.waiting.contains(id), call.sent.is_none(), "what waits is not sent");
            if let Some(sent) = call.sent {
                assert_eq!(self.on_their_way.get(&sent.xid), Some(id), "an xid has one call");
            }
            assert!(call.alarm.is_none_or(|time| self.alarms.contains(&(time, *id))));
        }
        let alarms = self.calls.values().filter(|call| call.alarm.is_some());
        assert_eq!(alarms.count(), self.alarms.len(), "an alarm has a call");
        assert_eq!(self.waiting.len() + self.on_their_way.len(), self.calls.len());
        let room = self.on_their_way.len() < self.options.in_flight_max;
        assert!(!self.can_send() || !room || self.waiting.is_empty(), "nothing waits in vain");
    }

    fn begin(&mut self, now: Time, id: CallId, weight: Weight, effects: &mut Vec<Effect>) {
        if self.calls.len() >= self.options.calls_max {
            return effects.push(Effect::Refused(id));
        }
        let newest = self.calls.last_key_value().map(|(newest, _)| *newest);
        assert!(newest.is_none_or(|newest| newest < id), "calls are numbered upwards");
        self.calls.insert(id, Call { weight, begun: now, alarm: None, sent: None });
        self.waiting.insert(id);
        self.set_alarm(id, None);
    }

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
        let Some(id) = self.on_their_way.get(&xid).copied() else { return };
        let call = self.end(id);
        if let (Link::Connected { answered, .. }, Some(sent)) = (&mut self.link, call.sent) {
            *answered = sent.at.max(*answered);
        }
        if let (Link::Datagrams, Some(sent)) = (self.link, call.sent)
            && sent.once
        {
            self.estimate(call.weight).measured(now.since(sent.at));
        }
        effects.push(Effect::Done(id));
    }

    fn connected(&mut self, now: Time, effects: &mut Vec<Effect>) {
        assert_eq!(self.link, Link::Connecting, "a connection was asked for");
        self.link = Link::Connected { heard: now, moved: now, answered: now };
        let unanswered: BTreeSet<CallId> = self.on_their_way.values().copied().collect();
        for id in unanswered {
            self.send(now, id, effects);
        }
    }

    fn disconnected(&mut self, now: Time) {
        let asked = matches!(self.link, Link::Connecting | Link::Connected { .. });
        assert!(asked, "a connection was asked for");
        self.silence();
        self.link = Link::NotConnected;
        if !self.pause.is_zero() {
            // Half of the pause is left to chance: clients of a server that failed come back
            // one by one.
            let half = u64::try_from(self.pause.as_nanos() / 2).unwrap_or(u64::MAX);
            let pause = self.pause - Duration::from_nanos(self.random.below(half));
            self.link = Link::Pausing { until: now + pause };
        }
    }

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

    /// Whether what is sent now has a way.
    fn can_send(&self) -> bool {
        matches!(self.link, Link::Datagrams | Link::Connected { .. })
    }

    /// Sends one more copy of a call, or the first.
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
        self.calls.get_mut(&id).expect("what is sent was begun").sent = Some(sent);
        self.set_alarm(id, Some(now + sent.patience));
        effects.push(Effect::Send { call: id, xid: sent.xid });
    }

    fn new_xid(&mut self) -> Xid {
        loop {
            let xid = self.next_xid;
            self.next_xid = Xid(xid.0.wrapping_add(1));
            if !self.on_their_way.contains_key(&xid) {
                return xid;
            }
        }
    }

    /// Attends to the calls whose alarms are over.
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

    fn unanswered(&mut self, now: Time, id: CallId, sent: Sent, effects: &mut Vec<Effect>) {
        if let Some(until) = self.moves_until(sent).filter(|until| *until > now) {
            return self.set_alarm(id, Some(until));
        }
        let patience_max = match self.options.carrier {
            Carrier::Stream => STREAM_PATIENCE_MAX,
            Carrier::Datagram => estimate::MAX,
        };
        let patience = (sent.patience * 2).min(patience_max);
        let call = self.calls.get_mut(&id).expect("what rings was begun");
        let weight = call.weight;
        call.sent = Some(Sent { patience, ..sent });
        match self.link {
            Link::Datagrams => {
                self.estimate(weight).back_off(patience);
                self.send(now, id, effects);
            }
            Link::Connected { heard, .. } if heard > sent.at => self.send(now, id, effects),
            Link::Connected { .. } => {
                self.silence();
                self.link = Link::NotConnected;
            }
            Link::NotConnected | Link::Pausing { .. } | Link::Connecting => {
                unreachable!("what has no way is not sent again")
            }
        }
    }

    /// Whether a call was answered that was sent later on the connection.
    fn is_overtaken(&self, sent: Sent) -> bool {
        matches!(self.link, Link::Connected { answered, .. } if answered > sent.at)
    }

    /// Until when a call is waited for as its connection may be slow; none where it was overtaken.
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

    /// When a call ends without reply, by what was heard of the server so far; never if it is hard.
    fn deadline(&self, call: &Call) -> Option<Time> {
        let soft = self.options.soft?;
        let is_overtaken = call.sent.is_some_and(|sent| self.is_overtaken(sent));
        let alive = self.alive.filter(|_| !is_overtaken).unwrap_or(call.begun);
        let slow = (alive + soft).min(call.begun + STREAM_PATIENCE_MAX);
        Some(slow.max(call.begun + soft))
    }

    /// Lets nothing ring but deadlines: without a connection there is nothing to be sent again.
    fn silence(&mut self) {
        let ids: Vec<CallId> = self.on_their_way.values().copied().collect();
        for id in ids {
            self.set_alarm(id, None);
        }
    }

    /// Sets a call's alarm to a time, or to its deadline where that is sooner.
    fn set_alarm(&mut self, id: CallId, time: Option<Time>) {
        let deadline = self.deadline(&self.calls[&id]);
        let call = self.calls.get_mut(&id).expect("what has an alarm was begun");
        if let Some(old) = call.alarm.take() {
            self.alarms.remove(&(old, id));
        }
        call.alarm = [time, deadline].into_iter().flatten().min();
        if let Some(new) = call.alarm {
            self.alarms.insert((new, id));
        }
    }

    fn end(&mut self, id: CallId) -> Call {
        let call = self.calls.remove(&id).expect("what ends was begun");
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

/// Tables up to this size are audited after each step of a debug build.
const AUDITED_MAX: usize = 64;

#[cfg(test)]
mod tests;
