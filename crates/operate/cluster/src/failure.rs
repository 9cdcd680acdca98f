//! The failures of a cluster's parts on this machine.

use std::fmt;

/// The reason why an operation on a cluster failed.
#[derive(Debug)]
pub struct Failure {
    kind: Kind,
    /// The fault, its place and the remedy.
    text: String,
}

/// The part of the set-up that has the fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The configuration of the cluster.
    Configuration,
    /// A directory of this machine, or the directory of an iod.
    Directory,
    /// The file with the key of the cluster.
    Key,
    /// The running system: this machine, or another server.
    Running,
}

impl Kind {
    pub(crate) fn because(self, text: impl Into<String>) -> Failure {
        Failure { kind: self, text: text.into() }
    }
}

impl Failure {
    /// Returns the part of the set-up that has the fault.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
