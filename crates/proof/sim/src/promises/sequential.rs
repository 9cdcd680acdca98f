//! Promise: each history fits the sequential model. All concurrent operations on names and data can
//! be put into an order that explains the outcomes, with each operation at one moment between its
//! beginning and its end.

use super::owners;
use crate::fit::fit;
use crate::history::History;
use crate::model::block::Block;
use crate::model::folder::Folder;
use crate::op::{BLOCK_COUNT, Owner};

pub(super) fn check(history: &History) -> Result<(), String> {
    fit(&Folder::new(Owner::Shared, history), history)?;
    for file in owners(history) {
        for block in 0..BLOCK_COUNT {
            fit(&Block { file, block }, history)?;
        }
    }
    Ok(())
}
