//! Forwards TCP connections over the cable.

use core::net::SocketAddr;
use core::num::NonZeroU32;
use core::time::Duration;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Instant;

use leasehold_shell::client::SourcePort;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::control::{Control, Joined};

/// The directions of a connection, as indexes.
pub(crate) const TO_SERVER: usize = 0;
pub(crate) const TO_CLIENTS: usize = 1;

/// The maximum number of pieces in transit in one direction, and the size of a piece: together 16
/// MiB, more than a fast server sends within the longest delay.
const PIECES_MAX: usize = 256;
const PIECE_BYTES: usize = 64 << 10;

/// A piece of data with its arrival time; an empty piece is the end of the direction.
struct Piece {
    due: Instant,
    bytes: Vec<u8>,
}

/// Accepts connections until the cable is dropped.
pub(crate) fn carry(listener: &TcpListener, server: SocketAddr, control: &Arc<Control>) {
    for client in listener.incoming() {
        if control.state().is_over {
            return;
        }
        // If the connection to the client or to the server fails, the client sees that its
        // connection ends: ignore the error.
        if let Ok(client) = client {
            let _ = join(client, server, control);
        }
    }
}

fn join(client: TcpStream, server: SocketAddr, control: &Arc<Control>) -> io::Result<()> {
    let server = connect(server)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let joined = Arc::new(control.opened([client.try_clone()?, server.try_clone()?]));
    direct(client.try_clone()?, server.try_clone()?, TO_SERVER, &joined)?;
    direct(server, client, TO_CLIENTS, &joined)
}

/// Connects from a privileged port, if possible.
fn connect(to: SocketAddr) -> io::Result<TcpStream> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let connected = SourcePort::default().open(|port| -> Result<_, Errno> {
        let flags = SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        if let Some(port) = port {
            sockopt::set_socket_reuseaddr(&socket, true)?;
            rustix::net::bind(&socket, &super::datagrams::any_address(to, port))?;
        }
        rustix::net::connect(&socket, &to)?;
        Ok(socket)
    });
    Ok(connected?.into())
}

/// Forwards one direction of a connection. One thread reads at the sender's end, and another thread
/// writes at the receiver's end.
fn direct(
    mut from: TcpStream,
    to: TcpStream,
    direction: usize,
    joined: &Arc<Joined>,
) -> io::Result<()> {
    let (sender, receiver) = sync_channel(PIECES_MAX);
    let (taking, giving) = (Arc::clone(joined), Arc::clone(joined));
    thread::Builder::new().spawn(move || take(&mut from, &sender, direction, &taking))?;
    thread::Builder::new().spawn(move || give(to, &receiver, direction, &giving))?;
    Ok(())
}

fn take(from: &mut TcpStream, sender: &SyncSender<Piece>, direction: usize, joined: &Joined) {
    loop {
        let mut bytes = vec![0; PIECE_BYTES];
        let count = match from.read(&mut bytes) {
            Ok(count) => count,
            Err(_) => return joined.reset(),
        };
        bytes.truncate(count);
        let state = joined.control.state();
        let (round_trip, narrow) = (state.faults.round_trip, state.narrow);
        drop(state);
        let now = Instant::now();
        let due = now + round_trip / 2;
        if sender.send(Piece { due, bytes }).is_err() || count == 0 {
            return;
        }
        if let Some(rate) = narrow {
            // With a small receive buffer, data waits at the sender; by default the system would
            // buffer some MiB here.
            let _ = sockopt::set_socket_recv_buffer_size(&*from, PIECE_BYTES);
            if !joined.wait(now + span(count, rate), direction) {
                return;
            }
        }
    }
}

/// Returns the time that this number of bytes takes at a rate.
fn span(bytes: usize, a_second: NonZeroU32) -> Duration {
    let nanoseconds = bytes as u128 * 1_000_000_000 / u128::from(a_second.get());
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
}

fn give(mut to: TcpStream, receiver: &Receiver<Piece>, direction: usize, joined: &Joined) {
    while let Ok(Piece { due, bytes }) = receiver.recv() {
        if !joined.wait(due, direction) {
            let _ = to.shutdown(Shutdown::Both);
            return;
        }
        if bytes.is_empty() {
            let _ = to.shutdown(Shutdown::Write);
            return;
        }
        if to.write_all(&bytes).is_err() {
            return joined.reset();
        }
        joined.control.state().counters.bytes += bytes.len() as u64;
    }
    // The sender's end was reset, so reset the receiver's end too.
    let _ = to.shutdown(Shutdown::Both);
}
