use proptest::prelude::*;

use super::*;
use crate::dialogue::{lines, play, value};

fn options(carrier: Carrier, soft: Option<Duration>) -> Options {
    Options { carrier, in_flight_max: 2, calls_max: 4, soft, patience: STREAM_PATIENCE }
}

#[test]
fn dialogues() {
    play("calls", || {
        let mut calls: Option<Calls> = None;
        move |now, words| {
            let Some(calls) = &mut calls else {
                calls = Some(opening(words));
                return vec![];
            };
            let mut effects = Vec::new();
            calls.step(now, event(words), &mut effects);
            calls.check();
            let mut said = lines(&effects);
            // Most rules concern time, so the dialogue also shows the next time at which a step is
            // needed.
            if let Some(wake) = calls.next_wake() {
                said.push(format!("(then at {}s)", wake.since(Time::ZERO).as_secs_f64()));
            }
            said
        }
    });
}

/// The first line of a dialogue: `udp` or `tcp`, perhaps `soft SECONDS` and `xid FIRST`.
fn opening(words: &[&str]) -> Calls {
    let carrier = if words[0] == "udp" { Carrier::Datagram } else { Carrier::Stream };
    let soft = value(words, "soft").map(Duration::from_secs);
    let mut calls = Calls::new(options(carrier, soft), Random::from_seed(1));
    calls.next_xid = Xid(value(words, "xid").unwrap_or(1));
    calls
}

/// `begin CALL [heavy]`, `forget CALL`, `reply XID`, `connected`, `disconnected`, `moved`, `tick`.
fn event(words: &[&str]) -> Event {
    let weight = if words.contains(&"heavy") { Weight::Heavy } else { Weight::Light };
    match words[0] {
        "begin" => Event::Begin { call: CallId(value(words, "begin").expect("a call")), weight },
        "forget" => Event::Forget { call: CallId(value(words, "forget").expect("a call")) },
        "reply" => Event::Reply { xid: Xid(value(words, "reply").expect("an xid")) },
        "connected" => Event::Connected,
        "disconnected" => Event::Disconnected,
        "moved" => Event::Moved,
        "tick" => Event::Tick,
        other => panic!("no such event: {other}"),
    }
}

/// A network and a server that follow a list of random numbers, and the actions of the table.
struct World {
    calls: Calls,
    now: Time,
    begun: u64,
    /// Calls that have not ended, and the xid of each call that was sent.
    open: BTreeMap<CallId, Option<Xid>>,
    begun_at: BTreeMap<CallId, Time>,
    /// Calls that reached the server, answered or not.
    at_server: Vec<Xid>,
    connected: bool,
    asked_to_connect: bool,
}

impl World {
    fn new(carrier: Carrier, soft: Option<Duration>) -> Self {
        Self {
            calls: Calls::new(options(carrier, soft), Random::from_seed(7)),
            now: Time::ZERO,
            begun: 0,
            open: BTreeMap::new(),
            begun_at: BTreeMap::new(),
            at_server: Vec::new(),
            connected: carrier == Carrier::Datagram,
            asked_to_connect: false,
        }
    }

    /// Steps, and checks each effect against the rules.
    fn step(&mut self, event: Event, lose: bool) {
        let mut effects = Vec::new();
        self.calls.step(self.now, event, &mut effects);
        self.calls.check();
        for effect in effects {
            match effect {
                Effect::Send { call, xid } => {
                    assert!(self.connected, "nothing is sent without a connection");
                    let known = self.open.get_mut(&call).expect("an open call is sent");
                    assert!(known.is_none_or(|known| known == xid), "copies share one xid");
                    *known = Some(xid);
                    let holders = self.open.values().filter(|known| **known == Some(xid));
                    assert_eq!(holders.count(), 1, "an xid has one call");
                    if !lose {
                        self.at_server.push(xid);
                    }
                }
                Effect::Done(call) => {
                    let xid = self.open.remove(&call).expect("an open call ends");
                    assert_eq!(Event::Reply { xid: xid.expect("the call was sent") }, event);
                }
                Effect::TimedOut(call) => {
                    self.open.remove(&call).expect("an open call ends");
                    let soft = self.calls.options.soft.expect("a hard call never times out");
                    let waited = self.now.since(self.begun_at[&call]);
                    assert!(waited >= soft, "a soft call has its full time");
                }
                Effect::Refused(call) => {
                    self.open.remove(&call).expect("a new call is refused");
                    assert!(self.open.len() >= self.calls.options.calls_max, "there is no room");
                }
                Effect::Connect => (self.connected, self.asked_to_connect) = (false, true),
            }
        }
        let sent = self.open.values().filter(|xid| xid.is_some()).count();
        assert!(sent <= self.calls.options.in_flight_max, "calls in transit are bounded");
    }

    fn begin(&mut self, weight: Weight, lose: bool) {
        let call = CallId(self.begun);
        self.begun += 1;
        self.open.insert(call, None);
        self.begun_at.insert(call, self.now);
        self.step(Event::Begin { call, weight }, lose);
    }

    fn chance(&mut self, dice: u64) {
        let lose = dice & 64 != 0;
        let which = usize::try_from(dice >> 8).unwrap_or(0);
        match dice % 10 {
            0 | 1 => self.begin(Weight::Light, lose),
            2 => self.begin(Weight::Heavy, lose),
            3 | 4 if !self.at_server.is_empty() => {
                // Sometimes a reply arrives twice, or never.
                let at = which % self.at_server.len();
                let xid = self.at_server[at];
                if dice & 128 != 0 {
                    self.at_server.remove(at);
                }
                if self.connected {
                    self.step(Event::Reply { xid }, lose);
                }
            }
            7 if !self.open.is_empty() => {
                let forgotten = *self.open.keys().nth(which % self.open.len()).expect("in range");
                self.open.remove(&forgotten);
                self.step(Event::Forget { call: forgotten }, lose);
            }
            5 if self.asked_to_connect => self.connection(true, lose),
            6 if self.calls.options.carrier == Carrier::Stream
                && (self.connected || self.asked_to_connect) =>
            {
                self.connection(false, lose);
            }
            9 if self.connected => self.step(Event::Moved, lose),
            _ => {
                self.now = self.now + Duration::from_millis((dice >> 8) % 40_000);
                self.step(Event::Tick, lose);
            }
        }
    }

    fn connection(&mut self, there: bool, lose: bool) {
        (self.connected, self.asked_to_connect) = (there, false);
        self.step(if there { Event::Connected } else { Event::Disconnected }, lose);
    }

    /// With a working network every call ends; returns the time that this took.
    fn heal(&mut self) -> Duration {
        let healed = self.now;
        for _ in 0..1000 {
            if self.asked_to_connect {
                self.connection(true, false);
            }
            for xid in core::mem::take(&mut self.at_server) {
                if self.connected {
                    self.step(Event::Reply { xid }, false);
                }
            }
            match self.calls.next_wake() {
                Some(wake) if self.at_server.is_empty() && !self.asked_to_connect => {
                    self.now = self.now.max(wake);
                    self.step(Event::Tick, false);
                }
                _ => {}
            }
            if self.open.is_empty() {
                return self.now.since(healed);
            }
        }
        panic!("calls do not end: {:#?}", self.calls);
    }
}

fn any_world() -> impl Strategy<Value = (Carrier, Option<Duration>)> {
    let carrier = prop_oneof![Just(Carrier::Stream), Just(Carrier::Datagram)];
    (carrier, prop_oneof![Just(None), (1..90_u64).prop_map(|s| Some(Duration::from_secs(s)))])
}

proptest! {
    #[test]
    fn each_call_ends_once_and_soon_after_the_network_heals(
        (carrier, soft) in any_world(),
        dice in prop::collection::vec(any::<u64>(), 0..80),
    ) {
        let mut world = World::new(carrier, soft);
        for dice in dice {
            world.chance(dice);
        }
        let bound = match carrier {
            Carrier::Datagram => estimate::MAX,
            // One timeout until the dead connection is detected, and one more for a call that the
            // server dropped.
            Carrier::Stream => STREAM_PATIENCE_MAX * 2,
        };
        prop_assert!(world.heal() <= bound);
        prop_assert!(world.calls.is_empty());
    }
}
