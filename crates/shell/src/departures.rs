//! Large replies of a server leave one after the other: first come, first served.
//!
//! Replies that are sent at the same time share the server's link, and all of them come as late as the
//! last. One after the other the first comes in a small part of that time, and the last no later. It
//! matters most where several clients read the same from many servers, in the same order: those that
//! come first are at the next server while the others still wait at this one, so that all servers
//! have something to do. Where links are shared, all clients wait at one server together, and go
//! together to the next.
//!
//! Who is slow to take a reply is waited for no longer than [`WAIT_MAX`]; the rest of it goes along with
//! the next.

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use leasehold_base::units::{ConnectionId, Time};

/// How long others wait for a reply at most: as long as a link of 100 Mbit/s takes for a MiB.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// What a connection has to send at least before it waits for others, in bytes.
pub(crate) const LARGE_BYTES: usize = 384 << 10;

/// What it has left when the next may begin, in bytes, so that a link is not idle in between.
pub(crate) const REST_BYTES: usize = 64 << 10;

/// How much a socket holds at most that is not sent yet, in bytes. What the system has taken leaves
/// whoever's turn it is; it would take several MiB.
pub(crate) const SOCKET_BYTES: usize = 128 << 10;

/// Whose turn it is to send a large reply, of all connections of a server.
#[derive(Debug, Default)]
pub(crate) struct Departures {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Who has the turn, and since when.
    leaving: Option<(ConnectionId, Time)>,
    waiting: VecDeque<ConnectionId>,
}

impl State {
    /// Whether others wait for somebody.
    fn is_taken(&self, now: Time) -> bool {
        self.leaving.is_some_and(|(_, since)| now.since(since) < WAIT_MAX)
    }
}

impl Departures {
    fn state(&self) -> MutexGuard<'_, State> {
        // It is whole after each step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a connection wait for its turn; says whether it has it at once.
    pub(crate) fn ask(&self, connection: ConnectionId, now: Time) -> bool {
        let mut state = self.state();
        if state.waiting.is_empty() && !state.is_taken(now) {
            state.leaving = Some((connection, now));
            return true;
        }
        if !state.waiting.contains(&connection) {
            state.waiting.push_back(connection);
        }
        false
    }

    /// A connection has sent what it had, or is no more.
    pub(crate) fn leave(&self, connection: ConnectionId) {
        let mut state = self.state();
        state.leaving = state.leaving.filter(|(leaving, _)| *leaving != connection);
        state.waiting.retain(|waiting| *waiting != connection);
    }

    /// Gives the first of those that wait its turn, if it can have it.
    pub(crate) fn next(&self, now: Time) -> Option<ConnectionId> {
        let mut state = self.state();
        if state.is_taken(now) {
            return None;
        }
        let next = state.waiting.pop_front()?;
        state.leaving = Some((next, now));
        Some(next)
    }

    /// When the next has its turn at the latest, if one waits: long ago where nobody has it now.
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
    fn who_comes_first_goes_first() {
        let departures = Departures::default();
        assert!(departures.ask(connection(1), NOW));
        for slot in [2, 3, 2, 4] {
            assert!(!departures.ask(connection(slot), NOW));
        }
        assert_eq!(departures.next(NOW), None, "one at a time");
        departures.leave(connection(1));
        assert!(!departures.ask(connection(1), NOW), "behind those that wait");
        assert_eq!(departures.latest(), Some(NOW), "those wait for nobody");
        departures.leave(connection(3));
        for slot in [2, 4, 1] {
            assert_eq!(departures.next(NOW), Some(connection(slot)));
            departures.leave(connection(slot));
        }
        assert_eq!((departures.next(NOW), departures.latest()), (None, None));
        assert!(departures.ask(connection(5), NOW));
    }

    #[test]
    fn who_is_slow_is_not_waited_for() {
        let departures = Departures::default();
        assert!(departures.ask(connection(1), NOW));
        assert_eq!(departures.latest(), None, "nobody waits");
        assert!(!departures.ask(connection(2), NOW));
        let late = departures.latest().expect("one waits");
        assert_eq!(departures.next(late), Some(connection(2)));
        departures.leave(connection(1));
        assert!(!departures.ask(connection(3), late), "the second has its turn still");
        departures.leave(connection(2));
        assert_eq!(departures.next(late), Some(connection(3)));
        assert!(departures.ask(connection(4), late + WAIT_MAX), "nobody waits, and one is late");
    }
}
