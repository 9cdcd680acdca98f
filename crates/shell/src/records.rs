//! A file of records, to which a server appends and which it reads at its start. A record is
//! reported as stored only when it is on stable storage.
//!
//! Criteria in order of weight:
//! - Every later start reads each record that was reported as stored, and all records before it.
//! - A partly written record marks the end of the valid file, because such a record was never
//!   reported as stored. A checksum covers each record with its position.
//! - Records that arrive during a write share the next sync.
//! - After a failure because of a full disk, the file accepts records again once the disk has
//!   space. Records that the disk refused and whose callers do not wait are written before the next
//!   records, since no record may follow a gap. After a failed sync the file accepts no more
//!   records, because the kernel may have dropped bytes that were written before.
//! - A start replaces the file atomically by a file with the current records only. On a full disk
//!   the old file stays and accepts further records.
//!
//! The file consists of a magic line and the records. Each record has its length (4 bytes), its
//! checksum (8 bytes) and its contents.

use std::fs::{self, File, OpenOptions};
use std::hash::Hasher as _;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
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

/// The first line of a file of records, with the version of the format.
pub const MAGIC: &[u8] = b"leasehold records 1\n";

const HEAD_BYTES: usize = 12;

/// The maximum number of bytes of refused records that wait in memory for space.
const REFUSED_BYTES_MAX: usize = 1 << 20;

/// The maximum time for which a record without a waiting caller waits for further records that
/// share its sync.
const SOON: Duration = Duration::from_millis(100);

/// A file of records, open for appending.
pub struct Records {
    /// The channel to the writing thread; `None` while the value is dropped.
    sender: Option<Sender<Added>>,
    writing: Option<JoinHandle<()>>,
    /// The file whose lock excludes other processes.
    _lock: File,
}

struct Added {
    records: Vec<Vec<u8>>,
    /// True if a caller waits for the sync.
    now: bool,
    stored: oneshot::Sender<()>,
}

impl Records {
    /// Opens or creates a file, and returns the records that `compact` keeps of the records in the
    /// file. Without `sync`, a record counts as stored when the kernel has received it.
    ///
    /// If the last record equals `passing`, the record is not valid after this call: `compact` must
    /// drop the record, and if a full disk prevents the replacement of the file, the file is
    /// truncated before the record.
    ///
    /// # Errors
    /// The file cannot be opened, another process has it, or it is not a file of records.
    pub fn open(
        path: &Path,
        sync: bool,
        passing: Option<&[u8]>,
        compact: impl FnOnce(Vec<Bytes>) -> io::Result<Vec<Vec<u8>>>,
    ) -> io::Result<(Self, Vec<Bytes>)> {
        own::must_be_own();
        let flags = OFlags::WRONLY | OFlags::CREATE;
        let lock = private::open_beside(&path.with_extension("lock"), flags)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| io::Error::new(ErrorKind::AddrInUse, "another process has it"))?;
        let (found, old) = match private::open_beside(path, OFlags::RDWR) {
            Ok(mut file) => {
                let mut bytes = Vec::new();
                file.read_to_end(&mut bytes)?;
                let (found, end) = read(&bytes.into())?;
                let last = found.last().filter(|last| passing == Some(&last[..]));
                let end = end - last.map_or(0, |last| (HEAD_BYTES + last.len()) as u64);
                (found, Some((file, end)))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => (Vec::new(), None),
            Err(error) => return Err(error),
        };
        let compacted = compact(found)?;
        let (file, position) = match (write_beside(path, &compacted), old) {
            (Err(error), Some((file, end))) if is_full(&error) => {
                tracing::warn!(path = %path.display(), %error, "cannot compact the records");
                // The bytes behind the last complete record were never reported as stored, so they
                // are removed before new records follow.
                file.set_len(end)?;
                file.sync_data()?;
                (file, end)
            }
            (written, _) => {
                let written = written?;
                take_the_place(path)?;
                written
            }
        };
        let (sender, receiver) = mpsc::channel::<Added>();
        let writer = Writer { file, position, refused: Vec::new(), sync };
        let writing = Some(own::spawn("records", move || writer.run(&receiver))?);
        let records = compacted.into_iter().map(Bytes::from).collect();
        Ok((Self { sender: Some(sender), writing, _lock: lock }, records))
    }

    /// Appends records; `now` is true if a caller waits for the sync. The receiver completes when
    /// the records are stored, and is cancelled if the disk refuses them now.
    pub fn append(&self, records: Vec<Vec<u8>>, now: bool) -> oneshot::Receiver<()> {
        let (stored, receiver) = oneshot::channel();
        // If the writing thread has ended because the disk failed, `stored` is dropped, so the
        // caller's receiver is cancelled and the caller learns that the records are not stored.
        if let Some(sender) = &self.sender {
            drop(sender.send(Added { records, now, stored }));
        }
        receiver
    }
}

impl Drop for Records {
    /// Writes all appended records before another process can open the file.
    fn drop(&mut self) {
        self.sender = None;
        if let Some(writing) = self.writing.take() {
            drop(writing.join());
        }
    }
}

struct Writer {
    file: File,
    /// The position in the file behind the last written record.
    position: u64,
    /// Encoded records that the disk refused and whose callers do not wait. They are encoded for
    /// the position `position`, at which the next write begins.
    refused: Vec<u8>,
    sync: bool,
}

/// The reason why records are not stored.
enum Trouble {
    /// The disk has refused the bytes, for example because it is full. A later write may succeed.
    Refused(io::Error),
    /// The bytes may or may not be on stable storage.
    NotSynced(io::Error),
}

impl Writer {
    fn run(mut self, receiver: &mpsc::Receiver<Added>) {
        let mut is_refused = false;
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
            match self.write(&batch) {
                Ok(()) => {
                    if core::mem::take(&mut is_refused) {
                        tracing::info!("the disk takes records again");
                    }
                    batch.into_iter().for_each(|added| {
                        // The send fails if the caller has dropped the receiver, which needs no
                        // further action.
                        let _ = added.stored.send(());
                    });
                }
                Err(Trouble::Refused(error)) if self.refused.len() <= REFUSED_BYTES_MAX => {
                    if !core::mem::replace(&mut is_refused, true) {
                        tracing::error!(%error, "cannot store records: the next write retries");
                    }
                }
                Err(Trouble::Refused(error) | Trouble::NotSynced(error)) => {
                    tracing::error!(%error, "cannot store records: refuses records from now on");
                    return;
                }
            }
        }
        if let (false, Err(Trouble::Refused(error) | Trouble::NotSynced(error))) =
            (self.refused.is_empty(), self.write(&[]))
        {
            tracing::error!(%error, "some records are not stored");
        }
    }

    /// Writes the records that the disk refused earlier, and then the records of a batch. If the
    /// disk refuses these bytes, keeps the records without a waiting caller for the next write. The
    /// records of a waiting caller are not kept: the caller receives the error and handles the
    /// failure, so its records must not be stored later.
    fn write(&mut self, batch: &[Added]) -> Result<(), Trouble> {
        let position = self.position;
        let to = |bytes: &mut Vec<u8>, added: &Added| {
            for record in &added.records {
                frame(position + bytes.len() as u64, record, bytes);
            }
        };
        let mut bytes = self.refused.clone();
        batch.iter().for_each(|added| to(&mut bytes, added));
        if let Err(error) = self.file.write_all_at(&bytes, position) {
            // A partial write may have left complete records of callers that receive an error, so
            // the file is truncated to its previous length.
            let _ = self.file.set_len(position);
            let kept = batch.iter().filter(|added| !added.now);
            kept.for_each(|added| to(&mut self.refused, added));
            return Err(Trouble::Refused(error));
        }
        self.position += bytes.len() as u64;
        self.refused.clear();
        if self.sync { self.file.sync_data().map_err(Trouble::NotSynced) } else { Ok(()) }
    }
}

/// Returns true if the error means a full disk or an exhausted quota.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
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

/// Returns the records of a file up to the first incomplete record, and the position of that
/// incomplete record.
fn read(file: &Bytes) -> io::Result<(Vec<Bytes>, u64)> {
    if !file.starts_with(MAGIC) {
        return Err(io::Error::new(ErrorKind::InvalidData, "it is not a file of records"));
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
    Ok((records, at as u64))
}

/// Writes a new file beside the old file, and returns it with its length.
fn write_beside(path: &Path, records: &[Vec<u8>]) -> io::Result<(File, u64)> {
    let new: PathBuf = path.with_extension("new");
    // An interrupted start may have left a file of this name, which is removed. The removal does
    // not follow a symbolic link.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    let mut bytes = MAGIC.to_vec();
    for record in records {
        frame(bytes.len() as u64, record, &mut bytes);
    }
    if let Err(error) = file.write_all(&bytes).and_then(|()| file.sync_all()) {
        // The incomplete new file is removed, because the rest of the start may need its space.
        drop(fs::remove_file(&new));
        return Err(error);
    }
    Ok((file, bytes.len() as u64))
}

/// Renames the new file over the old file.
fn take_the_place(path: &Path) -> io::Result<()> {
    fs::rename(path.with_extension("new"), path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use futures_executor::block_on;

    use super::*;

    fn open(path: &Path) -> (Records, Vec<Bytes>) {
        let same = |found: Vec<Bytes>| Ok(found.iter().map(|one| one.to_vec()).collect());
        Records::open(path, true, None, same).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn stored_records_are_read() {
        let folder = tempfile::tempdir().expect("there is room");
        let path = folder.path().join("names");
        let (records, found) = open(&path);
        assert!(found.is_empty());
        block_on(records.append(vec![b"one".to_vec(), Vec::new()], true)).expect("it is stored");
        block_on(records.append(vec![b"three".to_vec()], false)).expect("it is stored");
        let taken = Records::open(&path, true, None, |_| Ok(Vec::new()));
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
        assert_eq!(found, [&b"one"[..], b""], "a partial record was never reported as stored");
        block_on(records.append(vec![b"four".to_vec()], true)).expect("it is stored");
        drop(records);
        assert_eq!(open(&path).1, [&b"one"[..], b"", b"four"]);
    }

    #[test]
    fn links_and_files_writable_by_others_are_refused() {
        let folder = tempfile::tempdir().expect("there is room");
        let victim = folder.path().join("victim");
        fs::write(&victim, MAGIC).expect("there is room");
        for name in ["names.lock", "names"] {
            let place = folder.path().join(name);
            std::os::unix::fs::symlink(&victim, &place).expect("there is room");
            let opened =
                Records::open(&folder.path().join("names"), true, None, |_| Ok(Vec::new()));
            assert!(opened.is_err(), "{name}");
            fs::remove_file(&place).expect("it is there");
        }
        // A symbolic link under the name of the new file is replaced and not followed.
        let path = folder.path().join("names");
        std::os::unix::fs::symlink(&victim, path.with_extension("new")).expect("there is room");
        let (records, _) = open(&path);
        block_on(records.append(vec![b"one".to_vec()], true)).expect("it is stored");
        drop(records);
        assert_eq!(fs::read(&victim).expect("it is there"), MAGIC);
        let mut mode = fs::metadata(&path).expect("it is there").permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o620);
        fs::set_permissions(&path, mode).expect("it is the test's own");
        assert!(Records::open(&path, true, None, |_| Ok(Vec::new())).is_err());
    }

    /// A full disk must lose no record that the server reported as stored, and the file must accept
    /// records again once the disk has space.
    #[test]
    fn full_disk_accepts_records_again_once_it_has_space() {
        let folder = tempfile::tempdir().expect("there is room");
        let path = folder.path().join("names");
        let (records, _) = open(&path);
        block_on(records.append(vec![b"one".to_vec()], true)).expect("it is stored");
        drop(records);
        let file = private::open_beside(&path, OFlags::RDWR).expect("it is there");
        let position = file.metadata().expect("it is there").len();
        let full = OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
        let mut writer = Writer { file: full, position, refused: Vec::new(), sync: true };
        let batch = |record: &[u8], now| {
            let (stored, _) = oneshot::channel();
            [Added { records: vec![record.to_vec()], now, stored }]
        };
        // The caller of the second record waits and receives the error, so only the other two
        // records are kept.
        for (record, now) in [(b"two", false), (b"red", true), (b"six", false)] {
            let refused = writer.write(&batch(record, now));
            assert!(matches!(refused, Err(Trouble::Refused(error)) if is_full(&error)));
        }
        writer.file = file;
        // This simulates a partial write, which has left some of the bytes.
        writer.file.write_all_at(&writer.refused[..7], position).expect("there is room");
        assert!(writer.write(&batch(b"four", true)).is_ok(), "there is room");
        assert!(writer.refused.is_empty());
        assert_eq!(open(&path).1, [&b"one"[..], b"two", b"six", b"four"]);
    }

    /// On a full disk the writer reports the error to each waiting caller and continues. It refuses
    /// all further records when the kept records exceed [`REFUSED_BYTES_MAX`].
    #[test]
    fn each_caller_receives_the_error_of_a_full_disk() {
        let full = OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
        let writer = Writer { file: full, position: 0, refused: Vec::new(), sync: true };
        let folder = tempfile::tempdir().expect("there is room");
        let (mut records, _) = open(&folder.path().join("names"));
        let (sender, receiver) = mpsc::channel();
        let writing = own::spawn("records", move || writer.run(&receiver)).expect("a thread");
        let before = records.sender.replace(sender);
        drop(before);
        for _ in 0..3 {
            block_on(records.append(vec![vec![7; 1000]], true)).expect_err("the disk is full");
        }
        assert!(!writing.is_finished());
        block_on(records.append(vec![vec![7; REFUSED_BYTES_MAX]], false)).expect_err("it is full");
        writing.join().expect("no panic");
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
        assert!(Records::open(&path, true, None, |_| Ok(Vec::new())).is_err());
    }
}
