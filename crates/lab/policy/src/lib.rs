//! Cache consistency policies as state machines on one workload trace.
//!
//! Each policy receives the same file operations of the same clients, and determines the remote
//! calls that it would make and the data that a reader would see. The result is a [`Report`]: calls
//! by procedure, load on the server, stale reads. This crate measures no time; for queues and
//! latency the counts become demands of a model.
//!
//! | file | policy |
//! | --- | --- |
//! | `nfs` | NFS with close-to-open consistency and attributes that age |
//! | `nqnfs` | Not Quite NFS: read and write leases, evictions |
//! | `spritely` | Spritely NFS: open and close calls, call-backs, delayed writes |
//! | `afs` | Andrew: whole files, call-back promises |
//! | `rfs` | RFS: remote system calls, write-through, devices at the server |
//! | `v` | V: read leases, write-through with approval |

mod afs;
mod attributes;
mod nfs;
mod nqnfs;
mod rfs;
mod spritely;
mod trace;
mod v;
mod workload;
mod world;

pub use trace::{Action, Event, FileInfo, Trace, TraceError};
pub use workload::{MabSize, mab, sharing};
pub use world::{Call, Report, World};

/// The cache consistency policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// NFS, close-to-open.
    Nfs,
    /// Not Quite NFS.
    Nqnfs,
    /// Spritely NFS.
    Spritely,
    /// Andrew.
    Afs,
    /// RFS.
    Rfs,
    /// V.
    V,
}

/// The times of the policies, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// A lease of Not Quite NFS.
    pub nqnfs_lease: f64,
    /// A lease of V.
    pub v_lease: f64,
    /// The largest delay of a delayed write.
    pub write_delay: f64,
    /// The shortest and the longest time for which attributes are trusted.
    pub attributes: (f64, f64),
}

impl Default for Terms {
    /// The values of the papers: NQNFS 30 s, V 10 s, Unix's 30 s, NFS 5 to 60 s.
    fn default() -> Self {
        Self { nqnfs_lease: 30.0, v_lease: 10.0, write_delay: 30.0, attributes: (5.0, 60.0) }
    }
}

/// The state machine of a policy: clients and server together.
trait Policy {
    /// Performs an action of a client.
    fn act(&mut self, world: &mut World, event: &Event);

    /// Runs the update daemon at one client: sends delayed writes.
    fn sync(&mut self, world: &mut World, client: usize);
}

impl Kind {
    /// All policies.
    pub const ALL: [Self; 6] =
        [Self::Nfs, Self::Nqnfs, Self::Spritely, Self::Afs, Self::Rfs, Self::V];

    /// Returns the name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nfs => "nfs",
            Self::Nqnfs => "nqnfs",
            Self::Spritely => "spritely",
            Self::Afs => "afs",
            Self::Rfs => "rfs",
            Self::V => "v",
        }
    }

    /// Runs a trace under this policy.
    #[must_use]
    pub fn run(self, trace: &Trace, terms: Terms) -> Report {
        let clients = trace.clients;
        let mut policy: Box<dyn Policy> = match self {
            Self::Nfs => Box::new(nfs::Nfs::new(clients, terms)),
            Self::Nqnfs => Box::new(nqnfs::Nqnfs::new(clients, terms)),
            Self::Spritely => Box::new(spritely::Spritely::new(clients, terms)),
            Self::Afs => Box::new(afs::Afs::new(clients)),
            Self::Rfs => Box::new(rfs::Rfs::new(clients)),
            Self::V => Box::new(v::V::new(clients, terms)),
        };
        let mut world = World::new(trace);
        let mut next_sync = terms.write_delay;
        for event in &trace.events {
            while next_sync <= event.at {
                world.now = next_sync;
                for client in 0..clients {
                    policy.sync(&mut world, client);
                }
                next_sync += terms.write_delay;
            }
            world.now = event.at;
            policy.act(&mut world, event);
        }
        for client in 0..clients {
            policy.sync(&mut world, client);
        }
        world.report()
    }
}
