//! Tests of handles while names change, on a file system that reuses inode numbers immediately.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use bytes::Bytes;
use leasehold_base::random::Random;
use leasehold_fs::{Caller, FsError, NewFile, ObjectId, Place, SetAttributes, Stability, Store};
use rustix::fs::{AtFlags, CWD};

use super::conformance::{as_ordinary_user, own_user};
use super::harness::{Make, World, name, wait};
use crate::file_system::Kind;
use crate::{Durability, HandleSource, sys};

const DIRECTORIES: [&str; 2] = ["one", "two"];
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const ROUNDS: usize = 3000;

/// Files that each contain their own test number, and the handles of the files.
struct Storm<'a> {
    world: &'a World,
    caller: Caller,
    directories: [ObjectId; 2],
    next: AtomicU64,
    handles: Mutex<Vec<(ObjectId, u64)>>,
    /// The distinct inode numbers of the created files, and the number of created files.
    inodes: Mutex<(BTreeSet<u64>, usize)>,
}

impl Storm<'_> {
    /// Creates and removes files as a client does, and reads by old handles.
    fn client(&self, seed: u64) {
        let mut random = Random::from_seed(seed);
        for _ in 0..ROUNDS {
            let directory = self.directories[below(&mut random, 2)];
            let place = Place { directory, name: name(NAMES[below(&mut random, NAMES.len())]) };
            let new = NewFile::Guarded(SetAttributes::default());
            let made = wait(self.world.store.create(&self.caller, place, &new)).result;
            match made {
                Ok(found) => {
                    let number = self.next.fetch_add(1, Ordering::SeqCst);
                    if self.write(&found.object, number) {
                        lock(&self.handles).push((found.object, number));
                    }
                    let mut inodes = lock(&self.inodes);
                    inodes.0.insert(found.attributes.file_id.0);
                    inodes.1 += 1;
                }
                Err(FsError::AlreadyExists) => {
                    let removed = wait(self.world.store.remove(&self.caller, place)).result;
                    assert!(matches!(removed, Ok(()) | Err(FsError::NotFound)), "{removed:?}");
                }
                Err(error) => panic!("CREATE fails: {error:?}"),
            }
            let old = {
                let handles = lock(&self.handles);
                handles.get(below(&mut random, handles.len().max(1))).copied()
            };
            if let Some((handle, number)) = old {
                self.read(&handle, number);
                self.write(&handle, number);
            }
        }
    }

    /// Changes names as a local program does.
    fn local(&self, done: &AtomicBool) {
        let mut random = Random::from_seed(0);
        while !done.load(Ordering::Relaxed) {
            let [one, other] = [0; 2].map(|_| {
                let directory = DIRECTORIES[below(&mut random, 2)];
                let name = NAMES[below(&mut random, NAMES.len())];
                self.world.path(directory).join(name)
            });
            // Each of the names may or may not exist, so an error is ignored.
            let _ = match random.below(3) {
                0 => fs::remove_file(one),
                1 => fs::rename(one, other),
                _ => fs::File::create_new(one).map(drop),
            };
        }
    }

    /// Writes a file's test number into the file; returns true if the file exists.
    fn write(&self, handle: &ObjectId, number: u64) -> bool {
        let data = Bytes::copy_from_slice(&number.to_be_bytes());
        let write = self.world.store.write(&self.caller, handle, 0, data, Stability::Unstable);
        let written = wait(write).result;
        assert!(written.is_ok() || is_gone(written.as_ref().err()), "{written:?}");
        written.is_ok()
    }

    /// Reads the file's test number by its handle; returns false if the file was removed.
    fn read(&self, handle: &ObjectId, number: u64) -> bool {
        match wait(self.world.store.read(&self.caller, handle, 0, 100)) {
            Ok(read) => assert_eq!(read.data[..], number.to_be_bytes()),
            Err(error) if is_gone(Some(&error)) => return false,
            Err(error) => panic!("READ fails: {error:?}"),
        }
        true
    }
}

/// Returns true for a stale handle. Also returns true for a retry status, which occurs if an object
/// moves repeatedly during its search. Returns false for "no such name".
fn is_gone(error: Option<&FsError>) -> bool {
    matches!(error, Some(FsError::Stale | FsError::Delay))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("no thread panics with it")
}

fn below(random: &mut Random, count: usize) -> usize {
    usize::try_from(random.below(count as u64)).expect("it is below a usize")
}

fn storm(handles: HandleSource, descriptors_max: usize, caller: Caller) {
    let durability = Durability::Memory;
    let world = World::make(Make { handles, durability, descriptors_max, ..Make::default() });
    let directories = DIRECTORIES.map(|directory| {
        fs::create_dir(world.path(directory)).expect("it can be made");
        world.lookup(world.store.root(), directory).expect("it is there")
    });
    let storm = Storm {
        world: &world,
        caller,
        directories,
        next: AtomicU64::new(1),
        handles: Mutex::default(),
        inodes: Mutex::default(),
    };
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| storm.local(&done));
        let clients = [1, 2].map(|seed| {
            scope.spawn({
                let storm = &storm;
                move || storm.client(seed)
            })
        });
        let ends = clients.map(thread::ScopedJoinHandle::join);
        done.store(true, Ordering::Relaxed);
        for end in ends {
            end.expect("all is well");
        }
    });
    let paths = DIRECTORIES
        .iter()
        .flat_map(|directory| NAMES.iter().map(|name| world.path(directory).join(name)));
    let left = paths.filter_map(|path| fs::read(path).ok());
    let left: BTreeSet<Vec<u8>> = left.collect();
    for (handle, number) in lock(&storm.handles).iter() {
        let is_left = left.contains(&number.to_be_bytes()[..]);
        assert_eq!(storm.read(handle, *number), is_left, "the file is there: {is_left}");
    }
    let (inodes, made) = storm.inodes.into_inner().expect("no thread panics with it");
    if Kind::of(&*world.store.volume.root.descriptor()) == Ok(Kind::Ext) {
        assert!(made > 2 * inodes.len(), "{} inodes for {made} files prove nothing", inodes.len());
    }
}

#[test]
fn no_handle_ever_reaches_another_file() {
    if rustix::process::geteuid().is_root() {
        for descriptors_max in [256, 1] {
            storm(HandleSource::Probe, descriptors_max, own_user());
            storm(HandleSource::Names, descriptors_max, own_user());
        }
    }
    as_ordinary_user(|| {
        for descriptors_max in [256, 1] {
            storm(HandleSource::Probe, descriptors_max, own_user());
        }
    });
}

/// Clients keep handles across an upgrade, and across a restart of the server as another user. So
/// an id must contain the kernel's handle, whether the store finds objects by handle or by names.
#[test]
fn the_bytes_of_an_id_are_the_kernels_handle() {
    for world in World::all() {
        let file = world.file("file");
        let path = world.path("file").into_os_string().into_encoded_bytes();
        let path = CString::new(path).expect("it has no NUL");
        let kernels = sys::handle_at(CWD, &path, AtFlags::empty()).expect("there are handles");
        assert_eq!(file.as_bytes(), kernels.id.as_bytes());
        let number = fs::metadata(world.path("file")).expect("it is there").ino().to_ne_bytes();
        match Kind::of(&*world.store.volume.root.descriptor()).expect("it is told") {
            // An ext4 handle consists of the inode number and the generation.
            Kind::Ext => assert_eq!((&file.as_bytes()[..4], kernels.kind), (&number[..4], 1)),
            // A tmpfs handle consists of the generation and the inode number.
            Kind::Tmpfs => assert_eq!(file.as_bytes()[4..], number),
            Kind::Btrfs | Kind::Exfat | Kind::F2fs | Kind::Fat | Kind::Xfs | Kind::Other => {}
        }
    }
}
