//! Where programs are.

use core::net::{IpAddr, SocketAddr};

use leasehold_wire::portmap::protocol;

use crate::Asked;

/// What carries calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Carrier {
    /// Streams: TCP.
    Stream,
    /// Datagrams: UDP.
    Datagram,
}

/// A version of a program, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Binding {
    /// The program's number.
    pub program: u32,
    /// The version.
    pub version: u32,
    /// What carries its calls.
    pub carrier: Carrier,
    /// Where it listens.
    pub address: SocketAddr,
}

/// A network, by the name that version 3 has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Network {
    carrier: Carrier,
    is_v6: bool,
}

impl Network {
    pub(crate) const fn of(carrier: Carrier, host: IpAddr) -> Self {
        Self { carrier, is_v6: host.is_ipv6() }
    }

    /// Its name (RFC 5665 5.1.1).
    pub(crate) const fn name(self) -> &'static str {
        match (self.carrier, self.is_v6) {
            (Carrier::Stream, false) => "tcp",
            (Carrier::Stream, true) => "tcp6",
            (Carrier::Datagram, false) => "udp",
            (Carrier::Datagram, true) => "udp6",
        }
    }

    /// The number by which version 2 knows it.
    pub(crate) const fn number(self) -> u32 {
        match self.carrier {
            Carrier::Stream => protocol::TCP,
            Carrier::Datagram => protocol::UDP,
        }
    }

    /// The same family of addresses, with another number of version 2.
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

    /// Without connections, or with connections that end in order.
    pub(crate) const fn semantics(self) -> u32 {
        match self.carrier {
            Carrier::Datagram => 1,
            Carrier::Stream => 3,
        }
    }
}

impl Asked {
    /// The network that a question came on.
    pub(crate) const fn network(&self) -> Network {
        Network::of(self.carrier, self.to)
    }
}

impl Binding {
    /// The name of the network that it is on, such as `tcp6`.
    #[must_use]
    pub const fn network_name(&self) -> &'static str {
        self.network().name()
    }

    pub(crate) const fn network(&self) -> Network {
        Network::of(self.carrier, self.address.ip())
    }

    /// Whether it listens at this address of this machine, or at all.
    pub(crate) fn is_at(&self, host: IpAddr) -> bool {
        self.address.ip() == host || self.address.ip().is_unspecified()
    }

    /// Whether it is of use to whom reaches this machine by that address: from outside, nothing
    /// on the loopback is.
    pub(crate) fn is_reached_by(&self, host: IpAddr) -> bool {
        host.is_loopback() || !self.address.ip().is_loopback()
    }

    /// Where it is, for whom reaches this machine by that address.
    pub(crate) fn address_by(&self, host: IpAddr) -> SocketAddr {
        let mut address = self.address;
        if address.ip().is_unspecified() && address.is_ipv4() == host.is_ipv4() {
            address.set_ip(host);
        }
        address
    }
}
