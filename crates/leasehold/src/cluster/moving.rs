//! Moving a home: what a metaserver alone has goes to another directory, to be served from there.
//!
//! Rules:
//! 1. Whoever has it does not run: its metafiles are locked meanwhile.
//! 2. They are on stable storage in the new directory before they get a name in the old one by which
//!    nothing serves them; and only then the one in the new directory by which they are served. So a
//!    crash leaves them to be served from one of both, or from none until the same is asked again.
//! 3. The next epoch of those in the new directory is later than any of a copy of the old, and peers
//!    take no call of that any more.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::Path;

use bytes::Bytes;
use leasehold_shell::records::Records;
use leasehold_store_replica::{compacted, moved};

use super::group::{COMING, MOVED, NAME};
use super::options::MoveHome;
use crate::checks;
use crate::failure::{Failure, Kind};
use crate::say::say;
use crate::stripes::names::others;

/// Moves a home from one directory to another.
pub(crate) fn move_home(options: &MoveHome) -> Result<(), Failure> {
    let from = checks::directory(&options.directory)?;
    let to = checks::directory(&options.to)?;
    let wrong = |text: String| Err(Kind::Directory.because(text));
    if to.join(NAME).exists() {
        return wrong(format!("{} has a home already: name another directory", to.display()));
    }
    let own = [COMING, MOVED];
    if let Some(name) = others(&to, &own).map_err(|error| failed(&to, &error))? {
        let to = to.display();
        return wrong(format!(
            "{to} has {name} in it, which would be hidden: name an empty directory"
        ));
    }
    let (goes, comes) = (from.join(NAME).exists(), to.join(COMING).exists());
    // Held to the end: nobody serves it meanwhile.
    let _old = match goes {
        true => Some(copy(&from, &to)?),
        false if comes && from.join(MOVED).exists() => None,
        false => {
            let here = from.display();
            return wrong(format!("{here} has no home of one among several metaservers"));
        }
    };
    if goes {
        rename(&from, NAME, MOVED)?;
    }
    match fs::remove_file(to.join(MOVED)) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(&to, &error)),
        // It was there before, and comes back.
        Ok(()) | Err(_) => {}
    }
    rename(&to, COMING, NAME)?;
    say(format!(
        "The home is in {} now, and nothing serves it from {} any more.\nServe it with the number \
         that it had; where it has another address, name that with --peer in place of the old one \
         at all metaservers, and start them again.\nWhere its clients may hold leases (--strict), \
         serve it with the state directory that it had, or two minutes after its end: which clients \
         those are stands there alone.\n",
        to.display(),
        from.display()
    ))
}

/// Copies metafiles to where they are not served yet; gives those that are locked meanwhile.
fn copy(from: &Path, to: &Path) -> Result<Records, Failure> {
    let unread = |_| io::Error::new(ErrorKind::InvalidData, "a record cannot be read");
    let compact = |found: Vec<Bytes>| compacted(&found).map_err(unread);
    let (old, found) = Records::open(&from.join(NAME), true, None, compact).map_err(|error| {
        if error.kind() == ErrorKind::AddrInUse {
            let text = format!("{} is being served: end its metaserver first", from.display());
            return Kind::Directory.because(text);
        }
        failed(from, &error)
    })?;
    let coming = to.join(COMING);
    let moved = |_| moved(&found).map_err(unread);
    let new = Records::open(&coming, true, None, moved).map_err(|error| failed(to, &error))?;
    drop(new);
    // It is to be read by whom the directory is, whoever moves it.
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
