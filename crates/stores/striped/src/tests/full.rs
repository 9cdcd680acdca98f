//! Iods whose disks are full.

use std::sync::Arc;

use bytes::Bytes;
use leasehold_base::units::FileSystemId;
use leasehold_fs::suite::block_on;
use leasehold_fs::{FsError, Stability, Store as _};
use leasehold_store_mem::{Config, MemStore};

use super::volume::{Volume, data, make, place, put, superuser, text};
use crate::{Striped, Tended};

/// The bytes of a block of a store in memory.
const BLOCK: u64 = 4096;

/// A volume whose iods have room for so many blocks.
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

/// Two of three iods have room, and hold two copies of everything.
#[test]
fn with_two_copies_one_full_iod_refuses_no_data() {
    // Room for the mark, some directories and a few objects.
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

/// Data that finds room for one of two copies is refused: it would have one copy for good.
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
    assert_eq!(block_on(store.tend()), Ok(Some(Tended::default())));
    assert!(store.full_iods().is_empty());
    let file = make(&store, "new");
    put(&store, &file, 0, &text(100), Stability::FileSync);
    assert_eq!(iods_of(&store, "new"), [0, 1, 2]);
}

/// The room of a volume is the data that finds room, with all its copies on different iods.
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
