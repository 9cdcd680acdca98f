//! Sessions over a network that a list of random numbers controls.

use core::future::Future;
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use leasehold_base::random::Random;
use leasehold_base::units::{Time, Xid};
use leasehold_base::xdr::{Encode as _, Message, Reader, Writer};
use leasehold_wire::rpc;
use proptest::prelude::*;

use super::*;

/// The requests of a session to its transport.
#[derive(Debug, Default)]
struct Wishes {
    now: Time,
    connects: Vec<Connection>,
    sends: Vec<(Connection, Bytes)>,
    wake: Option<Time>,
    /// The lane of calls that begin now.
    lane: Option<usize>,
    /// The traffic of each lane.
    traffic: BTreeMap<usize, Traffic>,
}

#[derive(Clone, Default)]
struct Net(Arc<Mutex<Wishes>>);

impl Net {
    fn wishes(&self) -> MutexGuard<'_, Wishes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Transport for Net {
    fn now(&self) -> Time {
        self.wishes().now
    }

    fn connect(&self, connection: Connection) {
        self.wishes().connects.push(connection);
    }

    fn send(&self, connection: Connection, message: &Arc<Message>) {
        self.wishes().sends.push((connection, message.to_bytes()));
    }

    fn lane(&self) -> Option<usize> {
        self.wishes().lane
    }

    fn traffic_of(&self, lane: usize) -> Traffic {
        self.wishes().traffic.get(&lane).copied().unwrap_or_default()
    }

    fn wake_at(&self, time: Time) {
        let mut wishes = self.wishes();
        wishes.wake = Some(wishes.wake.map_or(time, |wake| wake.min(time)));
    }
}

/// The procedure in these tests: the server returns its argument.
const ECHO: Procedure =
    Procedure { program: 1, version: 1, number: 1, weight: leasehold_core::calls::Weight::Light };

/// A session with its network and its server.
struct World {
    session: Session,
    driver: Driver,
    net: Net,
    /// The open calls, with their arguments.
    open: BTreeMap<u32, Pin<Box<Call>>>,
    begun: u32,
    /// The connection of each lane, once it is open, with the calls that reached the server on it.
    there: BTreeMap<usize, Connection>,
    at_server: Vec<(Connection, Bytes)>,
}

impl World {
    fn new(options: Options) -> Self {
        let net = Net::default();
        let mut kept = None;
        let session = Session::new(options, Random::from_seed(3), |driver| {
            kept = Some(driver);
            net.clone()
        });
        let mut there = BTreeMap::new();
        if options.carrier == Carrier::Datagram {
            there.insert(0, Connection { lane: 0, generation: 0 });
        }
        let driver = kept.expect("a session hands its driver out");
        Self { session, driver, net, open: BTreeMap::new(), begun: 0, there, at_server: vec![] }
    }

    fn begin(&mut self) {
        let number = self.begun;
        self.begun += 1;
        let call = self.session.call(&Credential::none(), ECHO, &number);
        self.open.insert(number, Box::pin(call));
    }

    /// Polls every call, and checks the results of finished calls.
    fn poll(&mut self, soft: bool) {
        let mut context = Context::from_waker(Waker::noop());
        self.open.retain(|number, call| match call.as_mut().poll(&mut context) {
            Poll::Pending => true,
            Poll::Ready(Ok(results)) => {
                assert_eq!(results.read(), Ok(*number), "a call ends with its own reply");
                false
            }
            Poll::Ready(Err(error)) => {
                let may = error == Error::TimedOut && soft || error == Error::Busy;
                assert!(may, "{error:?}");
                false
            }
        });
        assert_eq!(self.session.open_calls(), self.open.len());
    }

    /// Delivers the session's messages; a message on no connection is lost.
    fn carry(&mut self, lose: bool) {
        let sends = core::mem::take(&mut self.net.wishes().sends);
        for (connection, message) in sends {
            if !lose && self.there.get(&connection.lane) == Some(&connection) {
                self.at_server.push((connection, message));
            }
        }
    }

    /// The server answers one of the received calls, if its connection is still open.
    fn answer(&mut self, at: usize, keep: bool) {
        let (connection, message) = self.at_server[at].clone();
        if !keep {
            self.at_server.remove(at);
        }
        if self.there.get(&connection.lane) == Some(&connection) {
            self.driver.received(connection, [echo(&message)]);
        }
    }

    fn connect(&mut self, works: bool) {
        let connects = core::mem::take(&mut self.net.wishes().connects);
        for connection in connects {
            self.there.remove(&connection.lane);
            if works {
                self.there.insert(connection.lane, connection);
                self.driver.connected(connection);
            } else {
                self.driver.disconnected(connection, "not now");
            }
        }
    }

    fn pass(&self, span: Duration) {
        let mut wishes = self.net.wishes();
        wishes.now = wishes.now + span;
        let is_due = wishes.wake.is_some_and(|wake| wake <= wishes.now);
        if is_due {
            wishes.wake = None;
        }
        drop(wishes);
        if is_due {
            self.driver.tick();
        }
    }

    fn chance(&mut self, dice: u64, soft: bool) {
        let which = usize::try_from(dice >> 16).unwrap_or(0);
        self.net.wishes().lane = (dice & 1024 != 0).then_some(which % 4);
        match dice % 8 {
            0..=2 => self.begin(),
            3 if !self.at_server.is_empty() => {
                self.answer(which % self.at_server.len(), dice & 256 != 0);
            }
            4 => self.connect(dice & 256 != 0),
            5 => {
                // Breaks a connection; a datagram socket only reports that the server's port is
                // closed.
                if let Some(connection) = self.there.values().nth(which % 3).copied() {
                    if self.session.options().carrier == Carrier::Stream {
                        self.there.remove(&connection.lane);
                    }
                    self.driver.disconnected(connection, "it broke");
                }
            }
            6 if !self.open.is_empty() => {
                let number = *self.open.keys().nth(which % self.open.len()).expect("in range");
                self.open.remove(&number);
            }
            _ => self.pass(Duration::from_millis((dice >> 16) % 20_000)),
        }
        self.poll(soft);
        self.carry(dice & 512 != 0);
    }

    /// Repairs the network, after which every call ends.
    fn heal(&mut self, soft: bool) {
        for _ in 0..1000 {
            self.connect(true);
            self.carry(false);
            while !self.at_server.is_empty() {
                self.answer(0, false);
            }
            self.poll(soft);
            self.carry(false);
            let is_quiet = self.at_server.is_empty() && self.net.wishes().connects.is_empty();
            if self.open.is_empty() {
                return;
            }
            if is_quiet {
                let wake = self.net.wishes().wake.expect("a waiting session has a wake time");
                let now = self.net.wishes().now;
                self.pass(wake.since(now));
            }
        }
        panic!("{} calls do not end", self.open.len());
    }
}

/// Returns the server's reply to a call: its argument.
fn echo(message: &Bytes) -> Bytes {
    let mut reader = Reader::new(message);
    let call = rpc::Call::decode(&mut reader).expect("a session sends calls");
    let mut writer = Writer::new();
    rpc::Reply { xid: call.xid, status: rpc::ReplyStatus::Success }.encode(&mut writer);
    writer.u32(reader.u32().expect("the argument is there"));
    writer.finish().into_bytes()
}

fn any_options() -> impl Strategy<Value = Options> {
    let soft = prop_oneof![Just(None), (1..60_u64).prop_map(|s| Some(Duration::from_secs(s)))];
    (any::<bool>(), 1..4_usize, 1..4_usize, soft).prop_map(|(streams, connections, most, soft)| {
        let usual = if streams { Options::stream() } else { Options::datagram() };
        Options { connections, in_flight_max: most, calls_max: 12, soft, ..usual }
    })
}

proptest! {
    #[test]
    fn each_call_ends_once_with_its_own_reply(
        options in any_options(),
        dice in prop::collection::vec(any::<u64>(), 0..120),
    ) {
        let mut world = World::new(options);
        for dice in dice {
            world.chance(dice, options.soft.is_some());
        }
        world.heal(options.soft.is_some());
        let counters = world.session.counters();
        prop_assert_eq!(world.session.open_calls(), 0);
        prop_assert!(counters.replies + counters.timed_out + counters.forgotten <= counters.calls);
    }
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn calls_to_an_unreachable_server_fail_at_once_if_configured() {
    let mut world = World::new(Options::stream().impatient(Duration::from_secs(60)));
    let mut call = pin!(world.session.call(&Credential::none(), ECHO, &1_u32));
    assert!(poll(call.as_mut()).is_pending());
    world.connect(false);
    assert_eq!(poll(call), Poll::Ready(Err(Error::Unreachable("not now".into()))));
    // After a successful connection the session waits for the server.
    let mut call = pin!(world.session.call(&Credential::none(), ECHO, &2_u32));
    assert!(poll(call.as_mut()).is_pending());
    // A pause follows each failed attempt to connect, so the test lets this time pass.
    world.pass(Duration::from_secs(1));
    world.connect(true);
    let connection = world.there[&0];
    world.driver.disconnected(connection, "it broke");
    world.connect(false);
    assert!(poll(call.as_mut()).is_pending());
}

#[test]
fn server_calls_reach_their_receiver_and_get_replies() {
    let mut world = World::new(Options::stream());
    let mut call = pin!(world.session.call(&Credential::none(), ECHO, &1_u32));
    assert!(poll(call.as_mut()).is_pending());
    world.connect(true);
    let connection = world.there[&0];
    let inbound = Bytes::from_static(&[0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 2]);
    world.driver.received(connection, [inbound.clone()]);
    assert_eq!(world.session.counters().unclaimed, 1);
    let taken = Arc::new(Mutex::new(Vec::new()));
    let owner = Arc::clone(&taken);
    world.session.take_calls(Box::new(move |inbound| {
        owner.lock().unwrap_or_else(PoisonError::into_inner).push(inbound);
    }));
    world.driver.received(connection, [inbound.clone()]);
    let came = taken.lock().unwrap_or_else(PoisonError::into_inner).pop().expect("it came");
    assert_eq!((came.connection, &came.message), (connection, &inbound));
    // Several messages may arrive together; an invalid message is ignored.
    let other = Bytes::from_static(&[0, 0, 0, 8, 0, 0, 0, 0]);
    let late = Bytes::from_static(&[0, 0, 0, 7, 0, 0, 0, 1]);
    let none = Bytes::from_static(b"none");
    world.driver.received(connection, [none, inbound.clone(), late, other.clone()]);
    let came: Vec<_> = taken.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect();
    assert!(came.iter().map(|came| &came.message).eq([&inbound, &other]));
    assert_eq!(world.session.counters().late, 1);
    world.net.wishes().sends.clear();
    world.session.reply(connection, Bytes::from_static(b"reply").into());
    assert_eq!(world.net.wishes().sends, [(connection, Bytes::from_static(b"reply"))]);
    // On another connection the reply would have no call at the server.
    world.driver.disconnected(connection, "it broke");
    world.net.wishes().sends.clear();
    world.session.reply(connection, Bytes::from_static(b"reply").into());
    assert!(world.net.wishes().sends.is_empty());
}

#[test]
fn call_uses_its_preferred_lane() {
    let mut world = World::new(Options { connections: 3, ..Options::stream() });
    // An invalid lane means no preference.
    for (lane, taken) in [(Some(2), 2), (Some(2), 2), (None, 0), (Some(3), 1), (Some(0), 0)] {
        world.net.wishes().lane = lane;
        world.begin();
        world.poll(false);
        world.connect(true);
        let sends = core::mem::take(&mut world.net.wishes().sends);
        assert!(sends.iter().all(|(connection, _)| connection.lane == taken), "{sends:?}");
        assert_eq!(sends.len(), 1);
    }
}

/// On a slow link a reply may take minutes: the session keeps its connection and does not
/// retransmit the call. The session gives up a connection without traffic, even if other
/// connections have traffic.
#[test]
fn connection_with_traffic_is_kept() {
    let mut world = World::new(Options { connections: 2, ..Options::stream() });
    for lane in [0, 1] {
        world.net.wishes().lane = Some(lane);
        world.begin();
        world.poll(false);
    }
    world.connect(true);
    let given_up = |world: &World| -> Vec<usize> {
        world.net.wishes().connects.iter().map(|connection| connection.lane).collect()
    };
    let pass = |world: &World, seconds: u64, bytes: u64| {
        for _ in 0..seconds {
            world.net.wishes().traffic.entry(0).or_default().came += bytes;
            world.pass(Duration::from_secs(1));
        }
    };
    pass(&world, 59, 1000);
    assert!(given_up(&world).is_empty());
    pass(&world, 241, 1000);
    assert_eq!(given_up(&world), [1], "nothing came there");
    assert_eq!(world.session.counters().sent_again, 0);
    // The traffic stops, and the usual timeout passes.
    pass(&world, 59, 0);
    assert_eq!(given_up(&world), [1]);
    pass(&world, 1, 0);
    assert_eq!(given_up(&world), [1, 0]);
    world.heal(false);
    assert_eq!(world.session.counters().sent_again, 2);
    assert_eq!(world.session.counters().replies, 2);
}

/// Bytes that the server's operating system acknowledges at once do not prove that the server
/// program still reads. Bytes that had to wait for the program prove it.
#[test]
fn server_that_acknowledges_waiting_bytes_is_alive() {
    for (given, gives_up) in [(0, true), (1 << 20, false)] {
        let mut world = World::new(Options::stream());
        world.begin();
        world.poll(false);
        world.connect(true);
        world.net.wishes().traffic.insert(0, Traffic { given, ..Traffic::default() });
        for _ in 0..120 {
            let mut wishes = world.net.wishes();
            let traffic = wishes.traffic.entry(0).or_default();
            // The system acknowledges the new bytes within the same second.
            (traffic.given, traffic.taken) = (traffic.given + 100, traffic.taken + 100);
            drop(wishes);
            world.pass(Duration::from_secs(1));
        }
        assert_eq!(!world.net.wishes().connects.is_empty(), gives_up, "{given} bytes waited");
    }
}

#[test]
fn sleepers_wake_in_time_and_not_before() {
    let world = World::new(Options::stream());
    let mut sleep = pin!(world.session.sleep(Duration::from_secs(2)));
    assert!(poll(sleep.as_mut()).is_pending());
    assert_eq!(world.net.wishes().wake, Some(Time::ZERO + Duration::from_secs(2)));
    world.pass(Duration::from_secs(1));
    assert!(poll(sleep.as_mut()).is_pending());
    world.pass(Duration::from_secs(1));
    assert!(poll(sleep.as_mut()).is_ready());
}

#[test]
fn all_copies_of_a_call_have_one_xid_and_the_estimate_decides_when() {
    let mut world = World::new(Options::datagram());
    let mut call = pin!(world.session.call(&Credential::none(), ECHO, &5_u32));
    assert!(poll(call.as_mut()).is_pending());
    // Without a measurement the timeout is one second, then two.
    for seconds in [1, 2] {
        assert_eq!(world.net.wishes().sends.len(), 1);
        world.carry(false);
        world.pass(Duration::from_secs(seconds));
    }
    world.carry(false);
    let xids: Vec<Xid> = world
        .at_server
        .iter()
        .map(|(_, message)| Xid(Reader::new(message).u32().expect("a word")))
        .collect();
    assert_eq!(xids, [xids[0]; 3]);
    assert_eq!(world.session.counters().sent_again, 2);
    // The first reply ends the call; the others are late.
    for _ in 0..3 {
        world.answer(0, false);
    }
    let Poll::Ready(Ok(results)) = poll(call) else { panic!("it has its reply") };
    assert_eq!(results.read(), Ok(5_u32));
    assert_eq!(world.session.counters().late, 2);
}

/// Servers of other vendors refuse unknown programs, some with malformed replies.
#[test]
fn server_without_the_lease_program_has_no_leases() {
    for bytes in [24, 20, 8] {
        let mut world = World::new(Options::datagram());
        let nfs = nfs::Nfs::new(world.session.clone(), nfs::Version::V3);
        let who = Credential::none();
        let mut call = pin!(nfs.with_leases(&who, [7; 16], b"name"));
        assert!(poll(call.as_mut()).is_pending());
        world.carry(false);
        let (connection, message) = world.at_server.remove(0);
        let xid = Reader::new(&message).u32().expect("a word");
        // An accepted reply with an empty verifier and the status of an unknown program.
        let words = [xid, 1, 0, 0, 0, 1].map(u32::to_be_bytes).concat();
        world.driver.received(connection, [Bytes::copy_from_slice(&words[..bytes])]);
        let Poll::Ready(Ok(nfs)) = poll(call) else {
            panic!("after {bytes} bytes the call continues")
        };
        assert!(nfs.leases().is_none());
    }
}
