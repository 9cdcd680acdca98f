//! Calls of one procedure, one client and one export, in a row.

use super::head::Place;
use super::{ClientId, Tally};

/// Whose calls are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Whose {
    pub(super) client: ClientId,
    /// With the export of which a handle was opened.
    pub(super) place: Place,
}

/// What a procedure had counted when the calls began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Streak {
    pub(super) whose: Whose,
    before: Calls,
}

/// Calls, and what is counted of each.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Calls {
    pub(super) calls: u64,
    pub(super) failed: u64,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
}

impl Default for Streak {
    fn default() -> Self {
        let whose = Whose { client: ClientId::OTHERS, place: Place::new(0, None) };
        Self { whose, before: Calls::default() }
    }
}

impl Streak {
    /// One that begins where a procedure has counted so much.
    pub(super) fn begun(whose: Whose, tally: &Tally) -> Self {
        Self { whose, before: Calls::of(tally) }
    }

    /// The calls since it began, whose they are; it begins anew.
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

    /// Whether there were none.
    pub(super) fn is_none(&self) -> bool {
        self.calls == 0
    }
}
