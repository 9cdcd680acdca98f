//! Checks that a history fits a sequential model: that there is an order of all operations, each at
//! one moment between its beginning and its end, in which every outcome is correct.
//!
//! The check follows all orders at once, from record to record. An operation must be placed only
//! when one ends, so the number of possibilities is bounded by the number of concurrent operations,
//! not by the length of the history.
//!
//! A crash loses replies and the duplicate request cache; the end of the process loses those of
//! calls in progress and of WRITE. So an operation that outlives one may have had its effect before
//! it, with its outcome unseen, and has the effect again afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use crate::history::{History, OpId, Record};
use crate::op::{Op, Outcome};

/// The sequential behaviour of an object.
pub(crate) trait Model {
    type State: Clone + Debug + Ord;

    fn start(&self) -> Self::State;

    /// Returns true if an operation concerns this object.
    fn concerns(&self, op: &Op) -> bool;

    /// Returns the state after an operation, or `None` if the operation cannot have this outcome.
    /// Without an outcome, returns the state that the operation leaves with any outcome.
    fn after(
        &self,
        state: &Self::State,
        id: OpId,
        op: &Op,
        outcome: Option<&Outcome>,
    ) -> Option<Self::State>;

    /// The states that are possible after a crash.
    fn crash(&self, state: &Self::State) -> Vec<Self::State>;
}

/// The progress of an operation that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Had {
    /// The operation has had its effect, and its outcome is fixed.
    Outcome,
    /// The operation has had its effect, and the server lost its reply when it next went down.
    Effect,
}

/// One of the orders so far: the state, and the operations in progress that the order contains.
type Possibility<S> = (S, BTreeMap<OpId, Had>);

struct Fit<'a, M: Model> {
    model: &'a M,
    history: &'a History,
    going_on: BTreeSet<OpId>,
    possible: BTreeSet<Possibility<M::State>>,
    /// The place in the records at which the server next goes down.
    next_down: Option<usize>,
}

/// Finds an order, or reports an operation that cannot have had its outcome.
pub(crate) fn fit<M: Model>(model: &M, history: &History) -> Result<(), String> {
    let possible = BTreeSet::from([(model.start(), BTreeMap::new())]);
    let mut fit = Fit { model, history, going_on: BTreeSet::new(), possible, next_down: None };
    let down = |(at, record)| matches!(record, Record::Crashed | Record::Killed).then_some(at);
    let mut downs = history.records().filter_map(down);
    fit.next_down = downs.next();
    for (_, record) in history.records() {
        match record {
            Record::Begun(id) if model.concerns(&history.doing(id).op) => {
                fit.going_on.insert(id);
            }
            Record::Ended(id) if model.concerns(&history.doing(id).op) => fit.end(id)?,
            Record::Begun(_) | Record::Ended(_) => {}
            Record::Crashed | Record::Killed => {
                fit.down(matches!(record, Record::Crashed));
                fit.next_down = downs.next();
            }
        }
    }
    Ok(())
}

impl<M: Model> Fit<'_, M> {
    fn end(&mut self, id: OpId) -> Result<(), String> {
        let states = |possible: &BTreeSet<Possibility<M::State>>| {
            possible.iter().map(|(state, _)| state.clone()).collect::<BTreeSet<_>>()
        };
        let before = states(&self.possible);
        self.place_more();
        let placed = core::mem::take(&mut self.possible).into_iter();
        self.possible = placed
            .filter_map(|(state, mut had)| {
                (had.remove(&id) == Some(Had::Outcome)).then_some((state, had))
            })
            .collect();
        if self.possible.is_empty() {
            let mut text = self.history.tell(id);
            for other in self.going_on.iter().filter(|other| **other != id) {
                text += &format!("\n  while {}", self.history.tell(*other));
            }
            for state in before.iter().take(4) {
                text += &format!("\n  from {state:?}");
            }
            return Err(text);
        }
        self.going_on.remove(&id);
        Ok(())
    }

    fn down(&mut self, crashed: bool) {
        self.place_more();
        let placed = core::mem::take(&mut self.possible);
        for (state, mut had) in placed {
            had.retain(|_, had| *had == Had::Outcome);
            let left = if crashed { self.model.crash(&state) } else { vec![state] };
            self.possible.extend(left.into_iter().map(|state| (state, had.clone())));
        }
    }

    /// Adds all possibilities in which operations in progress have been placed.
    fn place_more(&mut self) {
        let mut fresh: Vec<Possibility<M::State>> = self.possible.iter().cloned().collect();
        while let Some((state, had)) = fresh.pop() {
            for id in self.going_on.iter().filter(|id| !had.contains_key(id)) {
                let doing = self.history.doing(*id);
                let outcome = doing.outcome.as_ref();
                let told = self.model.after(&state, *id, &doing.op, outcome);
                let lost = self.next_down.filter(|down| self.history.may_repeat(*id, *down));
                let untold = lost.and_then(|_| self.model.after(&state, *id, &doing.op, None));
                for (had_now, after) in [(Had::Outcome, told), (Had::Effect, untold)] {
                    let Some(after) = after else { continue };
                    let mut had = had.clone();
                    had.insert(*id, had_now);
                    if self.possible.insert((after.clone(), had.clone())) {
                        fresh.push((after, had));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
