//! Checks before the server starts; each failure states the fault, its place and the remedy.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use leasehold_serve::HandleKey;
use leasehold_shell::{BindError, state};

use crate::failure::{Failure, Kind};

/// Returns the directory to serve, as an absolute path without symbolic links.
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
            format!("{asked} is not a directory: name its parent directory")
        }
        ErrorKind::PermissionDenied => format!(
            "{asked} cannot be read by this user: grant read and search permission on it, and \
             search permission on all parent directories, or run as another user"
        ),
        _ => format!("{asked} cannot be served: {error}"),
    }
}

/// Returns the name under which clients mount a directory, with its slash. `said` is the path that
/// the user gave; its last part is the name unless the user requests another name. `directory` is
/// the same path without symbolic links, for `.` and similar paths.
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
        let text = "--name must be 1 to 255 bytes long and contain no slash except at its start";
        return Err(Kind::Options.because(text));
    }
    Ok(format!("/{name}"))
}

/// Returns the state directory, which must be out of the reach of clients.
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
                     read the key of all handles or replace it: name a directory outside that only \
                     this user can write to, with --state DIR"
                )));
            }
            Err(error) => {
                return Err(Kind::State.because(format!("cannot use {text}: {error}")));
            }
        }
    }
    Ok(directory)
}

/// Rejects a cluster key that clients of the served directory could read.
pub(crate) fn cluster_key(key: Option<&Path>, served: &Path) -> Result<(), Failure> {
    let Some(key) = key else { return Ok(()) };
    match is_reached(key, served) {
        Ok(false) => Ok(()),
        Ok(true) => Err(Kind::State.because(format!(
            "the cluster key {} lies in the served directory, where clients could read it: \
             keep it outside",
            key.display()
        ))),
        Err(error) => Err(Kind::State.because(format!("cannot use {}: {error}", key.display()))),
    }
}

/// Returns true if the path `place`, which may not exist yet, lies below the served directory. The
/// function compares inode numbers instead of paths, because the directory may be mounted at
/// several places; it does not enter other file systems.
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

/// Reads the key of all handles from the state directory.
pub(crate) fn handle_key(directory: &Path) -> Result<HandleKey, Failure> {
    state::handle_key(directory).map_err(|error| {
        Kind::State.because(format!("{error}; choose another place with --state DIR"))
    })
}

/// Describes the error that prevents serving on an address, and its remedy.
#[allow(clippy::wildcard_enum_match_arm, reason = "advice on the usual errors only")]
pub(crate) fn address_advice(failed: &BindError) -> String {
    let address = failed.address;
    let another = SocketAddr::new(address.ip(), 0);
    match failed.error.kind() {
        ErrorKind::AddrInUse => format!(
            "{address} is taken by another program, perhaps another NFS server: choose another \
             port with --listen, or let the system choose one with --listen {another}"
        ),
        ErrorKind::AddrNotAvailable => {
            format!(
                "this machine has no address {}: `ip address` lists its addresses",
                address.ip()
            )
        }
        ErrorKind::PermissionDenied => format!(
            "{address} requires privilege, like all ports below 1024: choose a higher port with \
             --listen"
        ),
        _ => format!("{failed}"),
    }
}
