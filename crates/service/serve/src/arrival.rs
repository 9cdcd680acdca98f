//! How a message came in.

use core::net::{IpAddr, SocketAddr};

use leasehold_base::limits::{TRANSFER_BYTES_MAX, TRANSFER_UDP_BYTES_MAX};
use leasehold_base::units::{ConnectionId, Time};

/// What carries messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// A stream with record marks (TCP).
    Stream,
    /// Datagrams (UDP).
    Datagram,
}

impl Transport {
    /// The largest READ or WRITE that fits its messages, in bytes.
    #[must_use]
    pub const fn transfer_bytes_max(self) -> u32 {
        match self {
            Self::Stream => TRANSFER_BYTES_MAX,
            Self::Datagram => TRANSFER_UDP_BYTES_MAX,
        }
    }
}

/// What the sender's word about itself, its AUTH_SYS credential, is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The sender is whom it claims to be.
    Claimed,
    /// The sender is this user of this machine, without further groups, whatever it claims.
    Pinned {
        /// The user that owns the sender's socket.
        uid: u32,
        /// That user's group.
        gid: u32,
    },
    /// The sender is nobody, whatever it claims.
    Nobody,
    /// No credential of the sender's is taken: authentication fails as too weak.
    Refused,
    /// Nothing vouches for what it claims; a rule may have it believed all the same.
    Unvouched {
        /// Without such a rule it is refused; otherwise it is nobody.
        refuse: bool,
    },
}

/// How a message came in.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Who sent it.
    pub from: SocketAddr,
    /// The address of the server that it was sent to.
    pub to: IpAddr,
    /// The connection that carried it; none carries a datagram.
    pub connection: Option<ConnectionId>,
    /// What its credential is worth.
    pub trust: Trust,
    /// When it was received.
    pub now: Time,
}

impl Arrival {
    /// What carried it.
    #[must_use]
    pub const fn transport(&self) -> Transport {
        match self.connection {
            Some(_) => Transport::Stream,
            None => Transport::Datagram,
        }
    }
}
