//! The threads that receive messages for sessions and open their connections. These threads are one
//! runtime thread, which also runs all timers, and the loops of a server, each of which receives
//! the replies to the calls that start on that loop.
//!
//! A call that a loop sends to another server, and the processing of the reply, thus run on one
//! thread, and no other thread needs to be woken. A session with several connections calls each of
//! them a lane. The first lane belongs to the runtime thread and carries the calls of all threads
//! that are not loops; each other lane belongs to one loop. When a loop ends, the runtime thread
//! takes over the lanes of that loop.

use core::cell::RefCell;
use core::net::SocketAddr;
use core::num::NonZeroUsize;
use core::time::Duration;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold_base::random::Random;
use leasehold_base::units::Time;
use leasehold_base::xdr::Message;
use leasehold_session::{Carrier, Connection, Driver, Options, Session, Traffic, Transport};
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;

use super::link::{PutOff, Wire};
use super::links::{Links, Name};
use super::sockets::{self, SourcePort};
use crate::clock;
use crate::limits::SWEEP_INTERVAL;
use crate::own;
use crate::slab::Key;

/// The maximum number of events in one wait.
const EVENTS_MAX: usize = 64;

/// The epoll data of the bell (the descriptor by which other threads wake this thread). No key of a
/// slab reaches this value.
const BELL: u64 = u64::MAX;

/// A thread that drives any number of sessions. The thread ends when the runtime and all of its
/// sessions are dropped. Threads do not survive a fork, so a program that forks into the background
/// must do so before it starts the runtime.
#[derive(Clone)]
pub struct Runtime {
    handle: Arc<Handle>,
    /// The number of server loops that send calls in sessions of this runtime.
    loops: usize,
}

/// A reference that keeps the thread alive. The runtime and each session have such a reference.
struct Handle {
    hub: Arc<Hub>,
}

/// The interface of a receiving thread to other threads: a list of requests, and a bell.
pub(super) struct Hub {
    bell: OwnedFd,
    /// True if a thread has rung the bell and the receiving thread has not reacted yet. Further
    /// requests then need not ring the bell.
    rung: AtomicBool,
    requests: Mutex<Requests>,
}

#[derive(Default)]
pub(super) struct Requests {
    pub(super) connects: Vec<(Arc<Ends>, Connection)>,
    /// New datagram sockets, which need no connection attempt.
    pub(super) opened: Vec<(Arc<Ends>, Arc<Wire>)>,
    wakes: Vec<(Time, Arc<Ends>)>,
    pub(super) closes: Vec<Arc<Ends>>,
    stop: bool,
    /// True if the receiving thread has ended and accepts no more requests.
    gone: bool,
}

/// The endpoints of one session, shared by its callers and the receiving threads.
pub(super) struct Ends {
    pub(super) to: SocketAddr,
    pub(super) source: SourcePort,
    pub(super) driver: Driver,
    /// For each lane, its wire (the open socket), if any, and its last source port.
    lanes: Vec<Mutex<Lane>>,
    /// True if all lanes except the first belong to loops.
    of_loops: bool,
}

#[derive(Default)]
pub(super) struct Lane {
    pub(super) wire: Option<Arc<Wire>>,
    pub(super) last_port: Option<u16>,
    /// The loop that receives for this lane; `None` if the runtime thread does.
    seat: Option<Arc<Hub>>,
    /// The traffic of earlier wires of this lane.
    before: Traffic,
    /// True if the lane had an earlier wire.
    is_renewed: bool,
}

impl Lane {
    /// Removes the wire. Bytes that the server's system has not acknowledged are lost.
    pub(super) fn cut(&mut self) {
        if self.wire.is_some() {
            let traffic = self.traffic();
            self.before = Traffic { given: traffic.taken, ..traffic };
            (self.wire, self.is_renewed) = (None, true);
        }
    }

    /// Returns the traffic of the lane so far. A wire that replaces an earlier wire counts only
    /// after it has received some bytes. Otherwise a hung server would seem to make progress: the
    /// operating system of its host accepts one connection after another, and some of the bytes
    /// that arrive on each connection.
    fn traffic(&self) -> Traffic {
        let traffic = self.wire.as_ref().map_or_else(Traffic::default, |wire| wire.traffic());
        let counts = traffic.came > 0 || !self.is_renewed;
        if counts { self.before + traffic } else { self.before }
    }
}

impl Ends {
    pub(super) fn lane(&self, connection: Connection) -> MutexGuard<'_, Lane> {
        self.lanes[connection.lane].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session's transport over sockets.
struct Sockets {
    handle: Arc<Handle>,
    ends: Arc<Ends>,
}

impl Runtime {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system is out of threads or descriptors.
    pub fn start() -> io::Result<Self> {
        let hub = Arc::new(Hub::new()?);
        let looping = Loop::new(Arc::clone(&hub))?;
        own::spawn("sessions", move || looping.run())?;
        Ok(Self { handle: Arc::new(Handle { hub }), loops: 0 })
    }

    /// Configures the runtime for a server with this number of loops: each stream session then has
    /// an additional connection for each loop. This connection carries the calls of that loop, and
    /// the loop itself receives the replies.
    #[must_use]
    pub fn beside_loops(self, loops: NonZeroUsize) -> Self {
        Self { loops: loops.get(), ..self }
    }

    /// Creates a session with the server at an address. A stream session connects when the first
    /// call needs the connection.
    ///
    /// # Errors
    /// The system has no datagram socket.
    pub fn session(
        &self,
        to: SocketAddr,
        mut options: Options,
        source: SourcePort,
    ) -> io::Result<Session> {
        let of_loops = self.loops > 0 && options.carrier == Carrier::Stream;
        if of_loops {
            options.connections = 1 + self.loops;
        }
        let mut seed = [0; 8];
        rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty())?;
        let random = Random::from_seed(u64::from_ne_bytes(seed));
        let datagrams = match options.carrier {
            Carrier::Stream => None,
            Carrier::Datagram => {
                let connection = Connection { lane: 0, generation: 0 };
                let socket = sockets::open_datagrams(to, source)?;
                Some(Arc::new(Wire::new(connection, socket, Carrier::Datagram)))
            }
        };
        let handle = Arc::clone(&self.handle);
        Ok(Session::new(options, random, move |driver| {
            let lanes = (0..options.connections.max(1)).map(|_| Mutex::default()).collect();
            let ends = Arc::new(Ends { to, source, driver, lanes, of_loops });
            if let Some(wire) = datagrams {
                ends.lane(wire.connection).wire = Some(Arc::clone(&wire));
                handle.hub.request(|requests| requests.opened.push((Arc::clone(&ends), wire)));
            }
            Sockets { handle, ends }
        }))
    }
}

impl Transport for Sockets {
    fn now(&self) -> Time {
        clock::now()
    }

    fn connect(&self, connection: Connection) {
        let mut lane = self.ends.lane(connection);
        lane.cut();
        let seat = lane.seat.clone();
        drop(lane);
        let add = |requests: &mut Requests| {
            requests.connects.push((Arc::clone(&self.ends), connection));
        };
        // If the loop of this lane has ended, it refuses the request, and the runtime thread takes
        // over the lane.
        if !seat.is_some_and(|seat| seat.request(add)) {
            self.handle.hub.request(add);
        }
    }

    fn send(&self, connection: Connection, message: &Arc<Message>) {
        let wire = self.ends.lane(connection).wire.clone();
        if let Some(wire) = wire.filter(|wire| wire.connection == connection) {
            wire.send(message);
        }
    }

    fn lane(&self) -> Option<usize> {
        if !self.ends.of_loops {
            return None;
        }
        let own = SEATED.with_borrow(|seated| {
            let (number, hub) = seated.as_ref()?;
            let lane = number + 1;
            let of_lane = self.ends.lanes.get(lane)?;
            let mut of_lane = of_lane.lock().unwrap_or_else(PoisonError::into_inner);
            let seat = of_lane.seat.get_or_insert_with(|| Arc::clone(hub));
            Arc::ptr_eq(seat, hub).then_some(lane)
        });
        Some(own.unwrap_or_default())
    }

    fn traffic(&self) -> Traffic {
        let each = (0..self.ends.lanes.len()).map(|lane| self.traffic_of(lane));
        each.fold(Traffic::default(), |sum, lane| sum + lane)
    }

    fn traffic_of(&self, lane: usize) -> Traffic {
        let Some(lane) = self.ends.lanes.get(lane) else { return Traffic::default() };
        lane.lock().unwrap_or_else(PoisonError::into_inner).traffic()
    }

    fn wake_at(&self, time: Time) {
        let ends = Arc::clone(&self.ends);
        self.handle.hub.request(|requests| requests.wakes.push((time, ends)));
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        let close = |requests: &mut Requests| requests.closes.push(Arc::clone(&self.ends));
        for lane in &self.ends.lanes {
            let seat = lane.lock().unwrap_or_else(PoisonError::into_inner).seat.clone();
            if let Some(seat) = seat {
                seat.request(close);
            }
        }
        self.handle.hub.request(close);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.hub.request(|requests| requests.stop = true);
    }
}

impl Hub {
    fn new() -> Result<Self, Errno> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { bell, rung: AtomicBool::new(false), requests: Mutex::default() })
    }

    /// Sends a request to the receiving thread. Returns false if the thread accepts no more
    /// requests.
    fn request(&self, add: impl FnOnce(&mut Requests)) -> bool {
        let mut requests = self.requests();
        if requests.gone {
            return false;
        }
        add(&mut requests);
        drop(requests);
        if !self.rung.swap(true, Ordering::AcqRel) {
            // The write of the counter fails only after 2^64 rings, so the result is ignored.
            let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        }
        true
    }

    /// Closes the list of requests and returns the remaining requests.
    pub(super) fn leave(&self) -> Requests {
        let gone = Requests { gone: true, ..Requests::default() };
        core::mem::replace(&mut *self.requests(), gone)
    }

    pub(super) fn take(&self) -> Requests {
        if self.rung.swap(false, Ordering::AcqRel) {
            return core::mem::take(&mut *self.requests());
        }
        Requests::default()
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        // The poison of the mutex is ignored: the lists are consistent even if a thread panicked
        // before it added an entry.
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state of the runtime thread.
struct Loop {
    hub: Arc<Hub>,
    epoll: OwnedFd,
    links: Links,
    /// The sessions to wake, by time.
    wakes: BTreeMap<Time, Vec<Arc<Ends>>>,
}

impl Loop {
    fn new(hub: Arc<Hub>) -> Result<Self, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let edge = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, &hub.bell, epoll::EventData::new_u64(BELL), edge)?;
        let (links, wakes) = (Links::new(Arc::clone(&hub), pack), BTreeMap::new());
        Ok(Self { hub, epoll, links, wakes })
    }

    fn run(mut self) {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let put_off = PutOff::begin();
        loop {
            put_off.send();
            self.wait(&mut events);
            for event in &events {
                if event.data.u64() != BELL {
                    self.links.dispatch(&self.epoll, unpack(event.data.u64()), event.flags);
                }
            }
            let mut requests = self.hub.take();
            if requests.stop {
                return;
            }
            self.links.serve(&self.epoll, &mut requests);
            self.serve(requests);
            self.keep_time();
        }
    }

    fn wait(&mut self, events: &mut Vec<epoll::Event>) {
        events.clear();
        let wake =
            self.links.next_wake().into_iter().chain(self.wakes.keys().next().copied()).min();
        // If the thread has memory that it can free, the wait ends after [`SWEEP_INTERVAL`], and
        // the idle thread then frees the memory.
        let quiet = self.links.has_memory().then(|| clock::now() + SWEEP_INTERVAL);
        let timeout = wake.into_iter().chain(quiet).min().map(|wake| {
            // The timeout is rounded up, because a wake before the requested time would have no
            // effect.
            let span = wake.since(clock::now()) + Duration::from_nanos(1);
            Timespec {
                tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(span.subsec_nanos()),
            }
        });
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), timeout.as_ref()) {
            Ok(0) => self.links.shrink(),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => panic!("waiting for events failed: {error}"),
        }
    }

    /// Records the requested wakes and closes sessions.
    fn serve(&mut self, requests: Requests) {
        for (time, ends) in requests.wakes {
            let sleepers = self.wakes.entry(time).or_default();
            // If the session already has a wake at this time, the request adds no second wake.
            if !sleepers.iter().any(|sleeper| Arc::ptr_eq(sleeper, &ends)) {
                sleepers.push(ends);
            }
        }
        for ends in requests.closes {
            self.wakes.retain(|_, sleepers| {
                sleepers.retain(|sleeper| !Arc::ptr_eq(sleeper, &ends));
                !sleepers.is_empty()
            });
        }
    }

    fn keep_time(&mut self) {
        let now = clock::now();
        while let Some(first) = self.wakes.first_entry()
            && *first.key() <= now
        {
            for ends in first.remove() {
                ends.driver.tick();
            }
        }
        self.links.keep_time(&self.epoll, now);
    }
}

/// The part of a server loop that receives the replies to the loop's own calls.
pub(crate) struct Seat {
    pub(crate) links: Links,
    /// The index of the loop.
    number: usize,
}

thread_local! {
    /// The loop that runs on this thread, with its index; `None` on other threads.
    static SEATED: RefCell<Option<(usize, Arc<Hub>)>> = const { RefCell::new(None) };
}

impl Seat {
    /// Creates the receiving part of a loop. The loop must add the bell to its epoll set,
    /// edge-triggered.
    pub(crate) fn new(number: usize, name: Name) -> Result<Self, Errno> {
        Ok(Self { links: Links::new(Arc::new(Hub::new()?), name), number })
    }

    /// Returns the descriptor that becomes readable when other threads have requests.
    pub(crate) fn bell(&self) -> &OwnedFd {
        &self.links.hub().bell
    }

    /// Assigns later calls of the calling thread to this loop.
    pub(crate) fn take(&self) {
        SEATED.set(Some((self.number, Arc::clone(self.links.hub()))));
    }

    /// Ends the assignment.
    pub(crate) fn leave(&mut self, set: &OwnedFd) {
        SEATED.set(None);
        self.links.leave(set);
    }
}

fn pack(key: Key) -> epoll::EventData {
    epoll::EventData::new_u64(u64::from(key.generation) << 32 | u64::from(key.index))
}

fn unpack(token: u64) -> Key {
    let [i0, i1, i2, i3, g0, g1, g2, g3] = token.to_le_bytes();
    let index = u32::from_le_bytes([i0, i1, i2, i3]);
    Key { index, generation: u32::from_le_bytes([g0, g1, g2, g3]) }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream};
    use std::thread;
    use std::time::Instant;

    use leasehold_base::xdr::Writer;

    use super::*;

    /// Waits until the traffic of a lane has the expected value.
    fn becomes(lane: &Lane, expected: Traffic) {
        let end = Instant::now() + core::time::Duration::from_secs(60);
        while lane.traffic() != expected {
            assert!(Instant::now() < end, "{:?} in place of {expected:?}", lane.traffic());
            thread::yield_now();
        }
    }

    /// The operating system of a hung server's host accepts bytes on one connection after another.
    /// These bytes must not count as progress.
    #[test]
    fn renewed_lane_counts_after_its_first_received_byte() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port left");
        let at = listener.local_addr().expect("it has one");
        let mut lane = Lane::default();
        let connect = |lane: &mut Lane, generation| {
            let ours = TcpStream::connect(at).expect("it listens");
            ours.set_nonblocking(true).expect("a socket can");
            let connection = Connection { lane: 0, generation };
            let wire = Arc::new(Wire::new(connection, ours.into(), Carrier::Stream));
            lane.wire = Some(Arc::clone(&wire));
            let (theirs, _) = listener.accept().expect("it connected");
            let mut writer = Writer::new();
            writer.u32(7);
            wire.send(&writer.finish());
            theirs
        };
        // Each wire sends one word with its record mark.
        let first = connect(&mut lane, 0);
        becomes(&lane, Traffic { given: 8, taken: 8, came: 0 });
        lane.cut();
        assert_eq!(lane.traffic(), Traffic { given: 8, taken: 8, came: 0 });
        let mut second = connect(&mut lane, 1);
        let wire = lane.wire.clone().expect("it is there");
        let end = Instant::now() + core::time::Duration::from_secs(60);
        while wire.traffic().taken < 8 {
            assert!(Instant::now() < end, "{:?}", wire.traffic());
            thread::yield_now();
        }
        assert_eq!(lane.traffic(), Traffic { given: 8, taken: 8, came: 0 }, "nothing came");
        second.write_all(b"answer").expect("there is room");
        becomes(&lane, Traffic { given: 16, taken: 16, came: 6 });
        lane.cut();
        assert_eq!(lane.traffic(), Traffic { given: 16, taken: 16, came: 6 });
        drop(first);
    }
}
