//! Worlds of metaservers whose clients hold leases. Each metaserver has the real machine of
//! delegable leases (covers), the real lease table for the objects that have their home there, and
//! a client that caches under its leases.
//!
//! Messages between metaservers are lost, duplicated, late and reordered, links are cut in one
//! direction or both, metaservers crash, clients sleep past their leases, and all clocks run
//! differently. There are few files. Then the world heals, and each client must read every file.
//!
//! The checks are two. The value of a read, also from a client's cache, was current at some moment
//! since the read began; a value that a client has written under a lease is current from then on,
//! wherever the data is. And no client writes an object that another client may cache.

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
    /// A planted fault that a checker must find.
    pub mutant: Option<CoverMutant>,
    /// True if the world records a trace.
    pub trace: bool,
}

/// A deliberate fault of all metaservers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum CoverMutant {
    /// A metaserver gives a cover back while clients still hold leases that were delegated under
    /// it.
    GivesWhatIsLent,
    /// A metaserver uses a grant that was recalled before it arrived.
    UsesVoid,
    /// A delegated lease outlasts its cover.
    LendsTooLong,
    /// A metaserver that restarts does not wait for the leases that its clients hold.
    RecoversNothing,
}

impl CoverMutant {
    /// Every mutant.
    pub const ALL: &[Self] =
        &[Self::GivesWhatIsLent, Self::UsesVoid, Self::LendsTooLong, Self::RecoversNothing];

    /// The promises of which the mutant breaks at least one.
    #[must_use]
    pub const fn promises(self) -> &'static [&'static str] {
        &["one-writer", "stale-read"]
    }
}

/// Runs one world to its end and reports each broken promise at the time of the fault.
#[must_use]
pub fn run_covers(options: CoverOptions) -> (Report, Vec<Broken>) {
    let ended = catch_unwind(AssertUnwindSafe(|| world::World::new(options).run()));
    ended.unwrap_or_else(|panic| (Report::default(), vec![crate::panicked(&*panic)]))
}
