//! Flow control: bounds the data in transit to and from the iods.
//!
//! A client has one network link, and the iods together have many links. If all iods send at once,
//! data waits before the client's link or is lost, and some connections then receive far less
//! bandwidth than other connections. Many clients that send to one iod have the same effect on the
//! link of that iod. The client therefore transfers data in parts, and bounds the parts in transit
//! over all iods together.
//!
//! Rules:
//! 1. A bound limits the number of bytes in transit; parts beyond the bound wait. The bound follows
//!    the number of bytes that arrived within a recent interval (see [`Flow`]), and is at least
//!    [`LEAST_BYTES`], which permits one part of [`PART_BYTES_MIN`] at each of several iods. If the
//!    iods are near, the bound grows until the client's link is fully used, and then stays at the
//!    amount that keeps the link fully used.
//! 2. The next part goes to the iod with the least data in transit, so that a slow iod gets the
//!    fewest parts. Among iods with equal amounts in transit the order is round robin. All clients
//!    use the same cyclic order of iods, but each client begins at its own position: clients that
//!    read one file sequentially follow each other and do not all wait for the same iod. If only
//!    one iod has waiting parts, the start of a part does not change the client's position.
//!    Otherwise all clients that open the same file would arrive at the same position.
//! 3. The parts for one iod go in the order of their arrival. Within one file the lowest offset
//!    goes first, since programs read sequentially, but at most [`OVERTAKERS`] later parts may
//!    overtake a part.
//! 4. The timeout of a call begins when its part leaves the queue.

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

/// The desired number of parts in transit, from which the client computes the size of a part. A
/// part is nevertheless not so small that the overhead of calls dominates, and not larger than a
/// READ.
const PARTS: u64 = 16;
const PART_BYTES_MIN: u64 = 128 << 10;
const PART_BYTES_MAX: u64 = 1 << 20;

/// The minimum bound of the data in transit, in bytes. Measured: if the queue of a link holds a
/// tenth of a second at 100 Mbit/s, 2 MiB that arrived at once from several iods were lost in part.
/// A link with a larger product of bandwidth and delay is not fully used at this bound.
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
    /// The number of bytes in transit for each iod that the client has ever used. Entries are never
    /// removed, because a client uses few iods.
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
    /// The sequence number of the part, in order of arrival.
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

/// The guard of a waiting part: the drop of this value removes the part from the queue.
struct Place<'a> {
    turns: &'a Turns,
    number: Option<u64>,
    part: Part,
}

/// Returns the round-robin index of an iod, or the start index of a client. Clients that are built
/// with different releases of Rust may compute different orders; they are then only slower when
/// they read the same file.
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

    /// Returns true if the part may be in transit now, and counts its bytes as in transit.
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

    /// Returns the queue position of the part that goes next.
    fn first(&mut self) -> Option<usize> {
        let order = |waiting: &Waiting| {
            let out = self.out.get(&waiting.part.server).copied().unwrap_or_default();
            (out, waiting.position.wrapping_sub(self.hand))
        };
        // Among iods with the same order, `min_by_key` selects the part that is first in the queue.
        let first = (0..self.waiting.len()).min_by_key(|at| order(&self.waiting[*at]))?;
        let Part { server, file, .. } = self.waiting[first].part;
        let alike = (first..self.waiting.len()).filter(|at| {
            let part = self.waiting[*at].part;
            (part.server, part.file) == (server, file)
        });
        let oldest = alike.clone().map(|at| self.waiting[at].number).min()?;
        let able = alike.filter(|at| self.waiting[*at].number - oldest < OVERTAKERS);
        let next = able.min_by_key(|at| self.waiting[*at].part.offset)?;
        // The part with the lowest offset goes first. The overtaken part takes the queue position
        // of that part, so that the order of all other parts is unchanged.
        self.waiting.swap(first, next);
        Some(first)
    }

    /// Starts the next part if the bound permits it, and counts its bytes as in transit.
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

    /// Starts all parts that the bound permits, and returns the wakers of their tasks.
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

    /// Returns the current size of a part, in bytes; a higher throughput permits larger parts.
    pub(crate) fn part_bytes(&self) -> u64 {
        (self.state().flow.most() / PARTS).clamp(PART_BYTES_MIN, PART_BYTES_MAX)
    }

    /// Waits until a part may be in transit, and counts its bytes as in transit until the result is
    /// dropped.
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
    /// Records that the transfer of the whole part has succeeded.
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
            // The part is no longer in the queue: it was started and counted as in transit, but its
            // task was dropped before it could continue. The count must be reduced again.
            self.turns.end(self.part);
        }
    }
}
