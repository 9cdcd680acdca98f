//! A server with a tiny service, and clients for it.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use leasehold_base::units::{ConnectionId, Time};
use leasehold_base::xdr::{Message, Reader, Writer};
use leasehold_fs::MaybeReady;
use leasehold_serve::{Arrival, Response};
use leasehold_shell::{Counters, Handler, Options, Policy, Report, Running, Server};
use leasehold_wire::record::mark;
use rustix::process::{Uid, geteuid};
use rustix::thread::set_thread_res_uid;

/// The timeout of every wait in a test.
pub const TIMEOUT: Duration = Duration::from_mins(1);

/// Replies with the message itself.
pub const ECHO: u32 = 0;
/// Replies with the two words of the message, followed by as many bytes as the second word
/// requests.
pub const LARGE: u32 = 1;
/// Replies with the message when the test opens the gate whose number is the second word.
pub const PARK: u32 = 2;
/// Does not reply.
pub const SILENT: u32 = 3;
/// Panics.
pub const PANIC: u32 = 4;
/// Panics when the test opens the gate of the call.
pub const PARK_AND_PANIC: u32 = 5;
/// Replies with the trust in the sender, as text.
pub const WHO: u32 = 6;
/// Replies with one byte: 1 if the message is the only user of its memory.
pub const ALONE: u32 = 7;
/// Replies with 1 MiB when the test opens the gate of the call.
pub const PARK_LARGE: u32 = 8;

/// Replies with the connection id in three words.
pub const WHICH: u32 = 9;

/// Replies like PARK, but the call must complete even if its connection is closed.
pub const PARK_TO_END: u32 = 10;

/// The number of wake-ups that the service requests, and their interval.
pub const WAKES: usize = 4;
pub const WAKE_AFTER: Duration = Duration::from_millis(20);

/// A message of two words.
pub fn message(what: u32, number: u32) -> Vec<u8> {
    [what.to_be_bytes(), number.to_be_bytes()].concat()
}

/// A message as one record.
pub fn record(message: &[u8]) -> Vec<u8> {
    [&mark(message.len()), message].concat()
}

/// The bytes of a LARGE reply.
pub fn pattern(length: u32) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

/// The waiting calls, and the events that the service has received.
#[derive(Default)]
pub struct State {
    gates: Mutex<BTreeMap<u32, Gate>>,
    changed: Condvar,
    /// The number of LARGE replies so far.
    pub large: AtomicUsize,
    ends: Mutex<BTreeMap<u32, End>>,
    closed: Mutex<Vec<(SocketAddr, ConnectionId)>>,
    /// The times of the wake-ups of the service.
    woken: Mutex<Vec<Time>>,
    /// The shared data of all large replies of waiting calls.
    mebibyte: Bytes,
}

/// The way in which a waiting call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Done,
    LetGo,
}

enum Gate {
    Waited(Waker),
    Open,
}

impl State {
    /// Waits until a call waits at the gate `number`, and opens the gate.
    pub fn open(&self, number: u32) {
        self.wait_for(number);
        let mut gates = self.gates.lock().unwrap();
        if let Some(Gate::Waited(waker)) = gates.insert(number, Gate::Open) {
            waker.wake();
        }
    }

    /// Waits until a call waits at the gate `number`.
    pub fn wait_for(&self, number: u32) {
        let gates = self.gates.lock().unwrap();
        let waited = self
            .changed
            .wait_timeout_while(gates, TIMEOUT, |gates| !gates.contains_key(&number))
            .unwrap();
        assert!(!waited.1.timed_out(), "no call came to gate {number}");
    }

    /// Waits until the service learns of the end of a connection; returns the connection id.
    pub fn wait_for_end(&self, from: SocketAddr) -> ConnectionId {
        let end = Instant::now() + TIMEOUT;
        loop {
            let closed = self.closed.lock().unwrap();
            if let Some((_, connection)) = closed.iter().find(|(other, _)| *other == from) {
                return *connection;
            }
            drop(closed);
            assert!(Instant::now() < end, "the end of {from} was not reported");
            std::thread::yield_now();
        }
    }

    /// Returns the number of times that the service was informed of the end of a connection.
    pub fn times_ended(&self, from: SocketAddr) -> usize {
        let closed = self.closed.lock().unwrap();
        closed.iter().filter(|(other, _)| *other == from).count()
    }

    /// Waits for the end of the call at a gate.
    pub fn end_of(&self, number: u32) -> End {
        let end = Instant::now() + TIMEOUT;
        loop {
            if let Some(end) = self.ends.lock().unwrap().get(&number) {
                return *end;
            }
            assert!(Instant::now() < end, "the call at gate {number} does not end");
            std::thread::yield_now();
        }
    }

    /// Waits for all wake-ups of the service; returns their times.
    pub fn wait_for_wakes(&self) -> Vec<Time> {
        let end = Instant::now() + TIMEOUT;
        loop {
            let woken = self.woken.lock().unwrap().clone();
            if woken.len() >= WAKES {
                return woken;
            }
            assert!(Instant::now() < end, "woken {} times", woken.len());
            std::thread::yield_now();
        }
    }

    /// Returns the number of calls that arrived at a gate.
    pub fn waited(&self) -> usize {
        self.gates.lock().unwrap().len()
    }

    fn pass(&self, number: u32, waker: &Waker) -> Poll<()> {
        let mut gates = self.gates.lock().unwrap();
        if let Some(Gate::Open) = gates.get(&number) {
            return Poll::Ready(());
        }
        gates.insert(number, Gate::Waited(waker.clone()));
        self.changed.notify_all();
        Poll::Pending
    }
}

/// A call that waits or completes.
struct Waiting(Arc<State>, u32);

impl Drop for Waiting {
    fn drop(&mut self) {
        let open = matches!(self.0.gates.lock().unwrap().get(&self.1), Some(Gate::Open));
        self.0.ends.lock().unwrap().insert(self.1, if open { End::Done } else { End::LetGo });
        self.0.changed.notify_all();
    }
}

/// The service: the first word of a message selects the behaviour.
struct Tiny(Arc<State>);

impl Handler for Tiny {
    fn answer(&self, arrival: Arrival, message: Bytes, writer: Writer) -> Response {
        if message.starts_with(&WHO.to_be_bytes()) {
            return MaybeReady::now(Some(Bytes::from(format!("{:?}", arrival.trust)).into()))
                .into();
        }
        if message.starts_with(&WHICH.to_be_bytes()) {
            let connection = arrival.connection.expect("it is asked on a stream");
            let ConnectionId { event_loop, slot, generation } = connection;
            let words = [event_loop, slot, generation].map(u32::to_be_bytes);
            return MaybeReady::now(Some(Bytes::from(words.concat()).into())).into();
        }
        let must_end = message.starts_with(&PARK_TO_END.to_be_bytes());
        Response { reply: answer(&self.0, &message, writer), must_end }
    }

    fn connection_closed(&self, from: SocketAddr, connection: ConnectionId) {
        self.0.closed.lock().unwrap().push((from, connection));
    }

    fn wake(&self, now: Time) -> Option<Time> {
        let mut woken = self.0.woken.lock().unwrap();
        woken.push(now);
        (woken.len() < WAKES).then_some(now + WAKE_AFTER)
    }
}

fn answer(
    state: &Arc<State>,
    message: &Bytes,
    mut writer: Writer,
) -> MaybeReady<'static, Option<Message>> {
    let mut words = Reader::new(message);
    let (what, number) = (words.u32().unwrap_or(ECHO), words.u32().unwrap_or(0));
    match what {
        LARGE => {
            state.large.fetch_add(1, Ordering::SeqCst);
            writer.fixed(&message[..8]);
            writer.payload(pattern(number).into());
            MaybeReady::now(Some(writer.finish()))
        }
        PARK_LARGE => {
            let state = Arc::clone(state);
            MaybeReady::later(async move {
                poll_fn(|context| state.pass(number, context.waker())).await;
                writer.payload(state.mebibyte.clone());
                Some(writer.finish())
            })
        }
        PARK | PARK_AND_PANIC | PARK_TO_END => {
            let (state, message) = (Arc::clone(state), message.clone());
            let waiting = Waiting(Arc::clone(&state), number);
            MaybeReady::later(async move {
                poll_fn(|context| state.pass(number, context.waker())).await;
                assert_ne!(what, PARK_AND_PANIC, "a planted panic");
                drop(waiting);
                Some(message.into())
            })
        }
        SILENT => MaybeReady::now(None),
        ALONE => MaybeReady::now(Some(Bytes::from(vec![u8::from(message.is_unique())]).into())),
        PANIC => panic!("a planted panic"),
        _ => MaybeReady::now(Some(message.clone().into())),
    }
}

/// A running server.
pub struct Fixture {
    pub state: Arc<State>,
    pub address: SocketAddr,
    running: Option<Running>,
}

impl Fixture {
    pub fn start() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut Options)) -> Self {
        leasehold_shell::process::prepare();
        let policy = Policy { privileged: true, uid: 0, reserved_ports_end: 1024 };
        let mut options = Options::new(vec!["127.0.0.1:0".parse().unwrap()], policy);
        options.loops = NonZeroUsize::new(2).unwrap();
        change(&mut options);
        let server = Server::bind(options).unwrap();
        let address = server.addresses()[0];
        let state = State { mebibyte: vec![0; 1 << 20].into(), ..State::default() };
        let state = Arc::new(state);
        let running = server.start(Arc::new(Tiny(Arc::clone(&state)))).unwrap();
        Self { state, address, running: Some(running) }
    }

    pub fn client(&self) -> Client {
        Client::connect(self.address)
    }

    pub fn counters(&self) -> &Counters {
        self.running.as_ref().unwrap().counters()
    }

    pub fn report(&self) -> Report {
        self.running.as_ref().unwrap().reporter().report()
    }

    /// Stops the server; returns the time that it took.
    pub fn stop(mut self, grace: Duration) -> Duration {
        let start = Instant::now();
        self.running.take().unwrap().stop(grace);
        start.elapsed()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop(Duration::ZERO);
        }
    }
}

/// Runs work as another user if the test has the privilege; returns the user that it ran as.
pub fn as_user<T: Send + 'static>(uid: u32, work: impl FnOnce() -> T + Send + 'static) -> (u32, T) {
    let thread = std::thread::spawn(move || {
        let user = Uid::from_raw(uid);
        if geteuid().is_root() {
            set_thread_res_uid(user, user, user).unwrap();
        }
        (geteuid().as_raw(), work())
    });
    thread.join().unwrap()
}

/// A client that sends and receives records.
pub struct Client(pub TcpStream);

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).unwrap())
    }

    pub fn over(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TIMEOUT)).unwrap();
        Self(stream)
    }

    pub fn write(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    pub fn send(&mut self, what: u32, number: u32) {
        self.write(&record(&message(what, number)));
    }

    pub fn reply(&mut self) -> Vec<u8> {
        let mut mark = [0; 4];
        self.0.read_exact(&mut mark).unwrap();
        let mark = u32::from_be_bytes(mark);
        assert!(mark >> 31 == 1, "replies come in one fragment");
        let mut reply = vec![0; (mark & !(1 << 31)) as usize];
        self.0.read_exact(&mut reply).unwrap();
        reply
    }

    /// Requests an echo and checks it.
    pub fn echo(&mut self, number: u32) {
        self.send(ECHO, number);
        assert_eq!(self.reply(), message(ECHO, number));
    }

    /// Returns the connection id that the service sees.
    pub fn name(&mut self) -> ConnectionId {
        self.send(WHICH, 0);
        let reply = self.reply();
        let word = |at| u32::from_be_bytes(reply[at..at + 4].try_into().unwrap());
        ConnectionId { event_loop: word(0), slot: word(4), generation: word(8) }
    }

    /// Returns true if the server has closed the connection and there is no more data to read.
    pub fn is_closed(&mut self) -> bool {
        match self.0.read(&mut [0; 16]) {
            Ok(count) => count == 0,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    }
}
