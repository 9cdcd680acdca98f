//! The move of a home: moves the metafiles of a metaserver to another directory, which another start
//! then serves.
//!
//! Rules:
//! 1. No metaserver runs on the old directory: the move holds the lock of its metafiles.
//! 2. The order of the steps is: write the metafiles to stable storage in the new directory; rename
//!    the old file, so that no start can serve it; give the new file the name under which a start
//!    serves it. After a crash, at most one directory can be served, or none until the command runs
//!    again.
//! 3. The next epoch of the new directory is later than the epoch of any copy of the old directory,
//!    so peers reject calls of a metaserver that serves such a copy.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::Path;

use bytes::Bytes;
use leasehold_shell::records::Records;
use leasehold_store_replica::{compacted, moved};

use crate::group::{COMING, MOVED, NAME};
use crate::names::others;
use crate::{Failure, Kind};

/// Moves the home role from one directory to another. Both paths are absolute and contain no
/// symbolic link.
///
/// # Errors
/// A metaserver serves the old directory, the new directory contains files, or one of them cannot be
/// written.
pub fn move_home(from: &Path, to: &Path) -> Result<(), Failure> {
    let wrong = |text: String| Err(Kind::Directory.because(text));
    if to.join(NAME).exists() {
        return wrong(format!("{} already has a home: name another directory", to.display()));
    }
    let own = [COMING, MOVED];
    if let Some(name) = others(to, &own).map_err(|error| failed(to, &error))? {
        let to = to.display();
        return wrong(format!(
            "{to} contains {name}, which would be hidden: name an empty directory"
        ));
    }
    let (goes, comes) = (from.join(NAME).exists(), to.join(COMING).exists());
    // `_old` holds the lock of the old metafiles until the end of this function, so that no
    // metaserver can serve the old directory during the move.
    let _old = match goes {
        true => Some(copy(from, to)?),
        false if comes && from.join(MOVED).exists() => None,
        false => {
            let here = from.display();
            return wrong(format!("{here} is not the directory of one of several metaservers"));
        }
    };
    if goes {
        rename(from, NAME, MOVED)?;
    }
    match fs::remove_file(to.join(MOVED)) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(to, &error)),
        // The home was in this directory earlier and returns to it: the old mark that prevented
        // serving is removed, if it exists.
        Ok(()) | Err(_) => {}
    }
    rename(to, COMING, NAME)
}

/// Copies the metafiles to a name that no start serves; returns the old metafiles with their lock.
fn copy(from: &Path, to: &Path) -> Result<Records, Failure> {
    let unread = |_| io::Error::new(ErrorKind::InvalidData, "a record cannot be read");
    let compact = |found: Vec<Bytes>| compacted(&found).map_err(unread);
    let (old, found) = Records::open(&from.join(NAME), true, None, compact).map_err(|error| {
        if error.kind() == ErrorKind::AddrInUse {
            let text = format!("{} is in use: end its metaserver first", from.display());
            return Kind::Directory.because(text);
        }
        failed(from, &error)
    })?;
    let coming = to.join(COMING);
    let moved = |_| moved(&found).map_err(unread);
    let new = Records::open(&coming, true, None, moved).map_err(|error| failed(to, &error))?;
    drop(new);
    // Give the files the owner of the directory. Otherwise, if root moves the home, a metaserver
    // that runs as that owner could not read them.
    let owner = fs::metadata(to).map_err(|error| failed(to, &error))?;
    for file in [coming.with_extension("lock"), coming] {
        let own = fs::metadata(&file).map_err(|error| failed(to, &error))?;
        if (own.uid(), own.gid()) != (owner.uid(), owner.gid()) {
            chown(&file, Some(owner.uid()), Some(owner.gid()))
                .map_err(|error| failed(to, &error))?;
        }
    }
    Ok(old)
}

fn rename(directory: &Path, old: &str, new: &str) -> Result<(), Failure> {
    fs::rename(directory.join(old), directory.join(new))
        .and_then(|()| File::open(directory)?.sync_all())
        .map_err(|error| failed(directory, &error))
}

fn failed(directory: &Path, error: &dyn Display) -> Failure {
    let text = format!("cannot move the home: {}: {error}", directory.display());
    Kind::Directory.because(text)
}
