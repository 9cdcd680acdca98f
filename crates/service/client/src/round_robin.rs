//! Flow control: bounds the data in transit to and from the iods.
//!
//! A client has one link and the iods together have many. If all of them send at once, data waits
//! before the client's link or is lost, and some connections then receive far less bandwidth than
//! others. Many clients that send to one iod have the same effect on its link. The client therefore
//! transfers data in parts and limits the parts in transit, over all iods that have work.
//!
//! Rules:
//! 1. The amount in transit is at most the amount that completed a moment ago, and may always be
//!    one part of [`PART_BYTES_MIN`] at several iods ([`LEAST_BYTES`], [`Flow`]); other parts wait.
//!    So the bound grows until the link is full if the iods are near, and it stays at the amount
//!    that keeps a full link full.
//! 2. The next part goes to the iod with the least data in transit, so that a slow iod has the
//!    fewest parts. Among equals the order is round robin. All clients use the same cyclic order of
//!    iods, but each client begins at its own position: clients that read one file sequentially
//!    follow each other and do not all wait for the same iod. A part without competing iods does
//!    not move the position, since otherwise all clients that open one file would arrive at the
//!    same position.
//! 3. At one iod the order is first come, first served. Within one file the lowest offset goes
//!    first, since programs read sequentially, but at most [`OVERTAKERS`] parts overtake another.
//! 4. The timeout of a call begins when its part may go.

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

/// The parts of a transfer. This many parts are in transit if all iods have some, but a part is not
/// so small that the overhead of calls dominates, and not larger than a READ.
const PARTS: u64 = 16;
const PART_BYTES_MIN: u64 = 128 << 10;
const PART_BYTES_MAX: u64 = 1 << 20;

/// The minimum bound of the data in transit, in bytes. Measured: if the queue of a link holds a
/// tenth of a second at 100 Mbit/s, 2 MiB that arrived at once from several iods were lost in part.
/// An iod with a larger product of bandwidth and delay is not used fully.
const LEAST_BYTES: u64 = 1280 << 10;

/// The maximum number of later parts that may overtake a part of the same file at a lower offset:
/// more than the waiting parts of one sequential read, and few enough to bound the wait.
const OVERTAKERS: u64 = 256;

/// The flow control of one direction.
pub(crate) struct Turns {
    clock: Session,
    state: Mutex<State>,
}

struct State {
    flow: Flow,
    /// The data in transit for each iod that was ever used; a client knows few iods.
    out: BTreeMap<SocketAddr, u64>,
    /// The waiting parts, in order of arrival at each iod.
    waiting: VecDeque<Waiting>,
    next: u64,
    /// The round-robin position of the next iod.
    hand: u64,
}

/// A part of a transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) server: SocketAddr,
    pub(crate) file: NodeId,
    /// The offset in the file.
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

struct Waiting {
    /// The number by arrival.
    number: u64,
    /// The iod's index in round-robin order.
    position: u64,
    part: Part,
    waker: Waker,
}

/// A part in transit, until it is dropped.
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    part: Part,
}

/// An entry in the queue, removed when it is dropped.
struct Place<'a> {
    turns: &'a Turns,
    number: Option<u64>,
    part: Part,
}

/// Returns the round-robin index of an iod, or the start index of a client. Different releases of
/// Rust may hash differently; clients with different orders are only slower together.
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

    /// Adds a part to the queue and returns its unique number.
    fn wait(&mut self, part: Part, waker: Waker) -> u64 {
        let number = self.next;
        self.next += 1;
        let position = position(part.server);
        self.waiting.push_back(Waiting { number, position, part, waker });
        number
    }

    /// Returns true if the part may be in transit now, and counts it.
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

    /// Returns the position of the next part in the queue.
    fn first(&mut self) -> Option<usize> {
        let order = |waiting: &Waiting| {
            let out = self.out.get(&waiting.part.server).copied().unwrap_or_default();
            (out, waiting.position.wrapping_sub(self.hand))
        };
        // Among equals, the first in the queue.
        let first = (0..self.waiting.len()).min_by_key(|at| order(&self.waiting[*at]))?;
        let Part { server, file, .. } = self.waiting[first].part;
        let alike = (first..self.waiting.len()).filter(|at| {
            let part = self.waiting[*at].part;
            (part.server, part.file) == (server, file)
        });
        let oldest = alike.clone().map(|at| self.waiting[at].number).min()?;
        let able = alike.filter(|at| self.waiting[*at].number - oldest < OVERTAKERS);
        let next = able.min_by_key(|at| self.waiting[*at].part.offset)?;
        // The part that was first takes the other's position in the queue of this file.
        self.waiting.swap(first, next);
        Some(first)
    }

    /// Starts the next part if there is room, and counts it.
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

    /// Starts all parts for which there is room.
    fn go_on(&mut self) -> Vec<Waker> {
        core::iter::from_fn(|| self.go()).map(|waiting| waiting.waker).collect()
    }
}

impl Turns {
    /// Creates the flow control of one direction, with the clock of a session.
    pub(crate) fn new(clock: Session, order: u64) -> Self {
        let state = Mutex::new(State::new(clock.now(), order));
        Self { clock, state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the present size of parts; a higher throughput permits larger ones.
    pub(crate) fn part_bytes(&self) -> u64 {
        (self.state().flow.most() / PARTS).clamp(PART_BYTES_MIN, PART_BYTES_MAX)
    }

    /// Waits until a part may be in transit, and counts it.
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
    /// Records that the whole part arrived.
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
            // The part was started, but its task was dropped before it took the turn.
            self.turns.end(self.part);
        }
    }
}
