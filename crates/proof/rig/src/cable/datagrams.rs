//! Forwards datagrams over the cable.

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::btree_map::{BTreeMap, Entry};
use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Instant;

use leasehold_base::limits::DATAGRAM_BYTES_MAX;
use leasehold_base::random::Random;
use leasehold_shell::client::SourcePort;
use rustix::io::Errno;

use super::control::{Control, LOOK};
use super::streams::{TO_CLIENTS, TO_SERVER};

/// A datagram in transit: its arrival time, its socket, and its destination if the socket is not
/// connected.
struct Posted {
    due: Instant,
    /// The number of the datagram in the order of sending: datagrams with the same arrival time
    /// arrive in this order.
    number: u64,
    socket: Arc<UdpSocket>,
    to: Option<SocketAddr>,
    direction: usize,
    bytes: Vec<u8>,
}

/// Forwards datagrams on threads of its own, until the cable is dropped.
pub(crate) fn carry(
    socket: UdpSocket,
    server: SocketAddr,
    control: &Arc<Control>,
) -> io::Result<()> {
    socket.set_read_timeout(Some(LOOK))?;
    let (post, posted) = channel();
    let clients = Arc::new(socket);
    let shared = Arc::clone(control);
    thread::Builder::new().spawn(move || deliver(&posted, &shared))?;
    let shared = Arc::clone(control);
    thread::Builder::new().spawn(move || from_clients(&clients, server, &post, &shared))?;
    Ok(())
}

/// Forwards datagrams from clients to the server. Each client has its own socket to the server, so
/// that replies find the client.
fn from_clients(
    clients: &Arc<UdpSocket>,
    server: SocketAddr,
    post: &Sender<Posted>,
    control: &Arc<Control>,
) {
    let mut sockets: BTreeMap<SocketAddr, Arc<UdpSocket>> = BTreeMap::new();
    let mut office = Office::new(Arc::clone(control), post.clone(), 1);
    let mut room = vec![0; DATAGRAM_BYTES_MAX];
    while !control.state().is_over {
        let Ok((count, client)) = clients.recv_from(&mut room) else { continue };
        let socket = match sockets.entry(client) {
            Entry::Occupied(entry) => Arc::clone(entry.get()),
            Entry::Vacant(place) => {
                let Ok(socket) = connect(server).map(Arc::new) else { continue };
                let (towards, back) = (Arc::clone(&socket), Arc::clone(clients));
                let office = Office::new(Arc::clone(control), post.clone(), client.port().into());
                let listen = move || from_server(&towards, &back, client, office);
                if thread::Builder::new().spawn(listen).is_err() {
                    continue;
                }
                Arc::clone(place.insert(socket))
            }
        };
        office.post(&socket, None, TO_SERVER, &room[..count]);
    }
}

fn from_server(
    server: &UdpSocket,
    clients: &Arc<UdpSocket>,
    client: SocketAddr,
    mut office: Office,
) {
    let mut room = vec![0; DATAGRAM_BYTES_MAX];
    while !office.control.state().is_over {
        if let Ok(count) = server.recv(&mut room) {
            office.post(clients, Some(client), TO_CLIENTS, &room[..count]);
        }
    }
}

/// Accepts datagrams, and draws the faults of each.
struct Office {
    control: Arc<Control>,
    post: Sender<Posted>,
    random: Random,
    number: u64,
}

impl Office {
    fn new(control: Arc<Control>, post: Sender<Posted>, seed: u64) -> Self {
        Self { control, post, random: Random::from_seed(seed), number: 0 }
    }

    fn post(
        &mut self,
        socket: &Arc<UdpSocket>,
        to: Option<SocketAddr>,
        direction: usize,
        bytes: &[u8],
    ) {
        let faults = self.control.state().faults;
        let mut drawn = |share: u16| self.random.below(1000) < u64::from(share);
        let (lost, doubled, late) =
            (drawn(faults.lost), drawn(faults.doubled), drawn(faults.reordered));
        if lost {
            self.control.state().counters.lost += 1;
            return;
        }
        self.control.state().counters.doubled += u64::from(doubled);
        for _ in 0..=u8::from(doubled) {
            let mut due = Instant::now() + faults.round_trip / 2;
            if late {
                let most = faults.round_trip + Duration::from_millis(10);
                let most = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
                due += Duration::from_nanos(self.random.below(most));
            }
            self.number += 1;
            let (socket, bytes) = (Arc::clone(socket), bytes.to_vec());
            let posted = Posted { due, number: self.number, socket, to, direction, bytes };
            // If the cable was dropped, no thread delivers the datagram, and sending it to the
            // thread fails: ignore the error.
            let _ = self.post.send(posted);
        }
    }
}

/// Delivers each datagram at its arrival time.
fn deliver(posted: &Receiver<Posted>, control: &Control) {
    let mut waiting: BinaryHeap<Reverse<Posted>> = BinaryHeap::new();
    while !control.state().is_over {
        let next = waiting.peek().map(|Reverse(first)| first.due);
        let span = next.map_or(LOOK, |due| due.saturating_duration_since(Instant::now()).min(LOOK));
        match posted.recv_timeout(span) {
            Ok(new) => waiting.push(Reverse(new)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        while waiting.peek().is_some_and(|Reverse(first)| first.due <= Instant::now()) {
            let Some(Reverse(Posted { socket, to, direction, bytes, .. })) = waiting.pop() else {
                break;
            };
            let mut state = control.state();
            if state.cut[direction] {
                state.counters.lost += 1;
                continue;
            }
            state.counters.datagrams += 1;
            drop(state);
            // If no program listens at the destination, the datagram is lost, as on a network:
            // ignore the error.
            let _ = match to {
                Some(to) => socket.send_to(&bytes, to),
                None => socket.send(&bytes),
            };
        }
    }
}

/// Opens a socket to the server, from a privileged port if possible.
fn connect(server: SocketAddr) -> io::Result<UdpSocket> {
    let bind = |port: Option<u16>| {
        let address = any_address(server, port.unwrap_or(0));
        UdpSocket::bind(address).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    };
    let socket = SourcePort::default().open(bind)?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(LOOK))?;
    Ok(socket)
}

pub(crate) fn any_address(like: SocketAddr, port: u16) -> SocketAddr {
    match like {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, port).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, port).into(),
    }
}

impl PartialEq for Posted {
    fn eq(&self, other: &Self) -> bool {
        (self.due, self.number) == (other.due, other.number)
    }
}

impl Eq for Posted {}

impl PartialOrd for Posted {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Posted {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        (self.due, self.number).cmp(&(other.due, other.number))
    }
}
