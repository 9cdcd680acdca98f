//! Uncached data, large data, and concurrent operations.

use std::fs;
use std::thread;

use bytes::Bytes;
use leasehold_base::random::Random;
use leasehold_base::units::Cookie;
use leasehold_fs::{
    Allowance, Attributes, Budget, MaybeReady, NewFile, ObjectId, Place, SetAttributes, Stability,
    Store, Wanted,
};
use rustix::fs::{Advice, fadvise};

use super::harness::{Make, World, name, superuser, wait};
use crate::{Durability, HandleSource};

const ALL: Budget = Budget { reply: Allowance::UNLIMITED, names: Allowance::UNLIMITED };

/// Returns a MiB of data in which all pages differ.
fn pattern() -> Vec<u8> {
    (0..1_u32 << 18).flat_map(u32::to_le_bytes).collect()
}

/// A thread of the pool reads data that the kernel must fetch from the disk.
#[test]
fn uncached_data_is_read_without_blocking() {
    let world = World::new();
    let file = world.file("a");
    let caller = superuser();
    let data = Bytes::from(pattern());
    let written = world.store.write(&caller, &file, 0, data.clone(), Stability::FileSync);
    assert_eq!(wait(written).result.expect("it can be written").count, 1 << 20);
    let local = fs::File::open(world.path("a")).expect("it is there");
    let mut read = world.store.read(&caller, &file, 4096, 500_000);
    // The kernel may keep cached pages for a while, so try several times until a read is not
    // cached.
    for _ in 0..1000 {
        if matches!(read, MaybeReady::Later(_)) || cannot_forget(&world) {
            break;
        }
        fadvise(&local, 0, None, Advice::DontNeed).expect("it is a file");
        read = world.store.read(&caller, &file, 4096, 500_000);
    }
    assert!(matches!(read, MaybeReady::Later(_)) || cannot_forget(&world), "the disk takes time");
    let read = wait(read).expect("it can be read");
    assert_eq!(read.data, data[4096..504_096]);
    assert!(!read.end);
    let read = world.store.read(&caller, &file, 1_000_000, 100_000);
    let read = wait(read).expect("it can be read");
    assert_eq!(read.data, data[1_000_000..]);
    assert!(read.end);
}

/// Returns true if the file system exists in memory only, so that data is always cached.
fn cannot_forget(world: &World) -> bool {
    const TMPFS: i64 = 0x0102_1994;
    let kind = rustix::fs::statfs(world.directory.path()).expect("it is there").f_type;
    kind == TMPFS
}

#[test]
fn shares_of_large_reads_are_not_overwritten() {
    let world = World::new();
    let file = world.file("a");
    let caller = superuser();
    let data = Bytes::from(pattern());
    let written = world.store.write(&caller, &file, 0, data.clone(), Stability::Unstable);
    wait(written).result.expect("it can be written");
    let read = |offset: u64| {
        let read = wait(world.store.read(&caller, &file, offset, 200_000));
        read.expect("it can be read").data
    };
    let kept: Vec<_> = (0..40).map(|number| (number * 20_000, read(number * 20_000))).collect();
    for (offset, bytes) in kept {
        let start = usize::try_from(offset).expect("it is small");
        assert_eq!(bytes, data[start..start + 200_000]);
        drop(bytes);
        assert_eq!(read(0), data[..200_000]);
    }
}

/// Listings of one directory share no position.
#[test]
fn listings_do_not_disturb_each_other() {
    let world = World::new();
    for number in 0..500 {
        fs::write(world.path(&format!("file{number}")), b"").expect("it can be made");
    }
    thread::scope(|scope| {
        for bytes in [300, 500, 900, 2000] {
            let world = &world;
            scope.spawn(move || {
                let budget = Budget {
                    reply: Allowance { bytes, entry_bytes: 24 },
                    names: Allowance::UNLIMITED,
                };
                let (caller, root) = (superuser(), world.store.root());
                let (mut names, mut cookie) = (Vec::new(), Cookie(0));
                loop {
                    let page =
                        wait(world.store.readdir(&caller, &root, cookie, budget, Wanted::Names));
                    let page = page.expect("it can be listed");
                    for entry in page.entries.iter() {
                        names.push(entry.name.to_vec());
                        cookie = entry.cookie;
                    }
                    if page.end {
                        break;
                    }
                }
                names.sort();
                names.dedup();
                assert_eq!(names.len(), 502);
            });
        }
    });
}

/// Names in two directories change during look-ups and listings. The attributes in each result must
/// belong to the object in the same result.
#[test]
fn ids_and_attributes_belong_together() {
    const ROUNDS: u64 = 1500;
    for handles in [HandleSource::Probe, HandleSource::Names] {
        let durability = Durability::Memory;
        let world =
            World::make(Make { handles, durability, descriptors_max: 16, ..Make::default() });
        let directories = ["one", "two"].map(|directory| {
            fs::create_dir(world.path(directory)).expect("it can be made");
            world.lookup(world.store.root(), directory).expect("it is there")
        });
        let churn = |seed: u64| {
            let mut random = Random::from_seed(seed);
            let caller = superuser();
            for _ in 0..ROUNDS {
                let mut place = || Place {
                    directory: directories[usize::from(random.below(2) == 1)],
                    name: name(["a", "b", "c"][usize::try_from(random.below(3)).expect("small")]),
                };
                let (from, to) = (place(), place());
                match random.below(3) {
                    0 => {
                        wait(world.store.rename(&caller, from, to));
                    }
                    1 => {
                        wait(world.store.remove(&caller, from));
                    }
                    _ => {
                        let new = NewFile::Unchecked(SetAttributes::default());
                        wait(world.store.create(&caller, from, &new));
                    }
                }
            }
        };
        let check = |found: ObjectId, attributes: Attributes| {
            // The object may be removed now, but its id must never lead to another object.
            if let Ok(now) = wait(world.store.getattr(&found)) {
                assert_eq!(now.file_id, attributes.file_id);
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| churn(1));
            scope.spawn(|| churn(2));
            scope.spawn(|| {
                let caller = superuser();
                for round in 0..ROUNDS {
                    let directory = &directories[usize::from(round % 2 == 0)];
                    if let Ok(found) = wait(world.store.lookup(&caller, directory, name("a"))) {
                        check(found.object, found.attributes);
                    }
                    let everything = Wanted::Everything;
                    let page =
                        wait(world.store.readdir(&caller, directory, Cookie(0), ALL, everything));
                    for entry in page.expect("it can be listed").entries.iter() {
                        if let (Some(object), Some(attributes)) = (entry.object, entry.attributes) {
                            check(object, attributes);
                        }
                    }
                }
            });
        });
    }
}

/// The kernel takes long to free a large range. The thread of a request must serve other requests
/// in this time, so the pool truncates the file.
#[test]
fn large_cuts_run_in_the_thread_pool() {
    const SIZE: u64 = 1 << 30;
    let world = World::make(Make { durability: Durability::Memory, ..Make::default() });
    let (caller, file) = (superuser(), world.file("a"));
    for (size, waits) in [(SIZE, false), (SIZE - 1, false), (1, true), (0, false)] {
        let changes = SetAttributes { size: Some(size), ..SetAttributes::default() };
        let answer = world.store.setattr(&caller, &file, &changes, None);
        assert_eq!(matches!(answer, MaybeReady::Later(_)), waits, "to {size}");
        let changed = wait(answer);
        assert_eq!(changed.result, Ok(()));
        assert_eq!(changed.wcc.after.expect("it is there").size, size);
    }
}
