//! Data that is not cached, much of it, and by many at once.

use std::fs;
use std::thread;

use bytes::Bytes;
use leasehold_base::units::Cookie;
use leasehold_fs::{Allowance, Answer, Budget, Stability, Store, Wanted};
use rustix::fs::{Advice, fadvise};

use super::harness::{World, superuser, wait};

/// A MiB in which every page is another.
fn pattern() -> Vec<u8> {
    (0..1_u32 << 18).flat_map(u32::to_le_bytes).collect()
}

/// What the kernel has to fetch from the disk is fetched by the pool of threads.
#[test]
fn what_is_not_cached_is_read_without_blocking() {
    let world = World::new();
    let file = world.file("a");
    let caller = superuser();
    let data = Bytes::from(pattern());
    let written = world.store.write(&caller, &file, 0, data.clone(), Stability::FileSync);
    assert_eq!(wait(written).result.expect("it can be written").count, 1 << 20);
    let local = fs::File::open(world.path("a")).expect("it is there");
    let mut read = world.store.read(&caller, &file, 4096, 500_000);
    // The kernel forgets when it likes.
    for _ in 0..1000 {
        if matches!(read, Answer::Later(_)) || cannot_forget(&world) {
            break;
        }
        fadvise(&local, 0, None, Advice::DontNeed).expect("it is a file");
        read = world.store.read(&caller, &file, 4096, 500_000);
    }
    assert!(matches!(read, Answer::Later(_)) || cannot_forget(&world), "the disk takes time");
    let read = wait(read).expect("it can be read");
    assert_eq!(read.data, data[4096..504_096]);
    assert!(!read.end);
    let read = world.store.read(&caller, &file, 1_000_000, 100_000);
    let read = wait(read).expect("it can be read");
    assert_eq!(read.data, data[1_000_000..]);
    assert!(read.end);
}

/// Whether files lie in memory only.
fn cannot_forget(world: &World) -> bool {
    const TMPFS: i64 = 0x0102_1994;
    let kind = rustix::fs::statfs(world.directory.path()).expect("it is there").f_type;
    kind == TMPFS
}

#[test]
fn shares_of_large_reads_are_not_written_over() {
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
