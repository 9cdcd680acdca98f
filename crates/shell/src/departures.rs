//! Large replies of a server leave one after the other: first come, first served.
//!
//! Replies that are sent at the same time share the server's link, and all of them come as late as the
//! last. One after the other the first comes in a small part of that time, and where clients can take
//! what the link carries, the last comes no later. It matters most where several clients read the same
//! from many servers, in the same order: those that come first are at the next server while the others
//! still wait at this one, so that all servers have something to do. Where links are shared, all
//! clients wait at one server together, and go together to the next.
//!
//! Who is slow to take a reply is waited for no longer than [`WAIT_MAX`]; the rest of it goes along with
//! the next. If it takes longer than [`SLOW`], the next of that connection goes along with others at
//! once: so clients whose own links are narrow do not leave the server's idle, and one that reads
//! nothing is waited for once on each connection.
//!
//! Large is what a connection has to send, of one reply or of several.

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use leasehold_base::units::{ConnectionId, Time};

/// How long others wait for a reply at most: as long as a link of 100 Mbit/s takes for a MiB.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// What shows that the client does not take what the server's link carries.
const SLOW: Duration = Duration::from_millis(400);

/// What a connection has to send at least before it waits for others, in bytes.
pub(crate) const LARGE_BYTES: usize = 384 << 10;

/// What it has left when the next may begin, in bytes, so that a link is not idle in between.
const REST_BYTES: usize = 64 << 10;

/// How much a socket holds at most that is not sent yet, in bytes. What the system has taken leaves
/// whoever's turn it is; it would take several MiB.
pub(crate) const SOCKET_BYTES: usize = 128 << 10;

/// What one connection may send.
#[derive(Debug, Default)]
pub(crate) struct Departure {
    stage: Stage,
    /// Whether what was large and went last was slow.
    is_slow: bool,
}

#[derive(Debug, Default)]
enum Stage {
    /// What is not large.
    #[default]
    Free,
    /// Nothing before its turn.
    Waits,
    /// What there was when its turn began, and since when; what has come meanwhile is for another turn.
    Leaves { rest: usize, since: Time },
}

impl Departure {
    /// Whether nobody knows of it: it has no turn, and waits for none.
    pub(crate) const fn is_free(&self) -> bool {
        matches!(self.stage, Stage::Free)
    }

    /// Whether it may send nothing.
    pub(crate) const fn waits(&self) -> bool {
        matches!(self.stage, Stage::Waits)
    }

    /// Whether it goes without a turn.
    pub(crate) const fn is_slow(&self) -> bool {
        self.is_slow
    }

    pub(crate) fn wait(&mut self) {
        self.stage = Stage::Waits;
    }

    /// Begins to send so many bytes.
    pub(crate) fn begin(&mut self, bytes: usize, now: Time) {
        self.stage = Stage::Leaves { rest: bytes, since: now };
    }

    /// Has sent so many bytes; says whether its turn ends with them.
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

    /// Has a connection that has none wait for its turn; says whether it has it at once.
    pub(crate) fn ask(&self, connection: ConnectionId, now: Time) -> bool {
        let mut state = self.state();
        if state.waiting.is_empty() && !state.is_taken(now) {
            state.leaving = Some((connection, now));
            return true;
        }
        state.waiting.push_back(connection);
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
        for slot in [2, 3, 4] {
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

    /// What comes while its turn lasts has a turn of its own, and nothing of its end is held back for that.
    #[test]
    fn a_turn_is_for_what_there_was() {
        let mut departure = Departure::default();
        departure.begin(LARGE_BYTES, NOW);
        assert!(!departure.sent(LARGE_BYTES - REST_BYTES - 1, NOW));
        assert!(departure.sent(1, NOW), "the next may begin");
        assert!(!departure.waits() && !departure.is_free(), "the rest may go");
        assert!(!departure.sent(2 * REST_BYTES, NOW), "it has ended already");
        assert!(departure.is_free());
    }

    #[test]
    fn who_was_slow_is_so_until_it_was_not() {
        let mut departure = Departure::default();
        for (took, is_slow) in [(WAIT_MAX, false), (SLOW + WAIT_MAX, true), (SLOW, false)] {
            departure.begin(LARGE_BYTES, NOW);
            assert!(departure.sent(LARGE_BYTES, NOW + took));
            assert_eq!(departure.is_slow(), is_slow);
        }
    }
}
