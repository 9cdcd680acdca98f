//! What is synced when, and what a failed sync does.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use bytes::Bytes;
use leasehold_fs::{
    Changed, FsError, NewFile, NewNode, ObjectId, Place, SetAttributes, Stability, Store, Verifier,
    WriteDone,
};
use rustix::io::Errno;

use super::harness::{Make, VERIFIER, World, name, superuser, wait};
use crate::object::Reach;
use crate::sync::{Extent, Syncer};
use crate::{Durability, HandleSource};

/// Takes down what it is asked to sync, and does as it is told.
#[derive(Clone, Default)]
struct Script(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    synced: Vec<(Extent, String)>,
    is_closed: bool,
    is_failing: bool,
}

impl Script {
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.0.0.lock().expect("no test panics with it"));
        self.0.1.notify_all();
    }

    /// What was synced since the last time.
    fn take(&self) -> Vec<(Extent, String)> {
        let mut synced = Vec::new();
        self.change(|state| synced = core::mem::take(&mut state.synced));
        synced.sort();
        synced
    }

    /// Waits until so many syncs have begun.
    fn wait_for(&self, count: usize) {
        let state = self.0.0.lock().expect("no test panics with it");
        drop(self.0.1.wait_while(state, |state| state.synced.len() < count));
    }

    fn world(&self) -> World {
        World::make(Make { syncer: Box::new(self.clone()), ..Make::default() })
    }
}

impl Syncer for Script {
    fn sync(&self, file: BorrowedFd<'_>, extent: Extent) -> Result<(), Errno> {
        let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let path = path.expect("it is open");
        let name = path.file_name().expect("it is not the root").to_string_lossy().into_owned();
        let mut state = self.0.0.lock().expect("no test panics with it");
        state.synced.push((extent, name));
        self.0.1.notify_all();
        let state = self.0.1.wait_while(state, |state| state.is_closed);
        let is_failing = state.expect("no test panics with it").is_failing;
        if is_failing { Err(Errno::IO) } else { Ok(()) }
    }
}

fn write(world: &World, file: ObjectId, stability: Stability) -> Changed<WriteDone> {
    let data = Bytes::from_static(b"data");
    wait(world.store.write(&superuser(), &file, 0, data, stability))
}

fn commit(world: &World, file: ObjectId) -> Result<Verifier, FsError> {
    let done = wait(world.store.commit(&superuser(), &file, 0, 0));
    done.result.map(|committed| committed.verifier)
}

/// What an operation syncs, the root's name replaced by a slash.
fn synced_by(world: &World, script: &Script, operation: impl FnOnce()) -> Vec<(Extent, String)> {
    script.take();
    operation();
    let root = world.directory.path().file_name().expect("it has one").to_string_lossy();
    let rename = |(extent, name)| (extent, if name == *root { "/".to_owned() } else { name });
    let mut synced: Vec<_> = script.take().into_iter().map(rename).collect();
    synced.sort();
    synced
}

fn object(name: &str) -> (Extent, String) {
    (Extent::Object, name.to_owned())
}

/// Where directories take their new names' inodes along, and where they do not.
fn worlds() -> [(World, Script); 2] {
    [true, false].map(|syncs_names| {
        let script = Script::default();
        let mut world = script.world();
        let volume = Arc::get_mut(&mut world.store.volume).expect("nobody else has it yet");
        volume.syncs_names = syncs_names;
        (world, script)
    })
}

#[test]
fn data_is_synced_as_asked() {
    let script = Script::default();
    let world = script.world();
    let file = world.file("a");
    let by = |stability| {
        synced_by(&world, &script, || {
            write(&world, file, stability).result.expect("it can be written");
        })
    };
    assert_eq!(by(Stability::Unstable), []);
    assert_eq!(by(Stability::DataSync), [(Extent::Data, "a".to_owned())]);
    assert_eq!(by(Stability::FileSync), [object("a")]);
    let committed = synced_by(&world, &script, || {
        commit(&world, file).expect("it can be");
    });
    assert_eq!(committed, [object("a")]);
}

#[test]
fn names_are_synced_with_what_they_lead_to() {
    for (world, script) in worlds() {
        let along = world.store.volume.syncs_names;
        let with = |more: (Extent, String)| {
            let mut all = if along { Vec::new() } else { vec![more] };
            all.push(object("/"));
            all.sort();
            all
        };
        let whole = (Extent::FileSystem, "/".to_owned());
        let made = synced_by(&world, &script, || {
            world.file("a");
        });
        assert_eq!(made, with(object("a")));
        let make = |path, node| {
            let attributes = SetAttributes::default();
            let make = || {
                let made = wait(world.store.make(&superuser(), world.at(path), &node, &attributes));
                made.result.expect("it can be made");
            };
            synced_by(&world, &script, make)
        };
        assert_eq!(make("d", NewNode::Directory), with(object("d")));
        let linked = make("l", NewNode::Symlink(b"x"));
        // Of two that wait for one object the larger extent serves both.
        let expected = if along { object("/") } else { whole };
        assert!(linked.contains(&expected), "{linked:?}");
        let file = world.lookup(world.store.root(), "a").expect("it is there");
        let linked = synced_by(&world, &script, || {
            wait(world.store.link(&superuser(), &file, world.at("b"))).result.expect("it can be");
        });
        let names: BTreeSet<_> = linked.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(names.contains("a"), !along, "{linked:?}");
        let removed = synced_by(&world, &script, || {
            wait(world.store.remove(&superuser(), world.at("b"))).result.expect("it is there");
        });
        assert_eq!(removed, [object("/")]);
        let d = world.lookup(world.store.root(), "d").expect("it is there");
        let to = Place { directory: d, name: name("c") };
        let renamed = synced_by(&world, &script, || {
            wait(world.store.rename(&superuser(), world.at("a"), to)).result.expect("it can be");
        });
        assert_eq!(renamed, [object("/"), object("d")]);
    }
}

#[test]
fn more_than_a_mode_is_synced_with_the_file() {
    for (world, script) in worlds() {
        let made = synced_by(&world, &script, || {
            let file = NewFile::Exclusive(*b"verifier");
            wait(world.store.create(&superuser(), world.at("a"), &file)).result.expect("it can");
        });
        assert_eq!(made, [object("/"), object("a")]);
    }
}

#[test]
fn in_memory_nothing_is_synced() {
    let script = Script::default();
    let durability = Durability::Memory;
    let syncer = Box::new(script.clone());
    let world = World::make(Make { durability, syncer, ..Make::default() });
    let file = world.file("a");
    let written = write(&world, file, Stability::FileSync).result.expect("it can be written");
    assert_eq!(written.stability, Stability::FileSync);
    assert_eq!(commit(&world, file), Ok(written.verifier));
    assert_eq!(script.take(), []);
}

/// While a sync runs, all that come wait together for the next one.
#[test]
fn writers_share_a_sync() {
    let script = Script::default();
    let world = script.world();
    let file = world.file("a");
    script.take();
    script.change(|state| state.is_closed = true);
    thread::scope(|scope| {
        let write = || write(&world, file, Stability::DataSync).result.map(|_| ());
        let first = scope.spawn(write);
        script.wait_for(1);
        let data = || Bytes::from_static(b"more");
        let caller = superuser();
        let answers: Vec<_> = (0..20)
            .map(|at| world.store.write(&caller, &file, at, data(), Stability::DataSync))
            .collect();
        script.change(|state| state.is_closed = false);
        assert_eq!(first.join().expect("it does not panic"), Ok(()));
        for answer in answers {
            wait(answer).result.expect("it can be written");
        }
    });
    assert_eq!(script.take().len(), 2);
}

/// The data of a failed sync is gone, and the kernel would say "done" to the next sync: nothing
/// that was written before may be called safe.
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

/// Who wrote while a sync ran that failed cannot know whether its data went with it.
#[test]
fn a_failed_sync_fails_all_that_had_joined() {
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

#[test]
fn a_failed_sync_of_a_directory_fails_what_changed_it() {
    let script = Script::default();
    let world = script.world();
    script.change(|state| state.is_failing = true);
    let file = NewFile::Guarded(SetAttributes::default());
    let made = wait(world.store.create(&superuser(), world.at("a"), &file));
    assert_eq!(made.result, Err(FsError::Io));
    assert!(made.wcc.before.is_some() && made.wcc.after.is_some());
}

/// The kernel tells of lost data whoever had the file open, so it stays open until it is synced.
#[test]
fn no_descriptor_is_closed_on_data_that_is_not_synced() {
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

/// A file that lost its last name needs no sync, nor does one that was synced.
#[test]
fn what_is_safe_or_gone_is_closed_without_a_sync() {
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
    // The thread that synced it may still hold it for a moment.
    while reach() == Reach::Write {
        world.store.close_idle();
    }
    assert_eq!(reach(), Reach::Name);
}
