//! Tests with iods whose disks are full.

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use leasehold_base::random::Random;
use leasehold_base::units::FileSystemId;
use leasehold_fs::suite::block_on;
use leasehold_fs::{FsError, Stability, Store as _};
use leasehold_store_mem::{Config, MemStore};

use super::outage::Power;
use super::together::Slow;
use super::volume::{Volume, data, make, place, put, superuser, text};
use crate::{LayoutPolicy, RebalanceReport, Striped};

/// The size in bytes of a block of a store in memory.
const BLOCK: u64 = 4096;

/// Creates a volume whose iods have space for `blocks` blocks.
fn volume(copies: u16, blocks: [u64; 3]) -> Volume {
    let mut volume = Volume::new();
    volume.copies = copies;
    for (number, (iod, blocks)) in (10..).zip(volume.iods.iter_mut().zip(blocks)) {
        let (file_system, capacity_bytes) = (FileSystemId(number), blocks * BLOCK);
        let config = Config { file_system, capacity_bytes, ..Config::default() };
        *iod = Arc::new(MemStore::new(config));
    }
    volume
}

fn iods_of(store: &Striped, name: &str) -> Vec<u16> {
    let name = super::volume::name(name);
    let found = block_on(store.names.lookup(&superuser(), &store.root(), name));
    let file = found.expect("the file is there").object;
    let mut iods = block_on(store.head(&file)).expect("it is sound").expect("it has data").iods;
    iods.sort_unstable();
    iods
}

/// One of three iods is full. The other two iods store two copies of all data.
#[test]
fn with_two_copies_one_full_iod_refuses_no_data() {
    // The first iod has space for the mark, some directories and a few objects.
    let mut volume = volume(2, [6, 4000, 4000]);
    let store = volume.start();
    let names: Vec<String> = (0..20).map(|number| format!("file {number}")).collect();
    for name in &names {
        let file = make(&store, name);
        put(&store, &file, 0, &text(100), Stability::FileSync);
        assert_eq!(data(&store, &file), text(100), "{name}");
    }
    assert_eq!(store.full_iods().into_iter().collect::<Vec<_>>(), [0]);
    assert_eq!(iods_of(&store, "file 19"), [1, 2], "a new file lies on the iods with room");
    assert!(store.behind_count() > 0, "the first file that met the full iod lacks a copy");
    let tended = block_on(store.tend()).expect("the names are there").expect("some are to move");
    assert!(tended.moved > 0 && tended.left == 0, "{tended:?}");
    assert_eq!((store.behind_count(), store.misplaced_count()), (0, 0));
    assert_eq!(block_on(store.tend()), Ok(None), "nothing goes to and fro");
    for name in &names {
        let found = block_on(store.lookup(&superuser(), &store.root(), super::volume::name(name)));
        assert_eq!(data(&store, &found.expect("it is there").object), text(100), "{name}");
    }
}

/// If only one iod has space, a WRITE with two copies must fail, because the data would have one
/// copy permanently.
#[test]
fn data_that_finds_room_for_one_of_two_copies_is_refused() {
    let mut volume = volume(2, [6, 4000, 4000]);
    volume.used = vec![0, 1];
    let store = volume.start();
    let mut refused = 0;
    for number in 0..20 {
        let file = make(&store, &format!("file {number}"));
        let bytes = Bytes::from(text(100));
        let done = block_on(store.write(&superuser(), &file, 0, bytes, Stability::FileSync));
        refused += u32::from(done.result == Err(FsError::NoSpace));
    }
    assert!(refused > 10, "{refused}");
    assert_eq!((store.behind_count(), store.misplaced_count()), (0, 0));
}

/// Starts the volume with a second iod that is unreachable while `is_away` is true.
fn with_one_away(volume: &mut Volume, is_away: &Arc<AtomicBool>) -> Striped {
    volume.start_with(|number, iod| {
        let random = Mutex::new(Random::from_seed(u64::from(number)));
        let fails = if number == 1 { Arc::clone(is_away) } else { Arc::default() };
        Arc::new(Slow { iod, random, fails, tells: true, power: Power::default() })
    })
}

/// An iod that counts as full may have enough free space for the repair of a lost copy.
#[test]
fn a_lost_copy_is_rebuilt_though_an_iod_counts_as_full() {
    let mut volume = volume(2, [40, 4000, 4000]);
    volume.used = vec![0, 1];
    let is_away = Arc::default();
    let store = with_one_away(&mut volume, &is_away);
    let file = make(&store, "file");
    put(&store, &file, 0, &text(100), Stability::FileSync);
    is_away.store(true, Ordering::Relaxed);
    put(&store, &file, 0, &text(100), Stability::FileSync);
    is_away.store(false, Ordering::Relaxed);
    assert_eq!(store.behind_count(), 1);
    store.full.heard(0, FsError::NoSpace);
    assert_eq!(block_on(store.move_file(&file)), Ok(true));
    assert_eq!((store.behind_count(), store.misplaced_count()), (0, 0));
    assert_eq!(data(&store, &file), text(100));
}

/// A file whose copies are all up to date must not migrate to a full iod that reports less free
/// space than the size of the file.
#[test]
fn a_whole_file_moves_to_a_full_iod_only_if_it_reports_room() {
    let mut volume = volume(2, [40, 4000, 4000]);
    volume.used = vec![0, 1];
    let store = volume.start();
    let [small, large] = ["small", "large"].map(|name| make(&store, name));
    put(&store, &small, 0, &text(100), Stability::FileSync);
    let blocks = vec![7; 100_000];
    put(&store, &large, 0, &blocks, Stability::FileSync);
    store.full.heard(0, FsError::NoSpace);
    let shape = LayoutPolicy { unit: Some(4096), ..LayoutPolicy::default() };
    for (file, moved) in [(small, Ok(true)), (large, Err(FsError::NoSpace))] {
        block_on(store.lay_out(&file, &shape)).expect("it is there");
        assert_eq!(block_on(store.move_file(&file)), moved);
    }
    assert_eq!((data(&store, &small), data(&store, &large)), (text(100), blocks));
}

/// If the layout policy of a file permits no other iod with free space, a full iod makes the WRITE
/// fail.
#[test]
fn data_is_refused_if_its_layout_names_no_iod_with_room() {
    let mut volume = volume(1, [6, 4000, 4000]);
    let store = volume.start();
    let shape = LayoutPolicy { iods: vec![0, 1], copies: Some(2), ..LayoutPolicy::default() };
    let mut refused = 0;
    for number in 0..20 {
        let file = make(&store, &format!("file {number}"));
        block_on(store.lay_out(&file, &shape)).expect("it is there");
        let bytes = Bytes::from(text(100));
        let done = block_on(store.write(&superuser(), &file, 0, bytes, Stability::FileSync));
        refused += u32::from(done.result == Err(FsError::NoSpace));
    }
    assert!(refused > 10, "{refused}");
    assert_eq!(store.behind_count(), 0);
}

/// If the only iods with free space are unreachable, a full iod makes the WRITE fail.
#[test]
fn data_is_refused_if_the_iods_with_room_are_away() {
    let mut volume = volume(2, [8, 4000, 4000]);
    let is_away = Arc::default();
    let store = with_one_away(&mut volume, &is_away);
    let file = make(&store, "file");
    put(&store, &file, 0, &text(100), Stability::FileSync);
    is_away.store(true, Ordering::Relaxed);
    let bytes = Bytes::from(vec![7; 40_000]);
    let done = block_on(store.write(&superuser(), &file, 0, bytes, Stability::FileSync));
    assert!(done.result.is_err() || done.result.is_ok_and(|done| done.count < 40_000));
    assert_eq!(store.full_iods().into_iter().collect::<Vec<_>>(), [0]);
    let (head, behind, ..) =
        block_on(store.whole_head(&file)).expect("it is sound").expect("it has data");
    for (object, copy) in (0..3).flat_map(|object| [(object, 0), (object, 1)]) {
        let (iod, _) = head.copy(object, copy);
        assert!(!behind.has(object, copy) || iod == 1, "object {object} at iod {iod}");
    }
}

/// A file whose policy names a full iod as its first iod uses other iods until the full iod has
/// free space again. It then migrates once.
#[test]
fn a_file_whose_first_iod_is_full_moves_once() {
    let mut volume = volume(1, [4000, 4000, 4000]);
    let store = volume.start();
    let file = make(&store, "file");
    let shape = LayoutPolicy { first: Some(0), width: Some(1), ..LayoutPolicy::default() };
    block_on(store.lay_out(&file, &shape)).expect("it is there");
    store.full.heard(0, FsError::NoSpace);
    put(&store, &file, 0, &text(100), Stability::FileSync);
    assert_ne!(iods_of(&store, "file"), [0]);
    assert_eq!(block_on(store.move_file(&file)), Ok(false), "it lies where a new file would");
    assert!(block_on(store.look_for_room()));
    assert_eq!(block_on(store.move_file(&file)), Ok(true));
    assert_eq!(iods_of(&store, "file"), [0]);
}

#[test]
fn an_iod_that_has_room_again_gets_new_files() {
    let mut volume = volume(1, [6, 4000, 4000]);
    let store = volume.start();
    let mut refused = 0;
    for number in 0..20 {
        let file = make(&store, &format!("file {number}"));
        let bytes = Bytes::from(text(100));
        let done = block_on(store.write(&superuser(), &file, 0, bytes, Stability::FileSync));
        let is_refused = match done.result {
            Ok(done) => done.count < 100,
            Err(error) => error == FsError::NoSpace,
        };
        refused += u32::from(is_refused);
        assert!(refused > 0 || !is_refused);
    }
    assert_eq!(refused, 1, "only the file that met the full iod");
    assert_eq!(iods_of(&store, "file 19"), [1, 2]);
    for number in 0..20 {
        let name = format!("file {number}");
        block_on(store.remove(&superuser(), place(&store, &name))).result.expect("it is there");
    }
    assert_eq!(block_on(store.tend()), Ok(Some(RebalanceReport::default())));
    assert!(store.full_iods().is_empty());
    let file = make(&store, "new");
    put(&store, &file, 0, &text(100), Stability::FileSync);
    assert_eq!(iods_of(&store, "new"), [0, 1, 2]);
}

/// The free space that a volume reports is the number of bytes of data that fit with all copies on
/// different iods.
#[test]
fn room_is_counted_in_data_that_can_be_written() {
    let room = |copies, blocks| {
        let mut volume = volume(copies, blocks);
        let store = volume.start();
        let space = block_on(store.space(&superuser(), &store.root())).expect("all are there").0;
        assert!(space.available_bytes <= space.free_bytes && space.free_bytes <= space.bytes);
        space.bytes / BLOCK
    };
    assert_eq!(room(1, [10, 20, 30]), 60);
    assert_eq!(room(2, [10, 20, 30]), 30);
    assert_eq!(room(2, [10, 20, 300]), 30, "the largest iod has no partner for the rest");
    assert_eq!(room(2, [100, 100, 100]), 150);
}
