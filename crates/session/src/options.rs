//! The options of a session.

use core::time::Duration;

use leasehold_core::calls::{self, Carrier, STREAM_PATIENCE};

/// The options of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The transport of the calls.
    pub carrier: Carrier,
    /// The number of connections; a call uses the connection with the fewest calls. Over datagrams
    /// there is one connection.
    pub connections: usize,
    /// The largest number of outstanding calls on each connection.
    pub in_flight_max: usize,
    /// The largest number of outstanding and queued calls on each connection.
    pub calls_max: usize,
    /// The time after which a call without a reply fails, on a stream counted from the server's
    /// last sign of life. None for a hard mount.
    pub soft: Option<Duration>,
    /// The initial reply timeout on a stream.
    pub patience: Duration,
    /// True if calls fail when even the first connection fails: a command reports this, whereas a
    /// mount waits for the server.
    pub fail_unreached: bool,
}

impl Options {
    /// Returns the options of a hard mount with one connection.
    #[must_use]
    pub const fn stream() -> Self {
        Self {
            carrier: Carrier::Stream,
            connections: 1,
            // Linux permits 65,536 calls; but each call may occupy a MiB at the client and at the
            // server, so the limit here is lower.
            in_flight_max: 64,
            calls_max: 16_384,
            soft: None,
            patience: STREAM_PATIENCE,
            fail_unreached: false,
        }
    }

    /// Returns the options of a hard mount over datagrams. It permits few outstanding calls,
    /// because a burst of large datagrams overflows the buffers on the path.
    #[must_use]
    pub const fn datagram() -> Self {
        Self { carrier: Carrier::Datagram, in_flight_max: 16, ..Self::stream() }
    }

    /// Returns the same options for a command: an unreachable server causes an error at once, and a
    /// silent server causes an error after `soft`.
    #[must_use]
    pub const fn impatient(self, soft: Duration) -> Self {
        Self { soft: Some(soft), fail_unreached: true, ..self }
    }

    pub(crate) fn lanes(&self) -> usize {
        match self.carrier {
            Carrier::Stream => self.connections.max(1),
            Carrier::Datagram => 1,
        }
    }

    pub(crate) const fn of_lane(&self) -> calls::Options {
        calls::Options {
            carrier: self.carrier,
            in_flight_max: self.in_flight_max,
            calls_max: self.calls_max,
            soft: self.soft,
            patience: self.patience,
        }
    }
}
