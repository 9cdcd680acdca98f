//! Detection of iods that are rolled back: older than the metaserver's record of them. The
//! metaserver verifies (judges) an iod before a call has an effect.
//!
//! Criteria, in order of weight:
//! - No byte of a rolled-back iod reaches a caller, and no caller receives a success for a change
//!   at such an iod.
//! - The metaserver never classifies an iod as rolled back that is not.
//! - A call on a verified connection costs no message.
//!
//! Rules:
//! 1. The iod records its turn (rollback counter) before the metaserver stores the turn. So an iod
//!    whose recorded turn is less than the metaserver's is rolled back: a backup, a snapshot, an
//!    old disk.
//! 2. The metaserver verifies each connection: before the first call, and after a call during which
//!    the connection changed. Only the verdict on the last connection counts.
//! 3. An iod that is not rolled back gets its next turn when the metaserver verifies it, and each
//!    minute if its objects have changed. So the metaserver also detects a backup that was made
//!    before the connection.
//! 4. A rolled-back iod stays rolled back, also across a restart, until the iod shows a turn that
//!    is not less, or until the iod gets a turn because no file depends on its objects or an
//!    administrator accepts the iod.
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

/// The number of attempts to verify an iod whose connection changes during the verification.
const TRIES: u32 = 16;

/// A log event about the turns of iods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnNotice {
    /// An iod is rolled back.
    Older {
        /// The number of the iod.
        iod: u16,
        /// The last turn that the iod has recorded.
        noted: u64,
        /// The turn that the metaserver has stored.
        kept: u64,
    },
    /// An iod that was rolled back is current again.
    Current(u16),
    /// An iod cannot record its next turn: the metaserver could not detect a later rollback of the
    /// iod.
    NotNoted(u16, FsError),
}

/// The metaserver's storage for the turns of its iods.
pub trait TurnKeeper: Send + Sync {
    /// Stores the turns of all iods on stable storage, in place of the previous turns. The order of
    /// the calls counts, and not the order of the replies.
    ///
    /// # Errors
    /// The turns cannot be stored.
    fn keep(&self, turns: &BTreeMap<u16, u64>) -> MaybeReady<'_, Result<(), FsError>>;

    /// Reports an event to the administrator.
    fn notice(&self, notice: &TurnNotice);
}

/// The turns of the iods of a volume, as its metaserver has stored them.
#[derive(Default)]
pub struct Turns {
    kept: Mutex<BTreeMap<u16, u64>>,
    /// `None` if the metaserver stores no turns; empty before the metaserver has begun.
    keeper: OnceLock<Option<Arc<dyn TurnKeeper>>>,
}

impl Turns {
    /// Starts the verification of iods by the turns that the metaserver stored before; called once.
    /// Without a keeper the metaserver accepts all iods.
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

    /// Stores a turn that the iod has recorded.
    ///
    /// # Errors
    /// The turn cannot be stored; the keeper logs this error.
    async fn keep(&self, keeper: &dyn TurnKeeper, iod: u16, turn: u64) -> Result<(), FsError> {
        let stored = {
            let mut kept = self.kept();
            let known = kept.entry(iod).or_default();
            *known = turn.max(*known);
            // The lock keeps the writes in the order of the changes.
            keeper.keep(&kept)
        };
        stored.await
    }
}

/// The result of the verification of an iod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Believed,
    Older,
}

/// A turn that stays due until the iod has recorded it and the metaserver has stored it, even if a
/// caller drops the work.
struct Due<'a> {
    is_changed: &'a AtomicBool,
    is_done: bool,
}

impl<'a> Due<'a> {
    /// Starts a turn: changes from now on need another turn.
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
    /// True if objects have changed since the last turn.
    is_changed: AtomicBool,
    /// True if clients were permitted to write an object since the start: this process does not see
    /// their changes.
    is_given_out: AtomicBool,
}

impl VerifiedIod {
    /// Wraps the iod of this number, with the turns of its volume.
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
            // No call for data arrives before the start of the metaserver.
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

    /// Returns the recorded turns of the current connection, and the number of the connection;
    /// `None` if the connection changed in the meantime.
    async fn noted_here(&self) -> Result<Option<(NotedTurns, u64)>, FsError> {
        let connections = self.iod.connections();
        let noted = self.noted().await?;
        Ok((self.iod.connections() == connections).then_some((noted, connections)))
    }

    /// Returns the turns that the iod has recorded; the default for an iod that records no turns.
    async fn noted(&self) -> Result<NotedTurns, FsError> {
        let noted = match self.iod.turns().await {
            Err(FsError::Stale) => {
                // The objects have another place, as after a restore to another directory.
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

    /// Compares the turns (rule 1), and records a rolled-back iod.
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

    /// Gives an iod that is not rolled back its next turn.
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
            // The store uses the iod without the turn, since its objects can be read.
            Err(error) => {
                if error == FsError::NotSupported {
                    // The iod cannot record later turns, either.
                    due.end();
                }
                keeper.notice(&TurnNotice::NotNoted(self.number, error));
                self.let_clients_in(noted.last).await;
                Ok(())
            }
        }
    }

    async fn let_clients_in(&self, turn: u64) {
        // An error costs no data: clients that the iod refuses send their calls to the metaserver.
        let _ = self.iod.let_clients_in(turn).await;
    }

    /// Verifies the current connection once more, and gives the iod a turn if `step` requires one.
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
                    // The next verification accepts the recorded turn.
                    continue;
                }
                Verdict::Older => self.let_clients_in(u64::MAX).await,
            }
            return Ok(());
        }
        Err(FsError::Delay)
    }

    /// Returns true if a step makes the metaserver accept the iod although it is rolled back.
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
                // The message at the verification may have been lost.
                self.let_clients_in(noted.last).await;
                Ok(())
            }
        }
    }

    /// Gives a rolled-back iod two turns, so that the second counts.
    async fn note_two(&self, keeper: &dyn TurnKeeper, noted: NotedTurns) -> Result<(), FsError> {
        let first = noted.greatest.max(self.turns.of(self.number)).saturating_add(1);
        let second = first.saturating_add(1);
        self.iod.note_turn(first).await?;
        self.iod.note_turn(second).await?;
        if self.turns.keep(keeper, self.number, second).await.is_err() {
            // The metaserver stores the next turn in place of this turn.
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
            // The reply may have arrived on a connection in between.
            (Verdict::Believed, _) => Err(FsError::Delay),
            (Verdict::Older, _) => Err(FsError::Io),
        }
    }

    /// Like `asked`, for a change of objects.
    async fn changed<'a, T>(
        &'a self,
        call: impl FnOnce(&'a dyn Iod) -> MaybeReady<'a, Result<T, FsError>>,
    ) -> Result<T, FsError> {
        // A call may change the object even if its caller has dropped it.
        self.is_changed.store(true, Ordering::Release);
        let done = self.asked(call).await;
        // A turn that was recorded during the call does not cover the change.
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

    /// A rolled-back iod has a verifier, too: the iod is reachable.
    fn verifier(&self) -> MaybeReady<'_, Result<Verifier, FsError>> {
        MaybeReady::later(async move {
            self.judge().await?;
            self.iod.verifier().await
        })
    }

    /// A rolled-back iod has room, too.
    fn space(&self) -> MaybeReady<'_, Result<Room, FsError>> {
        MaybeReady::later(async move {
            self.judge().await?;
            self.iod.space().await
        })
    }

    /// Callers that can avoid a rolled-back iod should do so.
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
