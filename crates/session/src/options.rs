//! How a session calls.

use core::time::Duration;

use leasehold_core::calls::{self, Carrier, STREAM_PATIENCE};

/// How a session calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// What carries the calls.
    pub carrier: Carrier,
    /// The number of connections: calls go to the one with the fewest. One over datagrams.
    pub connections: usize,
    /// The number of calls on their way at once on each connection.
    pub in_flight_max: usize,
    /// The number of calls on their way and waiting on each connection.
    pub calls_max: usize,
    /// When a call ends without reply, on a stream counted from the server's last sign of life: never
    /// for a hard mount.
    pub soft: Option<Duration>,
    /// How long a reply on a stream is waited for before anything is done about it, at first.
    pub patience: Duration,
    /// Whether calls fail when not even a first connection can be had: a command wants to say so,
    /// a mount waits for the server.
    pub fail_unreached: bool,
}

impl Options {
    /// One connection of a hard mount.
    #[must_use]
    pub const fn stream() -> Self {
        Self {
            carrier: Carrier::Stream,
            connections: 1,
            // Linux allows 65,536; each may hold a MiB here and at the server.
            in_flight_max: 64,
            calls_max: 16_384,
            soft: None,
            patience: STREAM_PATIENCE,
            fail_unreached: false,
        }
    }

    /// A hard mount over datagrams: few at a time, as a burst of large ones overflows the buffers
    /// on the way.
    #[must_use]
    pub const fn datagram() -> Self {
        Self { carrier: Carrier::Datagram, in_flight_max: 16, ..Self::stream() }
    }

    /// The same for a command: no server is an error at once, and silence is one in that time.
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
