//! An NFS client as a library: an asynchronous file API with a cache.
//!
//! [`Client`] is a mounted file system that addresses objects by node, with the operations that a
//! kernel needs; a front end for FUSE is a thin layer over it. [`User`] offers the same operations
//! by path, for programs. Both types are independent of any runtime. The crate `leasehold-shell`
//! provides a runtime with sockets and the discovery of a server, as the programs in its `examples`
//! show: `tree`, `save` and `sums`.
//!
//! The guarantees depend on the [`Variant`]; with every variant, data is on the server's stable
//! storage when fsync returns. The client keeps written data until the server has replied to a
//! COMMIT with the verifier of the WRITEs. If the verifier differs, the client writes the data
//! again, so that a restart of the server loses no data.
//!
//! A client whose [`leasehold_session::nfs::Nfs`] uses the lease program holds leases: its cached
//! data is then never stale. If the server leases regular files only ([`Client::leases_names`]),
//! other objects are cached by time. The owner of a client may register another cache that contains
//! copies of the client's data ([`Client::watch`]).

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
mod piggyback;
mod refusals;
mod rescue;
mod round_robin;
mod server_clock;
mod silly;
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
