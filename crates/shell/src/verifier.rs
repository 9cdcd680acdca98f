//! The write verifier that a stopped server leaves to the next server.
//!
//! A server leaves its verifier only when all data that it has ever reported as written is on
//! stable storage. The next server removes the verifier from the directory before it answers any
//! call, and the removal is on stable storage as well. If that server ends without leaving the
//! verifier again, no later server uses it. Thus a verifier never survives a loss of data, and
//! clients do not rewrite data that a clean stop has saved.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _};
use std::path::Path;

use rustix::fs::OFlags;

use crate::own;
use crate::private::{self, Secrecy};
use crate::state::{self, StateError};

/// The file in the state directory.
const NAME: &str = "verifier";

/// Removes and returns the verifier that the last server left in a state directory, if there is
/// one.
///
/// # Errors
/// The verifier cannot be removed or is invalid. No later start uses this verifier either, unless
/// the file could not be renamed.
pub fn take_verifier(directory: &Path) -> Result<Option<[u8; 8]>, StateError> {
    let path = directory.join(NAME);
    taken(directory, &path).map_err(|error| StateError {
        task: "take over the write verifier",
        path,
        error,
    })
}

/// Leaves a verifier for the next server. The verifier is on stable storage when this function
/// returns.
///
/// # Errors
/// The file cannot be written.
pub fn leave_verifier(directory: &Path, verifier: [u8; 8]) -> Result<(), StateError> {
    state::put(directory, NAME, &[&verifier]).map_err(|error| StateError {
        task: "leave the write verifier",
        path: directory.join(NAME),
        error,
    })
}

fn taken(directory: &Path, path: &Path) -> io::Result<Option<[u8; 8]>> {
    own::must_be_own();
    // The rename decides which server uses the verifier: if two servers start at once, only one of
    // them can rename the file.
    let own = state::own_name(directory, NAME)?;
    match fs::rename(path, &own) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        result => result?,
    }
    let mut found = Vec::new();
    let file = private::open(&own, OFlags::RDONLY, Secrecy::Readable);
    let read = file.and_then(|file| file.take(9).read_to_end(&mut found));
    fs::remove_file(&own)?;
    File::open(directory)?.sync_all()?;
    read?;
    let damaged = || io::Error::new(ErrorKind::InvalidData, "is not a verifier of 8 bytes");
    found.try_into().map(Some).map_err(|_| damaged())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::Arc;
    use std::thread;

    use super::*;

    fn is_empty(directory: &Path) -> bool {
        fs::read_dir(directory).expect("it can be listed").next().is_none()
    }

    #[test]
    fn only_one_server_receives_the_verifier() {
        let home = Arc::new(tempfile::tempdir().expect("a directory for the test"));
        assert!(matches!(take_verifier(home.path()), Ok(None)));
        leave_verifier(home.path(), *b"no more.").expect("it can be written");
        leave_verifier(home.path(), *b"the last").expect("it can be written");
        let mode = fs::metadata(home.path().join(NAME)).expect("is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let starters: Vec<_> = (0..8)
            .map(|_| {
                let home = Arc::clone(&home);
                thread::spawn(move || take_verifier(home.path()).expect("it can be taken"))
            })
            .collect();
        let taken = starters.into_iter().filter_map(|one| one.join().expect("did not panic"));
        assert_eq!(taken.collect::<Vec<_>>(), [*b"the last"]);
        assert!(is_empty(home.path()));
    }

    #[test]
    fn invalid_verifier_is_removed() {
        let home = tempfile::tempdir().expect("a directory for the test");
        for bytes in [&b""[..], b"7 bytes", b"too long.", &[0; 100_000]] {
            fs::write(home.path().join(NAME), bytes).expect("it can be written");
            let error = take_verifier(home.path()).expect_err("it is none");
            assert!(error.to_string().ends_with("is not a verifier of 8 bytes"), "{error}");
            assert!(is_empty(home.path()));
        }
    }

    #[test]
    fn error_names_the_unwritable_directory() {
        let error = leave_verifier(Path::new("/proc"), [0; 8]).expect_err("nobody writes there");
        assert!(error.to_string().starts_with("cannot leave the write verifier /proc/verifier: "));
        assert!(matches!(take_verifier(Path::new("/proc")), Ok(None)));
    }
}
