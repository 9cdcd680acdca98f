//! The seeded simulator: a whole world of hosts, links, clocks and crashes on one thread, in which
//! one number, the seed, fixes everything.
//!
//! A world has one server, the real [`Service`](leasehold_serve::Service) over the store in
//! memory, and some clients, each the real call table with programs that work on files of their
//! own and on shared ones. Its faults are drawn from the seed: datagrams are lost, doubled and
//! overtaken; links are cut, in one direction or both; connections break; operations take their
//! time; the server crashes, at any moment or at a named point of an operation, and forgets what
//! was not stable; its process is killed, and what it had in memory is gone; clocks begin and run
//! differently.
//!
//! It goes in two phases. First there are faults. Then the world heals: the programs finish what
//! they do, look at everything once more and must come to an end within a bound.
//!
//! Afterwards each promise is checked, from nothing but what clients were told and when the server
//! crashed; a promise is a file in `promises`. Each has a [`Mutant`], a deliberate fault of the
//! server, that its checker must find. A seed that found a fault is kept in `seeds.toml`.
//!
//! Worlds are *legal*: what no server could stand does not happen. A datagram lives less long than
//! a restart takes, because not every reply outlives the server; and the close of a
//! connection reaches the server before what a client sends from another port.

mod client;
mod clock;
mod covers;
mod digest;
mod disk;
mod faults;
mod fit;
mod found;
mod history;
mod leases;
mod model;
mod mutant;
mod network;
mod notes;
mod op;
mod program;
mod promises;
mod queue;
mod replica;
mod server;
mod world;

pub use covers::{CoverMutant, CoverOptions, run_covers};
pub use found::{
    Found, FoundCover, FoundLease, FoundReplica, found, found_covers, found_leases, found_replica,
};
pub use leases::{LeaseMutant, LeaseOptions, run_leases};
pub use mutant::Mutant;
pub use replica::{ReplicaMutant, ReplicaOptions, run_replica};

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What to simulate.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// What fixes everything else.
    pub seed: u64,
    /// A fault of the server that is to be found.
    pub mutant: Option<Mutant>,
    /// Whether to tell all that happens.
    pub trace: bool,
}

impl Options {
    /// A world without mutant.
    #[must_use]
    pub const fn of_seed(seed: u64) -> Self {
        Self { seed, mutant: None, trace: false }
    }
}

/// What a world was like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// A checksum of all that happened, in order: equal for equal seeds.
    pub digest: u64,
    /// Operations that programs did.
    pub operations: usize,
    /// Crashes of the server.
    pub crashes: usize,
    /// How often the server's process was killed.
    pub kills: usize,
    /// How often a machine was put back to an old backup.
    pub backups: usize,
    /// How often an object took the place of one of another home.
    pub replaced: usize,
    /// What happened, line by line, where that was asked for.
    pub trace: Vec<String>,
}

/// A promise that was broken.
#[derive(Clone, Debug)]
pub struct Broken {
    /// Its name, that of its checker's file.
    pub promise: &'static str,
    /// How it was broken.
    pub how: String,
}

/// Runs one world to its end and checks every promise.
///
/// A panic of what is simulated is a broken promise as well: `panic`.
#[must_use]
pub fn run(options: Options) -> (Report, Vec<Broken>) {
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let (history, report, stuck) = world::World::new(options).run();
        let mut broken = promises::check(&history);
        broken.extend(stuck);
        (report, broken)
    }));
    ended.unwrap_or_else(|panic| (Report::default(), vec![panicked(&*panic)]))
}

/// A panic as a broken promise.
fn panicked(panic: &(dyn Any + Send)) -> Broken {
    let text = panic.downcast_ref::<String>().cloned();
    let how = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
    Broken { promise: "panic", how: how.unwrap_or_default() }
}
