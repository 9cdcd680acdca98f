//! Tests of power failures during a change: the state at the next start, and the leftover objects.

use core::future::{pending, poll_fn};
use core::pin::pin;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use core::task::Poll;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::future::{Either, select};
use leasehold_base::random::Random;
use leasehold_base::units::FileSystemId;
use leasehold_fs::suite::block_on;
use leasehold_fs::{FsError, ObjectId, Reservations, Stability, Store as _, Verifier};
use leasehold_store_mem::{Config, MemStore};

use super::names::Names;
use super::together::Slow;
use super::volume::{Volume, commit, data, make, mark, place, put, superuser, text};
use crate::{FileIod, Iod as _, LayoutPolicy, Local, ObjectName, Placed, Striped, list};

/// The simulated power supply of a cluster, which fails after a given number of steps of the
/// machines.
#[derive(Clone, Default)]
pub(super) struct Power(Arc<Supply>);

#[derive(Default)]
struct Supply {
    is_limited: AtomicBool,
    left: AtomicU32,
}

impl Power {
    fn fail_after(&self, steps: u32) {
        self.0.left.store(steps, Ordering::Relaxed);
        self.0.is_limited.store(true, Ordering::Relaxed);
    }

    fn has_failed(&self) -> bool {
        self.0.is_limited.load(Ordering::Relaxed) && self.0.left.load(Ordering::Relaxed) == 0
    }

    /// Counts a step of a machine. Without power, the future never completes.
    pub(super) async fn used(&self) {
        if self.has_failed() {
            pending::<()>().await;
        }
        if self.0.is_limited.load(Ordering::Relaxed) {
            self.0.left.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Runs work to its end; returns `None` if the power fails before the end.
    fn run<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let failure = pin!(poll_fn(|context| {
            context.waker().wake_by_ref();
            if self.has_failed() { Poll::Ready(()) } else { Poll::Pending }
        }));
        match block_on(select(pin!(work), failure)) {
            Either::Left((done, _)) => Some(done),
            Either::Right(_) => None,
        }
    }
}

/// The sets of machines that lose power: bit 0 is the store of names, the other bits are the iods.
/// The empty set means that only the metaserver was killed.
const CRASHED: [u8; 7] = [0b0000, 0b0001, 0b0010, 0b0100, 0b1001, 0b1110, 0b1111];

/// A volume whose machines have random delays, and stop when the power fails.
struct World {
    volume: Volume,
    power: Power,
}

impl World {
    fn new() -> Self {
        Self { volume: Volume::new(), power: Power::default() }
    }

    fn start(&mut self, seed: u64) -> Striped {
        let Self { volume, power } = self;
        let names = Names::new(Arc::<MemStore>::clone(&volume.names), seed, power.clone());
        volume.start_over(Arc::new(names), |number, iod| {
            let random = Mutex::new(Random::from_seed(seed * 8 + u64::from(number)));
            let (fails, power) = (Arc::default(), power.clone());
            Arc::new(Slow { iod, random, fails, tells: false, power })
        })
    }

    /// Restores the power and starts the metaserver, after the machines in `crashed` have lost
    /// their unstable data.
    fn restart(&mut self, crashed: u8) -> Striped {
        if crashed & 1 != 0 {
            self.volume.names.crash();
        }
        for (number, iod) in self.volume.iods.iter().enumerate() {
            if crashed & (2 << number) != 0 {
                iod.crash();
            }
        }
        self.power = Power::default();
        self.volume.start()
    }

    fn folders(&self) -> Vec<FileIod<Local>> {
        let iods = (0..).zip(&self.volume.iods);
        let folder = |(number, store): (u16, &Arc<MemStore>)| {
            let files = Local::new(Arc::<MemStore>::clone(store));
            block_on(FileIod::open(files, &mark(number))).expect("it has room")
        };
        iods.map(folder).collect()
    }

    /// Removes all objects that do not belong to this file; returns their number.
    fn collect(&self, file: &ObjectId) -> usize {
        let head = block_on(self.volume.names.read(&superuser(), file, 0, 512));
        let placed = match head {
            Ok(head) => Placed::read(&head.data).expect("it is sound"),
            Err(error) => {
                assert_eq!(error, FsError::Stale);
                None
            }
        };
        let named = placed.map(|placed| placed.objects()).unwrap_or_default();
        let named: BTreeSet<ObjectName> = named.into_iter().collect();
        let mut removed = 0;
        for folder in self.folders() {
            for object in block_on(list(&folder)).expect("nothing fails") {
                if !named.contains(&object) {
                    block_on(folder.remove(object)).expect("it is there");
                    removed += 1;
                }
            }
        }
        removed
    }
}

/// A write that makes a file too large for inline data.
struct Growth {
    /// The data on stable storage before the write.
    before: Vec<u8>,
    offset: usize,
    added: Vec<u8>,
    how: Stability,
    /// True if the layout policy changes after the creation of the file.
    elsewhere: bool,
}

impl Growth {
    fn of(seed: u64) -> Self {
        let before = text(if seed.is_multiple_of(3) { 0 } else { 10 });
        let offset = before.len() / 2;
        let how = [Stability::Unstable, Stability::FileSync][usize::from(seed & 1 != 0)];
        Self { before, offset, added: vec![99; 60], how, elsewhere: seed & 2 != 0 }
    }

    fn after(&self) -> Vec<u8> {
        [&self.before[..self.offset], &self.added].concat()
    }

    /// Returns true if each byte has its value from before or from after the write. Bytes beyond
    /// the old end may be missing.
    fn is_between(&self, found: &[u8]) -> bool {
        let after = self.after();
        let known = |at: usize, byte: u8| {
            byte == after[at] || byte == self.before.get(at).copied().unwrap_or_default()
        };
        (self.before.len()..=after.len()).contains(&found.len())
            && found.iter().enumerate().all(|(at, &byte)| known(at, byte))
    }

    /// Executes the write, and lets the power fail after a number of steps. Returns the verifier of
    /// the reply, if there was a reply.
    fn run(&self, world: &mut World, seed: u64, steps: u32) -> (ObjectId, Option<Verifier>) {
        let store = world.start(seed);
        let file = make(&store, "file");
        put(&store, &file, 0, &self.before, Stability::FileSync);
        if self.elsewhere {
            let elsewhere = LayoutPolicy { iods: vec![2, 0], ..LayoutPolicy::default() };
            block_on(store.lay_out(&file, &elsewhere)).expect("it is a file");
        }
        world.power.fail_after(steps);
        let (caller, added) = (superuser(), Bytes::from(self.added.clone()));
        let grown = store.write(&caller, &file, self.offset as u64, added, self.how);
        let answered = world.power.run(grown).map(|done| {
            let done = done.result.expect("nothing fails");
            assert_eq!(done.count as usize, self.added.len());
            done.verifier
        });
        (file, answered)
    }
}

/// A growing file is complete in its metafile or on the iods, for every crash at every step; a
/// search finds its leftover objects and can remove them.
#[test]
fn a_growing_file_is_complete_after_a_power_failure_at_any_step() {
    let (mut cut_short, mut left_behind) = (0, 0);
    for seed in 0..6 {
        let growth = Growth::of(seed);
        for (at, crashed) in (seed..).zip(CRASHED) {
            // Test every third step; the other combinations of crash and seed test the other steps.
            for steps in (u32::try_from(at % 3).expect("it is small")..).step_by(3) {
                let mut world = World::new();
                let (file, answered) = growth.run(&mut world, seed, steps);
                let store = world.restart(crashed);
                let what = format!("seed {seed}, {steps} steps, {crashed:04b} crashed");
                let found = data(&store, &file);
                assert!(growth.is_between(&found), "{what}: {found:?}");
                let promised = match answered {
                    Some(_) if growth.how == Stability::FileSync => true,
                    // If COMMIT returns the verifier of the write, the client does not write the
                    // data again, so the data must be there.
                    Some(verifier) => commit(&store, &file) == verifier,
                    None => false,
                };
                assert!(!promised || found == growth.after(), "{what}: {found:?} is not all");
                left_behind += world.collect(&file);
                assert_eq!(data(&world.restart(0), &file), found, "{what}: it was no orphan");
                // Unstable data may disappear together with the header that contains its object
                // name.
                let store = world.restart(15);
                left_behind += world.collect(&file);
                put(&store, &file, growth.offset as u64, &growth.added, Stability::FileSync);
                assert_eq!(data(&store, &file), growth.after(), "{what}");
                assert_eq!(world.collect(&file), 0, "{what}: it uses what is there");
                block_on(store.remove(&superuser(), place(&store, "file"))).result.expect("it is");
                assert_eq!(world.collect(&file), 0, "{what}: all of it goes with it");
                if answered.is_some() {
                    break;
                }
                cut_short += 1;
            }
        }
    }
    assert!(cut_short > 500 && left_behind > 100, "{cut_short} cut short, {left_behind} left");
}

/// An iod is full when the data of a file moves from its metafile to iods. No objects of the file
/// may remain on the other iods.
#[test]
fn a_file_without_room_leaves_no_objects() {
    let mut world = World::new();
    // The iod has space for two directories and the mark, but not for an object.
    let config =
        Config { file_system: FileSystemId(11), capacity_bytes: 3 << 12, ..Config::default() };
    world.volume.iods[1] = Arc::new(MemStore::new(config));
    let store = world.start(1);
    let file = make(&store, "file");
    put(&store, &file, 0, &text(10), Stability::FileSync);
    let (caller, more) = (superuser(), Bytes::from(text(60)));
    let grown = block_on(store.write(&caller, &file, 10, more.clone(), Stability::FileSync));
    assert_eq!(grown.result, Err(FsError::NoSpace));
    assert_eq!(data(&store, &file), text(10));
    assert_eq!(world.collect(&file), 0);
    // The iod counts as full now, so the next attempt uses the other iods.
    put(&store, &file, 10, &more, Stability::FileSync);
    assert_eq!(data(&store, &file), [text(10), text(60)].concat());
    assert_eq!(world.collect(&file), 0);
}

/// In the worst case all data of a file goes to the fullest iod, with both copies if two iods share
/// a disk. The store must not reserve more space for later data than this iod has.
#[test]
fn no_more_room_is_promised_than_the_fullest_iod_has() {
    let on = |file_system, blocks: u64| {
        let file_system = FileSystemId(file_system);
        let config = Config { file_system, capacity_bytes: blocks << 12, ..Config::default() };
        Arc::new(MemStore::new(config))
    };
    for (copies, systems, share) in [(1, [20, 21, 22], 1), (2, [20, 21, 22], 1), (2, [20; 3], 2)] {
        let mut volume = Volume::new();
        volume.copies = copies;
        let blocks = if systems[0] == systems[1] { [640; 3] } else { [1280, 640, 1280] };
        volume.iods = systems.into_iter().zip(blocks).map(|(id, of)| on(id, of)).collect();
        let store = volume.start();
        let (caller, root) = (superuser(), store.root());
        let (all, _) = block_on(store.space(&caller, &root)).expect("all are there");
        let promised = block_on(store.reservable_space(&caller, &root))
            .expect("all are there")
            .available_bytes;
        let fullest = block_on(volume.iods[1].space(&caller, &volume.iods[1].root()));
        let fullest = fullest.expect("it is there").0;
        assert_eq!(promised, fullest.promised().available_bytes / share, "{copies} {systems:?}");
        assert!(promised < fullest.available_bytes && promised < all.available_bytes);
    }
}

/// The power fails while a file is migrated or removed. After the restart the file must be complete
/// or gone.
#[test]
fn a_moved_or_removed_file_is_complete_or_gone_after_a_power_failure() {
    let mut left_behind = 0;
    for seed in 0..6 {
        let goes = seed & 1 != 0;
        for crashed in CRASHED {
            for steps in 0.. {
                let mut world = World::new();
                let store = world.start(seed);
                let file = make(&store, "file");
                put(&store, &file, 0, &text(60), Stability::FileSync);
                let elsewhere = LayoutPolicy { iods: vec![1], ..LayoutPolicy::default() };
                block_on(store.lay_out(&file, &elsewhere)).expect("it is a file");
                world.power.fail_after(steps);
                let is_done = if goes {
                    let caller = superuser();
                    let removed = store.remove(&caller, place(&store, "file"));
                    world.power.run(removed).map(|done| done.result.expect("it is there"))
                } else {
                    world.power.run(async {
                        store.tend().await.expect("nothing fails");
                    })
                };
                drop(store);
                let store = world.restart(crashed);
                let what = format!("seed {seed}, {steps} steps, {crashed:04b} crashed");
                left_behind += world.collect(&file);
                let store = [store, world.restart(15)];
                for store in &store {
                    match block_on(store.getattr(&file)) {
                        Ok(_) => assert_eq!(data(store, &file), text(60), "{what}"),
                        Err(error) => assert!(goes && error == FsError::Stale, "{what}: {error}"),
                    }
                }
                if is_done.is_some() {
                    let is_there = block_on(store[1].getattr(&file)).is_ok();
                    assert_eq!(is_there, !goes, "{what}");
                    break;
                }
            }
        }
    }
    assert!(left_behind > 100, "{left_behind}");
}
