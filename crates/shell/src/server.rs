//! The server: sockets that listen, and loops.

use core::fmt;
use core::net::SocketAddr;
use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

use crate::clock;
use crate::event_loop::EventLoop;
use crate::handler::Handler;
use crate::peer::{Judge, Policy};
use crate::rate::Rate;
use crate::remote::{Accepted, Remote};

/// How many connections the kernel keeps ready to be accepted.
const BACKLOG: i32 = 4096;

/// How a server is to be.
#[derive(Clone, Debug)]
pub struct Options {
    /// The addresses to serve on; a port of 0 has the system pick one.
    pub listen: Vec<SocketAddr>,
    /// The number of loops, each on a thread of its own.
    pub loops: NonZeroUsize,
    /// How many connections may be open at one time; further ones are closed at once.
    pub connections_max: usize,
    /// Whose word about its user is taken.
    pub policy: Policy,
}

/// Why an address cannot be served on.
#[derive(Debug)]
pub struct BindError {
    /// The address.
    pub address: SocketAddr,
    /// What the system said.
    pub error: io::Error,
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot listen on {}: {}", self.address, self.error)
    }
}

impl std::error::Error for BindError {}

/// A server that has its addresses and does not answer yet.
#[derive(Debug)]
pub struct Server {
    options: Options,
    listeners: Vec<OwnedFd>,
    addresses: Vec<SocketAddr>,
}

impl Server {
    /// Takes the addresses.
    ///
    /// # Errors
    /// Names the first address that cannot be had.
    pub fn bind(options: Options) -> Result<Self, BindError> {
        let (mut listeners, mut addresses) = (Vec::new(), Vec::new());
        for &address in &options.listen {
            let (listener, bound) =
                listen(address).map_err(|error| BindError { address, error })?;
            listeners.push(listener);
            addresses.push(bound);
        }
        Ok(Self { options, listeners, addresses })
    }

    /// The addresses in the order in which they were asked for, with their real ports.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Starts to answer.
    ///
    /// # Errors
    /// When the system has no descriptors or threads for it.
    pub fn start(self, handler: Arc<dyn Handler>) -> io::Result<Running> {
        let remotes: Vec<_> = (0..self.options.loops.get())
            .map(|_| Remote::new().map(Arc::new))
            .collect::<Result<_, _>>()?;
        let shared = Arc::new(Shared {
            handler,
            remotes,
            connections_max: self.options.connections_max,
            refusals: Rate::one_in(Duration::from_secs(1)),
            connections: AtomicUsize::new(0),
            turn: AtomicUsize::new(0),
        });
        let mut loops: Vec<_> = shared
            .remotes
            .iter()
            .map(|remote| {
                let judge = Judge::new(self.options.policy);
                EventLoop::new(Arc::clone(&shared), Arc::clone(remote), judge)
            })
            .collect::<Result<_, _>>()?;
        for listener in self.listeners {
            loops[0].listen(listener)?;
        }
        let mut threads = Vec::new();
        for (at, one) in loops.into_iter().enumerate() {
            let builder = thread::Builder::new().name(format!("loop-{at}"));
            threads.push(builder.spawn(move || one.run())?);
        }
        Ok(Running { shared, threads })
    }
}

/// A listening socket for streams, and its address.
fn listen(address: SocketAddr) -> io::Result<(OwnedFd, SocketAddr)> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
    // A server that was just stopped leaves connections behind that fade; they do not matter.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        // Each address serves its own family, so that both wildcards can be served on.
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    net::bind(&socket, &address)?;
    net::listen(&socket, BACKLOG)?;
    let bound = net::getsockname(&socket)?.try_into()?;
    Ok((socket, bound))
}

/// What all loops share.
pub(crate) struct Shared {
    pub(crate) handler: Arc<dyn Handler>,
    remotes: Vec<Arc<Remote>>,
    connections_max: usize,
    refusals: Rate,
    /// Connections that are open.
    pub(crate) connections: AtomicUsize,
    /// The loop that gets the next connection.
    turn: AtomicUsize,
}

impl Shared {
    /// Gives a connection to the loop whose turn it is.
    pub(crate) fn hand_out(&self, connection: Accepted) {
        if self.connections.fetch_add(1, Ordering::Relaxed) >= self.connections_max {
            self.connections.fetch_sub(1, Ordering::Relaxed);
            if let Some(held_back) = self.refusals.pass() {
                let (client, limit) = (connection.from, self.connections_max);
                tracing::warn!(%client, limit, held_back, "too many connections: refused one");
            }
            return;
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        self.remotes[turn % self.remotes.len()].serve(connection);
    }
}

/// A server that answers.
pub struct Running {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Running {
    /// Ends it: accepts and receives no more, answers and sends what was received, for `grace` at
    /// the longest.
    pub fn stop(self, grace: Duration) {
        let deadline = clock::now() + grace;
        self.shared.remotes.iter().for_each(|remote| remote.stop(deadline));
        for thread in self.threads {
            // A loop that died said so on its thread.
            let _ = thread.join();
        }
    }
}
