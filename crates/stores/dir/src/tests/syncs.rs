//! Tests of the times at which syncs run, and of the effects of a failed sync.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use leasehold_fs::unsettled::taking;
use leasehold_fs::{
    Changed, FsError, Inline, MaybeReady, NewFile, ObjectId, SetAttributes, Stability, Store,
    Verifier, WriteDone,
};

use super::harness::{Make, VERIFIER, World, superuser, wait};
use super::script::Script;
use crate::object::Reach;
use crate::sync::Extent;
use crate::{Durability, HandleSource};

fn write(world: &World, file: ObjectId, stability: Stability) -> Changed<WriteDone> {
    write_data(world, file, Bytes::from_static(b"data"), stability)
}

fn write_kib(world: &World, file: ObjectId, kib: usize) -> WriteDone {
    let data = Bytes::from(vec![7; kib << 10]);
    write_data(world, file, data, Stability::Unstable).result.expect("there is room")
}

fn write_data(world: &World, file: ObjectId, data: Bytes, how: Stability) -> Changed<WriteDone> {
    wait(world.store.write(&superuser(), &file, 0, data, how))
}

fn commit(world: &World, file: ObjectId) -> Result<Verifier, FsError> {
    let done = wait(world.store.commit(&superuser(), &file, 0, 0));
    done.result.map(|committed| committed.verifier)
}

#[test]
fn a_store_in_memory_syncs_nothing() {
    let script = Script::default();
    let durability = Durability::Memory;
    let syncer = Box::new(script.clone());
    let world = World::make(Make { durability, syncer, ..Make::default() });
    let file = world.file("a");
    let written = write(&world, file, Stability::FileSync).result.expect("it can be written");
    assert_eq!(written.stability, Stability::FileSync);
    assert_eq!(commit(&world, file), Ok(written.verifier));
    assert_eq!(world.store.settle(), None, "nothing is vouched for");
    assert_eq!(script.take(), []);
}

/// Write gathering: all changes that arrive during a sync share the next sync, which has the
/// largest extent that any of them requests.
#[test]
fn all_waiting_changes_share_a_sync() {
    let script = Script::default();
    let world = script.world();
    let file = world.file("a");
    script.take();
    script.change(|state| state.is_closed = true);
    thread::scope(|scope| {
        let first = scope.spawn(|| write(&world, file, Stability::DataSync).result.map(drop));
        script.wait_for(1);
        let caller = superuser();
        let data = Bytes::from_static(b"more");
        let write = |at, stability| world.store.write(&caller, &file, at, data.clone(), stability);
        let kinds = [Stability::DataSync, Stability::FileSync].into_iter().cycle();
        let answers: Vec<_> = (0..20).zip(kinds).map(|(at, kind)| write(at, kind)).collect();
        let commits: Vec<_> = (0..5).map(|at| world.store.commit(&caller, &file, at, 1)).collect();
        script.change(|state| state.is_closed = false);
        assert_eq!(first.join().expect("it does not panic"), Ok(()));
        for answer in answers {
            wait(answer).result.expect("it can be written");
        }
        for answer in commits {
            wait(answer).result.expect("it can be committed");
        }
    });
    let of_file = |extent| (extent, "a".to_owned());
    assert_eq!(script.take(), [of_file(Extent::Data), of_file(Extent::Object)]);
}

/// Write gathering with clients that write again after each reply. The changes that arrived during
/// a sync, and the next changes of the clients of that sync, do not alternate: they share the next
/// sync.
#[test]
fn returning_clients_share_a_sync_with_waiting_changes() {
    let script = Script::default();
    let world = script.world();
    let file = world.file("a");
    script.take();
    let patience = Duration::from_mins(1);
    script.change(|state| (state.is_closed, state.patience) = (true, patience));
    let (caller, data) = (superuser(), Bytes::from_static(b"data"));
    let write = |at| world.store.write(&caller, &file, at, data.clone(), Stability::FileSync);
    thread::scope(|scope| {
        let first = scope.spawn(|| wait(write(0)));
        script.wait_for(1);
        let meanwhile = write(8);
        script.change(|state| state.is_closed = false);
        assert!(first.join().expect("it does not panic").result.is_ok());
        for answer in [write(16), meanwhile] {
            assert!(wait(answer).result.is_ok());
        }
    });
    assert_eq!(script.take().len(), 2);
}

/// A sync does not wait long for clients that send no further change.
#[test]
fn the_wait_for_clients_that_do_not_return_is_short() {
    let script = Script::default();
    let world = script.world();
    let file = world.file("a");
    script.take();
    script.change(|state| (state.is_closed, state.patience) = (true, Duration::from_millis(1)));
    let (caller, data) = (superuser(), Bytes::from_static(b"data"));
    let write = |at| world.store.write(&caller, &file, at, data.clone(), Stability::FileSync);
    thread::scope(|scope| {
        let first = scope.spawn(|| wait(write(0)));
        script.wait_for(1);
        let meanwhile = write(8);
        script.change(|state| state.is_closed = false);
        assert!(first.join().expect("it does not panic").result.is_ok());
        assert!(wait(meanwhile).result.is_ok());
    });
    assert_eq!(script.take().len(), 2);
}

/// Write gathering of all requests in one read of a socket: the sync starts after all these
/// changes.
#[test]
fn changes_that_arrive_together_share_a_sync() {
    let script = Script::default();
    let world = script.world();
    let file = world.file("a");
    script.take();
    let (caller, data) = (superuser(), Bytes::from_static(b"data"));
    let write = |at| world.store.write(&caller, &file, at, data.clone(), Stability::FileSync);
    let answers: Vec<_> = (0..20).map(write).collect();
    for answer in answers {
        wait(answer).result.expect("it can be written");
    }
    assert_eq!(script.take(), [(Extent::Object, "a".to_owned())]);
}

/// The data of a failed sync is lost, but the kernel would report success for the next sync. So no
/// data from before the failure may count as saved.
#[test]
fn a_failed_sync_changes_the_verifier() {
    let script = Script::default();
    let world = script.world();
    let file = world.file("a");
    let first = write(&world, file, Stability::Unstable).result.expect("it can be written");
    assert_eq!(first.verifier, VERIFIER);
    script.change(|state| state.is_failing = true);
    assert_eq!(commit(&world, file), Err(FsError::Io));
    script.change(|state| state.is_failing = false);
    let committed = commit(&world, file).expect("the disk works again");
    assert_ne!(committed, first.verifier, "the client must write again");
    let second = write(&world, file, Stability::Unstable).result.expect("it can be written");
    assert_eq!(second.verifier, committed);
    script.change(|state| state.is_failing = true);
    assert_eq!(write(&world, file, Stability::FileSync).result, Err(FsError::Io));
    script.change(|state| state.is_failing = false);
    let third = commit(&world, file).expect("the disk works again");
    assert!(third != committed && third != first.verifier);
}

/// The data of a WRITE that arrives during a failed sync may also be lost.
#[test]
fn a_failed_sync_fails_all_joined_changes() {
    let script = Script::default();
    let world = script.world();
    let file = world.file("a");
    script.take();
    script.change(|state| (state.is_closed, state.is_failing) = (true, true));
    thread::scope(|scope| {
        let first = scope.spawn(|| write(&world, file, Stability::DataSync).result);
        script.wait_for(1);
        let caller = superuser();
        let data = Bytes::from_static(b"more");
        let second = world.store.write(&caller, &file, 9, data, Stability::DataSync);
        script.change(|state| state.is_closed = false);
        assert_eq!(first.join().expect("it does not panic"), Err(FsError::Io));
        assert_eq!(wait(second).result, Err(FsError::Io));
    });
    assert_eq!(script.take().len(), 1, "a second sync would have lied");
}

/// A failed file system reports the error only to the first sync, and success to later syncs. A
/// change that began before the failure must not rely on this success.
#[test]
fn a_failed_sync_fails_a_concurrent_successful_one() {
    let script = Script::default();
    let world = script.world();
    let [file, other] = ["a", "b"].map(|name| world.file(name));
    script.take();
    script.change(|state| state.held = Some("a"));
    thread::scope(|scope| {
        let first = scope.spawn(|| write(&world, file, Stability::DataSync).result);
        script.wait_for(1);
        script.change(|state| state.is_failing = true);
        assert_eq!(write(&world, other, Stability::DataSync).result, Err(FsError::Io));
        script.change(|state| (state.is_failing, state.held) = (false, None));
        assert_eq!(first.join().expect("it does not panic"), Err(FsError::Io));
    });
    assert!(write(&world, file, Stability::DataSync).result.is_ok(), "it began behind the loss");
}

#[test]
fn a_failed_sync_of_a_directory_fails_its_changes() {
    let script = Script::default();
    let world = script.world();
    script.change(|state| state.is_failing = true);
    let file = NewFile::Guarded(SetAttributes::default());
    let made = wait(world.store.create(&superuser(), world.at("a"), &file));
    assert_eq!(made.result, Err(FsError::Io));
    assert!(made.wcc.before.is_some() && made.wcc.after.is_some());
}

/// Write-back starts early, so that a COMMIT finds little data to write.
#[test]
fn much_written_data_starts_write_back() {
    let script = Script::default();
    let world = script.world();
    let [file, other] = ["a", "b"].map(|name| world.file(name));
    for file in [file, other] {
        write_kib(&world, file, 1023);
        commit(&world, file).expect("it is synced");
        write_kib(&world, file, 1023);
    }
    assert_eq!(script.told(), 0);
    script.change(|state| state.telling_is_held = true);
    write_kib(&world, file, 1);
    script.wait_until_told(1);
    write_kib(&world, other, 1);
    commit(&world, other).expect("it does not wait for another's");
    write_kib(&world, other, 1024);
    assert_eq!(script.told(), 1, "one at a time");
    script.change(|state| state.telling_is_held = false);
    // A write during the request does not start another request, but its bytes count for the next
    // one. So write until the next request starts.
    while script.told() == 1 {
        write_kib(&world, other, 1);
    }
}

/// In memory mode no data needs write-back. Below a write-ahead log the store would not learn of a
/// loss during write-back.
#[test]
fn only_a_synced_disk_gets_requests_for_write_back() {
    for (durability, told) in [(Durability::Memory, 0), (Durability::Log, 0), (Durability::Disk, 1)]
    {
        let script = Script::default();
        let syncer = Box::new(script.clone());
        let blocking = Arc::new(Inline);
        let world = World::make(Make { durability, syncer, blocking, ..Make::default() });
        write_kib(&world, world.file("a"), 1024);
        assert_eq!(script.told(), told, "{durability:?}");
    }
}

/// Write-back fails on a full disk, for example, and the kernel does not report the error again.
#[test]
fn a_loss_during_write_back_changes_the_verifier() {
    let script = Script::default();
    let world = script.world();
    let file = world.file("a");
    script.change(|state| (state.telling_is_held, state.telling_fails) = (true, true));
    let written = write_kib(&world, file, 1024);
    script.wait_until_told(1);
    script.take();
    thread::scope(|scope| {
        let committed = scope.spawn(|| commit(&world, file));
        script.wait_for(1);
        // Wait until the sync itself has ended, so that only the reply of the COMMIT waits for the
        // write-back request.
        thread::sleep(Duration::from_millis(20));
        script.change(|state| state.telling_is_held = false);
        assert_eq!(committed.join().expect("it does not panic"), Err(FsError::Io));
    });
    let verifier = commit(&world, file).expect("all that is left is synced");
    assert_ne!(verifier, written.verifier);
}

/// The object is closed during a write-back request. The store must not return a verifier before
/// the sync at the close.
#[test]
fn data_in_write_back_is_synced_at_its_close() {
    let script = Script::default();
    let world = script.world();
    let file = world.file("a");
    script.take();
    script.change(|state| state.telling_is_held = true);
    write_kib(&world, file, 1024);
    script.wait_until_told(1);
    let volume = &world.store.volume;
    volume.descriptors.remove(&volume.open_object(&file).expect("it is open"));
    script.wait_for(1);
    assert_eq!(script.take(), [(Extent::Data, "a".to_owned())]);
    script.change(|state| (state.telling_is_held, state.telling_fails) = (false, true));
    let settled = loop {
        if let Some(settled) = world.store.settle() {
            break settled;
        }
    };
    assert_ne!(settled, VERIFIER, "it was lost");
}

/// The kernel reports lost data to every descriptor that was open when the loss occurred. So a
/// descriptor with unsynced data must stay open until its sync.
#[test]
fn no_descriptor_with_unsynced_data_is_closed() {
    let script = Script::default();
    let syncer = Box::new(script.clone());
    let world = World::make(Make { descriptors_max: 1, syncer, ..Make::default() });
    let files = ["a", "b", "c", "d"].map(|name| (name, world.file(name)));
    script.take();
    for (_, file) in files {
        write(&world, file, Stability::Unstable).result.expect("it can be written");
    }
    let is_open = |file| world.store.volume.open_object(file).is_some();
    let closed = files.iter().filter(|(_, file)| !is_open(file));
    let closed: Vec<_> = closed.map(|(name, _)| (Extent::Data, (*name).to_owned())).collect();
    assert!(closed.len() >= 3, "there is one descriptor");
    script.wait_for(closed.len());
    assert_eq!(script.take(), closed);
}

#[test]
fn settle_syncs_written_data() {
    let script = Script::default();
    let world = script.world();
    let [file, other, _] = ["a", "b", "c"].map(|name| world.file(name));
    write(&world, file, Stability::Unstable).result.expect("it can be written");
    write(&world, other, Stability::DataSync).result.expect("it can be written");
    script.take();
    assert_eq!(world.store.settle(), Some(VERIFIER));
    assert_eq!(script.take(), [(Extent::Data, "a".to_owned())]);
    assert_eq!(world.store.settle(), Some(VERIFIER));
    assert_eq!(script.take(), []);

    write(&world, file, Stability::Unstable).result.expect("it can be written");
    script.change(|state| state.is_failing = true);
    assert_eq!(world.store.settle(), None);
    script.change(|state| state.is_failing = false);
    // The kernel considers the lost data clean, so a further sync would succeed. The verifier must
    // differ nevertheless.
    let settled = world.store.settle().expect("nothing is to be synced");
    assert_ne!(settled, VERIFIER);
    assert_eq!(commit(&world, file), Ok(settled));
}

#[test]
fn settle_returns_no_verifier_during_a_sync() {
    let script = Script::default();
    let world = script.world();
    let file = world.file("a");
    write(&world, file, Stability::Unstable).result.expect("it can be written");
    script.take();
    script.change(|state| (state.is_closed, state.is_failing) = (true, true));
    // Dropping the call means that the client has disconnected, and does not wait for the sync.
    drop(world.store.commit(&superuser(), &file, 0, 0));
    script.wait_for(1);
    assert_eq!(world.store.settle(), None);
    script.change(|state| state.is_closed = false);
    while world.store.settle().is_none() {
        thread::yield_now();
    }
    assert_ne!(world.store.settle(), Some(VERIFIER));
}

/// A file without a name needs no sync at its close, and a synced file needs no second sync.
#[test]
fn synced_or_removed_files_close_without_a_sync() {
    let script = Script::default();
    let syncer = Box::new(script.clone());
    let world = World::make(Make { descriptors_max: 1, syncer, ..Make::default() });
    let synced = world.file("a");
    write(&world, synced, Stability::DataSync).result.expect("it can be written");
    let gone = world.file("b");
    write(&world, gone, Stability::Unstable).result.expect("it can be written");
    let removed = wait(world.store.remove(&superuser(), world.at("b")));
    assert_eq!(removed.result, Ok(()));
    script.take();
    world.file("c");
    let data: Vec<_> = script.take().into_iter().filter(|(by, _)| *by == Extent::Data).collect();
    assert_eq!(data, []);
}

#[test]
fn idle_files_are_closed_for_writing() {
    for handles in [HandleSource::Probe, HandleSource::Names] {
        idle_file_is_closed(&World::make(Make { handles, ..Make::default() }));
    }
}

fn idle_file_is_closed(world: &World) {
    let file = world.file("a");
    let reach = || {
        let object = world.store.volume.open_object(&file).expect("it is open");
        object.descriptor().reach()
    };
    write(world, file, Stability::Unstable).result.expect("it can be written");
    world.store.close_idle();
    world.store.close_idle();
    assert_eq!(reach(), Reach::Write, "its data is not synced");
    commit(world, file).expect("it can be");
    world.store.close_idle();
    assert_eq!(reach(), Reach::Write, "it was in use");
    while reach() == Reach::Write {
        world.store.close_idle();
    }
    assert_eq!(reach(), Reach::Name);
    assert_eq!(world.read(file), b"data");
    write(world, file, Stability::FileSync).result.expect("it can be written");
    world.store.close_idle();
    assert_eq!(reach(), Reach::Write, "it was in use");
    // The thread that ran the sync may hold the descriptor a little longer, so try several times.
    while reach() == Reach::Write {
        world.store.close_idle();
    }
    assert_eq!(reach(), Reach::Name);
}

/// At its start, a server trusts the records of the previous server's unsynced changes only if
/// these syncs succeed.
#[test]
fn earlier_changes_are_stable_only_if_each_sync_succeeds() {
    let script = Script::default();
    let world = script.world();
    assert_eq!(world.store.sync_earlier_changes(), Ok(()));
    let extents: Vec<_> = script.take().into_iter().map(|(extent, _)| extent).collect();
    assert_eq!(extents, [Extent::Object, Extent::FileSystem]);
    script.change(|state| state.is_failing = true);
    assert_eq!(world.store.sync_earlier_changes(), Err(FsError::Io));
}

#[test]
fn no_wait_is_handed_over_after_a_loss() {
    let script = Script::default();
    let world = script.world();
    let file = world.file("a");
    world.store.hand_over_waits();
    script.take();
    let stable_write = || {
        let mut waits = Vec::new();
        let done = taking(&mut waits, || write(&world, file, Stability::FileSync).result);
        (done.map(|done| done.stability), waits)
    };
    script.change(|state| state.is_failing = true);
    let (done, mut waits) = stable_write();
    assert_eq!(done, Ok(Stability::FileSync), "the owner of the call waits");
    assert_eq!(script.take(), [], "no sync has begun");
    assert_eq!(wait(MaybeReady::Later(waits.remove(0))), Err(FsError::Io));
    // From the first loss on, the store waits itself and hands over no wait.
    let (done, waits) = stable_write();
    assert_eq!((done, waits.len()), (Err(FsError::Io), 0));
    script.change(|state| state.is_failing = false);
    let (done, waits) = stable_write();
    assert_eq!((done, waits.len()), (Ok(Stability::FileSync), 0));
}
