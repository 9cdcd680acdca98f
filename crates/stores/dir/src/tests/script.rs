//! A replacement for the system calls that sync, for tests.

use std::fs;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use rustix::io::Errno;

use super::harness::{Make, World};
use crate::sync::{Extent, Syncer};

/// A syncer that records its syncs, and succeeds, fails or waits as the test requests.
#[derive(Clone, Default)]
pub(super) struct Script(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
pub(super) struct State {
    pub(super) synced: Vec<(Extent, String)>,
    told: usize,
    pub(super) is_closed: bool,
    pub(super) is_failing: bool,
    /// The first flag delays the requests for write-back; the second makes them fail.
    pub(super) telling_is_held: bool,
    pub(super) telling_fails: bool,
    /// The file whose syncs wait until the test releases them.
    pub(super) held: Option<&'static str>,
    /// The time for which a sync waits for the clients of the last sync.
    pub(super) patience: Duration,
}

impl Script {
    pub(super) fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.0.0.lock().expect("no test panics with it"));
        self.0.1.notify_all();
    }

    /// Returns the syncs since the last call of this function.
    pub(super) fn take(&self) -> Vec<(Extent, String)> {
        let mut synced = Vec::new();
        self.change(|state| synced = core::mem::take(&mut state.synced));
        synced.sort();
        synced
    }

    /// Waits until this number of syncs has started.
    pub(super) fn wait_for(&self, count: usize) {
        let state = self.0.0.lock().expect("no test panics with it");
        drop(self.0.1.wait_while(state, |state| state.synced.len() < count));
    }

    /// Returns the number of requests for write-back.
    pub(super) fn told(&self) -> usize {
        self.0.0.lock().expect("no test panics with it").told
    }

    /// Waits until the store has made this number of requests for write-back.
    pub(super) fn wait_until_told(&self, times: usize) {
        let state = self.0.0.lock().expect("no test panics with it");
        drop(self.0.1.wait_while(state, |state| state.told < times));
    }

    pub(super) fn world(&self) -> World {
        World::make(Make { syncer: Box::new(self.clone()), ..Make::default() })
    }
}

impl Syncer for Script {
    fn sync(&self, file: BorrowedFd<'_>, extent: Extent) -> Result<(), Errno> {
        let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let path = path.expect("it is open");
        let name = path.file_name().expect("it is not the root").to_string_lossy().into_owned();
        let mut state = self.0.0.lock().expect("no test panics with it");
        state.synced.push((extent, name.clone()));
        self.0.1.notify_all();
        let waits = |state: &mut State| state.is_closed || state.held == Some(name.as_str());
        let state = self.0.1.wait_while(state, waits);
        let is_failing = state.expect("no test panics with it").is_failing;
        if is_failing { Err(Errno::IO) } else { Ok(()) }
    }

    fn begin(&self, _: BorrowedFd<'_>, _: u64) -> Result<(), Errno> {
        let mut state = self.0.0.lock().expect("no test panics with it");
        state.told += 1;
        self.0.1.notify_all();
        let state = self.0.1.wait_while(state, |state| state.telling_is_held);
        let fails = state.expect("no test panics with it").telling_fails;
        if fails { Err(Errno::NOSPC) } else { Ok(()) }
    }

    fn patience(&self, _: Duration) -> Duration {
        self.0.0.lock().expect("no test panics with it").patience
    }
}
