//! The seeded simulator: a whole world of hosts, links, clocks and crashes on one thread. One
//! number, the seed, determines everything that happens in the world.
//!
//! A world has one server and some clients. The server is the real
//! [`Service`](leasehold_serve::Service) over the store in memory. Each client has the real call
//! table, and programs that work on their own files and on shared files. The seed determines the
//! faults: datagrams are lost, duplicated and reordered; links are cut in one direction or in both;
//! connections break; operations take time; the server crashes, at any moment or at a named point
//! of an operation, and loses all unstable data; its process is killed and loses its memory; clocks
//! start at different times and run at different rates.
//!
//! A world has two phases. In the first phase the faults occur. Then the world heals: the faults
//! end, and the programs finish their operations, read everything once more and must end within a
//! bound.
//!
//! Afterwards the simulator checks each promise: a guarantee of SEMANTICS.md. The checks use only
//! the replies that clients received and the times of the server's crashes. Each promise has a
//! checker in a file in `promises`, and a [`Mutant`]: a deliberate fault of the server that the
//! checker must find. `seeds.toml` keeps each seed whose world found a fault.
//!
//! Worlds are *legal*: they contain no fault that no server could handle. For example, the maximum
//! lifetime of a datagram is shorter than a restart, because not every recorded reply survives a
//! restart. And the close of a connection reaches the server before data that the client sends from
//! another port.

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

/// The options of a world.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The seed, which fixes the whole world.
    pub seed: u64,
    /// A planted fault of the server, which a checker must find.
    pub mutant: Option<Mutant>,
    /// True if the world records a trace.
    pub trace: bool,
}

impl Options {
    /// Returns the options of a world without a mutant.
    #[must_use]
    pub const fn of_seed(seed: u64) -> Self {
        Self { seed, mutant: None, trace: false }
    }
}

/// The statistics of a world.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// A checksum of all events, in order: equal for equal seeds.
    pub digest: u64,
    /// The number of operations of programs.
    pub operations: usize,
    /// The number of crashes of the server.
    pub crashes: usize,
    /// The number of kills of the server's process.
    pub kills: usize,
    /// The number of times that a crashed metaserver was restored from an old backup of its disk.
    pub backups: usize,
    /// The number of replacements of an object by an object of another home.
    pub replaced: usize,
    /// The events, line by line, if a trace was requested.
    pub trace: Vec<String>,
}

/// A promise that the world broke.
#[derive(Clone, Debug)]
pub struct Broken {
    /// The promise's name, which is the name of its checker's file.
    pub promise: &'static str,
    /// A description of the fault.
    pub how: String,
}

/// Runs one world to its end and checks every promise.
///
/// A panic of the simulated code is a broken promise as well: `panic`.
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

/// Describes a panic as a broken promise.
fn panicked(panic: &(dyn Any + Send)) -> Broken {
    let text = panic.downcast_ref::<String>().cloned();
    let how = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
    Broken { promise: "panic", how: how.unwrap_or_default() }
}
