//! Turns: how much of data is on its way to or from the servers of objects at once.
//!
//! A client has one link, and those servers together have many: what all of them send it at once
//! waits before that link or is lost, and then some connections have far less of it than others.
//! What many clients send one server does the same to its link. So data goes in parts, of which few
//! are on their way, to all servers that there is something for.
//!
//! Rules:
//! 1. What is on its way is at most what came through a moment ago, and may always be a part of
//!    [`PART_BYTES_MIN`] at several servers ([`LEAST_BYTES`], [`Flow`]); others wait for their turn. So where servers are near the bound grows until the link is full, and where a link is full,
//!    it stays at what keeps it so.
//! 2. The turn is that of the server to which the least is on its way, of several of the first in an
//!    order of this client's own, then of who came first: so clients that use one file in order do not
//!    all go to the same server, and one that is slow has the fewest.
//! 3. The time that a call may take begins with its turn.

#[cfg(test)]
mod tests;

use core::future::poll_fn;
use core::hash::{Hash as _, Hasher as _};
use core::net::SocketAddr;
use core::task::{Poll, Waker};
use std::collections::{BTreeMap, VecDeque};
use std::hash::DefaultHasher;
use std::sync::{Mutex, MutexGuard, PoisonError};

use leasehold_base::units::Time;
use leasehold_core::flow::Flow;
use leasehold_session::Session;

/// The parts that data goes in: so many are on their way where all servers have some, but none is
/// so small that calls cost more than they carry, or larger than a READ.
const PARTS: u64 = 16;
const PART_BYTES_MIN: u64 = 256 << 10;
const PART_BYTES_MAX: u64 = 1 << 20;

/// What may be on its way at any rate, in bytes.
const LEAST_BYTES: u64 = 2 << 20;

/// The order of what goes one way.
pub(crate) struct Turns {
    clock: Session,
    state: Mutex<State>,
}

struct State {
    flow: Flow,
    /// How much is on its way at each server.
    servers: BTreeMap<SocketAddr, u64>,
    /// Who waits, in order.
    waiting: VecDeque<Waiting>,
    next: u64,
    /// Makes the order of servers this client's own.
    order: u64,
}

struct Waiting {
    number: u64,
    server: SocketAddr,
    /// Where the server comes in the order of servers.
    rank: u64,
    bytes: u64,
    waker: Waker,
}

/// What counts as on its way until it is dropped.
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    server: SocketAddr,
    bytes: u64,
}

/// A place among those who wait, given up when it is dropped.
struct Place<'a> {
    turns: &'a Turns,
    number: Option<u64>,
    server: SocketAddr,
    bytes: u64,
}

impl State {
    fn new(now: Time, order: u64) -> Self {
        let (servers, waiting) = (BTreeMap::new(), VecDeque::new());
        Self { flow: Flow::new(now, LEAST_BYTES), servers, waiting, next: 0, order }
    }

    /// Which of several servers comes first.
    fn rank(&self, server: SocketAddr) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.order, server).hash(&mut hasher);
        hasher.finish()
    }

    /// Whether as much may be on its way to a server besides; it then counts.
    fn take(&mut self, server: SocketAddr, bytes: u64) -> bool {
        let fits = self.flow.take(bytes);
        if fits {
            *self.servers.entry(server).or_default() += bytes;
        }
        fits
    }

    fn give_back(&mut self, server: SocketAddr, bytes: u64) {
        self.flow.give_back(bytes);
        if let Some(out) = self.servers.get_mut(&server) {
            *out -= bytes;
            if *out == 0 {
                self.servers.remove(&server);
            }
        }
    }

    /// Has those go on whose turn it is; they count from now on.
    fn go_on(&mut self) -> Vec<Waker> {
        let mut wakers = Vec::new();
        loop {
            let out = |waiting: &Waiting| (self.servers.get(&waiting.server), waiting.rank);
            // Of several the first.
            let next = (0..self.waiting.len()).min_by_key(|at| out(&self.waiting[*at]));
            let Some(at) = next else { return wakers };
            let Waiting { server, bytes, .. } = self.waiting[at];
            if !self.take(server, bytes) {
                return wakers;
            }
            wakers.extend(self.waiting.remove(at).map(|waiting| waiting.waker));
        }
    }
}

impl Turns {
    /// An order, by the clock of a session.
    pub(crate) fn new(clock: Session, order: u64) -> Self {
        let state = Mutex::new(State::new(clock.now(), order));
        Self { clock, state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The parts that data goes in now: larger ones where much comes through.
    pub(crate) fn part_bytes(&self) -> u64 {
        (self.state().flow.most() / PARTS).clamp(PART_BYTES_MIN, PART_BYTES_MAX)
    }

    /// Waits until as much may be on its way at a server; it then counts.
    pub(crate) async fn turn(&self, server: SocketAddr, bytes: u64) -> Turn<'_> {
        let mut place = Place { turns: self, number: None, server, bytes };
        poll_fn(|context| {
            let mut state = self.state();
            let Some(number) = place.number else {
                let number = state.next;
                state.next += 1;
                place.number = Some(number);
                let (rank, waker) = (state.rank(server), context.waker().clone());
                state.waiting.push_back(Waiting { number, server, rank, bytes, waker });
                let wakers = state.go_on();
                let has_turn = !state.waiting.iter().any(|waiting| waiting.number == number);
                drop(state);
                wakers.into_iter().for_each(Waker::wake);
                return if has_turn { Poll::Ready(()) } else { Poll::Pending };
            };
            match state.waiting.iter_mut().find(|waiting| waiting.number == number) {
                Some(waiting) => {
                    waiting.waker.clone_from(context.waker());
                    Poll::Pending
                }
                None => Poll::Ready(()),
            }
        })
        .await;
        place.number = None;
        Turn { turns: self, server, bytes }
    }

    fn end(&self, server: SocketAddr, bytes: u64) {
        let mut state = self.state();
        state.give_back(server, bytes);
        let wakers = state.go_on();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Turn<'_> {
    /// All of it came through.
    pub(crate) fn done(self) {
        let now = self.turns.clock.now();
        self.turns.state().flow.came(self.bytes, now);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.end(self.server, self.bytes);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let mut state = self.turns.state();
        let waited = state.waiting.len();
        state.waiting.retain(|waiting| waiting.number != number);
        let had_turn = state.waiting.len() == waited;
        drop(state);
        if had_turn {
            // It was given one that it did not come to take.
            self.turns.end(self.server, self.bytes);
        }
    }
}
