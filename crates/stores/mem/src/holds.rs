//! Holds, which keep a file after its last name is removed.

use leasehold_base::units::FileId;
use leasehold_fs::{FsError, ObjectId};

use crate::node::Body;
use crate::tree::Tree;

/// The maximum number of holds on one file: far above the number of opens of one file in a test.
const HOLDS_MAX: u32 = 1 << 16;

/// A hold on a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    file: FileId,
    generation: u64,
    /// The number of crashes before the hold began; a crash ends all holds.
    crash_count: u64,
}

impl Tree {
    pub(crate) fn hold(&mut self, object: &ObjectId) -> Result<Hold, FsError> {
        let file = self.resolve(object)?;
        let crash_count = self.crash_count();
        let node = self.node_mut(file);
        if !matches!(node.body, Body::Regular { .. }) {
            return Err(FsError::WrongType);
        }
        if node.holds == HOLDS_MAX {
            return Err(FsError::Delay);
        }
        node.holds += 1;
        Ok(Hold { file, generation: node.generation, crash_count })
    }

    /// Ends a hold. Removes the file if it has neither names nor other holds.
    pub(crate) fn release(&mut self, hold: &Hold) {
        if hold.crash_count != self.crash_count() {
            return;
        }
        let node = self.nodes.get_mut(&hold.file).filter(|it| it.generation == hold.generation);
        let Some(node) = node else { return };
        node.holds -= 1;
        if node.holds == 0 && node.link_count == 0 {
            self.forget(hold.file);
        }
    }

    /// Ends all holds, as a crash does.
    pub(crate) fn drop_holds(&mut self) {
        let mut unnamed = Vec::new();
        for (id, node) in &mut self.nodes {
            node.holds = 0;
            if node.link_count == 0 {
                unnamed.push(*id);
            }
        }
        unnamed.into_iter().for_each(|id| self.forget(id));
    }
}
