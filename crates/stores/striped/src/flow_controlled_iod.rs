//! Flow control for the READs of all iods that share the metaserver's own link.
//!
//! Many iods that answer at once send faster than one link carries. Their data then queues before
//! the link or is lost, each reply has a small part of the link, and all replies are late: a link
//! reaches about half of its capacity. A reply that has the link nearly for itself does not suffer
//! from this.
//!
//! Rules:
//! 1. The outstanding bytes are limited to the bytes that arrived recently, but two large READs are
//!    always permitted, or three with several metaservers ([`Flow`]); other READs wait for their
//!    turn. So while iods answer within that time, the bound grows until the link is full or no
//!    READ waits; once a link is full, the queue before it does not grow further.
//! 2. The next turn goes to the iod with the fewest outstanding READs, then to the oldest READ: an
//!    iod that is slow or silent has one turn as long as READs of other iods wait.
//! 3. A READ without a reply within [`HELD_MAX`] no longer counts, and a READ at an iod that is
//!    away never counts.
//! 4. Small READs need no turn.
//! 5. With several metaservers, each serves the iods in round-robin order from its own start: among
//!    the iods with the fewest outstanding READs, the one after the last served iod has the turn,
//!    and all READs that arrive together enter the queue first. Otherwise, clients that read one
//!    file from its start through several metaservers would make all of them read the same stripe,
//!    and then the next: from one iod, while the links of the others are idle.

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

/// The longest time for which one READ counts.
const HELD_MAX: Duration = Duration::from_secs(1);

/// The smallest READ that waits for its turn.
const TURN_BYTES: u32 = 64 << 10;

/// The outstanding bytes that are always permitted: two large READs, so that a link is not idle
/// from one to the other.
const LEAST_BYTES: u64 = 2 << 20;

/// The same limit with several metaservers: if another metaserver reads from the same iod, a READ
/// has half of the iod's link, and the third READ fills the metaserver's own.
const LEAST_AMONG_BYTES: u64 = 3 << 20;

/// The schedule of the READs of several iods.
pub struct Pace {
    clock: Session,
    state: Mutex<State>,
}

struct State {
    flow: Flow,
    /// The number of READs of each iod that have their turn.
    turns: Vec<u32>,
    waiting: VecDeque<Waiting>,
    /// The round-robin state, if there are several metaservers.
    round: Option<Round>,
}

/// The round-robin order of the iods.
struct Round {
    /// The number of this metaserver, and the number of metaservers.
    number: usize,
    metaservers: usize,
    /// The iod after the last served one, once there is one.
    next: Option<usize>,
}

impl Round {
    /// Returns the distance to an iod in round-robin order.
    fn way(&self, iod: usize, iods: usize) -> usize {
        let next = self.next.unwrap_or(self.number * iods / self.metaservers);
        (iod + iods - next % iods) % iods
    }
}

/// A READ that waits for its turn.
struct Waiting {
    iod: usize,
    bytes: u64,
    go_on: oneshot::Sender<Turn>,
}

/// An iod whose READs take turns with the READs of other iods.
pub struct FlowControlledIod {
    iod: Arc<dyn Iod>,
    number: usize,
    pace: Arc<Pace>,
}

/// A READ that counts until this value is dropped.
struct Turn {
    pace: Arc<Pace>,
    iod: usize,
    bytes: u64,
}

impl State {
    /// Gives a READ its turn, if the limit permits.
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

    /// Returns the next READ and counts it, if the limit permits.
    fn next(&mut self) -> Option<Waiting> {
        let waiting = self.waiting.iter().enumerate();
        let iods = self.turns.len();
        // Among equal entries the minimum is the first one.
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

    /// Gives waiting READs their turns, as far as the limit permits.
    fn go_on(self: &Arc<Self>) {
        loop {
            let next = self.state().next();
            let Some(Waiting { iod, bytes, go_on }) = next else { return };
            let turn = Turn { pace: Arc::clone(self), iod, bytes };
            if let Err(turn) = go_on.send(turn) {
                // The task that waited for this turn no longer exists.
                turn.cancel();
            }
        }
    }
}

/// Yields once: completes at the next poll, and requests this poll immediately.
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
    /// Returns the turn without giving it to a waiting READ.
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
                // The iod was found to be away in the meantime: READs in the queue wait for other
                // iods.
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
