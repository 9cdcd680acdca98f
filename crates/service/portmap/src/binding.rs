//! The addresses of programs.

use core::net::{IpAddr, SocketAddr};

use leasehold_wire::portmap::protocol;

use crate::Asked;

/// The transport of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Carrier {
    /// Streams: TCP.
    Stream,
    /// Datagrams: UDP.
    Datagram,
}

/// A version of a program, with its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Binding {
    /// The program's number.
    pub program: u32,
    /// The version.
    pub version: u32,
    /// The transport of its calls.
    pub carrier: Carrier,
    /// The address on which it listens.
    pub address: SocketAddr,
}

/// A transport and an address family, which version 3 calls a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Network {
    carrier: Carrier,
    is_v6: bool,
}

impl Network {
    pub(crate) const fn of(carrier: Carrier, host: IpAddr) -> Self {
        Self { carrier, is_v6: host.is_ipv6() }
    }

    /// Returns its network identifier (RFC 5665 5.1.1).
    pub(crate) const fn name(self) -> &'static str {
        match (self.carrier, self.is_v6) {
            (Carrier::Stream, false) => "tcp",
            (Carrier::Stream, true) => "tcp6",
            (Carrier::Datagram, false) => "udp",
            (Carrier::Datagram, true) => "udp6",
        }
    }

    /// Returns its protocol number in version 2.
    pub(crate) const fn number(self) -> u32 {
        match self.carrier {
            Carrier::Stream => protocol::TCP,
            Carrier::Datagram => protocol::UDP,
        }
    }

    /// Returns the network of the same address family with another protocol number of version 2.
    pub(crate) fn with_number(self, number: u32) -> Option<Self> {
        [Carrier::Stream, Carrier::Datagram]
            .map(|carrier| Self { carrier, ..self })
            .into_iter()
            .find(|network| network.number() == number)
    }

    pub(crate) const fn protocol(self) -> &'static str {
        match self.carrier {
            Carrier::Stream => "tcp",
            Carrier::Datagram => "udp",
        }
    }

    pub(crate) const fn family(self) -> &'static str {
        if self.is_v6 { "inet6" } else { "inet" }
    }

    /// Returns the semantics: connectionless, or connections with orderly release.
    pub(crate) const fn semantics(self) -> u32 {
        match self.carrier {
            Carrier::Datagram => 1,
            Carrier::Stream => 3,
        }
    }
}

impl Asked {
    /// Returns the network of a call.
    pub(crate) const fn network(&self) -> Network {
        Network::of(self.carrier, self.to)
    }
}

impl Binding {
    /// Returns the name of its network, such as `tcp6`.
    #[must_use]
    pub const fn network_name(&self) -> &'static str {
        self.network().name()
    }

    pub(crate) const fn network(&self) -> Network {
        Network::of(self.carrier, self.address.ip())
    }

    /// Returns true if it listens at this address or at all addresses of this machine.
    pub(crate) fn is_at(&self, host: IpAddr) -> bool {
        self.address.ip() == host || self.address.ip().is_unspecified()
    }

    /// Returns true if a caller at this address of the machine can reach it: only loopback
    /// callers can reach a loopback address.
    pub(crate) fn is_reached_by(&self, host: IpAddr) -> bool {
        host.is_loopback() || !self.address.ip().is_loopback()
    }

    /// Returns its address for a caller at this address of the machine.
    pub(crate) fn address_by(&self, host: IpAddr) -> SocketAddr {
        let mut address = self.address;
        if address.ip().is_unspecified() && address.is_ipv4() == host.is_ipv4() {
            address.set_ip(host);
        }
        address
    }
}
