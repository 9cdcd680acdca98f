//! Promise: data that was acknowledged as stable survives a crash.
//!
//! A program writes growing values to the blocks of its file. After a value was acknowledged as
//! stable, no read may return an older value.

use std::collections::BTreeMap;

use leasehold_wire::nfs3::write::Stability;

use super::own_data;
use crate::history::History;
use crate::op::{Op, Outcome};

pub(super) fn check(history: &History) -> Result<(), String> {
    let mut stable = BTreeMap::new();
    for (id, file, op, outcome) in own_data(history) {
        match (op, outcome) {
            (
                Op::Write { block, value, .. },
                Outcome::Written { stability: Stability::DataSync | Stability::FileSync, .. },
            ) => drop(stable.insert((file, *block), *value)),
            (Op::Read { block, .. }, Outcome::Data(value)) => {
                let least = stable.get(&(file, *block)).copied().unwrap_or(0);
                if *value < least {
                    return Err(format!("{}: {least} was stable", history.tell(id)));
                }
            }
            _ => {}
        }
    }
    Ok(())
}
