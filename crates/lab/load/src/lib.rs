//! A load generator: NFS version 3 calls over streams, many in flight, with checked replies.
//!
//! The generator itself has a low cost, because it shares the machine with the server under test,
//! and it checks every reply: a wrong reply fails the run.

mod basic;
mod connection;
mod crowd;
mod holders;
mod latency;
mod operation;
mod run;
mod sequence;
mod setting;
mod walk;

pub use basic::{Basic, FILE_BYTES as BASIC_FILE_BYTES, TIMES, Version, basic};
pub use crowd::crowd;
pub use holders::Holders;
pub use latency::latencies;
pub use operation::Operation;
pub use run::{Load, Sample, processor_time, run};
pub use sequence::{Sequence, sequence};
pub use setting::{FILE_BYTES, FILES, Setting};
pub use walk::{Walk, Walker, walk};

use std::fmt;

/// The reason for which a run failed.
#[derive(Debug)]
pub enum Error {
    /// The connection failed.
    Connection(std::io::Error),
    /// The server sent a wrong reply.
    Wrong(String),
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::Connection(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection(error) => write!(f, "the connection failed: {error}"),
            Self::Wrong(what) => write!(f, "the server sent a wrong reply: {what}"),
        }
    }
}

impl std::error::Error for Error {}
