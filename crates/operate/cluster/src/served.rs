//! The volumes of a running server, for the background work on them.

use std::path::PathBuf;

use crate::Volume;

/// The volumes that a server serves at present; a reload of its configuration may change them.
pub trait Served: Send + Sync {
    /// Returns every served volume with the name that clients mount.
    fn volumes(&self) -> Vec<(String, Volume)>;

    /// Returns every served volume with its directory of names, and with the number of seconds for
    /// which the volume keeps stripes that belong to no file.
    fn homes(&self) -> Vec<(PathBuf, u32, Volume)>;
}
