//! An iod that may be away: calls wait for it a while, and what was begun comes to its end.
//!
//! Rules:
//! 1. A call waits until the iod has been silent for [`Patience::later`], and is then told to come
//!    again. One that is busy with others' calls is not silent: what it sends is not asked for twice.
//!    Nor is one on the way to or from which something moves, however slow its link is: what is on
//!    its way is not sent twice. See [`Traffic::moves`]. However long that goes on, one call waits for
//!    [`Patience::give_up`] and [`Patience::later`] at most, and as long before that behind a change
//!    that was left.
//! 2. Once the iod has been silent for [`Patience::give_up`], such a call fails. It is silent only
//!    while it is asked: a moment in which it was away says nothing of the time that nobody asked. So
//!    one that is silent is asked again and again until it answers, whether anybody needs it or not.
//! 3. A change that nobody waits for any more is not forgotten: the iod may do it at any time. What
//!    comes next to its object waits behind it, so that no old change is done after a newer one.
//! 4. Its room is what it last was where it does not say so soon: who asks for that may have little
//!    time, as a client whose lease is to be renewed, and it changes slowly. One that owes the answer
//!    for longer than it may be silent is waited for, and so found to be away.
//! 5. Every call takes such changes on, of whatever object, and everybody who waits for one is woken
//!    when one has come to its end. What one of them wakes may be a caller's work, done there and
//!    then (`leasehold_session::spawn`): while they are polled nothing is locked that it waits for.

use core::future::poll_fn;
use core::pin::{Pin, pin};
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::task::Wake;

use bytes::Bytes;
use futures_util::future::{Either, select};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use leasehold_base::units::Time;
use leasehold_fs::{Answer, FsError, Owner, Spot, Stability, Verifier};
use leasehold_session::{Session, Traffic, spawn};

use crate::iod::{Extent, Iod, ObjectName, Room, Step, Written};

/// Changes that nobody waits for: with more of them new calls are told to come again at once.
const LEFT_MAX: usize = 1024;

/// How long after a call that came to nothing a silent iod is asked again.
const AGAIN: Duration = Duration::from_secs(1);

/// An iod that was not asked for so long, as this machine stood still, was not silent meanwhile.
const AGAIN_MAX: Duration = Duration::from_secs(20);

/// How long an iod is waited for that is asked for its room and has said it before.
const ROOM_PATIENCE: Duration = Duration::from_millis(250);

/// How often it is looked whether anything moves, in the time that an iod may be silent.
const LOOKS: u32 = 8;

/// How long an iod that is away is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// How long the iod may be silent before a call is told to come again.
    pub later: Duration,
    /// How long the iod may be silent.
    pub give_up: Duration,
}

/// An iod that may be away.
pub struct Patient {
    /// For what asks a silent iod, which does not keep it.
    me: Weak<Self>,
    iod: Arc<dyn Iod>,
    clock: Session,
    patience: Patience,
    state: Mutex<State>,
    /// Changes that nobody waits for; never waited for, for who polls them may do others' work.
    left: Mutex<FuturesUnordered<Left>>,
    /// Whether who polls them is to do so once more.
    again: AtomicBool,
    waiting: Arc<Waiting>,
}

#[derive(Default)]
struct State {
    /// Since when nothing was heard of the iod, though it was asked.
    silent_since: Option<Time>,
    /// Whether it is asked again and again until it answers.
    is_asked_on: bool,
    /// When a call last came to nothing.
    given_up: Option<Time>,
    /// When it last answered, or something moved on the way to or from it.
    heard: Option<Time>,
    /// When it was last looked what had gone over its connections, and how much that was.
    seen: Option<(Time, Traffic)>,
    /// Changes that nobody waits for any more, on their way to those before.
    given_up_on: Vec<Left>,
    /// What room it last said that it has.
    room: Option<Room>,
    /// Since when it owes the answer to that question, and when it was last asked.
    owes_room: Option<(Time, Time)>,
    /// How many changes there are that nobody waits for.
    left: usize,
    /// How many of them are of each object that has any.
    left_of: BTreeMap<ObjectName, usize>,
}

impl State {
    /// Since when it owes the answer about its room, and when it was last asked: if nothing was heard
    /// since then.
    fn room_is_owed(&self) -> Option<(Time, Time)> {
        let is_silence = |asked| self.heard.is_none_or(|heard| heard <= asked);
        self.owes_room.filter(|(_, asked)| is_silence(*asked))
    }

    /// Nobody waits for a change of this object any more.
    fn leave(&mut self, object: ObjectName, work: Left) {
        self.given_up_on.push(work);
        self.left += 1;
        *self.left_of.entry(object).or_default() += 1;
    }

    /// A change of this object that nobody waited for has come to its end.
    fn end(&mut self, object: ObjectName) {
        if let Some(count) = self.left_of.get_mut(&object) {
            self.left -= 1;
            *count -= 1;
            if *count == 0 {
                self.left_of.remove(&object);
            }
        }
    }
}

type Left = Pin<Box<dyn Future<Output = (ObjectName, Result<(), FsError>)> + Send>>;
type Work<T> = Pin<Box<dyn Future<Output = Result<T, FsError>> + Send>>;

impl Patient {
    /// Waits for an iod by the clock of a session.
    #[must_use]
    pub fn new(iod: Arc<dyn Iod>, clock: Session, patience: Patience) -> Arc<Self> {
        let (state, left, again, waiting) = <_>::default();
        Arc::new_cyclic(|me| {
            let me = Weak::clone(me);
            Self { me, iod, clock, patience, state, left, again, waiting }
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call that is dropped when it is given up.
    async fn asked<T>(&self, object: Option<ObjectName>, work: Work<T>) -> Result<T, FsError> {
        self.waited_for(object, work).await.unwrap_or_else(|(error, _)| Err(error))
    }

    /// A change, which goes on when it is given up.
    async fn changed<T: Send + 'static>(
        &self,
        object: ObjectName,
        work: Work<T>,
    ) -> Result<T, FsError> {
        match self.waited_for(Some(object), work).await {
            Ok(done) => done,
            Err((error, None)) => Err(error),
            Err((error, Some(work))) => {
                let work = Box::pin(work.map(move |done| (object, done.map(drop))));
                self.state().leave(object, work);
                // From now on it wakes those who wait behind it, and not its caller.
                self.take_on();
                Err(error)
            }
        }
    }

    /// What came of a call, or the error of giving it up, with the call where it was begun.
    async fn waited_for<T>(
        &self,
        object: Option<ObjectName>,
        work: Work<T>,
    ) -> Result<Result<T, FsError>, (FsError, Option<Work<T>>)> {
        self.take_on();
        let left = self.left_count();
        if let Some(object) = object
            && left > 0
        {
            let begun = self.clock.now();
            if left >= LEFT_MAX {
                return Err((self.silent(begun), None));
            }
            let (settled, limit) = (pin!(self.settled(object)), pin!(self.silence(begun)));
            if let Either::Right(_) = select(settled, limit).await {
                return Err((self.silent(begun), None));
            }
        }
        // Not before now was it asked for this.
        let begun = self.clock.now();
        match select(work, pin!(self.silence(begun))).await {
            Either::Left((Err(FsError::Later), _)) => Err((self.silent(begun), None)),
            Either::Left((done, _)) => {
                self.heard();
                self.take_on();
                Ok(done)
            }
            Either::Right(((), work)) => Err((self.silent(begun), Some(work))),
        }
    }

    /// How many changes there are that nobody waits for.
    fn left_count(&self) -> usize {
        self.state().left
    }

    /// Waits for what was left of an object.
    async fn settled(&self, object: ObjectName) {
        let place = Place::of(&self.waiting);
        poll_fn(|context| {
            // First, lest it be missed what comes between.
            place.wait(context.waker());
            self.take_on();
            if self.state().left_of.contains_key(&object) { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }

    /// Takes what was left as far as it goes now, or has who does it already look once more.
    fn take_on(&self) {
        if self.left_count() == 0 {
            return;
        }
        // All who change it read what was there: who comes too late for the look below comes behind
        // it, and so behind the lock that was let go before.
        self.again.swap(true, Ordering::AcqRel);
        loop {
            let mut left = match self.left.try_lock() {
                Ok(left) => left,
                Err(TryLockError::Poisoned(left)) => left.into_inner(),
                // Who has it looks once more when it is let go.
                Err(TryLockError::WouldBlock) => return,
            };
            self.again.swap(false, Ordering::AcqRel);
            let ended = self.poll(&mut left);
            drop(left);
            if ended {
                self.waiting.wake_all();
            }
            // Left as it is: only who has the lock takes back what somebody asked for.
            if !self.again.fetch_or(false, Ordering::AcqRel) {
                return;
            }
        }
    }

    /// Polls what was left; whether any of it has come to its end.
    fn poll(&self, left: &mut FuturesUnordered<Left>) -> bool {
        let waker = Waker::from(Arc::clone(&self.waiting));
        let mut context = Context::from_waker(&waker);
        let given_up_on = core::mem::take(&mut self.state().given_up_on);
        left.extend(given_up_on);
        let mut ended = false;
        while let Poll::Ready(Some((object, done))) = left.poll_next_unpin(&mut context) {
            ended = true;
            let mut state = self.state();
            state.end(object);
            if done != Err(FsError::Later) {
                state.silent_since = None;
                state.heard = Some(self.clock.now());
            }
        }
        ended
    }

    /// Ends when the iod has been silent for long enough, and when it did not come to this one call
    /// for far longer.
    async fn silence(&self, begun: Time) {
        let Patience { later, give_up } = self.patience;
        let (mut from, mut now, mut seen) = (begun, begun, self.traffic(begun));
        loop {
            self.clock.sleep_until((now + later / LOOKS).min(from + later)).await;
            now = self.clock.now();
            let then = core::mem::replace(&mut seen, self.traffic(now));
            if seen.moves(then) {
                self.heard();
            }
            match self.state().heard {
                Some(heard) if heard > from && heard.since(begun) < give_up => from = heard,
                Some(_) | None if now >= from + later => return,
                Some(_) | None => {}
            }
        }
    }

    /// What has gone over the connections of the iod; all who wait for it look together.
    fn traffic(&self, now: Time) -> Traffic {
        let mut state = self.state();
        if let Some((at, traffic)) = state.seen
            && now.since(at) < self.patience.later / LOOKS
        {
            return traffic;
        }
        let traffic = self.iod.traffic();
        state.seen = Some((now, traffic));
        traffic
    }

    fn heard(&self) {
        let now = self.clock.now();
        let mut state = self.state();
        state.silent_since = None;
        state.heard = Some(now);
    }

    /// Takes note that a call which began then was not answered; what its caller is told.
    fn silent(&self, begun: Time) -> FsError {
        let now = self.clock.now();
        let mut state = self.state();
        let last = state.heard.map_or(begun, |heard| heard.max(begun));
        let was_asked = state.given_up.replace(now).is_some_and(|at| begun <= at + AGAIN_MAX);
        let since = state.silent_since.filter(|_| was_asked).unwrap_or(last);
        state.silent_since = Some(since);
        let is_asked_on = core::mem::replace(&mut state.is_asked_on, true);
        drop(state);
        if !is_asked_on {
            spawn(ask_on(Weak::clone(&self.me), self.clock.clone()));
        }
        if now.since(since) >= self.patience.give_up { FsError::Io } else { FsError::Later }
    }

    /// The room that it last told, if it has not answered that question for a while, nor any since.
    fn room_owed(&self) -> Option<Room> {
        let now = self.clock.now();
        let state = self.state();
        let (_, asked) = state.room_is_owed()?;
        state.room.filter(|_| now < asked + AGAIN && state.silent_since.is_none())
    }

    async fn room(&self) -> Result<Room, FsError> {
        if let Some(room) = self.room_owed() {
            return Ok(room);
        }
        let iod = Arc::clone(&self.iod);
        let asked = pin!(self.asked(None, Box::pin(async move { iod.space().await })));
        let limit = pin!(self.clock.sleep(ROOM_PATIENCE));
        let told = match select(asked, limit).await {
            Either::Left((told, _)) => told,
            Either::Right(((), asked)) => match self.owe_room() {
                Some(room) => return Ok(room),
                None => asked.await,
            },
        };
        if let Ok(room) = told {
            let mut state = self.state();
            (state.room, state.owes_room) = (Some(room), None);
        }
        told
    }

    /// It does not tell its room soon; what it last was. Whether it is silent is found out without
    /// those who ask for that.
    fn owe_room(&self) -> Option<Room> {
        let now = self.clock.now();
        let mut state = self.state();
        let (since, _) = state.room_is_owed().unwrap_or((now, now));
        state.owes_room = Some((since, now));
        let is_late = state.silent_since.is_some() || now >= since + self.patience.later;
        let room = state.room.filter(|_| !is_late)?;
        drop(state);
        let me = Weak::clone(&self.me);
        spawn(async move {
            if let Some(patient) = me.upgrade() {
                let _ = patient.verifier().await;
            }
        });
        Some(room)
    }

    /// Whether it is to be asked on; where not, the next silence begins that anew.
    fn is_to_be_asked_on(&self) -> bool {
        let mut state = self.state();
        state.is_asked_on = state.silent_since.is_some();
        state.is_asked_on
    }
}

/// Asks a silent iod until it answers, or nobody uses it any more.
async fn ask_on(patient: Weak<Patient>, clock: Session) {
    loop {
        clock.sleep(AGAIN).await;
        let Some(patient) = patient.upgrade() else { return };
        if !patient.is_to_be_asked_on() {
            return;
        }
        // What comes of it is noted.
        let _ = patient.verifier().await;
    }
}

/// Who waits for what was left, each in a place of its own.
#[derive(Default)]
struct Waiting(Mutex<Places>);

#[derive(Default)]
struct Places {
    given: u64,
    wakers: BTreeMap<u64, Waker>,
}

impl Waiting {
    fn places(&self) -> MutexGuard<'_, Places> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake_all(&self) {
        let wakers = core::mem::take(&mut self.places().wakers);
        wakers.into_values().for_each(Waker::wake);
    }
}

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        self.wake_all();
    }
}

/// The place of one who waits, as long as it does.
struct Place<'a> {
    waiting: &'a Waiting,
    number: u64,
}

impl<'a> Place<'a> {
    fn of(waiting: &'a Waiting) -> Self {
        let mut places = waiting.places();
        places.given += 1;
        Self { waiting, number: places.given }
    }

    fn wait(&self, waker: &Waker) {
        // One before it is dropped when nothing is locked: it may be the last of somebody's work.
        let _before = self.waiting.places().wakers.insert(self.number, waker.clone());
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let _waker = self.waiting.places().wakers.remove(&self.number);
    }
}

impl Iod for Patient {
    fn extent(&self, object: ObjectName) -> Answer<'_, Result<Extent, FsError>> {
        let iod = Arc::clone(&self.iod);
        let work = Box::pin(async move { iod.extent(object).await });
        Answer::later(self.asked(Some(object), work))
    }

    fn read(
        &self,
        object: ObjectName,
        offset: u64,
        count: u32,
    ) -> Answer<'_, Result<Bytes, FsError>> {
        let iod = Arc::clone(&self.iod);
        let work = Box::pin(async move { iod.read(object, offset, count).await });
        Answer::later(self.asked(Some(object), work))
    }

    fn write(
        &self,
        object: ObjectName,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> Answer<'_, Result<Written, FsError>> {
        let iod = Arc::clone(&self.iod);
        let work = Box::pin(async move { iod.write(object, offset, data, stability).await });
        Answer::later(self.changed(object, work))
    }

    fn resize(&self, object: ObjectName, size: u64) -> Answer<'_, Result<Extent, FsError>> {
        let iod = Arc::clone(&self.iod);
        let work = Box::pin(async move { iod.resize(object, size).await });
        Answer::later(self.changed(object, work))
    }

    fn commit(&self, object: ObjectName) -> Answer<'_, Result<Verifier, FsError>> {
        let iod = Arc::clone(&self.iod);
        let work = Box::pin(async move { iod.commit(object).await });
        Answer::later(self.asked(Some(object), work))
    }

    fn remove(&self, object: ObjectName) -> Answer<'_, Result<(), FsError>> {
        let iod = Arc::clone(&self.iod);
        let work = Box::pin(async move { iod.remove(object).await });
        Answer::later(self.changed(object, work))
    }

    fn give(&self, object: ObjectName, owner: Owner) -> Answer<'_, Result<Option<Spot>, FsError>> {
        let iod = Arc::clone(&self.iod);
        let work = Box::pin(async move { iod.give(object, owner).await });
        Answer::later(self.changed(object, work))
    }

    fn list(&self, first: u8) -> Answer<'_, Result<Vec<ObjectName>, FsError>> {
        let iod = Arc::clone(&self.iod);
        Answer::later(self.asked(None, Box::pin(async move { iod.list(first).await })))
    }

    fn verifier(&self) -> Answer<'_, Result<Verifier, FsError>> {
        let iod = Arc::clone(&self.iod);
        Answer::later(self.asked(None, Box::pin(async move { iod.verifier().await })))
    }

    fn probe(&self) -> Answer<'_, Result<(), FsError>> {
        let iod = Arc::clone(&self.iod);
        Answer::later(self.asked(None, Box::pin(async move { iod.probe().await })))
    }

    fn space(&self) -> Answer<'_, Result<Room, FsError>> {
        Answer::later(self.room())
    }

    fn is_away(&self) -> bool {
        self.state().silent_since.is_some() || self.iod.is_away()
    }

    fn connections(&self) -> u64 {
        self.iod.connections()
    }

    fn take_turn(&self, step: Step) -> Answer<'_, Result<(), FsError>> {
        let iod = Arc::clone(&self.iod);
        Answer::later(self.asked(None, Box::pin(async move { iod.take_turn(step).await })))
    }

    fn needs_judgement(&self) -> bool {
        self.iod.needs_judgement()
    }

    fn older(&self) -> Option<u64> {
        self.iod.older()
    }
}
