//! Tests of the objects of files that clients hold.

use leasehold_fs::suite::block_on;
use leasehold_fs::{FsError, Held, ObjectId, OpenFiles as _, Stability, Store as _};

use super::volume::{Volume, data, make, place, put, superuser, text};
use crate::Striped;

/// The number of objects of a file with 100 bytes.
const OBJECTS: u64 = 3;

fn hold(store: &Striped, file: &ObjectId) -> Held {
    block_on(store.hold(file)).expect("it is a file")
}

fn remove(store: &Striped, text: &str) {
    block_on(store.remove(&superuser(), place(store, text))).result.expect("it is there");
}

/// Removes the leftover objects that a search finds; returns their number.
fn removed_by_search(store: &Striped) -> u64 {
    let found = block_on(store.search()).expect("the names are there");
    block_on(store.remove_found(&found)).iter().sum()
}

#[test]
fn a_search_spares_the_objects_of_a_held_file() {
    let mut volume = Volume::new();
    let store = volume.start();
    let file = make(&store, "file");
    put(&store, &file, 0, &text(100), Stability::FileSync);
    let held = hold(&store, &file);
    let all = volume.objects();
    remove(&store, "file");
    assert_eq!((volume.objects(), removed_by_search(&store)), (all, 0));
    assert_eq!(data(&store, &file), text(100));
    drop(held);
    assert_eq!(block_on(store.getattr(&file)), Err(FsError::Stale));
    assert_eq!((volume.objects(), removed_by_search(&store)), (all, 0), "the objects are queued");
    assert!(store.held.has_unlinked());
    assert_eq!(block_on(store.finish_removals()), None);
    assert_eq!(volume.objects(), all - OBJECTS);
    assert!(!store.held.has_unlinked());
}

#[test]
fn the_objects_of_a_file_that_grew_without_a_name_are_removed() {
    for length in [0, 10] {
        let mut volume = Volume::new();
        let store = volume.start();
        let (file, other) = (make(&store, "file"), make(&store, "other"));
        put(&store, &file, 0, &text(length), Stability::FileSync);
        let held = hold(&store, &file);
        remove(&store, "file");
        put(&store, &file, 0, &text(100), Stability::FileSync);
        let grown = volume.objects();
        assert_eq!(removed_by_search(&store), 0);
        assert_eq!(data(&store, &file), text(100));
        drop(held);
        // The next removal also removes the objects in the queue.
        remove(&store, "other");
        let left = volume.objects();
        assert_eq!(left, grown - OBJECTS, "{length} bytes before the removal");
        assert_eq!(block_on(store.getattr(&other)), Err(FsError::Stale));
    }
}

#[test]
fn a_restart_makes_the_objects_of_a_held_file_leftovers() {
    let mut volume = Volume::new();
    let store = volume.start();
    let file = make(&store, "file");
    put(&store, &file, 0, &text(100), Stability::FileSync);
    let held = hold(&store, &file);
    remove(&store, "file");
    volume.crash();
    let store = volume.start();
    assert_eq!(block_on(store.getattr(&file)), Err(FsError::Stale));
    assert_eq!(removed_by_search(&store), OBJECTS);
    drop(held);
    assert_eq!(removed_by_search(&store), 0);
}
