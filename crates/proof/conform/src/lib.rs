//! Tests any NFS server over the wire: `leasehold conform nfs://HOST[:PORT]/EXPORT`.
//!
//! Each case is a function that calls the server as clients do, or as no client should, and
//! compares the replies with one clause of a standard; the tables in `cases` list them. Criteria in
//! order of weight: a case is never stricter than its clause; the run changes only objects that it
//! has created itself; a failure shows the messages; a case can be read in a minute.
//!
//! A case has connections and a directory of its own, so cases run in any order and side by side.

#![allow(clippy::result_large_err, reason = "the data of a failure goes straight to the report")]
#![allow(clippy::needless_pass_by_value, reason = "a case reads better without borrowing")]

mod answer;
mod bench;
mod case;
mod cases;
mod client;
mod known;
mod mount;
mod net;
mod options;
mod report;
mod runner;
mod select;
mod server;
mod sweep;
mod talk;
mod target;
mod v2;
mod v3;

pub use options::{Options, Version};
pub use runner::{Summary, conform, run};
pub use server::{Problem, Restart};
pub use target::Target;
