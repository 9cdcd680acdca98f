//! The arrival of a message.

use core::net::{IpAddr, SocketAddr};

use leasehold_base::limits::{TRANSFER_BYTES_MAX, TRANSFER_UDP_BYTES_MAX};
use leasehold_base::units::{ConnectionId, Time};
use leasehold_leases::ReturnPath;

/// The transport of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// A stream with record marks (TCP).
    Stream,
    /// Datagrams (UDP).
    Datagram,
}

impl Transport {
    /// Returns the size of the largest READ or WRITE that fits into a message of the transport, in
    /// bytes.
    #[must_use]
    pub const fn transfer_bytes_max(self) -> u32 {
        match self {
            Self::Stream => TRANSFER_BYTES_MAX,
            Self::Datagram => TRANSFER_UDP_BYTES_MAX,
        }
    }
}

/// The trust in the sender's AUTH_SYS credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The credential is trusted.
    Claimed,
    /// The sender is this user of this machine, without supplementary groups. The credential in the
    /// call does not count.
    Pinned {
        /// The user that owns the sender's socket.
        uid: u32,
        /// That user's group.
        gid: u32,
    },
    /// The sender is anonymous. The credential in the call does not count.
    Nobody,
    /// Every credential of the sender is refused: authentication fails as too weak.
    Refused,
    /// Nothing verifies the credential. A rule of an export may trust the credential nevertheless.
    Unvouched {
        /// True if the server refuses the call without such a rule; otherwise the sender is
        /// anonymous.
        refuse: bool,
    },
}

/// The circumstances of a message's arrival.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The sender's address.
    pub from: SocketAddr,
    /// The destination address, an address of the server.
    pub to: IpAddr,
    /// The connection that carried the message; None for a datagram.
    pub connection: Option<ConnectionId>,
    /// The trust in the credential of the message.
    pub trust: Trust,
    /// The time at which the server received the message.
    pub now: Time,
}

impl Arrival {
    /// Returns the transport that carried the message.
    #[must_use]
    pub const fn transport(&self) -> Transport {
        match self.connection {
            Some(_) => Transport::Stream,
            None => Transport::Datagram,
        }
    }

    /// Returns the return path to the sender.
    pub(crate) fn return_path(&self) -> ReturnPath {
        let Self { from, to, connection, .. } = *self;
        connection.map_or(ReturnPath::Datagrams { to: from, from: to }, ReturnPath::Connection)
    }
}
