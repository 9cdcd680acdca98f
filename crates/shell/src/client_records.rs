//! The client records of version 4 in a state directory.
//!
//! The file `clients` contains the stored form that `leasehold_serve::ClientRecords` describes. The
//! server replaces the file atomically, and the new file is on stable storage before a new client
//! opens its first file. An earlier version of the server ignores the file.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use leasehold_fs::Blocking;
use leasehold_serve::{ClientLedger, ClientRecords};

use crate::private::{self, Secrecy};
use crate::state::{self, StateError};

/// The file in the state directory.
const NAME: &str = "clients";

/// The client records of version 4 in a state directory.
pub struct StableClients {
    place: Arc<Place>,
    blocking: Arc<dyn Blocking>,
}

struct Place {
    directory: PathBuf,
    written: Mutex<Written>,
}

/// The outcome of the last write.
#[derive(Debug, Default)]
struct Written {
    /// The number of the records that the file contains.
    number: u64,
    /// True if the last write failed.
    has_failed: bool,
}

impl StableClients {
    /// Reads the records, and stores them for the run that now starts with this epoch. `last` is the
    /// epoch of the last run. The threads of `blocking` write later records.
    ///
    /// If the file cannot be written, the server starts nevertheless: the clients of the records may
    /// reclaim their state after this start, and not after the next one.
    ///
    /// # Errors
    /// The file cannot be read, or does not contain client records of this version.
    pub fn open(
        directory: &Path,
        blocking: Arc<dyn Blocking>,
        (last, epoch): (u64, u64),
    ) -> Result<(Self, ClientRecords), StateError> {
        let records = read(&directory.join(NAME)).map_err(|error| StateError {
            task: "use the client records of version 4 in",
            path: directory.join(NAME),
            error,
        })?;
        let records = records.begin_run(last, epoch);
        let place = Place { directory: directory.to_path_buf(), written: Mutex::default() };
        Written::default().put(&place, 0, &records.to_stored());
        Ok((Self { place: Arc::new(place), blocking }, records))
    }
}

impl ClientLedger for StableClients {
    fn write(&self, number: u64, stored: Vec<u8>, done: Box<dyn FnOnce(bool) + Send>) {
        let place = Arc::clone(&self.place);
        self.blocking.run(Box::new(move || {
            let mut written = place.written.lock().unwrap_or_else(PoisonError::into_inner);
            // Later records in the file contain these records, except of clients that have left.
            let is_written = number <= written.number || written.put(&place, number, &stored);
            drop(written);
            done(is_written);
        }));
    }
}

impl Written {
    /// Writes the records, and returns true if they are on stable storage. Logs the first of several
    /// consecutive failures, and the first success after failures.
    fn put(&mut self, place: &Place, number: u64, stored: &[u8]) -> bool {
        let directory = place.directory.display();
        match state::put(&place.directory, NAME, &[stored]) {
            Ok(()) => {
                self.number = number;
                if core::mem::take(&mut self.has_failed) {
                    tracing::info!(%directory, "new clients of version 4 can open files again");
                }
                true
            }
            Err(error) => {
                if !core::mem::replace(&mut self.has_failed, true) {
                    let reason = "the client records of version 4 cannot be written; new clients \
                                  cannot open files until they can";
                    tracing::error!(%error, %directory, "{reason}");
                }
                false
            }
        }
    }
}

fn read(path: &Path) -> io::Result<ClientRecords> {
    let bytes = match private::read(path, Secrecy::Readable) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(ClientRecords::default()),
        Err(error) => return Err(error),
    };
    ClientRecords::parse(&bytes).map_err(|_| {
        let text = "is damaged, or belongs to a later version of the server";
        io::Error::new(ErrorKind::InvalidData, text)
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::hash::Hasher as _;
    use std::sync::mpsc;

    use leasehold_fs::Inline;
    use siphasher::sip::SipHasher13;

    use super::*;

    fn open(directory: &Path, last: u64) -> (StableClients, ClientRecords) {
        let opened = StableClients::open(directory, Arc::new(Inline), (last, last + 1));
        opened.expect("the records are readable")
    }

    /// The stored form of one client, "host", of epoch 5.
    fn stored() -> Vec<u8> {
        let body = b"clients1\0\0\0\0\0\0\0\x05\0\0\0\x01\
                     \0\0\0\x04host\0\0\0\0\0\0\0\x01\0\0\0\0";
        let mut hasher = SipHasher13::new();
        hasher.write(body);
        [&body[..], &hasher.finish().to_be_bytes()].concat()
    }

    fn write(clients: &StableClients, number: u64, stored: Vec<u8>) -> bool {
        let (told, done) = mpsc::channel();
        let tell = move |is_written| told.send(is_written).expect("the test waits");
        clients.write(number, stored, Box::new(tell));
        done.try_recv().expect("each write is answered")
    }

    #[test]
    fn records_survive_a_restart() {
        let home = tempfile::tempdir().expect("a directory for the test");
        let (clients, first) = open(home.path(), 4);
        assert!(first.is_empty(), "a directory without the file is valid");
        assert!(write(&clients, 2, stored()));
        // Earlier records do not replace later ones, and count as written.
        assert!(write(&clients, 1, Vec::new()));
        let (_, second) = open(home.path(), 5);
        assert_eq!((second.epoch(), second.len()), (6, 1));
        // The start itself stores the records for the new run.
        let (_, third) = open(home.path(), 6);
        assert_eq!((third.epoch(), third.len()), (7, 1));
    }

    /// A server of an earlier version, which ignores the file, begins an epoch of its own.
    #[test]
    fn records_before_a_run_of_an_earlier_version_are_void() {
        let home = tempfile::tempdir().expect("a directory for the test");
        let (clients, _) = open(home.path(), 4);
        assert!(write(&clients, 1, stored()));
        let (_, after) = open(home.path(), 6);
        assert_eq!((after.epoch(), after.len()), (7, 0));
    }

    #[test]
    fn a_failed_write_is_answered_and_may_be_repeated() {
        let home = tempfile::tempdir().expect("a directory for the test");
        let away = home.path().join("away");
        let (clients, _) = open(&away, 4);
        assert!(!write(&clients, 1, stored()), "the directory is missing");
        fs::create_dir(&away).expect("the directory can be made");
        assert!(write(&clients, 2, stored()), "the directory is there");
        assert_eq!(open(&away, 5).1.len(), 1);
    }

    #[test]
    fn damaged_records_prevent_a_start() {
        let home = tempfile::tempdir().expect("a directory for the test");
        let path = home.path().join(NAME);
        let whole = stored();
        for damaged in [&whole[..0], &whole[..20], &[&whole[..], &[0]].concat()] {
            fs::write(&path, damaged).expect("the file can be written");
            let error = StableClients::open(home.path(), Arc::new(Inline), (4, 5)).err();
            let error = error.expect("the file has no valid records");
            assert_eq!(error.error.kind(), ErrorKind::InvalidData);
        }
    }
}
