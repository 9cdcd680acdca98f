//! What a session wants of whoever owns sockets and the clock.

use core::ops::Add;
use std::sync::Arc;

use leasehold_base::units::Time;
use leasehold_base::xdr::Message;

/// One connection of a session; over datagrams, the socket. Each that is opened in one lane has
/// a greater generation than those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Connection {
    /// Which of the session's connections.
    pub lane: usize,
    /// How many there were in that place before.
    pub generation: u32,
}

/// What went over the connections of a session so far, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// What connections were given to send; what one was given and lost counts no more.
    pub given: u64,
    /// What the other side's system has of that, as it says.
    pub taken: u64,
    /// What came in.
    pub came: u64,
}

impl Traffic {
    /// Whether the other side gave a sign of life since then: something came, or it takes what has
    /// waited since then. What it took at once says nothing: its system takes what is sent to a
    /// program that stands still.
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

/// What carries a session's messages: sockets in the shell, the network of a simulation, a server
/// in the same process.
///
/// No call waits: what cannot be done at once is done later, and told to the session's
/// [`Driver`](crate::Driver). Each may come from any thread, from within the polling of a call or
/// from within the driver's own methods. When the session is dropped, so is its transport, and
/// whatever is open is closed then.
pub trait Transport: Send + Sync {
    /// The time on a clock that never goes back and goes on in suspend.
    fn now(&self) -> Time;

    /// Opens a connection, instead of the one that its lane had. The driver is told of success or
    /// failure. Only a session over streams asks for it.
    fn connect(&self, connection: Connection);

    /// Sends a message where the connection is still that of its lane, and drops it otherwise: the
    /// call is sent again once there is a new one, or when its time is over.
    fn send(&self, connection: Connection, message: &Arc<Message>);

    /// The lane that a call which begins on this thread takes; none where that is all one, and the
    /// lane with the fewest calls has it.
    fn lane(&self) -> Option<usize> {
        None
    }

    /// What went over all connections so far; nothing where nobody counts.
    fn traffic(&self) -> Traffic {
        Traffic::default()
    }

    /// What went over the connections of one lane so far; nothing where nobody counts.
    fn traffic_of(&self, _lane: usize) -> Traffic {
        Traffic::default()
    }

    /// Has [`Driver::tick`](crate::Driver::tick) called no later than that.
    fn wake_at(&self, time: Time);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_or_goes_on_is_a_sign_of_life() {
        let then = Traffic { given: 100, taken: 40, came: 7 };
        assert!(!then.moves(then), "nothing moves");
        assert!(Traffic { came: 8, ..then }.moves(then), "something came");
        assert!(Traffic { given: 200, taken: 41, ..then }.moves(then), "what waited goes on");
        assert!(!Traffic { given: 200, ..then }.moves(then), "more is given, nothing is taken");
        let taken_at_once = Traffic { given: 200, taken: 200, ..then };
        assert!(!taken_at_once.moves(then), "a system takes it for a program that stands still");
    }
}
