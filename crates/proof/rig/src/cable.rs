//! A faulty link (cable) between clients and a server: a proxy for TCP and UDP on one port that
//! delays, loses, duplicates and reorders messages, and that can be cut in one direction or both.
//!
//! ```no_run
//! use core::time::Duration;
//! use leasehold_rig::{Cable, Cut, Faults};
//!
//! let any = "127.0.0.1:0".parse().unwrap();
//! let cable = Cable::lay(any, "127.0.0.1:2049".parse().unwrap(), Faults::default()).unwrap();
//! // Clients connect to `cable.address()`.
//! let faults = Faults { round_trip: Duration::from_millis(20), lost: 10, ..Faults::default() };
//! cable.set_faults(faults);
//! cable.cut(Cut::ToServer);
//! cable.mend();
//! cable.sever();
//! ```
//!
//! The cable treats streams as a network does: it delays them, keeps either direction silent until
//! it is mended, limits the rate so that data waits at the sender, and ends them (sever). Within a
//! stream nothing is lost, duplicated or reordered, as TCP guarantees. While both directions are
//! cut the proxy accepts a new connection and keeps it silent, because a proxy cannot keep the
//! kernel from accepting. The server sees the proxy as the client. If the proxy has the privilege
//! it connects from a privileged port, so that the server trusts it like the client.

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

/// The faults of the cable. Shares are in thousandths of all datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// The time that the cable adds to each round trip, half of it in each direction.
    pub round_trip: Duration,
    /// Datagrams that do not arrive.
    pub lost: u16,
    /// Datagrams that arrive twice.
    pub doubled: u16,
    /// Datagrams that later ones overtake: they take up to ten milliseconds and a round trip
    /// longer.
    pub reordered: u16,
}

/// A direction that is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// From clients to the server.
    ToServer,
    /// From the server to clients.
    ToClients,
    /// Both.
    Both,
}

/// A cable in use; dropping it removes it.
pub struct Cable {
    address: SocketAddr,
    control: Arc<Control>,
}

/// The number of attempts to find a port that is free for TCP and for UDP.
const PICKS_MAX: usize = 32;

impl Cable {
    /// Opens a cable from an address to a server; port 0 stands for a free port.
    ///
    /// # Errors
    /// Returns an error if the address is not available, or the system has no thread left.
    pub fn lay(at: SocketAddr, server: SocketAddr, faults: Faults) -> io::Result<Self> {
        let (listener, datagrams) = open(at)?;
        let address = listener.local_addr()?;
        let control = Arc::new(Control::new(faults));
        let shared = Arc::clone(&control);
        thread::Builder::new().spawn(move || streams::carry(&listener, server, &shared))?;
        datagrams::carry(datagrams, server, &control)?;
        Ok(Self { address, control })
    }

    /// Returns the address to which clients connect.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes the faults from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.control.change(|state| state.faults = faults);
    }

    /// Limits each direction of a connection to this number of bytes a second from now on; `None`
    /// removes the limit.
    pub fn set_narrow(&self, bytes_a_second: Option<NonZeroU32>) {
        self.control.change(|state| state.narrow = bytes_a_second);
    }

    /// Cuts a direction until it is mended. Data on a stream waits meanwhile, and datagrams are
    /// lost.
    pub fn cut(&self, direction: Cut) {
        self.control.change(|state| {
            state.cut[streams::TO_SERVER] |= direction != Cut::ToClients;
            state.cut[streams::TO_CLIENTS] |= direction != Cut::ToServer;
        });
    }

    /// Removes all cuts.
    pub fn mend(&self) {
        self.control.change(|state| state.cut = [false; 2]);
    }

    /// Ends every connection, as a reset would; new ones are possible.
    pub fn sever(&self) {
        self.control.change(|state| state.severed += 1);
        self.control.sever();
    }

    /// Returns the counts of delivered and lost messages.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.control.counters()
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        self.control.change(|state| state.is_over = true);
        self.control.sever();
        // A connection wakes the thread that accepts connections.
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
