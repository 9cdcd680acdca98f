//! Tests of held files.

use std::fs;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use leasehold_fs::suite::block_on as wait;
use leasehold_fs::{FsError, Held, ObjectId, OpenFiles as _, Stability, Store as _};

use super::harness::{Make, World, superuser};

fn hold(world: &World, file: &ObjectId) -> Result<Held, FsError> {
    wait(world.store.hold(file))
}

#[test]
fn the_number_of_held_files_is_bounded() {
    const MAX: usize = 16;
    let world = World::make(Make { descriptors_max: 1, ..Make::default() });
    let files: Vec<ObjectId> = (0..=MAX).map(|number| world.file(&number.to_string())).collect();
    let (last, first) = files.split_last().expect("there are several");
    let held: Vec<Held> =
        first.iter().map(|file| hold(&world, file).expect("there is room")).collect();
    assert_eq!(hold(&world, last).err(), Some(FsError::Delay));
    drop(hold(&world, &first[0]).expect("a second hold needs no room"));
    drop(held);
    drop(hold(&world, last).expect("there is room again"));
}

#[test]
fn a_held_file_outlives_a_removal_by_a_local_program() {
    for world in World::all() {
        let file = world.file("file");
        world.write(file, b"data", Stability::Unstable);
        let held = hold(&world, &file).expect("it is there");
        fs::remove_file(world.path("file")).expect("it is there");
        // The other files push the held file out of the table of open objects.
        for number in 0..20 {
            world.file(&number.to_string());
        }
        assert_eq!(world.read(file), b"data");
        world.write(file, b"more", Stability::FileSync);
        world.store.close_idle();
        world.store.volume.let_go_of_gone();
        assert_eq!(world.read(file), b"more");
        drop(held);
        assert_eq!(wait(world.store.getattr(&file)), Err(FsError::Stale));
    }
}

/// A descriptor for writing would keep programs of this machine from executing the file.
#[test]
fn a_hold_needs_no_descriptor_for_writing() {
    let world = World::new();
    let file = world.file("file");
    world.write(file, b"data", Stability::FileSync);
    let held = hold(&world, &file).expect("it is there");
    // A thread that has synced the file may still use its descriptor, so close idle descriptors until
    // the one for writing is closed.
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        world.store.close_idle();
        let open = world.store.volume.open_object(&file).expect("it is held");
        let flags = rustix::fs::fcntl_getfl(open.descriptor().as_fd()).expect("it is open");
        if flags.contains(rustix::fs::OFlags::PATH) {
            break;
        }
        assert!(Instant::now() < until, "{flags:?}");
        std::thread::yield_now();
    }
    drop(held);
    assert_eq!(wait(world.store.access(&superuser(), &file, <_>::default())).map(drop), Ok(()));
}
