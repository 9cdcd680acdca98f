//! The lock of a state directory: one server at a time keeps its state there.
//!
//! Two servers with one state directory would use the same epoch of leases, and each server would
//! replace the other server's list of lease holders. The lock is on the file `lock`, and the kernel
//! releases it at any end of the process. The file contains a text that describes the server. The
//! text is for people, and no decision depends on the text.
//!
//! A server that continues as another program leaves the locked file open for the next program and
//! passes the descriptor number in an environment variable, so that the lock is never released and
//! no other server can take the directory.

use std::env;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Seek as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use leasehold_base::limits::durations::STATE_LOCK_TIMEOUT;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::{Errno, FdFlags};

use crate::private::{self, Secrecy};
use crate::state::StateError;
use crate::sys;

/// The file in the state directory.
const NAME: &str = "lock";

/// The variable that passes the descriptor of the lock to the next program in the process:
/// `PID:NUMBER`.
pub(crate) const HANDED_OVER: &str = "LEASEHOLD_STATE_LOCK";

/// The maximum length of the text in the lock file, in bytes, which exceeds any real text.
const WORDS_BYTES_MAX: u64 = 16 << 10;

/// The exclusive use of a state directory: no other server uses the directory while the lock
/// exists.
#[derive(Debug)]
pub struct Ownership {
    file: File,
    directory: PathBuf,
}

/// The inherited lock of a process that continues as another program.
#[derive(Debug, Default)]
pub struct GivenLock(Option<OwnedFd>);

impl GivenLock {
    /// Takes the inherited lock. A program calls this function once, before it opens any file.
    #[must_use]
    pub fn take() -> Self {
        let text = env::var(HANDED_OVER).unwrap_or_default();
        let number = text.split_once(':').filter(|(pid, _)| pid.parse() == Ok(process::id()));
        let number = number.and_then(|(_, number)| number.parse().ok());
        let file = number.and_then(|number| sys::inherited(number).ok());
        Self(file.filter(|file| rustix::io::fcntl_setfd(file, FdFlags::CLOEXEC).is_ok()))
    }
}

impl Ownership {
    /// Takes a state directory for this process alone, and creates it if it does not exist.
    /// `served` describes the server, for the error message of another process that tries to use
    /// the directory.
    ///
    /// # Errors
    /// Another server uses the directory, another user could have written the directory, or this
    /// process cannot create or lock the directory.
    pub fn take(directory: &Path, given: GivenLock, served: &str) -> Result<Self, StateError> {
        let failed = |task, path: &Path| {
            let path = path.to_path_buf();
            move |error| StateError { task, path, error }
        };
        private::directory(directory).map_err(failed("use the state directory", directory))?;
        let path = directory.join(NAME);
        let file = open(&path).map_err(failed("open the lock of the state", &path))?;
        let file = match given.0.map(File::from).filter(|given| is_same(given, &file)) {
            Some(given) => given,
            None => {
                lock(&file, owner).map_err(failed("use the state directory", directory))?;
                file
            }
        };
        let owned = Self { file, directory: directory.to_path_buf() };
        // On a full or read-only disk the text cannot be written. The lock works without the text,
        // so the server continues.
        if let Err(error) = owned.say(served) {
            tracing::warn!(%error, "cannot write this server's description into the state lock");
        }
        Ok(owned)
    }

    /// Returns the state directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Leaves the lock to the next program in this process; returns the environment variable that
    /// passes it.
    ///
    /// # Errors
    /// The kernel does not keep the descriptor open.
    pub fn hand_over(&self) -> io::Result<(&'static str, String)> {
        rustix::io::fcntl_setfd(&self.file, FdFlags::empty())?;
        Ok((HANDED_OVER, format!("{}:{}", process::id(), self.file.as_raw_fd())))
    }

    fn say(&self, served: &str) -> io::Result<()> {
        let mut file = &self.file;
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(format!("{}\n{served}\n", process::id()).as_bytes())
    }
}

/// Opens the lock file, and creates it if it does not exist. On a read-only file system the
/// function opens an existing file for reading, which is enough for a lock. A server can then still
/// export files for reading.
fn open(path: &Path) -> io::Result<File> {
    match private::open(path, OFlags::RDWR | OFlags::CREATE, Secrecy::Readable) {
        Err(error) if error.kind() == ErrorKind::ReadOnlyFilesystem => {
            private::open(path, OFlags::RDONLY, Secrecy::Readable).map_err(|_| error)
        }
        opened => opened,
    }
}

/// Returns true if two open files are the same file.
fn is_same(one: &File, other: &File) -> bool {
    let number = |file: &File| file.metadata().ok().map(|seen| (seen.dev(), seen.ino()));
    number(one).is_some_and(|one| number(other) == Some(one))
}

/// Locks a file until the end of the process, at which the kernel releases the lock. A killed
/// server may keep the lock for another second.
///
/// # Errors
/// [`ErrorKind::WouldBlock`] with the text of `refusal` if another process has the lock.
pub fn lock(file: &File, refusal: impl FnOnce(&File) -> String) -> io::Result<()> {
    let end = Instant::now() + STATE_LOCK_TIMEOUT;
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) if Instant::now() < end => {
                thread::sleep(Duration::from_millis(10));
            }
            Err(Errno::WOULDBLOCK) => {
                return Err(io::Error::new(ErrorKind::WouldBlock, refusal(file)));
            }
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Describes the server that has the lock, by the text in the file.
fn owner(mut file: &File) -> String {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| file.take(WORDS_BYTES_MAX).read_to_string(&mut text));
    let words = read.is_ok().then(|| text.trim_end().split_once('\n')).flatten();
    match words {
        Some((pid, served)) => {
            format!("the server with the pid {pid} has it and serves {}", served.escape_debug())
        }
        None => "another server has it".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn take(directory: &Path, served: &str) -> Result<Ownership, StateError> {
        Ownership::take(directory, GivenLock::default(), served)
    }

    #[test]
    fn second_owner_receives_the_description_of_the_first() {
        let home = tempfile::tempdir().expect("a directory for the test");
        let state = home.path().join("some/where");
        let first = take(&state, "/srv/a").expect("nobody has it");
        let refused = take(&state, "/srv/b").expect_err("the first has it").to_string();
        let pid = process::id().to_string();
        for word in [state.to_str().expect("is text"), &pid, "/srv/a"] {
            assert!(refused.contains(word), "{word}: {refused}");
        }
        drop(first);
        take(&state, "/srv/b").expect("the lock is free again");
    }

    #[test]
    fn handed_over_lock_is_never_free() {
        let home = tempfile::tempdir().expect("a directory for the test");
        let first = take(home.path(), "/srv/a").expect("nobody has it");
        let (name, word) = first.hand_over().expect("it stays open");
        assert_eq!(name, HANDED_OVER);
        assert_eq!(word, format!("{}:{}", process::id(), first.file.as_raw_fd()));
        // The next program in the process inherits the same open file, and therefore the lock.
        let given = GivenLock(Some(first.file.try_clone().expect("there is room").into()));
        let next = Ownership::take(home.path(), given, "/srv/a").expect("it is its own");
        drop(first);
        take(home.path(), "/srv/b").expect_err("the next has it");
        drop(next);
        // An inherited lock of another directory does not count as the lock of this directory.
        let other = tempfile::tempdir().expect("a directory for the test");
        let stranger = take(other.path(), "/srv/c").expect("nobody has it");
        let owner = take(home.path(), "/srv/a").expect("nobody has it");
        let given = GivenLock(Some(stranger.file.try_clone().expect("there is room").into()));
        Ownership::take(home.path(), given, "/srv/b").expect_err("the owner has it");
        drop(owner);
    }

    #[test]
    fn owner_description_cannot_contain_line_breaks() {
        let home = tempfile::tempdir().expect("a directory for the test");
        let _first = take(home.path(), "/srv/a\u{1b}[2J\nb").expect("nobody has it");
        let refused = take(home.path(), "/srv/b").expect_err("the first has it").to_string();
        assert!(!refused.contains(['\n', '\u{1b}']), "{refused:?}");
    }

    #[test]
    fn symbolic_link_as_lock_is_refused() {
        let home = tempfile::tempdir().expect("a directory for the test");
        let victim = home.path().join("victim");
        fs::write(&victim, "kept").expect("there is room");
        let state = home.path().join("state");
        fs::create_dir(&state).expect("there is room");
        std::os::unix::fs::symlink(&victim, state.join(NAME)).expect("there is room");
        take(&state, "/srv/a").expect_err("it is a link");
        assert_eq!(fs::read(&victim).expect("it is there"), b"kept");
    }
}
