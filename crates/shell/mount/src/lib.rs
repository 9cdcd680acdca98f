//! A mount of the files of an NFS server: passes requests of the kernel's FUSE to a client.
//!
//! The [`leasehold_client::Client`] contains the cache of the server's state and the unsaved data;
//! this crate controls the additional copies in the kernel's page and name caches, and their
//! lifetime:
//!
//! - **Attributes and names** are valid in the kernel for as long as the client trusts them.
//! - **Pages** survive a close until the client finds that another client has changed the file:
//!   OPEN sends a request to the server, unless the mount is configured for a single client. The
//!   kernel drops the pages of an open file when the client detects a change. The client checks for
//!   changes when the trust time of its attributes has expired ([`Files::look_again`]).
//! - **With leases**, attributes and pages stay until the server recalls the lease on the file or
//!   the lease is about to expire. The kernel drops them before the client returns the lease. Data
//!   that is read without a lease is dropped after the reply. The kernel caches names for some
//!   seconds if the mount can invalidate all names at once; otherwise the kernel looks up a name at
//!   each use, and the client's cache answers.
//! - **No written data exists in the kernel only**: the kernel passes each write to the client
//!   before the write returns. Data that a program stores through a mapping arrives later, and the
//!   client accepts this data even after earlier refusals by the server.
//! - **O_DIRECT** bypasses all caches. **O_APPEND** bypasses the kernel's cache, because the kernel
//!   would write at the end of the file that it knows, which may be out of date.
//!
//! The client sends the calling user with its groups as an AUTH_SYS credential. The server decides
//! the access, unless the mount is configured so that the kernel decides by mode bits ([`Judge`]).
//! Reads and writes of an open file use the credential of the user who opened it.

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
