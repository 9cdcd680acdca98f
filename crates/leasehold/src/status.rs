//! `leasehold status`.

use std::path::{Path, PathBuf};

use leasehold_view::status;
use serde_json::Value;

use crate::control::{self, Request};
use crate::failure::{Failure, Kind};
use crate::mount;
use crate::options::Status;
use crate::output::say;
use crate::running::{self, REPLACED};

/// Prints the exports and the activity of a running server.
pub(crate) fn run(options: &Status) -> Result<(), Failure> {
    let failed = |text: String| Kind::Running.because(text);
    let (told, state) = match &options.mount {
        Some(directory) => (mount::ask(directory).map_err(failed)?, None),
        None => {
            let state = options.which.state()?;
            (control::ask(&state, &Request::Status).map_err(failed)?, Some(state))
        }
    };
    say(match state {
        _ if options.json => format!("{told}\n"),
        None => mount::page(&told),
        Some(state) => page(told)? + &replaced(&state),
    })
}

/// Formats the report on a server.
fn page(told: Value) -> Result<String, Failure> {
    let told = serde_json::from_value(told).map_err(|error| {
        Kind::Running.because(format!("the server is of another version: {error}; use --json"))
    })?;
    Ok(status::page(&told))
}

/// Formats a line for each directory that was replaced under its server.
fn replaced(state: &Path) -> String {
    let line = |path: &PathBuf| format!("{}: {REPLACED}\n", path.display());
    running::replaced(state).iter().map(line).collect()
}
