//! READs of all iods that share the metaserver's own link: asked for in an order.
//!
//! Many iods that answer at once send faster than one link carries. What they send then waits before
//! it or is lost, each answer has a small part of the link, and all come late: a link gives about
//! half of what it could. An answer that has the link nearly alone does not.
//!
//! Rules:
//! 1. What is asked for and not here yet is at most what came a moment ago, and may always be two
//!    large READs, or three where there are several metaservers ([`Flow`]); others wait for their
//!    turn. So where iods answer within that time the bound grows until the link is full or nobody
//!    waits, and where a link is full, what waits before it is no more.
//! 2. The turn is first that of iods of which the least is asked for, then of who came first: one
//!    that is slow or silent has one turn, as long as others wait for theirs.
//! 3. What has not come within [`HELD_MAX`] counts no more, and what is asked of an iod that is away
//!    never does.
//! 4. Small READs have no turn.
//! 5. One of several metaservers goes round the iods from a place of its own: of those of which the
//!    least is asked for, the one behind the last has the turn, and what comes in together is all
//!    taken note of first. Clients that read one file from its start by several metaservers would
//!    have them all ask for the same stripe else, and then for the next: of one iod, while the
//!    others' links are idle.

use core::future::poll_fn;
use core::task::Poll;
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_channel::oneshot;
use futures_util::future::{Either, select};
use leasehold_core::flow::Flow;
use leasehold_fs::{Answer, FsError, Owner, Spot, Stability, Verifier};
use leasehold_session::Session;

use crate::iod::{Extent, Iod, ObjectName, Room, Step, Written};

/// How long one READ counts.
const HELD_MAX: Duration = Duration::from_secs(1);

/// The smallest READ that waits for its turn.
const TURN_BYTES: u32 = 64 << 10;

/// What may be asked for at any rate, in bytes: two large READs, so that a link is not idle from one to
/// the other.
const LEAST_BYTES: u64 = 2 << 20;

/// The same for one of several metaservers: where another reads from the same iod, a READ has half of
/// that one's link, and the third is what fills the metaserver's own.
const LEAST_AMONG_BYTES: u64 = 3 << 20;

/// The order that READs of several iods have.
pub struct Pace {
    clock: Session,
    state: Mutex<State>,
}

struct State {
    flow: Flow,
    /// How many READs of each iod have their turn.
    turns: Vec<u32>,
    waiting: VecDeque<Waiting>,
    /// The way round, of one of several metaservers.
    round: Option<Round>,
}

/// The way round the iods.
struct Round {
    /// The number of the metaserver, and how many there are.
    number: usize,
    metaservers: usize,
    /// The iod behind the last that was asked, once one was.
    next: Option<usize>,
}

impl Round {
    /// How far it is to an iod of so many.
    fn way(&self, iod: usize, iods: usize) -> usize {
        let next = self.next.unwrap_or(self.number * iods / self.metaservers);
        (iod + iods - next % iods) % iods
    }
}

/// A READ that has to wait.
struct Waiting {
    iod: usize,
    bytes: u64,
    go_on: oneshot::Sender<Turn>,
}

/// An iod whose READs have their turn among those of others.
pub struct Paced {
    iod: Arc<dyn Iod>,
    number: usize,
    pace: Arc<Pace>,
}

/// What counts until it is dropped.
struct Turn {
    pace: Arc<Pace>,
    iod: usize,
    bytes: u64,
}

impl State {
    /// Gives a READ its turn, if it can have one.
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

    /// Whose turn it is, if it can be had now; it then counts.
    fn next(&mut self) -> Option<Waiting> {
        let waiting = self.waiting.iter().enumerate();
        let iods = self.turns.len();
        // Of several the first.
        let (next, _) = waiting.min_by_key(|(_, waiting)| {
            let way = self.round.as_ref().map(|round| round.way(waiting.iod, iods));
            (self.turns[waiting.iod], way)
        })?;
        let Waiting { iod, bytes, .. } = self.waiting[next];
        if self.take(iod, bytes) { self.waiting.remove(next) } else { None }
    }
}

impl Pace {
    /// An order, by the clock of a session.
    #[must_use]
    pub fn new(clock: Session) -> Self {
        let flow = Flow::new(clock.now(), LEAST_BYTES);
        let (turns, waiting, round) = (Vec::new(), VecDeque::new(), None);
        let state = State { flow, turns, waiting, round };
        Self { clock, state: Mutex::new(state) }
    }

    /// The order that one of so many metaservers has.
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
        comes.await.expect("who waits is only let go with a turn")
    }

    /// Lets those go whose turn it is.
    fn go_on(self: &Arc<Self>) {
        loop {
            let next = self.state().next();
            let Some(Waiting { iod, bytes, go_on }) = next else { return };
            let turn = Turn { pace: Arc::clone(self), iod, bytes };
            if let Err(turn) = go_on.send(turn) {
                // Nobody waits for it any more.
                turn.cancel();
            }
        }
    }
}

/// Goes on when it is polled again, which is asked for at once.
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
    /// Gives it back without that others go on.
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

impl Paced {
    /// Gives the READs of an iod their turns.
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

impl Iod for Paced {
    fn extent(&self, object: ObjectName) -> Answer<'_, Result<Extent, FsError>> {
        self.iod.extent(object)
    }

    fn read(
        &self,
        object: ObjectName,
        offset: u64,
        count: u32,
    ) -> Answer<'_, Result<Bytes, FsError>> {
        if count < TURN_BYTES {
            return self.iod.read(object, offset, count);
        }
        Answer::later(async move {
            if self.iod.is_away() {
                return self.iod.read(object, offset, count).await;
            }
            let turn = self.pace.turn(self.number, count.into()).await;
            if self.iod.is_away() {
                // It was found out meanwhile: those who wait behind do so for others.
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
    ) -> Answer<'_, Result<Written, FsError>> {
        self.iod.write(object, offset, data, stability)
    }

    fn resize(&self, object: ObjectName, size: u64) -> Answer<'_, Result<Extent, FsError>> {
        self.iod.resize(object, size)
    }

    fn commit(&self, object: ObjectName) -> Answer<'_, Result<Verifier, FsError>> {
        self.iod.commit(object)
    }

    fn remove(&self, object: ObjectName) -> Answer<'_, Result<(), FsError>> {
        self.iod.remove(object)
    }

    fn give(&self, object: ObjectName, owner: Owner) -> Answer<'_, Result<Option<Spot>, FsError>> {
        self.iod.give(object, owner)
    }

    fn list(&self, first: u8) -> Answer<'_, Result<Vec<ObjectName>, FsError>> {
        self.iod.list(first)
    }

    fn verifier(&self) -> Answer<'_, Result<Verifier, FsError>> {
        self.iod.verifier()
    }

    fn probe(&self) -> Answer<'_, Result<(), FsError>> {
        self.iod.probe()
    }

    fn space(&self) -> Answer<'_, Result<Room, FsError>> {
        self.iod.space()
    }

    fn is_away(&self) -> bool {
        self.iod.is_away()
    }

    fn connections(&self) -> u64 {
        self.iod.connections()
    }

    fn take_turn(&self, step: Step) -> Answer<'_, Result<(), FsError>> {
        self.iod.take_turn(step)
    }

    fn needs_judgement(&self) -> bool {
        self.iod.needs_judgement()
    }

    fn older(&self) -> Option<u64> {
        self.iod.older()
    }
}
