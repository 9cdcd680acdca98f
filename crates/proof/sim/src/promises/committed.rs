//! Promise: data that a COMMIT acknowledged survives a crash.
//!
//! The check is like [`stable`](super::stable). It concerns values that were written as unstable
//! data, under the write verifier that a later COMMIT returned.

use std::collections::BTreeMap;

use super::own_data;
use crate::history::History;
use crate::op::{Op, Outcome};

pub(super) fn check(history: &History) -> Result<(), String> {
    let mut written = BTreeMap::new();
    let mut committed = BTreeMap::new();
    for (id, file, op, outcome) in own_data(history) {
        match (op, outcome) {
            (Op::Write { block, value, .. }, Outcome::Written { verifier, .. }) => {
                written.insert((file, *block), (*value, *verifier));
            }
            (Op::Commit { .. }, Outcome::Committed { verifier }) => {
                let covered =
                    written.iter().filter(|((of, _), (_, under))| *of == file && under == verifier);
                committed.extend(covered.map(|(block, (value, _))| (*block, *value)));
            }
            (Op::Read { block, .. }, Outcome::Data(value)) => {
                let least = committed.get(&(file, *block)).copied().unwrap_or(0);
                if *value < least {
                    return Err(format!("{}: {least} was committed", history.tell(id)));
                }
            }
            _ => {}
        }
    }
    Ok(())
}
