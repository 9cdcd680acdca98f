//! The sockets that a client speaks from.

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

use crate::limits::{KEEPALIVE, USER_TIMEOUT};

/// The port that a client speaks from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourcePort {
    /// Whichever the system picks.
    Any,
    /// One that takes privilege where this process has it, else any. Many servers believe a
    /// client's word about its user only from there.
    #[default]
    PrivilegedIfPossible,
}

/// Ports that take privilege, without those of known services.
const PRIVILEGED: core::ops::RangeInclusive<u16> = 600..=1023;

impl SourcePort {
    /// Opens something on a port of this kind: `attempt` is given the port to bind to, or none for
    /// any. One that is taken makes room for the next.
    ///
    /// # Errors
    /// The attempt's own, for the last port.
    pub fn open<T>(self, attempt: impl Fn(Option<u16>) -> Result<T, Errno>) -> Result<T, Errno> {
        if self == Self::PrivilegedIfPossible {
            // Clients that start together begin at different places.
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

/// Begins to connect a stream. It speaks from the port that an earlier connection had, where there
/// was one: many servers know a call that is sent again only from there.
pub(super) fn connect_stream(
    to: SocketAddr,
    source: SourcePort,
    last_port: Option<u16>,
) -> Result<OwnedFd, Errno> {
    let attempt = |port: Option<u16>| {
        let socket = open(SocketType::STREAM, to)?;
        if let Some(port) = port {
            // What faded away on that port is no hindrance.
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

/// A socket for datagrams to one server.
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

/// The port that a socket speaks from.
pub(super) fn port_of(socket: &OwnedFd) -> Option<u16> {
    let address: SocketAddr = net::getsockname(socket).ok()?.try_into().ok()?;
    Some(address.port())
}

/// Has a connection end at once when it is closed, also by the end of this process, so that its port
/// can be used again, and so that what the system has not sent by then never comes after what is sent
/// instead, be it by another process.
fn end_at_once(socket: &OwnedFd) {
    let _ = sockopt::set_socket_linger(socket, Some(core::time::Duration::ZERO));
}

/// Options that fail cost speed or a late discovery, never correctness.
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

    /// A process that is killed closes its sockets, and no more.
    #[test]
    fn what_is_not_sent_when_a_connection_is_closed_is_never_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port left");
        // Whoever is accepted has the same.
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
