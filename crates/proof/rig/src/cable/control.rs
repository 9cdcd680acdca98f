//! What all threads of a cable share.

use core::num::NonZeroU32;
use core::time::Duration;
use std::collections::BTreeMap;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::Faults;

/// What went through a cable, and what did not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Connections that were taken.
    pub connections: u64,
    /// Bytes of streams that arrived.
    pub bytes: u64,
    /// Datagrams that arrived.
    pub datagrams: u64,
    /// Datagrams that did not, cuts included.
    pub lost: u64,
    /// Datagrams that arrived a second time.
    pub doubled: u64,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) faults: Faults,
    /// Bytes a second of each direction of a connection, where it is narrow.
    pub(crate) narrow: Option<NonZeroU32>,
    /// By direction.
    pub(crate) cut: [bool; 2],
    /// How often all connections were ended.
    pub(crate) severed: u64,
    pub(crate) is_over: bool,
    pub(crate) counters: Counters,
    /// Both ends of each connection, to be ended.
    open: BTreeMap<u64, [TcpStream; 2]>,
}

#[derive(Debug)]
pub(crate) struct Control {
    state: Mutex<State>,
    changed: Condvar,
}

/// How long a thread that waits goes without looking whether it is still wanted.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

impl Control {
    pub(crate) fn new(faults: Faults) -> Self {
        let (cut, counters, open) = ([false; 2], Counters::default(), BTreeMap::new());
        let state = State { faults, narrow: None, cut, severed: 0, is_over: false, counters, open };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.notify_all();
    }

    pub(crate) fn counters(&self) -> Counters {
        self.state().counters
    }

    /// The connections through the cable are no more.
    pub(crate) fn sever(&self) {
        for stream in self.state().open.values().flatten() {
            // Whoever has ended it already is content.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Takes note of a connection's ends, for as long as what it returns is kept.
    pub(crate) fn opened(self: &Arc<Self>, ends: [TcpStream; 2]) -> Joined {
        let mut state = self.state();
        state.counters.connections += 1;
        let number = state.counters.connections;
        state.open.insert(number, ends);
        let (control, severed) = (Arc::clone(self), state.severed);
        Joined { control, number, severed, is_reset: AtomicBool::new(false) }
    }

    /// The thread that waits sees what changed.
    fn notify(&self) {
        self.changed.notify_all();
    }
}

/// A connection that goes through.
pub(crate) struct Joined {
    pub(crate) control: Arc<Control>,
    number: u64,
    /// How often all connections had been ended before.
    severed: u64,
    /// Whether an end was reset: what was on its way then is lost, as nobody sends it again.
    is_reset: AtomicBool,
}

impl Joined {
    /// An end was reset.
    pub(crate) fn reset(&self) {
        self.is_reset.store(true, Ordering::Release);
        self.control.notify();
    }

    /// Waits for the moment at which something arrives, and then for as long as its direction is
    /// cut; says whether it is to arrive at all.
    pub(crate) fn wait(&self, due: Instant, direction: usize) -> bool {
        let mut state = self.control.state();
        loop {
            let is_gone = state.is_over || state.severed != self.severed;
            if is_gone || self.is_reset.load(Ordering::Acquire) {
                return false;
            }
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() && !state.cut[direction] {
                return true;
            }
            let span = if left.is_zero() { LOOK } else { left };
            let waited = self.control.changed.wait_timeout(state, span);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        self.control.state().open.remove(&self.number);
    }
}
