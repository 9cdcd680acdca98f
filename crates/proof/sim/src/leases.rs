//! Worlds of leases: a server and some clients, each the real machines of `core::leases`, over
//! messages that are lost, doubled, late and overtaken.
//!
//! The server has a store of a few small files and directories, in which a change is lost by a
//! crash unless it was committed. Clients cache it as far as their leases go: they read, write and
//! look in their caches, write back, and make names by calls. One client in some worlds is plain,
//! and knows nothing of leases. Links are cut, in one direction or both; clocks run wrong by as
//! much as the terms allow for; hosts are paused, and find what came meanwhile when they go on;
//! clients and the server crash, the server also at the points where it has half done something.
//!
//! In some worlds another server of the same files changes names, once all leases on the directory
//! are given back, and this server looks at a directory some time before and some time after it
//! changes a name, as metaservers do. After such a change no client shows the removed name from its
//! cache.
//!
//! What is checked is checked when it happens, against the truth, which a world knows: what the
//! holder of a write lease has changed, and otherwise what the server has.
//!
//! [`silent`] is a separate world that runs before each of these worlds: its clients give no lease
//! back, or give leases back late, or change their names all the time, and its owner has no leases.

mod client;
mod message;
mod server;
mod silent;
mod store;
mod truth;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use clap::ValueEnum;
use leasehold_core::leases::{holder, table};
use serde::Deserialize;

use crate::{Broken, Report};

/// What to simulate.
#[derive(Clone, Copy, Debug)]
pub struct LeaseOptions {
    /// What fixes everything else.
    pub seed: u64,
    /// A fault that is to be found.
    pub mutant: Option<LeaseMutant>,
    /// Whether to tell all that happens.
    pub trace: bool,
}

/// A deliberate fault of the server or of all clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum LeaseMutant {
    /// A sole reader that asks to write is granted that, and counted as a reader, as 4.4BSD has it.
    KeepsReaders,
    /// A writing call evicts nobody.
    ChecksNoWrites,
    /// A reading call evicts nobody.
    ChecksNoReads,
    /// A server that was started again grants whatever it is asked for.
    SkipsRecovery,
    /// The server takes calls of any epoch.
    IgnoresEpochs,
    /// The server allows for no drift of clocks.
    AllowsNoDrift,
    /// A lease is granted while a call of another changes the object.
    ForgetsRunning,
    /// A client goes on with its leases in another epoch.
    KeepsEpochs,
    /// A client takes a grant that was overtaken by its eviction.
    TakesOvertaken,
    /// Late data is pushed as if it were not late.
    PushesLate,
    /// A client counts terms from the answer.
    CountsFromAnswer,
    /// A client uses its cache while its own change is under way.
    UsesWhileChanging,
    /// A client keeps what it cached before another lease, whatever the modrev.
    KeepsOld,
    /// A client that reclaims what it changed keeps the rest, though a crash took it back.
    KeepsLost,
    /// A client vacates before what it changed is back.
    VacatesDirty,
    /// An evicted client never vacates, and the server waits for ever for what was asked before.
    NeverEnds,
    /// The server says of what it has in memory that it is committed.
    LiesAboutCommits,
    /// A call keeps no place after its caller has given the call up.
    KeepsNoPlace,
    /// The table grants leases that conflict with plain calls which wait.
    YieldsToNobody,
    /// The table grants a client leases however long the client delays other callers.
    BarsNobody,
    /// A holder that does not report keeps its lease.
    AwaitsReports,
    /// The server calls a change of a name the client's own change, whatever lease the client has
    /// held.
    OwnsAllChanges,
    /// A client caches a name that its call has changed, under a lease that the server granted
    /// since.
    KeepsOwn,
    /// A client caches the answers to overlapping changes in the order of their arrival.
    KeepsDisordered,
}

impl LeaseMutant {
    /// Every one.
    pub const ALL: &[Self] = &[
        Self::KeepsReaders,
        Self::ChecksNoWrites,
        Self::ChecksNoReads,
        Self::SkipsRecovery,
        Self::IgnoresEpochs,
        Self::AllowsNoDrift,
        Self::ForgetsRunning,
        Self::KeepsEpochs,
        Self::TakesOvertaken,
        Self::PushesLate,
        Self::CountsFromAnswer,
        Self::UsesWhileChanging,
        Self::KeepsOld,
        Self::KeepsLost,
        Self::VacatesDirty,
        Self::NeverEnds,
        Self::LiesAboutCommits,
        Self::KeepsNoPlace,
        Self::YieldsToNobody,
        Self::BarsNobody,
        Self::AwaitsReports,
        Self::OwnsAllChanges,
        Self::KeepsOwn,
        Self::KeepsDisordered,
    ];

    /// The promises of which it breaks one.
    #[must_use]
    pub const fn promises(self) -> &'static [&'static str] {
        match self {
            Self::KeepsReaders | Self::SkipsRecovery | Self::AllowsNoDrift => {
                &["one-writer", "recovery"]
            }
            Self::CountsFromAnswer | Self::TakesOvertaken => &["one-writer", "fresh-data"],
            Self::IgnoresEpochs | Self::KeepsEpochs => &["one-writer", "recovery", "fresh-data"],
            Self::ChecksNoReads | Self::VacatesDirty => &["fresh-data", "fresh-attributes"],
            Self::ChecksNoWrites
            | Self::ForgetsRunning
            | Self::UsesWhileChanging
            | Self::KeepsLost
            | Self::KeepsOld => &["fresh-data", "fresh-names", "fresh-attributes"],
            Self::OwnsAllChanges | Self::KeepsOwn | Self::KeepsDisordered => {
                &["fresh-names", "fresh-attributes"]
            }
            Self::PushesLate => &["late-data"],
            Self::NeverEnds => &["progress"],
            Self::KeepsNoPlace | Self::YieldsToNobody | Self::AwaitsReports => &["bounded-wait"],
            Self::BarsNobody => &["bounded-share"],
            Self::LiesAboutCommits => &["committed"],
        }
    }

    const fn of_table(self) -> Option<table::Mutant> {
        match self {
            Self::KeepsReaders => Some(table::Mutant::KeepsReaders),
            Self::ChecksNoWrites => Some(table::Mutant::ChecksNoWrites),
            Self::ChecksNoReads => Some(table::Mutant::ChecksNoReads),
            Self::SkipsRecovery => Some(table::Mutant::SkipsRecovery),
            Self::AllowsNoDrift => Some(table::Mutant::AllowsNoDrift),
            Self::ForgetsRunning => Some(table::Mutant::ForgetsRunning),
            Self::NeverEnds => Some(table::Mutant::NeverEnds),
            Self::KeepsNoPlace => Some(table::Mutant::KeepsNoPlace),
            Self::YieldsToNobody => Some(table::Mutant::YieldsToNobody),
            Self::BarsNobody => Some(table::Mutant::BarsNobody),
            Self::AwaitsReports => Some(table::Mutant::AwaitsReports),
            Self::OwnsAllChanges => Some(table::Mutant::OwnsAllChanges),
            Self::IgnoresEpochs
            | Self::KeepsEpochs
            | Self::TakesOvertaken
            | Self::PushesLate
            | Self::CountsFromAnswer
            | Self::UsesWhileChanging
            | Self::KeepsOld
            | Self::KeepsLost
            | Self::KeepsOwn
            | Self::KeepsDisordered
            | Self::VacatesDirty
            | Self::LiesAboutCommits => None,
        }
    }

    const fn of_holder(self) -> Option<holder::Mutant> {
        match self {
            Self::KeepsEpochs => Some(holder::Mutant::KeepsEpochs),
            Self::TakesOvertaken => Some(holder::Mutant::TakesOvertaken),
            Self::PushesLate => Some(holder::Mutant::PushesLate),
            Self::CountsFromAnswer => Some(holder::Mutant::CountsFromAnswer),
            Self::UsesWhileChanging => Some(holder::Mutant::UsesWhileChanging),
            Self::KeepsOld => Some(holder::Mutant::KeepsOld),
            Self::KeepsLost => Some(holder::Mutant::KeepsLost),
            Self::KeepsOwn => Some(holder::Mutant::KeepsOwn),
            Self::KeepsDisordered => Some(holder::Mutant::KeepsDisordered),
            Self::VacatesDirty => Some(holder::Mutant::VacatesDirty),
            Self::NeverEnds => Some(holder::Mutant::NeverVacates),
            Self::KeepsReaders
            | Self::ChecksNoWrites
            | Self::ChecksNoReads
            | Self::SkipsRecovery
            | Self::IgnoresEpochs
            | Self::AllowsNoDrift
            | Self::ForgetsRunning
            | Self::KeepsNoPlace
            | Self::YieldsToNobody
            | Self::BarsNobody
            | Self::AwaitsReports
            | Self::OwnsAllChanges
            | Self::LiesAboutCommits => None,
        }
    }

    /// True if only worlds of silent clients can find the mutant.
    const fn is_of_silent_clients(self) -> bool {
        matches!(
            self,
            Self::KeepsNoPlace | Self::YieldsToNobody | Self::BarsNobody | Self::AwaitsReports
        )
    }
}

/// Runs one world of leases to its end, and one world of silent clients, and returns the promises
/// that the worlds broke.
#[must_use]
pub fn run_leases(options: LeaseOptions) -> (Report, Vec<Broken>) {
    let run = || {
        let silent = silent::run(options);
        if options.mutant.is_some_and(LeaseMutant::is_of_silent_clients) || !silent.is_empty() {
            return (Report::default(), silent);
        }
        world::World::new(options).run()
    };
    let ended = catch_unwind(AssertUnwindSafe(run));
    ended.unwrap_or_else(|panic| (Report::default(), vec![crate::panicked(&*panic)]))
}
