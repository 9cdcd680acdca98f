//! Tests with file systems that are mounted below the export.

use std::fs;
use std::thread;

use bytes::Bytes;
use leasehold_base::units::{Cookie, FileId};
use leasehold_fs::{
    Access, Allowance, Budget, FileType, FsError, Guard, LocalGuard, Mode, NewFile, NewNode,
    ObjectId, Page, Place, SetAttributes, Stability, Store, Wanted,
};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, unmount,
};
use rustix::thread::UnshareFlags;

use super::harness::{Make, World, name, superuser, user, wait};
use crate::{DirStore, HandleSource};

pub(super) const ALL: Budget = Budget { reply: Allowance::UNLIMITED, names: Allowance::UNLIMITED };

/// Runs a test in a mount namespace of its own, on a thread of its own. Skips the test if this user
/// must not mount.
pub(super) fn with_own_mounts(test: impl FnOnce() + Send + 'static) {
    let test = thread::spawn(|| {
        // This call would be unsafe for a private table of descriptors, but the table stays shared.
        #[expect(deprecated)]
        let unshared = rustix::thread::unshare(UnshareFlags::NEWNS);
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        match unshared.and_then(|()| mount_change("/", private)) {
            Ok(()) => test(),
            Err(error) => assert!(!rustix::process::geteuid().is_root(), "{error}"),
        }
    });
    test.join().expect("it does not panic");
}

pub(super) fn mount_new(world: &World, place: &str) {
    let flags = MountFlags::empty();
    mount("none", world.path(place), "tmpfs", flags, None).expect("it can be mounted");
}

pub(super) fn end_mount(world: &World, place: &str) {
    unmount(world.path(place), UnmountFlags::empty()).expect("nothing holds it");
}

fn list(store: &DirStore, directory: &ObjectId, wanted: Wanted) -> Page {
    wait(store.readdir(&superuser(), directory, Cookie(0), ALL, wanted)).expect("it can be listed")
}

#[test]
fn a_mount_point_is_an_empty_read_only_directory() {
    with_own_mounts(|| {
        for world in World::all() {
            let (root, store) = (world.store.root(), &world.store);
            for directory in ["other", "same", "below"] {
                fs::create_dir(world.path(directory)).expect("it can be made");
            }
            fs::write(world.path("other/covered"), b"x").expect("it can be made");
            // The store has the covered directory open before the mount.
            for directory in ["other", "same"] {
                let covered = world.lookup(root, directory).expect("it is there");
                wait(store.getattr(&covered)).expect("it is there");
            }
            mount_new(&world, "other");
            mount_bind(world.path("below"), world.path("same")).expect("it can be mounted");
            fs::write(world.path("other/file"), b"x").expect("it can be made");
            let numbers: Vec<_> = list(store, &root, Wanted::Names)
                .entries
                .iter()
                .map(|entry| (entry.name.to_vec(), entry.file_id))
                .collect();
            for directory in ["other", "same"] {
                let nobody = user(1000);
                let found = wait(store.lookup(&nobody, &root, name(directory)));
                let found = found.expect("it is shown");
                let (id, shown) = (found.object, found.attributes);
                assert_eq!(world.lookup(root, directory), Ok(id), "each look-up gives one object");
                assert_eq!(wait(store.getattr(&id)), Ok(shown));
                assert_eq!(
                    (shown.file_type, shown.mode),
                    (FileType::Directory, Mode::from_bits(0o555))
                );
                let above = wait(store.getattr(&root)).expect("it is there");
                assert_eq!(shown.file_system, above.file_system);
                assert!(numbers.contains(&(directory.as_bytes().to_vec(), shown.file_id)));
                // The placeholder shows neither the files of the mounted file system nor the files
                // of the covered directory.
                for inside in ["file", "covered"] {
                    assert_eq!(world.lookup(id, inside), Err(FsError::NotFound));
                }
                let above = wait(store.parent(&nobody, &id)).map(|found| found.object);
                assert_eq!(above, Ok(root));
                let page = list(store, &id, Wanted::Everything);
                let names: Vec<_> = page.entries.iter().map(|entry| entry.name.to_vec()).collect();
                assert_eq!((names, page.end), (vec![b".".to_vec(), b"..".to_vec()], true));
                let all = Access {
                    read: true,
                    lookup: true,
                    modify: true,
                    extend: true,
                    delete: true,
                    execute: false,
                };
                let (granted, _) = wait(store.access(&superuser(), &id, all)).expect("it says so");
                assert!(granted.read && granted.lookup);
                assert!(!granted.modify && !granted.extend && !granted.delete);
                assert_eq!(store.path(&id), Some(directory.as_bytes().to_vec()));
                assert_eq!(store.guard(&id, Guard::Changes), Err(FsError::Delay));
                assert!(wait(store.space(&nobody, &id)).is_ok());
                assert_eq!(wait(store.read(&nobody, &id, 0, 1)).err(), Some(FsError::IsDirectory));
                nothing_changes_it(&world, id, directory);
            }
            the_listings_agree(store, &numbers);
            for directory in ["other", "same"] {
                end_mount(&world, directory);
            }
            assert!(world.path("other/covered").exists());
        }
    });
}

/// Checks that a listing with attributes contains the same inode numbers as a listing without
/// attributes.
fn the_listings_agree(store: &DirStore, numbers: &[(Vec<u8>, FileId)]) {
    let page = list(store, &store.root(), Wanted::Everything);
    for entry in page.entries.iter().filter(|entry| entry.name != b"..") {
        assert!(entry.attributes.is_some(), "{:?}", entry.name);
        let listed = numbers.iter().find(|(name, _)| name == entry.name);
        assert_eq!(listed.map(|(_, number)| *number), Some(entry.file_id));
    }
}

fn nothing_changes_it(world: &World, id: ObjectId, directory: &str) {
    let (store, root) = (&world.store, superuser());
    let inside = Place { directory: id, name: name("new") };
    let new = NewFile::Guarded(SetAttributes::default());
    let created = wait(store.create(&root, inside, &new));
    assert_eq!(created.result.err(), Some(FsError::ReadOnly));
    let made = wait(store.make(&root, inside, &NewNode::Directory, &SetAttributes::default()));
    assert_eq!(made.result.err(), Some(FsError::ReadOnly));
    let mode = SetAttributes { mode: Some(Mode::from_bits(0o777)), ..SetAttributes::default() };
    let set = wait(store.setattr(&root, &id, &mode, None));
    assert_eq!(set.result, Err(FsError::ReadOnly));
    let written = wait(store.write(&root, &id, 0, Bytes::from_static(b"x"), Stability::Unstable));
    assert_eq!(written.result.err(), Some(FsError::IsDirectory));
    let renamed = wait(store.rename(&root, world.at("below"), inside));
    assert_eq!(renamed.result, Err(FsError::ReadOnly));
    // The name of the placeholder cannot be changed, either.
    let removed = wait(store.rmdir(&root, world.at(directory)));
    assert_eq!(removed.result, Err(FsError::Access));
    let renamed = wait(store.rename(&root, world.at(directory), world.at("elsewhere")));
    assert_eq!(renamed.result, Err(FsError::Access));
    for new in [NewFile::Unchecked(SetAttributes::default()), new] {
        let created = wait(store.create(&root, world.at(directory), &new));
        assert_eq!(created.result.err(), Some(FsError::AlreadyExists));
    }
}

/// When a file system is mounted on a directory, or on a directory above it, or unmounted from it,
/// the ids there become stale. A client then looks the name up again.
#[test]
fn a_covered_directory_is_stale() {
    with_own_mounts(|| {
        for world in World::all() {
            let (root, store) = (world.store.root(), &world.store);
            fs::create_dir_all(world.path("a b/below")).expect("they can be made");
            let a = world.lookup(root, "a b").expect("it is there");
            let below = world.lookup(a, "below").expect("it is there");
            let path = world.path("").display().to_string();
            store.volume.change_detector.hold(&root, &path);
            for directory in [a, below] {
                wait(store.getattr(&directory)).expect("it is there");
            }
            store.close_idle();
            assert!(!store.volume.change_detector.has_strangers());
            mount_new(&world, "a b");
            fs::create_dir(world.path("a b/below")).expect("it can be made");
            store.close_idle();
            assert_eq!(store.volume.change_detector.strangers(), [root]);
            for directory in [a, below] {
                assert_eq!(wait(store.getattr(&directory)), Err(FsError::Stale));
            }
            let placeholder = world.lookup(root, "a b").expect("it is shown");
            assert_ne!(placeholder, a);
            end_mount(&world, "a b");
            store.close_idle();
            assert_eq!(store.volume.change_detector.strangers(), [root]);
            assert_eq!(wait(store.getattr(&placeholder)), Err(FsError::Stale));
            assert_eq!(world.lookup(root, "a b"), Ok(a));
            assert_eq!(world.lookup(a, "below"), Ok(below));
            assert!(wait(store.getattr(&below)).is_ok());
        }
    });
}

/// The id of a placeholder stays valid across a restart, and becomes stale when the mount ends.
#[test]
fn a_placeholder_ends_with_the_mount() {
    with_own_mounts(|| {
        for world in World::all() {
            let root = world.store.root();
            fs::create_dir_all(world.path("a/b")).expect("they can be made");
            mount_new(&world, "a/b");
            let a = world.lookup(root, "a").expect("it is there");
            let b = world.lookup(a, "b").expect("it is there");
            for handles in [HandleSource::Probe, HandleSource::Names] {
                let again =
                    World::open(world.directory.path(), Make { handles, ..Make::default() });
                assert!(wait(again.getattr(&b)).is_ok());
                assert_eq!(again.path(&b), Some(b"a/b".to_vec()));
            }
            end_mount(&world, "a/b");
            assert_eq!(wait(world.store.getattr(&b)), Err(FsError::Stale));
            let covered = world.lookup(a, "b").expect("it is there");
            assert_ne!(covered, b);
            assert!(wait(world.store.getattr(&covered)).is_ok());
            // A forged id of a placeholder, for a directory without a mount, is stale.
            let forged = world.store.volume.handles.placeholder(&root, 7).expect("it is short");
            assert_eq!(wait(world.store.getattr(&forged)), Err(FsError::Stale));
            let forged = world.store.volume.handles.placeholder(&covered, 0).expect("it is short");
            assert_eq!(
                wait(world.store.lookup(&superuser(), &forged, name("x"))).err(),
                Some(FsError::Stale)
            );
        }
    });
}
