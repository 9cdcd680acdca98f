//! Tests of pending removals: objects whose iod is unreachable or refuses to remove them.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use leasehold_fs::suite::block_on;
use leasehold_fs::{FsError, MaybeReady, Stability, Store as _, Verifier};
use leasehold_store_mem::MemStore;

use super::volume::{Volume, make, place, put, superuser, text};
use crate::{Extent, Iod, Kept, Ledger, ObjectName, Removed, Room, Striped, Written};

/// The faults of an iod.
#[derive(Default)]
struct Faults {
    /// True if the failure detector considers the iod unreachable.
    is_away: AtomicBool,
    /// True if the disk of the iod refuses changes.
    is_read_only: AtomicBool,
    /// True if the disk of the iod is full.
    is_full: AtomicBool,
    /// True if the iod never answers a call.
    is_silent: AtomicBool,
    /// The number of calls to the iod while it was unreachable.
    calls_while_away: AtomicUsize,
}

/// An iod with faults.
struct Faulty {
    iod: Arc<dyn Iod>,
    faults: Arc<Faults>,
}

impl Faulty {
    fn answered<'a, T: Send + 'a>(
        &'a self,
        changes: bool,
        work: MaybeReady<'a, Result<T, FsError>>,
    ) -> MaybeReady<'a, Result<T, FsError>> {
        MaybeReady::later(async move {
            if self.faults.is_away.load(Ordering::Relaxed) {
                self.faults.calls_while_away.fetch_add(1, Ordering::Relaxed);
                return Err(FsError::Delay);
            }
            if self.faults.is_silent.load(Ordering::Relaxed) {
                core::future::pending::<()>().await;
            }
            if changes && self.faults.is_read_only.load(Ordering::Relaxed) {
                return Err(FsError::ReadOnly);
            }
            work.await
        })
    }
}

impl Iod for Faulty {
    fn extent(&self, object: ObjectName) -> MaybeReady<'_, Result<Extent, FsError>> {
        self.answered(false, self.iod.extent(object))
    }

    fn read(
        &self,
        object: ObjectName,
        offset: u64,
        count: u32,
    ) -> MaybeReady<'_, Result<Bytes, FsError>> {
        self.answered(false, self.iod.read(object, offset, count))
    }

    fn write(
        &self,
        object: ObjectName,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> MaybeReady<'_, Result<Written, FsError>> {
        if self.faults.is_full.load(Ordering::Relaxed) {
            return MaybeReady::now(Err(FsError::NoSpace));
        }
        self.answered(true, self.iod.write(object, offset, data, stability))
    }

    fn resize(&self, object: ObjectName, size: u64) -> MaybeReady<'_, Result<Extent, FsError>> {
        self.answered(true, self.iod.resize(object, size))
    }

    fn commit(&self, object: ObjectName) -> MaybeReady<'_, Result<Verifier, FsError>> {
        self.answered(false, self.iod.commit(object))
    }

    fn remove(&self, object: ObjectName) -> MaybeReady<'_, Result<(), FsError>> {
        self.answered(true, self.iod.remove(object))
    }

    fn verifier(&self) -> MaybeReady<'_, Result<Verifier, FsError>> {
        self.answered(false, self.iod.verifier())
    }

    fn space(&self) -> MaybeReady<'_, Result<Room, FsError>> {
        self.answered(false, self.iod.space())
    }

    fn is_away(&self) -> bool {
        self.faults.is_away.load(Ordering::Relaxed)
    }
}

/// A removal log in memory.
#[derive(Default)]
struct Paper {
    records: Mutex<Vec<Bytes>>,
    syncs: AtomicUsize,
    fails: AtomicBool,
    /// The store of names; the flag is true if the name `file` existed at the last sync.
    names: Option<Arc<MemStore>>,
    name_was_there: AtomicBool,
}

impl Paper {
    fn kept(&self) -> Kept {
        Kept::read(&self.records.lock().expect("nobody panics")).expect("the format is known")
    }
}

impl Ledger for Paper {
    fn append(&self, records: Vec<Vec<u8>>, stable: bool) -> MaybeReady<'_, Result<(), FsError>> {
        if self.fails.load(Ordering::Relaxed) {
            return MaybeReady::now(Err(FsError::Io));
        }
        self.records.lock().expect("nobody panics").extend(records.into_iter().map(Bytes::from));
        self.syncs.fetch_add(usize::from(stable), Ordering::Relaxed);
        if let (true, Some(names)) = (stable, &self.names) {
            let (root, name) = (names.root(), super::volume::name("file"));
            let found = block_on(names.lookup(&superuser(), &root, name));
            self.name_was_there.store(found.is_ok(), Ordering::Relaxed);
        }
        MaybeReady::now(Ok(()))
    }
}

struct World {
    volume: Volume,
    faults: [Arc<Faults>; 3],
    ledger: Arc<Paper>,
}

impl World {
    fn new(copies: u16) -> Self {
        let mut volume = Volume::new();
        volume.copies = copies;
        let names = Some(Arc::<MemStore>::clone(&volume.names));
        let ledger = Arc::new(Paper { names, ..Paper::default() });
        Self { volume, faults: Default::default(), ledger }
    }

    fn start(&mut self) -> Striped {
        let Self { volume, faults, .. } = self;
        let store = volume.start_with(|number, iod| {
            Arc::new(Faulty { iod, faults: Arc::clone(&faults[usize::from(number)]) })
        });
        let ledger = Arc::<Paper>::clone(&self.ledger);
        store.keep_removals(ledger, self.ledger.kept());
        store
    }

    fn set_away(&self, iod: usize, is_away: bool) {
        self.faults[iod].is_away.store(is_away, Ordering::Relaxed);
    }

    fn set_read_only(&self, iod: usize, is_read_only: bool) {
        self.faults[iod].is_read_only.store(is_read_only, Ordering::Relaxed);
    }

    fn calls_while_away(&self, iod: usize) -> usize {
        self.faults[iod].calls_while_away.load(Ordering::Relaxed)
    }
}

/// Creates a file with an object on each of the three iods.
fn file_on_iods(store: &Striped, text_of_name: &str) {
    let file = make(store, text_of_name);
    put(store, &file, 0, &text(100), Stability::FileSync);
}

fn remove(store: &Striped, text_of_name: &str) {
    let removed = block_on(store.remove(&superuser(), place(store, text_of_name)));
    removed.result.expect("the file is there");
}

/// A removal must not wait for an iod that is known to be unreachable. Otherwise each REMOVE, and
/// each RENAME over a file, would take as long as the timeout of the failure detector.
#[test]
fn no_removal_waits_for_an_iod_that_is_away() {
    let mut world = World::new(2);
    let store = world.start();
    for name in ["file", "over", "third"] {
        file_on_iods(&store, name);
    }
    world.set_away(1, true);
    remove(&store, "file");
    let over = block_on(store.rename(&superuser(), place(&store, "third"), place(&store, "over")));
    over.result.expect("the directory permits the change");
    assert_eq!(world.calls_while_away(1), 0);
    // The unreachable iod has two objects of each file: a first copy and a second copy.
    assert_eq!(store.waiting_removals().into_iter().collect::<Vec<_>>(), [(1, 4)]);
    assert_eq!(block_on(store.finish_removals()), Some(Removed { removed: 0, left: 4 }));
    assert_eq!(world.calls_while_away(1), 0);
}

#[test]
fn a_pending_removal_survives_a_restart_and_ends_when_the_iod_answers() {
    let mut world = World::new(2);
    let store = world.start();
    file_on_iods(&store, "kept");
    let before = world.volume.objects();
    file_on_iods(&store, "file");
    let with_file = world.volume.objects();
    world.set_away(2, true);
    remove(&store, "file");
    assert_eq!(world.volume.objects(), with_file - 4);
    drop(store);
    world.volume.crash();
    let store = world.start();
    assert_eq!(store.waiting_removals().into_iter().collect::<Vec<_>>(), [(2, 2)]);
    world.set_away(2, false);
    assert_eq!(block_on(store.finish_removals()), Some(Removed { removed: 2, left: 0 }));
    // The iods keep the directories of the removed objects, so the count may grow by two for each
    // iod.
    assert!(world.volume.objects() <= before + 3 * 2, "objects of no file are left");
    assert_eq!(world.volume.objects(), with_file - 6);
    assert_eq!(block_on(store.finish_removals()), None);
    assert!(world.ledger.kept().waiting.is_empty());
    assert!(world.start().waiting_removals().is_empty());
}

/// The removal of a file succeeds although the disk of an iod is read-only. So the metaserver must
/// add the object of this iod to its list.
#[test]
fn a_removal_that_an_iod_refuses_waits_until_the_iod_permits_it() {
    let mut world = World::new(1);
    let store = world.start();
    file_on_iods(&store, "file");
    let with_file = world.volume.objects();
    world.set_read_only(0, true);
    remove(&store, "file");
    assert_eq!(world.volume.objects(), with_file - 2);
    assert_eq!(block_on(store.finish_removals()), Some(Removed { removed: 0, left: 1 }));
    world.set_read_only(0, false);
    assert_eq!(block_on(store.finish_removals()), Some(Removed { removed: 1, left: 0 }));
    assert_eq!(world.volume.objects(), with_file - 3);
}

#[test]
fn a_removal_that_all_iods_carry_out_costs_no_record() {
    let mut world = World::new(2);
    let store = world.start();
    file_on_iods(&store, "file");
    remove(&store, "file");
    assert_eq!(world.ledger.records.lock().expect("nobody panics").len(), 0);
    assert_eq!(world.ledger.syncs.load(Ordering::Relaxed), 0);
}

/// The record of a pending removal must not precede the removal of the file name. Otherwise, after
/// a crash in between, the next start would remove the objects of a file that still exists.
#[test]
fn the_record_of_a_removal_follows_the_removal_of_the_name() {
    let mut world = World::new(2);
    let store = world.start();
    file_on_iods(&store, "file");
    world.set_away(0, true);
    remove(&store, "file");
    assert_eq!(world.ledger.syncs.load(Ordering::Relaxed), 1, "one sync for all objects");
    assert!(!world.ledger.name_was_there.load(Ordering::Relaxed));
}

#[test]
fn a_record_that_cannot_be_stored_leaves_the_list_incomplete() {
    let mut world = World::new(2);
    let store = world.start();
    file_on_iods(&store, "file");
    world.set_away(0, true);
    store.set_removals_incomplete(false);
    world.ledger.fails.store(true, Ordering::Relaxed);
    remove(&store, "file");
    assert!(store.removals_are_incomplete());
    block_on(store.end_removals());
    assert!(!world.ledger.kept().is_complete, "the next start has to search");
    world.set_away(0, false);
    assert_eq!(block_on(store.finish_removals()), Some(Removed { removed: 2, left: 0 }));
}

/// A small file cannot grow because an iod is full, and its metafile keeps the object name. So
/// these objects must not become pending removals: a later removal would destroy the data of the
/// file after it has grown.
#[test]
fn objects_that_a_file_may_use_later_never_wait_for_removal() {
    let mut world = World::new(1);
    let store = world.start();
    let file = make(&store, "file");
    put(&store, &file, 0, &text(10), Stability::FileSync);
    world.faults[1].is_full.store(true, Ordering::Relaxed);
    world.set_read_only(0, true);
    let grown = Bytes::from(text(100));
    let done = block_on(store.write(&superuser(), &file, 0, grown, Stability::FileSync));
    assert!(done.result.is_err(), "an iod refuses the data");
    assert!(store.waiting_removals().is_empty());
}

/// After a crash, a start cannot determine if the objects of a removed file were removed, too. So
/// the list must count as incomplete.
#[test]
fn a_start_detects_an_incomplete_list() {
    let mut world = World::new(2);
    let store = world.start();
    assert!(store.removals_are_incomplete(), "nothing is known of before the first ledger");
    store.set_removals_incomplete(false);
    block_on(store.end_removals());
    let store = world.start();
    assert!(!store.removals_are_incomplete(), "the end was orderly");
    file_on_iods(&store, "file");
    world.set_away(0, true);
    remove(&store, "file");
    drop(store);
    assert!(world.start().removals_are_incomplete(), "the metaserver was killed");
}

/// If a client's connection ends during a removal, the call is dropped. The objects may then belong
/// to no file and be missing in the list, so the list must count as incomplete.
#[test]
fn a_call_that_is_dropped_during_a_removal_leaves_the_list_incomplete() {
    let mut world = World::new(1);
    let store = world.start();
    file_on_iods(&store, "file");
    store.set_removals_incomplete(false);
    world.faults[0].is_silent.store(true, Ordering::Relaxed);
    {
        let caller = superuser();
        let mut removal = core::pin::pin!(store.remove(&caller, place(&store, "file")));
        let mut context = core::task::Context::from_waker(core::task::Waker::noop());
        assert!(removal.as_mut().poll(&mut context).is_pending());
        assert!(!store.removals_are_incomplete());
    }
    assert!(store.removals_are_incomplete());
}
