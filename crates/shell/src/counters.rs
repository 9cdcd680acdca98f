//! How often what happened.

use core::sync::atomic::{AtomicU64, Ordering};

/// How often what happened, since the server started.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections that were accepted.
    pub connections_accepted: AtomicU64,
    /// Connections that were closed at once, because there were too many.
    pub connections_refused: AtomicU64,
    /// Connections that were closed because nothing moved in the middle of a record or a reply.
    pub connections_stalled: AtomicU64,
    /// Connections that were closed because they held too much memory for records of which
    /// a part had come, or for replies that were not read; or because another address wanted one.
    pub connections_crowded_out: AtomicU64,
    /// Connections that were closed because what came is not RPC.
    pub connections_garbled: AtomicU64,
    /// Replies that were larger than a datagram, and not sent.
    pub datagrams_too_large: AtomicU64,
    /// Replies by datagram that the system did not take.
    pub datagrams_dropped: AtomicU64,
    /// Calls in which the service panicked.
    pub panics: AtomicU64,
    /// Turns that ended because too many calls of a client or a loop waited.
    pub parked_limit_met: AtomicU64,
}

impl Counters {
    /// Counts one.
    pub(crate) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
