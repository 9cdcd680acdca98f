//! What a session wants of whoever owns sockets and the clock.

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

    /// Has [`Driver::tick`](crate::Driver::tick) called no later than that.
    fn wake_at(&self, time: Time);
}
