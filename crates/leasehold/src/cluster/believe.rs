//! An administrator has a metaserver use the data of an iod that is older than the metaserver knows
//! the iod.

use std::path::Path;

use super::options::Believe;
use crate::checks;
use crate::control::{self, Request};
use crate::failure::{Failure, Kind};
use crate::running;
use crate::say::say;
use crate::serving::Serving;
use crate::stripes;

/// Has the metaserver of a directory believe an iod.
pub(crate) fn believe(options: &Believe) -> Result<(), Failure> {
    let directory = checks::directory(&options.directory)?;
    let path = directory.to_str().ok_or_else(|| {
        Kind::Directory.because(format!("{}: its name is no text", directory.display()))
    })?;
    let state = running::state_of(options.state.as_deref(), Some(&directory))
        .map_err(|error| Kind::Directory.because(error.to_string()))?;
    let request = Request::Believe { path: path.to_owned(), iod: options.iod };
    let label = control::ask(&state, &request).map_err(|text| Kind::Running.because(text))?;
    let label = label.as_str().unwrap_or_default();
    say(format!("the data of iod {}, {label}, is used from now on\n", options.iod))
}

/// Believes an iod of a volume of this server. Returns the label of the iod.
///
/// # Errors
/// The fault and its remedy, as text.
pub(crate) fn believe_served(serving: &Serving, path: &Path, iod: u16) -> Result<String, String> {
    let of = serving.volume_of(path).filter(|(directory, _)| directory == path);
    let (_, volume) =
        of.ok_or_else(|| format!("{} is no directory of names of this server", path.display()))?;
    let member = volume.members.get(usize::from(iod));
    let member = member.ok_or_else(|| format!("there is no iod {iod}"))?;
    if !volume.striped.older_iods().contains(&iod) {
        return Err(format!("iod {iod}, {}, is used already, or does not answer", member.label));
    }
    let believed = stripes::aside(|| volume.striped.believe(iod));
    let failed = |error: String| format!("iod {iod}, {}, takes no turn: {error}", member.label);
    believed
        .map_err(|error| failed(error.to_string()))?
        .map_err(|error| failed(error.to_string()))?
        .map_err(|error| failed(error.to_string()))?;
    tracing::warn!(
        directory = %path.display(),
        iod,
        place = member.label,
        "an administrator has this metaserver use the data of an older iod"
    );
    Ok(member.label.clone())
}
