//! Tests with two copies of each stripe, iods that fail one after the other, and data that
//! migrates.

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::future::join;
use leasehold_base::random::Random;
use leasehold_base::units::FileTime;
use leasehold_fs::suite::block_on;
use leasehold_fs::{
    FsError, LocalMetadata, Mode, ObjectId, SetAttributes, SetTime, Stability, Store as _,
    yield_now,
};

use super::outage::Power;
use super::together::Slow;
use super::volume::{Volume, commit, data, make, place, put, superuser, text};
use crate::{LostIod, RebalanceReport, Striped};

/// A volume whose iods are slow, and fail when a test sets a flag.
struct World {
    volume: Volume,
    fails: [Arc<AtomicBool>; 3],
    random: Random,
    tells: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut volume = Volume::new();
        volume.copies = 2;
        let random = Random::from_seed(seed);
        Self { volume, fails: Default::default(), random, tells: seed.is_multiple_of(2) }
    }

    fn start(&mut self) -> Striped {
        let seed = self.random.below(u64::MAX);
        let Self { volume, fails, tells, .. } = self;
        volume.start_with(|number, iod| {
            let random = Mutex::new(Random::from_seed(seed ^ u64::from(number)));
            let fails = Arc::clone(&fails[usize::from(number)]);
            Arc::new(Slow { iod, random, fails, tells: *tells, power: Power::default() })
        })
    }

    fn set_away(&self, iod: Option<usize>) {
        for (number, fails) in self.fails.iter().enumerate() {
            fails.store(Some(number) == iod, Ordering::Relaxed);
        }
    }
}

fn resize(store: &Striped, file: &ObjectId, size: u64) {
    let size = SetAttributes { size: Some(size), ..SetAttributes::default() };
    block_on(store.setattr(&superuser(), file, &size, None)).result.expect("it may be");
}

fn tend(store: &Striped) -> RebalanceReport {
    block_on(store.tend()).expect("the names are there").expect("all are there, and it is due")
}

/// Clients write and truncate files, and the metaserver crashes and restarts, while one iod fails.
/// No client may see an effect, and after the rebalance another iod may fail.
#[test]
fn one_iod_that_fails_costs_nothing() {
    for seed in 0..60 {
        let mut world = World::new(seed);
        let mut store = world.start();
        let file = make(&store, "file");
        let mut whole: Vec<u8> = Vec::new();
        for round in 0..6 {
            let away = usize::try_from(world.random.below(3)).expect("it is small");
            world.set_away(Some(away));
            for _ in 0..8 {
                let at = usize::try_from(world.random.below(120)).expect("it is small");
                if world.random.below(4) == 0 {
                    resize(&store, &file, at as u64);
                    whole.resize(at, 0);
                } else {
                    let part = text(1 + u8::try_from(world.random.below(60)).expect("it is small"));
                    let how = [Stability::Unstable, Stability::FileSync][at % 2];
                    put(&store, &file, at as u64, &part, how);
                    whole.resize(whole.len().max(at + part.len()), 0);
                    whole[at..at + part.len()].copy_from_slice(&part);
                }
                assert_eq!(data(&store, &file), whole, "seed {seed}, round {round}");
            }
            commit(&store, &file);
            if world.random.below(2) == 0 {
                // The out-of-date copies are recorded on stable storage, so a restarted metaserver
                // does not use them either.
                world.set_away(None);
                world.volume.crash();
                store = world.start();
                world.set_away(Some(away));
                assert_eq!(data(&store, &file), whole, "seed {seed}, round {round}");
            }
            world.set_away(None);
            assert_eq!(data(&store, &file), whole, "seed {seed}, round {round}");
            if let Some(tended) = block_on(store.tend()).expect("the names are there") {
                assert_eq!(tended.left, 0);
            }
            assert_eq!(store.misplaced_count(), 0);
            for away in 0..3 {
                world.set_away(Some(away));
                assert_eq!(data(&store, &file), whole, "seed {seed}, round {round}");
            }
            world.set_away(None);
        }
    }
}

/// The store never reads an out-of-date copy, even if the other copy is unreachable.
#[test]
fn out_of_date_copies_are_not_read() {
    let mut world = World::new(1);
    let store = world.start();
    let file = make(&store, "file");
    put(&store, &file, 0, &text(100), Stability::FileSync);
    world.set_away(Some(1));
    put(&store, &file, 0, &text(50), Stability::FileSync);
    assert_eq!((store.misplaced_count(), store.behind_count()), (1, 1));
    world.set_away(None);
    for store in [&store, &world.start()] {
        // The copies of the three objects are on iods 0 and 1, 1 and 2, 2 and 0. Two of the objects
        // have only one up-to-date copy.
        world.set_away(Some(0));
        let read = block_on(store.read(&superuser(), &file, 0, 100));
        assert_eq!(read, Err(FsError::Io), "one copy is away, and one behind");
        world.set_away(None);
    }
    assert_eq!(tend(&store), RebalanceReport { moved: 1, left: 0 });
    assert_eq!((store.misplaced_count(), store.behind_count()), (0, 0));
    assert_eq!(block_on(store.tend()), Ok(None), "there is nothing to do");
    world.set_away(Some(0));
    assert_eq!(data(&store, &file), [text(50), text(100)[50..].to_vec()].concat());
}

/// A COMMIT that records an out-of-date copy returns the attributes after the record. The record
/// and the later repair change no data, so the explicit modification time must stay.
#[test]
fn the_record_of_an_out_of_date_copy_keeps_the_modification_time() {
    for seed in 0..2 {
        let mut world = World::new(seed);
        let store = world.start();
        let file = make(&store, "file");
        put(&store, &file, 0, &text(100), Stability::Unstable);
        let time = FileTime { seconds: 7, nanoseconds: 0 };
        let modified = SetAttributes { modified: SetTime::To(time), ..SetAttributes::default() };
        let set = block_on(store.setattr(&superuser(), &file, &modified, None));
        set.result.expect("the superuser may");
        let before = set.wcc.after.expect("it is known");
        world.set_away(Some(1));
        let done = block_on(store.commit(&superuser(), &file, 0, 0));
        done.result.expect("the other copies are there");
        assert_eq!(store.misplaced_count(), 1, "it was noted");
        let after = done.wcc.after.expect("it is known");
        assert_eq!(after.modified, time, "seed {seed}");
        assert_ne!(after.changed, before.changed, "a change time cannot be set");
        assert_eq!(block_on(store.getattr(&file)), Ok(after), "seed {seed}");
        world.set_away(None);
        assert_eq!(tend(&store), RebalanceReport { moved: 1, left: 0 });
        let mended = block_on(store.getattr(&file)).expect("it is there");
        assert_eq!(mended.modified, time, "seed {seed}");
    }
}

/// The record of an out-of-date copy and the migration of data count as internal maintenance, until
/// a client changes the file.
#[test]
fn maintenance_is_distinguished_from_client_changes() {
    let mut world = World::new(0);
    let store = world.start();
    let file = make(&store, "file");
    let attributes = || block_on(store.getattr(&file)).expect("it is there");
    let set_now =
        |world: &World, seconds| world.volume.set_now(FileTime { seconds, nanoseconds: 0 });
    put(&store, &file, 0, &text(100), Stability::Unstable);
    let before = attributes();
    assert_eq!(store.maintenance_span(&file), None);
    set_now(&world, 10);
    world.set_away(Some(1));
    block_on(store.commit(&superuser(), &file, 0, 0)).result.expect("the other copies are there");
    let noted = attributes();
    assert!(before.changed < noted.changed);
    assert_eq!(store.maintenance_span(&file), Some((before.changed, noted.changed)));
    world.set_away(None);
    set_now(&world, 20);
    assert_eq!(tend(&store), RebalanceReport { moved: 1, left: 0 });
    let moved = attributes();
    assert_eq!(store.maintenance_span(&file), Some((before.changed, moved.changed)));
    // A client's change ends the interval of maintenance, even if the same call also caused
    // maintenance.
    set_now(&world, 30);
    world.set_away(Some(2));
    put(&store, &file, 0, &text(50), Stability::Unstable);
    assert_eq!(store.maintenance_span(&file), None);
    let written = attributes();
    set_now(&world, 40);
    world.set_away(None);
    assert_eq!(tend(&store), RebalanceReport { moved: 1, left: 0 });
    assert_eq!(store.maintenance_span(&file), Some((written.changed, attributes().changed)));
    let mode = SetAttributes { mode: Some(Mode::from_bits(0o600)), ..SetAttributes::default() };
    block_on(store.setattr(&superuser(), &file, &mode, None)).result.expect("it may be");
    assert_eq!(store.maintenance_span(&file), None);
}

/// While the data of a file migrates, clients write, truncate or remove the file, or an iod fails
/// at any point.
#[test]
fn files_move_while_clients_use_them() {
    let mut moved = 0;
    for seed in 0..200 {
        let mut world = World::new(seed);
        let store = world.start();
        let [file, other] = ["file", "other"].map(|name| make(&store, name));
        let empty = world.volume.objects();
        let mut whole = text(150);
        put(&store, &file, 0, &whole, Stability::Unstable);
        world.set_away(Some(1));
        put(&store, &file, 20, &[0; 30], Stability::Unstable);
        whole[20..50].fill(0);
        world.set_away(None);
        let write = async {
            for part in 0..10_u64 {
                for _ in 0..world.random.below(12) {
                    yield_now().await;
                }
                if part == 7 && seed % 3 == 0 {
                    let size = SetAttributes { size: Some(90), ..SetAttributes::default() };
                    let done = store.setattr(&superuser(), &file, &size, None).await;
                    done.result.expect("it may be");
                    whole.truncate(90);
                }
                let (at, bytes) = (part * 11, Bytes::from(vec![9; 8]));
                let done = store.write(&superuser(), &file, at, bytes, Stability::Unstable).await;
                assert_eq!(done.result.expect("one copy is there").count, 8);
                let at = usize::try_from(at).expect("it is small");
                whole.resize(whole.len().max(at + 8), 0);
                whole[at..at + 8].fill(9);
                if part == 4 && seed % 5 == 0 {
                    world.set_away(Some(2));
                }
            }
            let done = store.commit(&superuser(), &file, 0, 0).await;
            done.result.expect("one copy is there");
        };
        let (tended, ()) = block_on(join(store.tend(), write));
        let tended = tended.expect("the names are there").expect("it is due");
        moved += tended.moved;
        assert_eq!(data(&store, &file), whole, "seed {seed}");
        world.set_away(None);
        while let Some(tended) = block_on(store.tend()).expect("the names are there") {
            assert_eq!(tended.left, 0, "seed {seed}");
        }
        world.volume.crash();
        let store = world.start();
        for away in 0..3 {
            world.set_away(Some(away));
            assert_eq!(data(&store, &file), whole, "seed {seed}");
        }
        world.set_away(None);
        // Neither completed nor failed migrations may leave objects.
        assert_eq!(tend(&store).left, 0);
        let gone = block_on(store.remove(&superuser(), place(&store, "file")));
        gone.result.expect("it is there");
        assert_eq!(data(&store, &other), []);
        let directories = world.volume.objects() - (empty - 1);
        put(&store, &other, 0, &text(50), Stability::FileSync);
        resize(&store, &other, 0);
        assert!(directories <= 3 * 8, "seed {seed}: {directories} are left");
    }
    assert!(moved > 100, "{moved}");
}

/// An administrator adds an iod, removes another iod from use, and changes the number of copies.
/// The rebalancer must migrate the file each time, and the file must keep its modification time.
#[test]
fn files_follow_the_options_of_the_volume() {
    let mut world = World::new(0);
    world.volume.used = vec![0, 1];
    world.volume.copies = 1;
    let store = world.start();
    let file = make(&store, "file");
    put(&store, &file, 0, &text(100), Stability::FileSync);
    let before = block_on(store.getattr(&file)).expect("it is there");
    let mut wanted = |used: &[u16], copies, rebalance| {
        world.volume.used = used.to_vec();
        (world.volume.copies, world.volume.rebalance) = (copies, rebalance);
        world.volume.set_now(FileTime { seconds: 99, nanoseconds: 0 });
        let store = world.start();
        let tended = block_on(store.tend()).expect("the names are there");
        assert_eq!(data(&store, &file), text(100));
        let after = block_on(store.getattr(&file)).expect("it is there");
        assert_eq!(after.modified, before.modified);
        let placed = block_on(store.head(&file)).expect("it is sound").expect("it has data");
        let mut iods = placed.iods;
        iods.sort_unstable();
        (tended.map(|tended| tended.moved), iods, placed.copies)
    };
    assert_eq!(wanted(&[0, 1, 2], 1, false), (None, vec![0, 1], 1), "it stays where it is");
    assert_eq!(wanted(&[0, 1, 2], 1, true), (Some(1), vec![0, 1, 2], 1));
    assert_eq!(wanted(&[0, 2], 1, true), (Some(1), vec![0, 2], 1));
    assert_eq!(wanted(&[0, 2], 2, false), (Some(1), vec![0, 2], 2));
    // One iod is permanently lost. The data survives only because there are two copies.
    world.volume.used = vec![0, 1];
    let store =
        world.volume.start_with(|number, iod| if number == 2 { Arc::new(LostIod) } else { iod });
    assert_eq!(data(&store, &file), text(100));
    assert_eq!(tend(&store), RebalanceReport { moved: 1, left: 0 });
    assert_eq!(data(&store, &file), text(100));
}
