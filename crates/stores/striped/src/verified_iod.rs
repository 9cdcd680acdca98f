//! Detection of rolled-back iods by a monotonic rollback counter, which an iod and its metaserver
//! both store. Names in the code call the counter the `turn` of an iod, the verification `judge`,
//! an accepted iod `Believed` and a rolled-back iod `Older`. The metaserver verifies an iod before
//! a call has an effect at the iod.
//!
//! Criteria, in order of weight:
//! - No caller receives a byte from a rolled-back iod, or a success for a change at such an iod.
//! - The metaserver never refuses an iod that is not rolled back.
//! - A call on a verified connection costs no additional message.
//!
//! Rules:
//! 1. The iod records a new value of the rollback counter before the metaserver stores the value.
//!    So an iod whose recorded counter is less than the metaserver's is rolled back: it is a
//!    backup, a snapshot or an old disk.
//! 2. The metaserver verifies each connection: before the first call on the connection, and after a
//!    call during which the connection changed. Only the verdict on the last connection counts.
//! 3. The metaserver advances the rollback counter when it has verified an iod, and then each
//!    minute if the objects of the iod have changed. So it also detects a later restore of a backup
//!    that was made between two connections.
//! 4. A rolled-back iod stays rolled back, also across a restart of the metaserver, until the iod
//!    reports a counter that is not less than the metaserver's. The metaserver itself sets such a
//!    counter when no file depends on the objects of the iod, or when an administrator accepts the
//!    iod.
//!
//! See `docs/design/0031-iod-turn.md`.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use leasehold_fs::{FsError, MaybeReady, NotedTurns, Owner, Spot, Stability, Verifier};
use leasehold_session::Traffic;
use tokio::sync::Mutex as Turnstile;

use crate::iod::{Extent, Iod, ObjectName, Room, Step, Written};

/// The maximum number of attempts to verify an iod whose connection changes during the
/// verification.
const TRIES: u32 = 16;

/// A log event about the rollback counter of an iod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnNotice {
    /// An iod is rolled back.
    Older {
        /// The number of the iod.
        iod: u16,
        /// The rollback counter that the iod has recorded.
        noted: u64,
        /// The rollback counter of the iod that the metaserver has stored.
        kept: u64,
    },
    /// An iod that was rolled back is accepted again.
    Current(u16),
    /// An iod cannot record a new rollback counter, so the metaserver may not detect a later
    /// rollback of the iod.
    NotNoted(u16, FsError),
}

/// The metaserver's stable storage for the rollback counters of its iods.
pub trait TurnKeeper: Send + Sync {
    /// Stores the rollback counters of all iods on stable storage, in place of the previous ones.
    /// The values of the last call count, also if the calls complete in another order.
    ///
    /// # Errors
    /// The rollback counters cannot be stored.
    fn keep(&self, turns: &BTreeMap<u16, u64>) -> MaybeReady<'_, Result<(), FsError>>;

    /// Reports an event to the administrator.
    fn notice(&self, notice: &TurnNotice);
}

/// The rollback counters of the iods of a volume, as its metaserver has stored them.
#[derive(Default)]
pub struct Turns {
    kept: Mutex<BTreeMap<u16, u64>>,
    /// `None` if the metaserver stores no rollback counters; empty before the call of
    /// [`Self::begin`].
    keeper: OnceLock<Option<Arc<dyn TurnKeeper>>>,
}

impl Turns {
    /// Starts the verification of iods by the rollback counters that the metaserver stored before
    /// its restart; called once. Without a keeper the metaserver accepts all iods.
    pub fn begin(&self, keeper: Option<Arc<dyn TurnKeeper>>, kept: BTreeMap<u16, u64>) {
        *self.kept() = kept;
        drop(self.keeper.set(keeper));
    }

    fn kept(&self) -> MutexGuard<'_, BTreeMap<u16, u64>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(&self, iod: u16) -> u64 {
        self.kept().get(&iod).copied().unwrap_or_default()
    }

    /// Stores a rollback counter that the iod has recorded.
    ///
    /// # Errors
    /// The rollback counter cannot be stored; the keeper logs this error.
    async fn keep(&self, keeper: &dyn TurnKeeper, iod: u16, turn: u64) -> Result<(), FsError> {
        let stored = {
            let mut kept = self.kept();
            let known = kept.entry(iod).or_default();
            *known = turn.max(*known);
            // Start the write under the lock, so that the writes have the same order as the
            // changes.
            keeper.keep(&kept)
        };
        stored.await
    }
}

/// The result of the verification of an iod: accepted (`Believed`) or rolled back (`Older`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Believed,
    Older,
}

/// An advance of the rollback counter in progress. The advance stays due until the iod has recorded
/// the new value and the metaserver has stored it, even if a caller drops the work.
struct Due<'a> {
    is_changed: &'a AtomicBool,
    is_done: bool,
}

impl<'a> Due<'a> {
    /// Starts an advance. Clears the flag first, because this advance does not cover changes from
    /// now on.
    fn begin(is_changed: &'a AtomicBool) -> Self {
        is_changed.swap(false, Ordering::AcqRel);
        Self { is_changed, is_done: false }
    }

    fn end(mut self) {
        self.is_done = true;
    }
}

impl Drop for Due<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.is_changed.store(true, Ordering::Release);
        }
    }
}

/// A wrapper that verifies an iod.
pub struct VerifiedIod {
    iod: Arc<dyn Iod>,
    number: u16,
    turns: Arc<Turns>,
    /// The last verdict, and the number of connections at the time of the verdict.
    last: Mutex<Option<(Verdict, u64)>>,
    /// The number of times that the iod was found to be rolled back.
    times_older: AtomicU64,
    /// Ensures that one task verifies the iod at a time.
    judging: Turnstile<()>,
    /// True if objects have changed since the last advance of the rollback counter.
    is_changed: AtomicBool,
    /// True if clients have been permitted to write an object directly since the start. This
    /// process does not see their changes, so it assumes that the objects change all the time.
    is_given_out: AtomicBool,
}

impl VerifiedIod {
    /// Wraps the iod of this number, with the rollback counters of its volume.
    #[must_use]
    pub fn new(iod: Arc<dyn Iod>, number: u16, turns: Arc<Turns>) -> Self {
        let (last, judging) = (Mutex::default(), Turnstile::default());
        let (is_changed, is_given_out) = (AtomicBool::new(false), AtomicBool::new(false));
        let times_older = AtomicU64::new(0);
        Self { iod, number, turns, last, times_older, judging, is_changed, is_given_out }
    }

    fn last(&self) -> Option<(Verdict, u64)> {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the verdict on the current connection, if the connection is verified.
    fn present(&self) -> Option<(Verdict, u64)> {
        self.last().filter(|(_, connections)| *connections == self.iod.connections())
    }

    /// Returns the verdict on the current connection, and the number of connections at the time of
    /// the verdict. Verifies the connection if necessary.
    async fn judge(&self) -> Result<(Verdict, u64), FsError> {
        let keeper = match self.turns.keeper.get() {
            // The verification has not begun: the metaserver is starting and serves no call for
            // data yet, so accept the iod for now.
            None => return Ok((Verdict::Believed, self.iod.connections())),
            Some(keeper) => keeper.as_deref(),
        };
        if let Some(verdict) = self.present() {
            return Ok(verdict);
        }
        let _alone = self.judging.lock().await;
        self.judge_alone(keeper).await
    }

    async fn judge_alone(
        &self,
        keeper: Option<&dyn TurnKeeper>,
    ) -> Result<(Verdict, u64), FsError> {
        for _ in 0..TRIES {
            if let Some(verdict) = self.present() {
                return Ok(verdict);
            }
            let Some(keeper) = keeper else {
                let connections = self.iod.connections();
                self.let_clients_in(0).await;
                self.judged(None, (Verdict::Believed, connections));
                continue;
            };
            let Some((noted, connections)) = self.noted_here().await? else { continue };
            match self.compare(keeper, noted, connections) {
                Verdict::Believed => {
                    self.move_on(keeper, noted).await?;
                    self.judged(Some(keeper), (Verdict::Believed, connections));
                }
                Verdict::Older => self.let_clients_in(u64::MAX).await,
            }
        }
        Err(FsError::Delay)
    }

    /// Returns the rollback counters that the iod has recorded, and the number of the connection
    /// that reported them; `None` if the connection changed in the meantime.
    async fn noted_here(&self) -> Result<Option<(NotedTurns, u64)>, FsError> {
        let connections = self.iod.connections();
        let noted = self.noted().await?;
        Ok((self.iod.connections() == connections).then_some((noted, connections)))
    }

    /// Returns the rollback counters that the iod has recorded; zeros if the iod does not support
    /// them.
    async fn noted(&self) -> Result<NotedTurns, FsError> {
        let noted = match self.iod.turns().await {
            Err(FsError::Stale) => {
                // The directory of the objects has a new handle, as after a restore to another
                // directory: look the directory up again.
                self.iod.find_again();
                self.iod.turns().await
            }
            noted => noted,
        };
        match noted {
            Err(FsError::NotSupported) => Ok(NotedTurns::default()),
            Err(FsError::Stale | FsError::NotFound) => Err(FsError::Io),
            noted => noted,
        }
    }

    /// Compares the rollback counters (rule 1), and records a rolled-back iod.
    fn compare(&self, keeper: &dyn TurnKeeper, noted: NotedTurns, connections: u64) -> Verdict {
        let (number, kept) = (self.number, self.turns.of(self.number));
        if noted.last >= kept {
            return Verdict::Believed;
        }
        let before = self.judged(Some(keeper), (Verdict::Older, connections));
        if before != Some(Verdict::Older) {
            self.times_older.fetch_add(1, Ordering::AcqRel);
            keeper.notice(&TurnNotice::Older { iod: number, noted: noted.last, kept });
        }
        Verdict::Older
    }

    /// Records a verdict; returns the previous verdict.
    fn judged(&self, keeper: Option<&dyn TurnKeeper>, verdict: (Verdict, u64)) -> Option<Verdict> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let before = last.replace(verdict).map(|(before, _)| before);
        drop(last);
        if let (Some(keeper), Some(Verdict::Older), Verdict::Believed) = (keeper, before, verdict.0)
        {
            keeper.notice(&TurnNotice::Current(self.number));
        }
        before
    }

    /// Advances the rollback counter of an iod that is not rolled back.
    async fn move_on(&self, keeper: &dyn TurnKeeper, noted: NotedTurns) -> Result<(), FsError> {
        let due = Due::begin(&self.is_changed);
        let turn = noted.greatest.saturating_add(1);
        match self.iod.note_turn(turn).await {
            Ok(()) => {
                if self.turns.keep(keeper, self.number, turn).await.is_ok() {
                    due.end();
                }
                self.let_clients_in(turn).await;
                Ok(())
            }
            Err(FsError::Delay) => Err(FsError::Delay),
            // The iod cannot record the counter, for example because its disk is read-only. Accept
            // the iod nevertheless, since its objects can be read.
            Err(error) => {
                if error == FsError::NotSupported {
                    // The iod will not record later values either, so do not try again.
                    due.end();
                }
                keeper.notice(&TurnNotice::NotNoted(self.number, error));
                self.let_clients_in(noted.last).await;
                Ok(())
            }
        }
    }

    async fn let_clients_in(&self, turn: u64) {
        // Ignore an error, which costs no data: clients that the iod refuses send their calls to
        // the metaserver.
        let _ = self.iod.let_clients_in(turn).await;
    }

    /// Verifies the current connection once more, and advances the rollback counter if `step`
    /// requires this.
    async fn step(&self, step: Step) -> Result<(), FsError> {
        let Some(Some(keeper)) = self.turns.keeper.get() else { return Ok(()) };
        let keeper = &**keeper;
        let _alone = self.judging.lock().await;
        for _ in 0..TRIES {
            self.judge_alone(Some(keeper)).await?;
            let Some((noted, connections)) = self.noted_here().await? else { continue };
            match self.compare(keeper, noted, connections) {
                Verdict::Believed => {
                    self.move_on_if_changed(keeper, noted).await?;
                    self.judged(Some(keeper), (Verdict::Believed, connections));
                }
                Verdict::Older if self.is_believed_by(step) => {
                    self.note_two(keeper, noted).await?;
                    // Verify again: now the recorded counter is not less than the metaserver's, so
                    // the next attempt accepts the iod.
                    continue;
                }
                Verdict::Older => self.let_clients_in(u64::MAX).await,
            }
            return Ok(());
        }
        Err(FsError::Delay)
    }

    /// Returns true if a step makes the metaserver accept the iod although the iod is rolled back.
    fn is_believed_by(&self, step: Step) -> bool {
        match step {
            Step::IfChanged => false,
            Step::Believed(since) => self.older() == Some(since),
        }
    }

    async fn move_on_if_changed(
        &self,
        keeper: &dyn TurnKeeper,
        noted: NotedTurns,
    ) -> Result<(), FsError> {
        let is_given_out = self.is_given_out.load(Ordering::Acquire);
        match self.is_changed.load(Ordering::Acquire) || is_given_out {
            true => self.move_on(keeper, noted).await,
            false => {
                // The verification has sent this permission already, but the message may have been
                // lost. Repeat it.
                self.let_clients_in(noted.last).await;
                Ok(())
            }
        }
    }

    /// Advances the rollback counter of a rolled-back iod. The iod stores the last two values, and
    /// they are valid only if they are consecutive numbers; so this records two new values.
    async fn note_two(&self, keeper: &dyn TurnKeeper, noted: NotedTurns) -> Result<(), FsError> {
        let first = noted.greatest.max(self.turns.of(self.number)).saturating_add(1);
        let second = first.saturating_add(1);
        self.iod.note_turn(first).await?;
        self.iod.note_turn(second).await?;
        if self.turns.keep(keeper, self.number, second).await.is_err() {
            // The iod has the new counter, but the metaserver has not. The next advance stores a
            // later value in its place, so make an advance due.
            self.is_changed.store(true, Ordering::Release);
        }
        self.let_clients_in(second).await;
        Ok(())
    }

    /// Makes a call to an iod that is not rolled back (rule 2).
    async fn asked<'a, T>(
        &'a self,
        call: impl FnOnce(&'a dyn Iod) -> MaybeReady<'a, Result<T, FsError>>,
    ) -> Result<T, FsError> {
        let (Verdict::Believed, connections) = self.judge().await? else { return Err(FsError::Io) };
        let done = call(&*self.iod).await?;
        let after = self.iod.connections();
        if after == connections {
            return Ok(done);
        }
        match self.judge().await? {
            (Verdict::Believed, judged) if judged == after => Ok(done),
            // The connection changed more than once. The reply may have come from a connection that
            // was never verified, so the caller must retry.
            (Verdict::Believed, _) => Err(FsError::Delay),
            (Verdict::Older, _) => Err(FsError::Io),
        }
    }

    /// Like `asked`, for a call that changes objects.
    async fn changed<'a, T>(
        &'a self,
        call: impl FnOnce(&'a dyn Iod) -> MaybeReady<'a, Result<T, FsError>>,
    ) -> Result<T, FsError> {
        // Set the flag before the call, since the call may change the object even if its caller
        // drops it.
        self.is_changed.store(true, Ordering::Release);
        let done = self.asked(call).await;
        // An advance during the call has cleared the flag but may not cover the change. Set the
        // flag again.
        self.is_changed.store(true, Ordering::Release);
        done
    }
}

impl Iod for VerifiedIod {
    fn extent(&self, object: ObjectName) -> MaybeReady<'_, Result<Extent, FsError>> {
        MaybeReady::later(self.asked(move |iod| iod.extent(object)))
    }

    fn read(
        &self,
        object: ObjectName,
        offset: u64,
        count: u32,
    ) -> MaybeReady<'_, Result<Bytes, FsError>> {
        MaybeReady::later(self.asked(move |iod| iod.read(object, offset, count)))
    }

    fn write(
        &self,
        object: ObjectName,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> MaybeReady<'_, Result<Written, FsError>> {
        MaybeReady::later(self.changed(move |iod| iod.write(object, offset, data, stability)))
    }

    fn resize(&self, object: ObjectName, size: u64) -> MaybeReady<'_, Result<Extent, FsError>> {
        MaybeReady::later(self.changed(move |iod| iod.resize(object, size)))
    }

    fn commit(&self, object: ObjectName) -> MaybeReady<'_, Result<Verifier, FsError>> {
        MaybeReady::later(self.asked(move |iod| iod.commit(object)))
    }

    fn remove(&self, object: ObjectName) -> MaybeReady<'_, Result<(), FsError>> {
        MaybeReady::later(self.changed(move |iod| iod.remove(object)))
    }

    fn give(
        &self,
        object: ObjectName,
        owner: Owner,
    ) -> MaybeReady<'_, Result<Option<Spot>, FsError>> {
        if owner.is_given_out() {
            self.is_given_out.store(true, Ordering::Release);
        }
        MaybeReady::later(self.changed(move |iod| iod.give(object, owner)))
    }

    fn list(&self, first: u8) -> MaybeReady<'_, Result<Vec<ObjectName>, FsError>> {
        MaybeReady::later(self.asked(move |iod| iod.list(first)))
    }

    fn probe(&self) -> MaybeReady<'_, Result<(), FsError>> {
        MaybeReady::later(self.asked(|iod| iod.probe()))
    }

    /// Returns the verifier. A rolled-back iod is reachable, so it has a verifier, too.
    fn verifier(&self) -> MaybeReady<'_, Result<Verifier, FsError>> {
        MaybeReady::later(async move {
            self.judge().await?;
            self.iod.verifier().await
        })
    }

    /// Returns the space. A rolled-back iod reports its space, too.
    fn space(&self) -> MaybeReady<'_, Result<Room, FsError>> {
        MaybeReady::later(async move {
            self.judge().await?;
            self.iod.space().await
        })
    }

    /// Returns true also for a rolled-back iod, so that callers avoid it like an unreachable one.
    fn is_away(&self) -> bool {
        self.is_older() || self.iod.is_away()
    }

    fn is_gone(&self) -> bool {
        self.iod.is_gone()
    }

    fn traffic(&self) -> Traffic {
        self.iod.traffic()
    }

    fn connections(&self) -> u64 {
        self.iod.connections()
    }

    fn needs_judgement(&self) -> bool {
        self.turns.keeper.get().is_some() && self.present().is_none()
    }

    fn take_turn(&self, step: Step) -> MaybeReady<'_, Result<(), FsError>> {
        MaybeReady::later(self.step(step))
    }

    fn older(&self) -> Option<u64> {
        let is_older = self.last().is_some_and(|(verdict, _)| verdict == Verdict::Older);
        is_older.then(|| self.times_older.load(Ordering::Acquire))
    }
}
