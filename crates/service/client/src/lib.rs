//! An NFS client as a library: an asynchronous file API with a cache.
//!
//! [`Client`] is a mounted file system by its nodes, with the operations that a kernel wants of
//! one; a front end for FUSE is a thin layer over it. [`User`] is the same by paths, for programs.
//! Both are of no runtime; `leasehold-shell` has one that brings sockets and finds a server, as the
//! programs in its `examples` show: `tree`, `save` and `sums`.
//!
//! What it promises depends on the [`Variant`]; whatever that is, what fsync answered is on the
//! server's stable storage. Data stays here until a COMMIT has been answered under the verifier of
//! its WRITEs, and is written again otherwise, so that a server that restarts loses nothing.
//!
//! A client whose [`leasehold_session::nfs::Nfs`] goes by the lease program holds leases: what it
//! has cached is then never stale; but what is no regular file is kept by time, with a server that
//! leases files alone ([`Client::leases_names`]). It can be told who else keeps copies
//! ([`Client::watch`]).

mod attributes;
mod calls;
mod client;
mod convert;
mod data;
mod direct;
mod layouts;
mod leases;
mod listed;
mod listing;
mod make;
mod names;
mod nodes;
mod open;
mod options;
mod refusals;
mod rescue;
mod ride;
mod server_clock;
mod silly;
mod turns;
mod user;

pub use client::Client;
pub use data::Data;
pub use layouts::Servers;
pub use leasehold_base::attributes::{Attributes, Device, FileType, Mode, SetAttributes, SetTime};
pub use leasehold_core::cache::Counters;
pub use leasehold_fs::{Access, Space};
pub use leasehold_session::nfs::Bounds;
pub use leasehold_session::{Credential, Error};
pub use leasehold_wire::nfs3::{Handle, Status};
pub use leases::Watcher;
pub use listing::{Entry, Listing};
pub use make::Special;
pub use nodes::{Found, NodeId, Seen};
pub use open::{OpenHow, OpenId};
pub use options::{Asking, Options, Variant};
pub use rescue::{Refused, Rescuer, Why};
pub use silly::{Aside, Notes, remove_left};
pub use user::{File, Listed, User};
