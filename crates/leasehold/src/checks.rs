//! Checks before the work starts; each failure says what, where and what to do.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use leasehold_fs::Verifier;
use leasehold_serve::HandleKey;
use leasehold_shell::{BindError, Pool, state};
use leasehold_store_dir::{self as dir, DirStore};

use crate::failure::{Failure, Kind};

/// The directory to serve, as an absolute path without symbolic links.
pub(crate) fn directory(asked: &Path) -> Result<PathBuf, Failure> {
    let failed = |error: &io::Error| Kind::Directory.because(directory_advice(asked, error));
    let path = fs::canonicalize(asked).map_err(|error| failed(&error))?;
    fs::read_dir(&path).map_err(|error| failed(&error))?;
    Ok(path)
}

#[allow(clippy::wildcard_enum_match_arm, reason = "advice on the usual errors only")]
fn directory_advice(asked: &Path, error: &io::Error) -> String {
    let asked = asked.display();
    match error.kind() {
        ErrorKind::NotFound => {
            format!("{asked} does not exist: make it first, or name another directory")
        }
        ErrorKind::NotADirectory => {
            format!("{asked} is not a directory: name the directory that it lies in")
        }
        ErrorKind::PermissionDenied => format!(
            "{asked} cannot be read by this user: grant it read and search permission, also \
             search permission on all directories above, or run as another user"
        ),
        _ => format!("{asked} cannot be served: {error}"),
    }
}

/// A directory as a server opens it, to look at and not to change.
pub(crate) fn opened_to_look(directory: &Path) -> Result<DirStore, dir::OpenError> {
    let options = dir::Options {
        blocking: Arc::new(Pool::new()),
        verifier: Verifier([0; 8]),
        durability: dir::Durability::Memory,
        descriptors_max: 64,
        handles: dir::HandleSource::Probe,
    };
    DirStore::open(directory, options)
}

/// The name to mount a directory by, with its slash. `said` is the path as the user named it, whose
/// last part is the name unless the user asks for another name; `directory` is the same path
/// without symbolic links, for `.` and such.
pub(crate) fn name(asked: Option<&str>, said: &Path, directory: &Path) -> Result<String, Failure> {
    let last = said.file_name().or_else(|| directory.file_name());
    let name = match asked {
        Some(name) => name.strip_prefix('/').unwrap_or(name).to_owned(),
        None => match last.map(|name| name.to_str()) {
            Some(Some(name)) => name.to_owned(),
            Some(None) => {
                let text = "the directory's name is not UTF-8: give one with --name NAME";
                return Err(Kind::Options.because(text));
            }
            None => "root".to_owned(),
        },
    };
    if name.is_empty() || name.len() > 255 || name.contains(['/', '\0']) {
        let text = "--name must be 1 to 255 bytes long and have no slash, but perhaps the first";
        return Err(Kind::Options.because(text));
    }
    Ok(format!("/{name}"))
}

/// The state directory, which clients of the served ones must not reach.
pub(crate) fn state(place: Option<PathBuf>, served: &[&Path]) -> Result<PathBuf, Failure> {
    let directory = place.ok_or_else(|| {
        Kind::State.because("there is no home directory for the state: name one with --state DIR")
    })?;
    let text = directory.display();
    for served in served {
        match is_reached(&directory, served) {
            Ok(false) => {}
            Ok(true) => {
                return Err(Kind::State.because(format!(
                    "the state directory {text} lies in the served directory, where clients could \
                     read the key of all handles, or put another in its place: name a directory \
                     outside, which only this user can write to, with --state DIR"
                )));
            }
            Err(error) => {
                return Err(Kind::State.because(format!("cannot use {text}: {error}")));
            }
        }
    }
    Ok(directory)
}

/// Refuses a cluster's key that clients of the served directory could read.
pub(crate) fn cluster_key(key: Option<&Path>, served: &Path) -> Result<(), Failure> {
    let Some(key) = key else { return Ok(()) };
    match is_reached(key, served) {
        Ok(false) => Ok(()),
        Ok(true) => Err(Kind::State.because(format!(
            "the cluster's key {} lies in the served directory, where clients could read it: \
             keep it outside",
            key.display()
        ))),
        Err(error) => Err(Kind::State.because(format!("cannot use {}: {error}", key.display()))),
    }
}

/// Whether a place, of which a part may have to be made, is reached from the served directory. That
/// may be mounted at several places, so it is looked for by its number and not by its path; what is
/// mounted below it is not entered.
pub(crate) fn is_reached(place: &Path, served: &Path) -> io::Result<bool> {
    let served = fs::metadata(served)?;
    let place = std::path::absolute(place)?;
    let there = place.ancestors().find_map(|path| path.canonicalize().ok());
    let there = there.ok_or(ErrorKind::NotFound)?;
    let is_served = |path: &Path| {
        let found = fs::metadata(path)?;
        io::Result::Ok((found.dev(), found.ino()) == (served.dev(), served.ino()))
    };
    if fs::metadata(&there)?.dev() != served.dev() {
        return Ok(false);
    }
    for path in there.ancestors() {
        if is_served(path)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The key of all handles, from the state directory.
pub(crate) fn handle_key(directory: &Path) -> Result<HandleKey, Failure> {
    state::handle_key(directory).map_err(|error| {
        Kind::State.because(format!("{error}; choose another place with --state DIR"))
    })
}

/// What keeps an address from being served on, and what to do.
#[allow(clippy::wildcard_enum_match_arm, reason = "advice on the usual errors only")]
pub(crate) fn address_advice(failed: &BindError) -> String {
    let address = failed.address;
    let another = SocketAddr::new(address.ip(), 0);
    match failed.error.kind() {
        ErrorKind::AddrInUse => format!(
            "{address} is taken by another program, perhaps another NFS server: choose another \
             port with --listen, or have one picked with --listen {another}"
        ),
        ErrorKind::AddrNotAvailable => {
            format!("this machine has no address {}: `ip address` lists those it has", address.ip())
        }
        ErrorKind::PermissionDenied => format!(
            "{address} needs privilege, as all ports below 1024: choose a higher one with --listen"
        ),
        _ => format!("{failed}"),
    }
}
