//! The simulated store of a server. Time passes before an operation has its effect, and again
//! before it replies. The store also contains crash points and planted faults (mutants).

use core::future::poll_fn;
use core::task::Poll;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use leasehold_base::random::Random;
use leasehold_base::units::{Cookie, FileTime, Time};
use leasehold_fs::{
    Access, Attributes, Budget, Caller, Capabilities, Changed, Committed, Found, FsError, Linked,
    MaybeReady, Name, NewFile, NewNode, ObjectId, Page, Place, ReadDone, Renamed, SetAttributes,
    Space, Stability, Store, Target, Verifier, Wanted, WriteDone, forward_store,
};
use leasehold_store_mem::MemStore;

use crate::faults::{Faults, in_thousand, upto};
use crate::mutant::Mutant;

/// A store in memory that behaves like a store on a disk: a crash loses unstable data.
pub(crate) struct Disk {
    pub(crate) store: Arc<MemStore>,
    mutant: Option<Mutant>,
    state: Mutex<State>,
}

struct State {
    random: Random,
    faults: Faults,
    /// The time on the server's clock.
    now: Time,
    /// The times at which the waiting operations continue.
    wakes: BTreeSet<Time>,
    /// The name of the crash point at which the server must crash now.
    crash: Option<String>,
    /// The results of earlier reads, for the mutant that returns stale data.
    read_before: BTreeMap<(ObjectId, u64), ReadDone>,
}

/// A point of an operation at which the server may wait or crash.
#[derive(Clone, Copy, Debug)]
enum Step {
    Before,
    After,
}

impl Disk {
    pub(crate) fn new(store: Arc<MemStore>, mutant: Option<Mutant>, random: Random) -> Self {
        let (wakes, read_before) = (BTreeSet::new(), BTreeMap::new());
        let (now, faults, crash) = (Time::ZERO, Faults::NONE, None);
        let state = Mutex::new(State { random, faults, now, wakes, crash, read_before });
        Self { store, mutant, state }
    }

    /// Sets the time, and the faults that may occur.
    pub(crate) fn set(&self, now: Time, wall: FileTime, faults: &Faults) {
        self.store.set_now(wall);
        let mut state = self.state();
        (state.now, state.faults) = (now, *faults);
        state.wakes.retain(|wake| *wake > now);
    }

    /// Returns the time at which the next operation continues.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        self.state().wakes.first().copied()
    }

    /// Returns the name of the point at which the server must crash now, and clears it.
    pub(crate) fn take_crash(&self) -> Option<String> {
        self.state().crash.take()
    }

    /// Drops all operations in progress.
    pub(crate) fn kill(&self) {
        let mut state = self.state();
        state.wakes.clear();
        state.crash = None;
    }

    /// Drops all unstable data, and all operations in progress.
    pub(crate) fn crash(&self) {
        self.store.crash();
        self.kill();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes a point of an operation: at once, after a wait, or never if the server crashes there.
    async fn pass(&self, operation: &str, step: Step) {
        let until = {
            let mut state = self.state();
            let chance = state.faults.crash_points;
            if state.random.below(1_000_000) < chance {
                state.crash = Some(format!("{operation}_{step:?}").to_lowercase());
            }
            let (most, chance) = (state.faults.wait, state.faults.waits);
            if in_thousand(&mut state.random, chance) {
                let until = state.now + upto(&mut state.random, most);
                state.wakes.insert(until);
                until
            } else {
                state.now
            }
        };
        poll_fn(|_| {
            let state = self.state();
            let goes_on = state.crash.is_none() && state.now >= until;
            if goes_on { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Applies the effect of an operation, and then passes the point after the effect.
    async fn around<T>(&self, operation: &str, effect: MaybeReady<'_, T>) -> T {
        let result = effect.await;
        self.pass(operation, Step::After).await;
        result
    }

    fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    fn verifier(&self, real: Verifier) -> Verifier {
        if self.is(Mutant::KeepsVerifier) { Verifier([7; 8]) } else { real }
    }
}

/// Defines an operation of the store that passes a crash point before and after its effect.
macro_rules! pass_through {
    ($self:ident, $operation:ident($($argument:expr),*)) => {
        MaybeReady::later(async move {
            $self.pass(stringify!($operation), Step::Before).await;
            $self.around(stringify!($operation), $self.store.$operation($($argument),*)).await
        })
    };
}

impl Store for Disk {
    forward_store!(store: root identity path properties);

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::NONE
    }

    fn getattr<'a>(&'a self, object: &'a ObjectId) -> MaybeReady<'a, Result<Attributes, FsError>> {
        pass_through!(self, getattr(object))
    }

    fn setattr<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        changes: &'a SetAttributes,
        guard: Option<FileTime>,
    ) -> MaybeReady<'a, Changed<()>> {
        pass_through!(self, setattr(caller, object, changes, guard))
    }

    fn lookup<'a>(
        &'a self,
        caller: &'a Caller,
        directory: &'a ObjectId,
        name: Name<'a>,
    ) -> MaybeReady<'a, Result<Found, FsError>> {
        pass_through!(self, lookup(caller, directory, name))
    }

    fn parent<'a>(
        &'a self,
        caller: &'a Caller,
        directory: &'a ObjectId,
    ) -> MaybeReady<'a, Result<Found, FsError>> {
        pass_through!(self, parent(caller, directory))
    }

    fn access<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        wanted: Access,
    ) -> MaybeReady<'a, Result<(Access, Attributes), FsError>> {
        pass_through!(self, access(caller, object, wanted))
    }

    fn readlink<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<(Target, Attributes), FsError>> {
        pass_through!(self, readlink(caller, object))
    }

    fn read<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        count: u32,
    ) -> MaybeReady<'a, Result<ReadDone, FsError>> {
        if !self.is(Mutant::ReadsStale) {
            return pass_through!(self, read(caller, object, offset, count));
        }
        MaybeReady::later(async move {
            let fresh = self.store.read(caller, object, offset, count).await?;
            let before = self.state().read_before.insert((*object, offset), fresh.clone());
            Ok(before.unwrap_or(fresh))
        })
    }

    fn write<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> MaybeReady<'a, Changed<WriteDone>> {
        let lies = self.is(Mutant::LiesAboutWrites);
        let really = if lies { Stability::Unstable } else { stability };
        MaybeReady::later(async move {
            self.pass("write", Step::Before).await;
            let effect = self.store.write(caller, object, offset, data, really);
            let mut changed = self.around("write", effect).await;
            if let Ok(done) = &mut changed.result {
                done.stability = done.stability.max(stability);
                done.verifier = self.verifier(done.verifier);
            }
            changed
        })
    }

    fn create<'a>(
        &'a self,
        caller: &'a Caller,
        place: Place<'a>,
        file: &'a NewFile,
    ) -> MaybeReady<'a, Changed<Found>> {
        pass_through!(self, create(caller, place, file))
    }

    fn make<'a>(
        &'a self,
        caller: &'a Caller,
        place: Place<'a>,
        node: &'a NewNode<'a>,
        attributes: &'a SetAttributes,
    ) -> MaybeReady<'a, Changed<Found>> {
        pass_through!(self, make(caller, place, node, attributes))
    }

    fn remove<'a>(&'a self, caller: &'a Caller, place: Place<'a>) -> MaybeReady<'a, Changed<()>> {
        MaybeReady::later(async move {
            self.pass("remove", Step::Before).await;
            let mut changed = self.around("remove", self.store.remove(caller, place)).await;
            if self.is(Mutant::RemovesNothing) && changed.result == Err(FsError::NotFound) {
                changed.result = Ok(());
            }
            changed
        })
    }

    fn rmdir<'a>(&'a self, caller: &'a Caller, place: Place<'a>) -> MaybeReady<'a, Changed<()>> {
        pass_through!(self, rmdir(caller, place))
    }

    fn rename<'a>(
        &'a self,
        caller: &'a Caller,
        from: Place<'a>,
        to: Place<'a>,
    ) -> MaybeReady<'a, Renamed> {
        pass_through!(self, rename(caller, from, to))
    }

    fn link<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        place: Place<'a>,
    ) -> MaybeReady<'a, Linked> {
        pass_through!(self, link(caller, object, place))
    }

    fn readdir<'a>(
        &'a self,
        caller: &'a Caller,
        directory: &'a ObjectId,
        cookie: Cookie,
        budget: Budget,
        wanted: Wanted,
    ) -> MaybeReady<'a, Result<Page, FsError>> {
        pass_through!(self, readdir(caller, directory, cookie, budget, wanted))
    }

    fn space<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<(Space, Attributes), FsError>> {
        pass_through!(self, space(caller, object))
    }

    fn commit<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        length: u32,
    ) -> MaybeReady<'a, Changed<Committed>> {
        MaybeReady::later(async move {
            if self.is(Mutant::HangsInCommits) {
                core::future::pending::<()>().await;
            }
            self.pass("commit", Step::Before).await;
            let mut changed = if self.is(Mutant::LiesAboutCommits) {
                // Write no data: the reply then contains the verifier without a commit.
                let nothing = Bytes::new();
                let effect = self.store.write(caller, object, offset, nothing, Stability::Unstable);
                let Changed { result, wcc } = effect.await;
                Changed { result: result.map(|done| Committed { verifier: done.verifier }), wcc }
            } else {
                self.store.commit(caller, object, offset, length).await
            };
            self.pass("commit", Step::After).await;
            if let Ok(done) = &mut changed.result {
                done.verifier = self.verifier(done.verifier);
            }
            changed
        })
    }
}
