//! The owner of a server's leases: the state machines of `core::leases`, the waiting calls, and the
//! messages to clients; and the store that enforces leases ([`LeasedStore`]).
//!
//! The front ends are above this crate and the stores below it, so a call takes one way down: front
//! end, file operation, lease-enforcing store, store. The front ends admit the clients of their
//! programs here, and report messages and closed connections.
//!
//! While no client holds a lease, no call uses this crate: the exports then contain the stores
//! themselves. The first HELLO of a client replaces the stores by lease-enforcing stores. The server
//! grants no lease before the last call that started without the
//! lease-enforcing stores has ended, because such a call recalls no lease. After the last client
//! with leases has gone, the server removes the lease-enforcing stores again.
//!
//! The state has two parts. The registry (`registry`) contains the clients, and the calls from the
//! server to clients. The shards (`shard`) contain the leases and the waiting calls; each shard is
//! responsible for some objects. Each part has its own mutex. A thread holds a mutex for one step of
//! the state machines, and sends the resulting messages after it has released the mutex. An operation
//! without a conflict uses only the shard of its object.

mod admissions;
mod callback;
mod common;
mod draining;
mod effects;
mod handles;
mod hosts;
mod layouts;
mod leased_store;
mod list;
mod names;
mod operation_guard;
mod owner;
mod programs;
mod recall;
mod registry;
mod room;
mod shard;
#[cfg(test)]
mod tests;
mod unacknowledged;
mod view;
mod writing;

pub use handles::{HandleBytes, HandleKey, Handles, Opened, export_of};
pub use leased_store::{ChangeBase, LeaseRequests, LeasedCall, LeasedStore, Outcome, Piggyback};
pub use list::Admission;
pub use owner::{Leases, Ledger, Post, Remembered};
pub use registry::{Protocol, ReturnPath, origin_of};
pub use view::{HeldLease, LeaseCounts, LeaseHolder, LeaseView, LeaseWaiter, LeaseWaits};
