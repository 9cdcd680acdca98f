//! The files of an NFS server as a mount's: nodes, names, data and errors for the kernel's FUSE.
//!
//! What is cached is in the kernel's page and name caches, for as long as [`Caching`] says; here is
//! only what is needed to be right: which node is which handle, who opened a file, what was written
//! and is not yet safe, and which names stand for files that were removed while open.
//!
//! - **Close to open**: OPEN asks the server (one ACCESS, which brings attributes), drops what the
//!   kernel has of a file that changed elsewhere, and close pushes and commits.
//! - **Data** goes to the server when it is written, UNSTABLE, and is kept here until a COMMIT with
//!   the same verifier; after a restart of the server it is written again. An error that no
//!   write could report any more is reported by fsync and close.
//! - **Who asks** is said as AUTH_SYS, groups included; the kernel checks mode bits besides. Reads
//!   and writes of an open file go by who opened it.
//! - **Removed while open**: the last name of an open file is changed, and removed when the file is
//!   closed.

mod caller;
mod convert;
mod data;
mod files;
mod listing;
mod names;
mod nodes;
mod open;
mod unstable;

pub use files::{Caching, Files, Holdings};
