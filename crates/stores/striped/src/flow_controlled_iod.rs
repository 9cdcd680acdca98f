//! Flow control for the READs of all iods that share the metaserver's own link.
//!
//! If many iods answer at once, they send faster than the link of the metaserver can carry. Their
//! data then queues in the network or is lost, each reply gets a small share of the link, and all
//! replies are late. The link reaches about half of its capacity. If only a few replies share the
//! link, this does not happen.
//!
//! Rules:
//! 1. The number of outstanding bytes is limited to the number of bytes that arrived in the last
//!    interval ([`Flow`]), and to at least two large READs, or three with several metaservers.
//!    Other READs wait in a queue. While iods answer within the interval, the limit grows until the
//!    link is full or no READ waits. Once the link is full, the queue in the network does not grow
//!    further.
//! 2. The next READ to start is a READ of the iod with the fewest outstanding READs, and among
//!    these the oldest READ. So a slow or silent iod has one outstanding READ while READs of other
//!    iods wait.
//! 3. A READ without a reply within [`HELD_MAX`] no longer counts as outstanding, and a READ at an
//!    unreachable iod never counts.
//! 4. Small READs never wait and do not count.
//! 5. If there are several metaservers, each metaserver serves the iods in round-robin order and
//!    starts at a different iod: among the iods with the fewest outstanding READs, it chooses the
//!    first one after the last served iod. All READs that arrive together enter the queue before
//!    one of them starts. Otherwise, clients that read one file from its start through several
//!    metaservers would make all metaservers read the same stripe from the same iod, while the
//!    links of the other iods are idle.

use core::future::poll_fn;
use core::task::Poll;
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_channel::oneshot;
use futures_util::future::{Either, select};
use leasehold_core::flow::Flow;
use leasehold_fs::{FsError, MaybeReady, Owner, Spot, Stability, Verifier};
use leasehold_session::Session;

use crate::iod::{Extent, Iod, ObjectName, Room, Step, Written};

/// The longest time for which one READ counts as outstanding.
const HELD_MAX: Duration = Duration::from_secs(1);

/// The size of the smallest READ that flow control applies to.
const TURN_BYTES: u32 = 64 << 10;

/// The number of outstanding bytes that is always permitted: two large READs, so that the link is
/// not idle between two READs.
const LEAST_BYTES: u64 = 2 << 20;

/// The number of outstanding bytes that is always permitted with several metaservers: three large
/// READs. If two metaservers read from one iod, each READ gets half of the iod's link, and a third
/// READ is necessary to fill the metaserver's own link.
const LEAST_AMONG_BYTES: u64 = 3 << 20;

/// The schedule of the READs of several iods.
pub struct Pace {
    clock: Session,
    state: Mutex<State>,
}

struct State {
    flow: Flow,
    /// The number of outstanding READs of each iod that count.
    turns: Vec<u32>,
    waiting: VecDeque<Waiting>,
    /// The round-robin state, if there are several metaservers.
    round: Option<Round>,
}

/// The round-robin order of the iods.
struct Round {
    /// The number of this metaserver among all metaservers, from zero.
    number: usize,
    metaservers: usize,
    /// The iod after the last served iod; `None` before the first READ.
    next: Option<usize>,
}

impl Round {
    /// Returns the distance from the next iod to this iod in round-robin order.
    fn way(&self, iod: usize, iods: usize) -> usize {
        let next = self.next.unwrap_or(self.number * iods / self.metaservers);
        (iod + iods - next % iods) % iods
    }
}

/// A READ in the queue.
struct Waiting {
    iod: usize,
    bytes: u64,
    go_on: oneshot::Sender<Turn>,
}

/// An iod whose READs share one flow control with the READs of other iods.
pub struct FlowControlledIod {
    iod: Arc<dyn Iod>,
    number: usize,
    pace: Arc<Pace>,
}

/// An outstanding READ, which counts until this value is dropped.
struct Turn {
    pace: Arc<Pace>,
    iod: usize,
    bytes: u64,
}

impl State {
    /// Counts a READ as outstanding, if the limit permits; otherwise returns false.
    fn take(&mut self, iod: usize, bytes: u64) -> bool {
        let taken = self.flow.take(bytes);
        self.turns[iod] += u32::from(taken);
        if let (true, Some(round)) = (taken, &mut self.round) {
            round.next = Some(iod + 1);
        }
        taken
    }

    fn give_back(&mut self, iod: usize, bytes: u64) {
        self.flow.give_back(bytes);
        self.turns[iod] -= 1;
    }

    /// Takes the next READ out of the queue and counts the READ as outstanding, if the limit
    /// permits.
    fn next(&mut self) -> Option<Waiting> {
        let waiting = self.waiting.iter().enumerate();
        let iods = self.turns.len();
        // `min_by_key` returns the first of equal entries, which is the oldest READ.
        let (next, _) = waiting.min_by_key(|(_, waiting)| {
            let way = self.round.as_ref().map(|round| round.way(waiting.iod, iods));
            (self.turns[waiting.iod], way)
        })?;
        let Waiting { iod, bytes, .. } = self.waiting[next];
        if self.take(iod, bytes) { self.waiting.remove(next) } else { None }
    }
}

impl Pace {
    /// Creates a schedule that uses the clock of a session.
    #[must_use]
    pub fn new(clock: Session) -> Self {
        let flow = Flow::new(clock.now(), LEAST_BYTES);
        let (turns, waiting, round) = (Vec::new(), VecDeque::new(), None);
        let state = State { flow, turns, waiting, round };
        Self { clock, state: Mutex::new(state) }
    }

    /// Configures the schedule for metaserver `number` of `metaservers`.
    #[must_use]
    pub fn one_of(self, number: usize, metaservers: usize) -> Self {
        {
            let mut state = self.state();
            state.round = Some(Round { number, metaservers: metaservers.max(1), next: None });
            state.flow = Flow::new(self.clock.now(), LEAST_AMONG_BYTES);
        }
        self
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn turn(self: &Arc<Self>, iod: usize, bytes: u64) -> Turn {
        let (comes, goes_round) = {
            let mut state = self.state();
            let goes_round = state.round.is_some();
            if !goes_round && state.waiting.is_empty() && state.take(iod, bytes) {
                return Turn { pace: Arc::clone(self), iod, bytes };
            }
            let (go_on, comes) = oneshot::channel();
            state.waiting.push_back(Waiting { iod, bytes, go_on });
            (comes, goes_round)
        };
        if goes_round {
            behind_what_came_together().await;
            self.go_on();
        }
        comes.await.expect("a waiting READ is released only with a turn")
    }

    /// Starts waiting READs, as far as the limit permits.
    fn go_on(self: &Arc<Self>) {
        loop {
            let next = self.state().next();
            let Some(Waiting { iod, bytes, go_on }) = next else { return };
            let turn = Turn { pace: Arc::clone(self), iod, bytes };
            if let Err(turn) = go_on.send(turn) {
                // The task of this READ was dropped. Return its bytes without starting another READ
                // here; the loop does this.
                turn.cancel();
            }
        }
    }
}

/// Yields once, so that all READs that arrived together are in the queue.
async fn behind_what_came_together() {
    let mut was_here = false;
    poll_fn(|context| {
        if core::mem::replace(&mut was_here, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl Turn {
    /// Removes the READ from the count without starting a waiting READ.
    fn cancel(mut self) {
        self.pace.state().give_back(self.iod, self.bytes);
        self.bytes = 0;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.pace.state().give_back(self.iod, self.bytes);
            self.pace.go_on();
        }
    }
}

impl FlowControlledIod {
    /// Adds an iod to a schedule.
    #[must_use]
    pub fn new(iod: Arc<dyn Iod>, pace: Arc<Pace>) -> Self {
        let number = {
            let turns = &mut pace.state().turns;
            turns.push(0);
            turns.len() - 1
        };
        Self { iod, number, pace }
    }
}

impl Iod for FlowControlledIod {
    fn extent(&self, object: ObjectName) -> MaybeReady<'_, Result<Extent, FsError>> {
        self.iod.extent(object)
    }

    fn read(
        &self,
        object: ObjectName,
        offset: u64,
        count: u32,
    ) -> MaybeReady<'_, Result<Bytes, FsError>> {
        if count < TURN_BYTES {
            return self.iod.read(object, offset, count);
        }
        MaybeReady::later(async move {
            if self.iod.is_away() {
                return self.iod.read(object, offset, count).await;
            }
            let turn = self.pace.turn(self.number, count.into()).await;
            if self.iod.is_away() {
                // The iod has become unreachable in the meantime. Do not count this READ any
                // longer, so that READs of other iods can start.
                drop(turn);
                return self.iod.read(object, offset, count).await;
            }
            let clock = &self.pace.clock;
            let held = core::pin::pin!(clock.sleep(HELD_MAX));
            match select(self.iod.read(object, offset, count), held).await {
                Either::Left((done, _)) => {
                    if let Ok(data) = &done {
                        self.pace.state().flow.came(data.len() as u64, clock.now());
                    }
                    done
                }
                Either::Right(((), read)) => {
                    drop(turn);
                    read.await
                }
            }
        })
    }

    fn write(
        &self,
        object: ObjectName,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> MaybeReady<'_, Result<Written, FsError>> {
        self.iod.write(object, offset, data, stability)
    }

    fn resize(&self, object: ObjectName, size: u64) -> MaybeReady<'_, Result<Extent, FsError>> {
        self.iod.resize(object, size)
    }

    fn commit(&self, object: ObjectName) -> MaybeReady<'_, Result<Verifier, FsError>> {
        self.iod.commit(object)
    }

    fn remove(&self, object: ObjectName) -> MaybeReady<'_, Result<(), FsError>> {
        self.iod.remove(object)
    }

    fn give(
        &self,
        object: ObjectName,
        owner: Owner,
    ) -> MaybeReady<'_, Result<Option<Spot>, FsError>> {
        self.iod.give(object, owner)
    }

    fn list(&self, first: u8) -> MaybeReady<'_, Result<Vec<ObjectName>, FsError>> {
        self.iod.list(first)
    }

    fn verifier(&self) -> MaybeReady<'_, Result<Verifier, FsError>> {
        self.iod.verifier()
    }

    fn probe(&self) -> MaybeReady<'_, Result<(), FsError>> {
        self.iod.probe()
    }

    fn space(&self) -> MaybeReady<'_, Result<Room, FsError>> {
        self.iod.space()
    }

    fn is_away(&self) -> bool {
        self.iod.is_away()
    }

    fn connections(&self) -> u64 {
        self.iod.connections()
    }

    fn take_turn(&self, step: Step) -> MaybeReady<'_, Result<(), FsError>> {
        self.iod.take_turn(step)
    }

    fn needs_judgement(&self) -> bool {
        self.iod.needs_judgement()
    }

    fn older(&self) -> Option<u64> {
        self.iod.older()
    }
}
