//! Worlds of metaservers whose clients hold leases: each metaserver has the real machine of covers,
//! and the real table for what has its home there, and a client that caches what it may.
//!
//! Messages between metaservers are lost, doubled, late and overtaken, links are cut, in one direction
//! or both, metaservers crash, clients sleep past their leases, and all clocks run differently. Files
//! are few. Then the world heals, and each client must read every file.
//!
//! What is read, be it from a client's cache, was so at some moment since the read began: what a
//! client has written by a lease is so from then on, whoever has its data. And nobody writes what
//! another may cache.

mod message;
mod node;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use clap::ValueEnum;
use serde::Deserialize;

use crate::{Broken, Report};

/// What to simulate.
#[derive(Clone, Copy, Debug)]
pub struct CoverOptions {
    /// What fixes everything else.
    pub seed: u64,
    /// A fault that is to be found.
    pub mutant: Option<CoverMutant>,
    /// Whether to tell all that happens.
    pub trace: bool,
}

/// A deliberate fault of all metaservers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum CoverMutant {
    /// A cover is given while clients still have what it was lent for.
    GivesWhatIsLent,
    /// A grant that was taken back before it came is used.
    UsesVoid,
    /// What is lent outlasts the cover.
    LendsTooLong,
    /// A metaserver that starts again does not wait for what its clients hold.
    RecoversNothing,
}

impl CoverMutant {
    /// Every one.
    pub const ALL: &[Self] =
        &[Self::GivesWhatIsLent, Self::UsesVoid, Self::LendsTooLong, Self::RecoversNothing];

    /// The promises of which it breaks one.
    #[must_use]
    pub const fn promises(self) -> &'static [&'static str] {
        &["one-writer", "stale-read"]
    }
}

/// Runs one world to its end; what is broken is found as it happens.
#[must_use]
pub fn run_covers(options: CoverOptions) -> (Report, Vec<Broken>) {
    let ended = catch_unwind(AssertUnwindSafe(|| world::World::new(options).run()));
    ended.unwrap_or_else(|panic| (Report::default(), vec![crate::panicked(&*panic)]))
}
