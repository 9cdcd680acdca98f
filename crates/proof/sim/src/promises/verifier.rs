//! Promise: the write verifier changes whenever uncommitted data may be lost.
//!
//! Suppose that data was written under a write verifier, and that no COMMIT acknowledged the data
//! before a crash. Then no operation that begins after the crash may return this verifier.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_wire::nfs3::write::Stability;

use crate::history::{Doing, History, OpId, Record};
use crate::op::{Op, Outcome, Owner};

pub(super) fn check(history: &History) -> Result<(), String> {
    let mut uncommitted: BTreeMap<Owner, BTreeSet<[u8; 8]>> = BTreeMap::new();
    let mut spent = BTreeSet::new();
    let mut last_crash = 0;
    for (at, record) in history.records() {
        match record {
            // The end of the process without a crash of the machine loses no data, so the verifier
            // may stay.
            Record::Begun(_) | Record::Killed => {}
            Record::Crashed => {
                last_crash = at;
                spent.extend(core::mem::take(&mut uncommitted).into_values().flatten());
            }
            Record::Ended(id) => {
                let Some((file, verifier, stability)) = told(history.doing(id)) else { continue };
                if history.outlives(id, last_crash) {
                    // The operation began before the crash, so its reply may also have been sent
                    // before the crash: it proves nothing.
                    continue;
                }
                if spent.contains(&verifier) {
                    return Err(repeated(history, id));
                }
                match stability {
                    Some(Stability::Unstable) => {
                        uncommitted.entry(file).or_default().insert(verifier);
                    }
                    Some(Stability::DataSync | Stability::FileSync) => {}
                    None => drop(uncommitted.remove(&file)),
                }
            }
        }
    }
    Ok(())
}

/// Returns the owner of the file, the verifier in the reply, and the stability with which a WRITE
/// wrote; `None` as the stability of a COMMIT.
fn told(doing: &Doing) -> Option<(Owner, [u8; 8], Option<Stability>)> {
    match (&doing.op, doing.outcome.as_ref()?) {
        (Op::Write { file, .. }, Outcome::Written { verifier, stability }) => {
            Some((*file, *verifier, Some(*stability)))
        }
        (Op::Commit { file }, Outcome::Committed { verifier }) => Some((*file, *verifier, None)),
        _ => None,
    }
}

fn repeated(history: &History, id: OpId) -> String {
    format!("{}: uncommitted data was lost under this verifier", history.tell(id))
}
