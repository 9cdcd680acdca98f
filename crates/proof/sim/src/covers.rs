//! Worlds of metaservers whose clients hold leases. A world is one simulated run. Each metaserver
//! consists of the real state machine of delegable leases (covers), the real lease table for the
//! objects that have their home there, and a client that caches under its leases.
//!
//! Messages between metaservers are lost, duplicated, delayed and reordered; links are cut in one
//! direction or in both; metaservers crash; clients sleep until their leases have expired; and all
//! clocks run differently. There are few files. Then the world heals, which means that the faults
//! end, and each client must read every file.
//!
//! The simulator makes two checks. First, the value of a read, also from a client's cache, was
//! current at some moment since the read began. A value that a client has written under a lease is
//! current from the time of the write, wherever the data is stored. Second, no client writes an
//! object that another client may cache.

mod message;
mod node;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use clap::ValueEnum;
use serde::Deserialize;

use crate::{Broken, Report};

/// The options of a world.
#[derive(Clone, Copy, Debug)]
pub struct CoverOptions {
    /// The seed, which fixes the whole world.
    pub seed: u64,
    /// A planted fault, which a check must find.
    pub mutant: Option<CoverMutant>,
    /// True if the world records a trace.
    pub trace: bool,
}

/// A fault that is planted in all metaservers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum CoverMutant {
    /// A metaserver releases a cover while its clients still hold leases that were delegated under
    /// the cover.
    GivesWhatIsLent,
    /// A metaserver uses a grant of a cover that was recalled before the grant arrived.
    UsesVoid,
    /// A delegated lease is valid for longer than its cover.
    LendsTooLong,
    /// A restarted metaserver does not wait until the leases that its clients may hold have
    /// expired.
    RecoversNothing,
}

impl CoverMutant {
    /// All mutants.
    pub const ALL: &[Self] =
        &[Self::GivesWhatIsLent, Self::UsesVoid, Self::LendsTooLong, Self::RecoversNothing];

    /// Returns the promises of which the mutant breaks at least one.
    #[must_use]
    pub const fn promises(self) -> &'static [&'static str] {
        &["one-writer", "stale-read"]
    }
}

/// Runs one world to its end, and reports each broken promise at the time at which it is broken.
#[must_use]
pub fn run_covers(options: CoverOptions) -> (Report, Vec<Broken>) {
    let ended = catch_unwind(AssertUnwindSafe(|| world::World::new(options).run()));
    ended.unwrap_or_else(|panic| (Report::default(), vec![crate::panicked(&*panic)]))
}
