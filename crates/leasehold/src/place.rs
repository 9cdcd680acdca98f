//! The location of a server's state directory, unless the command line or the configuration file
//! names another location.
//!
//! Each server has its own folder below `servers` in the default state directory. The name of the
//! folder contains a hash: of the origin of the served directory (the UUID of its file system and
//! its root object), so that a renamed directory keeps its state, or of the path of the server's
//! configuration file.
//!
//! Earlier versions kept the state of all servers in the default state directory itself. Exactly
//! one server, the successor (the heir), adopts that old state ([`take_over`]): it moves the files
//! into its own folder. Rules:
//! 1. An old state that lists names of exports, or records a write-ahead log, identifies the
//!    directories of its servers. The successor is a server of one of these directories. An old
//!    state without names belonged to servers of one directory from the command line; the first
//!    such server that starts is the successor.
//! 2. The successor takes no file from a running server. A server that could be the successor does
//!    not start while another server uses the old state: if it started, it would create a new key
//!    and could never become the successor.
//! 3. The server records the successor before it moves the first file, and moves the key last.
//!    After a crash the recorded successor, and no other server, completes the move.
//! 4. An iod is not a successor. A metaserver on the same machine may have shared the old state,
//!    and clients keep handles of the metaserver permanently, while the callers of an iod request
//!    new handles. The exception is an old state that records a write-ahead log with data of the
//!    iod's directory: only that iod can replay the log.

use std::fs::{self, File};
use std::hash::Hasher as _;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use leasehold_shell::private::{self, Secrecy};
use leasehold_shell::{GivenLock, Ownership, lock, state};
use leasehold_store_dir::Origin;
use rustix::fs::OFlags;
use siphasher::sip::SipHasher24;

use crate::config::Plan;
use crate::failure::{Failure, Kind};
use crate::{ids, stable_log};

/// The directory that contains the folders of all servers.
const SERVERS: &str = "servers";

/// The file that records the successor.
const HEIR: &str = "heir";

/// The file that the successor moves last.
const KEY: &str = "handle-key";

/// The files of a state directory, in the order in which the successor moves them.
const FILES: [&str; 8] =
    ["identifier", "exports", "origins", "leases", "replies", "verifier", "stable-log", KEY];

/// The maximum number of characters that a folder's name takes from the name of the served
/// directory or configuration file.
const NAME_CHARACTERS_MAX: usize = 40;

/// Returns the folder of a server of a configuration file, or of a directory; `None` for a user
/// without a home.
pub(crate) fn usual(file: Option<&Path>, directory: &Path) -> Option<PathBuf> {
    let servers = state::default_directory()?.join(SERVERS);
    let named = file.map_or_else(|| directory.to_path_buf(), of_file);
    let by_path = mark(b"path", named.as_os_str().as_bytes());
    let by_origin = match file {
        Some(_) => None,
        None => Origin::of(directory).ok().and_then(of_origin),
    };
    // Search for a folder by the origin and by the path: the folder name has the path's hash if the
    // kernel did not report the UUID when the server first started. Such a folder stays in use.
    let marks = by_origin.into_iter().chain([by_path]);
    let found = marks.clone().find_map(|mark| with_mark(&servers, mark));
    let mark = by_origin.unwrap_or(by_path);
    Some(found.unwrap_or_else(|| servers.join(format!("{}-{mark:016x}", name_of(&named)))))
}

/// Returns the absolute path of a configuration file. A symbolic link as the last part of the path
/// is not resolved, because administrators replace the file by links whose targets change.
pub(crate) fn of_file(file: &Path) -> PathBuf {
    let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf());
    match (absolute.parent().map(Path::canonicalize), absolute.file_name()) {
        (Some(Ok(parent)), Some(name)) => parent.join(name),
        _ => absolute,
    }
}

/// Returns the folders of all servers in the default state directory, and the default state
/// directory itself, which earlier versions used.
pub(crate) fn all() -> Vec<PathBuf> {
    let Some(base) = state::default_directory() else { return Vec::new() };
    let servers = fs::read_dir(base.join(SERVERS)).into_iter().flatten().flatten();
    servers.map(|entry| entry.path()).chain([base]).collect()
}

fn of_origin(origin: Origin) -> Option<u64> {
    let Origin { volume: Some(volume), object } = origin else { return None };
    Some(mark(b"origin", &[&volume, object.as_bytes()].concat()))
}

/// Computes the hash in a folder's name: `kind` is the kind of the identification, and `bytes` is
/// the identification. The key of the hash is not secret: a user that can choose the names of this
/// user's directories can choose the state of their servers anyway.
fn mark(kind: &[u8], bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher24::new();
    hasher.write(kind);
    hasher.write(&[0]);
    hasher.write(bytes);
    hasher.finish()
}

/// Finds the folder whose name ends with this hash.
fn with_mark(servers: &Path, mark: u64) -> Option<PathBuf> {
    let end = format!("-{mark:016x}");
    let mut entries = fs::read_dir(servers).ok()?.flatten();
    let found = entries.find(|entry| entry.file_name().as_bytes().ends_with(end.as_bytes()))?;
    Some(found.path())
}

/// Returns the readable part of a folder's name, from the name of the directory or file.
fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_else(|| "root".as_ref()).to_string_lossy();
    let plain = |character: char| match character {
        '.' | '_' | '-' => character,
        other if other.is_ascii_alphanumeric() => other,
        _ => '_',
    };
    name.chars().take(NAME_CHARACTERS_MAX).map(plain).collect()
}

/// Moves the state of an earlier version to the folder of a server, if the server is the successor.
///
/// # Errors
/// A file cannot be moved: clients would have to mount again.
pub(crate) fn take_over(plan: &Plan) -> Result<(), Failure> {
    let (None, Some(base)) = (&plan.server.state, state::default_directory()) else {
        return Ok(());
    };
    let failed = |error: io::Error| {
        let (from, to) = (base.display(), plan.state.display());
        Kind::State.because(format!("cannot move the state in {from} to {to}: {error}"))
    };
    let is_there = |path: &Path| path.symlink_metadata().is_ok();
    if !is_there(&base.join(KEY)) || is_there(&plan.state.join(KEY)) {
        return Ok(());
    }
    let place = base.display();
    let mut why = heir(plan, &base).map_err(failed)?;
    let mut owned = None;
    if why.is_some() {
        owned = at_rest(&base).map_err(failed)?;
        if owned.is_none() {
            return Err(Kind::State.because(format!(
                "a server of an earlier version uses the state in {place}, and this server may be \
                 its successor: end that server first, or name another state directory with \
                 --state DIR"
            )));
        }
        // Another server may have become the successor before this server had the lock, so the
        // check runs again under the lock.
        why = heir(plan, &base).map_err(failed)?;
    }
    let Some(why) = why else {
        match plan.is_iod() {
            true => tracing::info!(
                "the state in {place} stays with another server: this iod starts a new state"
            ),
            false => tracing::warn!(
                "the state in {place} belongs to other directories: this server starts a new \
                 state, and earlier clients must mount again; to continue the old state, use \
                 --state {place}"
            ),
        }
        return Ok(());
    };
    move_files(&base, &plan.state).map_err(failed)?;
    drop(owned);
    let to = plan.state.display();
    tracing::info!("moved the state of an earlier version from {place} to {to}");
    if why == Heir::First {
        let directory = plan.served();
        tracing::warn!(
            "the state names no directory: this server assumes that it belongs to {directory}. If \
             other servers shared it, old handles of their directories are valid here now. To \
             reject all old handles, end this server, remove handle-key in {to} and start the \
             server: all clients must mount again then"
        );
    }
    Ok(())
}

/// Locks the default state directory for this process; returns `None` if a server uses it. Rule 2.
fn at_rest(base: &Path) -> io::Result<Option<(Ownership, Option<File>)>> {
    let owned = match Ownership::take(base, GivenLock::default(), "nothing: it moves") {
        Err(error) if error.error.kind() == ErrorKind::WouldBlock => return Ok(None),
        owned => owned.map_err(|error| error.error)?,
    };
    // An earlier version locks its journal of replies, and no other file, so this server must lock
    // the journal as well.
    let notes = match private::open(&base.join("replies"), OFlags::RDWR, Secrecy::Readable) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        notes => Some(notes?),
    };
    let locked = notes.as_ref().map_or(Ok(()), |notes| lock(notes, |_| String::new()));
    match locked {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        locked => locked.map(|()| Some((owned, notes))),
    }
}

/// The reason why a server is the successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heir {
    /// The old state names the server's directory, or the record of a successor names the server.
    Named,
    /// The old state names no directory, and the server is the first to start.
    First,
}

/// Returns the reason why this server is the successor of an earlier version, or `None` if it is
/// not the successor. Rules 1, 3 and 4.
fn heir(plan: &Plan, base: &Path) -> io::Result<Option<Heir>> {
    match private::read(&base.join(HEIR), Secrecy::Readable) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        read => return Ok((read? == plan.state.as_os_str().as_bytes()).then_some(Heir::Named)),
    }
    if base.join(KEY).symlink_metadata().is_err() {
        return Ok(None);
    }
    let mut served = plan.exports.iter().map(|export| &export.directory);
    if let Some((_, directory)) = stable_log::noted(base)? {
        return Ok(served.any(|served| *served == directory).then_some(Heir::Named));
    }
    let names = ids::names(base)?;
    Ok(match names.is_empty() {
        _ if plan.is_iod() => None,
        true => plan.file.is_none().then_some(Heir::First),
        false => served.any(|served| names.contains(served)).then_some(Heir::Named),
    })
}

/// Moves the files of a state directory. Rule 3.
fn move_files(from: &Path, to: &Path) -> io::Result<()> {
    let (there, here) = (private::directory(to)?, private::directory(from)?);
    state::put(from, HEIR, &[to.as_os_str().as_bytes()])?;
    for name in FILES {
        if name == KEY {
            there.sync_all()?;
            here.sync_all()?;
        }
        match fs::rename(from.join(name), to.join(name)) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            moved => moved?,
        }
    }
    there.sync_all()?;
    fs::remove_file(from.join(HEIR))?;
    here.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_has_readable_name_and_mark() {
        for (path, name) in
            [("/", "root"), ("/srv/a b", "a_b"), ("/srv/\u{1b}[2J", "__2J"), ("/srv/..x", "..x")]
        {
            assert_eq!(name_of(Path::new(path)), name);
        }
        assert_ne!(mark(b"path", b"/a"), mark(b"path", b"/b"));
        assert_ne!(mark(b"path", b"/a"), mark(b"origin", b"/a"));
        // This value must never change: with another hash the server would use another folder, and
        // the file handles of all mounts would become stale.
        assert_eq!(mark(b"path", b"/etc/leasehold/leasehold.toml"), MARK_OF_UNIT);
    }

    /// The hash for the configuration file in the systemd unit.
    const MARK_OF_UNIT: u64 = 0x8d1c_12ab_e82c_7fac;

    #[test]
    fn files_move_once_and_key_moves_last() {
        let home = tempfile::tempdir().expect("there is room");
        let (from, to) = (home.path().join("base"), home.path().join("base/servers/data-1"));
        private::directory(&from).expect("there is room");
        for name in FILES {
            state::put(&from, name, &[name.as_bytes()]).expect("there is room");
        }
        // Interrupt a move after one file. The successor must complete the move.
        private::directory(&to).expect("there is room");
        fs::rename(from.join("leases"), to.join("leases")).expect("there is room");
        move_files(&from, &to).expect("there is room");
        for name in FILES {
            assert_eq!(fs::read(to.join(name)).expect("it has moved"), name.as_bytes());
            assert!(!from.join(name).exists(), "{name}");
        }
        assert!(!from.join(HEIR).exists());
    }
}
