//! The persistent lease state of a server: its epoch, and the clients that may hold leases.
//!
//! The file `leases` has eight bytes of magic number, the epoch, and for each client its id and its
//! instance, in network byte order. The server replaces the file atomically, and the new file is on
//! stable storage before a new client receives its first lease. If the disk is full, the server
//! cannot write a second file. A start then overwrites the epoch in the existing file.

use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use leasehold_fs::Blocking;
use leasehold_serve::{Ledger, Remembered};
use rustix::fs::OFlags;

use crate::private::{self, Secrecy};
use crate::state::{self, StateError};

/// The file in the state directory.
const NAME: &str = "leases";

const MAGIC: [u8; 8] = *b"leases1\n";
const CLIENT_BYTES: usize = 24;

/// The list of clients that may hold leases, in a state directory.
pub struct LeaseLedger {
    /// The epoch of the previous start; zero at the first start.
    last_epoch: u64,
    place: Arc<Place>,
    blocking: Arc<dyn Blocking>,
}

struct Place {
    directory: PathBuf,
    epoch: u64,
    written: Mutex<Written>,
}

/// The outcome of the last write of the list.
#[derive(Debug, Default)]
struct Written {
    /// The number of the list that the file contains.
    number: u64,
    /// True if the last write failed.
    has_failed: bool,
}

impl LeaseLedger {
    /// Starts a new epoch, and returns the state of the previous epoch. The epoch is on stable
    /// storage before the server grants a lease in this epoch. The threads of `blocking` write
    /// later lists.
    ///
    /// If the server cannot write the file, it starts nevertheless, and grants no lease until it
    /// can write the file. In that case this start and the next start have the same epoch, so
    /// clients of the earlier list could not distinguish the two starts. The server must therefore
    /// wait until all their leases have ended and must not let them reclaim: the returned list
    /// contains only one client, with a random id that no real client has.
    ///
    /// # Errors
    /// The file cannot be read or is not a list of leases, or the system has no random numbers.
    pub fn open(
        directory: &Path,
        blocking: Arc<dyn Blocking>,
    ) -> Result<(Self, Remembered), StateError> {
        let failed = |task| {
            let path = directory.join(NAME);
            move |error| StateError { task, path, error }
        };
        let Remembered { epoch: before, mut list } =
            read(&directory.join(NAME)).map_err(failed("use the list of leases"))?;
        let epoch = before.saturating_add(1).max(this_hour());
        let place = Place { directory: directory.to_path_buf(), epoch, written: Mutex::default() };
        if let Err(error) = place.put(&list)
            && (list.is_empty() || place.put_epoch().is_err())
        {
            let shown = directory.display();
            let reason = "the list of clients with leases cannot be written: no client is granted \
                          leases until it can";
            tracing::error!(%error, clients = list.len(), directory = %shown, "{reason}");
            if !list.is_empty() {
                list =
                    vec![(state::random().map_err(failed("draw a random name for the list"))?, 1)];
            }
        }
        let place = Arc::new(place);
        Ok((Self { last_epoch: before, place, blocking }, Remembered { epoch, list }))
    }

    /// Returns the epoch of the previous start of the server; zero at the first start.
    #[must_use]
    pub const fn last_epoch(&self) -> u64 {
        self.last_epoch
    }
}

impl Ledger for LeaseLedger {
    fn write(&self, number: u64, list: &[([u8; 16], u64)], done: Box<dyn FnOnce(bool) + Send>) {
        let (place, list) = (Arc::clone(&self.place), list.to_vec());
        self.blocking.run(Box::new(move || {
            let mut written = place.written.lock().unwrap_or_else(PoisonError::into_inner);
            // If the file already contains a later list, this list counts as written: the later
            // list contains all clients of this list except clients that have left since.
            let is_written = number <= written.number || written.put(&place, number, &list);
            drop(written);
            done(is_written);
        }));
    }
}

impl Written {
    /// Writes a list, and returns true if the list is on stable storage. Logs the first of several
    /// consecutive failures, and the first success after failures.
    fn put(&mut self, place: &Place, number: u64, list: &[([u8; 16], u64)]) -> bool {
        let directory = place.directory.display();
        match place.put(list) {
            Ok(()) => {
                self.number = number;
                if core::mem::take(&mut self.has_failed) {
                    tracing::info!(%directory, "new clients are granted leases again");
                }
                true
            }
            Err(error) => {
                if !core::mem::replace(&mut self.has_failed, true) {
                    let reason = "the list of clients with leases cannot be written; new clients \
                                  are granted no leases until it can";
                    tracing::error!(%error, %directory, "{reason}");
                }
                false
            }
        }
    }
}

impl Place {
    fn put(&self, list: &[([u8; 16], u64)]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(MAGIC.len() + 8 + list.len() * CLIENT_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&self.epoch.to_be_bytes());
        for (client, instance) in list {
            bytes.extend_from_slice(client);
            bytes.extend_from_slice(&instance.to_be_bytes());
        }
        state::put(&self.directory, NAME, &[&bytes])
    }

    /// Writes the epoch into the existing file, which needs no space on most file systems. The disk
    /// writes the eight bytes, which are in one sector, completely or not at all.
    fn put_epoch(&self) -> io::Result<()> {
        let path = self.directory.join(NAME);
        let file = private::open(&path, OFlags::WRONLY, Secrecy::Readable)?;
        file.write_all_at(&self.epoch.to_be_bytes(), MAGIC.len() as u64)?;
        file.sync_all()
    }
}

fn read(path: &Path) -> io::Result<Remembered> {
    let bytes = match private::read(path, Secrecy::Readable) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Remembered::default()),
        Err(error) => return Err(error),
    };
    parse(&bytes).ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "is not a list of leases"))
}

fn parse(bytes: &[u8]) -> Option<Remembered> {
    let (epoch, clients) = bytes.strip_prefix(&MAGIC)?.split_first_chunk()?;
    let (clients, []) = clients.as_chunks::<CLIENT_BYTES>() else { return None };
    let client = |bytes: &[u8; CLIENT_BYTES]| {
        let (client, instance) = bytes.split_first_chunk()?;
        Some((*client, u64::from_be_bytes(instance.try_into().ok()?)))
    };
    let list = clients.iter().map(client).collect::<Option<_>>()?;
    Some(Remembered { epoch: u64::from_be_bytes(*epoch), list })
}

/// Returns the number of hours since 1970, which is the minimum for a new epoch. After a loss of
/// the state directory the new epoch is therefore greater than earlier epochs, and clients detect
/// that their epoch has ended.
fn this_hour() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / 3600)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc;

    use leasehold_fs::Inline;

    use super::*;

    fn open(directory: &Path) -> (LeaseLedger, Remembered) {
        LeaseLedger::open(directory, Arc::new(Inline)).expect("it can be written")
    }

    #[test]
    fn start_increases_the_epoch_and_keeps_the_list() {
        let home = tempfile::tempdir().expect("a directory for the test");
        let (ledger, first) = open(home.path());
        assert_eq!(first.list, []);
        let (told, done) = mpsc::channel();
        let list = [([1; 16], 7), ([2; 16], u64::MAX)];
        ledger.write(1, &list, Box::new(move |_| told.send(()).expect("it is waited for")));
        done.try_recv().expect("it is written");
        // A list that is written after a later list does not replace the later list, and still
        // counts as written.
        ledger.write(3, &list, Box::new(|_| ()));
        ledger.write(2, &[], Box::new(|is_written| assert!(is_written)));
        let (_, second) = open(home.path());
        assert!(second.epoch > first.epoch && second.list == list);
        let (_, third) = open(home.path());
        assert_eq!((third.epoch, third.list), (second.epoch + 1, list.to_vec()));
    }

    #[test]
    fn a_failed_write_of_the_list_is_answered_and_may_be_repeated() {
        let home = tempfile::tempdir().expect("a directory for the test");
        let away = home.path().join("away");
        let (ledger, _) = open(&away);
        let write = |number| {
            let (told, done) = mpsc::channel();
            let tell = move |is_written| told.send(is_written).expect("the test waits");
            ledger.write(number, &[([1; 16], 7)], Box::new(tell));
            done.try_recv().expect("each write is answered")
        };
        assert!(!write(1), "the directory is missing");
        assert!(!write(2), "the directory is still missing");
        fs::create_dir(&away).expect("the directory can be made");
        assert!(write(3), "the directory is there");
        assert_eq!(open(&away).1.list, [([1; 16], 7)]);
    }

    /// On a full disk the server cannot write a second file.
    #[test]
    fn epoch_is_overwritten_in_place() {
        let home = tempfile::tempdir().expect("a directory for the test");
        let (ledger, first) = open(home.path());
        let list = [([1; 16], 7)];
        ledger.write(1, &list, Box::new(|is_written| assert!(is_written)));
        let (directory, epoch) = (home.path().to_path_buf(), first.epoch + 1);
        let place = Place { directory, epoch, written: Mutex::default() };
        place.put_epoch().expect("the file is there");
        let read = read(&home.path().join(NAME)).expect("it is a list");
        assert_eq!((read.epoch, read.list), (first.epoch + 1, list.to_vec()));
    }

    #[test]
    fn damaged_list_is_not_an_empty_list() {
        let home = tempfile::tempdir().expect("a directory for the test");
        drop(open(home.path()));
        let path = home.path().join(NAME);
        let whole = fs::read(&path).expect("it is there");
        for damaged in [&whole[..15], &[&whole[..], &[0]].concat(), b"LEASES1\n12345678"] {
            fs::write(&path, damaged).expect("it can be written");
            let opened = LeaseLedger::open(home.path(), Arc::new(Inline));
            let error = opened.err().expect("it is no list");
            assert_eq!(error.error.kind(), ErrorKind::InvalidData);
        }
    }
}
