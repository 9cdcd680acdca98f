//! Checks that a directory of names belongs to the configured mode. A single metaserver stores
//! names as plain files, while one of several metaservers stores them in a file of metafiles. In
//! the wrong mode a metaserver would show no files, and would change the directory.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use leasehold_shell::records;

use crate::{Failure, Kind, Layout, group};

/// The names that may exist in a directory of one of several metaservers before it has metafiles: a
/// new file system or an interrupted start can leave them.
const NEW: [&str; 3] = ["lost+found", "leasehold-metafiles.lock", "leasehold-metafiles.new"];

/// Rejects a directory that belongs to the other mode; does not change the directory.
///
/// # Errors
/// The directory belongs to the other mode, or cannot be read.
pub fn check(directory: &Path, layout: &Layout) -> Result<(), Failure> {
    let shown = directory.display();
    let refused = |text: String| Err(Kind::Directory.because(text));
    if layout.group.is_none() {
        if is_of_several(directory, layout) {
            return refused(format!(
                "{shown} is the directory of one of several metaservers, and its files would be \
                 hidden: serve it with `meta --peer`, or with `peer` in the file, as before"
            ));
        }
        return Ok(());
    }
    if group::is_one_of_several(directory) {
        return Ok(());
    }
    if directory.join(group::COMING).exists() {
        return refused(format!(
            "an interrupted move of a home to {shown} is incomplete: run `leasehold cluster \
             move-home` again"
        ));
    }
    let found = others(directory, &[])
        .map_err(|error| Kind::Directory.because(format!("cannot use {shown}: {error}")))?;
    match found {
        None => Ok(()),
        Some(name) => refused(format!(
            "{shown} has files, such as {name}, which one of several metaservers would hide. If a \
             single metaserver served it, continue without --peer (`peer` in the file). For \
             several, name an empty directory at each, and iods with empty directories, and copy \
             the files in through a mount"
        )),
    }
}

/// Returns a name in the directory of one of several metaservers that should not be there: neither
/// a name that a new directory may contain nor a name in `known`.
pub(crate) fn others(directory: &Path, known: &[&str]) -> io::Result<Option<String>> {
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        if !NEW.iter().chain(known).any(|known| name == *known) {
            return Ok(Some(name.to_string_lossy().into_owned()));
        }
    }
    Ok(None)
}

/// Returns true if a directory belongs to one of several metaservers. Clients of a single server
/// may create a file with this name and any content, so the check also verifies the owner and the
/// mode of the file.
fn is_of_several(directory: &Path, layout: &Layout) -> bool {
    if !layout.iods.is_empty() {
        return group::is_one_of_several(directory);
    }
    let is_metafiles = |name: &str| -> io::Result<bool> {
        let path = directory.join(name);
        let found = fs::symlink_metadata(&path)?;
        let is_own = [0, rustix::process::geteuid().as_raw()].contains(&found.uid());
        if !(found.is_file() && is_own && found.mode() & 0o077 == 0) {
            return Ok(false);
        }
        let mut head = vec![0; records::MAGIC.len()];
        File::open(path)?.read_exact(&mut head)?;
        Ok(head == records::MAGIC)
    };
    [group::NAME, group::MOVED].iter().any(|name| is_metafiles(name).unwrap_or(false))
}
