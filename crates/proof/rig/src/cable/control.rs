//! The state that the threads of a cable share.

use core::num::NonZeroU32;
use core::time::Duration;
use std::collections::BTreeMap;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::Faults;

/// The numbers of the messages that a cable has delivered and lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// The number of accepted connections.
    pub connections: u64,
    /// The number of bytes that arrived on streams.
    pub bytes: u64,
    /// The number of datagrams that arrived.
    pub datagrams: u64,
    /// The number of datagrams that were lost, including losses during cuts.
    pub lost: u64,
    /// The number of datagrams that arrived a second time.
    pub doubled: u64,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) faults: Faults,
    /// The maximum rate of each direction of a connection, in bytes a second; `None` without a
    /// limit.
    pub(crate) narrow: Option<NonZeroU32>,
    /// True for each direction that is cut.
    pub(crate) cut: [bool; 2],
    /// The number of calls of `sever` so far.
    pub(crate) severed: u64,
    pub(crate) is_over: bool,
    pub(crate) counters: Counters,
    /// Both ends of each connection, so that `sever` can close them.
    open: BTreeMap<u64, [TcpStream; 2]>,
}

#[derive(Debug)]
pub(crate) struct Control {
    state: Mutex<State>,
    changed: Condvar,
}

/// The interval at which a waiting thread checks whether the cable still exists.
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

    /// Ends all connections through the cable.
    pub(crate) fn sever(&self) {
        for stream in self.state().open.values().flatten() {
            // If an end is already closed, the call fails: ignore the error.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Records the ends of a connection until the caller drops the returned value.
    pub(crate) fn opened(self: &Arc<Self>, ends: [TcpStream; 2]) -> Joined {
        let mut state = self.state();
        state.counters.connections += 1;
        let number = state.counters.connections;
        state.open.insert(number, ends);
        let (control, severed) = (Arc::clone(self), state.severed);
        Joined { control, number, severed, is_reset: AtomicBool::new(false) }
    }

    /// Wakes the waiting threads after a change of the state.
    fn notify(&self) {
        self.changed.notify_all();
    }
}

/// A connection through the cable.
pub(crate) struct Joined {
    pub(crate) control: Arc<Control>,
    number: u64,
    /// The number of calls of `sever` before the connection was made.
    severed: u64,
    /// True if an end was reset; data that was in transit at that time is lost.
    is_reset: AtomicBool,
}

impl Joined {
    /// Records that an end was reset.
    pub(crate) fn reset(&self) {
        self.is_reset.store(true, Ordering::Release);
        self.control.notify();
    }

    /// Waits until the arrival time of a piece, and then as long as its direction is cut. Returns
    /// false if the piece must not arrive, because the connection has ended.
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
