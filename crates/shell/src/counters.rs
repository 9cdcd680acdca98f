//! Counters of the event loops.

use core::sync::atomic::{AtomicU64, Ordering};

/// Counters of events since the server started.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections that were accepted.
    pub connections_accepted: AtomicU64,
    /// Connections that were closed at once because there were too many.
    pub connections_refused: AtomicU64,
    /// Connections that were closed because no bytes were transferred in the middle of a record or
    /// a reply.
    pub connections_stalled: AtomicU64,
    /// Connections that were closed because they held too much memory for partly received records
    /// or for unread replies, or because another address needed a connection.
    pub connections_crowded_out: AtomicU64,
    /// Connections that were closed because the received data was not RPC.
    pub connections_garbled: AtomicU64,
    /// Replies that were not sent because they exceeded the size of a datagram.
    pub datagrams_too_large: AtomicU64,
    /// Datagram replies that the system rejected.
    pub datagrams_dropped: AtomicU64,
    /// Calls in which the service panicked.
    pub panics: AtomicU64,
    /// Turns of connections that ended because too many calls of the connection or of the loop
    /// waited.
    pub parked_limit_met: AtomicU64,
}

impl Counters {
    /// Adds one to a counter.
    pub(crate) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
