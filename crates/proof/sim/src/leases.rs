//! Worlds of leases: simulated runs with a server and some clients. Each host has the real state
//! machines of `core::leases`. Messages between the hosts are lost, duplicated, delayed and
//! reordered.
//!
//! The server has a store with a few small files and directories. A crash loses each change that no
//! COMMIT has made durable. Clients cache objects as far as their leases permit: they read, write
//! and look up names in their caches, write changed data back, and create names by calls. In some
//! worlds one client is plain, which means that it has no leases. Links are cut in one direction or
//! in both; clocks drift as far as the terms of leases allow; hosts pause, and process the waiting
//! messages when they continue; clients and the server crash, the server also in the middle of an
//! operation.
//!
//! In some worlds another server serves the same files. It changes a name after all leases on the
//! directory are returned. This server then examines a directory some time before and some time
//! after it changes a name, as metaservers do. After a change by the other server, no client may
//! show the removed name from its cache.
//!
//! The simulator makes each check at the event that it concerns. It compares the values that hosts
//! see with the true state (the oracle): the changes of the holder of a write lease, and otherwise
//! the server's data.
//!
//! [`silent`] is a separate world that runs before each of these worlds. Its clients never return
//! leases, return them late, or change their names all the time. In that world the owner of the
//! files, a caller without leases, waits for them.

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
    /// A planted fault, which a check must find.
    pub mutant: Option<LeaseMutant>,
    /// True if the world records a trace.
    pub trace: bool,
}

/// A fault that is planted in the server or in all clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum LeaseMutant {
    /// A sole reader that requests to write gets the write lease, and still counts as a reader, as
    /// in 4.4BSD.
    KeepsReaders,
    /// A writing call causes no recall.
    ChecksNoWrites,
    /// A reading call causes no recall.
    ChecksNoReads,
    /// A restarted server grants every request.
    SkipsRecovery,
    /// The server accepts calls of any epoch.
    IgnoresEpochs,
    /// The server makes no allowance for the drift of clocks.
    AllowsNoDrift,
    /// The server grants a lease while a call of another client changes the object.
    ForgetsRunning,
    /// A client keeps its leases when the server begins another epoch.
    KeepsEpochs,
    /// A client accepts a grant although the recall of the same lease arrived before the grant.
    TakesOvertaken,
    /// A client writes late data back in the same manner as other data.
    PushesLate,
    /// A client counts the term of a lease from the reply, and not from the request.
    CountsFromAnswer,
    /// A client uses its cache while a change by its own call is in progress.
    UsesWhileChanging,
    /// A client keeps data that it cached under an earlier lease, although the modrev has changed.
    KeepsOld,
    /// A client that reclaims a lease for its changed data also keeps its other cached data,
    /// although a crash of the server undid that data.
    KeepsLost,
    /// A client returns a lease before its changes are written back.
    VacatesDirty,
    /// A client never returns a recalled lease, and the server waits without limit for requests
    /// that it made before the recall.
    NeverEnds,
    /// The server reports data in its memory as committed.
    LiesAboutCommits,
    /// When a caller gives a call up and repeats it, the call loses its position in the queue.
    KeepsNoPlace,
    /// The table grants leases that conflict with plain calls that are waiting.
    YieldsToNobody,
    /// The table grants leases to a client, no matter how long the client has delayed other
    /// callers.
    BarsNobody,
    /// A lease holder that does not report keeps its lease.
    AwaitsReports,
    /// The server treats each change of a name as the client's own change, under any lease of the
    /// client.
    OwnsAllChanges,
    /// A client caches a name that its own call has changed, under a lease that the server granted
    /// only after the call.
    KeepsOwn,
    /// A client caches the replies to overlapping changes in the order of their arrival.
    KeepsDisordered,
}

impl LeaseMutant {
    /// All mutants.
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

    /// Returns the promises of which the mutant breaks at least one.
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

    /// Returns true if only worlds of silent clients can find the mutant.
    const fn is_of_silent_clients(self) -> bool {
        matches!(
            self,
            Self::KeepsNoPlace | Self::YieldsToNobody | Self::BarsNobody | Self::AwaitsReports
        )
    }
}

/// Runs one world of leases and one world of silent clients to their ends. Returns the promises
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
