//! The list of pending removals, stored in the state directory: removals of stripe objects at iods
//! that were unreachable. The list and the directory of names both contain the volume identity (the
//! "stamp"), so that a start detects if the directory is a copy or a backup.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use leasehold_fs::{FsError, MaybeReady};
use leasehold_shell::client::block_on;
use leasehold_shell::records::Records;
use leasehold_shell::state as shell_state;
use leasehold_store_striped::{Kept, Ledger, Stamp, Striped, UnknownRecord};
use rustix::fs::{XattrFlags, getxattr, setxattr};
use rustix::io::Errno;

/// The prefix of the name of the file with a volume's list; the number of the volume follows.
const NAME: &str = "removals-";

/// The extended attribute of the directory of names that contains the volume identity.
const STAMP: &str = "user.leasehold.stamp";

/// The value of the attribute after `leasehold cluster repair` has removed stripe objects while no
/// metaserver served the directory. The next start then considers the directory complete.
const REPAIRED: &[u8] = b"repaired";

/// The file with the list of pending removals.
struct File(Records);

impl Ledger for File {
    fn append(&self, records: Vec<Vec<u8>>, stable: bool) -> MaybeReady<'_, Result<(), FsError>> {
        let stored = self.0.append(records, stable);
        match stable {
            true => MaybeReady::later(async move { stored.await.map_err(|_| FsError::Io) }),
            false => MaybeReady::now(Ok(())),
        }
    }
}

/// Makes a volume store its list of pending removals in a state directory. If the list cannot be
/// stored, the volume still serves: a search of all names then finds the stripe objects.
pub fn keep(striped: &Striped, names: &Path, state: &Path, sync: bool) {
    let path = state.join(format!("{NAME}{:016x}", striped.options().volume));
    // The names count as incomplete until the check below shows that the names and the list have
    // the same volume identity.
    striped.doubt_names(true);
    let kept = match open(&path, sync) {
        Ok((file, kept)) => {
            striped.keep_removals(Arc::new(file), kept.clone());
            kept
        }
        Err(error) => {
            tracing::warn!(
                path = %path.display(),
                %error,
                "a restart loses the list of removals that wait for an iod"
            );
            striped.set_removals_incomplete(true);
            return;
        }
    };
    let directory = names.display();
    match are_of_ledger(names, kept.stamp) {
        Ok(true) => {
            // The names belong to this list, so trust them. If the new volume identity cannot be
            // written, for example on a full disk, the names and the list still have the same old
            // identity.
            striped.doubt_names(false);
            if let Err(error) = trust(striped, names) {
                tracing::warn!(%directory, %error,
                    "cannot renew the identity of the volume in the names");
            }
        }
        Ok(false) => tracing::debug!(%directory, "the names do not belong to this state directory"),
        Err(error) => {
            tracing::debug!(%directory, %error,
                "cannot write the identity of the volume into the names");
        }
    }
}

/// Returns true if the list belongs to this directory of names: the last start with this state
/// directory used this directory, or no file was ever created in it, or an administrator declared
/// it complete.
fn are_of_ledger(names: &Path, kept: Option<Stamp>) -> io::Result<bool> {
    let mut found = [0; size_of::<Stamp>()];
    match (getxattr(names, STAMP, &mut found[..]), kept) {
        (Ok(length), _) if &found[..length] == REPAIRED => Ok(true),
        (Ok(length), Some(kept)) => Ok(found[..length] == kept),
        (Err(Errno::NODATA), None) => Ok(fs::read_dir(names)?.next().is_none()),
        (Ok(_) | Err(Errno::NODATA | Errno::RANGE), _) => Ok(false),
        (Err(errno), _) => Err(errno.into()),
    }
}

/// Declares a directory of names complete: stores a new volume identity in the directory and in the
/// list of pending removals.
///
/// # Errors
/// The identity cannot be stored. The names stay suspected of being incomplete, and may also be
/// suspected at the next start.
pub(crate) fn trust(striped: &Striped, names: &Path) -> io::Result<()> {
    let stamp: Stamp = shell_state::random()?;
    block_on(striped.stamp_removals(&stamp)).map_err(|_| io::Error::other("no ledger"))?;
    mark(names, &stamp)?;
    striped.doubt_names(false);
    Ok(())
}

/// Marks a directory of names, so that the next start considers it complete.
///
/// # Errors
/// The directory cannot be marked.
pub(crate) fn mark_repaired(names: &Path) -> io::Result<()> {
    mark(names, REPAIRED)
}

fn mark(names: &Path, value: &[u8]) -> io::Result<()> {
    setxattr(names, STAMP, value, XattrFlags::empty())?;
    fs::File::open(names)?.sync_all()
}

fn open(path: &Path, sync: bool) -> io::Result<(File, Kept)> {
    let mut kept = Kept::default();
    let compact = |records: Vec<Bytes>| {
        let unknown = |UnknownRecord| {
            io::Error::new(io::ErrorKind::InvalidData, "a record has another version")
        };
        kept = Kept::read(&records).map_err(unknown)?;
        Ok(kept.records())
    };
    let (records, _) = Records::open(path, sync, Some(Kept::ENDED), compact)?;
    Ok((File(records), kept))
}

#[cfg(test)]
mod tests {
    use leasehold_store_striped::{ObjectName, Removal};

    use super::*;

    #[test]
    fn list_is_read_at_next_start() {
        let folder = tempfile::tempdir().expect("there is room");
        let path = folder.path().join(NAME);
        let (file, kept) = open(&path, true).expect("the folder can be written");
        assert_eq!(kept, Kept::default());
        let removal = Removal { iod: 3, object: ObjectName([7; 16]) };
        block_on(file.append(vec![removal.waits()], true)).expect("it is stored");
        drop(file);
        let (file, kept) = open(&path, true).expect("the folder can be written");
        assert_eq!(kept, Kept { waiting: vec![removal], ..Kept::default() });
        assert!(open(&path, true).is_err(), "one process has locked it");
        drop(file);
    }

    #[test]
    fn names_belong_to_ledger_with_equal_stamp() {
        let folder = tempfile::tempdir().expect("there is room");
        let names = folder.path();
        let (one, two) = ([1; 16], [2; 16]);
        let are_of = |kept| are_of_ledger(names, kept).expect("there are attributes");
        assert!(are_of(None), "no file was ever made");
        assert!(!are_of(Some(one)), "the directory is another");
        fs::write(names.join("file"), "").expect("there is room");
        assert!(!are_of(None), "the ledger is new");
        mark(names, &one).expect("there are attributes");
        assert!(are_of(Some(one)));
        assert!(!are_of(Some(two)), "the names are of an earlier start");
        assert!(!are_of(None), "another metaserver has a copy of the names");
        mark_repaired(names).expect("there are attributes");
        assert!(are_of(Some(two)) && are_of(None));
    }

    /// An older version must not rewrite the list of a newer version.
    #[test]
    fn list_of_another_version_is_unchanged() {
        let folder = tempfile::tempdir().expect("there is room");
        let path = folder.path().join(NAME);
        let (file, _) = open(&path, true).expect("the folder can be written");
        block_on(file.append(vec![b"of another version".to_vec()], true)).expect("it is stored");
        drop(file);
        let before = std::fs::read(&path).expect("the file is there");
        assert!(open(&path, true).is_err());
        assert_eq!(std::fs::read(&path).expect("the file is there"), before);
    }
}
