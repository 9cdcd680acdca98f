//! The sockets of an address that is served on.

use core::net::SocketAddr;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;

use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

use crate::given::{Given, Purpose};
use crate::limits::DATAGRAM_BACKLOG_BYTES;
use crate::sys;

/// How many connections the kernel keeps ready to be accepted.
const BACKLOG: i32 = 4096;

/// How often a port that the system picks for streams may be taken for datagrams.
const PICKS_MAX: usize = 32;

/// The sockets of one address: streams, and datagrams on the same port if the server answers
/// datagrams.
#[derive(Debug)]
pub(crate) struct Sockets {
    pub(crate) listener: OwnedFd,
    pub(crate) datagrams: Option<OwnedFd>,
    pub(crate) address: SocketAddr,
}

impl Sockets {
    /// Takes an address: what was given for it, or with port 0 one that is free for both.
    pub(crate) fn bind(
        purpose: Purpose,
        address: SocketAddr,
        with_datagrams: bool,
        given: &mut Given,
    ) -> io::Result<Self> {
        if let Some(listener) = given.listener(purpose, address) {
            return Self::go_on_with(purpose, listener, with_datagrams, given);
        }
        let mut picks = 0;
        loop {
            let listener = open(SocketType::STREAM, address)?;
            // A server that was just stopped leaves connections behind that fade; no harm.
            sockopt::set_socket_reuseaddr(&listener, true)?;
            net::bind(&listener, &address)?;
            net::listen(&listener, BACKLOG)?;
            let bound: SocketAddr = net::getsockname(&listener)?.try_into()?;
            picks += 1;
            if !with_datagrams {
                return Ok(Self { listener, datagrams: None, address: bound });
            }
            match bind_datagrams(bound) {
                Ok(datagrams) => {
                    return Ok(Self { listener, datagrams: Some(datagrams), address: bound });
                }
                Err(error)
                    if address.port() == 0
                        && error.kind() == ErrorKind::AddrInUse
                        && picks < PICKS_MAX => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Goes on with a socket that listens already, and that for datagrams beside it if there is one.
    fn go_on_with(
        purpose: Purpose,
        listener: OwnedFd,
        with_datagrams: bool,
        given: &mut Given,
    ) -> io::Result<Self> {
        let address: SocketAddr = net::getsockname(&listener)?.try_into()?;
        rustix::io::ioctl_fionbio(&listener, true)?;
        net::listen(&listener, BACKLOG)?;
        // The server closes a given socket that it does not want any more.
        let datagrams = match given.datagrams(purpose, address) {
            _ if !with_datagrams => None,
            Some(socket) => {
                rustix::io::ioctl_fionbio(&socket, true)?;
                prepare_datagrams(&socket, address)?;
                Some(socket)
            }
            None => Some(bind_datagrams(address)?),
        };
        Ok(Self { listener, datagrams, address })
    }
}

fn bind_datagrams(address: SocketAddr) -> io::Result<OwnedFd> {
    let socket = open(SocketType::DGRAM, address)?;
    prepare_datagrams(&socket, address)?;
    net::bind(&socket, &address)?;
    Ok(socket)
}

fn prepare_datagrams(socket: &OwnedFd, address: SocketAddr) -> io::Result<()> {
    sys::tell_local_address(socket, address.ip())?;
    // What cannot be had of it costs replies under load, and clients ask again.
    let _ = sockopt::set_socket_recv_buffer_size(socket, DATAGRAM_BACKLOG_BYTES);
    Ok(())
}

fn open(kind: SocketType, address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(family, kind, flags, None)?;
    if address.is_ipv6() {
        // Each address serves its own family, so that both wildcards can be served on.
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    Ok(socket)
}
