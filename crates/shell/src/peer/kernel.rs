//! Queries the kernel for the owner of a socket (netlink, `sock_diag`).

use core::net::{IpAddr, SocketAddr};
use std::io::{self, ErrorKind};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;

use leasehold_serve::Transport;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, netlink};
use rustix::net::{RecvFlags, SendFlags, recv, send, socket_with};

/// The connection to the kernel's socket diagnostics.
#[derive(Debug)]
pub(super) struct Kernel {
    socket: OwnedFd,
    /// The sequence number of the latest query.
    asked: u32,
}

impl Kernel {
    /// Opens the connection, and checks that the kernel answers.
    pub(super) fn open() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let protocol = Some(netlink::SOCK_DIAG);
        let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, protocol)?;
        let mut kernel = Self { socket, asked: 0 };
        let nobody = SocketAddr::from(([127, 0, 0, 1], 0));
        let stream = TcpListener::bind(nobody)?;
        let datagram = UdpSocket::bind(nobody)?;
        let known = [
            kernel.owner(Transport::Stream, stream.local_addr()?, nobody),
            kernel.owner(Transport::Datagram, datagram.local_addr()?, nobody),
        ];
        if known == [Some(rustix::process::geteuid().as_raw()); 2] {
            return Ok(kernel);
        }
        Err(io::Error::new(ErrorKind::Unsupported, "the kernel does not report its own sockets"))
    }

    /// Returns the user that owns the socket at `from` with the peer `to`.
    pub(super) fn owner(
        &mut self,
        transport: Transport,
        from: SocketAddr,
        to: SocketAddr,
    ) -> Option<u32> {
        self.asked = self.asked.wrapping_add(1);
        let question = question(self.asked, transport, from, to)?;
        send(&self.socket, &question, SendFlags::empty()).ok()?;
        let mut answer = [0; 512];
        loop {
            match recv(&self.socket, &mut answer, RecvFlags::empty()) {
                // The answer belongs to an earlier query whose wait timed out, so it is skipped.
                Ok((count, _)) if number(answer.get(..count)?) != Some(self.asked) => {}
                Ok((count, _)) => return read_owner(answer.get(..count)?, from.port()),
                Err(Errno::INTR) => {}
                Err(_) => return None,
            }
        }
    }
}

// Constants of the kernel, from `linux/netlink.h`, `linux/sock_diag.h` and `linux/inet_diag.h`.
const HEADER_BYTES: usize = 16;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const QUESTION_BYTES: usize = HEADER_BYTES + 56;
const NO_COOKIE: [u8; 8] = [0xff; 8];
const TCP: u8 = 6;
const UDP: u8 = 17;
const TIME_WAIT: u8 = 6;

/// Builds the query for the one local socket with the address `from`.
fn question(
    number: u32,
    transport: Transport,
    from: SocketAddr,
    to: SocketAddr,
) -> Option<Vec<u8>> {
    // The lookup of a datagram socket returns the receiver of datagrams from `source` to
    // `destination`; the lookup of a stream returns the socket with that local and peer address.
    let (protocol, source, destination) = match transport {
        Transport::Stream => (TCP, from, to),
        Transport::Datagram => (UDP, to, from),
    };
    let family = match (from, to) {
        (SocketAddr::V4(_), SocketAddr::V4(_)) => AddressFamily::INET,
        (SocketAddr::V6(_), SocketAddr::V6(_)) => AddressFamily::INET6,
        (SocketAddr::V4(_), SocketAddr::V6(_)) | (SocketAddr::V6(_), SocketAddr::V4(_)) => {
            return None;
        }
    };
    let mut question = Vec::with_capacity(QUESTION_BYTES);
    question.extend(u32::try_from(QUESTION_BYTES).ok()?.to_ne_bytes());
    question.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    question.extend(NLM_F_REQUEST.to_ne_bytes());
    question.extend(number.to_ne_bytes());
    question.extend([0; 4]);
    question.extend([u8::try_from(family.as_raw()).ok()?, protocol, 0, 0]);
    // The query matches sockets in any connection state.
    question.extend(u32::MAX.to_ne_bytes());
    question.extend(source.port().to_be_bytes());
    question.extend(destination.port().to_be_bytes());
    question.extend(address_bytes(source.ip()));
    question.extend(address_bytes(destination.ip()));
    question.extend(interface(from).to_ne_bytes());
    question.extend(NO_COOKIE);
    Some(question)
}

fn address_bytes(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&address.octets());
            bytes
        }
        IpAddr::V6(address) => address.octets(),
    }
}

/// Returns the interface of a link-local address.
fn interface(address: SocketAddr) -> u32 {
    match address {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(address) => address.scope_id(),
    }
}

/// Returns the sequence number of an answer.
fn number(answer: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(*answer.get(8..)?.first_chunk()?))
}

/// Reads the owner from the kernel's answer. Returns `None` if the owner is not certain.
///
/// The kernel reports root as the owner of a socket that no program has open. Such an answer must
/// not count as root: otherwise a user could act as root by sending a call and closing the socket.
fn read_owner(answer: &[u8], port: u16) -> Option<u32> {
    let kind = u16::from_ne_bytes(*answer.get(4..)?.first_chunk()?);
    if kind != SOCK_DIAG_BY_FAMILY {
        return None;
    }
    let socket = answer.get(HEADER_BYTES..)?;
    let word = |at: usize| Some(u32::from_ne_bytes(*socket.get(at..)?.first_chunk()?));
    let state = *socket.get(1)?;
    let own_port = u16::from_be_bytes(*socket.get(4..)?.first_chunk()?);
    let (uid, inode) = (word(64)?, word(68)?);
    (own_port == port && state != TIME_WAIT && inode != 0).then_some(uid)
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    /// The answer to a query whose wait timed out arrives before the answer to the next query.
    #[test]
    fn stale_answer_is_skipped() {
        let mut kernel = Kernel::open().expect("answers");
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a loopback");
        let to = listener.local_addr().expect("is bound");
        let client = TcpStream::connect(to).expect("somebody listens");
        let from = client.local_addr().expect("is bound");
        let stale = question(77, Transport::Stream, to, from).expect("of one family");
        send(&kernel.socket, &stale, SendFlags::empty()).expect("is taken");
        let owner = Some(rustix::process::geteuid().as_raw());
        assert_eq!(kernel.owner(Transport::Stream, from, to), owner);
    }

    #[test]
    fn malformed_answers_prove_nothing() {
        for length in 0..100 {
            assert_eq!(read_owner(&vec![0; length], 0), None);
            let mut answer = vec![0; length];
            if let Some(kind) = answer.get_mut(4..6) {
                kind.copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
            }
            assert_eq!(read_owner(&answer, 0), None, "{length} bytes without an inode");
        }
    }
}
