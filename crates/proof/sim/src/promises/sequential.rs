//! Each history fits the sequential model: there is an order of all concurrent operations on names
//! and data, each at one moment between its beginning and its end, that explains the outcomes.

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
