//! The thread that receives for all sessions, opens their connections and keeps their timers.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use leasehold_base::random::Random;
use leasehold_base::units::Time;
use leasehold_base::xdr::Message;
use leasehold_session::{Carrier, Connection, Driver, Options, Session, Transport};
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;
use rustix::net::sockopt;

use super::link::{Came, PutOff, Receiver, Wire};
use super::sockets::{self, SourcePort};
use crate::buffers::Buffers;
use crate::clock;
use crate::limits::{CONNECT_PATIENCE, SWEEP_INTERVAL};
use crate::slab::{Key, Slab};

/// Events that are taken at once.
const EVENTS_MAX: usize = 64;

/// The event of the bell; no key of a slab comes near.
const BELL: u64 = u64::MAX;

/// One thread that drives any number of sessions. It ends when the runtime and all sessions that
/// it made are dropped. Threads do not survive a fork: a program that goes to the background does
/// so first.
#[derive(Clone)]
pub struct Runtime {
    handle: Arc<Handle>,
}

/// What keeps the thread: the runtime, and each session.
struct Handle {
    hub: Arc<Hub>,
}

/// The thread, as others see it: a list of what they want of it, and a bell.
struct Hub {
    bell: OwnedFd,
    /// Whether the bell was rung and not yet heard.
    rung: AtomicBool,
    requests: Mutex<Requests>,
}

#[derive(Default)]
struct Requests {
    connects: Vec<(Arc<Ends>, Connection)>,
    /// Sockets for datagrams, which need no connecting.
    opened: Vec<(Arc<Ends>, Arc<Wire>)>,
    wakes: Vec<(Time, Arc<Ends>)>,
    closes: Vec<Arc<Ends>>,
    stop: bool,
}

/// The ends of one session, as both its callers and the thread need them.
struct Ends {
    to: SocketAddr,
    source: SourcePort,
    driver: Driver,
    /// What each lane sends by, if anything, and the port that it last spoke from.
    lanes: Vec<Mutex<Lane>>,
}

#[derive(Default)]
struct Lane {
    wire: Option<Arc<Wire>>,
    last_port: Option<u16>,
}

impl Ends {
    fn lane(&self, connection: Connection) -> MutexGuard<'_, Lane> {
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
    /// When the system has no thread or no descriptor left.
    pub fn start() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let requests = Mutex::default();
        let hub = Arc::new(Hub { bell, rung: AtomicBool::new(false), requests });
        let looping = Loop::new(Arc::clone(&hub))?;
        thread::Builder::new().name("sessions".into()).spawn(move || looping.run())?;
        Ok(Self { handle: Arc::new(Handle { hub }) })
    }

    /// A session with the server at an address. Over streams nothing is opened before a call needs
    /// it.
    ///
    /// # Errors
    /// When the system has no socket for datagrams.
    pub fn session(
        &self,
        to: SocketAddr,
        options: Options,
        source: SourcePort,
    ) -> io::Result<Session> {
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
            let ends = Arc::new(Ends { to, source, driver, lanes });
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
        self.ends.lane(connection).wire = None;
        let ends = Arc::clone(&self.ends);
        self.handle.hub.request(|requests| requests.connects.push((ends, connection)));
    }

    fn send(&self, connection: Connection, message: &Arc<Message>) {
        let wire = self.ends.lane(connection).wire.clone();
        if let Some(wire) = wire.filter(|wire| wire.connection == connection) {
            wire.send(message);
        }
    }

    fn wake_at(&self, time: Time) {
        let ends = Arc::clone(&self.ends);
        self.handle.hub.request(|requests| requests.wakes.push((time, ends)));
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        let ends = Arc::clone(&self.ends);
        self.handle.hub.request(|requests| requests.closes.push(ends));
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.hub.request(|requests| requests.stop = true);
    }
}

impl Hub {
    fn request(&self, add: impl FnOnce(&mut Requests)) {
        add(&mut self.requests());
        if !self.rung.swap(true, Ordering::AcqRel) {
            // Fails only after 2^64 rings.
            let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        }
    }

    fn take(&self) -> Requests {
        if self.rung.swap(false, Ordering::AcqRel) {
            return core::mem::take(&mut *self.requests());
        }
        Requests::default()
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        // The lists are whole whatever a thread that died was about to add.
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread's own state.
struct Loop {
    hub: Arc<Hub>,
    epoll: OwnedFd,
    links: Slab<Link>,
    /// When which sessions are to be woken.
    wakes: BTreeMap<Time, Vec<Arc<Ends>>>,
    buffers: Buffers,
}

/// One socket.
struct Link {
    ends: Arc<Ends>,
    wire: Arc<Wire>,
    receiver: Receiver,
    /// When connecting is given up, while it goes on.
    connecting: Option<Time>,
}

impl Loop {
    fn new(hub: Arc<Hub>) -> Result<Self, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let edge = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, &hub.bell, epoll::EventData::new_u64(BELL), edge)?;
        let (links, wakes, buffers) = (Slab::new(), BTreeMap::new(), Buffers::default());
        Ok(Self { hub, epoll, links, wakes, buffers })
    }

    fn run(mut self) {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let put_off = PutOff::begin();
        loop {
            put_off.send();
            self.wait(&mut events);
            for event in &events {
                self.dispatch(*event);
            }
            let requests = self.hub.take();
            if requests.stop {
                return;
            }
            self.serve(requests);
            self.keep_time();
        }
    }

    fn wait(&mut self, events: &mut Vec<epoll::Event>) {
        events.clear();
        let connecting = self.links.iter().filter_map(|(_, link)| link.connecting);
        let wake = connecting.chain(self.wakes.keys().next().copied()).min();
        // Once all is quiet, memory is given back.
        let quiet = (!self.buffers.is_empty()).then(|| clock::now() + SWEEP_INTERVAL);
        let timeout = wake.into_iter().chain(quiet).min().map(|wake| {
            // A little later than the moment, never sooner: sooner would be for nothing.
            let span = wake.since(clock::now()) + Duration::from_nanos(1);
            Timespec {
                tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(span.subsec_nanos()),
            }
        });
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), timeout.as_ref()) {
            Ok(0) => self.buffers.shrink(),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => panic!("waiting for events failed: {error}"),
        }
    }

    fn dispatch(&mut self, event: epoll::Event) {
        let token = event.data.u64();
        if token == BELL {
            return;
        }
        let key = unpack(token);
        let Some(link) = self.links.get_mut(key) else { return };
        use epoll::EventFlags as Flags;
        let flags = event.flags;
        let broken = flags.intersects(Flags::ERR | Flags::HUP);
        if link.connecting.is_some() {
            let error = sockopt::socket_error(&link.wire.socket).and_then(|error| error);
            match error {
                Ok(()) if flags.contains(Flags::OUT) && !broken => link.is_connected(),
                Ok(()) if !broken => return,
                Ok(()) => return self.end(key, &Errno::CONNREFUSED.to_string()),
                Err(error) => return self.end(key, &error.to_string()),
            }
        } else if flags.contains(Flags::OUT) {
            link.wire.writable();
        }
        let Some(link) = self.links.get_mut(key) else { return };
        let end_came = broken || flags.contains(Flags::RDHUP);
        if flags.contains(Flags::IN) || end_came {
            let Link { ends, wire, receiver, .. } = link;
            let connection = wire.connection;
            let came = receiver.receive(wire, end_came, &mut self.buffers, |messages| {
                ends.driver.received(connection, messages.drain(..));
            });
            if let Came::End(why) = came {
                self.end(key, &why);
            }
        }
    }

    fn serve(&mut self, requests: Requests) {
        for (ends, connection) in requests.connects {
            self.connect(&ends, connection);
        }
        for (ends, wire) in requests.opened {
            self.add(&ends, wire, None);
        }
        for (time, ends) in requests.wakes {
            let sleepers = self.wakes.entry(time).or_default();
            // One that is asked for again while it stands is not for twice.
            if !sleepers.iter().any(|sleeper| Arc::ptr_eq(sleeper, &ends)) {
                sleepers.push(ends);
            }
        }
        for ends in requests.closes {
            self.close_where(|link| Arc::ptr_eq(&link.ends, &ends));
            self.wakes.retain(|_, sleepers| {
                sleepers.retain(|sleeper| !Arc::ptr_eq(sleeper, &ends));
                !sleepers.is_empty()
            });
        }
    }

    fn connect(&mut self, ends: &Arc<Ends>, connection: Connection) {
        // The connection that the lane had before.
        self.close_where(|link| {
            Arc::ptr_eq(&link.ends, ends) && link.wire.connection.lane == connection.lane
        });
        let last_port = ends.lane(connection).last_port;
        match sockets::connect_stream(ends.to, ends.source, last_port) {
            Ok(socket) => {
                let wire = Arc::new(Wire::new(connection, socket, Carrier::Stream));
                self.add(ends, wire, Some(clock::now() + CONNECT_PATIENCE));
            }
            Err(error) => ends.driver.disconnected(connection, &error.to_string()),
        }
    }

    fn add(&mut self, ends: &Arc<Ends>, wire: Arc<Wire>, connecting: Option<Time>) {
        use epoll::EventFlags as Flags;
        let flags = Flags::IN | Flags::OUT | Flags::RDHUP | Flags::ET;
        let (ends, receiver) = (Arc::clone(ends), Receiver::default());
        let key = self.links.insert(Link { ends, wire, receiver, connecting });
        let link = self.links.get_mut(key).expect("was inserted just now");
        let added = epoll::add(&self.epoll, &link.wire.socket, pack(key), flags);
        if let Err(error) = added {
            self.end(key, &error.to_string());
        }
    }

    /// Ends a connection, and tells its session. A socket for datagrams goes on.
    fn end(&mut self, key: Key, why: &str) {
        let Some(link) = self.links.get_mut(key) else { return };
        let (ends, wire) = (Arc::clone(&link.ends), Arc::clone(&link.wire));
        if wire.is_stream() {
            self.close(key);
        }
        ends.driver.disconnected(wire.connection, why);
    }

    fn close(&mut self, key: Key) {
        let Some(link) = self.links.remove(key) else { return };
        let mut lane = link.ends.lane(link.wire.connection);
        if lane.wire.as_ref().is_some_and(|wire| Arc::ptr_eq(wire, &link.wire)) {
            lane.wire = None;
        }
        drop(lane);
        sockets::abort(&link.wire.socket);
        // Whoever sends on it this moment keeps the descriptor a little longer.
        let _ = epoll::delete(&self.epoll, &link.wire.socket);
    }

    fn close_where(&mut self, which: impl Fn(&Link) -> bool) {
        let keys: Vec<Key> =
            self.links.iter().filter(|(_, link)| which(link)).map(|(key, _)| key).collect();
        for key in keys {
            self.close(key);
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
        let over = |link: &Link| link.connecting.is_some_and(|until| until <= now);
        let late: Vec<Key> =
            self.links.iter().filter(|(_, link)| over(link)).map(|(key, _)| key).collect();
        for key in late {
            self.end(key, "no answer to the attempt to connect");
        }
    }
}

impl Link {
    fn is_connected(&mut self) {
        self.connecting = None;
        let mut lane = self.ends.lane(self.wire.connection);
        lane.last_port = sockets::port_of(&self.wire.socket);
        lane.wire = Some(Arc::clone(&self.wire));
        drop(lane);
        self.ends.driver.connected(self.wire.connection);
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
