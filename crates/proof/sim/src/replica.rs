//! Worlds of metaservers: some of them, each the real machines of `core::replica`, with a client
//! that makes, renames, replaces, removes, looks for, writes, sets and uses objects, over messages
//! that are lost, doubled, late and overtaken.
//!
//! Links are cut, in one direction or both; metaservers crash, also right after something is on
//! their disk, and are started again, some with an old backup; clocks run differently. Names are
//! few, so that clients meet. Then the world heals, and each client must find every name.
//!
//! What is checked is checked when it happens, against the truth, which a world knows: what the
//! homes have on their disks. That is a tree at every moment, from which nothing goes that nobody
//! asked away: what replaces another object stands at its old name or at the new one, and somebody
//! has the new one all the while, but for directories of two homes, where one is removed before the
//! other is renamed.
//! What is shown was so at most a window ago; in strict worlds, where copies are had by leases, when
//! the client had asked already.

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

/// What to simulate.
#[derive(Clone, Copy, Debug)]
pub struct ReplicaOptions {
    /// What fixes everything else.
    pub seed: u64,
    /// A fault that is to be found.
    pub mutant: Option<ReplicaMutant>,
    /// Whether copies are had by leases: then nothing old is shown.
    pub strict: bool,
    /// Whether to tell all that happens.
    pub trace: bool,
}

/// A deliberate fault of all metaservers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum ReplicaMutant {
    /// Calls are let in whatever epoch they are of.
    IgnoresEpochs,
    /// Older metadata than others were told of is served.
    ServesOlder,
    /// A copy is good for a window from the answer.
    CountsFromAnswer,
    /// An announcement drops the copy and is forgotten.
    ForgetsAnnouncements,
    /// A copy is used when its home does not answer.
    UsesOld,
    /// A copy is good for ever.
    NeverAsks,
    /// COMMIT is answered before the release.
    CommitsEarly,
    /// A name that another has claimed is taken from it.
    TakesNames,
    /// A name is taken from what has yielded it to a change that came to nothing.
    TakesYielded,
    /// A directory is closed without asking.
    ClosesFull,
    /// A directory that is asked about is open.
    LeavesOpen,
    /// Names are not claimed.
    ClaimsNothing,
    /// A directory gets another parent without leave.
    TakesLeave,
    /// Nothing is about to stand anywhere.
    HidesClaims,
    /// A name is had that was refused.
    TakesRefused,
    /// A directory that is replaced need not be empty.
    ReplacesFull,
    /// What does not get another name loses the one that it has.
    LosesRefused,
    /// What is replaced is removed, and then what replaces it renamed.
    ReplacesInTwoSteps,
    /// What yields its name is shown.
    ShowsYielded,
    /// What has lost its name to what has another home just now is nowhere.
    ForgetsLost,
    /// What a start finds to have replaced what has another home is left as it is.
    ForgetsReplaced,
    /// A note of a name is dropped though its object stands there.
    DropsStanding,
    /// Each gets leave that asks.
    LooksNowhere,
    /// Who does not answer does not have the name.
    GivesUp,
    /// What has come to stand at home while others were asked is nowhere.
    MissesHome,
    /// A lease that is taken back is kept.
    IgnoresEvictions,
    /// What was had from a home before its last epoch is kept.
    IgnoresRestarts,
    /// What others have a lease on is changed.
    EvictsNobody,
    /// A lease is granted on what is being changed.
    GrantsMeanwhile,
}

impl ReplicaMutant {
    /// Every one.
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

    /// Whether it is one of leases, so that its worlds are strict.
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

    /// The promises of which it breaks one.
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

/// Runs one world of metaservers to its end; what is broken is found as it happens.
#[must_use]
pub fn run_replica(options: ReplicaOptions) -> (Report, Vec<Broken>) {
    let ended = catch_unwind(AssertUnwindSafe(|| world::World::new(options).run()));
    ended.unwrap_or_else(|panic| (Report::default(), vec![crate::panicked(&*panic)]))
}
