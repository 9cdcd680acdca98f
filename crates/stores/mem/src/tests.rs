//! Tests beyond the conformance suite: crashes, limits and times.

use bytes::Bytes;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use leasehold_base::units::FileTime;
use leasehold_fs::{
    Attributes, ByteRange, Caller, Changed, Found, FsError, MaybeReady, Name, NewFile, NewNode,
    ObjectId, OpenFiles as _, Place, Ranges as _, SetAttributes, Stability, Step, Store, Verifier,
    WriteDone,
};

use crate::{Config, MemStore};

/// Returns the result of an operation of this store, which never waits.
fn now<T>(answer: MaybeReady<'_, T>) -> T {
    match pin!(answer).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a store in memory does not wait"),
    }
}

fn superuser() -> Caller {
    Caller { uid: 0, gid: 0, ..Caller::nobody() }
}

fn name(bytes: &str) -> Name<'_> {
    match Step::parse(bytes.as_bytes()) {
        Ok(Step::Child(name)) => name,
        step => panic!("{step:?} is no name"),
    }
}

fn place<'a>(store: &MemStore, file: &'a str) -> Place<'a> {
    Place { directory: store.root(), name: name(file) }
}

fn try_create(store: &MemStore, file: &str) -> Changed<Found> {
    let new = NewFile::Guarded(SetAttributes::default());
    now(store.create(&superuser(), place(store, file), &new))
}

fn create(store: &MemStore, file: &str) -> ObjectId {
    try_create(store, file).result.expect("there is room").object
}

fn write(
    store: &MemStore,
    object: &ObjectId,
    offset: u64,
    data: &[u8],
    stability: Stability,
) -> Result<WriteDone, FsError> {
    let data = Bytes::copy_from_slice(data);
    let done = now(store.write(&superuser(), object, offset, data, stability)).result;
    store.check();
    done
}

fn unstable(store: &MemStore, object: &ObjectId, offset: u64, data: &[u8]) -> Verifier {
    write(store, object, offset, data, Stability::Unstable).expect("there is room").verifier
}

fn commit(store: &MemStore, object: &ObjectId, offset: u64, length: u32) -> Verifier {
    let done = now(store.commit(&superuser(), object, offset, length)).result;
    store.check();
    done.expect("the commit succeeds").verifier
}

fn crash(store: &MemStore) {
    store.crash();
    store.check();
}

fn resize(store: &MemStore, object: &ObjectId, size: u64) {
    let changes = SetAttributes { size: Some(size), ..SetAttributes::default() };
    now(store.setattr(&superuser(), object, &changes, None)).result.expect("a file can be resized");
    store.check();
}

fn contents(store: &MemStore, object: &ObjectId) -> Vec<u8> {
    now(store.read(&superuser(), object, 0, 1 << 20)).expect("it is a file").data.to_vec()
}

fn attributes(store: &MemStore, object: &ObjectId) -> Attributes {
    now(store.getattr(object)).expect("it is there")
}

#[test]
fn a_crash_loses_uncommitted_data_and_changes_the_verifier() {
    let store = MemStore::default();
    let file = create(&store, "file");
    let first = unstable(&store, &file, 0, b"kept");
    assert_eq!(commit(&store, &file, 0, 0), first);
    unstable(&store, &file, 2, b"lost and more");
    assert_eq!(contents(&store, &file), b"kelost and more");
    crash(&store);
    assert_eq!(contents(&store, &file), b"kept");
    assert_ne!(commit(&store, &file, 0, 0), first);
}

#[test]
fn a_crash_keeps_stable_writes() {
    let store = MemStore::default();
    let file = create(&store, "file");
    for (offset, stability) in [(0, Stability::DataSync), (3, Stability::FileSync)] {
        let done = write(&store, &file, offset, b"abc", stability).expect("there is room");
        assert!(done.stability >= stability);
    }
    crash(&store);
    assert_eq!(contents(&store, &file), b"abcabc");
}

#[test]
fn a_commit_of_a_range_leaves_the_rest_unstable() {
    let store = MemStore::default();
    let file = create(&store, "file");
    unstable(&store, &file, 0, &[1; 12_288]);
    commit(&store, &file, 4096, 4096);
    crash(&store);
    let mut kept = vec![0; 4096];
    kept.extend([1; 4096]);
    assert_eq!(contents(&store, &file), kept);
}

#[test]
fn bytes_past_a_stable_end_do_not_reappear() {
    let store = MemStore::default();
    let file = create(&store, "file");
    unstable(&store, &file, 0, &[7; 200]);
    resize(&store, &file, 100);
    crash(&store);
    assert_eq!(contents(&store, &file), [0; 100]);
    write(&store, &file, 0, &[7; 100], Stability::FileSync).expect("there is room");
    unstable(&store, &file, 0, &[8; 300]);
    resize(&store, &file, 50);
    resize(&store, &file, 80);
    crash(&store);
    let mut kept = vec![7; 50];
    kept.extend([0; 30]);
    assert_eq!(contents(&store, &file), kept);
}

#[test]
fn a_crash_frees_unstable_blocks() {
    let store = MemStore::default();
    let file = create(&store, "file");
    let before = now(store.space(&superuser(), &file)).expect("it is there").0;
    unstable(&store, &file, 1 << 40, &[1; 5000]);
    let between = now(store.space(&superuser(), &file)).expect("it is there").0;
    assert_eq!(between.free_bytes, before.free_bytes - 8192);
    assert_eq!(attributes(&store, &file).used, 8192);
    crash(&store);
    assert_eq!(now(store.space(&superuser(), &file)).expect("it is there").0, before);
}

#[test]
fn a_crash_restores_times_but_never_repeats_one() {
    let store = MemStore::default();
    let file = create(&store, "file");
    let before = attributes(&store, &file);
    unstable(&store, &file, 0, b"lost");
    let lost = attributes(&store, &file);
    assert!(lost.changed > before.changed && lost.modified > before.modified);
    crash(&store);
    assert_eq!(attributes(&store, &file), before);
    unstable(&store, &file, 0, b"anew");
    assert!(attributes(&store, &file).changed > lost.changed);
}

#[test]
fn names_and_attributes_survive_a_crash() {
    let store = MemStore::default();
    let file = create(&store, "file");
    let changes = SetAttributes { uid: Some(7), ..SetAttributes::default() };
    now(store.setattr(&superuser(), &file, &changes, None)).result.expect("the superuser may");
    let before = attributes(&store, &file);
    crash(&store);
    let found = now(store.lookup(&superuser(), &store.root(), name("file"))).expect("it is there");
    assert_eq!(found.object, file);
    assert_eq!(found.attributes, before);
}

#[test]
fn changes_have_the_set_time_and_never_an_earlier_one() {
    let store = MemStore::default();
    let at = |seconds| FileTime { seconds, nanoseconds: 0 };
    store.set_now(at(1000));
    let file = create(&store, "file");
    assert_eq!(attributes(&store, &file).changed, at(1000));
    store.set_now(at(10));
    unstable(&store, &file, 0, b"x");
    assert_eq!(attributes(&store, &file).modified, FileTime { seconds: 1000, nanoseconds: 1 });
    store.set_now(at(2000));
    unstable(&store, &file, 0, b"x");
    assert_eq!(attributes(&store, &file).modified, at(2000));
}

#[test]
fn a_number_is_reused_but_not_an_id() {
    let store = MemStore::default();
    let old = create(&store, "file");
    let number = attributes(&store, &old).file_id;
    now(store.remove(&superuser(), place(&store, "file"))).result.expect("it is there");
    let new = create(&store, "file");
    assert_eq!(attributes(&store, &new).file_id, number);
    assert_ne!(new, old);
    assert_eq!(now(store.getattr(&old)), Err(FsError::Stale));
}

#[test]
fn unknown_ids_are_bad_handles() {
    let store = MemStore::default();
    let root = store.root();
    let mut changed = root.as_bytes().to_vec();
    changed[15] = 9;
    for bytes in [&b""[..], b"short", &[0; 20], &[0xff; 16], &changed] {
        let object = ObjectId::new(bytes).expect("it is short enough");
        assert_eq!(now(store.getattr(&object)), Err(FsError::BadHandle), "{object:?}");
    }
}

#[test]
fn a_full_store_returns_no_space_and_changes_nothing() {
    let store =
        MemStore::new(Config { capacity_bytes: 3 * 4096, capacity_files: 3, ..Config::default() });
    let file = create(&store, "file");
    let before = attributes(&store, &file);
    let done = write(&store, &file, 0, &[1; 8193], Stability::Unstable);
    assert_eq!(done, Err(FsError::NoSpace));
    assert_eq!(attributes(&store, &file), before);
    write(&store, &file, 0, &[1; 8192], Stability::Unstable).expect("two blocks are free");
    write(&store, &file, 100, &[1; 8000], Stability::Unstable).expect("it takes no more room");
    let directory = place(&store, "directory");
    let new = SetAttributes::default();
    let made = now(store.make(&superuser(), directory, &NewNode::Directory, &new));
    assert_eq!(made.result, Err(FsError::NoSpace), "a directory takes a block");
    create(&store, "second");
    assert_eq!(try_create(&store, "third").result, Err(FsError::NoSpace), "three objects");
    store.check();
}

#[test]
fn a_crash_ends_all_holds() {
    let store = MemStore::default();
    let (file, named) = (create(&store, "file"), create(&store, "named"));
    let holds = [&file, &file, &named].map(|file| now(store.hold(file)).expect("it is there"));
    unstable(&store, &file, 0, b"data");
    now(store.remove(&superuser(), place(&store, "file"))).result.expect("it is there");
    store.check();
    assert_eq!(contents(&store, &file), b"data");
    crash(&store);
    assert_eq!(now(store.getattr(&file)), Err(FsError::Stale));
    // The file number of the lost file is in use again.
    let other = create(&store, "other");
    let held = now(store.hold(&other)).expect("it is there");
    drop(holds);
    now(store.remove(&superuser(), place(&store, "other"))).result.expect("it is there");
    store.check();
    assert!(now(store.getattr(&other)).is_ok() && now(store.getattr(&named)).is_ok());
    drop(held);
    store.check();
    assert_eq!(now(store.getattr(&other)), Err(FsError::Stale));
}

/// Compares allocations and deallocations of random ranges with a list of bytes.
#[test]
fn ranges_match_a_list_of_bytes() {
    const LENGTH: usize = 5 * 4096;
    let mut random = leasehold_base::random::Random::from_seed(1);
    for _ in 0..200 {
        let (store, mut model) = (MemStore::default(), vec![7; LENGTH]);
        let file = create(&store, "file");
        unstable(&store, &file, 0, &model);
        for _ in 0..10 {
            let mut number =
                |below: usize| usize::try_from(random.below(below as u64)).expect("it is small");
            let (offset, length, allocates) = (number(LENGTH), 1 + number(LENGTH), number(2) == 0);
            let range = ByteRange { offset: offset as u64, length: length as u64 };
            let changed = match allocates {
                true => now(store.allocate(&superuser(), &file, range)),
                false => now(store.deallocate(&superuser(), &file, range)),
            };
            changed.result.expect("there is room");
            store.check();
            let end = offset + length;
            if allocates && model.len() < end {
                model.resize(end, 0);
            } else if !allocates {
                let end = end.min(model.len());
                model[offset..end].fill(0);
            }
            assert_eq!(contents(&store, &file), model);
        }
        crash(&store);
        commit(&store, &file, 0, 0);
    }
}
