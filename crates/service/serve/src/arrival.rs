//! How a message came in.

use core::net::SocketAddr;

use leasehold_base::units::Time;

/// What carries messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// A stream with record marks (TCP).
    Stream,
    /// Datagrams (UDP).
    Datagram,
}

/// How a message came in.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Who sent it.
    pub from: SocketAddr,
    /// What carried it.
    pub transport: Transport,
    /// When it was received.
    pub now: Time,
}
