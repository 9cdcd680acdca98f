//! The shared state of a cable's threads.

use core::num::NonZeroU32;
use core::time::Duration;
use std::collections::BTreeMap;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::Faults;

/// The delivered and the lost messages of a cable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Accepted connections.
    pub connections: u64,
    /// Bytes of streams that arrived.
    pub bytes: u64,
    /// Datagrams that arrived.
    pub datagrams: u64,
    /// Datagrams that were lost, also by cuts.
    pub lost: u64,
    /// Datagrams that arrived a second time.
    pub doubled: u64,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) faults: Faults,
    /// The limit of each direction of a connection, in bytes a second, if there is one.
    pub(crate) narrow: Option<NonZeroU32>,
    /// The cuts, by direction.
    pub(crate) cut: [bool; 2],
    /// The number of times at which all connections were ended.
    pub(crate) severed: u64,
    pub(crate) is_over: bool,
    pub(crate) counters: Counters,
    /// Both ends of each connection, for `sever`.
    open: BTreeMap<u64, [TcpStream; 2]>,
}

#[derive(Debug)]
pub(crate) struct Control {
    state: Mutex<State>,
    changed: Condvar,
}

/// The interval at which a waiting thread checks if the cable still exists.
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

    /// Ends the connections through the cable.
    pub(crate) fn sever(&self) {
        for stream in self.state().open.values().flatten() {
            // An end that is closed already needs no shutdown.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Records a connection's ends as long as the returned value exists.
    pub(crate) fn opened(self: &Arc<Self>, ends: [TcpStream; 2]) -> Joined {
        let mut state = self.state();
        state.counters.connections += 1;
        let number = state.counters.connections;
        state.open.insert(number, ends);
        let (control, severed) = (Arc::clone(self), state.severed);
        Joined { control, number, severed, is_reset: AtomicBool::new(false) }
    }

    /// Wakes the waiting thread after a change.
    fn notify(&self) {
        self.changed.notify_all();
    }
}

/// A connection through the cable.
pub(crate) struct Joined {
    pub(crate) control: Arc<Control>,
    number: u64,
    /// The number of times at which all connections had been ended before.
    severed: u64,
    /// True if an end was reset: data in transit at that time is lost.
    is_reset: AtomicBool,
}

impl Joined {
    /// Records that an end was reset.
    pub(crate) fn reset(&self) {
        self.is_reset.store(true, Ordering::Release);
        self.control.notify();
    }

    /// Waits for the arrival time of a piece, and then while its direction is cut; returns true if
    /// the piece arrives at all.
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
