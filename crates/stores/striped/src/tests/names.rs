//! Tests with a store of names that has random delays and fails to write metafile headers. They
//! cover interleavings of two operations on names, and headers that may or may not be written after
//! an error.

use core::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::future::join;
use leasehold_base::random::Random;
use leasehold_base::units::{Cookie, FileTime};
use leasehold_fs::suite::block_on;
use leasehold_fs::{
    Access, Attributes, Budget, Caller, Capabilities, Changed, Coherence, Committed,
    ExclusiveAccess, Found, FsError, Guard, LayoutPolicies, Linked, MaybeReady, Name, NewFile,
    NewNode, ObjectId, Page, Place, ReadDone, Renamed, SetAttributes, SetTime, Space, Stability,
    Store, Target, Wanted, WriteDone, forward_store, yield_now,
};
use leasehold_store_mem::MemStore;

use super::outage::Power;
use super::volume::{Volume, data, make, name, place, put, superuser, text};
use crate::metafile::HEAD_BYTES;
use crate::{LayoutPolicy, LostIod, RebalanceReport, Striped};

const ALL_IS_WELL: u8 = 0;
pub(super) const HEADS_ARE_NOT_WRITTEN: u8 = 1;
pub(super) const HEADS_ARE_NOT_STABLE: u8 = 2;

/// A store of names that yields before and after each operation.
pub(super) struct Names {
    store: Arc<dyn Store>,
    random: Mutex<Random>,
    heads: AtomicU8,
    power: Power,
    /// True if exclusive access to a file excludes other metaservers.
    keeps_others_off: bool,
}

impl Names {
    pub(super) fn new(store: Arc<dyn Store>, seed: u64, power: Power) -> Self {
        let random = Mutex::new(Random::from_seed(seed));
        let (heads, keeps_others_off) = (AtomicU8::new(ALL_IS_WELL), false);
        Self { store, random, heads, power, keeps_others_off }
    }

    /// Makes exclusive access exclude other metaservers, as for a store of names that several
    /// metaservers share.
    pub(super) fn shared(self) -> Self {
        Self { keeps_others_off: true, ..self }
    }

    /// Sets the outcome of later writes of metafile headers.
    pub(super) fn set_heads(&self, heads: u8) {
        self.heads.store(heads, Ordering::Relaxed);
    }

    async fn turns(&self) {
        let turns = self.random.lock().expect("nobody panics").below(4);
        for _ in 0..turns {
            yield_now().await;
        }
        self.power.used().await;
    }
}

macro_rules! slowly {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {
        $(fn $name<'a>(&'a self, $($argument: $type),*) -> MaybeReady<'a, $answer> {
            MaybeReady::later(async move {
                self.turns().await;
                let done = self.store.$name($($argument),*).await;
                self.turns().await;
                done
            })
        })*
    };
}

impl Store for Names {
    forward_store!(store: root identity path properties);

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities { coherence: Some(self), layout_policies: Some(self), ..Capabilities::NONE }
    }

    fn write<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> MaybeReady<'a, Changed<WriteDone>> {
        MaybeReady::later(async move {
            self.turns().await;
            let is_head = offset == 0 && data.len() as u64 == HEAD_BYTES;
            let heads = self.heads.load(Ordering::Relaxed);
            if is_head && heads == HEADS_ARE_NOT_WRITTEN {
                return Changed::failed(FsError::Io);
            }
            let done = self.store.write(caller, object, offset, data, stability).await;
            self.turns().await;
            if is_head && heads == HEADS_ARE_NOT_STABLE {
                return Changed::failed(FsError::Io);
            }
            done
        })
    }

    slowly! {
        fn getattr(object: &'a ObjectId) -> Result<Attributes, FsError>;
        fn setattr(
            caller: &'a Caller,
            object: &'a ObjectId,
            changes: &'a SetAttributes,
            guard: Option<FileTime>
        ) -> Changed<()>;
        fn lookup(
            caller: &'a Caller,
            directory: &'a ObjectId,
            name: Name<'a>
        ) -> Result<Found, FsError>;
        fn parent(caller: &'a Caller, directory: &'a ObjectId) -> Result<Found, FsError>;
        fn access(
            caller: &'a Caller,
            object: &'a ObjectId,
            wanted: Access
        ) -> Result<(Access, Attributes), FsError>;
        fn readlink(
            caller: &'a Caller,
            object: &'a ObjectId
        ) -> Result<(Target, Attributes), FsError>;
        fn read(
            caller: &'a Caller,
            object: &'a ObjectId,
            offset: u64,
            count: u32
        ) -> Result<ReadDone, FsError>;
        fn create(caller: &'a Caller, place: Place<'a>, file: &'a NewFile) -> Changed<Found>;
        fn make(
            caller: &'a Caller,
            place: Place<'a>,
            node: &'a NewNode<'a>,
            attributes: &'a SetAttributes
        ) -> Changed<Found>;
        fn remove(caller: &'a Caller, place: Place<'a>) -> Changed<()>;
        fn rmdir(caller: &'a Caller, place: Place<'a>) -> Changed<()>;
        fn rename(caller: &'a Caller, from: Place<'a>, to: Place<'a>) -> Renamed;
        fn link(caller: &'a Caller, object: &'a ObjectId, place: Place<'a>) -> Linked;
        fn readdir(
            caller: &'a Caller,
            directory: &'a ObjectId,
            cookie: Cookie,
            budget: Budget,
            wanted: Wanted
        ) -> Result<Page, FsError>;
        fn space(
            caller: &'a Caller,
            object: &'a ObjectId
        ) -> Result<(Space, Attributes), FsError>;
        fn commit(
            caller: &'a Caller,
            object: &'a ObjectId,
            offset: u64,
            length: u32
        ) -> Changed<Committed>;
    }
}

impl Coherence for Names {
    fn acquire<'a>(
        &'a self,
        _: &'a ObjectId,
        _: Guard,
        _: bool,
    ) -> MaybeReady<'a, Result<(), FsError>> {
        MaybeReady::now(Ok(()))
    }

    fn exclusive<'a>(
        &'a self,
        _: &'a ObjectId,
    ) -> MaybeReady<'a, Result<ExclusiveAccess, FsError>> {
        let alone = if self.keeps_others_off {
            ExclusiveAccess::until(1, || ())
        } else {
            ExclusiveAccess::default()
        };
        MaybeReady::now(Ok(alone))
    }
}

impl LayoutPolicies for Names {
    slowly! {
        fn layout_policy(object: &'a ObjectId) -> Result<Option<Bytes>, FsError>;
        fn set_layout_policy(object: &'a ObjectId, policy: Bytes) -> Result<(), FsError>;
    }
}

struct World {
    volume: Volume,
    names: Arc<Names>,
    store: Striped,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut volume = Volume::new();
        let store = Arc::<MemStore>::clone(&volume.names);
        let names = Arc::new(Names::new(store, seed, Power::default()));
        let store = volume.start_over(Arc::<Names>::clone(&names), |_, iod| iod);
        Self { volume, names, store }
    }

    /// Restarts the metaserver over the same names.
    fn restart(&mut self) {
        self.store = self.volume.start_over(Arc::<Names>::clone(&self.names), |_, iod| iod);
    }

    fn set_heads(&self, heads: u8) {
        self.names.set_heads(heads);
    }

    fn iods(&self, file: &ObjectId) -> Vec<u16> {
        let mut iods =
            block_on(self.store.head(file)).expect("it is sound").expect("it has data").iods;
        iods.sort_unstable();
        iods
    }

    fn tend(&self) -> Option<RebalanceReport> {
        block_on(self.store.tend()).expect("the names are there")
    }
}

fn directory(store: &Striped, directory: &ObjectId, text: &str) -> ObjectId {
    let place = Place { directory: *directory, name: name(text) };
    let (caller, usual) = (superuser(), SetAttributes::default());
    let made = block_on(store.make(&caller, place, &NewNode::Directory, &usual));
    made.result.expect("it is new").object
}

/// Yields a number of times that the seed determines.
async fn some_turns(seed: u64) {
    for _ in 0..seed % 97 {
        yield_now().await;
    }
}

/// While the rebalancer examines all files, a client renames a directory or file, or links a file
/// and removes its old name. The rebalancer must not miss a file.
#[test]
fn files_renamed_during_a_rebalance_leave_their_iod() {
    for seed in 0..300 {
        let mut world = World::new(seed);
        let caller = superuser();
        let root = world.store.root();
        let [first, second] = ["first", "second"].map(|text| directory(&world.store, &root, text));
        let below = directory(&world.store, &first, "below");
        let file = make(&world.store, "file");
        put(&world.store, &file, 0, &text(60), Stability::FileSync);
        let from = if seed % 3 == 0 { below } else { first };
        let at = |directory, text| Place { directory, name: name(text) };
        let there = world.store.rename(&caller, place(&world.store, "file"), at(from, "file"));
        block_on(there).result.expect("it can be");
        assert_eq!(world.iods(&file), [0, 1, 2]);
        world.volume.used = vec![0, 1];
        world.restart();
        let store = &world.store;
        let change = async {
            some_turns(seed / 3).await;
            match seed % 3 {
                0 => {
                    let (from, to) = (at(first, "below"), at(second, "below"));
                    store.rename(&caller, from, to).await.result.expect("it can be");
                }
                1 => {
                    let (from, to) = (at(first, "file"), at(second, "file"));
                    store.rename(&caller, from, to).await.result.expect("it can be");
                }
                _ => {
                    let linked = store.link(&caller, &file, at(second, "file")).await;
                    linked.result.expect("it can be");
                    store.remove(&caller, at(first, "file")).await.result.expect("it is there");
                }
            }
        };
        block_on(join(store.tend(), change)).0.expect("the names are there");
        while world.tend().is_some() {}
        assert_eq!(world.iods(&file), [0, 1], "seed {seed}");
        assert_eq!(data(&world.store, &file), text(60));
    }
}

/// A client sets explicit times while the data of the file migrates. The file must keep these
/// times.
#[test]
fn explicit_times_set_during_a_move_stay() {
    for seed in 0..1000 {
        let world = World::new(seed);
        let store = &world.store;
        let file = make(store, "file");
        put(store, &file, 0, &text(60), Stability::FileSync);
        let elsewhere = LayoutPolicy { iods: vec![1], ..LayoutPolicy::default() };
        block_on(store.lay_out(&file, &elsewhere)).expect("it is a file");
        let time = FileTime { seconds: 7, nanoseconds: 0 };
        let modified = SetAttributes { modified: SetTime::To(time), ..SetAttributes::default() };
        let set = async {
            some_turns(seed % 13).await;
            let done = store.setattr(&superuser(), &file, &modified, None).await;
            done.result.expect("the superuser may");
        };
        let (tended, ()) = block_on(join(store.tend(), set));
        assert_eq!(tended, Ok(Some(RebalanceReport { moved: 1, left: 0 })));
        let attributes = block_on(store.getattr(&file)).expect("it is there");
        assert_eq!(attributes.modified, time, "seed {seed}");
    }
}

/// A client sets explicit times while the store records an out-of-date copy. The file must keep
/// these times.
#[test]
fn explicit_times_set_while_a_copy_becomes_out_of_date_stay() {
    for seed in 0..500 {
        let mut world = World::new(seed);
        world.volume.copies = 2;
        world.restart();
        let file = make(&world.store, "file");
        put(&world.store, &file, 0, &text(60), Stability::FileSync);
        let names = Arc::<Names>::clone(&world.names);
        world.store = world
            .volume
            .start_over(names, |number, iod| if number == 2 { Arc::new(LostIod) } else { iod });
        let (store, caller) = (&world.store, superuser());
        assert_eq!(data(store, &file), text(60));
        let time = FileTime { seconds: 7, nanoseconds: 0 };
        let modified = SetAttributes { modified: SetTime::To(time), ..SetAttributes::default() };
        let set = async {
            some_turns(seed % 23).await;
            let done = store.setattr(&superuser(), &file, &modified, None).await;
            done.result.expect("the superuser may");
        };
        let (committed, ()) = block_on(join(store.commit(&caller, &file, 0, 0), set));
        committed.result.expect("the other copies are there");
        assert_eq!(store.misplaced_count(), 1, "it was noted");
        let attributes = block_on(store.getattr(&file)).expect("it is there");
        assert_eq!(attributes.modified, time, "seed {seed}");
    }
}

/// Clients remove both names of a file at the same time.
#[test]
fn a_file_that_loses_two_names_at_once_leaves_nothing() {
    for seed in 0..100 {
        let world = World::new(seed);
        let (store, caller) = (&world.store, superuser());
        let file = make(store, "file");
        put(store, &file, 0, &text(60), Stability::FileSync);
        let linked = store.link(&caller, &file, place(store, "second"));
        block_on(linked).result.expect("it can be");
        let objects = world.volume.objects();
        let [first, second] =
            ["file", "second"].map(|text| store.remove(&caller, place(store, text)));
        let (first, second) = block_on(join(first, second));
        assert_eq!((first.result, second.result), (Ok(()), Ok(())));
        assert_eq!(world.volume.objects(), objects - 3, "seed {seed}");
    }
}

/// The write of the header that moves a small file to iods fails, so the metafile contains the old
/// or the new header. The store must read the header again, so that the next write goes to the true
/// location and is readable after a restart.
#[test]
fn the_store_reads_a_doubtful_head_again() {
    for heads in [HEADS_ARE_NOT_WRITTEN, HEADS_ARE_NOT_STABLE] {
        let mut world = World::new(1);
        let file = make(&world.store, "file");
        put(&world.store, &file, 0, &text(10), Stability::FileSync);
        world.set_heads(heads);
        let more = Bytes::from(text(90));
        let caller = superuser();
        let grown = world.store.write(&caller, &file, 10, more, Stability::FileSync);
        assert_eq!(block_on(grown).result, Err(FsError::Io));
        world.set_heads(ALL_IS_WELL);
        put(&world.store, &file, 0, &[99; 5], Stability::FileSync);
        let whole = [[99; 5].to_vec(), text(10)[5..].to_vec()].concat();
        assert_eq!(data(&world.store, &file), whole);
        world.restart();
        assert_eq!(data(&world.store, &file), whole);
    }
}

/// If the rebalancer cannot migrate a file because the write of the header fails, the file stays in
/// the list of misplaced files.
#[test]
fn a_file_with_a_doubtful_new_head_is_examined_again() {
    for heads in [HEADS_ARE_NOT_WRITTEN, HEADS_ARE_NOT_STABLE] {
        let world = World::new(1);
        let store = &world.store;
        let file = make(store, "file");
        put(store, &file, 0, &text(60), Stability::FileSync);
        let elsewhere = LayoutPolicy { iods: vec![1], ..LayoutPolicy::default() };
        block_on(store.lay_out(&file, &elsewhere)).expect("it is a file");
        world.set_heads(heads);
        world.tend();
        assert_eq!(store.is_settled(), heads == HEADS_ARE_NOT_STABLE, "then it can be read");
        world.set_heads(ALL_IS_WELL);
        while world.tend().is_some() {}
        assert!(store.is_settled());
        assert_eq!((world.iods(&file), store.misplaced_count()), (vec![1], 0));
        assert_eq!(data(store, &file), text(60));
    }
}
