//! Whose names a directory has: those of one metaserver, which are its files, or those of one among
//! several, which are in a file of metafiles. Served in the other way it would show no file, and be changed.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use leasehold_shell::records;

use super::Layout;
use crate::cluster::group;
use crate::failure::{Failure, Kind};

/// What a directory of one among several may have in it before it has metafiles: what a new file system
/// has, and what a start leaves that was ended in its midst.
const NEW: [&str; 3] = ["lost+found", "leasehold-metafiles.lock", "leasehold-metafiles.new"];

/// Refuses a directory that was served in the other way; changes nothing.
pub(crate) fn check(directory: &Path, layout: &Layout) -> Result<(), Failure> {
    let shown = directory.display();
    let refused = |text: String| Err(Kind::Directory.because(text));
    if layout.group.is_none() {
        if is_of_several(directory, layout) {
            return refused(format!(
                "{shown} is the directory of one of several metaservers, and would not show their \
                 files: serve it with `meta --peer`, or with `peer` in the file, as before"
            ));
        }
        return Ok(());
    }
    if group::is_one_of_several(directory) {
        return Ok(());
    }
    if directory.join(group::COMING).exists() {
        return refused(format!(
            "a home is on its way to {shown}: have `leasehold cluster move-home` done once more, which \
             was ended in its midst"
        ));
    }
    let found = others(directory, &[])
        .map_err(|error| Kind::Directory.because(format!("cannot use {shown}: {error}")))?;
    match found {
        None => Ok(()),
        Some(name) => refused(format!(
            "{shown} has files of its own in it, such as {name}, which one of several metaservers \
             would hide. If one metaserver served it, it goes on without --peer (`peer` in the \
             file). For several, name an empty directory at each, and iods with empty directories, \
             and copy the files in through a mount"
        )),
    }
}

/// Something in a directory that one among several is to have for its names, but for what a new one may
/// have, and these.
pub(crate) fn others(directory: &Path, known: &[&str]) -> io::Result<Option<String>> {
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        if !NEW.iter().chain(known).any(|known| name == *known) {
            return Ok(Some(name.to_string_lossy().into_owned()));
        }
    }
    Ok(None)
}

/// Whether a directory is that of one among several, as far as its clients cannot make it look so: where
/// one metaserver or a server has its files in it, they may give a file any name and content.
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
