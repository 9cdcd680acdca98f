//! The commands of a cluster, and a trial cluster on this machine.

mod believe;
mod layout;
mod look;
mod moving;
pub(crate) mod options;
mod repair;
pub(crate) mod search;
mod status;
mod trial;

use std::path::{Path, PathBuf};

use leasehold_cluster::{self as cluster, IodAddress, Volume};

use self::options::Iods;
use crate::checks;
use crate::config::Plan;
use crate::config::options::Server;
use crate::failure::{Failure, Kind};
use crate::server_state::Serving;

pub(crate) use believe::{believe, believe_served};
pub(crate) use layout::{lay_out, layout};
pub(crate) use look::check;
pub(crate) use moving::move_home;
pub(crate) use repair::{repair, repair_served};
pub(crate) use status::{status, views, volumes};
pub(crate) use trial::run as try_out;

impl From<cluster::Failure> for Failure {
    fn from(failure: cluster::Failure) -> Self {
        let kind = match failure.kind() {
            cluster::Kind::Configuration => Kind::Options,
            cluster::Kind::Directory => Kind::Directory,
            cluster::Kind::Key => Kind::State,
            cluster::Kind::Running => Kind::Running,
        };
        kind.because(failure.to_string())
    }
}

/// Returns the iods that a command uses, and the file with their cluster key. From a configuration
/// file, the function takes the export with `directory`, or the first export with iods.
fn iods(
    options: &Iods,
    directory: Option<&Path>,
) -> Result<(Vec<IodAddress>, Option<PathBuf>), Failure> {
    let Some(config) = &options.config else {
        if options.iod.is_empty() {
            let text = "name the iods: --iod once for each, or --config FILE with the iods";
            return Err(Kind::Options.because(text));
        }
        return Ok((options.iod.clone(), options.cluster_key.clone()));
    };
    let directory = directory.map(checks::directory).transpose()?;
    let exports = Plan::read(config, &Server::default())?.exports.into_iter();
    let mut layouts = exports
        .filter(|export| directory.as_ref().is_none_or(|asked| *asked == export.directory))
        .map(|export| export.layout);
    let layout = layouts.find(|layout| !layout.iods.is_empty()).ok_or_else(|| {
        let text = format!("{} names no iods for this directory", config.display());
        Kind::Options.because(text)
    })?;
    Ok((layout.iods, layout.cluster_key))
}

/// Returns the volume of this server with this directory of names.
///
/// # Errors
/// The fault, as text.
fn volume_with(serving: &Serving, path: &Path) -> Result<Volume, String> {
    let of = serving.volume_of(path).filter(|(directory, _)| directory == path);
    let none = || format!("{} is not a directory of names of this server", path.display());
    of.map(|(_, volume)| volume).ok_or_else(none)
}
