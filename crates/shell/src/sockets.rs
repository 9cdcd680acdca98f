//! The sockets of a served address.

use core::net::SocketAddr;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;

use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

use crate::inherited_sockets::{InheritedSockets, Purpose};
use crate::limits::DATAGRAM_BACKLOG_BYTES;
use crate::sys;

/// The maximum number of connections that wait in the kernel to be accepted.
const BACKLOG: i32 = 4096;

/// The maximum number of attempts to find a port that is free for both streams and datagrams.
const PICKS_MAX: usize = 32;

/// The sockets of one address: a stream listener, and a datagram socket on the same port if the
/// server answers datagrams.
#[derive(Debug)]
pub(crate) struct Sockets {
    pub(crate) listener: OwnedFd,
    pub(crate) datagrams: Option<OwnedFd>,
    pub(crate) address: SocketAddr,
}

impl Sockets {
    /// Binds an address, or uses inherited sockets for the address. With port 0 selects a port that
    /// is free for both streams and datagrams.
    pub(crate) fn bind(
        purpose: Purpose,
        address: SocketAddr,
        with_datagrams: bool,
        given: &mut InheritedSockets,
    ) -> io::Result<Self> {
        if let Some(listener) = given.listener(purpose, address) {
            return Self::go_on_with(purpose, listener, with_datagrams, given);
        }
        let mut picks = 0;
        loop {
            let listener = open(SocketType::STREAM, address)?;
            // With this option connections of a stopped server in TIME_WAIT do not block the port.
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

    /// Continues with a listening socket, and with its datagram socket if there is one.
    fn go_on_with(
        purpose: Purpose,
        listener: OwnedFd,
        with_datagrams: bool,
        given: &mut InheritedSockets,
    ) -> io::Result<Self> {
        let address: SocketAddr = net::getsockname(&listener)?.try_into()?;
        rustix::io::ioctl_fionbio(&listener, true)?;
        net::listen(&listener, BACKLOG)?;
        // A server without datagrams does not take the inherited datagram socket, which is closed
        // later with a warning.
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
    // The result is ignored: with a smaller buffer the kernel only drops more datagrams under load,
    // and clients retransmit their calls.
    let _ = sockopt::set_socket_recv_buffer_size(socket, DATAGRAM_BACKLOG_BYTES);
    Ok(())
}

fn open(kind: SocketType, address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(family, kind, flags, None)?;
    if address.is_ipv6() {
        // A socket accepts its own address family only, so that a server can bind the wildcard
        // addresses of both families.
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    Ok(socket)
}
