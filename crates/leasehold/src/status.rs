//! `leasehold status`.

use std::path::PathBuf;

use leasehold_view::status;

use crate::control::{self, Request};
use crate::failure::{Failure, Kind};
use crate::mount;
use crate::options::Status;
use crate::running::{About, REPLACED};
use crate::say::say;

/// Says what a running server serves, and what it did.
pub(crate) fn run(options: &Status) -> Result<(), Failure> {
    let told = match &options.mount {
        Some(directory) => mount::ask(directory),
        None => control::ask(&options.which.state()?, &Request::Status),
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
        status::page(&told) + &replaced(options)
    };
    say(text)
}

/// A line for each directory that was replaced under its server.
fn replaced(options: &Status) -> String {
    let about = options.which.state().and_then(|state| {
        control::ask(&state, &Request::About).map_err(|text| Kind::Running.because(text))
    });
    let about: Option<About> = about.ok().and_then(|about| serde_json::from_value(about).ok());
    let replaced = about.map(|about| about.replaced).unwrap_or_default();
    let line = |path: &PathBuf| format!("{}: {REPLACED}\n", path.display());
    replaced.iter().map(line).collect()
}
