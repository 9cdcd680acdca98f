//! Worlds of several metaservers of one file system. A world is one simulated run. Each metaserver
//! consists of the real state machines of `core::replica`, with a client that creates, renames,
//! replaces, removes, looks up, reads and writes objects. The messages between metaservers are
//! lost, duplicated, delayed and reordered.
//!
//! Links are cut in one direction or in both; metaservers crash, also right after a write to their
//! disk, and restart, some from an old backup; clocks run at different rates. There are few names,
//! so that clients conflict. Then the world heals: the faults end, and each client must find every
//! name.
//!
//! The simulator makes each check at the event that it concerns. It compares the states that
//! metaservers show with the true state (the oracle), which consists of the contents of the homes'
//! disks. The objects form a tree at every moment, and no object disappears without a request. An
//! object that replaces another object has its old name or the new name, and the new name always
//! has an object. The exception are directories of two homes: one is removed before the other is
//! renamed. An object that a metaserver shows was current at most a staleness bound (window) ago.
//! In strict worlds, where metaservers cache under leases, it was current at some time after the
//! client's request.

mod effects;
mod leasing;
mod message;
mod node;
mod operation;
mod searching;
mod serve;
mod truth;
mod world;
mod yielding;

use std::panic::{AssertUnwindSafe, catch_unwind};

use clap::ValueEnum;
use serde::Deserialize;

use crate::{Broken, Report};

/// The options of a world.
#[derive(Clone, Copy, Debug)]
pub struct ReplicaOptions {
    /// The seed, which fixes the whole world.
    pub seed: u64,
    /// A planted fault, which a check must find.
    pub mutant: Option<ReplicaMutant>,
    /// True if metaservers cache under leases, so that they show no old data.
    pub strict: bool,
    /// True if the world records a trace.
    pub trace: bool,
}

/// A fault that is planted in all metaservers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum ReplicaMutant {
    /// A metaserver accepts calls of any epoch.
    IgnoresEpochs,
    /// A metaserver serves metadata that is older than a version that it has already shown to its
    /// peers.
    ServesOlder,
    /// A metaserver counts the validity of a copy from the reply, and not from the request.
    CountsFromAnswer,
    /// On a change notice a metaserver drops its copy, but does not remember the version in the
    /// notice.
    ForgetsAnnouncements,
    /// A metaserver uses an expired copy if the object's home does not reply.
    UsesOld,
    /// A metaserver uses a copy without a time limit.
    NeverAsks,
    /// A metaserver replies to a COMMIT before it sends the changes to the home.
    CommitsEarly,
    /// A metaserver assigns a name that another object has claimed.
    TakesNames,
    /// A metaserver assigns a name whose object was prepared to be replaced, although that change
    /// has failed.
    TakesYielded,
    /// A metaserver closes a directory for its removal without asking its peers if the directory
    /// has names.
    ClosesFull,
    /// A directory stays open for new names after a peer has asked whether it is empty.
    LeavesOpen,
    /// Metaservers do not claim names.
    ClaimsNothing,
    /// A directory gets another parent without the permission of the root's home.
    TakesLeave,
    /// A metaserver does not report pending claims of a name.
    HidesClaims,
    /// An object gets a name although the claim of the name was refused.
    TakesRefused,
    /// A directory that is replaced may contain entries.
    ReplacesFull,
    /// If an object does not get a new name, it loses its current name.
    LosesRefused,
    /// A replacement first removes the old object, and then renames the new object.
    ReplacesInTwoSteps,
    /// A metaserver shows an object that is prepared to be replaced.
    ShowsYielded,
    /// A metaserver reports "not found" for a name that its object has just lost to an object of
    /// another home.
    ForgetsLost,
    /// A restarted metaserver does not complete a recorded replacement of an object of another
    /// home.
    ForgetsReplaced,
    /// A metaserver drops the record of a name although its object still has the name.
    DropsStanding,
    /// The root's home permits every move of a directory to another parent, without checking the
    /// ancestors of the new parent.
    LooksNowhere,
    /// A search treats a metaserver that does not reply as a metaserver that does not have the
    /// name.
    GivesUp,
    /// A search does not find an object that got the name at the metaserver itself while it queried
    /// the peers.
    MissesHome,
    /// A metaserver keeps a lease that the home has recalled.
    IgnoresEvictions,
    /// A metaserver keeps copies from before the home began its current epoch.
    IgnoresRestarts,
    /// A home changes an object without recalling the leases of other metaservers.
    EvictsNobody,
    /// A home grants a lease on an object while the object is being changed.
    GrantsMeanwhile,
}

impl ReplicaMutant {
    /// All mutants.
    pub const ALL: &[Self] = &[
        Self::IgnoresEpochs,
        Self::ServesOlder,
        Self::CountsFromAnswer,
        Self::ForgetsAnnouncements,
        Self::UsesOld,
        Self::NeverAsks,
        Self::CommitsEarly,
        Self::TakesNames,
        Self::TakesYielded,
        Self::ClosesFull,
        Self::LeavesOpen,
        Self::ClaimsNothing,
        Self::TakesLeave,
        Self::HidesClaims,
        Self::TakesRefused,
        Self::ReplacesFull,
        Self::LosesRefused,
        Self::ReplacesInTwoSteps,
        Self::ShowsYielded,
        Self::ForgetsLost,
        Self::ForgetsReplaced,
        Self::DropsStanding,
        Self::LooksNowhere,
        Self::GivesUp,
        Self::MissesHome,
        Self::IgnoresEvictions,
        Self::IgnoresRestarts,
        Self::EvictsNobody,
        Self::GrantsMeanwhile,
    ];

    /// Returns true if the mutant is a fault of leases, which only strict worlds can find.
    #[must_use]
    pub const fn is_strict(self) -> bool {
        matches!(
            self,
            Self::ShowsYielded
                | Self::IgnoresEvictions
                | Self::IgnoresRestarts
                | Self::EvictsNobody
                | Self::GrantsMeanwhile
        )
    }

    /// Returns the promises of which the mutant breaks at least one.
    #[must_use]
    pub const fn promises(self) -> &'static [&'static str] {
        match self {
            Self::IgnoresEpochs => &["once"],
            Self::ServesOlder => &["older-metadata"],
            Self::CountsFromAnswer
            | Self::UsesOld
            | Self::NeverAsks
            | Self::GivesUp
            | Self::MissesHome => &["bounded-staleness"],
            Self::ForgetsAnnouncements => &["gone"],
            Self::CommitsEarly => &["released"],
            Self::IgnoresEvictions
            | Self::IgnoresRestarts
            | Self::EvictsNobody
            | Self::GrantsMeanwhile => &["bounded-staleness"],
            Self::TakesNames | Self::TakesYielded | Self::HidesClaims => &["one-name", "tree"],
            Self::ClosesFull
            | Self::LeavesOpen
            | Self::ReplacesFull
            | Self::TakesLeave
            | Self::LooksNowhere => &["tree"],
            Self::ClaimsNothing | Self::TakesRefused => &["one-name", "tree"],
            Self::LosesRefused | Self::DropsStanding => &["no-file-lost"],
            Self::ForgetsLost | Self::ForgetsReplaced => &["no-file-lost", "bounded-staleness"],
            Self::ShowsYielded => &["bounded-staleness"],
            Self::ReplacesInTwoSteps => &["name-stays"],
        }
    }
}

/// Runs one world of metaservers to its end, and reports each broken promise at the time at which
/// it is broken.
#[must_use]
pub fn run_replica(options: ReplicaOptions) -> (Report, Vec<Broken>) {
    let ended = catch_unwind(AssertUnwindSafe(|| world::World::new(options).run()));
    ended.unwrap_or_else(|panic| (Report::default(), vec![crate::panicked(&*panic)]))
}
