//! `leasehold status`.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use leasehold_shell::state;
use serde_json::Value;

use crate::control::{self, Request};
use crate::failure::{Failure, Kind};
use crate::options::Status;

/// Says what a running server serves.
pub(crate) fn run(options: &Status) -> Result<(), Failure> {
    let state = state_directory(options.state.as_deref())?;
    let told =
        control::ask(&state, &Request::Status).map_err(|text| Kind::Running.because(text))?;
    let text = if options.json { format!("{told}\n") } else { page(&told) };
    io::stdout()
        .write_all(text.as_bytes())
        .map_err(|error| Kind::Running.because(format!("cannot write to stdout: {error}")))
}

/// The state directory of the server that is meant.
pub(crate) fn state_directory(asked: Option<&Path>) -> Result<PathBuf, Failure> {
    asked.map(Path::to_path_buf).or_else(state::default_directory).ok_or_else(|| {
        let text = "there is no home directory with the state: name it with --state DIR";
        Kind::State.because(text)
    })
}

fn page(told: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut page = format!("pid {}, durability {}\n", told["pid"], word(&told["durability"]));
    for export in told["exports"].as_array().into_iter().flatten() {
        page += &format!("{} is {}\n", word(&export["name"]), word(&export["path"]));
    }
    page
}
