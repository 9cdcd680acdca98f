//! The reply journal: the file with the persistent entries of the duplicate request cache
//! ("notes").
//!
//! Criteria in order of weight:
//! - The server never takes a partly written entry, or the entry of another slot, for a valid
//!   entry: a checksum covers each entry with its slot number.
//! - A written entry is in the kernel's page cache, so it survives any end of the process. The
//!   server syncs the file only at a clean end: a crash of the machine may lose the entries that
//!   the kernel has not written back yet, which are the entries of about half a minute.
//! - A damaged file does not prevent a start, and a failing disk does not prevent service. A file
//!   that another user could have written, or that another server uses, prevents a start, because
//!   this server would send the entries of such a file as its own replies.
//!
//! The file has a slot for each entry, and a slot is one sector: a torn write loses one entry and
//! damages nothing else. A slot contains a header (magic number, length of the entry with flags,
//! boot id, time, checksum) and the entry.
//!
//! An entry is valid while the change of its call exists. An entry of a change that may be in
//! memory only is therefore void after a reboot. It is also void for a server that syncs changes,
//! because that server would treat the change as a change on stable storage.
//!
//! An entry is marked if the server has made the change and has not synced the change yet. The
//! change survives a kill of the server, but perhaps not a crash of the machine. A start in another
//! boot therefore ignores marked entries. A start in the same boot removes the marked entries from
//! the file, syncs all earlier changes, and then writes the entries back without the mark. If the
//! sync fails, or if the start is killed during the sync, the marked entries are thus lost. This is
//! necessary because the kernel reports a lost write to one sync only, so a later successful sync
//! does not prove that the change is stable.
//!
//! The times in entries are by the clock of the boot in which the entry was written. In a later
//! boot, the age of an entry is its age when the newest entry of the same boot was written, because
//! the length of the downtime is unknown.

use std::collections::BTreeMap;
use std::fs::File;
use std::hash::Hasher as _;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use leasehold_base::limits::{NOTE_BYTES_MAX, REPLIES_MAX};
use leasehold_base::units::Time;
use leasehold_serve::Noted;
use rustix::fs::OFlags;
use siphasher::sip::SipHasher13;

use crate::own;
use crate::ownership::lock;
use crate::private::{self, Secrecy};
use crate::state::{StateError, this_boot};

/// The file in the state directory.
const NAME: &str = "replies";

const SLOT_BYTES: usize = 512;

/// The magic number, which includes the version of the slot format; another format has another
/// number.
const MAGIC: [u8; 4] = *b"LHN1";

const LENGTH_AT: usize = 4;
/// The flag in the length field for a change that may be in memory only.
const IN_MEMORY: u32 = 1 << 31;
/// The flag in the length field of a marked entry: the server has made the change and has not
/// synced it. Earlier versions of the server take such an entry for a damaged entry, and run the
/// call again.
const MADE: u32 = 1 << 30;
const BOOT_AT: usize = 8;
const GIVEN_AT: usize = 24;
const CHECKSUM_AT: usize = 32;
const NOTE_AT: usize = 40;

const _: () = assert!(NOTE_AT + NOTE_BYTES_MAX == SLOT_BYTES);

/// The number of slots that one read of the file covers.
const READ_SLOTS: usize = 128;

/// The location of a change at the time of its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changes {
    /// The change is on stable storage.
    Stable,
    /// The change may be in memory only: a crash of the machine may lose the change.
    InMemory,
}

/// The reply journal, which no other server can use at the same time.
#[derive(Debug)]
pub struct ReplyJournal {
    file: File,
    boot: u128,
    changes: Changes,
    /// The number of entries that could not be written.
    lost: AtomicU64,
}

/// An entry with the fields of its header.
struct Page {
    slot: u32,
    boot: u128,
    changes: Changes,
    is_made_only: bool,
    given: Time,
    note: Bytes,
}

impl ReplyJournal {
    /// Opens or creates the journal in a state directory and reads it. Calls `sync` if the journal
    /// contains marked entries of this boot, whose changes may not be on stable storage. `sync`
    /// must make all earlier changes stable, and returns true if it has succeeded.
    ///
    /// # Errors
    /// The file cannot be opened, or another server uses it.
    pub fn open(
        directory: &Path,
        changes: Changes,
        now: Time,
        sync: impl FnOnce() -> bool,
    ) -> Result<(Self, Vec<Noted>), StateError> {
        own::must_be_own();
        let path = directory.join(NAME);
        let failed = |task| {
            let path = path.clone();
            move |error| StateError { task, path, error }
        };
        let file = private::open(&path, OFlags::RDWR | OFlags::CREATE, Secrecy::Readable);
        let file = file.map_err(failed("open the notes of replies"))?;
        lock(&file, refusal).map_err(failed("lock the notes of replies"))?;
        let boot = this_boot().map_err(failed("read the id of this boot for"))?;
        let reply_journal = Self { file, boot, changes, lost: AtomicU64::new(0) };
        let (pages, damaged) =
            reply_journal.pages().map_err(failed("read the notes of replies"))?;
        if damaged != 0 {
            let path = path.display();
            tracing::warn!(
                damaged,
                "some notes of replies in {path} are damaged: the server runs \
                their calls again if clients retransmit them"
            );
        }
        let mut pages: Vec<_> =
            pages.into_iter().filter(|page| reply_journal.counts(page)).collect();
        let needs_sync = changes == Changes::Stable && pages.iter().any(|page| page.is_made_only);
        if needs_sync && !(reply_journal.remove_made(&pages) && sync()) {
            tracing::warn!(
                "cannot sync changes of the previous server: the server runs their calls again \
                 if clients retransmit them"
            );
            pages.retain(|page| !page.is_made_only);
        }
        let noted = reply_journal.bring_up(pages, now);
        Ok((reply_journal, noted))
    }

    /// Removes marked entries from the file; returns false if a write fails.
    fn remove_made(&self, pages: &[Page]) -> bool {
        let mut made = pages.iter().filter(|page| page.is_made_only);
        made.all(|page| self.file.write_all_at(&[0; SLOT_BYTES], offset(page.slot)).is_ok())
    }

    /// Returns true if the change of an entry has at least the durability that the entries of this
    /// server claim.
    fn counts(&self, page: &Page) -> bool {
        match page.changes {
            Changes::Stable => !page.is_made_only || page.boot == self.boot,
            Changes::InMemory => page.boot == self.boot && self.changes == Changes::InMemory,
        }
    }

    /// Syncs all entries to stable storage.
    ///
    /// # Errors
    /// The sync failed.
    pub fn close(&self) -> io::Result<()> {
        let lost = self.lost.load(Ordering::Relaxed);
        if lost != 0 {
            tracing::warn!(lost, "some replies are not in the reply journal for the next start");
        }
        self.file.sync_all()
    }

    /// Returns all valid entries, and the number of slots with damaged contents.
    fn pages(&self) -> io::Result<(Vec<Page>, usize)> {
        let (mut pages, mut damaged, mut slot) = (Vec::new(), 0, 0);
        let mut piece = vec![0; READ_SLOTS * SLOT_BYTES];
        loop {
            let length = read_whole(&self.file, &mut piece, offset(slot))?;
            for bytes in piece[..length].chunks(SLOT_BYTES) {
                if slot as usize >= REPLIES_MAX {
                    return Ok((pages, damaged));
                }
                match Page::read(slot, bytes) {
                    Some(page) => pages.push(page),
                    None => damaged += usize::from(bytes.iter().any(|byte| *byte != 0)),
                }
                slot += 1;
            }
            if length < piece.len() {
                return Ok((pages, damaged));
            }
        }
    }

    /// Converts the times of entries to the clock of this boot. Also writes the converted entries
    /// to the file, because the next start could not determine the time since an earlier boot.
    fn bring_up(&self, pages: Vec<Page>, now: Time) -> Vec<Noted> {
        let mut newest: BTreeMap<u128, Time> = BTreeMap::new();
        for page in &pages {
            let newest = newest.entry(page.boot).or_default();
            *newest = page.given.max(*newest);
        }
        let noted =
            pages.into_iter().map(|Page { slot, boot, given, note, is_made_only, .. }| {
                if boot == self.boot {
                    let given = given.min(now);
                    if is_made_only {
                        // The sync of this start has made the change stable, so the entry is
                        // written back without the mark.
                        leasehold_serve::ReplyJournal::write(self, slot, given, &note);
                    }
                    return Noted { slot, given, note };
                }
                let age = newest[&boot].since(given).as_nanos();
                let age = u64::try_from(age).unwrap_or(u64::MAX);
                let given = Time::from_nanoseconds(now.as_nanoseconds().saturating_sub(age));
                leasehold_serve::ReplyJournal::write(self, slot, given, &note);
                Noted { slot, given, note }
            });
        noted.collect()
    }

    fn put(&self, slot: u32, given: Time, note: &[u8], made: u32) -> io::Result<()> {
        let mut bytes = [0; SLOT_BYTES];
        let end = NOTE_AT + note.len();
        let length = u32::try_from(note.len()).map_err(|_| ErrorKind::InvalidInput)?;
        bytes.get_mut(NOTE_AT..end).ok_or(ErrorKind::InvalidInput)?.copy_from_slice(note);
        bytes[..LENGTH_AT].copy_from_slice(&MAGIC);
        let mark = if self.changes == Changes::InMemory { IN_MEMORY } else { 0 };
        bytes[LENGTH_AT..BOOT_AT].copy_from_slice(&(length | mark | made).to_be_bytes());
        bytes[BOOT_AT..GIVEN_AT].copy_from_slice(&self.boot.to_be_bytes());
        bytes[GIVEN_AT..CHECKSUM_AT].copy_from_slice(&given.as_nanoseconds().to_be_bytes());
        let checksum = checksum(slot, &bytes[..CHECKSUM_AT], note);
        bytes[CHECKSUM_AT..NOTE_AT].copy_from_slice(&checksum.to_be_bytes());
        self.file.write_all_at(&bytes[..end], offset(slot))
    }
}

impl leasehold_serve::ReplyJournal for ReplyJournal {
    fn write(&self, slot: u32, given: Time, note: &[u8]) {
        self.note(slot, given, note, 0);
    }

    fn write_made(&self, slot: u32, given: Time, note: &[u8]) {
        self.note(slot, given, note, MADE);
    }
}

impl ReplyJournal {
    /// Writes an entry into a slot. Counts a failure and reports no error.
    fn note(&self, slot: u32, given: Time, note: &[u8], made: u32) {
        if let Err(error) = self.put(slot, given, note, made)
            && self.lost.fetch_add(1, Ordering::Relaxed) == 0
        {
            tracing::warn!(%error, "cannot write a reply to the journal: the next start lacks it");
        }
    }
}

impl Page {
    /// Reads a slot; `None` if it has no valid entry.
    fn read(slot: u32, bytes: &[u8]) -> Option<Self> {
        let (head, rest) = bytes.split_at_checked(NOTE_AT)?;
        let length = u32::from_be_bytes(head[LENGTH_AT..BOOT_AT].try_into().ok()?);
        let note = rest.get(..usize::try_from(length & !(IN_MEMORY | MADE)).ok()?)?;
        let written = u64::from_be_bytes(head[CHECKSUM_AT..].try_into().ok()?);
        if head[..LENGTH_AT] != MAGIC || checksum(slot, &head[..CHECKSUM_AT], note) != written {
            return None;
        }
        Some(Self {
            slot,
            is_made_only: length & MADE != 0,
            changes: if length & IN_MEMORY == 0 { Changes::Stable } else { Changes::InMemory },
            boot: u128::from_be_bytes(head[BOOT_AT..GIVEN_AT].try_into().ok()?),
            given: Time::from_nanoseconds(u64::from_be_bytes(
                head[GIVEN_AT..CHECKSUM_AT].try_into().ok()?,
            )),
            note: Bytes::copy_from_slice(note),
        })
    }
}

fn checksum(slot: u32, head: &[u8], note: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(&slot.to_be_bytes());
    hasher.write(head);
    hasher.write(note);
    hasher.finish()
}

fn offset(slot: u32) -> u64 {
    u64::from(slot) * SLOT_BYTES as u64
}

/// Reads until the buffer is full or the file ends.
fn read_whole(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match file.read_at(&mut buffer[length..], offset + length as u64) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

/// The error text if another server uses the journal.
fn refusal(_: &File) -> String {
    "another server has them: give this server a state directory of its own".to_owned()
}

#[cfg(test)]
mod tests;
