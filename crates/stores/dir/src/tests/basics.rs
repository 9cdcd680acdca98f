//! The operations one by one, with objects found by handle and by names.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use bytes::Bytes;
use leasehold_base::units::Cookie;
use leasehold_fs::{
    Allowance, Budget, FileType, FsError, Mode, NewFile, NewNode, Place, SetAttributes, Stability,
    Store, Wanted, Wcc,
};
use rustix::fs::fgetxattr;
use rustix::thread::CapabilitySet;

use super::harness::{Make, World, name, superuser, user, wait};
use crate::Durability;
use crate::create::EXCLUSIVE;

const ALL: Budget = Budget { reply: Allowance::UNLIMITED, names: Allowance::UNLIMITED };

#[test]
fn written_data_is_visible_to_local_programs() {
    for world in World::all() {
        let file = world.file("a");
        world.write(file, b"hello", Stability::FileSync);
        assert_eq!(fs::read(world.path("a")).expect("it is there"), b"hello");
        assert_eq!(world.read(file), b"hello");
        let found = wait(world.store.lookup(&superuser(), &world.store.root(), name("a")));
        let found = found.expect("it is there");
        assert_eq!(found.object, file);
        assert_eq!(found.attributes.size, 5);
        let local = fs::metadata(world.path("a")).expect("it is there");
        assert_eq!(found.attributes.file_id.0, local.ino());
        assert_eq!(found.attributes.mode, Mode::from_bits(local.mode()));
    }
}

#[test]
fn a_listing_has_every_name_once() {
    for world in World::all() {
        for number in 0..300 {
            fs::write(world.path(&format!("file{number}")), b"").expect("it can be made");
        }
        let small = Allowance { bytes: 1000, entry_bytes: 24 };
        let budget = Budget { reply: small, names: Allowance::UNLIMITED };
        for wanted in [Wanted::Names, Wanted::Everything] {
            let mut names = Vec::new();
            let mut cookie = Cookie(0);
            loop {
                let root = world.store.root();
                let page = wait(world.store.readdir(&superuser(), &root, cookie, budget, wanted));
                let page = page.expect("the root can be listed");
                for entry in page.entries.iter() {
                    names.push(entry.name.to_vec());
                    cookie = entry.cookie;
                    assert_eq!(entry.object.is_some(), wanted == Wanted::Everything);
                    assert_eq!(entry.attributes.is_some(), wanted == Wanted::Everything);
                }
                if page.end {
                    break;
                }
            }
            names.sort();
            assert_eq!(names.len(), 302);
            names.dedup();
            assert_eq!(names.len(), 302);
        }
    }
}

#[test]
fn the_root_is_its_own_parent() {
    for world in World::all() {
        let root = world.store.root();
        let found = wait(world.store.parent(&superuser(), &root)).expect("it has one");
        assert_eq!(found.object, root);
        let page =
            wait(world.store.readdir(&superuser(), &root, Cookie(0), ALL, Wanted::Everything));
        let page = page.expect("it can be listed");
        for entry in page.entries.iter() {
            assert_eq!(entry.object, Some(root));
            assert_eq!(entry.file_id, found.attributes.file_id);
        }
    }
}

#[test]
fn a_directory_below_leads_back() {
    for world in World::all() {
        let root = world.store.root();
        fs::create_dir_all(world.path("a/b")).expect("they can be made");
        let a = world.lookup(root, "a").expect("it is there");
        let b = world.lookup(a, "b").expect("it is there");
        let above = wait(world.store.parent(&superuser(), &b)).expect("it has one");
        assert_eq!(above.object, a);
        let above = wait(world.store.parent(&superuser(), &a)).expect("it has one");
        assert_eq!(above.object, root);
    }
}

#[test]
fn a_path_is_returned_while_it_leads_to_its_object() {
    for world in World::all() {
        let root = world.store.root();
        assert_eq!(world.store.path(&root), Some(Vec::new()));
        fs::create_dir_all(world.path("a/b")).expect("they can be made");
        fs::write(world.path("a/b/file"), b"").expect("it can be made");
        let a = world.lookup(root, "a").expect("it is there");
        let b = world.lookup(a, "b").expect("it is there");
        let file = world.lookup(b, "file").expect("it is there");
        assert_eq!(world.store.path(&b).as_deref(), Some(&b"a/b"[..]));
        assert_eq!(world.store.path(&file).as_deref(), Some(&b"a/b/file"[..]));
        fs::rename(world.path("a/b"), world.path("c")).expect("it can be renamed");
        // Without handles, the kernel knows no path of an object that is not open, so the path may
        // be missing.
        let path = world.store.path(&file);
        assert!(path.as_deref().is_none_or(|path| path == b"c/file"), "{path:?}");
        let beside = tempfile::tempdir().expect("a temporary directory can be made");
        let out = beside.path().join("file");
        fs::rename(world.path("c/file"), &out).expect("it can be renamed");
        assert_eq!(world.store.path(&file), None, "it is not below the root");
        fs::remove_file(out).expect("it can be removed");
        assert_eq!(world.store.path(&file), None, "it is gone");
    }
}

#[test]
fn a_symbolic_link_is_not_followed() {
    for world in World::all() {
        let root = world.store.root();
        symlink("/etc", world.path("link")).expect("it can be made");
        let link = world.lookup(root, "link").expect("it is there");
        let attributes = wait(world.store.getattr(&link)).expect("it is there");
        assert_eq!(attributes.file_type, FileType::Symlink);
        let (target, _) = wait(world.store.readlink(&superuser(), &link)).expect("it is a link");
        assert_eq!(target, b"/etc");
        assert_eq!(world.lookup(link, "passwd"), Err(FsError::NotDirectory));
        let place = Place { directory: link, name: name("passwd") };
        let made = NewFile::Unchecked(SetAttributes::default());
        let made = wait(world.store.create(&superuser(), place, &made));
        assert_eq!(made.result, Err(FsError::NotDirectory));
        let taken = NewFile::Unchecked(SetAttributes::default());
        let taken = wait(world.store.create(&superuser(), world.at("link"), &taken));
        assert_eq!(taken.result, Err(FsError::AlreadyExists));
        let read = wait(world.store.read(&superuser(), &link, 0, 10));
        assert_eq!(read, Err(FsError::Invalid));
    }
}

#[test]
fn a_removed_object_is_stale() {
    for world in World::all() {
        let file = world.file("a");
        let removed = wait(world.store.remove(&superuser(), world.at("a")));
        assert_eq!(removed.result, Ok(()));
        assert_eq!(wait(world.store.getattr(&file)), Err(FsError::Stale));
        assert_eq!(
            wait(world.store.remove(&superuser(), world.at("a"))).result,
            Err(FsError::NotFound)
        );
    }
}

/// A client drops its cache of a directory if the attributes from before a rename are absent.
#[test]
fn rename_to_another_name_of_the_object_changes_no_directory() {
    for world in World::all() {
        world.file("a");
        fs::hard_link(world.path("a"), world.path("b")).expect("it can be linked");
        fs::create_dir(world.path("d")).expect("it can be made");
        for (from, to) in [("a", "a"), ("a", "b"), ("d", "d")] {
            let root = wait(world.store.getattr(&world.store.root())).expect("it is there");
            let renamed = wait(world.store.rename(&superuser(), world.at(from), world.at(to)));
            assert_eq!(renamed.result, Ok(()), "{from} to {to}");
            assert_eq!(renamed.from, Wcc { before: Some(root.before()), after: Some(root) });
            assert_eq!(renamed.from, renamed.to, "{from} to {to}");
        }
        assert!(world.path("a").exists() && world.path("b").exists());
    }
}

#[test]
fn a_file_is_found_under_its_new_name() {
    for world in World::all() {
        let file = world.file("a");
        world.write(file, b"x", Stability::Unstable);
        fs::create_dir(world.path("d")).expect("it can be made");
        let d = world.lookup(world.store.root(), "d").expect("it is there");
        let to = Place { directory: d, name: name("b") };
        let renamed = wait(world.store.rename(&superuser(), world.at("a"), to));
        assert_eq!(renamed.result, Ok(()));
        assert_eq!(world.read(file), b"x");
        assert_eq!(world.lookup(d, "b"), Ok(file));
        // Local programs rename the file, without the store.
        fs::rename(world.path("d/b"), world.path("c")).expect("it can be moved");
        assert_eq!(world.read(file), b"x");
        fs::rename(world.path("c"), world.path("e")).expect("it can be moved");
        assert_eq!(world.read(file), b"x");
    }
}

#[test]
fn an_exclusive_create_can_be_repeated() {
    for world in World::all() {
        let create = |verifier: &[u8; 8]| {
            let file = NewFile::exclusive(*verifier);
            wait(world.store.create(&superuser(), world.at("a"), &file)).result
        };
        let first = create(b"verifier").expect("it is new");
        let again = create(b"verifier").expect("it is the same call");
        assert_eq!(first.object, again.object);
        assert_eq!(create(b"another!"), Err(FsError::AlreadyExists));
        let changes =
            SetAttributes { mode: Some(Mode::from_bits(0o644)), ..SetAttributes::default() };
        let changed = wait(world.store.setattr(&superuser(), &first.object, &changes, None));
        assert_eq!(changed.result, Ok(()));
        assert_eq!(create(b"verifier"), Err(FsError::AlreadyExists));
    }
}

/// If the file existed without its verifier, a crash at that point would leave a file that the
/// store does not recognise at the client's retry: the client could never create it.
#[test]
fn an_exclusive_file_never_exists_without_its_verifier() {
    const SIGHTS: usize = 100;
    let world = World::make(Make { durability: Durability::Memory, ..Make::default() });
    let path = world.path("a");
    let seen = AtomicUsize::new(0);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            while seen.load(Ordering::Relaxed) < SIGHTS {
                if let Ok(file) = fs::File::open(&path) {
                    let mut verifier = [0; 8];
                    let length = fgetxattr(&file, EXCLUSIVE, &mut verifier[..]);
                    assert_eq!((length, verifier), (Ok(8), *b"verifier"));
                    seen.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        while seen.load(Ordering::Relaxed) < SIGHTS && !watcher.is_finished() {
            let file = NewFile::exclusive(*b"verifier");
            let made = wait(world.store.create(&superuser(), world.at("a"), &file));
            made.result.expect("it can be made");
            let removed = wait(world.store.remove(&superuser(), world.at("a")));
            assert_eq!(removed.result, Ok(()));
        }
        watcher.join().expect("each has its verifier");
    });
}

/// Returns the kernel's description of this thread's identity.
fn identity() -> Vec<String> {
    let status = fs::read_to_string("/proc/thread-self/status").expect("it is there");
    let of_identity = |line: &&str| {
        ["Uid:", "Gid:", "Groups:", "CapEff:"].iter().any(|name| line.starts_with(name))
    };
    status.lines().filter(of_identity).map(str::to_owned).collect()
}

/// Regression test: the thread that opens a store must keep its groups and capabilities, because it
/// writes the server's own files.
#[test]
fn opening_a_store_keeps_the_identity_of_the_thread() {
    let opened = std::thread::spawn(|| {
        let before = identity();
        let world = World::new();
        assert_eq!(identity(), before);
        assert_eq!(before.len(), 4);
        drop(world);
    });
    opened.join().expect("no panic");
}

/// A thread that runs a call of a store acts as callers from then on, and cannot write the server's
/// own files. The shell recognises such a thread because it lacks a capability that it has given
/// up.
#[test]
fn a_thread_that_runs_a_call_gives_up_the_mark_of_own_work() {
    let is_marked = || {
        let sets = rustix::thread::capabilities(None).expect("the kernel tells a thread its own");
        sets.effective.contains(CapabilitySet::SYS_CHROOT)
    };
    if !is_marked() {
        // A process of an ordinary user cannot act as callers, so all its threads have one identity
        // and the test does not apply.
        assert!(!rustix::process::geteuid().is_root(), "root has the capability in containers");
        return;
    }
    let opened = std::thread::spawn(move || {
        assert!(is_marked(), "a new thread has the capabilities of the thread that starts it");
        let world = World::new();
        wait(world.store.getattr(&world.store.root())).expect("it is there");
        is_marked()
    });
    assert!(!opened.join().expect("no panic"));
    assert!(is_marked(), "no other thread changes");
}

#[test]
fn callers_act_as_themselves() {
    let world = World::new();
    if !world.store.acts_as_callers() {
        return;
    }
    fs::set_permissions(world.directory.path(), fs::Permissions::from_mode(0o777))
        .expect("it is ours");
    let file = NewFile::Guarded(SetAttributes::default());
    let made = wait(world.store.create(&user(1234), world.at("a"), &file)).result;
    let made = made.expect("everybody may");
    assert_eq!((made.attributes.uid, made.attributes.gid), (1234, 1234));
    assert_eq!(made.attributes.mode, Mode::from_bits(0o600));
    let write = |uid| {
        let caller = user(uid);
        let data = Bytes::from_static(b"x");
        let stability = Stability::Unstable;
        wait(world.store.write(&caller, &made.object, 0, data, stability)).result.map(|_| ())
    };
    assert_eq!(write(1234), Ok(()));
    assert_eq!(write(4321), Err(FsError::Access));
    assert_eq!(write(0), Ok(()));
    let node = NewNode::Directory;
    fs::set_permissions(world.directory.path(), fs::Permissions::from_mode(0o755))
        .expect("it is ours");
    let made = wait(world.store.make(&user(1234), world.at("d"), &node, &SetAttributes::default()));
    assert_eq!(made.result, Err(FsError::Access));
    assert!(made.wcc.before.is_some() && made.wcc.after.is_some());
}
