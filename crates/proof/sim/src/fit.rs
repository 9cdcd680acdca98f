//! Checks that a history fits a sequential model. A history fits if all its operations can be put
//! into an order in which every outcome is correct, with each operation at one moment between its
//! beginning and its end.
//!
//! The check reads the history once, and keeps the set of all orders that are still possible at the
//! current record. An operation must have its position in the order only when the history records
//! its end. So the number of possibilities depends on the number of concurrent operations, and not
//! on the length of the history.
//!
//! A crash loses replies and the duplicate request cache. The end of the process loses the replies
//! to calls in progress, and the cache entries of WRITE. So if an operation began before such a
//! failure and ended after it, the operation may have had its effect twice: once before the
//! failure, with a reply that was lost, and again afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use crate::history::{History, OpId, Record};
use crate::op::{Op, Outcome};

/// The sequential behaviour of an object, such as a folder or a block.
pub(crate) trait Model {
    type State: Clone + Debug + Ord;

    fn start(&self) -> Self::State;

    /// Returns true if an operation concerns this object.
    fn concerns(&self, op: &Op) -> bool;

    /// Returns the state after an operation, or `None` if the operation cannot have this outcome in
    /// this state. With `outcome` absent, the outcome is unknown: returns the state after the
    /// operation with its correct outcome.
    fn after(
        &self,
        state: &Self::State,
        id: OpId,
        op: &Op,
        outcome: Option<&Outcome>,
    ) -> Option<Self::State>;

    /// Returns the states that are possible after a crash.
    fn crash(&self, state: &Self::State) -> Vec<Self::State>;
}

/// The progress of an operation that has a position in the order, but has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Had {
    /// The operation has had its effect, and its outcome agrees with the model.
    Outcome,
    /// The operation has had its effect, but the server lost its reply when it next went down.
    Effect,
}

/// One possible order up to the current record: the state of the object, and the operations in
/// progress that have a position in the order.
type Possibility<S> = (S, BTreeMap<OpId, Had>);

struct Fit<'a, M: Model> {
    model: &'a M,
    history: &'a History,
    going_on: BTreeSet<OpId>,
    possible: BTreeSet<Possibility<M::State>>,
    /// The index of the record at which the server next goes down.
    next_down: Option<usize>,
}

/// Searches for an order. Reports an operation that cannot have had its outcome.
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

    /// Adds further possibilities: for each known possibility, all possibilities in which more
    /// operations in progress have had their effect.
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
