//! Volumes over I/O daemons on other machines: where those are, and the key of their cluster.

mod address;
mod distant;
mod key;
pub(crate) mod options;

pub(crate) use address::IodAddress;
pub(crate) use distant::{Cluster, Part};
pub(crate) use key::Key;
