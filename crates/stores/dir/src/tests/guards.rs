//! Programs of this machine beside clients that hold leases.

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use leasehold_fs::{
    Disturbance, FsError, Guard, NewFile, ObjectId, SetAttributes, Stability, Store as _,
};

use super::harness::{Make, World, superuser, wait};

/// How long is waited for what must come.
const PATIENCE: Duration = Duration::from_secs(30);

type Told = (ObjectId, Disturbance);

/// Watches a world while something is done in it.
fn watched(act: impl FnOnce(&World, &Receiver<Told>)) {
    watched_in(&World::new(), act);
}

fn watched_in(world: &World, act: impl FnOnce(&World, &Receiver<Told>)) {
    let (sender, told) = channel();
    thread::scope(|threads| {
        let store = &world.store;
        let tell = move |object, disturbance| {
            // Whoever listens may have gone.
            let _ = sender.send((object, disturbance));
        };
        threads.spawn(move || store.watch(&tell).expect("the kernel tells"));
        let end = Instant::now() + PATIENCE;
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

/// A file with something in it, which is open in the store.
fn file(world: &World) -> (ObjectId, PathBuf) {
    let path = world.directory.path().join("file");
    fs::write(&path, "text").expect("it can be written");
    (world.lookup(world.store.root(), "file").expect("it is there"), path)
}

/// Does something on a thread of its own, and says when it is done.
fn program(act: impl FnOnce() + Send + 'static) -> Receiver<()> {
    let (done, is_done): (Sender<()>, _) = channel();
    thread::spawn(move || {
        act();
        let _ = done.send(());
    });
    is_done
}

#[test]
fn who_opens_to_write_what_clients_read_waits_until_it_is_let_go_on() {
    watched(|world, told| {
        let (id, path) = file(world);
        world.store.guard(&id, Guard::Changes).expect("nobody has it open");
        drop(File::open(&path).expect("readers do not wait"));
        assert!(told.try_recv().is_err());
        let writer =
            program(move || drop(File::options().append(true).open(&path).expect("it opens")));
        assert_eq!(told.recv_timeout(PATIENCE), Ok((id, Disturbance::Changes)));
        assert!(writer.try_recv().is_err(), "it waits");
        world.store.guard(&id, Guard::Nothing).expect("it cannot fail");
        writer.recv_timeout(PATIENCE).expect("it goes on");
    });
}

#[test]
fn who_opens_what_a_client_writes_waits_until_it_is_let_go_on() {
    watched(|world, told| {
        let (id, path) = file(world);
        world.store.guard(&id, Guard::Everything).expect("nobody has it open");
        // What the server does to it itself goes by.
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
        assert_eq!(told.recv_timeout(PATIENCE), Ok((id, Disturbance::Reads)));
        assert!(reader.try_recv().is_err(), "it waits");
        let data = bytes::Bytes::from_static(b"!");
        let written = wait(world.store.write(&superuser(), &id, 8, data, Stability::Unstable));
        assert!(written.result.is_ok());
        world.store.guard(&id, Guard::Nothing).expect("it cannot fail");
        assert_eq!(read.recv_timeout(PATIENCE).expect("it goes on"), b"textmore!");
    });
}

#[test]
fn what_a_program_has_open_to_write_is_not_guarded() {
    watched(|world, _| {
        let (id, path) = file(world);
        let writer = File::options().append(true).open(&path).expect("it opens");
        assert!(world.store.guard(&id, Guard::Changes).is_err());
        drop(writer);
        let reader = File::open(&path).expect("it opens");
        assert!(world.store.guard(&id, Guard::Everything).is_err());
        world.store.guard(&id, Guard::Changes).expect("readers go together");
        drop(reader);
        // The server's own writing takes the guard away, and waits for nobody.
        let data = bytes::Bytes::from_static(b"x");
        let written = wait(world.store.write(&superuser(), &id, 0, data, Stability::FileSync));
        assert!(written.result.is_ok());
        drop(File::options().append(true).open(&path).expect("nobody is waited for"));
    });
}

#[test]
fn names_that_others_change_are_told_and_our_own_are_not() {
    watched(|world, told| {
        let directory = world.store.root();
        world.store.guard(&directory, Guard::Changes).expect("it is watched");
        let place = world.at("ours");
        let new = NewFile::Guarded(SetAttributes::default());
        assert!(wait(world.store.create(&superuser(), place, &new)).result.is_ok());
        assert!(wait(world.store.remove(&superuser(), place)).result.is_ok());
        let theirs = world.directory.path().join("theirs");
        fs::write(&theirs, "text").expect("it can be written");
        assert_eq!(told.recv_timeout(PATIENCE), Ok((directory, Disturbance::Changes)));
        world.store.guard(&directory, Guard::Nothing).expect("it cannot fail");
        while told.try_recv().is_ok() {}
        fs::remove_file(&theirs).expect("it can be removed");
        // Whoever has told of the last would have told of that before.
        let (id, path) = file(world);
        world.store.guard(&id, Guard::Changes).expect("nobody has it open");
        let writer = program(move || drop(File::options().append(true).open(&path)));
        assert_eq!(told.recv_timeout(PATIENCE), Ok((id, Disturbance::Changes)));
        world.store.guard(&id, Guard::Nothing).expect("it cannot fail");
        writer.recv_timeout(PATIENCE).expect("it goes on");
    });
}

#[test]
fn nothing_is_guarded_that_nobody_watches() {
    let world = World::new();
    let (id, path) = file(&world);
    world.store.guard(&id, Guard::Everything).expect("it is not done");
    drop(File::options().append(true).open(path).expect("nobody is waited for"));
}

/// Removed files that this process has open below a directory.
fn open_and_removed(world: &World) -> usize {
    let folder = world.directory.path().to_string_lossy().into_owned();
    let open = fs::read_dir("/proc/self/fd").expect("it is there");
    let links = open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let names = links.map(|link| link.to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(&folder) && name.ends_with("(deleted)")).count()
}

/// Files that lease holders wrote stayed open after they were removed or replaced: the disk got no
/// room back.
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
fn a_guarded_directory_that_is_removed_is_watched_no_more() {
    watched(|world, _| {
        let path = world.path("directory");
        fs::create_dir(&path).expect("it can be made");
        let id = world.lookup(world.store.root(), "directory").expect("it is there");
        world.store.guard(&id, Guard::Changes).expect("it is watched");
        assert_eq!(world.store.volume.witness.held(), [id]);
        assert!(wait(world.store.rmdir(&superuser(), world.at("directory"))).result.is_ok());
        assert_eq!(world.store.volume.witness.held(), []);
    });
}

/// A program of the server's machine removes a file; the lease on it may go on for a term.
#[test]
fn a_guarded_file_that_a_program_removes_is_closed_when_it_is_looked_for() {
    watched(|world, _| {
        let (id, path) = file(world);
        world.store.guard(&id, Guard::Everything).expect("nobody has it open");
        fs::remove_file(&path).expect("it can be removed");
        assert_eq!(open_and_removed(world), 1);
        world.store.volume.let_go_of_gone();
        assert_eq!((open_and_removed(world), world.store.volume.guards.all().len()), (0, 0));
    });
    // A caller that looks whether the file needs its guard has the same effect.
    watched(|world, _| {
        let (id, path) = file(world);
        world.store.guard(&id, Guard::Everything).expect("nobody has it open");
        fs::remove_file(&path).expect("it can be removed");
        let _ = wait(world.store.getattr(&id));
        world.store.guard(&id, Guard::Nothing).expect("it cannot fail");
        assert_eq!(open_and_removed(world), 0);
    });
}

/// A lease without a guard would be stale as soon as a program of the server's machine writes.
#[test]
fn a_guard_that_finds_no_place_is_refused_and_counted() {
    let world = World::make(Make { descriptors_max: 8, ..Make::default() });
    watched_in(&world, |world, _| {
        let files: Vec<ObjectId> =
            ["a", "b", "c"].into_iter().map(|name| world.file(name)).collect();
        for id in &files[..2] {
            world.store.guard(id, Guard::Changes).expect("there are two places");
        }
        assert_eq!(world.store.refused_guards(), 0);
        assert_eq!(world.store.guard(&files[2], Guard::Changes), Err(FsError::Later));
        assert_eq!(world.store.refused_guards(), 1);
        world.store.guard(&files[0], Guard::Changes).expect("it is guarded already");
        world.store.guard(&files[0], Guard::Nothing).expect("it cannot fail");
        world.store.guard(&files[2], Guard::Changes).expect("a place is free");
        assert_eq!(world.store.refused_guards(), 1);
    });
}

/// While guards are refused, the thread finds guards that no lease needs within a second or so, and
/// not only twice a minute.
#[test]
fn a_refused_guard_has_the_others_looked_at_soon() {
    let world = World::make(Make { descriptors_max: 4, ..Make::default() });
    watched_in(&world, |world, told| {
        let (held, wanted) = (world.file("held"), world.file("wanted"));
        world.store.guard(&held, Guard::Changes).expect("there is one place");
        assert!(world.store.guard(&wanted, Guard::Changes).is_err());
        let told = told.recv_timeout(PATIENCE / 2);
        assert_eq!(told, Ok((held, Disturbance::Nothing)));
    });
}
