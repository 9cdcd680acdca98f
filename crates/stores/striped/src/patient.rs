//! An iod that may be away: calls wait for it a while, and what was begun comes to its end.
//!
//! Rules:
//! 1. A call waits until the iod has been silent for [`Patience::later`], and is then told to come
//!    again. One that is busy with others' calls is not silent: what it sends is not asked for twice.
//! 2. Once the iod has been silent for [`Patience::give_up`], such a call fails.
//! 3. A change that nobody waits for any more is not forgotten: the iod may do it at any time. What
//!    comes next to its object waits behind it, so that no old change is done after a newer one.

use core::future::poll_fn;
use core::pin::{Pin, pin};
use core::task::{Context, Poll};
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::{Either, select};
use leasehold_base::units::Time;
use leasehold_fs::{Answer, FsError, Spot, Stability, Verifier};
use leasehold_session::Session;

use crate::iod::{Extent, Iod, ObjectName, Room, Written};

/// Changes that nobody waits for: with more of them new calls are told to come again at once.
const LEFT_MAX: usize = 1024;

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
    iod: Arc<dyn Iod>,
    clock: Session,
    patience: Patience,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Since when nothing was heard of the iod, though it was asked.
    silent_since: Option<Time>,
    /// When it last answered.
    heard: Option<Time>,
    /// Changes that nobody waits for, by their objects.
    left: BTreeMap<ObjectName, Vec<Left>>,
}

type Left = Pin<Box<dyn Future<Output = Result<(), FsError>> + Send>>;
type Work<T> = Pin<Box<dyn Future<Output = Result<T, FsError>> + Send>>;

impl Patient {
    /// Waits for an iod by the clock of a session.
    #[must_use]
    pub fn new(iod: Arc<dyn Iod>, clock: Session, patience: Patience) -> Self {
        Self { iod, clock, patience, state: Mutex::default() }
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
                let left = Box::pin(work.map(|done| done.map(drop)));
                self.state().left.entry(object).or_default().push(left);
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
        let begun = self.clock.now();
        let mut limit = pin!(self.silence(begun));
        if let Some(object) = object
            && self.has_left()
        {
            if self.state().left.values().map(Vec::len).sum::<usize>() >= LEFT_MAX {
                return Err((self.silent(begun), None));
            }
            let settled = pin!(poll_fn(|context| self.settle(object, context)));
            if let Either::Right(_) = select(settled, limit.as_mut()).await {
                return Err((self.silent(begun), None));
            }
        }
        match select(work, limit).await {
            Either::Left((Err(FsError::Later), _)) => Err((self.silent(begun), None)),
            Either::Left((done, _)) => {
                self.heard();
                Ok(done)
            }
            Either::Right(((), work)) => Err((self.silent(begun), Some(work))),
        }
    }

    fn has_left(&self) -> bool {
        !self.state().left.is_empty()
    }

    /// Waits for what was left of an object.
    fn settle(&self, object: ObjectName, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state();
        let State { silent_since, left, heard } = &mut *state;
        let Some(of_object) = left.get_mut(&object) else { return Poll::Ready(()) };
        of_object.retain_mut(|work| {
            let ended = work.as_mut().poll(context).is_ready();
            if ended {
                *silent_since = None;
                *heard = Some(self.clock.now());
            }
            !ended
        });
        if of_object.is_empty() {
            left.remove(&object);
            return Poll::Ready(());
        }
        Poll::Pending
    }

    /// Ends when the iod has been silent for long enough, and when it did not come to this one call
    /// for far longer.
    async fn silence(&self, begun: Time) {
        let mut from = begun;
        loop {
            self.clock.sleep_until(from + self.patience.later).await;
            match self.state().heard {
                Some(heard) if heard > from && heard.since(begun) < self.patience.give_up => {
                    from = heard;
                }
                Some(_) | None => return,
            }
        }
    }

    fn heard(&self) {
        let now = self.clock.now();
        let mut state = self.state();
        state.silent_since = None;
        state.heard = Some(now);
    }

    /// Takes note that a call which began then was not answered; what its caller is told.
    fn silent(&self, begun: Time) -> FsError {
        let mut state = self.state();
        let last = state.heard.map_or(begun, |heard| heard.max(begun));
        let since = *state.silent_since.get_or_insert(last);
        if self.clock.now().since(since) >= self.patience.give_up {
            FsError::Io
        } else {
            FsError::Later
        }
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

    fn give(&self, object: ObjectName, owner: u32) -> Answer<'_, Result<Option<Spot>, FsError>> {
        let iod = Arc::clone(&self.iod);
        let work = Box::pin(async move { iod.give(object, owner).await });
        Answer::later(self.changed(object, work))
    }

    fn verifier(&self) -> Answer<'_, Result<Verifier, FsError>> {
        let iod = Arc::clone(&self.iod);
        Answer::later(self.asked(None, Box::pin(async move { iod.verifier().await })))
    }

    fn space(&self) -> Answer<'_, Result<Room, FsError>> {
        let iod = Arc::clone(&self.iod);
        Answer::later(self.asked(None, Box::pin(async move { iod.space().await })))
    }

    fn is_away(&self) -> bool {
        self.state().silent_since.is_some()
    }
}
