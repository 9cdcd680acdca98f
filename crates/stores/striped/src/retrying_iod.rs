//! An iod with a failure detector: calls wait for it for a limited time, and a change that has
//! begun always completes.
//!
//! Rules:
//! 1. A call waits until the iod has been silent for [`Timeouts::later`], and then returns a retry
//!    status. An iod that is busy with other calls is not silent, so the store does not repeat
//!    requests to it. Neither is an iod silent while data moves on its connections, however slow
//!    the link is: the store does not send data twice that is still in transit. See
//!    [`Traffic::moves`]. In any case one call waits at most for [`Timeouts::give_up`] plus
//!    [`Timeouts::later`], and before this for the same time at most behind an abandoned change.
//! 2. Once the iod has been silent for [`Timeouts::give_up`], such a call fails. The iod counts as
//!    silent only while requests are outstanding: a short absence says nothing about a period
//!    without requests. So the store probes a silent iod repeatedly until it answers, even if no
//!    caller needs it.
//! 3. The store keeps an abandoned change, because the iod may execute it at any time. The next
//!    call for the same object waits behind it, so that no old change runs after a newer one.
//! 4. If the iod does not report its room soon, the last known room counts: the caller may have
//!    little time, such as a client that must renew a lease, and the room changes slowly. If the
//!    reply is overdue for longer than the iod may be silent, the caller waits for it, and so
//!    detects that the iod is away.
//! 5. Every call drives the abandoned changes of all objects, and all tasks that wait for one wake
//!    up when it completes. Such a wake-up may run a caller's work immediately
//!    (`leasehold_session::spawn`): during a poll the task holds no lock that this work waits for.

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

/// The maximum number of abandoned changes: at this number new calls return a retry status at once.
const LEFT_MAX: usize = 1024;

/// If the last failed call is longer ago than this, as after a pause of this machine, the iod does
/// not count as silent for the time in between.
const AGAIN_MAX: Duration = Duration::from_secs(20);

/// The timeout of a query for the room of an iod that has reported it before.
const ROOM_PATIENCE: Duration = Duration::from_millis(250);

/// The number of checks for traffic in the time that an iod may be silent.
const LOOKS: u32 = 8;

/// The timeouts for an iod that is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// The silence of the iod after which a call returns a retry status.
    pub later: Duration,
    /// The silence of the iod after which a call fails.
    pub give_up: Duration,
}

/// An iod with a failure detector.
pub struct RetryingIod {
    /// A weak reference for the task that probes a silent iod, so that the task does not keep it
    /// alive.
    me: Weak<Self>,
    iod: Arc<dyn Iod>,
    clock: Session,
    patience: Timeouts,
    state: Mutex<State>,
    /// Abandoned changes. No task waits for this lock, because its holder may run other tasks'
    /// work.
    left: Mutex<FuturesUnordered<Left>>,
    /// True if the task that polls the abandoned changes must poll once more.
    again: AtomicBool,
    waiting: Arc<Waiting>,
}

#[derive(Default)]
struct State {
    /// The start of the silence of the iod while requests are outstanding.
    silent_since: Option<Time>,
    /// True if a task probes the iod until it answers.
    is_asked_on: bool,
    /// The time of the last failed call.
    given_up: Option<Time>,
    /// The time of the last reply, or of the last movement of data on the connections.
    heard: Option<Time>,
    /// The time of the last traffic check, and the traffic at that time.
    seen: Option<(Time, Traffic)>,
    /// Changes abandoned since the last poll, which will join the older ones.
    given_up_on: Vec<Left>,
    /// The last room that the iod reported.
    room: Option<Room>,
    /// The time since which a reply about the room is overdue, and the time of the last query for
    /// it.
    owes_room: Option<(Time, Time)>,
    /// The number of abandoned changes.
    left: usize,
    /// The number of abandoned changes of each object.
    left_of: BTreeMap<ObjectName, usize>,
}

impl State {
    /// Returns the time since which the reply about the room is overdue, and the time of the last
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

    /// Makes a call that is dropped on timeout.
    async fn asked<T>(&self, object: Option<ObjectName>, work: Work<T>) -> Result<T, FsError> {
        self.waited_for(object, work).await.unwrap_or_else(|(error, _)| Err(error))
    }

    /// Makes a change, which continues after a timeout.
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
                // From now on the change wakes the tasks that wait behind it, and not its caller.
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
        // The request for this call starts now, so its silence starts now at the earliest.
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
            // Register the waker first, so that no completion in between is missed.
            place.wait(context.waker());
            self.take_on();
            if self.state().left_of.contains_key(&object) { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }

    /// Polls the abandoned changes, or makes the task that is polling them poll once more.
    fn take_on(&self) {
        if self.left_count() == 0 {
            return;
        }
        // Both sides use read-modify-write operations on the flag. If this one comes too late for
        // the check below, it follows the check in the order of the flag, and so also the release
        // of the lock.
        self.again.swap(true, Ordering::AcqRel);
        loop {
            let mut left = match self.left.try_lock() {
                Ok(left) => left,
                Err(TryLockError::Poisoned(left)) => left.into_inner(),
                // The holder of the lock checks once more after it releases the lock.
                Err(TryLockError::WouldBlock) => return,
            };
            self.again.swap(false, Ordering::AcqRel);
            let ended = self.poll(&mut left);
            drop(left);
            if ended {
                self.waiting.wake_all();
            }
            // The check does not clear the flag: only the holder of the lock clears a request.
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

    /// Completes when the iod has been silent for long enough, or when this one call has had no
    /// reply for far longer.
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

    /// Returns the last known room if the reply to that query, and every later reply, is overdue.
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

    /// Records an overdue reply about the room; returns the last known room. A separate task checks
    /// if the iod is silent, without the callers that need the room.
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

    /// Returns true if the probes must continue; if not, the next silence starts them again.
    fn is_to_be_asked_on(&self) -> bool {
        let mut state = self.state();
        state.is_asked_on = state.silent_since.is_some();
        state.is_asked_on
    }
}

/// Probes a silent iod until it answers, or until it is no longer in use.
async fn ask_on(patient: Weak<RetryingIod>, clock: Session) {
    loop {
        clock.sleep(IOD_PROBE_INTERVAL).await;
        let Some(patient) = patient.upgrade() else { return };
        if !patient.is_to_be_asked_on() {
            return;
        }
        // The call records its own result.
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

/// The registration of one waiting task; dropped when it stops waiting.
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
        // The previous waker is dropped after the lock is released: it may hold the last reference
        // to a task.
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
