//! Volumes over I/O daemons (iods) and several metaservers, as one server of a cluster runs them.
//!
//! A [`Volume`] joins the names of a directory with stripes in directories of this machine or on
//! iods of other machines ([`Cluster`]). A [`Group`] is the metaservers of one file system. The
//! cluster key ([`Key`]) authenticates the servers of a cluster to each other, and an epoch
//! (`epochs`) fences a metaserver that another has superseded. [`Tending`] runs the background work
//! of a server, [`programs()`] returns its programs for other metaservers and for referrals.
//! [`look()`], [`repair_unserved`], [`repair_served`], [`believe()`], [`lay_out`] and [`move_home`] do
//! the work of an administrator's commands; this crate prints nothing.

mod address;
mod believe;
pub mod defaults;
mod distant;
mod epochs;
mod failure;
mod group;
mod health;
mod key;
mod layout;
mod lease_bridge;
mod look;
mod members;
mod moving;
mod names;
mod own;
mod programs;
mod rebalancer;
mod referral;
mod removals;
mod repair;
mod scrub;
mod served;
mod turns;
mod volume;

use leasehold_fs::FsError;

pub use address::IodAddress;
pub use believe::believe;
pub use distant::{Asker, Cluster, Names, Part};
pub use epochs::noted as noted_epochs;
pub use failure::{Failure, Kind};
pub use group::{Group, is_one_of_several};
pub use key::Key;
pub use layout::lay_out;
pub use lease_bridge::Clients;
pub use look::{Found, look};
pub use moving::move_home;
pub use names::check as check_names;
pub use own::{Own, named, own};
pub use programs::programs;
pub use rebalancer::Tending;
pub use referral::Referral;
pub use removals::keep as keep_removals;
pub use repair::{FoundOn, repair_served, repair_unserved};
pub use served::Served;
pub use turns::keep as keep_turns;
pub use volume::{Layout, Volume, claim, open, open_iods};

/// Returns the reason why an iod rejects changes, as text.
#[must_use]
pub fn words_of(error: FsError) -> String {
    if error == FsError::ReadOnly {
        return "its file system is read-only".to_owned();
    }
    error.to_string()
}
