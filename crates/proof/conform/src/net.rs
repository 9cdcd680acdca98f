//! Sockets for the cases: they can send any bytes, and see every raw reply.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use leasehold_base::limits::DATAGRAM_BYTES_MAX;
use leasehold_wire::record::{self, Next, Splitter};
use rustix::net::{AddressFamily, SocketType, sockopt};

use crate::talk::{Carrier, Side, Talk};

/// The timeout of a connection attempt.
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// The pause before another attempt to use a port that another connection has.
const PORT_PAUSE: Duration = Duration::from_millis(50);

/// The privileged ports without the ports of known services.
const RESERVED_PORTS: std::ops::RangeInclusive<u16> = 600..=1023;

/// The client's port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Any port that the system chooses.
    Any,
    /// A privileged port, below 1024.
    Reserved,
    /// This port, or, if it is zero, one that can be used again at once.
    Port(u16),
}

/// The result of a wait for a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Got {
    /// A message.
    Message(Bytes),
    /// No message within the timeout.
    Silence,
    /// The server has closed the connection.
    Closed,
    /// Bytes that are no message.
    Nonsense(String),
}

/// A connection.
pub(crate) struct Stream {
    socket: TcpStream,
    received: BytesMut,
    splitter: Splitter,
    side: Side,
    talk: Talk,
}

impl Stream {
    pub(crate) fn connect(to: SocketAddr, from: Source, talk: &Talk) -> io::Result<Self> {
        let socket = match from {
            Source::Any => TcpStream::connect_timeout(&to, CONNECT_TIME)?,
            Source::Port(port) => connect_again_from(to, port)?,
            Source::Reserved => from_reserved(|port| connect_from(to, port))?,
        };
        socket.set_nodelay(true)?;
        socket.set_write_timeout(Some(CONNECT_TIME))?;
        let local = socket.local_addr()?;
        let side = Side { carrier: Carrier::Tcp, local, server: to };
        let (received, splitter) = (BytesMut::new(), Splitter::default());
        Ok(Self { socket, received, splitter, side, talk: talk.clone() })
    }

    pub(crate) fn port(&self) -> u16 {
        self.side.local.port()
    }

    /// Sends a message as one record in one fragment.
    pub(crate) fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.talk.sent(self.side, message);
        self.write(&[&record::mark(message.len()), message].concat())
    }

    /// Sends a message as one record in fragments of these lengths, and the rest in a last one.
    pub(crate) fn send_in_fragments(
        &mut self,
        message: &[u8],
        lengths: &[usize],
    ) -> io::Result<()> {
        self.talk.sent(self.side, message);
        let (mut bytes, mut rest) = (Vec::new(), message);
        for length in lengths {
            let (fragment, after) = rest.split_at(*length);
            // A mark without its highest bit announces more fragments.
            let mut mark = record::mark(fragment.len());
            mark[0] &= 0x7f;
            bytes.extend_from_slice(&mark);
            bytes.extend_from_slice(fragment);
            rest = after;
        }
        bytes.extend_from_slice(&record::mark(rest.len()));
        bytes.extend_from_slice(rest);
        self.write(&bytes)
    }

    /// Sends raw bytes, including record marks.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.talk.sent_bytes(self.side, bytes);
        self.write(bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.write_all(bytes)
    }

    /// Waits for the next record.
    pub(crate) fn receive(&mut self, patience: Duration) -> Got {
        let end = Instant::now() + patience;
        loop {
            match self.splitter.next(&mut self.received) {
                Ok(Next::Record(message)) => {
                    self.talk.received(self.side, &message);
                    return Got::Message(message);
                }
                Ok(Next::Need(_)) => {}
                Err(error) => return Got::Nonsense(error.to_string()),
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Got::Silence;
            }
            let mut chunk = [0; 64 << 10];
            let read = self
                .socket
                .set_read_timeout(Some(left))
                .and_then(|()| self.socket.read(&mut chunk));
            match read {
                Ok(0) => return self.closed("closed"),
                Ok(length) => self.received.extend_from_slice(&chunk[..length]),
                Err(error) if is_timeout(&error) => {}
                Err(_) => return self.closed("reset"),
            }
        }
    }

    fn closed(&self, how: &str) -> Got {
        self.talk.note(self.side, &format!("the server {how} the connection"));
        Got::Closed
    }

    /// Ends the connection at once, so that its port can be used again.
    pub(crate) fn abort(self) {
        self.talk.note(self.side, "the tester resets the connection");
        // If the socket is broken already, no reset is needed.
        let _ = sockopt::set_socket_linger(&self.socket, Some(Duration::ZERO));
    }

    /// Announces the end of the data.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.talk.note(self.side, "the tester ends its data");
        self.socket.shutdown(std::net::Shutdown::Write)
    }
}

/// A socket for datagrams to one server.
pub(crate) struct Datagrams {
    socket: UdpSocket,
    side: Side,
    talk: Talk,
}

impl Datagrams {
    pub(crate) fn open(to: SocketAddr, from: Source, talk: &Talk) -> io::Result<Self> {
        let bind = |port| UdpSocket::bind(any_address(to, port));
        let socket = match from {
            Source::Any => bind(0)?,
            Source::Port(port) => bind(port)?,
            Source::Reserved => from_reserved(bind)?,
        };
        socket.connect(to)?;
        let side = Side { carrier: Carrier::Udp, local: socket.local_addr()?, server: to };
        Ok(Self { socket, side, talk: talk.clone() })
    }

    pub(crate) fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.talk.sent(self.side, message);
        self.socket.send(message).map(|_| ())
    }

    /// Waits for the next datagram.
    pub(crate) fn receive(&mut self, patience: Duration) -> Got {
        let end = Instant::now() + patience;
        let mut datagram = vec![0; DATAGRAM_BYTES_MAX];
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Got::Silence;
            }
            let read = self
                .socket
                .set_read_timeout(Some(left))
                .and_then(|()| self.socket.recv(&mut datagram));
            match read {
                Ok(length) => {
                    datagram.truncate(length);
                    let message = Bytes::from(datagram);
                    self.talk.received(self.side, &message);
                    return Got::Message(message);
                }
                Err(error) if is_timeout(&error) => {}
                // An ICMP message reports that no program listens.
                Err(_) => return Got::Closed,
            }
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

fn any_address(like: SocketAddr, port: u16) -> SocketAddr {
    match like {
        SocketAddr::V4(_) => (std::net::Ipv4Addr::UNSPECIFIED, port).into(),
        SocketAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, port).into(),
    }
}

/// Connects from a port; if another connection still has the port, retries a little later.
fn connect_again_from(to: SocketAddr, port: u16) -> io::Result<TcpStream> {
    let end = Instant::now() + CONNECT_TIME;
    loop {
        match connect_from(to, port) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < end => {
                std::thread::sleep(PORT_PAUSE);
            }
            done => return done,
        }
    }
}

fn connect_from(to: SocketAddr, port: u16) -> io::Result<TcpStream> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = rustix::net::socket(family, SocketType::STREAM, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &any_address(to, port))?;
    rustix::net::connect(&socket, &to)?;
    Ok(socket.into())
}

fn from_reserved<T>(open: impl Fn(u16) -> io::Result<T>) -> io::Result<T> {
    let mut last = io::Error::from(ErrorKind::AddrInUse);
    for port in RESERVED_PORTS.rev() {
        match open(port) {
            Ok(socket) => return Ok(socket),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return Err(error),
            Err(error) => last = error,
        }
    }
    Err(last)
}
