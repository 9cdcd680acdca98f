//! A bad cable between clients and a server: a proxy for TCP and UDP on one port that delays,
//! loses, doubles and reorders, and that can be cut in one direction or both.
//!
//! ```no_run
//! use core::time::Duration;
//! use leasehold_rig::{Cable, Cut, Faults};
//!
//! let any = "127.0.0.1:0".parse().unwrap();
//! let cable = Cable::lay(any, "127.0.0.1:2049".parse().unwrap(), Faults::default()).unwrap();
//! // Clients are told to go to `cable.address()`.
//! let faults = Faults { round_trip: Duration::from_millis(20), lost: 10, ..Faults::default() };
//! cable.set_faults(faults);
//! cable.cut(Cut::ToServer);
//! cable.mend();
//! cable.sever();
//! ```
//!
//! What it does to streams is what a network does to them: delay, silence in either direction until
//! it is mended, a narrow way on which what is sent waits at the sender, and an end (sever). Within
//! a stream nothing is lost, doubled or reordered, as TCP sees to that. While both directions are cut
//! a new connection is taken and stays silent: a proxy cannot keep the kernel from answering. The
//! server sees the proxy as the client: from a port that takes privilege, where the proxy may have
//! one, so that it is believed as the client would be.

mod control;
mod datagrams;
mod streams;

use core::net::SocketAddr;
use core::num::NonZeroU32;
use core::time::Duration;
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;
use std::thread;

use control::Control;
pub use control::Counters;

/// What the cable does to what goes through it. Shares are in thousandths of all datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// The time from a message to its answer that the cable adds, half of it each way.
    pub round_trip: Duration,
    /// Datagrams that do not arrive.
    pub lost: u16,
    /// Datagrams that arrive twice.
    pub doubled: u16,
    /// Datagrams that later ones overtake: they take up to ten milliseconds and a round trip more.
    pub reordered: u16,
}

/// A direction in which nothing goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// From clients to the server.
    ToServer,
    /// From the server to clients.
    ToClients,
    /// Both.
    Both,
}

/// A cable that is laid; taken away when this is dropped.
pub struct Cable {
    address: SocketAddr,
    control: Arc<Control>,
}

/// How often a port that is free for TCP may be taken for UDP.
const PICKS_MAX: usize = 32;

impl Cable {
    /// Lays a cable from an address, with port 0 from a free one, to a server.
    ///
    /// # Errors
    /// When the address cannot be had, or the system has no thread left.
    pub fn lay(at: SocketAddr, server: SocketAddr, faults: Faults) -> io::Result<Self> {
        let (listener, datagrams) = open(at)?;
        let address = listener.local_addr()?;
        let control = Arc::new(Control::new(faults));
        let shared = Arc::clone(&control);
        thread::Builder::new().spawn(move || streams::carry(&listener, server, &shared))?;
        datagrams::carry(datagrams, server, &control)?;
        Ok(Self { address, control })
    }

    /// Where clients are to go.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Does other things to what goes through from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.control.change(|state| state.faults = faults);
    }

    /// Takes so many bytes a second of each direction of a connection from now on; none for all
    /// that come.
    pub fn set_narrow(&self, bytes_a_second: Option<NonZeroU32>) {
        self.control.change(|state| state.narrow = bytes_a_second);
    }

    /// Lets nothing through in a direction, until it is mended. What is sent on a stream meanwhile
    /// waits, and datagrams are lost.
    pub fn cut(&self, direction: Cut) {
        self.control.change(|state| {
            state.cut[streams::TO_SERVER] |= direction != Cut::ToClients;
            state.cut[streams::TO_CLIENTS] |= direction != Cut::ToServer;
        });
    }

    /// Lets everything through again.
    pub fn mend(&self) {
        self.control.change(|state| state.cut = [false; 2]);
    }

    /// Ends every connection that goes through, as a reset would; new ones may be made.
    pub fn sever(&self) {
        self.control.change(|state| state.severed += 1);
        self.control.sever();
    }

    /// What went through, and what did not.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.control.counters()
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        self.control.change(|state| state.is_over = true);
        self.control.sever();
        // The one that waits for connections hears of it by one.
        drop(std::net::TcpStream::connect(self.address));
    }
}

/// Sockets of both kinds on the same port.
fn open(at: SocketAddr) -> io::Result<(TcpListener, UdpSocket)> {
    let mut picks = 0;
    loop {
        let listener = TcpListener::bind(at)?;
        picks += 1;
        match UdpSocket::bind(listener.local_addr()?) {
            Ok(datagrams) => return Ok((listener, datagrams)),
            Err(_) if at.port() == 0 && picks < PICKS_MAX => {}
            Err(error) => return Err(error),
        }
    }
}
