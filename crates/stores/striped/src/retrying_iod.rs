//! An iod with a failure detector: calls wait for it for a limited time, and a change that has
//! begun always completes.
//!
//! Rules:
//! 1. A call waits until the iod has been silent for [`Timeouts::later`], and then returns a retry
//!    status. An iod that answers other calls is not silent, so the store does not repeat requests
//!    to a busy iod. An iod is not silent either while bytes are sent or received on its
//!    connections, however slow the link is, so the store does not send data again that is still in
//!    transit. See [`Traffic::moves`]. One call waits for its reply for at most
//!    [`Timeouts::give_up`] plus [`Timeouts::later`]. Before that it may wait for an abandoned
//!    change, for at most the same time.
//! 2. If the iod has been silent for [`Timeouts::give_up`], a call that times out fails with an I/O
//!    error instead of a retry status. The iod counts as silent only while requests are
//!    outstanding, because the store cannot judge a period without requests. So the store repeats a
//!    health check of a silent iod until the iod answers, even if no caller needs the iod.
//! 3. The store keeps a change that it abandoned after a timeout, because the iod may execute this
//!    change at any time. The next call for the same stripe object waits until the abandoned change
//!    completes, so that no old change runs after a newer one.
//! 4. If the iod does not report its free space within [`ROOM_PATIENCE`], the caller receives the
//!    last known value: the caller may have little time, such as a client that must renew a lease,
//!    and the free space changes slowly. If the reply is overdue for longer than
//!    [`Timeouts::later`], the caller waits for the reply, and so detects that the iod is
//!    unreachable.
//! 5. Every call polls the abandoned changes of all objects, and the completion of a change wakes
//!    all tasks that wait for abandoned changes. A wake-up may run another caller's task
//!    immediately, on the same thread (`leasehold_session::spawn`). So a task that polls holds no
//!    lock that another task waits for.

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
use leasehold_base::limits::durations::IOD_PROBE_INTERVAL;
use leasehold_base::units::Time;
use leasehold_fs::{FsError, MaybeReady, Owner, Spot, Stability, Verifier};
use leasehold_session::{Session, Traffic, spawn};

use crate::iod::{Extent, Iod, ObjectName, Room, Step, Written};

/// The maximum number of abandoned changes. At this number, new calls for an object return the
/// timeout's error at once.
const LEFT_MAX: usize = 1024;

/// The longest time between the last failed call and the start of the next one for which the iod
/// counts as silent in between. After a longer time, as after a pause of this machine, the silence
/// starts again.
const AGAIN_MAX: Duration = Duration::from_secs(20);

/// The timeout of a query for the free space of an iod that has reported its free space before.
const ROOM_PATIENCE: Duration = Duration::from_millis(250);

/// The number of checks for traffic during [`Timeouts::later`].
const LOOKS: u32 = 8;

/// The timeouts of the failure detector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// The silence of the iod after which a call returns a retry status.
    pub later: Duration,
    /// The silence of the iod after which a call fails.
    pub give_up: Duration,
}

/// An iod with a failure detector.
pub struct RetryingIod {
    /// A weak reference to this value for the task that checks a silent iod, so that the task does
    /// not keep the iod in memory.
    me: Weak<Self>,
    iod: Arc<dyn Iod>,
    clock: Session,
    patience: Timeouts,
    state: Mutex<State>,
    /// Abandoned changes. Tasks only try this lock and never wait for it, because a wake-up under
    /// the lock may run other tasks on this thread.
    left: Mutex<FuturesUnordered<Left>>,
    /// True if the task that polls the abandoned changes must poll once more.
    again: AtomicBool,
    waiting: Arc<Waiting>,
}

#[derive(Default)]
struct State {
    /// The time since which the iod has been silent; `None` if the iod is not silent.
    silent_since: Option<Time>,
    /// True if a task checks the iod until it answers.
    is_asked_on: bool,
    /// The time of the last failed call.
    given_up: Option<Time>,
    /// The time of the last reply, or of the last traffic on the connections.
    heard: Option<Time>,
    /// The time of the last traffic check, and the traffic at that time.
    seen: Option<(Time, Traffic)>,
    /// Changes abandoned since the last poll. The next poll adds them to `RetryingIod::left`.
    given_up_on: Vec<Left>,
    /// The last space that the iod reported.
    room: Option<Room>,
    /// The time since which a reply about the space is overdue, and the time of the last query for
    /// the space.
    owes_room: Option<(Time, Time)>,
    /// The number of abandoned changes.
    left: usize,
    /// The number of abandoned changes of each object.
    left_of: BTreeMap<ObjectName, usize>,
}

impl State {
    /// Returns the time since which the reply about the space is overdue, and the time of the last
    /// query, if the iod has been silent since that query.
    fn room_is_owed(&self) -> Option<(Time, Time)> {
        let is_silence = |asked| self.heard.is_none_or(|heard| heard <= asked);
        self.owes_room.filter(|(_, asked)| is_silence(*asked))
    }

    /// Adds an abandoned change of this object.
    fn leave(&mut self, object: ObjectName, work: Left) {
        self.given_up_on.push(work);
        self.left += 1;
        *self.left_of.entry(object).or_default() += 1;
    }

    /// Removes an abandoned change of this object that has completed.
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

impl RetryingIod {
    /// Wraps an iod, with the clock of a session.
    #[must_use]
    pub fn new(iod: Arc<dyn Iod>, clock: Session, patience: Timeouts) -> Arc<Self> {
        let (state, left, again, waiting) = <_>::default();
        Arc::new_cyclic(|me| {
            let me = Weak::clone(me);
            Self { me, iod, clock, patience, state, left, again, waiting }
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a call. Drops the call on timeout.
    async fn asked<T>(&self, object: Option<ObjectName>, work: Work<T>) -> Result<T, FsError> {
        self.waited_for(object, work).await.unwrap_or_else(|(error, _)| Err(error))
    }

    /// Makes a call that changes the object. On timeout the call becomes an abandoned change, which
    /// continues.
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
                // Poll the change with the waker of the abandoned changes: from now on its
                // completion must wake the tasks that wait for it, and not this caller.
                self.take_on();
                Err(error)
            }
        }
    }

    /// Returns the result of a call, or the error of the timeout, with the call if it has started.
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
        // The request is sent only now. So the silence for this call begins now at the earliest,
        // and excludes the wait above.
        let begun = self.clock.now();
        match select(work, pin!(self.silence(begun))).await {
            Either::Left((Err(FsError::Delay), _)) => Err((self.silent(begun), None)),
            Either::Left((done, _)) => {
                self.heard();
                self.take_on();
                Ok(done)
            }
            Either::Right(((), work)) => Err((self.silent(begun), Some(work))),
        }
    }

    /// Returns the number of abandoned changes.
    fn left_count(&self) -> usize {
        self.state().left
    }

    /// Waits until the object has no abandoned change.
    async fn settled(&self, object: ObjectName) {
        let place = Place::of(&self.waiting);
        poll_fn(|context| {
            // Register the waker before the check, so that a change that completes in between still
            // wakes this task.
            place.wait(context.waker());
            self.take_on();
            if self.state().left_of.contains_key(&object) { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }

    /// Polls the abandoned changes. If another task is polling them, makes that task poll once
    /// more.
    fn take_on(&self) {
        if self.left_count() == 0 {
            return;
        }
        // A request to poll is never lost. If this swap precedes the lock holder's check of the
        // flag (below), the holder sees the request and polls again. If this swap follows the
        // check, it also follows the holder's release of the lock: both are read-modify-write
        // operations with acquire-release order on one flag. Then the `try_lock` below succeeds, or
        // another task holds the lock now and has not checked the flag yet.
        self.again.swap(true, Ordering::AcqRel);
        loop {
            let mut left = match self.left.try_lock() {
                Ok(left) => left,
                Err(TryLockError::Poisoned(left)) => left.into_inner(),
                // The holder of the lock checks the flag after it releases the lock, so it polls
                // for this task.
                Err(TryLockError::WouldBlock) => return,
            };
            self.again.swap(false, Ordering::AcqRel);
            let ended = self.poll(&mut left);
            drop(left);
            if ended {
                self.waiting.wake_all();
            }
            // Check the flag without clearing it: only a task that holds the lock, and so polls
            // afterwards, may clear the request.
            if !self.again.fetch_or(false, Ordering::AcqRel) {
                return;
            }
        }
    }

    /// Polls the abandoned changes; returns true if any of them has completed.
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
            if done != Err(FsError::Delay) {
                state.silent_since = None;
                state.heard = Some(self.clock.now());
            }
        }
        ended
    }

    /// Completes on a timeout: when the iod has been silent for [`Timeouts::later`], or when there
    /// was traffic but this call has had no reply for [`Timeouts::give_up`] plus
    /// [`Timeouts::later`].
    async fn silence(&self, begun: Time) {
        let Timeouts { later, give_up } = self.patience;
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

    /// Returns the traffic on the connections of the iod; all waiting tasks share one sample.
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

    /// Records that a call, started at `begun`, had no reply; returns the error for its caller.
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
        if now.since(since) >= self.patience.give_up { FsError::Io } else { FsError::Delay }
    }

    /// Returns the last known space if a recent query for the space is unanswered, and the iod has
    /// sent no other reply since, but does not yet count as silent.
    fn room_owed(&self) -> Option<Room> {
        let now = self.clock.now();
        let state = self.state();
        let (_, asked) = state.room_is_owed()?;
        state.room.filter(|_| now < asked + IOD_PROBE_INTERVAL && state.silent_since.is_none())
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

    /// Records that the reply about the space is overdue. Returns the last known space, or `None`
    /// if the caller must wait for the reply. Starts a task that checks the iod, so that the
    /// failure detector does not depend on the callers that need the space.
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

    /// Returns true if the health checks must continue. If they end, the next silence of the iod
    /// starts them again.
    fn is_to_be_asked_on(&self) -> bool {
        let mut state = self.state();
        state.is_asked_on = state.silent_since.is_some();
        state.is_asked_on
    }
}

/// Repeats the health check of a silent iod until the iod answers, or until the store no longer
/// uses the iod.
async fn ask_on(patient: Weak<RetryingIod>, clock: Session) {
    loop {
        clock.sleep(IOD_PROBE_INTERVAL).await;
        let Some(patient) = patient.upgrade() else { return };
        if !patient.is_to_be_asked_on() {
            return;
        }
        // The call records in the state that the iod has answered or is still silent, so ignore its
        // result.
        let _ = patient.verifier().await;
    }
}

/// The wakers of the tasks that wait for abandoned changes.
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

/// The registration of one waiting task. The task drops the registration when it stops waiting.
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
        // The variable keeps the previous waker until the lock is released: the waker may hold the
        // last reference to a task, whose destructor must not run under the lock.
        let _before = self.waiting.places().wakers.insert(self.number, waker.clone());
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let _waker = self.waiting.places().wakers.remove(&self.number);
    }
}

impl Iod for RetryingIod {
    fn extent(&self, object: ObjectName) -> MaybeReady<'_, Result<Extent, FsError>> {
        let iod = Arc::clone(&self.iod);
        let work = Box::pin(async move { iod.extent(object).await });
        MaybeReady::later(self.asked(Some(object), work))
    }

    fn read(
        &self,
        object: ObjectName,
        offset: u64,
        count: u32,
    ) -> MaybeReady<'_, Result<Bytes, FsError>> {
        let iod = Arc::clone(&self.iod);
        let work = Box::pin(async move { iod.read(object, offset, count).await });
        MaybeReady::later(self.asked(Some(object), work))
    }

    fn write(
        &self,
        object: ObjectName,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> MaybeReady<'_, Result<Written, FsError>> {
        let iod = Arc::clone(&self.iod);
        let work = Box::pin(async move { iod.write(object, offset, data, stability).await });
        MaybeReady::later(self.changed(object, work))
    }

    fn resize(&self, object: ObjectName, size: u64) -> MaybeReady<'_, Result<Extent, FsError>> {
        let iod = Arc::clone(&self.iod);
        let work = Box::pin(async move { iod.resize(object, size).await });
        MaybeReady::later(self.changed(object, work))
    }

    fn commit(&self, object: ObjectName) -> MaybeReady<'_, Result<Verifier, FsError>> {
        let iod = Arc::clone(&self.iod);
        let work = Box::pin(async move { iod.commit(object).await });
        MaybeReady::later(self.asked(Some(object), work))
    }

    fn remove(&self, object: ObjectName) -> MaybeReady<'_, Result<(), FsError>> {
        let iod = Arc::clone(&self.iod);
        let work = Box::pin(async move { iod.remove(object).await });
        MaybeReady::later(self.changed(object, work))
    }

    fn give(
        &self,
        object: ObjectName,
        owner: Owner,
    ) -> MaybeReady<'_, Result<Option<Spot>, FsError>> {
        let iod = Arc::clone(&self.iod);
        let work = Box::pin(async move { iod.give(object, owner).await });
        MaybeReady::later(self.changed(object, work))
    }

    fn list(&self, first: u8) -> MaybeReady<'_, Result<Vec<ObjectName>, FsError>> {
        let iod = Arc::clone(&self.iod);
        MaybeReady::later(self.asked(None, Box::pin(async move { iod.list(first).await })))
    }

    fn verifier(&self) -> MaybeReady<'_, Result<Verifier, FsError>> {
        let iod = Arc::clone(&self.iod);
        MaybeReady::later(self.asked(None, Box::pin(async move { iod.verifier().await })))
    }

    fn probe(&self) -> MaybeReady<'_, Result<(), FsError>> {
        let iod = Arc::clone(&self.iod);
        MaybeReady::later(self.asked(None, Box::pin(async move { iod.probe().await })))
    }

    fn space(&self) -> MaybeReady<'_, Result<Room, FsError>> {
        MaybeReady::later(self.room())
    }

    fn is_away(&self) -> bool {
        self.state().silent_since.is_some() || self.iod.is_away()
    }

    fn connections(&self) -> u64 {
        self.iod.connections()
    }

    fn take_turn(&self, step: Step) -> MaybeReady<'_, Result<(), FsError>> {
        let iod = Arc::clone(&self.iod);
        MaybeReady::later(self.asked(None, Box::pin(async move { iod.take_turn(step).await })))
    }

    fn needs_judgement(&self) -> bool {
        self.iod.needs_judgement()
    }

    fn older(&self) -> Option<u64> {
        self.iod.older()
    }
}
