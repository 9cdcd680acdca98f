//! Worlds of metaservers: several of them, each with the real machines of `core::replica`, and with
//! a client that creates, renames, replaces, removes, looks up, writes, sets and uses objects, over
//! messages that are lost, duplicated, late and reordered.
//!
//! Links are cut in one direction or both; metaservers crash, also right after a write to their
//! disk, and restart, some with an old backup; clocks run differently. There are few names, so that
//! clients conflict. Then the world heals, and each client must find every name.
//!
//! Each check runs at its event, against an oracle (the truth) that the world knows: the contents
//! of the homes' disks. They form a tree at every moment, and no object disappears without a
//! request. An object that replaces another has its old name or the new one, and the new name
//! always has an object, except for directories of two homes, where one is removed before the other
//! is renamed. An object that a metaserver shows was current at most a window ago; in strict
//! worlds, where metaservers cache under leases, it was current after the client's request.

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
    /// A planted fault that a checker must find.
    pub mutant: Option<ReplicaMutant>,
    /// True if metaservers cache under leases: then they show no old data.
    pub strict: bool,
    /// True if the world records a trace.
    pub trace: bool,
}

/// A deliberate fault of all metaservers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum ReplicaMutant {
    /// A metaserver accepts calls of any epoch.
    IgnoresEpochs,
    /// A metaserver serves metadata that is older than the version that it showed to others.
    ServesOlder,
    /// A copy is valid for a window from the reply.
    CountsFromAnswer,
    /// A change notice drops the copy, and its stamp is forgotten.
    ForgetsAnnouncements,
    /// A metaserver uses a copy when its home does not answer.
    UsesOld,
    /// A copy is valid without limit.
    NeverAsks,
    /// COMMIT is answered before the changes are sent to the home.
    CommitsEarly,
    /// A metaserver takes a name that another has claimed.
    TakesNames,
    /// A metaserver takes a name whose object has yielded it to a change that failed.
    TakesYielded,
    /// A metaserver closes a directory without asking the others.
    ClosesFull,
    /// A directory that others ask about stays open.
    LeavesOpen,
    /// Names are not claimed.
    ClaimsNothing,
    /// A directory gets another parent without permission.
    TakesLeave,
    /// A metaserver hides pending claims.
    HidesClaims,
    /// An object gets a name that was refused.
    TakesRefused,
    /// A directory that is replaced may have entries.
    ReplacesFull,
    /// An object that does not get another name loses its present one.
    LosesRefused,
    /// A replacement first removes the old object, and then renames the new one.
    ReplacesInTwoSteps,
    /// A metaserver shows an object that has yielded its name.
    ShowsYielded,
    /// An object that has just lost its name to an object of another home is not found.
    ForgetsLost,
    /// A start leaves a recorded replacement of an object of another home unfinished.
    ForgetsReplaced,
    /// A metaserver drops the record of a name though its object has that name.
    DropsStanding,
    /// Every request gets permission.
    LooksNowhere,
    /// A metaserver that does not answer counts as one that lacks the name.
    GivesUp,
    /// An object that appeared at home during a query of others is not found.
    MissesHome,
    /// A metaserver keeps a lease that was recalled.
    IgnoresEvictions,
    /// A metaserver keeps copies from before the last epoch of a home.
    IgnoresRestarts,
    /// A home changes an object without recalling the leases of others.
    EvictsNobody,
    /// A home grants a lease on an object during its change.
    GrantsMeanwhile,
}

impl ReplicaMutant {
    /// Every mutant.
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

    /// Returns true if the mutant is a fault of leases, so that its worlds are strict.
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

    /// The promises of which the mutant breaks at least one.
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

/// Runs one world of metaservers to its end and reports each broken promise at the time of the
/// fault.
#[must_use]
pub fn run_replica(options: ReplicaOptions) -> (Report, Vec<Broken>) {
    let ended = catch_unwind(AssertUnwindSafe(|| world::World::new(options).run()));
    ended.unwrap_or_else(|panic| (Report::default(), vec![crate::panicked(&*panic)]))
}
