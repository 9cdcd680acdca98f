//! Data that was acknowledged by a COMMIT survives a crash.
//!
//! Like [`stable`](super::stable), for values that were written unstably under the verifier that a
//! later COMMIT returned.

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
