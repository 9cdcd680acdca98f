//! Guards against programs of this machine, for clients that hold leases.

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use leasehold_fs::{
    Disturbance, FsError, Guard, LocalGuard, NewFile, ObjectId, SetAttributes, Stability,
    Store as _,
};

use super::harness::{Make, World, superuser, wait};

/// The timeout for an expected event.
const TIMEOUT: Duration = Duration::from_secs(30);

type Told = (ObjectId, Disturbance);

/// Runs `act` while a thread watches the programs in a world.
fn watched(act: impl FnOnce(&World, &Receiver<Told>)) {
    watched_in(&World::new(), act);
}

fn watched_in(world: &World, act: impl FnOnce(&World, &Receiver<Told>)) {
    let (sender, told) = channel();
    thread::scope(|threads| {
        let store = &world.store;
        let tell = move |object, disturbance| {
            // The receiver may have been dropped, so an error is ignored.
            let _ = sender.send((object, disturbance));
        };
        threads.spawn(move || store.watch(&tell).expect("the kernel tells"));
        let end = Instant::now() + TIMEOUT;
        while !store.volume.guards.is_told() {
            assert!(Instant::now() < end, "the thread begins");
            thread::yield_now();
        }
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| act(world, &told)));
        store.end_watch();
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Returns a file with data, which is open in the store.
fn file(world: &World) -> (ObjectId, PathBuf) {
    let path = world.directory.path().join("file");
    fs::write(&path, "text").expect("it can be written");
    (world.lookup(world.store.root(), "file").expect("it is there"), path)
}

/// Runs work on a thread of its own; the thread sends a message when the work ends.
fn program(act: impl FnOnce() + Send + 'static) -> Receiver<()> {
    let (done, is_done): (Sender<()>, _) = channel();
    thread::spawn(move || {
        act();
        let _ = done.send(());
    });
    is_done
}

#[test]
fn an_open_for_writing_waits_while_clients_hold_read_leases() {
    watched(|world, told| {
        let (id, path) = file(world);
        world.store.guard(&id, Guard::Changes).expect("nobody has it open");
        drop(File::open(&path).expect("readers do not wait"));
        assert!(told.try_recv().is_err());
        let writer =
            program(move || drop(File::options().append(true).open(&path).expect("it opens")));
        assert_eq!(told.recv_timeout(TIMEOUT), Ok((id, Disturbance::Changes)));
        assert!(writer.try_recv().is_err(), "it waits");
        world.store.guard(&id, Guard::Nothing).expect("it cannot fail");
        writer.recv_timeout(TIMEOUT).expect("it goes on");
    });
}

#[test]
fn an_open_waits_while_a_client_holds_a_write_lease() {
    watched(|world, told| {
        let (id, path) = file(world);
        world.store.guard(&id, Guard::Everything).expect("nobody has it open");
        // The server's own operations must not wait for the guard.
        let data = bytes::Bytes::from_static(b"more");
        let written = wait(world.store.write(&superuser(), &id, 4, data, Stability::FileSync));
        assert!(written.result.is_ok());
        assert_eq!(
            wait(world.store.read(&superuser(), &id, 0, 10)).expect("it is read").data.len(),
            8
        );
        assert!(told.try_recv().is_err());
        let (text, read) = channel();
        let reader = program(move || {
            let _ = text.send(fs::read(&path).expect("it can be read"));
        });
        assert_eq!(told.recv_timeout(TIMEOUT), Ok((id, Disturbance::Reads)));
        assert!(reader.try_recv().is_err(), "it waits");
        let data = bytes::Bytes::from_static(b"!");
        let written = wait(world.store.write(&superuser(), &id, 8, data, Stability::Unstable));
        assert!(written.result.is_ok());
        world.store.guard(&id, Guard::Nothing).expect("it cannot fail");
        assert_eq!(read.recv_timeout(TIMEOUT).expect("it goes on"), b"textmore!");
    });
}

#[test]
fn a_file_that_a_program_has_open_for_writing_is_not_guarded() {
    watched(|world, _| {
        let (id, path) = file(world);
        let writer = File::options().append(true).open(&path).expect("it opens");
        assert!(world.store.guard(&id, Guard::Changes).is_err());
        drop(writer);
        let reader = File::open(&path).expect("it opens");
        assert!(world.store.guard(&id, Guard::Everything).is_err());
        world.store.guard(&id, Guard::Changes).expect("readers go together");
        drop(reader);
        // A write by the server needs another kind of lease: it releases the guard, and does not
        // wait for a program.
        let data = bytes::Bytes::from_static(b"x");
        let written = wait(world.store.write(&superuser(), &id, 0, data, Stability::FileSync));
        assert!(written.result.is_ok());
        drop(File::options().append(true).open(&path).expect("nobody is waited for"));
    });
}

#[test]
fn name_changes_by_others_are_reported_and_our_own_are_not() {
    watched(|world, told| {
        let directory = world.store.root();
        world.store.guard(&directory, Guard::Changes).expect("it is watched");
        let place = world.at("ours");
        let new = NewFile::Guarded(SetAttributes::default());
        assert!(wait(world.store.create(&superuser(), place, &new)).result.is_ok());
        assert!(wait(world.store.remove(&superuser(), place)).result.is_ok());
        let theirs = world.directory.path().join("theirs");
        fs::write(&theirs, "text").expect("it can be written");
        assert_eq!(told.recv_timeout(TIMEOUT), Ok((directory, Disturbance::Changes)));
        world.store.guard(&directory, Guard::Nothing).expect("it cannot fail");
        while told.try_recv().is_ok() {}
        fs::remove_file(&theirs).expect("it can be removed");
        // Wait for the report of a later event: if an earlier event had caused a report, it would
        // have arrived before.
        let (id, path) = file(world);
        world.store.guard(&id, Guard::Changes).expect("nobody has it open");
        let writer = program(move || drop(File::options().append(true).open(&path)));
        assert_eq!(told.recv_timeout(TIMEOUT), Ok((id, Disturbance::Changes)));
        world.store.guard(&id, Guard::Nothing).expect("it cannot fail");
        writer.recv_timeout(TIMEOUT).expect("it goes on");
    });
}

#[test]
fn nothing_is_guarded_without_a_watch() {
    let world = World::new();
    let (id, path) = file(&world);
    world.store.guard(&id, Guard::Everything).expect("it is not done");
    drop(File::options().append(true).open(path).expect("nobody is waited for"));
}

/// Returns the number of removed files below a directory that this process has open.
fn open_and_removed(world: &World) -> usize {
    let folder = world.directory.path().to_string_lossy().into_owned();
    let open = fs::read_dir("/proc/self/fd").expect("it is there");
    let links = open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let names = links.map(|link| link.to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(&folder) && name.ends_with("(deleted)")).count()
}

/// Regression test: files that lease holders had written stayed open after their removal or
/// replacement, so their blocks stayed in use.
#[test]
fn a_guarded_file_that_is_removed_or_replaced_is_closed() {
    watched(|world, _| {
        for round in 0..20 {
            let place = world.at("file");
            let id = world.file("file");
            world.store.guard(&id, Guard::Everything).expect("nobody has it open");
            world.write(id, b"text", Stability::FileSync);
            if round % 2 == 0 {
                assert!(wait(world.store.remove(&superuser(), place)).result.is_ok());
                continue;
            }
            world.file("other");
            let (caller, other) = (superuser(), world.at("other"));
            assert!(wait(world.store.rename(&caller, other, place)).result.is_ok());
            assert!(wait(world.store.remove(&superuser(), place)).result.is_ok());
        }
        assert_eq!(world.store.volume.guards.all().len(), 0);
        assert_eq!(open_and_removed(world), 0);
    });
}

#[test]
fn a_removed_guarded_directory_is_no_longer_watched() {
    watched(|world, _| {
        let path = world.path("directory");
        fs::create_dir(&path).expect("it can be made");
        let id = world.lookup(world.store.root(), "directory").expect("it is there");
        world.store.guard(&id, Guard::Changes).expect("it is watched");
        assert_eq!(world.store.volume.change_detector.held(), [id]);
        assert!(wait(world.store.rmdir(&superuser(), world.at("directory"))).result.is_ok());
        assert_eq!(world.store.volume.change_detector.held(), []);
    });
}

/// A local program removes the file while a client holds a lease on it, which may last for a whole
/// term.
#[test]
fn a_guarded_file_that_a_program_removes_is_closed_at_the_next_check() {
    watched(|world, _| {
        let (id, path) = file(world);
        world.store.guard(&id, Guard::Everything).expect("nobody has it open");
        fs::remove_file(&path).expect("it can be removed");
        assert_eq!(open_and_removed(world), 1);
        world.store.volume.let_go_of_gone();
        assert_eq!((open_and_removed(world), world.store.volume.guards.all().len()), (0, 0));
    });
    // The periodic check for unneeded guards must also close the file.
    watched(|world, _| {
        let (id, path) = file(world);
        world.store.guard(&id, Guard::Everything).expect("nobody has it open");
        fs::remove_file(&path).expect("it can be removed");
        let _ = wait(world.store.getattr(&id));
        world.store.guard(&id, Guard::Nothing).expect("it cannot fail");
        assert_eq!(open_and_removed(world), 0);
    });
}

/// If the server granted a lease without a guard, the client's cache would be stale as soon as a
/// local program writes to the file.
#[test]
fn a_guard_without_a_free_entry_is_refused_and_counted() {
    let world = World::make(Make { descriptors_max: 8, ..Make::default() });
    watched_in(&world, |world, _| {
        let files: Vec<ObjectId> =
            ["a", "b", "c"].into_iter().map(|name| world.file(name)).collect();
        for id in &files[..2] {
            world.store.guard(id, Guard::Changes).expect("there are two places");
        }
        assert_eq!(world.store.refused_guards(), 0);
        assert_eq!(world.store.guard(&files[2], Guard::Changes), Err(FsError::Delay));
        assert_eq!(world.store.refused_guards(), 1);
        world.store.guard(&files[0], Guard::Changes).expect("it is guarded already");
        world.store.guard(&files[0], Guard::Nothing).expect("it cannot fail");
        world.store.guard(&files[2], Guard::Changes).expect("a place is free");
        assert_eq!(world.store.refused_guards(), 1);
    });
}

/// While the store refuses guards, the thread looks for unneeded guards each second instead of
/// twice a minute.
#[test]
fn a_refused_guard_triggers_a_check_of_the_other_guards() {
    let world = World::make(Make { descriptors_max: 4, ..Make::default() });
    watched_in(&world, |world, told| {
        let (held, wanted) = (world.file("held"), world.file("wanted"));
        world.store.guard(&held, Guard::Changes).expect("there is one place");
        assert!(world.store.guard(&wanted, Guard::Changes).is_err());
        let told = told.recv_timeout(TIMEOUT / 2);
        assert_eq!(told, Ok((held, Disturbance::Nothing)));
    });
}
