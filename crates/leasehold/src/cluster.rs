//! Volumes over I/O daemons on other machines: their addresses, and the key of their cluster.

mod address;
mod believe;
mod distant;
mod epochs;
pub(crate) mod group;
mod key;
mod layout;
mod look;
mod moving;
pub(crate) mod options;
mod own;
mod programs;
mod repair;
mod status;
mod trial;

use leasehold_fs::FsError;

pub(crate) use address::IodAddress;
pub(crate) use believe::{believe, believe_served};
pub(crate) use distant::{Asker, Cluster, Names, Part};
pub(crate) use epochs::noted as noted_epochs;
pub(crate) use group::Group;
pub(crate) use key::Key;
pub(crate) use layout::{lay_out, layout};
pub(crate) use look::check;
pub(crate) use moving::move_home;
pub(crate) use own::{Own, named, own};
pub(crate) use programs::programs;
pub(crate) use repair::{repair, repair_served};
pub(crate) use status::{status, views, volumes};
pub(crate) use trial::run as try_out;

/// Returns the reason why an iod rejects changes, as text.
pub(crate) fn words_of(error: FsError) -> String {
    if error == FsError::ReadOnly {
        return "its file system is read-only".to_owned();
    }
    error.to_string()
}
