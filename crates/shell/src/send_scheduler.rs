//! The order in which a server sends large replies: one connection at a time has the permission to
//! send a large reply, first come, first served.
//!
//! Concurrent replies share the server's link, and all of them complete late, at nearly the same
//! time. In sequence, the first reply completes in a small part of that time, and if the clients'
//! links are as fast as the server's link, the last reply completes no later than before. The
//! effect is largest where several clients read the same data from many servers in the same order:
//! the first clients read from the next server while the other clients still wait at this server,
//! so that all servers have work. With concurrent replies all clients wait at one server together,
//! and then read from the next server together.
//!
//! Other connections wait at most [`WAIT_MAX`] for a slow client; after that time the rest of its
//! reply overlaps with the next reply. If a reply takes longer than [`SLOW`], the next large reply
//! of that connection needs no permission and overlaps with other replies from the start. Clients
//! with slow links therefore do not leave the server's link idle, and a client that reads nothing
//! delays other clients only once for each connection.
//!
//! "Large" refers to the number of unsent bytes of a connection, which may belong to one or to
//! several replies.

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use leasehold_base::units::{ConnectionId, Time};

/// The maximum wait for the reply of another connection: the time in which a link of 100 Mbit/s
/// transfers one MiB.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// The duration of a reply from which a client's link counts as slower than the server's.
const SLOW: Duration = Duration::from_millis(400);

/// The minimum number of unsent bytes for which a connection needs the permission to send.
pub(crate) const LARGE_BYTES: usize = 384 << 10;

/// The number of unsent bytes of the current reply at which the next connection may start to send,
/// so that the link is not idle between two replies.
const REST_BYTES: usize = 64 << 10;

/// The maximum number of unsent bytes in a socket. The scheduler counts bytes as sent when the
/// system has accepted them; without this limit the system would accept several MiB at once.
pub(crate) const SOCKET_BYTES: usize = 128 << 10;

/// The state of one connection's permission to send a large reply.
#[derive(Debug, Default)]
pub(crate) struct Departure {
    stage: Stage,
    /// True if the last large reply of the connection took longer than [`SLOW`].
    is_slow: bool,
}

#[derive(Debug, Default)]
enum Stage {
    /// The connection has no large reply, and small replies need no permission.
    #[default]
    Free,
    /// The connection must wait for the permission.
    Waits,
    /// The connection has the permission since `since`, for the `rest` bytes that were unsent then
    /// and are not sent yet. Bytes that are queued later need another permission.
    Leaves { rest: usize, since: Time },
}

impl Departure {
    /// Returns true if the connection neither has the permission nor waits for it.
    pub(crate) const fn is_free(&self) -> bool {
        matches!(self.stage, Stage::Free)
    }

    /// Returns true if the connection must wait before it sends.
    pub(crate) const fn waits(&self) -> bool {
        matches!(self.stage, Stage::Waits)
    }

    /// Returns true if the connection sends large replies without the permission, because its last
    /// large reply was slow.
    pub(crate) const fn is_slow(&self) -> bool {
        self.is_slow
    }

    pub(crate) fn wait(&mut self) {
        self.stage = Stage::Waits;
    }

    /// Records that the connection has the permission to send the given number of bytes.
    pub(crate) fn begin(&mut self, bytes: usize, now: Time) {
        self.stage = Stage::Leaves { rest: bytes, since: now };
    }

    /// Records sent bytes. Returns true if the connection no longer needs the permission after
    /// these bytes.
    pub(crate) fn sent(&mut self, bytes: usize, now: Time) -> bool {
        let Stage::Leaves { rest, since } = &mut self.stage else { return false };
        let had_turn = *rest > REST_BYTES;
        *rest = rest.saturating_sub(bytes);
        let ends = had_turn && *rest <= REST_BYTES;
        if ends {
            self.is_slow = now.since(*since) > SLOW;
        }
        if *rest == 0 {
            self.stage = Stage::Free;
        }
        ends
    }
}

/// The scheduler: grants the permission to send a large reply to one connection of the server at a
/// time.
#[derive(Debug, Default)]
pub(crate) struct SendScheduler {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The connection that has the permission, and the time of the grant.
    leaving: Option<(ConnectionId, Time)>,
    waiting: VecDeque<ConnectionId>,
}

impl State {
    /// Returns true if other connections must still wait for the connection that has the
    /// permission.
    fn is_taken(&self, now: Time) -> bool {
        self.leaving.is_some_and(|(_, since)| now.since(since) < WAIT_MAX)
    }
}

impl SendScheduler {
    fn state(&self) -> MutexGuard<'_, State> {
        // The state is consistent after each step, so the mutex is usable even after a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests the permission for a connection. Returns true if the connection receives the
    /// permission at once; otherwise the connection is queued.
    pub(crate) fn ask(&self, connection: ConnectionId, now: Time) -> bool {
        let mut state = self.state();
        if state.waiting.is_empty() && !state.is_taken(now) {
            state.leaving = Some((connection, now));
            return true;
        }
        state.waiting.push_back(connection);
        false
    }

    /// Removes a connection that has sent its bytes or is closed, from the queue and from the
    /// permission.
    pub(crate) fn leave(&self, connection: ConnectionId) {
        let mut state = self.state();
        state.leaving = state.leaving.filter(|(leaving, _)| *leaving != connection);
        state.waiting.retain(|waiting| *waiting != connection);
    }

    /// Gives the permission to the first waiting connection, if no other connection has it. Returns
    /// that connection.
    pub(crate) fn next(&self, now: Time) -> Option<ConnectionId> {
        let mut state = self.state();
        if state.is_taken(now) {
            return None;
        }
        let next = state.waiting.pop_front()?;
        state.leaving = Some((next, now));
        Some(next)
    }

    /// Returns the latest time at which the first waiting connection receives the permission; the
    /// time is in the past if the permission is free. `None` if no connection waits.
    pub(crate) fn latest(&self) -> Option<Time> {
        let state = self.state();
        let latest = state.leaving.map_or(Time::ZERO, |(_, since)| since + WAIT_MAX);
        (!state.waiting.is_empty()).then_some(latest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(slot: u32) -> ConnectionId {
        ConnectionId { event_loop: 0, slot, generation: 0 }
    }

    const NOW: Time = Time::ZERO;

    #[test]
    fn turns_are_first_come_first_served() {
        let departures = SendScheduler::default();
        assert!(departures.ask(connection(1), NOW));
        for slot in [2, 3, 4] {
            assert!(!departures.ask(connection(slot), NOW));
        }
        assert_eq!(departures.next(NOW), None, "one at a time");
        departures.leave(connection(1));
        assert!(!departures.ask(connection(1), NOW), "behind those that wait");
        assert_eq!(departures.latest(), Some(NOW), "the turn is free for them");
        departures.leave(connection(3));
        for slot in [2, 4, 1] {
            assert_eq!(departures.next(NOW), Some(connection(slot)));
            departures.leave(connection(slot));
        }
        assert_eq!((departures.next(NOW), departures.latest()), (None, None));
        assert!(departures.ask(connection(5), NOW));
    }

    #[test]
    fn slow_connections_do_not_delay_others() {
        let departures = SendScheduler::default();
        assert!(departures.ask(connection(1), NOW));
        assert_eq!(departures.latest(), None, "nobody waits");
        assert!(!departures.ask(connection(2), NOW));
        let late = departures.latest().expect("one waits");
        assert_eq!(departures.next(late), Some(connection(2)));
        departures.leave(connection(1));
        assert!(!departures.ask(connection(3), late), "the second has its turn still");
        departures.leave(connection(2));
        assert_eq!(departures.next(late), Some(connection(3)));
        assert!(departures.ask(connection(4), late + WAIT_MAX), "the turn has expired");
    }

    /// Bytes that are queued while the connection has the permission need another permission, and
    /// do not delay the rest of the current reply.
    #[test]
    fn turn_covers_the_bytes_at_its_start() {
        let mut departure = Departure::default();
        departure.begin(LARGE_BYTES, NOW);
        assert!(!departure.sent(LARGE_BYTES - REST_BYTES - 1, NOW));
        assert!(departure.sent(1, NOW), "the next may begin");
        assert!(!departure.waits() && !departure.is_free(), "the rest may go");
        assert!(!departure.sent(2 * REST_BYTES, NOW), "it has ended already");
        assert!(departure.is_free());
    }

    #[test]
    fn connection_stays_slow_until_a_fast_reply() {
        let mut departure = Departure::default();
        for (took, is_slow) in [(WAIT_MAX, false), (SLOW + WAIT_MAX, true), (SLOW, false)] {
            departure.begin(LARGE_BYTES, NOW);
            assert!(departure.sent(LARGE_BYTES, NOW + took));
            assert_eq!(departure.is_slow(), is_slow);
        }
    }
}
