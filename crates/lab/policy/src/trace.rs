//! A workload trace: what the programs of several clients do to files, with times.

use core::fmt;
use serde::{Deserialize, Serialize};

/// A directory or file that a trace names; directory 0 is the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileInfo {
    /// The directory that holds it.
    pub directory: usize,
    /// Whether it is there when the trace begins.
    pub exists: bool,
}

/// What a program does. A block is 8 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Opens a file.
    Open {
        /// To write.
        write: bool,
    },
    /// Creates a file, or empties it, and opens it to write.
    Create,
    /// Closes a file.
    Close,
    /// Reads a block.
    Read {
        /// Which one.
        block: u32,
    },
    /// Writes a block or a part of one.
    Write {
        /// Which one.
        block: u32,
        /// All of it.
        whole: bool,
    },
    /// Asks for a file's attributes.
    Stat,
    /// Removes a file.
    Remove,
    /// Lists a directory.
    List,
    /// Looks for a name that a directory does not have.
    Probe,
    /// Reads from or writes to a device or pipe of the server's.
    Device,
    /// The client crashes and comes back with nothing.
    Crash,
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Seconds from the start; never less than the event before.
    pub at: f64,
    /// Whose program.
    pub client: usize,
    /// Which file.
    pub file: usize,
    /// What is done.
    pub action: Action,
}

/// A workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// How many clients there are.
    pub clients: usize,
    /// The files.
    pub files: Vec<FileInfo>,
    /// The operations, in order of time.
    pub events: Vec<Event>,
}

/// Why a trace is refused.
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
    /// Text that is no trace, or a trace whose times fall or that names what it does not have.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let trace: Self =
            serde_json::from_str(text).map_err(|error| TraceError(error.to_string()))?;
        let mut before = 0.0;
        for (number, event) in trace.events.iter().enumerate() {
            let known = event.client < trace.clients && event.file < trace.files.len();
            if !known || event.at < before {
                let why = if known { "the time falls" } else { "no such client or file" };
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
