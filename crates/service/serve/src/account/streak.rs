//! A streak: consecutive calls of one procedure by one client on one export.

use super::head::CounterPosition;
use super::{ClientId, Tally};

/// The client and export of a streak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Whose {
    pub(super) client: ClientId,
    /// The row, and the export if the server has accepted a handle of that export.
    pub(super) place: CounterPosition,
}

/// A streak, with the counters that its procedure had at the beginning of the streak.
#[derive(Clone, Copy, Debug)]
pub(super) struct Streak {
    pub(super) whose: Whose,
    before: Calls,
}

/// Counters of calls.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Calls {
    pub(super) calls: u64,
    pub(super) failed: u64,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
}

impl Default for Streak {
    fn default() -> Self {
        let whose = Whose { client: ClientId::OTHERS, place: CounterPosition::new(0, None) };
        Self { whose, before: Calls::default() }
    }
}

impl Streak {
    /// Begins a streak at the current counters of a procedure.
    pub(super) fn begun(whose: Whose, tally: &Tally) -> Self {
        Self { whose, before: Calls::of(tally) }
    }

    /// Returns the calls of the streak with their client and export, and begins a new streak.
    pub(super) fn end(&mut self, tally: &Tally) -> (Whose, Calls) {
        let now = Calls::of(tally);
        let before = core::mem::replace(&mut self.before, now);
        let calls = Calls {
            calls: now.calls - before.calls,
            failed: now.failed - before.failed,
            bytes_in: now.bytes_in - before.bytes_in,
            bytes_out: now.bytes_out - before.bytes_out,
        };
        (self.whose, calls)
    }
}

impl Calls {
    fn of(tally: &Tally) -> Self {
        let Tally { calls, failed, bytes_in, bytes_out, .. } = *tally;
        Self { calls, failed, bytes_in, bytes_out }
    }

    /// Returns true if there were no calls.
    pub(super) fn is_none(&self) -> bool {
        self.calls == 0
    }
}
