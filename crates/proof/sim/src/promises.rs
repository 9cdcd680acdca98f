//! The checkers of the promises, one for each promise.

mod committed;
mod once;
mod sequential;
mod stable;
mod verifier;

use std::collections::BTreeSet;

use crate::Broken;
use crate::history::{Doing, History, OpId, Record};
use crate::op::{Op, Outcome, Owner};

type Checker = fn(&History) -> Result<(), String>;

/// Every promise, by its name, with its checker.
const PROMISES: [(&str, Checker); 5] = [
    ("once", once::check),
    ("stable", stable::check),
    ("committed", committed::check),
    ("verifier", verifier::check),
    ("sequential", sequential::check),
];

/// Returns the promises that a history breaks.
pub(crate) fn check(history: &History) -> Vec<Broken> {
    let broken = PROMISES
        .iter()
        .filter_map(|(promise, check)| check(history).err().map(|how| Broken { promise, how }));
    broken.collect()
}

/// Returns all owners of a folder and a file.
fn owners(history: &History) -> BTreeSet<Owner> {
    let programs = history.doings().iter().map(|doing| Owner::Program(doing.program));
    programs.chain([Owner::Shared]).collect()
}

/// Returns the operations of programs on the data of their own files, with the outcomes, in order.
/// A program runs one operation at a time, so each such file has one sequential history.
fn own_data(history: &History) -> impl Iterator<Item = (OpId, Owner, &Op, &Outcome)> {
    history.records().filter_map(|(_, record)| {
        let Record::Ended(id) = record else { return None };
        let Doing { program, op, outcome, .. } = history.doing(id);
        let (Op::Read { file, .. } | Op::Write { file, .. } | Op::Commit { file }) = op else {
            return None;
        };
        let own = *file == Owner::Program(*program);
        own.then_some((id, *file, op, outcome.as_ref().expect("it ended")))
    })
}
