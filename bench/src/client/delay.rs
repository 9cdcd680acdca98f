//! A link with an added delay: data arrives later, otherwise unchanged.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt;

/// The capacity of the queue: more than a client has in flight, so that the link loses no
/// additional data.
const BACKLOG_BYTES: usize = 16 << 20;

/// The delay that a link adds to a round trip; it may change at any time.
#[derive(Clone)]
pub(crate) struct RoundTrip(Arc<Mutex<Duration>>);

impl RoundTrip {
    pub(crate) fn new(length: Duration) -> Self {
        Self(Arc::new(Mutex::new(length)))
    }

    pub(crate) fn set(&self, length: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = length;
    }

    /// Returns the arrival time of data that is sent now.
    fn due(&self) -> Instant {
        Instant::now() + *self.0.lock().unwrap_or_else(PoisonError::into_inner) / 2
    }
}

/// A TCP proxy; it ends with the process.
pub(crate) struct Delay {
    pub(crate) address: SocketAddr,
    pub(crate) round_trip: RoundTrip,
    to: Arc<Mutex<SocketAddr>>,
}

impl Delay {
    /// Forwards connections to an address, with an added round trip time.
    pub(crate) fn start(to: SocketAddr, round_trip: Duration) -> io::Result<Self> {
        let round_trip = RoundTrip::new(round_trip);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let to = Arc::new(Mutex::new(to));
        let (shared, wire) = (Arc::clone(&to), round_trip.clone());
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let to = *shared.lock().unwrap_or_else(PoisonError::into_inner);
                // Without a listener the connection ends, as it would without the proxy.
                if let Ok(far) = TcpStream::connect(to) {
                    let _ = join(&near, &far, &wire);
                }
            }
        });
        Ok(Self { address, round_trip, to })
    }

    /// Forwards new connections to another address.
    pub(crate) fn lead(&self, to: SocketAddr) {
        *self.to.lock().unwrap_or_else(PoisonError::into_inner) = to;
    }
}

fn join(near: &TcpStream, far: &TcpStream, round_trip: &RoundTrip) -> io::Result<()> {
    for (from, to) in [(near, far), (far, near)] {
        let (from, to) = (from.try_clone()?, to.try_clone()?);
        to.set_nodelay(true)?;
        let (sender, receiver) = channel();
        let round_trip = round_trip.clone();
        thread::spawn(move || deliver(&receiver, &to));
        thread::spawn(move || {
            let mut from = from;
            let mut buffer = vec![0; 256 << 10];
            while let Ok(length) = from.read(&mut buffer) {
                let due = round_trip.due();
                if length == 0 || sender.send((due, buffer[..length].to_vec())).is_err() {
                    break;
                }
            }
        });
    }
    Ok(())
}

/// Forwards data that is due, and the end of the stream.
fn deliver(parts: &Receiver<(Instant, Vec<u8>)>, mut to: &TcpStream) {
    for (due, part) in parts {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if to.write_all(&part).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// Returns an address that forwards datagrams to a server with an added round trip time, until the
/// process ends. It binds a privileged port for each client, because the server accepts credentials
/// only from such ports.
pub(crate) fn delayed_datagrams(to: SocketAddr, round_trip: &RoundTrip) -> io::Result<SocketAddr> {
    let near = Arc::new(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?);
    sockopt::set_socket_recv_buffer_size_force(&near, BACKLOG_BYTES)?;
    let address = near.local_addr()?;
    let round_trip = round_trip.clone();
    thread::spawn(move || -> io::Result<()> {
        let mut known: BTreeMap<SocketAddr, Arc<UdpSocket>> = BTreeMap::new();
        let up = later();
        let mut buffer = vec![0; 64 << 10];
        loop {
            let (length, from) = near.recv_from(&mut buffer)?;
            let far = match known.entry(from) {
                Entry::Occupied(far) => Arc::clone(far.get()),
                Entry::Vacant(place) => {
                    let far = Arc::clone(place.insert(Arc::new(privileged()?)));
                    far.connect(to)?;
                    let (back, near) = (Arc::clone(&far), Arc::clone(&near));
                    let round_trip = round_trip.clone();
                    thread::spawn(move || hand_back(&back, &near, from, &round_trip));
                    far
                }
            };
            let due = round_trip.due();
            // At the end of the process, data that was sent is dropped.
            let _ = up.send((due, far, to, buffer[..length].to_vec()));
        }
    });
    Ok(address)
}

fn privileged() -> io::Result<UdpSocket> {
    let ports = (600..1024_u16).rev();
    let mut free = ports.filter_map(|port| UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).ok());
    let free = free.next();
    let free = free.ok_or_else(|| io::Error::other("no privileged port is free"))?;
    sockopt::set_socket_recv_buffer_size_force(&free, BACKLOG_BYTES)?;
    Ok(free)
}

fn hand_back(far: &UdpSocket, near: &Arc<UdpSocket>, to: SocketAddr, round_trip: &RoundTrip) {
    let down = later();
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length) = far.recv(&mut buffer) {
        let due = round_trip.due();
        let _ = down.send((due, Arc::clone(near), to, buffer[..length].to_vec()));
    }
}

/// A datagram: its time, socket, destination and contents.
type Datagram = (Instant, Arc<UdpSocket>, SocketAddr, Vec<u8>);

/// Starts a thread that sends datagrams when they are due.
fn later() -> Sender<Datagram> {
    let (sender, datagrams) = channel::<Datagram>();
    thread::spawn(move || {
        for (due, socket, to, datagram) in datagrams {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            // The sender retransmits a lost datagram.
            let _ = socket.send_to(&datagram, to);
        }
    });
    sender
}
