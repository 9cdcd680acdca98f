//! `leasehold status`.

use std::path::{Path, PathBuf};

use leasehold_shell::state;
use leasehold_view::status;

use crate::control::{self, Request};
use crate::failure::{Failure, Kind};
use crate::mount;
use crate::options::Status;
use crate::say::say;

/// Says what a running server serves, and what it did.
pub(crate) fn run(options: &Status) -> Result<(), Failure> {
    let told = match &options.mount {
        Some(directory) => mount::ask(directory),
        None => control::ask(&state_directory(options.state.as_deref())?, &Request::Status),
    };
    let told = told.map_err(|text| Kind::Running.because(text))?;
    let text = if options.json {
        format!("{told}\n")
    } else if options.mount.is_some() {
        mount::page(&told)
    } else {
        let told = serde_json::from_value(told).map_err(|error| {
            Kind::Running.because(format!("the server is of another version: {error}; use --json"))
        })?;
        status::page(&told)
    };
    say(text)
}

/// The state directory of the server that is meant.
pub(crate) fn state_directory(asked: Option<&Path>) -> Result<PathBuf, Failure> {
    asked.map(Path::to_path_buf).or_else(state::default_directory).ok_or_else(|| {
        let text = "there is no home directory with the state: name it with --state DIR";
        Kind::State.because(text)
    })
}
