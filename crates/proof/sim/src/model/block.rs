//! The sequential model of a block of a file.

use std::collections::BTreeSet;

use leasehold_wire::nfs3::write::Stability;

use crate::fit::Model;
use crate::history::OpId;
use crate::op::{Op, Outcome, Owner};

/// The model of a block: it has the value that was last written. A crash may undo unstable writes,
/// back to any value since the last stable write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    pub(crate) file: Owner,
    pub(crate) block: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct State {
    value: u64,
    /// The values that are possible after a crash, including the current value.
    crash_may_leave: BTreeSet<u64>,
}

impl State {
    fn stable(value: u64) -> Self {
        Self { value, crash_may_leave: BTreeSet::from([value]) }
    }

    fn written(&self, value: u64) -> Self {
        let mut crash_may_leave = self.crash_may_leave.clone();
        crash_may_leave.insert(value);
        Self { value, crash_may_leave }
    }
}

impl Model for Block {
    type State = State;

    fn start(&self) -> State {
        State::stable(0)
    }

    fn concerns(&self, op: &Op) -> bool {
        op.data().is_some_and(|(file, block)| {
            file == self.file && block.is_none_or(|block| block == self.block)
        })
    }

    fn after(&self, state: &State, _: OpId, op: &Op, outcome: Option<&Outcome>) -> Option<State> {
        match (op, outcome) {
            (Op::Write { value, .. }, Some(Outcome::Written { stability, .. })) => {
                Some(match stability {
                    Stability::Unstable => state.written(*value),
                    Stability::DataSync | Stability::FileSync => State::stable(*value),
                })
            }
            // Without an outcome, no reply reported the write as stable, so treat it as unstable.
            (Op::Write { value, .. }, None) => Some(state.written(*value)),
            (Op::Read { .. }, Some(Outcome::Data(value))) if *value != state.value => None,
            (Op::Read { .. }, Some(Outcome::Data(_)) | None) => Some(state.clone()),
            (Op::Commit { .. }, Some(Outcome::Committed { .. })) => {
                Some(State::stable(state.value))
            }
            (Op::Commit { .. }, None) => Some(state.clone()),
            _ => None,
        }
    }

    fn crash(&self, state: &State) -> Vec<State> {
        state.crash_may_leave.iter().map(|value| State::stable(*value)).collect()
    }
}
