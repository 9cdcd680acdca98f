//! A faulty link (cable) between clients and a server. It is a proxy for TCP and UDP on one port.
//! The proxy delays, loses, duplicates and reorders messages, and it can cut the link in one
//! direction or in both.
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
//! The cable treats streams as a network does: it delays the data; it keeps a cut direction silent
//! until the cut ends (`mend`); it limits the rate, so that data waits at the sender; and it ends
//! connections (`sever`). It does not lose, duplicate or reorder data within a stream, because TCP
//! prevents this. While both directions are cut, the proxy still accepts a new connection, because
//! a proxy cannot keep the kernel from accepting, but keeps the connection silent. The server sees
//! the proxy as the client. If the proxy has the privilege, it connects from a privileged port, so
//! that the server trusts the proxy like the client.

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
    /// The share of datagrams that are lost.
    pub lost: u16,
    /// The share of datagrams that arrive twice.
    pub doubled: u16,
    /// The share of datagrams that are delayed, so that later datagrams overtake them: by up to ten
    /// milliseconds and a round trip.
    pub reordered: u16,
}

/// The directions of a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The direction from clients to the server.
    ToServer,
    /// The direction from the server to clients.
    ToClients,
    /// Both directions.
    Both,
}

/// A cable in use; dropping it closes the cable.
pub struct Cable {
    address: SocketAddr,
    control: Arc<Control>,
}

/// The maximum number of attempts to find a port that is free for both TCP and UDP.
const PICKS_MAX: usize = 32;

impl Cable {
    /// Opens a cable from an address to a server; with port 0 the system chooses a free port.
    ///
    /// # Errors
    /// Returns an error if the address is not available, or if the system cannot start a thread.
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

    /// Cuts a direction until [`Cable::mend`]. During the cut, data on a stream waits, and
    /// datagrams are lost.
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

    /// Ends every connection, as a reset does. Clients can connect again.
    pub fn sever(&self) {
        self.control.change(|state| state.severed += 1);
        self.control.sever();
    }

    /// Returns the numbers of delivered and lost messages.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.control.counters()
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        self.control.change(|state| state.is_over = true);
        self.control.sever();
        // The accepting thread waits for a connection. Connect once, so that the thread wakes and
        // finds that the cable is closed.
        drop(std::net::TcpStream::connect(self.address));
    }
}

/// Opens sockets for TCP and UDP on the same port.
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
