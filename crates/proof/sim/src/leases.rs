//! Worlds of leases: a server and some clients, each with the real machines of `core::leases`, over
//! messages that are lost, duplicated, late and reordered.
//!
//! The server has a store of a few small files and directories; a crash loses each change that was
//! not committed. Clients cache its objects as far as their leases permit: they read, write and
//! look up in their caches, write back, and create names by calls. In some worlds one client is
//! plain and has no leases. Links are cut in one direction or both; clocks drift as far as the
//! terms allow; hosts pause, and process waiting messages when they continue; clients and the
//! server crash, the server also at points in the middle of an operation.
//!
//! In some worlds another server of the same files changes names after all leases on the directory
//! are returned, and this server examines a directory some time before and some time after it
//! changes a name, as metaservers do. After such a change no client shows the removed name from its
//! cache.
//!
//! Each check runs at its event, against an oracle (the truth) that the world knows: the changes of
//! the holder of a write lease, and otherwise the server's data.
//!
//! [`silent`] is a separate world that runs before each of these worlds: its clients never return
//! leases, or return them late, or change their names all the time, and its owner has no leases.

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

/// The options of a world.
#[derive(Clone, Copy, Debug)]
pub struct LeaseOptions {
    /// The seed, which fixes the whole world.
    pub seed: u64,
    /// A planted fault that a checker must find.
    pub mutant: Option<LeaseMutant>,
    /// True if the world records a trace.
    pub trace: bool,
}

/// A deliberate fault of the server or of all clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum LeaseMutant {
    /// A sole reader that requests to write gets the lease and stays counted as a reader, as in
    /// 4.4BSD.
    KeepsReaders,
    /// A writing call causes no recall.
    ChecksNoWrites,
    /// A reading call causes no recall.
    ChecksNoReads,
    /// A restarted server grants every request.
    SkipsRecovery,
    /// The server accepts calls of any epoch.
    IgnoresEpochs,
    /// The server allows for no drift of clocks.
    AllowsNoDrift,
    /// The server grants a lease while a call of another client changes the object.
    ForgetsRunning,
    /// A client keeps its leases in another epoch.
    KeepsEpochs,
    /// A client accepts a grant that its eviction overtook.
    TakesOvertaken,
    /// A client writes late data back like other data.
    PushesLate,
    /// A client counts terms from the reply.
    CountsFromAnswer,
    /// A client uses its cache while its own change is in progress.
    UsesWhileChanging,
    /// A client keeps data that it cached under an earlier lease, with any modrev.
    KeepsOld,
    /// A client that reclaims its changed data keeps its other data, though a crash of the server
    /// undid it.
    KeepsLost,
    /// A client vacates before its changes are written back.
    VacatesDirty,
    /// An evicted client never vacates, and the server waits without limit for requests made before
    /// the eviction.
    NeverEnds,
    /// The server reports data in memory as committed.
    LiesAboutCommits,
    /// A call loses its place in the queue when its caller gives the call up.
    KeepsNoPlace,
    /// The table grants leases that conflict with plain calls which wait.
    YieldsToNobody,
    /// The table grants a client leases however long the client delays other callers.
    BarsNobody,
    /// A holder that does not report keeps its lease.
    AwaitsReports,
    /// The server treats each change of a name as the client's own change, under any lease.
    OwnsAllChanges,
    /// A client caches a name that its own call has changed, under a lease that the server granted
    /// later.
    KeepsOwn,
    /// A client caches the answers to overlapping changes in the order of their arrival.
    KeepsDisordered,
}

impl LeaseMutant {
    /// Every mutant.
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

    /// The promises of which the mutant breaks at least one.
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
