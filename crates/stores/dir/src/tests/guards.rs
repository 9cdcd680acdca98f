//! Programs of this machine beside clients that hold leases.

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use leasehold_fs::{Disturbance, Guard, NewFile, ObjectId, SetAttributes, Stability, Store as _};

use super::harness::{World, superuser, wait};

/// How long is waited for what must come.
const PATIENCE: Duration = Duration::from_secs(30);

type Told = (ObjectId, Disturbance);

/// Watches a world while something is done in it.
fn watched(act: impl FnOnce(&World, &Receiver<Told>)) {
    let world = World::new();
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
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| act(&world, &told)));
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
