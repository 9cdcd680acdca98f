//! The acceptance of the data of an iod that was rolled back.

use std::path::Path;

use crate::Volume;
use crate::volume::aside;

/// Accepts an iod of a served volume with this directory of names. Returns the label of the iod.
///
/// # Errors
/// The fault and its remedy, as text.
pub fn believe(path: &Path, volume: &Volume, iod: u16) -> Result<String, String> {
    let member = volume.members.get(usize::from(iod));
    let member = member.ok_or_else(|| format!("unknown iod {iod}"))?;
    if !volume.striped.older_iods().contains(&iod) {
        return Err(format!("iod {iod}, {}, is accepted already, or does not reply", member.label));
    }
    let believed = aside(|| volume.striped.believe(iod));
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
