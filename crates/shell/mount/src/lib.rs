//! The files of an NFS server as a mount: passes requests of the kernel's FUSE to a client.
//!
//! The [`leasehold_client::Client`] contains the cache of the server's state and the unsaved data;
//! this crate controls the additional copies in the kernel's page and name caches, and their
//! lifetime:
//!
//! - **Attributes and names** are valid in the kernel for as long as the client trusts them.
//! - **Pages** survive a close until the client finds that another client has changed the file:
//!   OPEN sends a request to the server, unless the mount is configured for a single client. Pages
//!   of open files are dropped when the client detects a change, and it checks when its trust has
//!   expired ([`Files::look_again`]).
//! - **With leases**, attributes and pages stay until the server recalls the lease on the file or
//!   the lease is about to expire: they are dropped before the client returns it. Data that is read
//!   without a lease is dropped after the reply. Names stay for some seconds if all can be
//!   invalidated at once; otherwise the kernel looks up each use, and the client's cache answers.
//! - **No written data exists in the kernel only**: the kernel passes on each write before it
//!   returns. Stores to a mapping arrive later, and the client accepts them regardless of earlier
//!   refusals.
//! - **O_DIRECT** bypasses all caches. **O_APPEND** bypasses the kernel's cache, which would write
//!   at the end that was current at the open.
//!
//! The client sends the calling user as AUTH_SYS, groups included, and the server decides, unless
//! the mount lets the kernel decide by mode bits ([`Judge`]). Reads and writes of an open file use
//! the credential of the user who opened it.

mod caller;
mod convert;
mod data;
mod files;
mod invalidate;
mod kernel_cache;
mod listing;
mod names;
mod open;
mod positions;

pub use files::{Files, Holdings, Judge};
