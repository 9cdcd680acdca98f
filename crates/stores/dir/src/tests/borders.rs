//! Directories that leave the export, and changes by local programs.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use leasehold_fs::{Access, FsError, Mode, NewFile, ObjectId, SetAttributes, Stability, Store};
use rustix::fs::XattrFlags;

use super::harness::{Make, World, name, superuser, user, wait};
use crate::{Durability, HandleSource};

#[test]
fn a_directory_that_was_moved_out_does_not_lead_out() {
    let world = World::new();
    let outside = tempfile::tempdir().expect("it can be made");
    fs::create_dir_all(world.path("a/b")).expect("they can be made");
    let a = world.lookup(world.store.root(), "a").expect("it is there");
    let b = world.lookup(a, "b").expect("it is there");
    wait(world.store.getattr(&b)).expect("it is open");
    fs::rename(world.path("a"), outside.path().join("a")).expect("they are on one file system");
    for directory in [a, b] {
        let above = wait(world.store.parent(&superuser(), &directory));
        assert_eq!(above.map(|found| found.object), Err(FsError::Stale));
    }
}

/// The directory becomes unreachable immediately if it is not open, otherwise at the next check.
#[test]
fn a_directory_that_was_moved_out_is_unreachable() {
    for world in World::all() {
        let (root, volume) = (world.store.root(), &world.store.volume);
        let outside = tempfile::tempdir().expect("it can be made");
        let there = outside.path().join("there");
        fs::create_dir_all(world.path("open/below")).expect("they can be made");
        fs::create_dir_all(world.path("closed/below")).expect("they can be made");
        for path in ["open", "closed"] {
            fs::write(world.path(path).join("file"), "").expect("it can be made");
            let moved = world.lookup(root, path).expect("it is there");
            let below = world.lookup(moved, "below").expect("it is there");
            for directory in [moved, below] {
                wait(world.store.getattr(&directory)).expect("it is there");
            }
            // A directory that moved within the export keeps its id.
            fs::rename(world.path(path), world.path("elsewhere")).expect("it can be moved");
            world.store.close_idle();
            assert_eq!(world.lookup(moved, "below"), Ok(below));
            assert!(wait(world.store.getattr(&below)).is_ok());
            fs::rename(world.path("elsewhere"), &there).expect("it is one file system");
            if path == "closed" {
                for open in [moved, below].iter().filter_map(|id| volume.open_object(id)) {
                    volume.descriptors.remove(&open);
                }
            } else {
                world.store.close_idle();
            }
            for directory in [below, moved] {
                let place = leasehold_fs::Place { directory, name: name("new") };
                let new = NewFile::Guarded(SetAttributes::default());
                let made = wait(world.store.create(&superuser(), place, &new));
                assert_eq!(made.result.map(drop), Err(FsError::Stale), "{path}");
                assert_eq!(wait(world.store.getattr(&directory)), Err(FsError::Stale), "{path}");
                let found = world.lookup(directory, "file");
                assert_eq!(found, Err(FsError::Stale), "{path}");
            }
            assert!(!there.join("new").exists() && !there.join("below/new").exists());
            fs::rename(&there, world.path("back")).expect("it can be moved back");
            assert_eq!(world.lookup(root, "back"), Ok(moved), "it is there again");
            assert!(world.lookup(moved, "file").is_ok());
            fs::remove_dir_all(world.path("back")).expect("it is ours");
        }
    }
}

/// Objects that local programs removed are stale, at any depth; objects that they moved are found.
#[test]
fn the_store_searches_for_objects_that_others_moved() {
    for descriptors_max in [1, 256] {
        let make = Make { handles: HandleSource::Names, descriptors_max, ..Make::default() };
        let world = World::make(make);
        fs::create_dir_all(world.path("a/b/c")).expect("they can be made");
        fs::create_dir_all(world.path("x/y")).expect("they can be made");
        for file in ["a/one", "a/b/two", "a/b/c/three", "a/b/c/four"] {
            fs::write(world.path(file), file).expect("it can be made");
        }
        let root = world.store.root();
        let find = |path: &str| {
            path.split('/')
                .fold(root, |directory, step| world.lookup(directory, step).expect("it is there"))
        };
        let [one, two, three, four] = ["a/one", "a/b/two", "a/b/c/three", "a/b/c/four"].map(find);
        let c = find("a/b/c");
        fs::rename(world.path("a/b/c"), world.path("x/y/c")).expect("it can be moved");
        fs::rename(world.path("a/b/two"), world.path("zwei")).expect("it can be moved");
        fs::rename(world.path("a/one"), world.path("a/eins")).expect("it can be moved");
        fs::remove_file(world.path("x/y/c/four")).expect("it is there");
        assert_eq!(world.read(three), b"a/b/c/three");
        assert_eq!(world.read(two), b"a/b/two");
        assert_eq!(world.read(one), b"a/one");
        assert_eq!(wait(world.store.getattr(&four)), Err(FsError::Stale));
        assert_eq!(world.lookup(c, "three"), Ok(three));
        let above = wait(world.store.parent(&superuser(), &c)).expect("it has one");
        assert_eq!(world.lookup(above.object, "c"), Ok(c));
    }
}

/// The object moves from a directory that is not searched yet to a directory that is already
/// searched.
#[test]
fn an_object_that_moves_during_its_search_is_not_gone() {
    const FILES: usize = 1000;
    const ASKED: usize = 300;
    let (handles, durability) = (HandleSource::Names, Durability::Memory);
    let world = World::make(Make { handles, durability, ..Make::default() });
    let [one, two] = ["one", "two"].map(|directory| {
        fs::create_dir(world.path(directory)).expect("it can be made");
        for number in 0..FILES {
            let path = world.path(directory).join(number.to_string());
            fs::write(path, "").expect("it can be made");
        }
        world.path(directory).join("it")
    });
    fs::write(&one, "").expect("it can be made");
    let directory = world.lookup(world.store.root(), "one").expect("it is there");
    let it = world.lookup(directory, "it").expect("it is there");
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut way = [&one, &two];
            while !done.load(Ordering::Relaxed) {
                fs::rename(way[0], way[1]).expect("nobody else moves it");
                way.reverse();
                thread::sleep(Duration::from_millis(2));
            }
        });
        let ask = |_| {
            // Remove the object from the table of open objects. The store then has to find it
            // again, as after many other opens.
            let volume = &world.store.volume;
            if let Some(open) = volume.open_object(&it) {
                volume.descriptors.remove(&open);
            }
            wait(world.store.getattr(&it))
        };
        let answers: Vec<_> = (0..ASKED).map(ask).collect();
        done.store(true, Ordering::Relaxed);
        let is_good = |answer: &Result<_, FsError>| matches!(answer, Ok(_) | Err(FsError::Delay));
        assert!(answers.iter().all(is_good));
        assert!(answers.iter().any(Result::is_ok));
    });
}

#[test]
fn an_unknown_id_is_refused() {
    for world in World::all() {
        let short = ObjectId::new(&[1, 2, 3]).expect("it fits");
        assert_eq!(wait(world.store.getattr(&short)), Err(FsError::BadHandle));
        let mut bytes = world.store.root().as_bytes().to_vec();
        bytes.fill(0xee);
        let wrong = ObjectId::new(&bytes).expect("it fits");
        assert_eq!(wait(world.store.getattr(&wrong)), Err(FsError::Stale));
    }
}

/// A POSIX access control list in the kernel's format: version 2, then tag, rights and user of each
/// entry.
fn access_list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        list.extend(tag.to_le_bytes());
        list.extend(rights.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    list
}

/// The group bits of a file with an access control list contain the mask of the list, and not the
/// rights of the group. So the store must not use them.
#[test]
fn the_kernel_evaluates_access_control_lists() {
    const NOBODY: u32 = u32::MAX;
    let world = World::new();
    if !world.store.acts_as_callers() {
        return;
    }
    let file = world.file("a");
    chown(world.path("a"), Some(1000), Some(1000)).expect("the superuser may");
    let (owner, named, group, mask, others) = (1, 2, 4, 16, 32);
    let list = access_list(&[
        (owner, 6, NOBODY),
        (named, 6, 2000),
        (named, 0, 3000),
        (group, 0, NOBODY),
        (mask, 6, NOBODY),
        (others, 4, NOBODY),
    ]);
    let name = "system.posix_acl_access";
    if rustix::fs::setxattr(world.path("a"), name, &list, XattrFlags::empty()).is_err() {
        return;
    }
    let attributes = wait(world.store.getattr(&file)).expect("it is there");
    assert_eq!(attributes.mode, Mode::from_bits(0o664), "the mask shows as the group's bits");
    for (uid, reads, writes) in
        [(1000, true, true), (2000, true, true), (3000, false, false), (4000, true, false)]
    {
        let caller = user(uid);
        let data = Bytes::from_static(b"x");
        let write = wait(world.store.write(&caller, &file, 0, data, Stability::Unstable)).result;
        assert_eq!(write.is_ok(), writes, "user {uid}");
        let read = wait(world.store.read(&caller, &file, 0, 1));
        assert_eq!(read.is_ok(), reads, "user {uid}");
        let all = Access { read: true, modify: true, ..Access::default() };
        let (granted, _) = wait(world.store.access(&caller, &file, all)).expect("it is there");
        assert_eq!((granted.read, granted.modify), (reads, writes), "user {uid}");
    }
    // The caller is a member of the group. The mode bits alone would permit the write, but the
    // access control list denies it.
    let member = leasehold_fs::Caller { gid: 1000, ..user(4000) };
    assert_eq!(wait(world.store.read(&member, &file, 0, 1)), Err(FsError::Access));
    // This test's thread acts as the last caller, too, so it needs a call as the superuser before
    // it changes the file.
    assert_eq!(world.lookup(world.store.root(), "a"), Ok(file));
    rustix::fs::removexattr(world.path("a"), name).expect("it is there");
    wait(world.store.read(&user(3000), &file, 0, 1)).expect("the list is gone");
}

#[test]
fn an_invalid_user_is_refused() {
    let world = World::new();
    if !world.store.acts_as_callers() {
        return;
    }
    fs::set_permissions(world.directory.path(), fs::Permissions::from_mode(0o700))
        .expect("it is ours");
    world.file("a");
    let root = world.store.root();
    // For the kernel this id means "no user", and a thread that sets it would keep its identity. So
    // the store must reject it.
    for caller in [user(u32::MAX), leasehold_fs::Caller { gid: u32::MAX, ..user(0) }] {
        let found = wait(world.store.lookup(&caller, &root, name("a")));
        assert_eq!(found, Err(FsError::Access));
    }
    let taken = SetAttributes { uid: Some(u32::MAX), ..SetAttributes::default() };
    let changed = wait(world.store.setattr(&superuser(), &root, &taken, None));
    assert_eq!(changed.result, Err(FsError::Invalid));
    wait(world.store.lookup(&superuser(), &root, name("a"))).expect("it is there");
}
