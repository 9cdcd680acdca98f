//! A workload trace: the timed file operations of the programs on several clients.

use core::fmt;
use serde::{Deserialize, Serialize};

/// A directory or file in a trace; directory 0 is the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileInfo {
    /// The parent directory.
    pub directory: usize,
    /// True if it exists when the trace begins.
    pub exists: bool,
}

/// An operation of a program. A block is 8 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Opens a file.
    Open {
        /// True for writing.
        write: bool,
    },
    /// Creates or truncates a file, and opens it for writing.
    Create,
    /// Closes a file.
    Close,
    /// Reads a block.
    Read {
        /// The index of the block.
        block: u32,
    },
    /// Writes a block or a part of one.
    Write {
        /// The index of the block.
        block: u32,
        /// True if the whole block is written.
        whole: bool,
    },
    /// Requests a file's attributes.
    Stat,
    /// Removes a file.
    Remove,
    /// Lists a directory.
    List,
    /// Looks up a name that does not exist.
    Probe,
    /// Reads from or writes to a device or pipe at the server.
    Device,
    /// The client crashes and restarts with empty memory.
    Crash,
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Seconds from the start, in ascending order.
    pub at: f64,
    /// The client of the program.
    pub client: usize,
    /// The file.
    pub file: usize,
    /// The operation.
    pub action: Action,
}

/// A workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// The number of clients.
    pub clients: usize,
    /// The files.
    pub files: Vec<FileInfo>,
    /// The operations, in order of time.
    pub events: Vec<Event>,
}

/// The reason for which a trace is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError(String);

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TraceError {}

impl Trace {
    /// Reads a trace from JSON.
    ///
    /// # Errors
    /// The text is not a trace, its times descend, or it refers to a missing file or client.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let trace: Self =
            serde_json::from_str(text).map_err(|error| TraceError(error.to_string()))?;
        let mut before = 0.0;
        for (number, event) in trace.events.iter().enumerate() {
            let known = event.client < trace.clients && event.file < trace.files.len();
            if !known || event.at < before {
                let why = if known { "times must not descend" } else { "no such client or file" };
                return Err(TraceError(format!("event {number}: {why}")));
            }
            before = event.at;
        }
        match trace.files.iter().find(|file| file.directory >= trace.files.len()) {
            Some(file) => Err(TraceError(format!("there is no directory {}", file.directory))),
            None => Ok(trace),
        }
    }
}
