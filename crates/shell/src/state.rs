//! What a server keeps over restarts.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use leasehold_serve::HandleKey;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::own;
use crate::private::{self, Secrecy};

/// The file with the key that handles are made with.
const HANDLE_KEY: &str = "handle-key";

/// The file with what tells the server from every other.
const IDENTIFIER: &str = "identifier";

/// Why the state cannot be used.
#[derive(Debug)]
pub struct StateError {
    /// What could not be done.
    pub task: &'static str,
    /// With what.
    pub path: PathBuf,
    /// Why not.
    pub error: io::Error,
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}: {}", self.task, self.path.display(), self.error)
    }
}

impl std::error::Error for StateError {}

/// Where a server of this user keeps its state, unless told otherwise; nowhere, when it is an
/// ordinary user without a home.
#[must_use]
pub fn default_directory() -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Some("/var/lib/leasehold".into());
    }
    let absolute = |variable| {
        std::env::var_os(variable).map(PathBuf::from).filter(|path: &PathBuf| path.is_absolute())
    };
    let base = absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))?;
    Some(base.join("leasehold"))
}

/// The key that handles are made with; made at the first start and the same from then on.
///
/// Two servers that start at once get the same key. It is on stable storage when this returns.
///
/// # Errors
/// When the directory cannot be made or written, holds something that is no key, or could have been
/// written by another user.
pub fn handle_key(directory: &Path) -> Result<HandleKey, StateError> {
    kept(directory, HANDLE_KEY, Secrecy::Secret).map(HandleKey)
}

/// What tells the server from every other; made when it is first asked for and the same from then
/// on, as the key of handles is. It is no secret.
///
/// # Errors
/// As [`handle_key`].
pub fn identifier(directory: &Path) -> Result<[u8; 16], StateError> {
    kept(directory, IDENTIFIER, Secrecy::Readable)
}

/// Random bytes under a name, which are made at the first time.
fn kept(directory: &Path, name: &str, secrecy: Secrecy) -> Result<[u8; 16], StateError> {
    own::must_be_own();
    let path = directory.join(name);
    let failed = |task, path: &Path| {
        let path = path.to_path_buf();
        move |error| StateError { task, path, error }
    };
    private::directory(directory).map_err(failed("make the directory", directory))?;
    match private::read(&path, secrecy) {
        Ok(key) => {
            let damaged = || io::Error::new(ErrorKind::InvalidData, "is not a key of 16 bytes");
            let key = key.try_into().map_err(|_| damaged());
            key.map_err(failed("use", &path))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            make(directory, name).map_err(failed("write", &path))?;
            kept(directory, name, secrecy)
        }
        Err(error) => Err(failed("read", &path)(error)),
    }
}

/// Writes new random bytes under a name in one step, unless some are there by then.
fn make(directory: &Path, name: &str) -> io::Result<()> {
    // A name of its own, so that starters do not write into each other's file.
    let temporary = own_name(directory, name)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    file.write_all(&random::<16>()?)?;
    file.sync_all()?;
    let linked = fs::hard_link(&temporary, directory.join(name));
    fs::remove_file(&temporary)?;
    match linked {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    File::open(directory)?.sync_all()
}

/// Random bytes that nobody can guess.
///
/// # Errors
/// When the system has none.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
    }
    Ok(bytes)
}

/// Puts a file into a directory, or in place of what has the name there, in one step; nobody else
/// may read it. It is on stable storage when this returns.
///
/// # Errors
/// When it cannot be written; what had the name is as it was.
///
/// # Panics
/// When the calling thread acts as a caller of the server (see [`own`]).
pub fn put(directory: &Path, name: &str, parts: &[&[u8]]) -> io::Result<()> {
    own::must_be_own();
    let own = own_name(directory, name)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&own)?;
    let written = parts.iter().try_for_each(|part| file.write_all(part));
    let named = written
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&own, directory.join(name)));
    if named.is_err() {
        let _ = fs::remove_file(&own);
    }
    named?;
    File::open(directory)?.sync_all()
}

/// A name like another, that no other server has.
pub(crate) fn own_name(directory: &Path, name: &str) -> io::Result<PathBuf> {
    Ok(directory.join(format!("{name}.{:016x}", u64::from_ne_bytes(random()?))))
}

/// What tells this boot of the machine from every other.
///
/// # Errors
/// When the system tells neither that nor has random numbers.
pub fn this_boot() -> io::Result<u128> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    match u128::from_str_radix(&id.trim().replace('-', ""), 16) {
        Ok(boot) => Ok(boot),
        // Each start is a boot of its own, so ages are as good as after one.
        Err(_) => random().map(u128::from_ne_bytes),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::thread;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_kept_to_oneself() {
        let home = tempfile::tempdir().expect("a directory for the test");
        let directory = home.path().join("some/where");
        let starters: Vec<_> = (0..8)
            .map(|_| {
                let directory = directory.clone();
                thread::spawn(move || handle_key(&directory).expect("there is a key").0)
            })
            .collect();
        let first = handle_key(&directory).expect("there is a key").0;
        for starter in starters {
            assert_eq!(starter.join().expect("did not panic"), first);
        }
        assert_ne!(first, [0; 16]);
        let mode = |path: &Path| fs::metadata(path).expect("is there").permissions().mode() & 0o777;
        assert_eq!(mode(&directory.join(HANDLE_KEY)), 0o600);
        assert_eq!(mode(&directory), 0o700);
        let files = fs::read_dir(&directory).expect("can be listed");
        assert_eq!(files.count(), 1, "nothing is left lying about");
    }

    #[test]
    fn what_is_put_is_kept_to_oneself() {
        let home = tempfile::tempdir().expect("a directory for the test");
        for text in ["first", "second"] {
            put(home.path(), "note", &[text.as_bytes(), b"!"]).expect("it can be written");
            let path = home.path().join("note");
            assert_eq!(fs::read_to_string(&path).expect("is there"), format!("{text}!"));
            let mode = fs::metadata(&path).expect("is there").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        fs::create_dir_all(home.path().join("taken/by a directory")).expect("there is room");
        put(home.path(), "taken", &[b"text"]).expect_err("it is in the way");
        let files = fs::read_dir(home.path()).expect("can be listed");
        assert_eq!(files.count(), 2, "nothing is left lying about");
    }

    #[test]
    fn a_damaged_key_is_not_replaced() {
        let home = tempfile::tempdir().expect("a directory for the test");
        let path = home.path().join(HANDLE_KEY);
        put(home.path(), HANDLE_KEY, &[b"short"]).expect("can be written");
        let error = handle_key(home.path()).err().expect("is no key");
        assert_eq!(
            error.to_string(),
            format!("cannot use {}: is not a key of 16 bytes", path.display())
        );
        assert_eq!(fs::read(&path).expect("is there"), b"short");
    }

    #[test]
    fn a_place_that_cannot_be_written_is_named() {
        let error = handle_key(Path::new("/proc/none")).err().expect("nobody can write there");
        assert!(error.to_string().starts_with("cannot make the directory /proc/none: "));
    }
}
