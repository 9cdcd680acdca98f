//! Checks of the directories for stripes on this machine.

use std::path::Path;

use crate::checks::is_reached;
use crate::config::Planned;
use crate::failure::{Failure, Kind};

/// Rejects directories for stripes that lie inside, or contain, another directory in use: clients
/// could change stripes directly, or one file could overwrite another.
pub(crate) fn check(exports: &[Planned]) -> Result<(), Failure> {
    let served = exports.iter().map(|export| &export.directory);
    let spread: Vec<_> = exports.iter().flat_map(|export| &export.layout.paths).collect();
    for (at, &path) in spread.iter().enumerate() {
        for other in served.clone().chain(spread[..at].iter().copied()) {
            if overlap(path, other)? {
                let (path, other) = (path.display(), other.display());
                let text = format!(
                    "{path}, which is for stripes, and {other} contain one another: use separate \
                     directories, outside of the served directories"
                );
                return Err(Kind::Options.because(text));
            }
        }
    }
    Ok(())
}

/// Returns true if one of the two directories contains the other, or if they are equal.
pub(crate) fn overlap(one: &Path, other: &Path) -> Result<bool, Failure> {
    let lies_in = |one: &Path, other: &Path| {
        let reached = is_reached(one, other).map_err(|error| {
            Kind::Directory.because(format!("cannot use {}: {error}", one.display()))
        })?;
        Ok::<bool, Failure>(reached || one.starts_with(other))
    };
    Ok(lies_in(one, other)? || lies_in(other, one)?)
}
