//! Whether a history fits a sequential model: whether there is an order of all operations, each at
//! one moment between its beginning and its end, in which every outcome is right.
//!
//! All orders are followed at once, from record to record. An operation need be placed only when
//! one ends, so the number of possibilities is bounded by what is going on at once, not by the
//! length of the history.
//!
//! A crash loses replies and what the server knew of calls, the end of its process those of calls
//! that were being answered and of WRITE. So an operation that outlives one may have had its effect
//! before it, without its outcome being seen, and has it again afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use crate::history::{History, OpId, Record};
use crate::op::{Op, Outcome};

/// What an object does when one operation comes after another.
pub(crate) trait Model {
    type State: Clone + Debug + Ord;

    fn start(&self) -> Self::State;

    /// Whether an operation is one on this object.
    fn concerns(&self, op: &Op) -> bool;

    /// The state after an operation; none when its outcome cannot be this one. Without an outcome,
    /// what it does whatever it was told.
    fn after(
        &self,
        state: &Self::State,
        id: OpId,
        op: &Op,
        outcome: Option<&Outcome>,
    ) -> Option<Self::State>;

    /// The states that a crash may leave.
    fn crash(&self, state: &Self::State) -> Vec<Self::State>;
}

/// What an operation that goes on has had already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Had {
    /// Its effect and the outcome that was told.
    Outcome,
    /// Its effect, of which the server lost the reply when it went down next.
    Effect,
}

/// One of the orders so far: where it led, and which operations that go on are in it.
type Possibility<S> = (S, BTreeMap<OpId, Had>);

struct Fit<'a, M: Model> {
    model: &'a M,
    history: &'a History,
    going_on: BTreeSet<OpId>,
    possible: BTreeSet<Possibility<M::State>>,
    /// Where in the records the server goes down next.
    next_down: Option<usize>,
}

/// Finds an order, or says which operation cannot have ended as it did.
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

    /// Adds to what is possible all that comes of placing operations that go on.
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
