//! Written data that the server refused, until a program that had the file open was told: where all
//! have closed it before, whoever ends the client is.

use std::collections::BTreeSet;

use leasehold_session::Error;

use crate::client::Client;
use crate::nodes::NodeId;

/// Of how many files it is known that a program is told after all.
const FILES_MAX: usize = 4096;

/// The files that data was refused of and no program was told of.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    files: BTreeSet<NodeId>,
    /// Whether there were more.
    are_more: bool,
    /// Why the last was.
    why: Option<Error>,
}

impl Refusals {
    /// Data of a file was refused, and why.
    pub(crate) fn refused(&mut self, node: NodeId, why: Option<Error>) {
        self.why = why;
        if self.files.len() < FILES_MAX || self.files.contains(&node) {
            self.files.insert(node);
        } else {
            self.are_more = true;
        }
    }

    /// A program was told so.
    pub(crate) fn told(&mut self, node: NodeId) {
        self.files.remove(&node);
    }

    fn is_empty(&self) -> bool {
        self.files.is_empty() && !self.are_more
    }
}

impl Client {
    /// Whether the server refused written data, and no write, flush or fsync has said so.
    #[must_use]
    pub fn has_refused_untold(&self) -> bool {
        !self.shared.state().refusals.is_empty()
    }

    /// Why the server last refused written data, if it did.
    #[must_use]
    pub fn why_refused(&self) -> Option<Error> {
        self.shared.state().refusals.why.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_told_stays() {
        let mut refusals = Refusals::default();
        assert!(refusals.is_empty());
        for node in [1, 2, 1] {
            refusals.refused(NodeId(node), None);
        }
        refusals.told(NodeId(1));
        assert!(!refusals.is_empty());
        refusals.told(NodeId(2));
        assert!(refusals.is_empty());
    }

    #[test]
    fn more_files_than_are_known_stay_untold() {
        let mut refusals = Refusals::default();
        let nodes = || (0..=FILES_MAX as u64).map(NodeId);
        nodes().for_each(|node| refusals.refused(node, None));
        assert_eq!(refusals.files.len(), FILES_MAX);
        nodes().for_each(|node| refusals.told(node));
        assert!(!refusals.is_empty());
    }
}
