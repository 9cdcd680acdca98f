//! The place of a server's state, unless the command line or the file names another place.
//!
//! Each server has a folder of its own below `servers` in the usual place. The origin of a
//! directory names the folder of its server, so a directory that was renamed keeps its state; the
//! path of a configuration file names the folder of the file's server.
//!
//! Earlier versions kept the state of all servers in the usual place itself. One server takes that
//! state over, once ([`take_over`]): the server renames the files into its folder. Rules:
//! 1. A state that lists names of exports, or notes a stable log, tells the directories of its
//!    servers. The heir serves one of these directories. A state without such names belonged to
//!    servers of one directory, named on the command line; the first such server that starts is the
//!    heir.
//! 2. The heir takes no file from a server that runs. A server that could be the heir does not
//!    start meanwhile: with a new key the server could never be the heir again.
//! 3. The heir is noted before the first file moves, and the key moves last: the same heir, and no
//!    other server, completes a start that was cut off.
//! 4. An iod is no heir: a metaserver on the same machine shared the state perhaps, and clients
//!    have handles of the metaserver for good, while callers of an iod ask for its handles again. A
//!    stable log that holds data of the iod's directory is the exception, since no other server can
//!    replay the log.

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

/// The folder with a folder for each server.
const SERVERS: &str = "servers";

/// The note of the heir.
const HEIR: &str = "heir";

/// The file that moves last.
const KEY: &str = "handle-key";

/// The files of a state, in the order in which they move.
const FILES: [&str; 8] =
    ["identifier", "exports", "origins", "leases", "replies", "verifier", "stable-log", KEY];

/// The number of characters of a directory's or file's name that a folder's name has.
const NAME_CHARACTERS_MAX: usize = 40;

/// The folder of a server of a configuration file, or of a directory; none for a user without a home.
pub(crate) fn usual(file: Option<&Path>, directory: &Path) -> Option<PathBuf> {
    let servers = state::default_directory()?.join(SERVERS);
    let named = file.map_or_else(|| directory.to_path_buf(), of_file);
    let by_path = mark(b"path", named.as_os_str().as_bytes());
    let by_origin = match file {
        Some(_) => None,
        None => Origin::of(directory).ok().and_then(of_origin),
    };
    // A folder from a kernel that did not tell the UUID stays in use.
    let marks = by_origin.into_iter().chain([by_path]);
    let found = marks.clone().find_map(|mark| with_mark(&servers, mark));
    let mark = by_origin.unwrap_or(by_path);
    Some(found.unwrap_or_else(|| servers.join(format!("{}-{mark:016x}", name_of(&named)))))
}

/// The path of a configuration file, which keeps a symbolic link in the place of the file:
/// administrators exchange such files by links that lead elsewhere each time.
pub(crate) fn of_file(file: &Path) -> PathBuf {
    let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf());
    match (absolute.parent().map(Path::canonicalize), absolute.file_name()) {
        (Some(Ok(parent)), Some(name)) => parent.join(name),
        _ => absolute,
    }
}

/// The folders of all servers that used the usual place, and the usual place itself, which an
/// earlier version used.
pub(crate) fn all() -> Vec<PathBuf> {
    let Some(base) = state::default_directory() else { return Vec::new() };
    let servers = fs::read_dir(base.join(SERVERS)).into_iter().flatten().flatten();
    servers.map(|entry| entry.path()).chain([base]).collect()
}

fn of_origin(origin: Origin) -> Option<u64> {
    let Origin { volume: Some(volume), object } = origin else { return None };
    Some(mark(b"origin", &[&volume, object.as_bytes()].concat()))
}

/// A number that tells servers apart. The key of the hash is no secret: a user that may name
/// directories of this user may name the state of their servers.
fn mark(kind: &[u8], bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher24::new();
    hasher.write(kind);
    hasher.write(&[0]);
    hasher.write(bytes);
    hasher.finish()
}

/// The folder that ends with a mark.
fn with_mark(servers: &Path, mark: u64) -> Option<PathBuf> {
    let end = format!("-{mark:016x}");
    let mut entries = fs::read_dir(servers).ok()?.flatten();
    let found = entries.find(|entry| entry.file_name().as_bytes().ends_with(end.as_bytes()))?;
    Some(found.path())
}

/// The part of a folder's name that users recognize.
fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_else(|| "root".as_ref()).to_string_lossy();
    let plain = |character: char| match character {
        '.' | '_' | '-' => character,
        other if other.is_ascii_alphanumeric() => other,
        _ => '_',
    };
    name.chars().take(NAME_CHARACTERS_MAX).map(plain).collect()
}

/// Moves the state of an earlier version to a server in its usual place, if the server is the heir.
///
/// # Errors
/// When files cannot be moved: clients would have to mount again.
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
                 the one that goes on with that state: end that server first, or name a state with \
                 --state DIR"
            )));
        }
        // Another server may have become the heir before this server had the lock.
        why = heir(plan, &base).map_err(failed)?;
    }
    let Some(why) = why else {
        match plan.is_iod() {
            true => tracing::info!(
                "the state in {place} is left to another server: this iod begins with its own"
            ),
            false => tracing::warn!(
                "the state in {place} is of other directories: this server begins with its own, \
                 and clients that had mounted it mount again; --state {place} goes on with that"
            ),
        }
        return Ok(());
    };
    move_files(&base, &plan.state).map_err(failed)?;
    drop(owned);
    let to = plan.state.display();
    tracing::info!("the state of an earlier version has moved from {place} to {to}");
    if why == Heir::First {
        let directory = plan.served();
        tracing::warn!(
            "the state names no directory: this server assumes that it was of {directory}; if other \
             servers shared it, old handles of any other directory that they served are good here \
             now; to refuse all old handles, end this server, remove handle-key in {to} and start \
             it: all clients mount again then"
        );
    }
    Ok(())
}

/// Takes the locks of the usual place for this process, unless a server uses the place. Rule 2.
fn at_rest(base: &Path) -> io::Result<Option<(Ownership, Option<File>)>> {
    let owned = match Ownership::take(base, GivenLock::default(), "nothing: it moves") {
        Err(error) if error.error.kind() == ErrorKind::WouldBlock => return Ok(None),
        owned => owned.map_err(|error| error.error)?,
    };
    // An earlier version locks its notes of replies, and no other file.
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

/// The reason that a server is the heir.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heir {
    /// The state, or the note of an heir, names the server.
    Named,
    /// The state names no directory, and the server is the first to start.
    First,
}

/// The reason that this server is the heir of an earlier version, if any. Rules 1, 3 and 4.
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

/// Moves the files of a state. Rule 3.
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
    fn a_folder_is_named_for_people_and_by_a_mark() {
        for (path, name) in
            [("/", "root"), ("/srv/a b", "a_b"), ("/srv/\u{1b}[2J", "__2J"), ("/srv/..x", "..x")]
        {
            assert_eq!(name_of(Path::new(path)), name);
        }
        assert_ne!(mark(b"path", b"/a"), mark(b"path", b"/b"));
        assert_ne!(mark(b"path", b"/a"), mark(b"origin", b"/a"));
        // Another number would mean another folder: all mounts would be stale.
        assert_eq!(mark(b"path", b"/etc/leasehold/leasehold.toml"), MARK_OF_UNIT);
    }

    /// The mark of the file that the unit for systemd names.
    const MARK_OF_UNIT: u64 = 0x8d1c_12ab_e82c_7fac;

    #[test]
    fn files_move_once_and_the_key_last() {
        let home = tempfile::tempdir().expect("there is room");
        let (from, to) = (home.path().join("base"), home.path().join("base/servers/data-1"));
        private::directory(&from).expect("there is room");
        for name in FILES {
            state::put(&from, name, &[name.as_bytes()]).expect("there is room");
        }
        // The heir completes a move that was cut off before.
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
