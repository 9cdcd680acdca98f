//! The command by which an administrator makes a metaserver accept the data of an iod that was
//! rolled back.

use std::path::Path;

use super::options::Believe;
use crate::checks;
use crate::control::{self, Request};
use crate::failure::{Failure, Kind};
use crate::output::say;
use crate::running;
use crate::server_state::Serving;
use crate::stripes;

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
    let of = serving.volume_of(path).filter(|(directory, _)| directory == path);
    let (_, volume) =
        of.ok_or_else(|| format!("{} is not a directory of names of this server", path.display()))?;
    let member = volume.members.get(usize::from(iod));
    let member = member.ok_or_else(|| format!("unknown iod {iod}"))?;
    if !volume.striped.older_iods().contains(&iod) {
        return Err(format!("iod {iod}, {}, is accepted already, or does not reply", member.label));
    }
    let believed = stripes::aside(|| volume.striped.believe(iod));
    let failed = |error: String| {
        format!("cannot write the rollback counter of iod {iod}, {}: {error}", member.label)
    };
    believed
        .map_err(|error| failed(error.to_string()))?
        .map_err(|error| failed(error.to_string()))?
        .map_err(|error| failed(error.to_string()))?;
    tracing::warn!(
        directory = %path.display(),
        iod,
        place = member.label,
        "an administrator made this metaserver accept the data of a rolled-back iod"
    );
    Ok(member.label.clone())
}
