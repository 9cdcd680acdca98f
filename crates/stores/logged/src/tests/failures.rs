//! Tests of failures of the log's device or the file system, of a damaged log, and of a full log.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use leasehold_base::random::Random;
use leasehold_base::units::FileSystemId;
use leasehold_fs::suite::block_on;
use leasehold_fs::{
    Blocking, FsError, Job, NewFile, ObjectId, Place, SetAttributes, Stability, Store,
};

use super::device::Device;
use super::forgetful::Forgetful;
use super::power_cuts::{Machine, name, superuser};
use crate::format::Owner;
use crate::record::Record;
use crate::{Event, Logged, OpenError, SIZE_MIN, Standing};

fn create(store: &Logged, text: &str) -> Result<ObjectId, FsError> {
    let place = Place { directory: store.root(), name: name(text) };
    let file = NewFile::Guarded(SetAttributes::default());
    block_on(store.create(&superuser(), place, &file)).result.map(|found| found.object)
}

fn write(store: &Logged, object: &ObjectId, offset: u64, data: &[u8]) -> Result<(), FsError> {
    let (data, stability) = (Bytes::copy_from_slice(data), Stability::FileSync);
    block_on(store.write(&superuser(), object, offset, data, stability)).result.map(|_| ())
}

fn read(store: &Logged, object: &ObjectId) -> Vec<u8> {
    let read = block_on(store.read(&superuser(), object, 0, 1 << 20));
    read.expect("it can be read").data.to_vec()
}

fn is_there(store: &Logged, text: &str) -> bool {
    block_on(store.lookup(&superuser(), &store.root(), name(text))).is_ok()
}

fn forgets_all(machine: &mut Machine) {
    machine.cut(&mut Random::from_seed(1), 0);
}

#[test]
fn a_lost_object_keeps_its_id() {
    let mut machine = Machine::new();
    let store = machine.start().expect("the log can be made");
    let file = create(&store, "file").expect("there is room");
    write(&store, &file, 0, b"answered").expect("there is room");
    let before = block_on(store.getattr(&file)).expect("it is there");
    forgets_all(&mut machine);
    let store = machine.start().expect("it can be replayed");
    assert_eq!(machine.replayed().map(|done| done.made), Some(1));
    let after = block_on(store.getattr(&file)).expect("it is there again");
    assert_eq!((after.file_id, after.modified), (before.file_id, before.modified));
    assert_eq!(read(&store, &file), b"answered");
    // The table of surrogate objects must survive a clean stop, too.
    assert!(store.close());
    let store = machine.start().expect("it was closed");
    assert!(machine.replayed().is_none());
    assert_eq!(block_on(store.getattr(&file)).map(|seen| seen.file_id), Ok(before.file_id));
    let place = Place { directory: store.root(), name: name("file") };
    block_on(store.remove(&superuser(), place)).result.expect("it is there");
    assert_eq!(block_on(store.getattr(&file)), Err(FsError::Stale));
    assert!(store.close());
    let store = machine.start().expect("it was closed");
    assert_eq!(block_on(store.getattr(&file)), Err(FsError::Stale));
    assert_eq!(store.below.encode(), b"", "a removed object needs no surrogate");
}

#[test]
fn an_exclusive_create_can_be_repeated_after_its_file_was_lost() {
    let mut machine = Machine::new();
    let store = machine.start().expect("the log can be made");
    let place = Place { directory: store.root(), name: name("file") };
    let file = NewFile::exclusive(*b"verifier");
    let first = block_on(store.create(&superuser(), place, &file)).result;
    let first = first.expect("the name is free").object;
    forgets_all(&mut machine);
    let store = machine.start().expect("it can be replayed");
    let again = block_on(store.create(&superuser(), place, &file)).result;
    assert_eq!(again.map(|found| found.object), Ok(first));
    let other = NewFile::exclusive(*b"VERIFIER");
    let refused = block_on(store.create(&superuser(), place, &other)).result;
    assert_eq!(refused.map(|found| found.object), Err(FsError::AlreadyExists));
}

#[test]
fn a_name_of_a_newer_local_object_is_left_alone() {
    let mut machine = Machine::new();
    let store = machine.start().expect("the log can be made");
    let file = create(&store, "file").expect("there is room");
    write(&store, &file, 0, b"answered").expect("there is room");
    create(&store, "removed").expect("there is room");
    let place = |text| Place { directory: machine.disk.root(), name: name(text) };
    block_on(store.remove(&superuser(), place("removed"))).result.expect("it is there");
    forgets_all(&mut machine);
    // A local program changes the names after the crash, before the server starts.
    let place = |text| Place { directory: machine.disk.root(), name: name(text) };
    let new = NewFile::Guarded(SetAttributes::default());
    let others = ["file", "removed"].map(|text| {
        let made = block_on(machine.disk.create(&superuser(), place(text), &new));
        made.result.expect("there is room").object
    });
    let store = machine.start().expect("it can be replayed");
    assert_eq!(machine.replayed().map(|done| (done.taken, done.failed)), Some((1, 0)));
    for (text, other) in ["file", "removed"].into_iter().zip(others) {
        let found = block_on(store.lookup(&superuser(), &store.root(), name(text)));
        assert_eq!(found.map(|found| found.object), Ok(other));
    }
    // The answered data survives nevertheless.
    assert_eq!(read(&store, &file), b"answered");
    forgets_all(&mut machine);
    let store = machine.start().expect("it can be replayed");
    assert_eq!(read(&store, &file), b"answered");
}

#[test]
fn a_full_log_waits_for_the_disk() {
    let mut machine = Machine::new();
    let store = machine.start().expect("the log can be made");
    let file = create(&store, "file").expect("there is room");
    // Write four times as much data as the log can contain.
    for turn in 0..128_u64 {
        let byte = u8::try_from(turn).expect("it is small");
        write(&store, &file, (turn % 3) << 18, &vec![byte; 1 << 18]).expect("there is room");
    }
    let before = read(&store, &file);
    forgets_all(&mut machine);
    let store = machine.start().expect("it can be replayed");
    assert!(read(&store, &file) == before);
}

#[test]
fn a_torn_frame_loses_only_unanswered_changes() {
    for seed in 0..50 {
        let mut machine = Machine::new();
        let store = machine.start().expect("the log can be made");
        create(&store, "first").expect("there is room");
        let file = create(&store, "second").expect("there is room");
        // The device loses these writes, as in a power cut before their sync.
        machine.device.sync_nothing();
        write(&store, &file, 0, &[7; 20_000]).expect("there is room");
        machine.cut(&mut Random::from_seed(seed), 0);
        let store = machine.start().expect("it can be replayed");
        assert!(is_there(&store, "first") && is_there(&store, "second"));
        assert_eq!(machine.replayed().map(|done| done.damaged), Some(0));
        let data = read(&store, &file);
        assert!(data.is_empty() || data == [7; 20_000]);
    }
}

#[test]
fn damage_of_answered_frames_is_reported() {
    let mut machine = Machine::new();
    let store = machine.start().expect("the log can be made");
    for text in ["first", "second", "third"] {
        create(&store, text).expect("there is room");
    }
    let at = machine.device.find(b"second").expect("it is in the log");
    machine.device.spoil(at, 3);
    forgets_all(&mut machine);
    let store = machine.start().expect("it can be replayed");
    assert_eq!(machine.replayed().map(|done| done.damaged), Some(1));
    assert!(is_there(&store, "first") && !is_there(&store, "second") && is_there(&store, "third"));
}

#[test]
fn without_the_log_the_disk_is_synced() {
    let mut machine = Machine::new();
    let store = machine.start().expect("the log can be made");
    create(&store, "before").expect("there is room");
    machine.device.fail(true);
    create(&store, "meanwhile").expect("the disk is well");
    create(&store, "later").expect("the disk is well");
    let events = core::mem::take(&mut *machine.events.lock().expect("no panic"));
    assert!(matches!(events[..], [Event::LogFailed(_)]), "told once: {events:?}");
    assert_eq!(machine.notes.load(Ordering::Relaxed), 1, "the note says that the log is void");
    machine.device.fail(false);
    forgets_all(&mut machine);
    let place = |text| Place { directory: machine.disk.root(), name: name(text) };
    for text in ["before", "meanwhile", "later"] {
        let Place { directory, name } = place(text);
        block_on(machine.disk.lookup(&superuser(), &directory, name)).expect("it was synced");
    }
    // Remove a file that only the log would restore. The start must not replay the log, because the
    // log is out of date.
    let removed = block_on(machine.disk.remove(&superuser(), place("before")));
    removed.result.expect("it is there");
    machine.disk.sync().expect("the disk is well");
    machine.standing = Standing::Void;
    let store = machine.start().expect("the log can be restarted");
    assert!(!is_there(&store, "before"));
}

/// The log's device fails, and neither its header nor the state directory can record that the log
/// is out of date. No change may be answered then, because a start in another boot would replay the
/// log over newer changes.
#[test]
fn no_change_is_answered_while_a_start_would_undo_it() {
    let mut machine = Machine::new();
    let store = machine.start().expect("the log can be made");
    let file = create(&store, "file").expect("there is room");
    write(&store, &file, 0, b"old").expect("there is room");
    machine.device.fail(true);
    machine.notes_fail.store(true, Ordering::Relaxed);
    assert_eq!(write(&store, &file, 0, b"new"), Err(FsError::Io));
    assert_eq!(write(&store, &file, 0, b"NEW"), Err(FsError::Io));
    let stability = Stability::Unstable;
    let (caller, data) = (superuser(), Bytes::from_static(b"new"));
    let unstable = block_on(store.write(&caller, &file, 0, data, stability));
    unstable.result.expect("it promises nothing");
    let committed = block_on(store.commit(&superuser(), &file, 0, 0)).result;
    assert_eq!(committed.map(|_| ()), Err(FsError::Io));
    assert!(!store.close(), "the note that the log is needed must stay");
    let events = core::mem::take(&mut *machine.events.lock().expect("no panic"));
    let once = matches!(events[..], [Event::LogFailed(_), Event::NotVoid(_)]);
    assert!(once, "told once: {events:?}");
    // When the record succeeds, changes are answered again, and no start undoes them.
    machine.notes_fail.store(false, Ordering::Relaxed);
    write(&store, &file, 0, b"new").expect("the disk is well");
    assert_eq!(machine.notes.load(Ordering::Relaxed), 1);
    assert!(!store.close(), "the note that the log is void must stay");
    drop(store);
    machine.device.fail(false);
    machine.standing = Standing::Void;
    forgets_all(&mut machine);
    let store = machine.start().expect("the log can be restarted");
    assert_eq!(read(&store, &file), b"new");
}

/// A clean shutdown may report success only if the log header itself marks the log as out of date.
/// Otherwise the owner would remove the record in the state directory, and a later start would
/// replay the log.
#[test]
fn a_void_log_that_can_be_marked_at_the_end_needs_no_note() {
    let mut machine = Machine::new();
    let store = machine.start().expect("the log can be made");
    let file = create(&store, "file").expect("there is room");
    write(&store, &file, 0, b"old").expect("there is room");
    machine.device.fail(true);
    write(&store, &file, 0, b"new").expect("the disk is well");
    machine.device.fail(false);
    assert!(store.close(), "the device accepts the mark again");
    drop(store);
    forgets_all(&mut machine);
    let store = machine.start().expect("it was closed");
    assert!(machine.replayed().is_none());
    assert_eq!(read(&store, &file), b"new");
}

#[test]
fn changes_lost_by_a_failed_disk_are_in_the_log() {
    let mut machine = Machine::new();
    let store = machine.start().expect("the log can be made");
    let file = create(&store, "file").expect("there is room");
    write(&store, &file, 0, b"answered").expect("there is room");
    machine.disk.fail_after(Some(0));
    store.checkpoint();
    machine.disk.fail_after(None);
    assert_eq!(create(&store, "another"), Err(FsError::Io));
    drop(store);
    // The kernel has dropped the pages that it could not write, so a later sync reports success.
    // The changes are lost until a replay.
    let boot = machine.boot;
    forgets_all(&mut machine);
    machine.boot = boot;
    let store = machine.start().expect("it can be replayed");
    assert_eq!(read(&store, &file), b"answered");
}

/// An executor that runs each job on a new thread.
struct Elsewhere;

impl Blocking for Elsewhere {
    fn run(&self, job: Job) {
        thread::spawn(job);
    }
}

/// An executor with a single thread: it starts the jobs that a job schedules only after the end of
/// this job.
#[derive(Default)]
struct InTurn(Mutex<VecDeque<Job>>);

impl Blocking for InTurn {
    fn run(&self, job: Job) {
        self.0.lock().expect("no panic").push_back(job);
    }
}

/// If the executor has a single thread, the job that writes the log must not wait for a half that a
/// later job on the same thread frees. This would be a deadlock.
#[test]
fn a_full_log_waits_for_no_later_job() {
    let pool = Arc::new(InTurn::default());
    let machine = Machine { blocking: Arc::<InTurn>::clone(&pool), ..Machine::new() };
    let store = machine.start().expect("the log can be made");
    let data = Bytes::from(vec![7; 1 << 20]);
    let record = Record::Written { object: store.root(), offset: 0, length: 1 << 20, state: None };
    // The calls need more space than the log has, so they need a half that a later job frees.
    let written: Vec<_> = (0..16).map(|_| store.journal.add(&record, data.clone())).collect();
    let (sender, ended) = mpsc::channel();
    thread::spawn(move || {
        let next = || pool.0.lock().expect("no panic").pop_front();
        while let Some(job) = next() {
            job();
        }
        sender.send(()).expect("the test waits");
    });
    ended.recv_timeout(Duration::from_secs(60)).expect("no job waits for a later job");
    assert!(written.into_iter().all(|written| block_on(written) == Ok(Ok(()))));
}

/// After a failed COMMIT the journal writes the log header, and may wait for another write. So this
/// must run on a blocking thread and not on an event loop.
#[test]
fn a_failed_commit_is_recorded_on_a_blocking_thread() {
    let machine = Machine { blocking: Arc::new(Elsewhere), ..Machine::new() };
    let store = machine.start().expect("the log can be made");
    let file = create(&store, "file").expect("there is room");
    write(&store, &file, 0, b"answered").expect("there is room");
    machine.disk.fail_after(Some(0));
    let committed = block_on(store.commit(&superuser(), &file, 0, 0));
    assert_eq!(committed.result.map(|_| ()), Err(FsError::Io));
    machine.disk.fail_after(None);
    assert_ne!(machine.device.writer(), Some(thread::current().id()));
    assert_eq!(create(&store, "another"), Err(FsError::Io), "the log contains the lost data");
}

#[test]
fn a_volume_with_another_number_is_recognised_by_its_uuid() {
    let root = Machine::new().disk.root();
    let owner = |number, volume: Option<u8>| Owner {
        root,
        file_system: FileSystemId(number),
        volume: volume.map(|byte| [byte; 16]),
    };
    for (one, other, unknown, last) in [
        (owner(1, Some(1)), owner(1, Some(1)), true, true),
        (owner(1, Some(1)), owner(2, Some(1)), false, true),
        (owner(1, Some(1)), owner(1, Some(2)), false, false),
        (owner(1, None), owner(2, None), false, false),
        (owner(1, None), owner(2, Some(1)), false, false),
        (owner(1, None), owner(1, Some(1)), true, true),
    ] {
        assert_eq!(one.is(&other, Standing::Unknown), unknown, "{one:?} {other:?}");
        assert_eq!(one.is(&other, Standing::Last), last, "{one:?} {other:?}");
    }
}

#[test]
fn a_log_of_another_export_is_refused() {
    let machine = Machine::new();
    drop(machine.start().expect("the log can be made"));
    let other = Machine { disk: Arc::new(Forgetful::within("other")), ..Machine::new() };
    let other = Machine { device: machine.device.clone(), ..other };
    assert!(matches!(other.start(), Err(OpenError::OtherExport)));
    // The roots of two file systems of one type have equal object ids, so a log must be refused by
    // the UUID of the volume.
    let volume = Some(*b"another's UUID..");
    let other = Machine { device: machine.device.clone(), volume, ..Machine::new() };
    assert!(matches!(other.start(), Err(OpenError::OtherExport)));
    let other = Machine { standing: Standing::Last, ..other };
    assert!(matches!(other.start(), Err(OpenError::OtherExport)));
    machine.device.spoil(0, 8192);
    assert!(matches!(machine.start(), Err(OpenError::NoLog)));
    // A device with other data, here where Btrfs has its superblock, must be refused and not be
    // overwritten.
    let disk = Machine::new();
    disk.device.spoil(64 << 10, 8);
    assert!(matches!(disk.start(), Err(OpenError::NoLog)));
    // The device of the last log is empty. The log may have contained answered changes, so the
    // start must fail.
    let emptied = Machine { standing: Standing::Last, ..Machine::new() };
    assert!(matches!(emptied.start(), Err(OpenError::Emptied)));
    let small = Machine { device: Device::default(), ..Machine::new() };
    assert!(matches!(small.start_with(SIZE_MIN - 1), Err(OpenError::TooSmall)));
}
