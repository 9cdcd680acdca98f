//! The server: listening sockets and event loops.

use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use leasehold_base::units::{ConnectionId, Time};
use leasehold_base::xdr::Message;
use leasehold_serve::Post;

use crate::clock;
use crate::connection_counts::ConnectionCounts;
use crate::counters::Counters;
use crate::event_loop::EventLoop;
use crate::handler::Handler;
use crate::inherited_sockets::{InheritedSockets, Purpose};
use crate::limits::{CONNECTIONS_MAX, CROWDING_MAX, STALL_MAX};
use crate::log::end_the_process;
use crate::peer::{Judge, Policy};
use crate::rate::Rate;
use crate::remote::{Accepted, Remote};
use crate::report::Reporter;
use crate::send_scheduler::SendScheduler;
use crate::slab::Key;
use crate::sockets::Sockets;
use crate::sys::{Local, Route};

/// The minimum interval of log lines about untrusted clients.
const COMPLAINTS_INTERVAL: Duration = Duration::from_secs(10);

/// The minimum interval of log lines about connections that the server closes for a fault of the
/// client.
const FAULTS_INTERVAL: Duration = Duration::from_secs(10);

/// The options of a server.
#[derive(Clone, Debug)]
pub struct Options {
    /// The addresses to serve; for port 0 the system selects a port.
    pub listen: Vec<SocketAddr>,
    /// The number of loops, each on a thread of its own.
    pub loops: NonZeroUsize,
    /// The maximum number of open connections. The server closes a further connection at once, or
    /// closes a connection of an address that has more connections.
    pub connections_max: usize,
    /// The maximum number of connections from one address. The server closes a further connection
    /// at once.
    pub connections_of_client_max: Option<usize>,
    /// The maximum time for which a connection may leave a record partly sent, or a reply partly
    /// received.
    pub stall_max: Duration,
    /// The policy that decides which AUTH_SYS credentials the server trusts. `None` where no
    /// request depends on the caller's identity.
    pub policy: Option<Policy>,
    /// True if the server sends large replies one after the other (see `send_scheduler`); otherwise
    /// concurrent replies share the server's link.
    pub replies_in_turn: bool,
    /// True if the server answers datagrams as well; otherwise it has no datagram sockets.
    pub datagrams: bool,
}

impl Options {
    /// Returns the options for these addresses with one loop for each processor and the default
    /// limits.
    #[must_use]
    pub fn new(listen: Vec<SocketAddr>, policy: Policy) -> Self {
        Self {
            listen,
            loops: usual_loops(),
            connections_max: CONNECTIONS_MAX,
            connections_of_client_max: None,
            stall_max: STALL_MAX,
            policy: Some(policy),
            replies_in_turn: false,
            datagrams: true,
        }
    }
}

/// Returns the default number of loops, which is one for each processor.
#[must_use]
pub fn usual_loops() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// The reason why the server cannot listen on an address.
#[derive(Debug)]
pub struct BindError {
    /// The address.
    pub address: SocketAddr,
    /// The error of the system.
    pub error: io::Error,
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot listen on {}: {}", self.address, self.error)
    }
}

impl std::error::Error for BindError {}

/// A server that has bound its addresses and does not answer yet.
#[derive(Debug)]
pub struct Server {
    options: Options,
    sockets: Vec<Sockets>,
    addresses: Vec<SocketAddr>,
}

impl Server {
    /// Binds the addresses.
    ///
    /// # Errors
    /// Returns the first address that cannot be bound.
    pub fn bind(options: Options) -> Result<Self, BindError> {
        Self::bind_given(options, Purpose::Nfs, &mut InheritedSockets::default())
    }

    /// Binds the addresses, or uses inherited sockets for them.
    ///
    /// # Errors
    /// Returns the first address that cannot be bound.
    pub fn bind_given(
        options: Options,
        purpose: Purpose,
        given: &mut InheritedSockets,
    ) -> Result<Self, BindError> {
        let mut sockets = Vec::new();
        for &address in &options.listen {
            let taken = Sockets::bind(purpose, address, options.datagrams, given);
            sockets.push(taken.map_err(|error| BindError { address, error })?);
        }
        let addresses = sockets.iter().map(|one| one.address).collect();
        Ok(Self { options, sockets, addresses })
    }

    /// Returns the addresses in the order of the options, with their real ports.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Starts to answer.
    ///
    /// # Errors
    /// The system is out of descriptors or threads.
    pub fn start(self, handler: Arc<dyn Handler>) -> io::Result<Running> {
        let remotes: Vec<_> = (0..self.options.loops.get())
            .map(|index| Remote::new(index).map(Arc::new))
            .collect::<Result<_, _>>()?;
        let shared = Arc::new(Shared {
            handler,
            started: clock::now(),
            remotes,
            counters: Counters::default(),
            departures: self.options.replies_in_turn.then(SendScheduler::default),
            stall_max: self.options.stall_max,
            connections_max: self.options.connections_max,
            connections_of_client_max: self.options.connections_of_client_max,
            refusals: Rate::one_in(Duration::from_secs(1)),
            faults: Rate::one_in(FAULTS_INTERVAL),
            connections: AtomicUsize::new(0),
            census: ConnectionCounts::default(),
            turn: AtomicUsize::new(0),
        });
        let complaints = Arc::new(Rate::one_in(COMPLAINTS_INTERVAL));
        let mut loops: Vec<_> = shared
            .remotes
            .iter()
            .map(|remote| {
                let judge = Judge::new(self.options.policy, Arc::clone(&complaints));
                EventLoop::new(Arc::clone(&shared), Arc::clone(remote), judge)
            })
            .collect::<Result<_, _>>()?;
        let loop_count = loops.len();
        let mut kept = Vec::new();
        for one in &self.sockets {
            kept.push(one.listener.try_clone()?);
            kept.extend(one.datagrams.as_ref().map(OwnedFd::try_clone).transpose()?);
        }
        for (at, sockets) in self.sockets.into_iter().enumerate() {
            loops[0].listen(sockets.listener)?;
            let port = sockets.address.port();
            if let Some(datagrams) = sockets.datagrams {
                loops[at % loop_count].receive_datagrams(datagrams, port)?;
            }
        }
        let mut threads = Vec::new();
        for (at, one) in loops.into_iter().enumerate() {
            let builder = thread::Builder::new().name(format!("loop-{at}"));
            threads.push(builder.spawn(move || run(one))?);
        }
        Ok(Running { shared, threads, kept })
    }
}

/// Runs a loop. If a loop panics, the process ends. Otherwise the clients of the loop would wait
/// without a limit, whereas clients can handle a restart of the server.
fn run(one: EventLoop) {
    if catch_unwind(AssertUnwindSafe(|| one.run())).is_err() {
        end_the_process("a loop failed: the server ends");
    }
}

/// The shared state of all loops.
pub(crate) struct Shared {
    pub(crate) handler: Arc<dyn Handler>,
    /// The start time of the server.
    pub(crate) started: Time,
    pub(crate) remotes: Vec<Arc<Remote>>,
    pub(crate) counters: Counters,
    /// The scheduler of large replies; `None` if concurrent replies share the link.
    pub(crate) departures: Option<SendScheduler>,
    pub(crate) stall_max: Duration,
    connections_max: usize,
    connections_of_client_max: Option<usize>,
    refusals: Rate,
    pub(crate) faults: Rate,
    /// The number of open connections.
    connections: AtomicUsize,
    /// The number of connections for each address.
    census: ConnectionCounts,
    /// A counter whose value, modulo the number of loops, selects the loop for the next connection.
    turn: AtomicUsize,
}

impl Shared {
    /// Passes a connection to the next loop.
    pub(crate) fn hand_out(&self, connection: Accepted) {
        let client = connection.from.ip();
        if let Some(limit) = self.connections_of_client_max
            && self.census.of(client) >= limit
        {
            return self.refuse(&connection, limit);
        }
        let count = self.connections.fetch_add(1, Ordering::Relaxed);
        if count >= self.connections_max && !self.crowd_out(count, connection.from.ip()) {
            self.connections.fetch_sub(1, Ordering::Relaxed);
            return self.refuse(&connection, self.connections_max);
        }
        Counters::count(&self.counters.connections_accepted);
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let at = turn % self.remotes.len();
        self.census.add(connection.from.ip(), at);
        self.remotes[at].serve(connection);
    }

    /// Counts and logs a connection that the server closes at once, because `limit` connections are
    /// open.
    fn refuse(&self, connection: &Accepted, limit: usize) {
        Counters::count(&self.counters.connections_refused);
        if let Some(held_back) = self.refusals.pass() {
            let client = connection.from;
            tracing::warn!(%client, limit, held_back, "too many connections: refused one");
        }
    }

    /// Closes a connection of the address with the most connections in favour of `newcomer`, if
    /// that address has at least two connections more than `newcomer`. Returns true if a loop will
    /// close such a connection.
    fn crowd_out(&self, count: usize, newcomer: IpAddr) -> bool {
        if count >= self.connections_max + CROWDING_MAX {
            return false;
        }
        let Some((address, at)) = self.census.ahead_of(newcomer) else { return false };
        self.remotes[at].crowd_out(address);
        true
    }

    /// Records the end of a connection from the address `from` at the loop with the index `at`.
    pub(crate) fn connection_ended(&self, from: SocketAddr, at: usize) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
        self.census.remove(from.ip(), at);
    }
}

impl Post for Shared {
    fn send(&self, to: ConnectionId, message: Message) {
        let ConnectionId { event_loop, slot, generation } = to;
        if let Some(remote) = self.remotes.get(event_loop as usize) {
            remote.post(Key { index: slot, generation }, message);
        }
    }

    fn send_datagram(&self, to: SocketAddr, from: IpAddr, message: Message) {
        let route = Route { from: to, to: Local::towards(to, from) };
        for remote in &self.remotes {
            remote.post_datagram(route, message.clone());
        }
    }

    fn hurry(&self) {
        // Only the first loop calls the handler's `wake`, so the request goes to the first loop.
        if let Some(first) = self.remotes.first() {
            first.hurry();
        }
    }
}

/// A server that answers.
pub struct Running {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Duplicates of the listening sockets, for the next program of this server.
    kept: Vec<OwnedFd>,
}

impl Running {
    /// Returns the counters of rare events.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// Returns the interface to the counters of the loops.
    #[must_use]
    pub fn reporter(&self) -> Reporter {
        Reporter::new(Arc::clone(&self.shared))
    }

    /// Returns the interface for unsolicited messages to clients.
    #[must_use]
    pub fn post(&self) -> Arc<dyn Post> {
        Arc::clone(&self.shared) as Arc<dyn Post>
    }

    /// Stops the server: the server accepts no more connections and receives no more data. It
    /// continues to answer received calls and to send replies for at most `grace`.
    pub fn stop(mut self, grace: Duration) {
        // These duplicates are closed before the loops close their sockets. Otherwise clients could
        // still connect to an address at which no loop accepts connections.
        self.kept.clear();
        self.end(grace);
    }

    /// Stops the server in the same way, but returns the open listening sockets. New connections
    /// and datagrams wait in these sockets for the next program.
    #[must_use]
    pub fn hand_over(mut self, grace: Duration) -> Vec<OwnedFd> {
        let kept = core::mem::take(&mut self.kept);
        self.end(grace);
        kept
    }

    fn end(self, grace: Duration) {
        let deadline = clock::now() + grace;
        self.shared.remotes.iter().for_each(|remote| remote.stop(deadline));
        for thread in self.threads {
            thread.join().expect("a loop that fails ends the process");
        }
    }
}
