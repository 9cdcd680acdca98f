//! The persistent state of a server.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use leasehold_serve::HandleKey;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::own;
use crate::private::{self, Secrecy};

/// The file with the key of file handles.
const HANDLE_KEY: &str = "handle-key";

/// The file with the unique identifier of the server.
const IDENTIFIER: &str = "identifier";

/// The reason why a server cannot use its state directory.
#[derive(Debug)]
pub struct StateError {
    /// The failed task.
    pub task: &'static str,
    /// The file or directory.
    pub path: PathBuf,
    /// The cause.
    pub error: io::Error,
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}: {}", self.task, self.path.display(), self.error)
    }
}

impl std::error::Error for StateError {}

/// Returns the default state directory of the current user; `None` for an ordinary user without a
/// home directory.
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

/// Returns the key of file handles, which the first start creates and later starts keep.
///
/// If two servers start at once, both receive the same key. The key is on stable storage when this
/// function returns.
///
/// # Errors
/// The directory cannot be created or written, contains an invalid key, or could have been written
/// by another user.
pub fn handle_key(directory: &Path) -> Result<HandleKey, StateError> {
    kept(directory, HANDLE_KEY, Secrecy::Secret).map(HandleKey)
}

/// Returns the unique identifier of the server, which the first use creates, like the key of
/// handles. The identifier is not secret.
///
/// # Errors
/// As [`handle_key`].
pub fn identifier(directory: &Path) -> Result<[u8; 16], StateError> {
    kept(directory, IDENTIFIER, Secrecy::Readable)
}

/// Returns the random bytes in the file `name`, and creates the file at the first use.
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

/// Writes new random bytes to the file `name` atomically, unless the file exists.
fn make(directory: &Path, name: &str) -> io::Result<()> {
    // The temporary file has a unique name, because several servers may start at once.
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

/// Returns unpredictable random bytes.
///
/// # Errors
/// The system has no random bytes.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
    }
    Ok(bytes)
}

/// Creates or replaces a file in a directory atomically. No other user may read the file. The file
/// is on stable storage when this function returns.
///
/// # Errors
/// The file cannot be written; an existing file is unchanged.
///
/// # Panics
/// The calling thread acts as a user of the server (see [`own`]).
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

/// Returns a path in the directory that begins with `name` and that no other server uses.
pub(crate) fn own_name(directory: &Path, name: &str) -> io::Result<PathBuf> {
    Ok(directory.join(format!("{name}.{:016x}", u64::from_ne_bytes(random()?))))
}

/// Returns the unique id of this boot of the machine.
///
/// # Errors
/// The system reports neither an id nor random numbers.
pub fn this_boot() -> io::Result<u128> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    match u128::from_str_radix(&id.trim().replace('-', ""), 16) {
        Ok(boot) => Ok(boot),
        // The system reports no boot id. With a random id each start counts as a new boot, so the
        // ages of entries are computed as after a reboot.
        Err(_) => random().map(u128::from_ne_bytes),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::thread;

    use super::*;

    #[test]
    fn key_is_created_once_with_private_mode() {
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
    fn put_files_are_private() {
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
    fn error_names_the_unwritable_directory() {
        let error = handle_key(Path::new("/proc/none")).err().expect("nobody can write there");
        assert!(error.to_string().starts_with("cannot make the directory /proc/none: "));
    }
}
