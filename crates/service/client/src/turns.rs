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
//! 2. The turn is that of the server to which the least is on its way, of several of the one whose
//!    last turn was the longest ago: one that is slow has the fewest. So servers come round in a circle,
//!    which is the same for all clients, and each begins at a place of its own: clients that use one
//!    file in order go round one behind the other, and do not all wait for the same server.
//! 3. At a server the turn is that of who came first; of one file, that of what comes first in it,
//!    since programs read in order.
//! 4. The time that a call may take begins with its turn.

#[cfg(test)]
mod tests;

use core::future::poll_fn;
use core::hash::{Hash, Hasher as _};
use core::net::SocketAddr;
use core::task::{Poll, Waker};
use std::collections::{BTreeMap, VecDeque};
use std::hash::DefaultHasher;
use std::sync::{Mutex, MutexGuard, PoisonError};

use leasehold_base::units::Time;
use leasehold_core::flow::Flow;
use leasehold_session::Session;

use crate::nodes::NodeId;

/// The parts that data goes in: so many are on their way where all servers have some, but none is
/// so small that calls cost more than they carry, or larger than a READ.
const PARTS: u64 = 16;
const PART_BYTES_MIN: u64 = 128 << 10;
const PART_BYTES_MAX: u64 = 1 << 20;

/// What may be on its way at any rate, in bytes.
const LEAST_BYTES: u64 = 1280 << 10;

/// The order of what goes one way.
pub(crate) struct Turns {
    clock: Session,
    state: Mutex<State>,
}

struct State {
    flow: Flow,
    /// All that ever had a turn or wait for one; who calls them knows few.
    servers: BTreeMap<SocketAddr, Server>,
    /// Who waits, in order.
    waiting: VecDeque<Waiting>,
    next: u64,
    turns: u64,
    /// Where this client begins in the circle of servers.
    begin: u64,
}

/// Whose turn it is, of several: the least.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Server {
    /// How much is on its way.
    out: u64,
    /// The number of the last turn.
    last: u64,
    /// How far behind the beginning it is in the circle.
    behind: u64,
}

/// What has a turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) server: SocketAddr,
    pub(crate) file: NodeId,
    /// Where it is in the file.
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

struct Waiting {
    number: u64,
    part: Part,
    waker: Waker,
}

/// What counts as on its way until it is dropped.
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    part: Part,
}

/// A place among those who wait, given up when it is dropped.
struct Place<'a> {
    turns: &'a Turns,
    number: Option<u64>,
    part: Part,
}

fn hash(what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

impl State {
    fn new(now: Time, order: u64) -> Self {
        let (servers, waiting) = (BTreeMap::new(), VecDeque::new());
        let flow = Flow::new(now, LEAST_BYTES);
        Self { flow, servers, waiting, next: 0, turns: 0, begin: hash(order) }
    }

    fn server(&mut self, address: SocketAddr) -> &mut Server {
        let behind = || hash(address).wrapping_sub(self.begin);
        self.servers.entry(address).or_insert_with(|| Server { out: 0, last: 0, behind: behind() })
    }

    /// Has a part wait for its turn.
    fn wait(&mut self, number: u64, part: Part, waker: Waker) {
        self.server(part.server);
        self.waiting.push_back(Waiting { number, part, waker });
    }

    /// Whether as much may be on its way to a server besides; it then counts.
    fn take(&mut self, part: Part) -> bool {
        let fits = self.flow.take(part.bytes);
        if fits {
            self.turns += 1;
            let turn = self.turns;
            let server = self.server(part.server);
            server.out += part.bytes;
            server.last = turn;
        }
        fits
    }

    fn give_back(&mut self, part: Part) {
        self.flow.give_back(part.bytes);
        self.server(part.server).out -= part.bytes;
    }

    /// Who goes next.
    fn first(&mut self) -> Option<usize> {
        let server = |at: &usize| self.servers.get(&self.waiting[*at].part.server);
        // Of several the first.
        let first = (0..self.waiting.len()).min_by_key(server)?;
        let Part { server, file, .. } = self.waiting[first].part;
        let are_alike = |at: &usize| {
            let part = self.waiting[*at].part;
            (part.server, part.file) == (server, file)
        };
        let alike = (first..self.waiting.len()).filter(are_alike);
        let next = alike.min_by_key(|at| self.waiting[*at].part.offset)?;
        // The other keeps what is left of the places of this file.
        self.waiting.swap(first, next);
        Some(first)
    }

    /// Has those go on whose turn it is; they count from now on.
    fn go_on(&mut self) -> Vec<Waker> {
        let mut wakers = Vec::new();
        loop {
            let Some(at) = self.first() else { return wakers };
            if !self.take(self.waiting[at].part) {
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

    /// Waits until a part may be on its way; it then counts.
    pub(crate) async fn turn(&self, part: Part) -> Turn<'_> {
        let mut place = Place { turns: self, number: None, part };
        poll_fn(|context| {
            let mut state = self.state();
            let Some(number) = place.number else {
                let number = state.next;
                state.next += 1;
                place.number = Some(number);
                state.wait(number, part, context.waker().clone());
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
        Turn { turns: self, part }
    }

    fn end(&self, part: Part) {
        let mut state = self.state();
        state.give_back(part);
        let wakers = state.go_on();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Turn<'_> {
    /// All of it came through.
    pub(crate) fn done(self) {
        let now = self.turns.clock.now();
        self.turns.state().flow.came(self.part.bytes, now);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.end(self.part);
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
            self.turns.end(self.part);
        }
    }
}
