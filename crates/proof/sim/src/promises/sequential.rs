//! Each history fits the sequential model: what several clients did at once to names and to data
//! could have been done in some order, each operation between its beginning and its end.

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
