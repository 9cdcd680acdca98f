//! Pending removals: objects whose removal waits for their iod.
//!
//! The store removes the name of a file first and the file's objects afterwards. An iod that is
//! unreachable at that moment, or whose disk refuses changes, keeps its object. This module keeps
//! the list of these objects, and removes them later.
//!
//! Criteria, in order of weight:
//! - The list never contains an object that belongs to a file, or that will belong to a file.
//! - A client never waits for an iod that the failure detector considers unreachable.
//! - A restart of the metaserver loses no entry of the list.
//! - If every iod removes its object at once, the removal costs no record and no sync.
//!
//! Rules:
//! 1. An object enters the list only if no file will use the object name again. The store assigns
//!    each object name once, so the objects of a removed file satisfy this rule. The objects of a
//!    small file whose growth failed do not satisfy it, because the metafile keeps the object name
//!    for the next attempt.
//! 2. The record of an entry is on stable storage before the client receives the reply. The steps
//!    are: the store removes the name of the file; the reachable iods remove their objects; the
//!    store records the other objects in the removal log ([`Ledger`]); the client receives the
//!    reply. A crash between the steps leaves objects that belong to no file and are not in the
//!    list; the module `search` finds these objects.
//! 3. The record that a removal is done is written without a sync, because a repeated removal does
//!    no harm.
//! 4. Each start writes the same new volume identity ([`Stamp`]) to the removal log and to the
//!    directory of names. If the two identities differ at the next start, the directory is a copy
//!    or an older state, which may lack file names. Then no search in the background removes an
//!    object.
//! 5. The list is incomplete if it may lack an object that belongs to no file: after it was full,
//!    after a record could not be stored, after a call was dropped during a removal, and after a
//!    crash. It stays incomplete until a search of all names has found the missing objects. A start
//!    detects a crash by the lack of the record that a metaserver writes when it stops.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use futures_util::future::join_all;
use leasehold_fs::{FsError, MaybeReady};

use crate::Striped;
use crate::iod::ObjectName;
use crate::leftovers::AT_ONCE;
use crate::metafile::Head;

/// The maximum number of entries of the list. An entry takes 18 bytes and some overhead in memory,
/// and at most two records of 19 bytes in the removal log between two starts of the metaserver.
const WAITING_MAX: usize = 65_536;

/// The size of a record: a kind (1 byte), the number of an iod (2 bytes), an object name (16
/// bytes).
const RECORD_BYTES: usize = 19;

const WAITS: u8 = 1;
const DONE: u8 = 2;

/// The kind of a record with a volume identity of 16 bytes.
const STAMP: u8 = 4;

/// The record that the metaserver has stopped in an orderly way; it is then the last record of the
/// log.
const ENDED: &[u8] = Kept::ENDED;

/// The volume identity: random bytes that each start writes to the removal log and to the directory
/// of names. A directory with another identity is a copy or an older state of the directory.
pub type Stamp = [u8; 16];

/// The removal log: stable storage for records of pending removals.
pub trait Ledger: Send + Sync {
    /// Appends records after all records of earlier calls. If `stable`, the call completes when the
    /// records are on stable storage. The sync starts only when the caller polls the future.
    ///
    /// # Errors
    /// The records cannot be stored.
    fn append(&self, records: Vec<Vec<u8>>, stable: bool) -> MaybeReady<'_, Result<(), FsError>>;
}

/// A pending removal: an object that an iod must remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Removal {
    /// The number of the iod.
    pub iod: u16,
    /// The name of the object.
    pub object: ObjectName,
}

/// The result of one attempt to execute the pending removals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// The number of objects that the iods removed.
    pub removed: u64,
    /// The number of entries that remain in the list.
    pub left: u64,
}

/// The contents of a removal log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// The pending removals.
    pub waiting: Vec<Removal>,
    /// True if the metaserver that wrote the log has stopped in an orderly way, so that the list
    /// contains all objects that belong to no file.
    pub is_complete: bool,
    /// The volume identity, equal to the one in the directory of names that the log belongs to.
    pub stamp: Option<Stamp>,
}

/// A record of removals that this version does not support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownRecord;

impl Removal {
    fn record(self, kind: u8) -> Vec<u8> {
        [&[kind][..], &self.iod.to_be_bytes(), &self.object.0].concat()
    }

    fn parse(record: &[u8]) -> Option<(u8, Self)> {
        let record: &[u8; RECORD_BYTES] = record.try_into().ok()?;
        let (kind, iod) = (record[0], u16::from_be_bytes([record[1], record[2]]));
        let mut object = [0; 16];
        object.copy_from_slice(&record[3..]);
        let is_known = kind == WAITS || kind == DONE;
        is_known.then_some((kind, Self { iod, object: ObjectName(object) }))
    }

    /// Returns the record of a pending removal.
    #[must_use]
    pub fn waits(self) -> Vec<u8> {
        self.record(WAITS)
    }
}

impl Kept {
    /// The record that the metaserver has stopped in an orderly way. A start removes the record
    /// from the log, since the record does not apply to the next run.
    pub const ENDED: &'static [u8] = &[3];

    /// Parses the records of a removal log, in the order in which they were added.
    ///
    /// # Errors
    /// A record has the format of another version.
    pub fn read(records: &[Bytes]) -> Result<Self, UnknownRecord> {
        let mut waiting = BTreeSet::new();
        let (mut is_complete, mut stamp) = (false, None);
        for record in records {
            is_complete = record == ENDED;
            if let Some((&STAMP, said)) = record.split_first() {
                stamp = Some(said.try_into().map_err(|_| UnknownRecord)?);
                continue;
            }
            match Removal::parse(record) {
                Some((DONE, removal)) => drop(waiting.remove(&removal)),
                Some((_, removal)) => drop(waiting.insert(removal)),
                None if is_complete => {}
                None => return Err(UnknownRecord),
            }
        }
        Ok(Self { waiting: waiting.into_iter().collect(), is_complete, stamp })
    }

    /// Returns records with these contents, without the record of an orderly stop.
    #[must_use]
    pub fn records(&self) -> Vec<Vec<u8>> {
        let stamp = self.stamp.as_ref().map(stamp_record);
        stamp.into_iter().chain(self.waiting.iter().map(|removal| removal.waits())).collect()
    }
}

fn stamp_record(stamp: &Stamp) -> Vec<u8> {
    [&[STAMP][..], stamp].concat()
}

/// The list of pending removals.
#[derive(Default)]
pub(crate) struct Removals {
    waiting: Mutex<BTreeMap<u16, BTreeSet<ObjectName>>>,
    /// True if the list may lack an object that belongs to no file (rule 5).
    is_incomplete: AtomicBool,
    /// True if the directory of names may be a copy or an older state that lacks file names (rule
    /// 4).
    are_names_doubted: AtomicBool,
    /// The number of calls that are removing a file.
    under_way: AtomicUsize,
    /// The number and the total size in bytes of the leftover objects that the last search found.
    orphans: Mutex<Option<(u64, u64)>>,
    ledger: OnceLock<Arc<dyn Ledger>>,
}

/// A call that is removing a file. If the call is dropped before `end`, the list becomes
/// incomplete.
pub(crate) struct Begun<'a> {
    removals: &'a Removals,
    is_ended: bool,
}

impl Begun<'_> {
    /// Ends the removal: the objects of the file are removed or in the list, or the file has kept
    /// its name.
    pub(crate) fn end(mut self) {
        self.is_ended = true;
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.removals.under_way.fetch_sub(1, Ordering::AcqRel);
        if !self.is_ended {
            self.removals.is_incomplete.store(true, Ordering::Relaxed);
        }
    }
}

impl Removals {
    fn waiting<T>(&self, look: impl FnOnce(&mut BTreeMap<u16, BTreeSet<ObjectName>>) -> T) -> T {
        look(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Begins the removal of a file.
    pub(crate) fn begin(&self) -> Begun<'_> {
        self.under_way.fetch_add(1, Ordering::AcqRel);
        Begun { removals: self, is_ended: false }
    }

    /// Adds entries, up to the bound of the list. Returns the new entries.
    fn add(&self, removals: impl IntoIterator<Item = Removal>) -> Vec<Removal> {
        self.waiting(|waiting| {
            let mut count: usize = waiting.values().map(BTreeSet::len).sum();
            let mut new = Vec::new();
            for removal in removals {
                if count >= WAITING_MAX {
                    self.is_incomplete.store(true, Ordering::Relaxed);
                    break;
                }
                if waiting.entry(removal.iod).or_default().insert(removal.object) {
                    count += 1;
                    new.push(removal);
                }
            }
            new
        })
    }

    /// Adds entries to the list; their records are on stable storage when the call returns (rule
    /// 2).
    async fn put_off(&self, removals: Vec<Removal>) {
        let new = self.add(removals);
        let Some(ledger) = self.ledger.get().filter(|_| !new.is_empty()) else { return };
        let records = new.into_iter().map(Removal::waits).collect();
        if ledger.append(records, true).await.is_err() {
            self.is_incomplete.store(true, Ordering::Relaxed);
        }
    }

    /// Removes entries from the list.
    async fn done(&self, iod: u16, objects: &[ObjectName]) {
        self.waiting(|waiting| {
            if let Some(of_iod) = waiting.get_mut(&iod) {
                objects.iter().for_each(|object| {
                    of_iod.remove(object);
                });
                if of_iod.is_empty() {
                    waiting.remove(&iod);
                }
            }
        });
        if let Some(ledger) = self.ledger.get() {
            let record = |object: &ObjectName| Removal { iod, object: *object }.record(DONE);
            // Ignore an error: without the record the next start repeats the removal, which does no
            // harm (rule 3).
            let _ = ledger.append(objects.iter().map(record).collect(), false).await;
        }
    }
}

impl Striped {
    /// Attaches the removal log; called once. `kept` is the contents of the log.
    pub fn keep_removals(&self, ledger: Arc<dyn Ledger>, kept: Kept) {
        let count = self.iods.len();
        let known = kept.waiting.into_iter().filter(|it| usize::from(it.iod) < count);
        drop(self.removals.add(known));
        if !kept.is_complete {
            self.removals.is_incomplete.store(true, Ordering::Relaxed);
        }
        drop(self.removals.ledger.set(ledger));
    }

    /// Records on stable storage that the metaserver has stopped in an orderly way, if the list of
    /// removals is complete. The caller must have stopped serving calls.
    pub async fn end_removals(&self) {
        self.purge_ended().await;
        let is_complete = self.removals.under_way.load(Ordering::Acquire) == 0
            && !self.removals.is_incomplete.load(Ordering::Relaxed)
            && !self.held.has_unlinked();
        if let (true, Some(ledger)) = (is_complete, self.removals.ledger.get()) {
            // Ignore an error: without the record the next start searches all names.
            let _ = ledger.append(vec![ENDED.to_vec()], true).await;
        }
    }

    /// Returns true if the directory of names may lack file names, so that an object without a file
    /// is not certainly a leftover (rule 4).
    #[must_use]
    pub fn names_are_doubted(&self) -> bool {
        self.removals.are_names_doubted.load(Ordering::Relaxed)
    }

    /// Records that the directory of names may lack file names (`true`), or that the directory is
    /// complete.
    pub fn doubt_names(&self, are_doubted: bool) {
        self.removals.are_names_doubted.store(are_doubted, Ordering::Relaxed);
    }

    /// Writes the volume identity of the directory of names to the removal log, on stable storage.
    ///
    /// # Errors
    /// The record cannot be stored, or there is no removal log.
    pub async fn stamp_removals(&self, stamp: &Stamp) -> Result<(), FsError> {
        let ledger = self.removals.ledger.get().ok_or(FsError::Io)?;
        ledger.append(vec![stamp_record(stamp)], true).await
    }

    /// Returns the number of pending removals for each iod that has any.
    #[must_use]
    pub fn waiting_removals(&self) -> BTreeMap<u16, usize> {
        self.removals
            .waiting(|waiting| waiting.iter().map(|(iod, objects)| (*iod, objects.len())).collect())
    }

    /// Returns true if objects that belong to no file may lack an entry in the list of removals
    /// (rule 5).
    #[must_use]
    pub fn removals_are_incomplete(&self) -> bool {
        self.removals.is_incomplete.load(Ordering::Relaxed)
    }

    /// Sets the flag that the list of removals is incomplete. A search of all names clears the flag
    /// at its start and not at its end, so that a removal that is lost during the search sets the
    /// flag again. If the search fails, the caller sets the flag again.
    pub fn set_removals_incomplete(&self, is_incomplete: bool) {
        self.removals.is_incomplete.store(is_incomplete, Ordering::Relaxed);
    }

    /// Returns the number and the total size in bytes of the leftover objects that the last search
    /// found; `None` if no search has completed.
    #[must_use]
    pub fn orphans(&self) -> Option<(u64, u64)> {
        *self.removals.orphans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the number and the total size in bytes of the leftover objects that a search found.
    pub fn set_orphans(&self, count: u64, bytes: u64) {
        let mut orphans = self.removals.orphans.lock().unwrap_or_else(PoisonError::into_inner);
        *orphans = Some((count, bytes));
    }

    /// Removes the listed objects on the reachable iods; returns `None` if the list is empty. If an
    /// iod refuses a removal, the rest of its removals wait for the next attempt.
    pub async fn finish_removals(&self) -> Option<Removed> {
        self.purge_ended().await;
        let waiting = self.removals.waiting(|waiting| waiting.clone());
        if waiting.is_empty() {
            return None;
        }
        let done = waiting.iter().map(|(iod, objects)| self.finish_removals_of(*iod, objects));
        let removed = join_all(done).await.into_iter().sum();
        let left = self.waiting_removals().values().map(|count| *count as u64).sum();
        Some(Removed { removed, left })
    }

    async fn finish_removals_of(&self, number: u16, objects: &BTreeSet<ObjectName>) -> u64 {
        let iod = self.iod(number);
        let mut removed = 0;
        let objects: Vec<ObjectName> = objects.iter().copied().collect();
        for some in objects.chunks(AT_ONCE) {
            if (iod.is_away() && !iod.is_gone()) || self.tending.is_ending() {
                break;
            }
            let asked = some.iter().map(async |&object| (object, iod.remove(object).await));
            let results = join_all(asked).await;
            let is_done = |(object, done): &(ObjectName, _)| {
                Result::<(), FsError>::is_ok(done).then_some(*object)
            };
            let done: Vec<ObjectName> = results.iter().filter_map(is_done).collect();
            removed += done.len() as u64;
            self.removals.done(number, &done).await;
            if done.len() < some.len() {
                break;
            }
        }
        removed
    }

    /// Removes the objects of a metafile header that belongs to no file, and whose object name no
    /// file will use (rule 1). Objects that an iod does not remove now enter the list of removals.
    pub(crate) async fn remove_objects(&self, head: &Head) {
        let left = self.try_to_remove(head).await;
        if !left.is_empty() {
            self.removals.put_off(left).await;
        }
    }

    /// Removes the objects of a metafile header whose object name the file keeps, on the reachable
    /// iods. The objects never enter the list of removals, because the file may use the object name
    /// later (rule 1).
    pub(crate) async fn remove_unused_objects(&self, head: &Head) {
        drop(self.try_to_remove(head).await);
    }

    /// Removes the objects of a metafile header. Returns the removals that iods did not execute.
    /// Skips unreachable iods, so that no caller waits for them.
    async fn try_to_remove(&self, head: &Head) -> Vec<Removal> {
        let copies = (0..head.layout.width())
            .flat_map(|object| (0..head.copies).map(move |copy| head.copy(object, copy)));
        let asked = copies.map(async |(number, object)| {
            let iod = self.iod(number);
            let is_asked = iod.is_gone() || !iod.is_away();
            let removed = if is_asked { iod.remove(object).await } else { Err(FsError::Delay) };
            if let Err(error) = removed {
                self.heard_error(number, error);
            }
            let is_removed = removed.is_ok();
            (!is_removed).then_some(Removal { iod: number, object })
        });
        join_all(asked).await.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn removal(iod: u16, first: u8) -> Removal {
        Removal { iod, object: ObjectName([first; 16]) }
    }

    #[test]
    fn records_give_the_pending_removals() {
        let (one, two) = (removal(0, 7), removal(0x102, 8));
        let records = [one.waits(), two.waits(), one.record(DONE)].map(Bytes::from);
        let kept = Kept { waiting: vec![two], is_complete: false, stamp: None };
        assert_eq!(Kept::read(&records), Ok(kept.clone()));
        let ended = [&records[..], &[Bytes::from_static(ENDED)]].concat();
        assert_eq!(Kept::read(&ended), Ok(Kept { is_complete: true, ..kept.clone() }));
        let again = [&ended[..], &[Bytes::from(one.record(DONE))]].concat();
        assert_eq!(Kept::read(&again), Ok(kept));
        let text = [&[1, 1, 2][..], &[8; 16]].concat();
        assert_eq!(two.waits(), text);
        assert_eq!(Kept::read(&[]), Ok(Kept::default()));
    }

    #[test]
    fn the_last_stamp_of_a_ledger_counts_and_outlives_a_rewriting() {
        let one = removal(0, 7);
        let records = [one.waits(), stamp_record(&[1; 16]), ENDED.to_vec(), stamp_record(&[2; 16])];
        let kept = Kept::read(&records.map(Bytes::from)).expect("the format is known");
        assert_eq!(kept, Kept { waiting: vec![one], is_complete: false, stamp: Some([2; 16]) });
        let again: Vec<Bytes> = kept.records().into_iter().map(Bytes::from).collect();
        assert_eq!(Kept::read(&again), Ok(kept));
        for wrong in [&[STAMP][..], &[STAMP; 16], &[STAMP; 18]] {
            assert_eq!(Kept::read(&[Bytes::copy_from_slice(wrong)]), Err(UnknownRecord));
        }
    }

    #[test]
    fn a_record_of_another_version_is_refused() {
        let record = removal(0, 7).waits();
        for wrong in [&record[1..], &[], &[&record[..], &[0]].concat(), &removal(0, 7).record(9)] {
            let records = [Bytes::copy_from_slice(wrong)];
            assert_eq!(Kept::read(&records), Err(UnknownRecord));
        }
    }

    #[test]
    fn a_list_that_is_full_is_incomplete() {
        let removals = Removals::default();
        let of = |number: usize| {
            let mut object = [0; 16];
            object[8..].copy_from_slice(&(number as u64).to_be_bytes());
            Removal { iod: 1, object: ObjectName(object) }
        };
        assert_eq!(removals.add((0..WAITING_MAX).map(of)).len(), WAITING_MAX);
        assert!(!removals.is_incomplete.load(Ordering::Relaxed));
        assert!(removals.add([of(WAITING_MAX)]).is_empty());
        assert!(removals.is_incomplete.load(Ordering::Relaxed));
    }
}
