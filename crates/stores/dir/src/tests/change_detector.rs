//! The attributes of an object from before an operation must be absent if a local program changed
//! the object in between.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use leasehold_fs::{
    Attributes, Before, FsError, NewFile, NewNode, ObjectId, SetAttributes, Stability, Store, Wcc,
};

use super::harness::{Make, World, superuser, wait};
use crate::Durability;

impl World {
    fn attributes(&self, object: &ObjectId) -> Attributes {
        wait(self.store.getattr(object)).expect("it is there")
    }

    fn node(&self, path: &str, node: &NewNode<'_>) -> (ObjectId, Wcc) {
        let attributes = SetAttributes::default();
        let made = wait(self.store.make(&superuser(), self.at(path), node, &attributes));
        (made.result.expect("it can be made").object, made.wcc)
    }

    fn remove(&self, path: &str) -> Wcc {
        let removed = wait(self.store.remove(&superuser(), self.at(path)));
        assert_eq!(removed.result, Ok(()));
        removed.wcc
    }

    /// Returns every operation that changes names in the root, with the attributes of the root that
    /// the operation returned.
    fn changes_of_names(&self) -> Vec<(&'static str, Before, Wcc)> {
        let (root, caller) = (self.store.root(), superuser());
        let mut changes = Vec::new();
        let mut change = |name, change: &mut dyn FnMut() -> Wcc| {
            let before = self.attributes(&root).before();
            changes.push((name, before, change()));
        };
        let guarded = NewFile::Guarded(SetAttributes::default());
        change("create", &mut || wait(self.store.create(&caller, self.at("file"), &guarded)).wcc);
        change("mkdir", &mut || self.node("directory", &NewNode::Directory).1);
        change("symlink", &mut || self.node("symlink", &NewNode::Symlink(b"file")).1);
        change("mknod", &mut || self.node("fifo", &NewNode::Fifo).1);
        let file = self.lookup(root, "file").expect("it is there");
        change("link", &mut || wait(self.store.link(&caller, &file, self.at("again"))).directory);
        change("rename", &mut || {
            let renamed = wait(self.store.rename(&caller, self.at("file"), self.at("other")));
            assert_eq!(renamed.result, Ok(()));
            assert_eq!(renamed.from, renamed.to, "it is one directory");
            renamed.to
        });
        let directory = self.lookup(root, "directory").expect("it is there");
        let inside = leasehold_fs::Place { directory, name: super::harness::name("inside") };
        change("rename away", &mut || {
            let below = self.attributes(&directory).before();
            let renamed = wait(self.store.rename(&caller, self.at("other"), inside));
            assert_eq!(renamed.result, Ok(()));
            assert_eq!(renamed.to.before, Some(below));
            renamed.from
        });
        change("rename over", &mut || wait(self.store.rename(&caller, inside, self.at("fifo"))).to);
        change("remove", &mut || self.remove("symlink"));
        change("rmdir", &mut || wait(self.store.rmdir(&caller, self.at("directory"))).wcc);
        changes
    }
}

#[test]
fn undisturbed_name_changes_return_attributes_from_before() {
    for world in World::all() {
        for (name, before, wcc) in world.changes_of_names() {
            assert_eq!(wcc.before, Some(before), "{name}");
            let after = wcc.after.expect("it is still there").before();
            assert_ne!(after, before, "{name}");
        }
        // The second call removes the watch of the idle directory. The watch must start again at
        // the next change.
        world.store.close_idle();
        world.store.close_idle();
        for _ in 0..2 {
            let before = world.attributes(&world.store.root()).before();
            assert_eq!(world.node("fifo 2", &NewNode::Fifo).1.before, Some(before));
            world.remove("fifo 2");
        }
    }
}

#[test]
fn changes_by_a_local_program_are_detected() {
    for world in World::all() {
        for at in 0..10 {
            let (_, first) = world.node("fifo", &NewNode::Fifo);
            fs::write(world.path(&format!("local {at}")), "").expect("it can be written");
            let second = world.remove("fifo");
            let known = first.after.map(|after| after.before());
            // The attributes before the second change must differ from the attributes that the
            // client cached after the first change: otherwise the client would not detect the
            // change in between.
            assert_ne!(second.before, known);
            assert!(second.after.is_some());
        }
    }
}

#[test]
fn a_changed_file_has_no_attributes_from_before() {
    for world in World::all() {
        let (caller, file) = (superuser(), world.file("file"));
        let data = Bytes::from_static(b"data");
        let written = wait(world.store.write(&caller, &file, 0, data, Stability::Unstable));
        assert!(written.wcc.before.is_none() && written.wcc.after.is_some());
        let size = SetAttributes { size: Some(2), ..SetAttributes::default() };
        let cut = wait(world.store.setattr(&caller, &file, &size, None));
        assert!(cut.wcc.before.is_none() && cut.wcc.after.is_some());
    }
}

#[test]
fn an_unchanged_object_has_equal_attributes_before_and_after() {
    for world in World::all() {
        let (root, caller, file) = (world.store.root(), superuser(), world.file("file"));
        let same = |object: &ObjectId, wcc: Wcc| {
            let now = world.attributes(object);
            assert_eq!(wcc, Wcc { before: Some(now.before()), after: Some(now) });
        };
        same(&file, wait(world.store.commit(&caller, &file, 0, 0)).wcc);
        let mode = SetAttributes { size: Some(1), ..SetAttributes::default() };
        let guard = leasehold_base::units::FileTime::default();
        let changed = wait(world.store.setattr(&caller, &file, &mode, Some(guard)));
        assert_eq!(changed.result, Err(FsError::NotSynchronized));
        same(&file, changed.wcc);
        let guarded = NewFile::Guarded(SetAttributes::default());
        let made = wait(world.store.create(&caller, world.at("file"), &guarded));
        assert_eq!(made.result.map(drop), Err(FsError::AlreadyExists));
        same(&root, made.wcc);
        let unchecked = NewFile::Unchecked(SetAttributes::default());
        let taken = wait(world.store.create(&caller, world.at("file"), &unchecked));
        assert_eq!(taken.result.map(|found| found.object), Ok(file));
        same(&root, taken.wcc);
        let renamed = wait(world.store.rename(&caller, world.at("none"), world.at("file")));
        assert_eq!(renamed.result, Err(FsError::NotFound));
        same(&root, renamed.from);
        same(&root, renamed.to);
    }
}

/// Returns a world in a file system in memory, and the number of bytes by which a directory there
/// grows with each name. There the size of a directory shows how many names it has. So a test can
/// compare the sizes before and after an operation, and detect a change by another program in
/// between.
fn counted_world() -> (World, u64) {
    const MEMORY: &str = "/dev/shm";
    let directory = tempfile::tempdir_in(MEMORY).expect("there is a file system in memory");
    let size_of = |path: &Path| fs::metadata(path).expect("it is there").size();
    let empty = size_of(directory.path());
    fs::write(directory.path().join("one"), "").expect("it can be written");
    let name_bytes = size_of(directory.path()) - empty;
    assert!(name_bytes > 0, "{MEMORY} counts names");
    let store = World::open(directory.path(), Make::default());
    (World { directory, store }, name_bytes)
}

/// The changes form a chain: the attributes from before each change equal the attributes from after
/// exactly one other change.
#[test]
fn changes_of_one_directory_do_not_overlap() {
    const THREADS: usize = 4;
    const ROUNDS: usize = 500;
    let (world, _) = counted_world();
    let first = world.attributes(&world.store.root()).size;
    let seen = Mutex::new((BTreeSet::new(), BTreeSet::from([first])));
    let start = Barrier::new(THREADS);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (world, seen, start) = (&world, &seen, &start);
            scope.spawn(move || {
                start.wait();
                for round in 0..ROUNDS {
                    let (_, wcc) = world.node(&format!("{thread} {round}"), &NewNode::Fifo);
                    let mut seen = seen.lock().expect("the threads do not panic with it");
                    seen.0.insert(wcc.before.expect("nobody else is there").size);
                    seen.1.insert(wcc.after.expect("it is still there").size);
                }
            });
        }
    });
    let (mut befores, afters) = seen.into_inner().expect("the threads do not panic with it");
    befores.insert(world.attributes(&world.store.root()).size);
    assert_eq!(befores, afters);
    assert_eq!(afters.len(), THREADS * ROUNDS + 1);
}

/// Sets a flag at the end of a test, even after a panic.
struct OnDrop<'a>(&'a AtomicBool);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn no_change_of_a_local_program_is_hidden() {
    let (world, name_bytes) = counted_world();
    let done = AtomicBool::new(false);
    let (mut told, mut untold) = (0, 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let path = world.path("local");
            // Pauses between the changes create moments without changes by the other program.
            while !done.load(Ordering::Relaxed) {
                for _ in 0..50 {
                    fs::create_dir(&path).expect("nobody else makes it");
                    fs::remove_dir(&path).expect("nobody else removes it");
                }
                fs::create_dir(&path).expect("nobody else makes it");
                thread::sleep(Duration::from_micros(200));
                fs::remove_dir(&path).expect("nobody else removes it");
            }
        });
        let _ending = OnDrop(&done);
        let end = Instant::now() + Duration::from_secs(20);
        while (told < 20_000 || untold < 20) && Instant::now() < end {
            let (_, made) = world.node("ours", &NewNode::Fifo);
            let removed = world.remove("ours");
            for (wcc, more, fewer) in [(made, name_bytes, 0), (removed, 0, name_bytes)] {
                let after = wcc.after.expect("it is still there");
                let Some(before) = wcc.before else {
                    untold += 1;
                    continue;
                };
                told += 1;
                assert_eq!(before.size + more, after.size + fewer);
            }
        }
    });
    assert!(told >= 1_000 && untold >= 20, "told {told} times, {untold} times not");
}

/// Returns true if every change after a query gets a change time of its own.
fn each_change_has_its_time(world: &World) -> bool {
    let root = world.store.root();
    let change = |at: u32| {
        fs::write(world.path(&format!("time {at}")), "").expect("it can be written");
        let changed = world.attributes(&root).changed;
        fs::remove_file(world.path(&format!("time {at}"))).expect("it is there");
        changed != world.attributes(&root).changed
    };
    (0..1000).all(change)
}

/// The other program's rename has the same notification as the store's rename, and the kernel
/// merges two equal consecutive notifications.
#[test]
fn a_name_that_a_local_program_took_over_is_not_hidden() {
    const ROUNDS: u32 = 20_000;
    let world = World::make(Make { durability: Durability::Memory, ..Make::default() });
    if !each_change_has_its_time(&world) {
        return;
    }
    let (root, caller) = (world.store.root(), superuser());
    let other = world.path("other");
    fs::create_dir(&other).expect("it can be made");
    let (start, end) = (Barrier::new(2), Barrier::new(2));
    let (mut told, mut hidden) = (0, 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..ROUNDS {
                let path = other.join("theirs");
                fs::write(&path, "").expect("it can be written");
                start.wait();
                // In some rounds the second rename happens a little earlier than the first one, and
                // in other rounds a little later.
                (0..round % 500).for_each(|_| std::hint::spin_loop());
                fs::rename(path, world.path("to")).expect("they are on one file system");
                end.wait();
            }
        });
        for _ in 0..ROUNDS {
            let (ours, _) = world.node("from", &NewNode::Fifo);
            start.wait();
            let renamed = wait(world.store.rename(&caller, world.at("from"), world.at("to")));
            end.wait();
            let Some(after) = renamed.to.after.filter(|_| renamed.to.before.is_some()) else {
                continue;
            };
            told += 1;
            let is_as_told = after == world.attributes(&root);
            hidden += u32::from(is_as_told && world.lookup(root, "to") != Ok(ours));
        }
    });
    assert_eq!(hidden, 0, "a name was taken over before we looked, and it does not show");
    assert!(told > 0);
}
