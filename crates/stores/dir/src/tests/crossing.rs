//! Tests of a directory with the file systems that are mounted below it.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use leasehold_base::units::Cookie;
use leasehold_fs::{
    Attributes, FsError, Guard, LocalGuard, NewFile, ObjectId, Place, SetAttributes, Stability,
    Store, Wanted,
};
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount};

use super::harness::{Make, Pool, World, name, superuser, wait};
use super::mounts::{ALL, with_own_mounts};
use crate::{Below, Crossing, DirStore, Durability, HandleSource, Numbers, Origin};

/// A table of file-system numbers in memory. Several stores share the table, as successive servers
/// share a state directory.
#[derive(Default)]
struct Noted(Mutex<Vec<(Vec<u8>, Origin)>>);

impl Numbers for Noted {
    fn number(&self, path: &[u8], origin: &Origin, at: &Path) -> Option<u16> {
        assert!(at.read_dir().is_ok());
        if path.ends_with(b"refused") {
            return None;
        }
        let mut all = self.0.lock().expect("nothing panics");
        let place = all.iter().position(|(_, known)| known == origin).unwrap_or_else(|| {
            all.push((path.to_vec(), *origin));
            all.len() - 1
        });
        all[place].0 = path.to_vec();
        u16::try_from(place + 1).ok()
    }

    fn path(&self, number: u16) -> Option<Vec<u8>> {
        let all = self.0.lock().expect("nothing panics");
        all.get(usize::from(number).checked_sub(1)?).map(|(path, _)| path.clone())
    }
}

struct Crossed {
    top: Arc<Path>,
    store: Crossing,
    numbers: Arc<Noted>,
}

impl Crossed {
    fn over(top: &Path, numbers: &Arc<Noted>, handles: HandleSource) -> Self {
        rustix::process::umask(rustix::fs::Mode::empty());
        let root = Arc::new(World::open(top, Make { handles, ..Make::default() }));
        let below = Below {
            blocking: Arc::new(Pool::new(2)),
            durability: Durability::Disk,
            descriptors_max: 64,
            handles,
            numbers: Arc::<Noted>::clone(numbers),
        };
        let numbers = Arc::clone(numbers);
        Self { top: top.into(), store: Crossing::new(root, below), numbers }
    }

    /// Opens the store again, as after a restart of the server.
    fn again(&self) -> Self {
        Self::over(&self.top, &self.numbers, HandleSource::Probe)
    }

    fn find(&self, path: &str) -> Result<(ObjectId, Attributes), FsError> {
        let mut object = self.store.root();
        let mut attributes = wait(self.store.getattr(&object))?;
        for part in path.split('/') {
            let found = wait(self.store.lookup(&superuser(), &object, name(part)))?;
            (object, attributes) = (found.object, found.attributes);
        }
        Ok((object, attributes))
    }

    fn id(&self, path: &str) -> ObjectId {
        self.find(path).expect("it is there").0
    }

    fn parent(&self, object: &ObjectId) -> ObjectId {
        wait(self.store.parent(&superuser(), object)).expect("there is one").object
    }

    fn write(&self, directory: ObjectId, text: &'static str) -> ObjectId {
        let place = Place { directory, name: name("file") };
        let new = NewFile::Unchecked(SetAttributes::default());
        let file =
            wait(self.store.create(&superuser(), place, &new)).result.expect("there is room");
        let data = Bytes::from_static(text.as_bytes());
        let written =
            wait(self.store.write(&superuser(), &file.object, 0, data, Stability::Unstable));
        written.result.expect("there is room");
        file.object
    }

    fn read(&self, object: &ObjectId) -> Result<Vec<u8>, FsError> {
        wait(self.store.read(&superuser(), object, 0, 100)).map(|read| read.data.to_vec())
    }

    fn close(&self) {
        // The first call keeps a file system that was used since the call before, so call it twice.
        self.store.close_idle();
        self.store.close_idle();
    }
}

fn tmpfs(path: &Path) {
    mount("none", path, "tmpfs", MountFlags::empty(), None).expect("it can be mounted");
}

#[test]
fn file_systems_below_are_entered() {
    with_own_mounts(|| {
        for handles in [HandleSource::Probe, HandleSource::Names] {
            let top = tempfile::tempdir().expect("there is room");
            let path = |below: &str| top.path().join(below);
            fs::create_dir_all(path("a/one")).expect("there is room");
            let world = Crossed::over(top.path(), &Arc::default(), handles);
            // The look-up uses the store before the mount, so that the mount happens while the
            // store is in use.
            world.id("a/one");
            tmpfs(&path("a/one"));
            fs::create_dir_all(path("a/one/b/two")).expect("there is room");
            tmpfs(&path("a/one/b/two"));
            let (one, of_one) = world.find("a/one").expect("it is there");
            let (two, of_two) = world.find("a/one/b/two").expect("it is there");
            let of_root = wait(world.store.getattr(&world.store.root())).expect("it is there");
            let systems = [of_root, of_one, of_two].map(|attributes| attributes.file_system);
            assert!(systems[0] != systems[1] && systems[1] != systems[2], "{systems:?}");
            // `..` leads back to the directory above the mount point, and the listing shows the
            // same object.
            for (object, above) in [(one, world.id("a")), (two, world.id("a/one/b"))] {
                assert_eq!(world.parent(&object), above);
                let page = wait(world.store.readdir(
                    &superuser(),
                    &object,
                    Cookie(0),
                    ALL,
                    Wanted::Everything,
                ));
                let page = page.expect("it can be listed");
                let up =
                    page.entries.iter().find(|entry| entry.name == b"..").expect("it is there");
                assert_eq!(up.object, Some(above));
                let of_above = wait(world.store.getattr(&above)).expect("it is there");
                assert_eq!(up.file_id, of_above.file_id);
            }
            // The listing contains only the name, so that the client looks the name up.
            let a = world.id("a");
            let page =
                wait(world.store.readdir(&superuser(), &a, Cookie(0), ALL, Wanted::Everything));
            let page = page.expect("it can be listed");
            let entry =
                page.entries.iter().find(|entry| entry.name == b"one").expect("it is there");
            assert_eq!((entry.object, entry.attributes), (None, None));
            let (in_one, in_two) = (world.write(one, "one"), world.write(two, "two"));
            assert_eq!(fs::read(path("a/one/file")).expect("it is there"), b"one");
            assert_eq!(fs::read(path("a/one/b/two/file")).expect("it is there"), b"two");
            assert_eq!(world.store.path(&in_two), Some(b"a/one/b/two/file".to_vec()));
            // A rename or link from one file system to another fails.
            for directory in [a, two] {
                let (from, to) = (
                    Place { directory: one, name: name("file") },
                    Place { directory, name: name("moved") },
                );
                let renamed = wait(world.store.rename(&superuser(), from, to));
                assert_eq!(renamed.result, Err(FsError::CrossDevice));
                let linked = wait(world.store.link(&superuser(), &in_one, to));
                assert_eq!(linked.result, Err(FsError::CrossDevice));
            }
            let (space, _) = wait(world.store.space(&superuser(), &one)).expect("it says so");
            let (of_top, _) = wait(world.store.space(&superuser(), &a)).expect("it says so");
            assert_ne!(space.bytes, of_top.bytes);
            assert_eq!(world.store.guard(&in_one, Guard::Changes), Ok(()), "no program is heeded");
            drop(world);
            for place in ["a/one/b/two", "a/one"] {
                unmount(path(place), UnmountFlags::DETACH).expect("it is mounted");
            }
        }
    });
}

#[test]
fn handles_last_over_restarts_and_end_with_the_mount() {
    with_own_mounts(|| {
        let top = tempfile::tempdir().expect("there is room");
        let path = |below: &str| top.path().join(below);
        for directory in ["one", "other", "source/inner"] {
            fs::create_dir_all(path(directory)).expect("there is room");
        }
        mount_bind(path("source"), path("one")).expect("it can be mounted");
        let world = Crossed::over(top.path(), &Arc::default(), HandleSource::Probe);
        let one = world.id("one");
        let file = world.write(one, "text");
        // The file system cannot be unmounted while the store has it open. The store closes it when
        // it is idle.
        let open = unmount(path("one"), UnmountFlags::empty());
        assert!(open.is_err(), "it is in use");
        world.close();
        assert_eq!(world.store.stores().len(), 0);
        assert_eq!(world.read(&file), Ok(b"text".to_vec()), "a handle opens it again");
        let restarted = world.again();
        assert_eq!(restarted.read(&file), Ok(b"text".to_vec()));
        assert_eq!(restarted.parent(&one), restarted.store.root());
        [&world, &restarted].into_iter().for_each(Crossed::close);
        unmount(path("one"), UnmountFlags::empty()).expect("nothing holds it");
        for world in [&world, &restarted] {
            assert_eq!(world.read(&file), Err(FsError::Stale));
        }
        // A new file system at the same mount point must not get any handle of the old one.
        tmpfs(&path("one"));
        let new = world.id("one");
        assert_ne!(new, one);
        assert_eq!(world.read(&file), Err(FsError::Stale));
        world.close();
        unmount(path("one"), UnmountFlags::empty()).expect("nothing holds it");
        // Mount the first file system again, at its old path and at another path: its ids stay
        // valid.
        for place in ["one", "other"] {
            mount_bind(path("source"), path(place)).expect("it can be mounted");
            assert_eq!(world.id(place), one);
            assert_eq!(world.read(&file), Ok(b"text".to_vec()));
            world.close();
            unmount(path(place), UnmountFlags::empty()).expect("nothing holds it");
        }
        // The store must close a file system that was unmounted while the store had it open.
        tmpfs(&path("one"));
        let there = world.write(world.id("one"), "text");
        unmount(path("one"), UnmountFlags::DETACH).expect("it is mounted");
        world.store.close_idle();
        assert_eq!(world.read(&there), Err(FsError::Stale));
        assert_eq!(world.store.stores().len(), 0);
    });
}

#[test]
fn excluded_file_systems_are_placeholders() {
    with_own_mounts(|| {
        let top = tempfile::tempdir().expect("there is room");
        let path = |below: &str| top.path().join(below);
        fs::create_dir(path("proc")).expect("there is room");
        fs::create_dir(path("sys")).expect("there is room");
        fs::create_dir(path("refused")).expect("there is room");
        mount("none", path("proc"), "proc", MountFlags::empty(), None).expect("it can be mounted");
        mount("none", path("sys"), "sysfs", MountFlags::empty(), None).expect("it can be mounted");
        tmpfs(&path("refused"));
        let world = Crossed::over(top.path(), &Arc::default(), HandleSource::Probe);
        for place in ["proc", "sys", "refused"] {
            let (id, shown) = world.find(place).expect("it is shown");
            assert_eq!(shown.mode.bits(), 0o555, "{place}");
            assert_eq!(wait(world.store.getattr(&id)), Ok(shown));
            unmount(path(place), UnmountFlags::DETACH).expect("it is mounted");
        }
        // An id that the store has never returned is stale.
        for number in [0, 1, 7, u16::MAX] {
            let root = world.store.root();
            let bytes = [&number.to_be_bytes()[..], root.as_bytes()].concat();
            let forged = ObjectId::new(&bytes).expect("it is short");
            assert_eq!(wait(world.store.getattr(&forged)), Err(FsError::Stale));
        }
    });
}

/// Subvolumes of btrfs are not mounts. The test does nothing if btrfs is unavailable, for example
/// without loop devices.
#[test]
fn subvolumes_are_entered() {
    with_own_mounts(|| {
        let top = tempfile::tempdir().expect("there is room");
        let image = top.path().join("image");
        let at = top.path().join("at");
        fs::create_dir(&at).expect("there is room");
        let run = |program: &str, words: &[&str]| {
            let done = Command::new(program).args(words).output();
            done.is_ok_and(|done| done.status.success())
        };
        let (image, shown) = (image.display().to_string(), at.display().to_string());
        let is_made = run("truncate", &["-s", "200M", &image])
            && run("mkfs.btrfs", &["-q", &image])
            && run("mount", &["-o", "loop", &image, &shown]);
        if !is_made {
            return;
        }
        for below in ["sub", "sub/inner"] {
            assert!(run("btrfs", &["subvolume", "create", &format!("{shown}/{below}")]));
        }
        let world = Crossed::over(&at, &Arc::default(), HandleSource::Probe);
        let (sub, of_sub) = world.find("sub").expect("it is there");
        let (inner, of_inner) = world.find("sub/inner").expect("it is there");
        assert_ne!(of_sub.file_system, of_inner.file_system);
        let (in_sub, in_inner) = (world.write(sub, "sub"), world.write(inner, "inner"));
        assert_eq!(world.parent(&inner), sub);
        let restarted = world.again();
        drop(world);
        assert_eq!(restarted.read(&in_inner), Ok(b"inner".to_vec()));
        assert_eq!(restarted.read(&in_sub), Ok(b"sub".to_vec()));
        assert_eq!(fs::read(at.join("sub/inner/file")).expect("it is there"), b"inner");
        drop(restarted);
        // A store without `cross` shows the subvolumes as placeholders.
        let plain: DirStore = World::open(&at, Make::default());
        let found = wait(plain.lookup(&superuser(), &plain.root(), name("sub")));
        assert_eq!(found.expect("it is shown").attributes.mode.bits(), 0o555);
        drop(plain);
        unmount(&at, UnmountFlags::DETACH).expect("it is mounted");
    });
}
