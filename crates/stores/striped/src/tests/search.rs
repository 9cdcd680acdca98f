//! Tests that the search finds and removes leftover objects while clients use files, and removes no
//! other object.

use core::pin::{Pin, pin};
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Waker};
use core::time::Duration;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::future::join;
use leasehold_base::random::Random;
use leasehold_base::units::Time;
use leasehold_fs::suite::block_on;
use leasehold_fs::{
    NewFile, NewNode, ObjectId, Place, SetAttributes, Stability, Store as _, yield_now,
};
use leasehold_store_mem::MemStore;

use super::names::{HEADS_ARE_NOT_STABLE, HEADS_ARE_NOT_WRITTEN, Names};
use super::outage::Power;
use super::together::Slow;
use super::volume::{Volume, data, make, name, place, put, superuser, text};
use crate::{Found, LayoutPolicy, ObjectName, Scrub, SearchError, Striped, list};

/// A volume whose names and iods have random delays.
struct World {
    volume: Volume,
    names: Arc<Names>,
    store: Striped,
    /// True if the last iod is unreachable.
    is_away: Arc<AtomicBool>,
    seed: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let (mut volume, is_away) = (Volume::new(), Arc::default());
        let (names, store) = Self::start(&mut volume, &is_away, seed);
        Self { volume, names, store, is_away, seed }
    }

    fn start(volume: &mut Volume, is_away: &Arc<AtomicBool>, seed: u64) -> (Arc<Names>, Striped) {
        let names = Arc::<MemStore>::clone(&volume.names);
        let names = Arc::new(Names::new(names, seed, Power::default()));
        let store = volume.start_over(Arc::<Names>::clone(&names), |number, iod| {
            let random = Mutex::new(Random::from_seed(seed * 8 + u64::from(number)));
            let fails = if number == 2 { Arc::clone(is_away) } else { Arc::default() };
            Arc::new(Slow { iod, random, fails, tells: true, power: Power::default() })
        });
        (names, store)
    }

    /// Restarts the metaserver without its memory.
    fn restart(&mut self) {
        let Self { volume, is_away, seed, .. } = self;
        let (names, store) = Self::start(volume, is_away, *seed);
        (self.names, self.store) = (names, store);
    }

    /// Creates a file with data on iods.
    fn file(&self, name: &str) -> ObjectId {
        let file = make(&self.store, name);
        put(&self.store, &file, 0, &text(60), Stability::FileSync);
        file
    }

    fn directory(&self, text: &str) -> ObjectId {
        let (caller, usual) = (superuser(), SetAttributes::default());
        let place = place(&self.store, text);
        let made = block_on(self.store.make(&caller, place, &NewNode::Directory, &usual));
        made.result.expect("it is new").object
    }

    fn rename(&self, from: Place<'_>, to: Place<'_>) {
        let renamed = block_on(self.store.rename(&superuser(), from, to));
        renamed.result.expect("it can be");
    }

    /// Creates a leftover object on each iod.
    fn leave(&self, object: ObjectName) {
        for number in 0..3 {
            let bytes = Bytes::from(text(9));
            let written = self.store.iod(number).write(object, 0, bytes, Stability::FileSync);
            block_on(written).expect("it has room");
        }
    }

    /// Returns all objects of the iods.
    fn objects(&self) -> BTreeSet<(u16, ObjectName)> {
        let on = |number: u16| {
            let listed = block_on(list(self.store.iod(number))).expect("it is there");
            listed.into_iter().map(move |object| (number, object))
        };
        (0..3).flat_map(on).collect()
    }

    fn has(&self, object: ObjectName) -> bool {
        self.objects().iter().any(|(_, it)| *it == object)
    }

    fn search(&self) -> Found {
        block_on(self.store.search()).expect("the names are there")
    }

    fn remove(&self, found: &Found) -> u64 {
        block_on(self.store.remove_found(found)).iter().sum()
    }
}

/// An object name that another start of the metaserver assigned.
const LEFT: ObjectName = ObjectName([9; 16]);

fn at<'a>(directory: &ObjectId, text: &'a str) -> Place<'a> {
    Place { directory: *directory, name: name(text) }
}

/// Yields a number of times that the seed determines.
async fn some_turns(seed: u64) {
    for _ in 0..seed {
        yield_now().await;
    }
}

/// Searches for leftover objects while other work runs repeatedly.
async fn while_searched(store: &Striped, again: impl AsyncFn(u64)) -> Result<Found, SearchError> {
    let is_done = AtomicBool::new(false);
    let searched = async {
        let found = store.search().await;
        is_done.store(true, Ordering::Relaxed);
        found
    };
    let others = async {
        let mut round = 0;
        while !is_done.load(Ordering::Relaxed) {
            again(round).await;
            round += 1;
        }
    };
    join(searched, others).await.0
}

#[test]
fn leftover_objects_are_found_and_removed() {
    let mut world = World::new(1);
    let file = world.file("file");
    put(&world.store, &make(&world.store, "small"), 0, &text(5), Stability::FileSync);
    let kept = world.objects();
    for is_restarted in [false, true] {
        // The leftovers are: an object of another start, an object that this start has created and
        // abandoned, and an object with an object name that this start has not assigned yet.
        let given = world.store.new_head(&LayoutPolicy::default(), false).name;
        let next =
            world.store.options.head(&LayoutPolicy::default(), 200, false, &BTreeSet::new()).name;
        [LEFT, LEFT.second(), given, next].into_iter().for_each(|object| world.leave(object));
        if is_restarted {
            world.restart();
        }
        let found = world.search();
        let left = found.leftovers.iods.iter().flatten();
        assert!(left.clone().all(|left| (left.all, left.count(), left.bytes()) == (5, 4, 36)));
        assert_eq!((found.leftovers.all(), found.leftovers.count()), (15, 12));
        assert!(found.leftovers.are_most(), "nobody would believe it");
        let new = world.store.new_head(&LayoutPolicy::default(), false).name;
        let number = world.store.options.number_of(new).expect("it is of this start");
        assert_eq!(number > 200, !is_restarted, "what is of no file never is of one");
        assert_eq!(world.remove(&found), 12);
        assert_eq!(world.objects(), kept);
        assert_eq!(data(&world.store, &file), text(60));
        assert_eq!(world.search().leftovers.count(), 0);
    }
}

/// During a search a client renames a directory, a file in the directory, or a link of the file
/// back and forth, so that each walk may miss it. The search must spare the objects of the files.
#[test]
fn files_renamed_during_a_search_keep_their_objects() {
    for seed in 0..300 {
        let mut world = World::new(seed);
        let first = world.directory("first");
        // These directories are between the two names in the order of the walk, so that renames can
        // happen while the walk examines them.
        for name in ["a", "b", "c", "d", "e", "f"] {
            world.directory(name);
        }
        let second = world.directory("second");
        let below = world.directory("below");
        world.rename(place(&world.store, "below"), at(&first, "below"));
        let file = world.file("file");
        let from = if seed % 3 == 0 { below } else { first };
        world.rename(place(&world.store, "file"), at(&from, "file"));
        world.leave(LEFT);
        world.restart();
        let (store, caller) = (&world.store, superuser());
        let moved = if seed % 3 == 0 { "below" } else { "file" };
        let found = block_on(while_searched(store, async |round| {
            some_turns((seed / 3 + round * 5) % 31).await;
            let (from, to) = if round % 2 == 0 { (first, second) } else { (second, first) };
            let (from, to) = (at(&from, moved), at(&to, moved));
            if seed % 3 < 2 {
                store.rename(&caller, from, to).await.result.expect("it can be");
            } else {
                store.link(&caller, &file, to).await.result.expect("it can be");
                store.remove(&caller, from).await.result.expect("it is there");
            }
        }));
        let found = found.expect("the names are there");
        assert_eq!(found.leftovers.count(), 3, "seed {seed}");
        assert_eq!(world.remove(&found), 3);
        assert_eq!(data(&world.store, &file), text(60), "seed {seed}");
    }
}

/// Clients create files, let them grow out of their metafiles, and remove them, during a search.
#[test]
fn files_created_during_a_search_keep_their_objects() {
    for seed in 0..100 {
        let world = World::new(seed);
        world.leave(LEFT);
        world.file("kept");
        let small = make(&world.store, "small");
        put(&world.store, &small, 0, &text(10), Stability::FileSync);
        let (store, caller) = (&world.store, superuser());
        let write = async |file: &ObjectId, offset, length| {
            let bytes = Bytes::from(text(length));
            let done = store.write(&caller, file, offset, bytes, Stability::Unstable).await;
            done.result.expect("there is room");
        };
        let made = Mutex::new(Vec::new());
        let found = block_on(while_searched(store, async |round| {
            some_turns(seed % 13).await;
            if round == seed % 3 {
                write(&small, 10, 90).await;
            }
            let called = format!("file {round}");
            let new = NewFile::Guarded(SetAttributes::default());
            let new = store.create(&caller, place(store, &called), &new).await;
            let file = new.result.expect("it is new").object;
            write(&file, 0, 60).await;
            if round % 2 == 0 {
                store.remove(&caller, place(store, &called)).await.result.expect("it is there");
            } else {
                made.lock().expect("nobody panics").push(file);
            }
        }));
        world.remove(&found.expect("the names are there"));
        assert!(!world.has(LEFT), "seed {seed}");
        for file in made.into_inner().expect("nobody panics") {
            assert_eq!(data(store, &file), text(60), "seed {seed}");
        }
        assert_eq!(data(store, &small)[10..], text(90)[..(data(store, &small).len() - 10).min(90)]);
    }
}

/// Polls some work up to `polls` times; returns false if it completes.
fn begin<W: Future>(work: Pin<&mut W>, polls: u32) -> bool {
    let (mut work, mut context) = (work, Context::from_waker(Waker::noop()));
    (0..polls).all(|_| work.as_mut().poll(&mut context).is_pending())
}

/// The data of a file is migrating, or moving from the metafile to iods, when a search begins or
/// during the search. The operation completes only after the search and the removal. The file must
/// keep its objects.
#[test]
fn files_moved_during_a_search_keep_their_objects() {
    let mut cut_short = 0;
    for (grows, is_first) in [(false, false), (false, true), (true, false), (true, true)] {
        for polls in 0.. {
            let world = World::new(3);
            let store = &world.store;
            let file = make(store, "file");
            put(store, &file, 0, &text(if grows { 10 } else { 60 }), Stability::FileSync);
            world.leave(LEFT);
            let elsewhere = LayoutPolicy { iods: vec![1], ..LayoutPolicy::default() };
            block_on(store.lay_out(&file, &elsewhere)).expect("it is a file");
            let (caller, more) = (superuser(), Bytes::from(text(90)));
            let mut change = pin!(async {
                match grows {
                    true => {
                        let how = Stability::FileSync;
                        let grown = store.write(&caller, &file, 10, more, how).await;
                        grown.result.map(drop).expect("it has room");
                    }
                    false => drop(store.tend().await.expect("the names are there")),
                }
            });
            let mut search = pin!(store.search());
            let is_begun = is_first || begin(change.as_mut(), polls);
            assert!(begin(search.as_mut(), 1), "iods take their time");
            if !is_begun || (is_first && !begin(change.as_mut(), polls)) {
                break;
            }
            let found = block_on(search).expect("the names are there");
            world.remove(&found);
            assert!(!world.has(LEFT), "{polls} polls");
            block_on(change);
            let whole = if grows { [text(10), text(90)].concat() } else { text(60) };
            assert_eq!(data(store, &file), whole, "{polls} polls, {grows}, {is_first}");
            assert_eq!(world.objects().len(), 1, "{polls} polls, {grows}, {is_first}");
            cut_short += 1;
        }
    }
    assert!(cut_short > 100, "{cut_short}");
}

/// A small file grows while a removal examines leftover objects with the file's object name. The
/// file must be complete afterwards.
#[test]
fn a_file_that_grows_during_a_removal_is_complete() {
    for seed in 0..300 {
        let world = World::new(seed);
        let (store, caller) = (&world.store, superuser());
        let small = make(store, "small");
        put(store, &small, 0, &text(10), Stability::FileSync);
        let head = block_on(store.head(&small)).expect("it is sound").expect("it has one");
        world.leave(head.name);
        let found = world.search();
        assert_eq!(found.leftovers.count(), 3);
        let grow = async {
            some_turns(seed % 17).await;
            let more = Bytes::from(text(90));
            let grown = store.write(&caller, &small, 10, more, Stability::FileSync).await;
            grown.result.map(drop).expect("it has room");
        };
        block_on(join(store.remove_found(&found), grow));
        assert_eq!(data(store, &small), [text(10), text(90)].concat(), "seed {seed}");
    }
}

/// A crash interrupts the move of a small file from its metafile to iods and leaves objects. The
/// search removes these objects, unless the file grows first and uses them.
#[test]
fn leftovers_of_a_small_file_are_removed_before_it_grows() {
    for grows_first in [false, true] {
        let mut world = World::new(1);
        let [small, other] = ["small", "other"].map(|name| make(&world.store, name));
        for file in [&small, &other] {
            put(&world.store, file, 0, &text(10), Stability::FileSync);
        }
        let head = block_on(world.store.head(&small)).expect("it is sound").expect("it has one");
        world.leave(head.name);
        world.file("kept");
        world.restart();
        let found = world.search();
        assert_eq!(found.leftovers.count(), 3);
        if grows_first {
            put(&world.store, &small, 10, &text(90), Stability::FileSync);
        }
        assert_eq!(world.remove(&found), if grows_first { 0 } else { 3 });
        put(&world.store, &small, 10, &text(90), Stability::FileSync);
        assert_eq!(data(&world.store, &small), [text(10), text(90)].concat());
        assert_eq!(data(&world.store, &other), text(10));
    }
}

/// If a metafile may contain either of two headers, the search spares the objects of both until the
/// next start.
#[test]
fn doubtful_objects_are_kept() {
    for heads in [HEADS_ARE_NOT_WRITTEN, HEADS_ARE_NOT_STABLE] {
        let mut world = World::new(1);
        let file = world.file("file");
        let elsewhere = LayoutPolicy { iods: vec![1], ..LayoutPolicy::default() };
        block_on(world.store.lay_out(&file, &elsewhere)).expect("it is a file");
        world.names.set_heads(heads);
        block_on(world.store.tend()).expect("the names are there");
        let objects = world.objects();
        assert!(objects.len() > 3, "it was tried");
        let found = world.search();
        assert_eq!((found.leftovers.count(), world.remove(&found)), (0, 0));
        assert_eq!(world.objects(), objects);
        world.names.set_heads(0);
        world.restart();
        let found = world.search();
        world.remove(&found);
        assert_eq!(data(&world.store, &file), text(60));
        assert!(world.objects().len() < objects.len(), "some are nobody's");
    }
}

#[test]
fn objects_of_an_iod_that_is_away_are_kept() {
    let world = World::new(1);
    let file = world.file("file");
    world.leave(LEFT);
    world.is_away.store(true, Ordering::Relaxed);
    let found = world.search();
    assert!(found.leftovers.iods[2].is_none());
    assert_eq!((found.leftovers.count(), world.remove(&found)), (2, 2));
    world.is_away.store(false, Ordering::Relaxed);
    assert_eq!(data(&world.store, &file), text(60));
    // The iod is reachable during the search, but not during the removal.
    let found = world.search();
    assert_eq!(found.leftovers.count(), 1);
    world.is_away.store(true, Ordering::Relaxed);
    assert_eq!(world.remove(&found), 0);
    world.is_away.store(false, Ordering::Relaxed);
    assert_eq!(world.remove(&found), 1);
}

/// The removal spares an object that was written after the search, although no file has the object.
#[test]
fn objects_written_since_the_search_are_kept() {
    let world = World::new(1);
    world.file("file");
    world.leave(LEFT);
    let found = world.search();
    let more = world.store.iod(0).write(LEFT, 9, Bytes::from(text(1)), Stability::FileSync);
    block_on(more).expect("it has room");
    assert_eq!((found.leftovers.count(), world.remove(&found)), (3, 2));
}

/// The search finds no leftovers if a metafile cannot be read, or if other metaservers have
/// metafiles.
#[test]
fn a_search_without_all_metafiles_fails() {
    let mut world = World::new(1);
    let file = world.file("file");
    let (caller, damage) = (superuser(), Bytes::from_static(b"x"));
    let done = world.volume.names.write(&caller, &file, 30, damage, Stability::FileSync);
    block_on(done).result.expect("it has room");
    let failed = block_on(world.store.search()).expect_err("it is damaged");
    assert!(matches!(failed, SearchError::Names(..)), "{failed:?}");
    world.volume.shared = true;
    world.restart();
    let failed = block_on(world.store.search()).expect_err("there are others");
    assert_eq!(failed, SearchError::Several);
}

/// The result of a search shows if no metafile of the volume was found.
#[test]
fn a_majority_of_leftovers_is_reported() {
    let world = World::new(1);
    for name in ["a", "b"] {
        world.file(name);
    }
    world.leave(LEFT);
    assert!(!world.search().leftovers.are_most());
    world.leave(LEFT.second());
    assert!(!world.search().leftovers.are_most(), "it is half of all");
    for name in ["a", "b"] {
        let (store, caller) = (&world.store, superuser());
        block_on(store.remove(&caller, place(store, name))).result.expect("it is there");
    }
    let found = world.search();
    assert!(found.leftovers.are_most() && !found.leftovers.is_volumes);
}

/// Two concurrent searches would take each other's records of renamed files, so the second search
/// fails.
#[test]
fn only_one_search_runs_at_a_time() {
    let world = World::new(1);
    world.leave(LEFT);
    let (first, second) = block_on(join(world.store.search(), world.store.search()));
    assert!(first.is_ok());
    assert_eq!(second.map(drop), Err(SearchError::Busy));
    assert!(block_on(world.store.search()).is_ok());
}

/// A removal in the background spares objects that only one search has found, and objects that
/// changed between two searches.
#[test]
fn a_scrub_removes_objects_unchanged_between_two_searches() {
    let world = World::new(3);
    let file = world.file("file");
    let kept = world.objects();
    let other = ObjectName([8; 16]);
    [LEFT, other].into_iter().for_each(|object| world.leave(object));
    let at = |seconds| Time::default() + Duration::from_secs(seconds);
    let keep = Duration::from_secs(60);
    let mut scrub = Scrub::default();
    let ripe = |scrub: &mut Scrub, seconds| scrub.ripe(world.search(), at(seconds), keep);
    assert_eq!(ripe(&mut scrub, 10).leftovers.count(), 0, "one search is not enough");
    assert_eq!(ripe(&mut scrub, 69).leftovers.count(), 0, "the searches are too close");
    let grown = Bytes::from(text(30));
    block_on(world.store.iod(0).write(other, 0, grown, Stability::FileSync)).expect("it has room");
    let found = ripe(&mut scrub, 70);
    assert_eq!(found.leftovers.count(), 5, "one object has changed");
    assert_eq!(world.remove(&found), 5);
    assert!(world.has(other) && !world.has(LEFT));
    assert_eq!(ripe(&mut scrub, 100).leftovers.count(), 0);
    let found = ripe(&mut scrub, 130);
    assert_eq!(world.remove(&found), 1);
    assert_eq!(world.objects(), kept);
    assert_eq!(data(&world.store, &file), text(60));
    assert_eq!(ripe(&mut scrub, 200).leftovers.count(), 0);
}

/// An administrator restores metafiles between two searches. The removal must spare their objects.
#[test]
fn a_scrub_keeps_the_objects_of_a_metafile_that_is_back_in_time() {
    let mut world = World::new(4);
    let file = world.file("file");
    world.leave(LEFT);
    world.restart();
    let (root, caller) = (world.store.root(), superuser());
    let head = block_on(world.volume.names.read(&caller, &file, 0, 512)).expect("it is there").data;
    let length = SetAttributes { size: Some(0), ..SetAttributes::default() };
    block_on(world.volume.names.setattr(&caller, &file, &length, None)).result.expect("it may be");
    let at = |seconds| Time::default() + Duration::from_secs(seconds);
    let mut scrub = Scrub::default();
    let found = world.search();
    assert_eq!(found.leftovers.count(), 6, "the objects of the file belong to no metafile");
    assert_eq!(scrub.ripe(found, at(10), Duration::ZERO).leftovers.count(), 0);
    let put_back = world.volume.names.write(&caller, &file, 0, head, Stability::FileSync);
    block_on(put_back).result.expect("it has room");
    let found = scrub.ripe(world.search(), at(20), Duration::ZERO);
    assert_eq!((found.leftovers.count(), world.remove(&found)), (3, 3));
    world.restart();
    assert_eq!(root, world.store.root());
    assert_eq!(data(&world.store, &file), text(60));
}
