//! The list of removals that wait for an iod, in the state directory.

use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use leasehold_fs::{Answer, FsError};
use leasehold_shell::records::Records;
use leasehold_store_striped::{Kept, Ledger, Removal, Striped, UnknownRecord};

/// The file of a volume's list, before the number of the volume.
const NAME: &str = "removals-";

/// A file of records.
struct File(Records);

impl Ledger for File {
    fn append(&self, records: Vec<Vec<u8>>, stable: bool) -> Answer<'_, Result<(), FsError>> {
        let stored = self.0.append(records, stable);
        match stable {
            true => Answer::later(async move { stored.await.map_err(|_| FsError::Io) }),
            false => Answer::now(Ok(())),
        }
    }
}

/// Has a volume keep its list of removals in a state directory. A list that cannot be had costs no
/// service: the objects are then found by a search of all names.
pub(crate) fn keep(striped: &Striped, state: &Path, sync: bool) {
    let path = state.join(format!("{NAME}{:016x}", striped.options().volume));
    match open(&path, sync) {
        Ok((file, kept)) => striped.keep_removals(Arc::new(file), kept),
        Err(error) => {
            tracing::warn!(
                path = %path.display(),
                %error,
                "removals that wait for an iod are not kept over a restart"
            );
            striped.set_removals_incomplete(true);
        }
    }
}

fn open(path: &Path, sync: bool) -> io::Result<(File, Kept)> {
    let mut kept = Kept::default();
    let compact = |records: Vec<Bytes>| {
        let unknown = |UnknownRecord| {
            io::Error::new(io::ErrorKind::InvalidData, "a record is of another version")
        };
        kept = Kept::read(&records).map_err(unknown)?;
        Ok(kept.waiting.iter().map(|removal: &Removal| removal.waits()).collect())
    };
    let (records, _) = Records::open(path, sync, compact)?;
    Ok((File(records), kept))
}

#[cfg(test)]
mod tests {
    use leasehold_shell::client::block_on;
    use leasehold_store_striped::ObjectName;

    use super::*;

    #[test]
    fn a_list_is_read_at_the_next_start() {
        let folder = tempfile::tempdir().expect("there is room");
        let path = folder.path().join(NAME);
        let (file, kept) = open(&path, true).expect("the folder can be written");
        assert_eq!(kept, Kept::default());
        let removal = Removal { iod: 3, object: ObjectName([7; 16]) };
        block_on(file.append(vec![removal.waits()], true)).expect("it is stored");
        drop(file);
        let (file, kept) = open(&path, true).expect("the folder can be written");
        assert_eq!(kept, Kept { waiting: vec![removal], is_complete: false });
        assert!(open(&path, true).is_err(), "one process has it");
        drop(file);
    }

    /// An older version does not rewrite what a newer one has written.
    #[test]
    fn a_list_of_another_version_is_left_as_it_is() {
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
