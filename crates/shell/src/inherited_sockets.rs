//! Sockets that the process inherited at its start: from systemd, or from the previous program of
//! this server.
//!
//! A restart by [`go_on_as`] executes another program in the same process. The sockets of the
//! process never close meanwhile: new connections and datagrams wait in the sockets until the new
//! program serves them.

use core::net::SocketAddr;
use core::str::FromStr;
use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{self, Command};
use std::{env, fmt};

use rustix::io::FdFlags;
use rustix::net::{SocketType, getsockname, sockopt};

use crate::ownership::Ownership;
use crate::sys;

/// The environment variable with the process for which systemd passes sockets. The following
/// constants are the variables with the number and the names of the sockets; the first descriptor
/// is 3.
const PID: &str = "LISTEN_PID";
const COUNT: &str = "LISTEN_FDS";
const NAMES: &str = "LISTEN_FDNAMES";
const FIRST: i32 = 3;

/// The environment variable by which a server passes sockets to the next program:
/// `PID:NUMBER=PURPOSE,...`. Each number is an existing descriptor of the process. The descriptors
/// are not renumbered, because a new number could replace a descriptor that a thread still uses.
const HANDED_OVER: &str = "LEASEHOLD_SOCKETS";

/// The maximum number of inherited sockets, which exceeds the need of any server. It bounds the
/// loop over a number from the environment.
const COUNT_MAX: i32 = 1024;

/// The service at a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// File service.
    Nfs,
    /// The portmapper.
    Portmap,
    /// The live view.
    Http,
}

impl FromStr for Purpose {
    type Err = ();

    /// Parses the name that systemd gives a socket; any unknown name means file service.
    fn from_str(name: &str) -> Result<Self, ()> {
        match name {
            "portmap" => Ok(Self::Portmap),
            "http" => Ok(Self::Http),
            _ => Ok(Self::Nfs),
        }
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nfs => "nfs",
            Self::Portmap => "portmap",
            Self::Http => "http",
        })
    }
}

/// The inherited sockets of the process.
#[derive(Debug, Default)]
pub struct InheritedSockets {
    sockets: Vec<Socket>,
    is_handed_over: bool,
}

#[derive(Debug)]
struct Socket {
    descriptor: OwnedFd,
    purpose: Purpose,
    kind: SocketType,
    address: SocketAddr,
}

impl InheritedSockets {
    /// Takes the inherited sockets. A program calls this function once, before it opens any file.
    ///
    /// # Errors
    /// The server cannot use one of the sockets.
    pub fn take() -> io::Result<Self> {
        let text = |name: &str| env::var(name).ok();
        let own = process::id();
        if let Some(numbers) = text(HANDED_OVER).and_then(|text| handed_over(&text, own)) {
            return Self::of(numbers, true);
        }
        let is_ours = text(PID).and_then(|pid| pid.parse().ok()) == Some(own);
        let count = text(COUNT).filter(|_| is_ours).and_then(|count| count.parse().ok());
        let names = text(NAMES).unwrap_or_default();
        let names = names.split(':').chain(core::iter::repeat(""));
        let numbers = (FIRST..FIRST + count.unwrap_or(0).clamp(0, COUNT_MAX)).zip(names);
        Self::of(numbers.filter_map(|(number, name)| Some((number, name.parse().ok()?))), false)
    }

    fn of(
        numbers: impl IntoIterator<Item = (i32, Purpose)>,
        is_handed_over: bool,
    ) -> io::Result<Self> {
        let mut sockets = Vec::new();
        for (number, purpose) in numbers {
            let descriptor = sys::inherited(number)?;
            rustix::io::fcntl_setfd(&descriptor, FdFlags::CLOEXEC)?;
            sockets.push(Socket::new(descriptor, purpose)?);
        }
        Ok(Self { sockets, is_handed_over })
    }

    /// Returns true if the sockets come from the previous program of this server. Clients of that
    /// program then wait for this program.
    #[must_use]
    pub fn is_handed_over(&self) -> bool {
        self.is_handed_over
    }

    /// Returns the addresses of the listening sockets for a purpose.
    #[must_use]
    pub fn addresses(&self, purpose: Purpose) -> Vec<SocketAddr> {
        let listen = |one: &&Socket| one.purpose == purpose && one.kind == SocketType::STREAM;
        self.sockets.iter().filter(listen).map(|one| one.address).collect()
    }

    /// Removes and returns the listening socket at an address. Port 0 matches any port of the
    /// address.
    pub fn listener(&mut self, purpose: Purpose, asked: SocketAddr) -> Option<OwnedFd> {
        self.find(purpose, SocketType::STREAM, asked)
    }

    /// Removes and returns the datagram socket at an address.
    pub(crate) fn datagrams(&mut self, purpose: Purpose, asked: SocketAddr) -> Option<OwnedFd> {
        self.find(purpose, SocketType::DGRAM, asked)
    }

    fn find(&mut self, purpose: Purpose, kind: SocketType, asked: SocketAddr) -> Option<OwnedFd> {
        let at = self.sockets.iter().position(|one| {
            let is_there = one.address.port() == asked.port() || asked.port() == 0;
            (one.purpose, one.kind, one.address.ip()) == (purpose, kind, asked.ip()) && is_there
        })?;
        Some(self.sockets.remove(at).descriptor)
    }
}

impl Drop for InheritedSockets {
    /// Closes unused sockets, with a warning.
    fn drop(&mut self) {
        for Socket { address, purpose, .. } in &self.sockets {
            tracing::warn!(%address, %purpose, "closed an inherited socket that no service uses");
        }
    }
}

impl Socket {
    fn new(descriptor: OwnedFd, purpose: Purpose) -> io::Result<Self> {
        let number = descriptor.as_raw_fd();
        let refused = |what: &str| {
            io::Error::new(ErrorKind::InvalidInput, format!("the given descriptor {number} {what}"))
        };
        let kind = sockopt::socket_type(&descriptor).map_err(|_| refused("is no socket"))?;
        let address =
            getsockname(&descriptor).ok().and_then(|name| SocketAddr::try_from(name).ok());
        let address = address.ok_or_else(|| refused("has no IPv4 or IPv6 address"))?;
        if kind == SocketType::STREAM && !sockopt::socket_acceptconn(&descriptor)? {
            return Err(refused("is a connection: set Accept=no to receive the listening socket"));
        }
        if address.is_ipv6() && !sockopt::ipv6_v6only(&descriptor)? {
            let what = "accepts IPv4 as well: pass one for each, with BindIPv6Only=ipv6-only";
            return Err(refused(what));
        }
        Ok(Self { descriptor, purpose, kind, address })
    }
}

/// Parses the list of sockets from the previous program; `None` if the list is for another process.
fn handed_over(text: &str, own: u32) -> Option<Vec<(i32, Purpose)>> {
    let (pid, list) = text.split_once(':')?;
    if pid.parse() != Ok(own) {
        return None;
    }
    let one = |one: &str| {
        let (number, purpose) = one.split_once('=')?;
        Some((number.parse().ok()?, purpose.parse().ok()?))
    };
    list.split(',').filter(|one| !one.is_empty()).map(one).collect()
}

/// Replaces this program by another program with the same arguments, in the same process, and with
/// these sockets and the lock of the state directory. Every other thread of the process ends.
/// Signals that request a reload or a restart during the replacement are ignored, because the
/// restart itself satisfies them.
///
/// Returns only if the replacement fails.
#[must_use]
pub fn go_on_as(program: &OsStr, sockets: &[(Purpose, OwnedFd)], state: &Ownership) -> io::Error {
    let (lock, number) = match state.hand_over() {
        Ok(told) => told,
        Err(error) => return error,
    };
    let mut list = Vec::new();
    for (purpose, socket) in sockets {
        if let Err(error) = rustix::io::fcntl_setfd(socket, FdFlags::empty()) {
            return error.into();
        }
        list.push(format!("{}={purpose}", socket.as_raw_fd()));
    }
    sys::ignore_restart_signals();
    let mut command = Command::new(program);
    command.args(env::args_os().skip(1));
    for name in [PID, COUNT, NAMES] {
        command.env_remove(name);
    }
    command.env(lock, number);
    command.env(HANDED_OVER, format!("{}:{}", process::id(), list.join(","))).exec()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use super::*;

    #[test]
    fn sockets_for_another_process_are_ignored() {
        assert_eq!(handed_over("7:4=nfs", 8), None);
        assert_eq!(handed_over("", 8), None);
        assert_eq!(handed_over("8:", 8), Some(vec![]));
        assert_eq!(
            handed_over("8:4=nfs,9=http,10=portmap", 8),
            Some(vec![(4, Purpose::Nfs), (9, Purpose::Http), (10, Purpose::Portmap)])
        );
        for wrong in ["8:4", "8:x=nfs", "8:4=nfs,,x"] {
            assert_eq!(handed_over(wrong, 8), None, "{wrong}");
        }
    }

    #[test]
    fn sockets_are_found_by_purpose_and_address() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let socket = |purpose| Socket::new(listener.try_clone().expect("room").into(), purpose);
        let mut given = InheritedSockets {
            sockets: vec![socket(Purpose::Http).expect("it listens")],
            is_handed_over: true,
        };
        assert_eq!(given.addresses(Purpose::Http), [address]);
        assert!(given.addresses(Purpose::Nfs).is_empty());
        assert!(given.listener(Purpose::Nfs, address).is_none());
        assert!(given.datagrams(Purpose::Http, address).is_none());
        let any_port = |ip: [u8; 4]| SocketAddr::from((ip, 0));
        assert!(given.listener(Purpose::Http, any_port([127, 0, 0, 2])).is_none());
        assert!(given.listener(Purpose::Http, any_port([127, 0, 0, 1])).is_some());
        assert!(given.listener(Purpose::Http, address).is_none(), "each socket is returned once");
    }

    #[test]
    fn unusable_sockets_are_rejected() {
        let file = std::fs::File::open("/dev/null").expect("is there");
        let error = Socket::new(file.into(), Purpose::Nfs).expect_err("is no socket");
        assert!(error.to_string().ends_with("is no socket"), "{error}");
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        assert!(Socket::new(socket.into(), Purpose::Nfs).is_ok());
        let Ok(both) = TcpListener::bind("[::]:0") else { return };
        let error = Socket::new(both.into(), Purpose::Nfs).expect_err("takes both families");
        assert!(error.to_string().contains("BindIPv6Only"), "{error}");
    }
}
