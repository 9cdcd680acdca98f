//! The interface of a session to the owner of the sockets and the clock.

use core::ops::Add;
use std::sync::Arc;

use leasehold_base::units::Time;
use leasehold_base::xdr::Message;

/// One connection of a session; over datagrams, the socket. Each new connection of a lane has a
/// greater generation than the earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Connection {
    /// The index of the lane.
    pub lane: usize,
    /// The number of earlier connections of the lane.
    pub generation: u32,
}

/// The traffic of a session's connections, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// The number of bytes that were passed to connections for sending. Bytes that were lost
    /// because a connection ended do not count.
    pub given: u64,
    /// The number of sent bytes that the peer's operating system has acknowledged.
    pub taken: u64,
    /// The number of received bytes.
    pub came: u64,
}

impl Traffic {
    /// Returns true if the peer was active since `then`: bytes arrived, or the peer's operating
    /// system acknowledged bytes that already waited at `then`. Bytes that were acknowledged at
    /// once do not count, because the operating system accepts data even for a stopped program.
    #[must_use]
    pub const fn moves(self, then: Self) -> bool {
        let waited = self.taken < then.given;
        self.came > then.came || (waited && self.taken > then.taken)
    }
}

impl Add for Traffic {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            given: self.given.saturating_add(other.given),
            taken: self.taken.saturating_add(other.taken),
            came: self.came.saturating_add(other.came),
        }
    }
}

/// The transport of a session's messages: sockets in the shell, the network of a simulation, or a
/// server in the same process.
///
/// No method waits: work that cannot finish at once runs later, and the session's
/// [`Driver`](crate::Driver) receives the result. Each method may be called from any thread, from
/// within the poll of a call, or from within the driver's own methods. Dropping the session drops
/// its transport, which closes all connections.
pub trait Transport: Send + Sync {
    /// Returns the time of a monotonic clock that includes suspend.
    fn now(&self) -> Time;

    /// Opens a connection in place of the lane's earlier connection, and reports success or failure
    /// to the driver. Only a session over streams calls this.
    fn connect(&self, connection: Connection);

    /// Sends a message if the connection is still the current one of its lane, and drops it
    /// otherwise: the session retransmits the call on a new connection, or lets it time out.
    fn send(&self, connection: Connection, message: &Arc<Message>);

    /// Returns the preferred lane of a call that begins on this thread; None to choose the lane
    /// with the fewest calls.
    fn lane(&self) -> Option<usize> {
        None
    }

    /// Returns the traffic of all connections; zero if the transport does not count.
    fn traffic(&self) -> Traffic {
        Traffic::default()
    }

    /// Returns the traffic of one lane; zero if the transport does not count.
    fn traffic_of(&self, _lane: usize) -> Traffic {
        Traffic::default()
    }

    /// Schedules a call of [`Driver::tick`](crate::Driver::tick) no later than `time`.
    fn wake_at(&self, time: Time);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_traffic_is_a_sign_of_life() {
        let then = Traffic { given: 100, taken: 40, came: 7 };
        assert!(!then.moves(then), "nothing moves");
        assert!(Traffic { came: 8, ..then }.moves(then), "something came");
        assert!(
            Traffic { given: 200, taken: 41, ..then }.moves(then),
            "waiting bytes are acknowledged"
        );
        assert!(!Traffic { given: 200, ..then }.moves(then), "more is given, nothing is taken");
        let taken_at_once = Traffic { given: 200, taken: 200, ..then };
        assert!(!taken_at_once.moves(then), "a system takes it for a program that stands still");
    }
}
