//! Client sockets.

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

use crate::limits::{KEEPALIVE, USER_TIMEOUT};

/// The source port of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourcePort {
    /// Any port that the system selects.
    Any,
    /// A privileged port if this process may use one, else any port. Many servers trust the
    /// credential of a call only from such a port.
    #[default]
    PrivilegedIfPossible,
}

/// The privileged ports that a client uses, which exclude the ports of most well-known services.
const PRIVILEGED: core::ops::RangeInclusive<u16> = 600..=1023;

impl SourcePort {
    /// Calls `attempt` with the port to bind to, or `None` for any port. If a port is in use, tries
    /// the next one.
    ///
    /// # Errors
    /// Returns the error of the last attempt.
    pub fn open<T>(self, attempt: impl Fn(Option<u16>) -> Result<T, Errno>) -> Result<T, Errno> {
        if self == Self::PrivilegedIfPossible {
            // The first port depends on the process id, so that concurrent clients try different
            // ports first.
            let first = usize::try_from(rustix::process::getpid().as_raw_pid()).unwrap_or(0);
            let first = first % PRIVILEGED.len();
            for port in PRIVILEGED.chain(PRIVILEGED).skip(first).take(PRIVILEGED.len()) {
                match attempt(Some(port)) {
                    Err(Errno::ADDRINUSE | Errno::ADDRNOTAVAIL) => {}
                    Err(Errno::ACCESS) => break,
                    done => return done,
                }
            }
        }
        attempt(None)
    }
}

/// Starts to connect a stream, from the port of an earlier connection if there was one: the
/// duplicate request cache of many servers recognises a retransmission only from the same port.
pub(super) fn connect_stream(
    to: SocketAddr,
    source: SourcePort,
    last_port: Option<u16>,
) -> Result<OwnedFd, Errno> {
    let attempt = |port: Option<u16>| {
        let socket = open(SocketType::STREAM, to)?;
        if let Some(port) = port {
            // With this option a former connection in TIME_WAIT does not block the port.
            sockopt::set_socket_reuseaddr(&socket, true)?;
            net::bind(&socket, &any_address(to, port))?;
        }
        prepare(&socket);
        end_at_once(&socket);
        match net::connect(&socket, &to) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
            Err(error) => Err(error),
        }
    };
    if let Some(port) = last_port
        && let Ok(socket) = attempt(Some(port))
    {
        return Ok(socket);
    }
    source.open(attempt)
}

/// Opens a datagram socket for one server.
pub(super) fn open_datagrams(to: SocketAddr, source: SourcePort) -> Result<OwnedFd, Errno> {
    source.open(|port| {
        let socket = open(SocketType::DGRAM, to)?;
        if let Some(port) = port {
            net::bind(&socket, &any_address(to, port))?;
        }
        net::connect(&socket, &to)?;
        Ok(socket)
    })
}

/// Returns the local port of a socket.
pub(super) fn port_of(socket: &OwnedFd) -> Option<u16> {
    let address: SocketAddr = net::getsockname(socket).ok()?.try_into().ok()?;
    Some(address.port())
}

/// Makes a close of the socket abort the connection, also at the end of this process. The port is
/// then reusable at once. Unsent data is discarded, so it cannot arrive after a retransmission of
/// the same call by a later connection or another process.
fn end_at_once(socket: &OwnedFd) {
    let _ = sockopt::set_socket_linger(socket, Some(core::time::Duration::ZERO));
}

/// Sets options of a stream socket. The results are ignored: without one of these options the
/// connection is only slower, or a dead server is detected later.
fn prepare(socket: &OwnedFd) {
    let (idle, interval, count) = KEEPALIVE;
    let _ = sockopt::set_tcp_nodelay(socket, true);
    let _ = sockopt::set_socket_keepalive(socket, true);
    let _ = sockopt::set_tcp_keepidle(socket, idle);
    let _ = sockopt::set_tcp_keepintvl(socket, interval);
    let _ = sockopt::set_tcp_keepcnt(socket, count);
    let user_timeout = u32::try_from(USER_TIMEOUT.as_millis()).expect("less than 49 days");
    let _ = sockopt::set_tcp_user_timeout(socket, user_timeout);
}

fn open(kind: SocketType, to: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    net::socket_with(family, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}

fn any_address(like: SocketAddr, port: u16) -> SocketAddr {
    match like {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, port).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, port).into(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read as _};
    use std::net::TcpListener;

    use super::*;

    /// A close must discard unsent data. The kernel closes the sockets of a killed process in the
    /// same way.
    #[test]
    fn close_discards_unsent_data() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port left");
        // The accepted socket inherits the size of this small receive buffer.
        sockopt::set_socket_recv_buffer_size(&listener, 64 << 10).expect("it is a size");
        let at = listener.local_addr().expect("it has one");
        let ours = connect_stream(at, SourcePort::Any, None).expect("it listens");
        let (mut theirs, _) = listener.accept().expect("it connected");
        let mut room = vec![7; 1 << 20];
        let mut given = 0;
        loop {
            match rustix::io::write(&ours, &room) {
                Ok(count) => given += count,
                Err(Errno::AGAIN) => break,
                Err(error) => panic!("{error}"),
            }
        }
        drop(ours);
        let mut come = 0;
        let end = loop {
            match theirs.read(&mut room) {
                Ok(0) => break None,
                Ok(count) => come += count,
                Err(error) => break Some(error.kind()),
            }
        };
        assert_eq!(end, Some(ErrorKind::ConnectionReset));
        assert!(come < given, "{come} of {given} bytes came");
    }
}
