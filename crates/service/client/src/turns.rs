//! Turns: how much of data is on its way to or from the servers of objects at once.
//!
//! A client has one link, and those servers together have many: what all of them send it at once
//! waits before that link or is lost, and then some connections have far less of it than others.
//! What many clients send one server does the same to its link. So data goes in parts, of which few
//! are on their way, to all servers that there is something for.
//!
//! Rules:
//! 1. What is on its way is at most what came through a moment ago, and may always be a part of
//!    [`PART_BYTES_MIN`] at several servers ([`LEAST_BYTES`], [`Flow`]); others wait for their turn.
//!    So where servers are near the bound grows until the link is full, and where a link is full,
//!    it stays at what keeps it so.
//! 2. The turn is that of the server to which the least is on its way, so that one that is slow has
//!    the fewest, and of several that of the next in a circle, which is the same for all clients while
//!    each begins at a place of its own: clients that use one file in order go round one behind the
//!    other, and do not all wait for the same server. A turn that no other server waited for leaves
//!    the place as it is: all that open one file would come to the same by it.
//! 3. At a server the turn is that of who came first; of one file, that of what comes first in it,
//!    since programs read in order, but nobody is overtaken by more than [`OVERTAKERS`].
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

/// What may be on its way at any rate, in bytes. Measured: where a link's queue has room for a tenth
/// of a second at 100 Mbit/s, 2 MiB that came at once from several servers were lost in part. A server
/// so far away that this is there before its answer is back is used less than it could be.
const LEAST_BYTES: u64 = 1280 << 10;

/// Of how many that came later one may go first where it comes before in the file: more than wait of one
/// file that is read in order, and few enough that who waits has a turn soon.
const OVERTAKERS: u64 = 256;

/// The order of what goes one way.
pub(crate) struct Turns {
    clock: Session,
    state: Mutex<State>,
}

struct State {
    flow: Flow,
    /// How much is on its way to each that ever had a turn; who calls them knows few.
    out: BTreeMap<SocketAddr, u64>,
    /// Who waits, in order of a server's turns.
    waiting: VecDeque<Waiting>,
    next: u64,
    /// The position in the circle of servers that is next.
    hand: u64,
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
    /// As they came.
    number: u64,
    /// That of its server in the circle.
    position: u64,
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

/// The position of a server in the circle, or that where a client begins. Clients whose circles differ, as
/// another release of Rust may have them, are slower together and nothing else.
fn position(what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

impl State {
    fn new(now: Time, order: u64) -> Self {
        let (out, waiting) = (BTreeMap::new(), VecDeque::new());
        Self { flow: Flow::new(now, LEAST_BYTES), out, waiting, next: 0, hand: position(order) }
    }

    /// Has a part wait for its turn; the number is its own.
    fn wait(&mut self, part: Part, waker: Waker) -> u64 {
        let number = self.next;
        self.next += 1;
        let position = position(part.server);
        self.waiting.push_back(Waiting { number, position, part, waker });
        number
    }

    /// Whether as much may be on its way to a server besides; it then counts.
    fn take(&mut self, part: Part) -> bool {
        let fits = self.flow.take(part.bytes);
        if fits {
            *self.out.entry(part.server).or_default() += part.bytes;
        }
        fits
    }

    fn give_back(&mut self, part: Part) {
        self.flow.give_back(part.bytes);
        if let Some(out) = self.out.get_mut(&part.server) {
            *out -= part.bytes;
        }
    }

    /// Who goes next.
    fn first(&mut self) -> Option<usize> {
        let order = |waiting: &Waiting| {
            let out = self.out.get(&waiting.part.server).copied().unwrap_or_default();
            (out, waiting.position.wrapping_sub(self.hand))
        };
        // Of several the first.
        let first = (0..self.waiting.len()).min_by_key(|at| order(&self.waiting[*at]))?;
        let Part { server, file, .. } = self.waiting[first].part;
        let alike = (first..self.waiting.len()).filter(|at| {
            let part = self.waiting[*at].part;
            (part.server, part.file) == (server, file)
        });
        let oldest = alike.clone().map(|at| self.waiting[at].number).min()?;
        let able = alike.filter(|at| self.waiting[*at].number - oldest < OVERTAKERS);
        let next = able.min_by_key(|at| self.waiting[*at].part.offset)?;
        // The other keeps what is left of the places of this file.
        self.waiting.swap(first, next);
        Some(first)
    }

    /// Lets the next go on, if there is room; it counts from now on.
    fn go(&mut self) -> Option<Waiting> {
        let at = self.first()?;
        let Waiting { part, position, .. } = self.waiting[at];
        if !self.take(part) {
            return None;
        }
        if self.waiting.iter().any(|waiting| waiting.part.server != part.server) {
            self.hand = position.wrapping_add(1);
        }
        self.waiting.remove(at)
    }

    /// Has those go on whose turn it is.
    fn go_on(&mut self) -> Vec<Waker> {
        core::iter::from_fn(|| self.go()).map(|waiting| waiting.waker).collect()
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
                let number = state.wait(part, context.waker().clone());
                place.number = Some(number);
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
