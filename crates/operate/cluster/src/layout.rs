//! The change of the layout of a file or directory of a running server.

use std::path::Path;

use leasehold_fs::{Caller, FsError, SUPERUSER, Step, Store as _};
use leasehold_shell::client::block_on;
use leasehold_store_striped::{LayoutPolicy, Striped};

use crate::Volume;

/// Changes the layout of the file at `path` in a served volume, or the layout policy of a directory
/// for new files. `directory` is the volume's directory of names.
///
/// # Errors
/// The fault and its remedy, as text.
pub fn lay_out(
    directory: &Path,
    volume: &Volume,
    path: &Path,
    shape: &LayoutPolicy,
) -> Result<(), String> {
    let shown = path.display();
    let used = &volume.striped.options().used;
    let unknown = shape.iods.iter().chain(&shape.first).find(|iod| !used.contains(iod));
    if let Some(iod) = unknown {
        return Err(format!("iod {iod} is not in use: see `leasehold cluster status`"));
    }
    if shape.copies.is_some_and(|copies| usize::from(copies) > used.len()) {
        return Err("two copies of a stripe need two iods: there is one".to_owned());
    }
    let rest = path.strip_prefix(directory).map_err(|error| error.to_string())?;
    let done = block_on(laid_out(&volume.striped, rest, shape));
    let Err(error) = done else { return Ok(()) };
    Err(if error == FsError::NotSupported {
        "with several metaservers, or on a file system without user attributes, all files have the \
         same layout"
            .to_owned()
    } else if error == FsError::Invalid {
        format!("{shown} is neither a file nor a directory")
    } else {
        format!("{shown}: {error}")
    })
}

/// Looks up the object at the end of a path and changes its layout.
async fn laid_out(volume: &Striped, path: &Path, shape: &LayoutPolicy) -> Result<(), FsError> {
    let superuser = Caller { uid: SUPERUSER, gid: 0, ..Caller::nobody() };
    let mut object = volume.root();
    for name in path.iter() {
        let Ok(Step::Child(name)) = Step::parse(name.as_encoded_bytes()) else {
            return Err(FsError::NotFound);
        };
        object = volume.lookup(&superuser, &object, name).await?.object;
    }
    volume.lay_out(&object, shape).await
}
