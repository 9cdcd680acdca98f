//! A file of records: added in order, on stable storage before that is said, and read at a start.
//!
//! Criteria in order of weight:
//! - A record that was said to be stored is read by every later start, and so are all before it.
//! - What was not written whole ends the file: it was said to nobody. A checksum covers each record
//!   with the place where it stands.
//! - Who comes while others are written shares the next sync.
//! - The file is rewritten at a start with what still counts, whole or not at all.
//!
//! It is a line that says what it is, and records: the length (4), the checksum (8), the bytes.

use std::fs::{self, File, OpenOptions};
use std::hash::Hasher as _;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_channel::oneshot;
use rustix::fs::{FlockOperation, OFlags, flock};
use siphasher::sip::SipHasher13;

use crate::own;
use crate::private;

/// The first line of such a file, with the version of its format.
pub const MAGIC: &[u8] = b"leasehold records 1\n";

const HEAD_BYTES: usize = 12;

/// How long a record waits that nobody waits for.
const SOON: Duration = Duration::from_millis(100);

/// A file of records that is open for more.
pub struct Records {
    /// None at the end.
    sender: Option<Sender<Added>>,
    writing: Option<JoinHandle<()>>,
    /// Kept locked.
    _lock: File,
}

struct Added {
    records: Vec<Vec<u8>>,
    /// True where a caller waits.
    now: bool,
    stored: oneshot::Sender<()>,
}

impl Records {
    /// Opens a file, made where there is none, and gives what is in it after `compact` has made it
    /// less. Without `sync` what is added counts as stored as soon as the kernel has it.
    ///
    /// # Errors
    /// When it cannot be had, another process has it, or it is no such file.
    pub fn open(
        path: &Path,
        sync: bool,
        compact: impl FnOnce(Vec<Bytes>) -> io::Result<Vec<Vec<u8>>>,
    ) -> io::Result<(Self, Vec<Bytes>)> {
        own::must_be_own();
        let flags = OFlags::WRONLY | OFlags::CREATE;
        let lock = private::open_beside(&path.with_extension("lock"), flags)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| io::Error::new(ErrorKind::AddrInUse, "another process has it"))?;
        let found = match private::open_beside(path, OFlags::RDONLY) {
            Ok(mut file) => {
                let mut bytes = Vec::new();
                file.read_to_end(&mut bytes)?;
                read(&bytes.into())?
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let compacted = compact(found)?;
        let file = rewrite(path, &compacted)?;
        let position = file.metadata()?.len();
        let (sender, receiver) = mpsc::channel::<Added>();
        let writer = Writer { file, position, sync };
        let writing = Some(own::spawn("records", move || writer.run(&receiver))?);
        let records = compacted.into_iter().map(Bytes::from).collect();
        Ok((Self { sender: Some(sender), writing, _lock: lock }, records))
    }

    /// Adds records behind all that were added before; `now` where somebody waits for it. It is
    /// told when they are stored, and never if they cannot be.
    pub fn append(&self, records: Vec<Vec<u8>>, now: bool) -> oneshot::Receiver<()> {
        let (stored, receiver) = oneshot::channel();
        // When the thread has ended, for a disk that failed, nobody is told.
        if let Some(sender) = &self.sender {
            drop(sender.send(Added { records, now, stored }));
        }
        receiver
    }
}

impl Drop for Records {
    /// Writes all added records before another process can have the file.
    fn drop(&mut self) {
        self.sender = None;
        if let Some(writing) = self.writing.take() {
            drop(writing.join());
        }
    }
}

struct Writer {
    file: File,
    position: u64,
    sync: bool,
}

impl Writer {
    fn run(mut self, receiver: &mpsc::Receiver<Added>) {
        while let Ok(first) = receiver.recv() {
            let until = Instant::now() + SOON;
            let mut batch = vec![first];
            while !batch.iter().any(|added| added.now) {
                match receiver.recv_timeout(until.saturating_duration_since(Instant::now())) {
                    Ok(added) => batch.push(added),
                    Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
                }
            }
            batch.extend(receiver.try_iter());
            if let Err(error) = self.write(&batch) {
                tracing::error!(%error, "records cannot be stored, and are refused from now on");
                return;
            }
            // The caller may have gone.
            batch.into_iter().for_each(|added| {
                let _ = added.stored.send(());
            });
        }
    }

    fn write(&mut self, batch: &[Added]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for record in batch.iter().flat_map(|added| &added.records) {
            let at = self.position + bytes.len() as u64;
            frame(at, record, &mut bytes);
        }
        self.file.write_all(&bytes)?;
        self.position += bytes.len() as u64;
        if self.sync { self.file.sync_data() } else { Ok(()) }
    }
}

fn frame(at: u64, record: &[u8], to: &mut Vec<u8>) {
    let length = u32::try_from(record.len()).expect("a record is small");
    to.extend(length.to_be_bytes());
    to.extend(checksum(at, record).to_be_bytes());
    to.extend(record);
}

fn checksum(at: u64, record: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write_u64(at);
    hasher.write(record);
    hasher.finish()
}

/// The records of a file, up to the first that is not whole.
fn read(file: &Bytes) -> io::Result<Vec<Bytes>> {
    if !file.starts_with(MAGIC) {
        return Err(io::Error::new(ErrorKind::InvalidData, "it holds no metadata of ours"));
    }
    let mut at = MAGIC.len();
    let mut records = Vec::new();
    while let Some(head) = file.get(at..at + HEAD_BYTES) {
        let (length, told) = head.split_at(4);
        let length = u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
        let start = at + HEAD_BYTES;
        let Some(record) = file.get(start..start + length) else { break };
        if checksum(at as u64, record).to_be_bytes() != told {
            break;
        }
        records.push(file.slice(start..start + length));
        at = start + length;
    }
    Ok(records)
}

/// Puts a new file in place of the old one, and gives it, at its end.
fn rewrite(path: &Path, records: &[Vec<u8>]) -> io::Result<File> {
    let new: PathBuf = path.with_extension("new");
    // A start that was cut off may have left such a file; the removal follows no link in its place.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    let mut bytes = MAGIC.to_vec();
    for record in records {
        frame(bytes.len() as u64, record, &mut bytes);
    }
    file.write_all(&bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use futures_executor::block_on;

    use super::*;

    fn open(path: &Path) -> (Records, Vec<Bytes>) {
        let same = |found: Vec<Bytes>| Ok(found.iter().map(|one| one.to_vec()).collect());
        Records::open(path, true, same).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn what_was_stored_is_read() {
        let folder = tempfile::tempdir().expect("there is room");
        let path = folder.path().join("names");
        let (records, found) = open(&path);
        assert!(found.is_empty());
        block_on(records.append(vec![b"one".to_vec(), Vec::new()], true)).expect("it is stored");
        block_on(records.append(vec![b"three".to_vec()], false)).expect("it is stored");
        let taken = Records::open(&path, true, |_| Ok(Vec::new()));
        assert!(taken.is_err(), "one process has it");
        drop(records);
        let (records, found) = open(&path);
        assert_eq!(found, [&b"one"[..], b"", b"three"]);
        drop(records);
        let last = fs::metadata(&path).expect("it is there").len() - 1;
        OpenOptions::new()
            .write(true)
            .open(&path)
            .and_then(|file| file.set_len(last))
            .expect("cut");
        let (records, found) = open(&path);
        assert_eq!(found, [&b"one"[..], b""], "what is not whole was said to nobody");
        block_on(records.append(vec![b"four".to_vec()], true)).expect("it is stored");
        drop(records);
        assert_eq!(open(&path).1, [&b"one"[..], b"", b"four"]);
    }

    #[test]
    fn links_and_files_that_others_may_write_are_refused() {
        let folder = tempfile::tempdir().expect("there is room");
        let victim = folder.path().join("victim");
        fs::write(&victim, MAGIC).expect("there is room");
        for name in ["names.lock", "names"] {
            let place = folder.path().join(name);
            std::os::unix::fs::symlink(&victim, &place).expect("there is room");
            let opened = Records::open(&folder.path().join("names"), true, |_| Ok(Vec::new()));
            assert!(opened.is_err(), "{name}");
            fs::remove_file(&place).expect("it is there");
        }
        // A link in the place of the new file is replaced.
        let path = folder.path().join("names");
        std::os::unix::fs::symlink(&victim, path.with_extension("new")).expect("there is room");
        let (records, _) = open(&path);
        block_on(records.append(vec![b"one".to_vec()], true)).expect("it is stored");
        drop(records);
        assert_eq!(fs::read(&victim).expect("it is there"), MAGIC);
        let mut mode = fs::metadata(&path).expect("it is there").permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o620);
        fs::set_permissions(&path, mode).expect("it is the test's own");
        assert!(Records::open(&path, true, |_| Ok(Vec::new())).is_err());
    }

    #[test]
    fn damage_ends_the_file() {
        let folder = tempfile::tempdir().expect("there is room");
        let path = folder.path().join("names");
        let (records, _) = open(&path);
        block_on(records.append(vec![b"one".to_vec(), b"two".to_vec()], true)).expect("stored");
        drop(records);
        let mut bytes = fs::read(&path).expect("it is there");
        let end = bytes.len() - 1;
        bytes[end] ^= 1;
        fs::write(&path, &bytes).expect("there is room");
        assert_eq!(open(&path).1, [&b"one"[..]]);
        fs::write(&path, "something else").expect("there is room");
        assert!(Records::open(&path, true, |_| Ok(Vec::new())).is_err());
    }
}
