//! The command by which an administrator makes a metaserver accept the data of an iod that was
//! rolled back.

use std::path::Path;

use leasehold_cluster as cluster;

use super::options::Believe;
use crate::checks;
use crate::control::{self, Request};
use crate::failure::{Failure, Kind};
use crate::output::say;
use crate::running;
use crate::server_state::Serving;

/// Makes the metaserver that serves a directory accept the data of an iod.
pub(crate) fn believe(options: &Believe) -> Result<(), Failure> {
    let directory = checks::directory(&options.directory)?;
    let path = directory.to_str().ok_or_else(|| {
        Kind::Directory.because(format!("the name of {} is not UTF-8", directory.display()))
    })?;
    let state = running::state_of(options.state.as_deref(), Some(&directory))
        .map_err(|error| Kind::Directory.because(error.to_string()))?;
    let request = Request::Believe { path: path.to_owned(), iod: options.iod };
    let label = control::ask(&state, &request).map_err(|text| Kind::Running.because(text))?;
    let label = label.as_str().unwrap_or_default();
    say(format!("the metaserver accepts the data of iod {}, {label}\n", options.iod))
}

/// Accepts an iod of a volume of this server. Returns the label of the iod.
///
/// # Errors
/// The fault and its remedy, as text.
pub(crate) fn believe_served(serving: &Serving, path: &Path, iod: u16) -> Result<String, String> {
    cluster::believe(path, &super::volume_with(serving, path)?, iod)
}
