//! Tests of a client that writes the objects of a file directly and is fenced at every point of its
//! writes. The client's requests are in transit for a random time, and may arrive during and after
//! the fence. The metaserver may restart at any point of the fence.

use core::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use core::task::Poll;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::future::{join, join_all};
use leasehold_base::random::Random;
use leasehold_base::units::FileTime;
use leasehold_fs::suite::block_on;
use leasehold_fs::{
    Attributes, Caller, DirectLayouts, FsError, Layout, LocalMetadata, MaybeReady, Mode, Name,
    ObjectId, Owner, Purpose, SetAttributes, SetTime, Spot, Stability, Step, Store, Verifier,
    yield_now,
};
use leasehold_store_mem::MemStore;

use super::names::Names;
use super::outage::Power;
use super::together::Slow;
use super::volume::{UNIT, Volume, make, put, superuser, text};
use crate::{Extent, Iod, LayoutPolicy, ObjectName, RebalanceReport, Room, Striped, Written};

/// An iod that clients can reach.
struct Reached {
    iod: Arc<dyn Iod>,
    store: Arc<MemStore>,
    number: u16,
    /// True if the iod reports that it has changed the owner of an object, but does not change it.
    skips_fences: bool,
    /// True if the iod refuses every change of owner.
    keeps_all: Arc<AtomicBool>,
    /// True if the iod never replies to a WRITE of the metaserver.
    takes_nothing: Arc<AtomicBool>,
}

impl Reached {
    async fn file(&self, object: ObjectName) -> Result<ObjectId, FsError> {
        let name = object.text();
        let root = self.store.root();
        let directory = self.store.lookup(&superuser(), &root, plain(&name[..2])).await?.object;
        Ok(self.store.lookup(&superuser(), &directory, plain(&name)).await?.object)
    }

    async fn have_owner(&self, object: ObjectName, owner: Owner) -> Result<Option<Spot>, FsError> {
        if self.keeps_all.load(Ordering::Relaxed) {
            return Ok(None);
        }
        // Creates the object if it does not exist.
        self.iod.write(object, 0, Bytes::new(), Stability::Unstable).await?;
        let file = self.file(object).await?;
        let is_first = self.store.getattr(&file).await?.uid == 0;
        if is_first || !self.skips_fences {
            let changes = SetAttributes {
                mode: Some(Mode::from_bits(0o640)),
                uid: Some(owner.user),
                gid: Some(owner.group),
                ..SetAttributes::default()
            };
            self.store.setattr(&superuser(), &file, &changes, None).await.result?;
        }
        let address = ([127, 0, 0, 1], self.number).into();
        Ok(Some(Spot { address, handle: file.as_bytes().to_vec() }))
    }
}

fn plain(name: &str) -> Name<'_> {
    match Step::parse(name.as_bytes()) {
        Ok(Step::Child(name)) => name,
        step => panic!("{step:?} is no name"),
    }
}

impl Iod for Reached {
    fn extent(&self, object: ObjectName) -> MaybeReady<'_, Result<Extent, FsError>> {
        self.iod.extent(object)
    }

    fn read(
        &self,
        object: ObjectName,
        offset: u64,
        count: u32,
    ) -> MaybeReady<'_, Result<Bytes, FsError>> {
        self.iod.read(object, offset, count)
    }

    fn write(
        &self,
        object: ObjectName,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> MaybeReady<'_, Result<Written, FsError>> {
        if self.takes_nothing.load(Ordering::Relaxed) {
            return MaybeReady::now(Err(FsError::Delay));
        }
        self.iod.write(object, offset, data, stability)
    }

    fn resize(&self, object: ObjectName, size: u64) -> MaybeReady<'_, Result<Extent, FsError>> {
        self.iod.resize(object, size)
    }

    fn commit(&self, object: ObjectName) -> MaybeReady<'_, Result<Verifier, FsError>> {
        self.iod.commit(object)
    }

    fn remove(&self, object: ObjectName) -> MaybeReady<'_, Result<(), FsError>> {
        self.iod.remove(object)
    }

    fn give(
        &self,
        object: ObjectName,
        owner: Owner,
    ) -> MaybeReady<'_, Result<Option<Spot>, FsError>> {
        MaybeReady::later(self.have_owner(object, owner))
    }

    fn verifier(&self) -> MaybeReady<'_, Result<Verifier, FsError>> {
        self.iod.verifier()
    }

    fn space(&self) -> MaybeReady<'_, Result<Room, FsError>> {
        self.iod.space()
    }
}

/// A volume whose iods reply after a random delay.
struct World {
    volume: Volume,
    random: Random,
    skips_fences: bool,
    keeps_all: Arc<AtomicBool>,
    fails: [Arc<AtomicBool>; 3],
    takes_nothing: [Arc<AtomicBool>; 3],
    now: AtomicI64,
}

impl World {
    fn new(seed: u64, skips_fences: bool) -> Self {
        let (random, now) = (Random::from_seed(seed), AtomicI64::new(1));
        let (keeps_all, fails, takes_nothing) = (Arc::default(), <_>::default(), <_>::default());
        let volume = Volume::new();
        Self { volume, random, skips_fences, keeps_all, fails, takes_nothing, now }
    }

    fn start(&mut self) -> Striped {
        self.start_over(Arc::<MemStore>::clone(&self.volume.names))
    }

    fn start_over(&mut self, names: Arc<dyn Store>) -> Striped {
        let seed = self.random.below(u64::MAX);
        let (stores, skips_fences) = (self.volume.iods.clone(), self.skips_fences);
        let keeps_all = Arc::clone(&self.keeps_all);
        let (fails, takes_nothing) = (&self.fails, &self.takes_nothing);
        self.volume.start_over(names, |number, iod| {
            let store = Arc::clone(&stores[usize::from(number)]);
            let keeps_all = Arc::clone(&keeps_all);
            let takes_nothing = Arc::clone(&takes_nothing[usize::from(number)]);
            let iod = Reached { iod, store, number, skips_fences, keeps_all, takes_nothing };
            let iod = Arc::new(iod);
            let random = Mutex::new(Random::from_seed(seed ^ u64::from(number)));
            let fails = Arc::clone(&fails[usize::from(number)]);
            Arc::new(Slow { iod, random, fails, tells: false, power: Power::default() })
        })
    }

    /// Advances the clock.
    fn tick(&self) {
        let seconds = self.now.fetch_add(1, Ordering::Relaxed);
        self.volume.set_now(FileTime { seconds, nanoseconds: 0 });
    }

    fn set_away(&self, iod: usize, is_away: bool) {
        self.fails[iod].store(is_away, Ordering::Relaxed);
    }

    /// Reads an object as a client with this layout does.
    fn read(&self, layout: &Layout, object: usize) -> Result<Bytes, FsError> {
        let Spot { address, handle } = &layout.objects[object].spot;
        let file = ObjectId::new(handle).expect("it is one");
        let Owner { user: uid, group: gid } = layout.caller;
        let caller = Caller { uid, gid, ..Caller::nobody() };
        let store = &self.volume.iods[usize::from(address.port())];
        block_on(store.read(&caller, &file, 0, 100)).map(|read| read.data)
    }

    /// Sends a WRITE as a client with this layout does. The request is in transit for `turns`
    /// yields.
    async fn write(&self, layout: &Layout, (object, offset): (usize, u64), byte: u8, turns: u64) {
        for _ in 0..turns {
            yield_now().await;
        }
        self.tick();
        let Spot { address, handle } = &layout.objects[object].spot;
        let file = ObjectId::new(handle).expect("it is one");
        let Owner { user: uid, group: gid } = layout.caller;
        let caller = Caller { uid, gid, ..Caller::nobody() };
        let data = Bytes::from(vec![byte; 3]);
        let store = &self.volume.iods[usize::from(address.port())];
        let done = store.write(&caller, &file, offset, data, Stability::Unstable).await.result;
        assert!(matches!(done, Ok(_) | Err(FsError::Access)), "{done:?}");
    }
}

/// Returns all data of a file, and attributes that were valid at the same time as the data.
async fn look(store: &Striped, file: &ObjectId) -> (Vec<u8>, Attributes) {
    let read = store.read(&superuser(), file, 0, 10_000).await.expect("it is there");
    let attributes = store.getattr(file).await.expect("it is there");
    assert_eq!(read.data.len() as u64, attributes.size);
    (read.data.to_vec(), attributes)
}

/// Returns a write layout of a file.
fn written_at(store: &Striped, file: &ObjectId) -> Layout {
    let layout = block_on(store.open_layout(&superuser(), file, Purpose::Write));
    layout.expect("all are there").expect("it can be written there")
}

/// Starts a metaserver. Returns it with a file whose data is on iods, and with a write layout of
/// the file.
fn given_out(world: &mut World) -> (Striped, ObjectId, Layout) {
    let store = world.start();
    let file = make(&store, "file");
    put(&store, &file, 0, &text(60), Stability::FileSync);
    let layout = written_at(&store, &file);
    (store, file, layout)
}

/// Returns a read layout of a file.
fn read_at(store: &Striped, file: &ObjectId) -> Layout {
    let layout = block_on(store.open_layout(&superuser(), file, Purpose::Read));
    layout.expect("all are there").expect("it can be read there")
}

fn set(store: &Striped, file: &ObjectId, changes: &SetAttributes) {
    block_on(store.setattr(&superuser(), file, changes, None)).result.expect("it may");
}

const OWN: &[u8] = b"another's";

/// Runs the scenario of one seed; returns the violated property.
fn run(seed: u64, skips_fences: bool) -> Result<(), String> {
    let mut world = World::new(seed, skips_fences);
    let first = world.start();
    let file = make(&first, "file");
    put(&first, &file, 0, &text(60), Stability::FileSync);
    let layout = written_at(&first, &file);
    let (before, granted) = block_on(look(&first, &file));
    // In every third run the metaserver stops during the fence, and the restarted metaserver
    // completes the fence.
    let (restarts, polls) = (seed.is_multiple_of(3), world.random.below(60));
    let second = if restarts { Some(world.start()) } else { None };
    let (commits, waits) = (world.random.one_in(2), world.random.below(30));
    let mut writes = Vec::new();
    for byte in 100..130 {
        let object = usize::try_from(world.random.below(3)).expect("it is small");
        writes.push(((object, world.random.below(30)), byte, world.random.below(80)));
    }
    let world = &world;
    let layout = &layout;
    let client = join_all(
        writes.iter().map(|&(place, byte, turns)| world.write(layout, place, byte, turns)),
    );
    let metaserver = async {
        for _ in 0..waits {
            yield_now().await;
        }
        if commits {
            first.commit(&superuser(), &file, 0, 0).await.result.expect("all are there");
        }
        let mut fence = first.recall_layout(&file);
        for _ in 0..polls {
            let ended = core::future::poll_fn(|context| {
                Poll::Ready(core::pin::Pin::new(&mut fence).poll(context).is_ready())
            });
            if ended.await {
                break;
            }
            yield_now().await;
        }
        let store = match &second {
            Some(second) => {
                drop(fence);
                second
            }
            None => {
                drop(fence);
                first.recall_layout(&file).await.expect("all are there");
                &first
            }
        };
        world.tick();
        let seen = look(store, &file).await;
        let data = Bytes::from_static(OWN);
        let done = store.write(&superuser(), &file, 10, data, Stability::Unstable).await;
        done.result.expect("it may");
        seen
    };
    let (_, (seen, shown)) = block_on(join(client, metaserver));
    let store = second.as_ref().unwrap_or(&first);
    let (after, _) = block_on(look(store, &file));
    let mut expected = seen.clone();
    expected[10..10 + OWN.len()].copy_from_slice(OWN);
    if after != expected {
        return Err(format!("seed {seed}: {after:?} is there, and not {expected:?}"));
    }
    if seen != before && shown.changed <= granted.changed {
        return Err(format!("seed {seed}: what changed does not show"));
    }
    Ok(())
}

/// After the end of the write lease, other clients see all writes that succeed, and no later write
/// of the fenced client succeeds.
#[test]
fn no_write_takes_effect_after_the_fence() {
    for seed in 0..600 {
        run(seed, false).unwrap_or_else(|broken| panic!("{broken}"));
    }
}

/// Checks that the test above can fail, with an iod that does not change the owner of objects.
#[test]
fn a_skipped_fence_is_detected() {
    let found = (0..200).filter(|&seed| run(seed, true).is_err()).count();
    assert!(found > 20, "{found}");
}

/// The iods store a new owner number before the client receives its layout, so no two clients
/// receive the same one.
#[test]
fn each_client_gets_a_different_number() {
    let mut world = World::new(1, false);
    let (store, file, layout) = given_out(&mut world);
    let first = layout.owner.user;
    assert!(Layout::OWNERS.contains(&first) && first % 2 == 1);
    let read = || read_at(&store, &file).owner.user;
    let (reads, again) = (read(), read());
    assert_eq!(reads, again, "readers do nobody harm");
    assert!(reads > first && reads.is_multiple_of(2));
    let writes = written_at(&store, &file).owner.user;
    assert!(writes > reads && writes % 2 == 1);
    block_on(store.recall_layout(&file)).expect("all are there");
    let next = written_at(&store, &file).owner.user;
    assert!(next > writes && next % 2 == 1);
}

/// Returns true if a client with this credential can write the first object of a layout.
fn writes(world: &World, layout: &Layout, caller: Owner) -> bool {
    let Spot { address, handle } = &layout.objects[0].spot;
    let file = ObjectId::new(handle).expect("it is one");
    let caller = Caller { uid: caller.user, gid: caller.group, ..Caller::nobody() };
    let store = &world.volume.iods[usize::from(address.port())];
    let data = Bytes::from_static(b"forged");
    block_on(store.write(&caller, &file, 0, data, Stability::Unstable)).result.is_ok()
}

/// Returns all credentials whose user and group are numbers that clients received, or their
/// neighbours.
fn near(told: &[Owner]) -> Vec<Owner> {
    let told: Vec<u32> = told.iter().flat_map(|it| [it.user, it.group]).collect();
    let near =
        |number: &u32| (0..4).flat_map(|by| [*number - by, *number + by]).collect::<Vec<_>>();
    let near: Vec<u32> = told.iter().flat_map(near).collect();
    near.iter().flat_map(|&user| near.iter().map(move |&group| Owner { user, group })).collect()
}

/// The credentials of read layouts of this file or of another file do not permit a write, also
/// after a fence.
#[test]
fn a_reading_caller_cannot_write() {
    let mut world = World::new(9, false);
    let (store, file, _) = given_out(&mut world);
    let other = make(&store, "other");
    put(&store, &other, 0, &text(60), Stability::FileSync);
    let layout = read_at(&store, &file);
    let told = [layout.caller, read_at(&store, &other).caller];
    for caller in near(&told) {
        assert!(!writes(&world, &layout, caller), "{caller:?}");
    }
    assert!(world.read(&layout, 0).is_ok());
    let given = written_at(&store, &file);
    for caller in near(&told) {
        assert!(!writes(&world, &given, caller), "{caller:?}");
    }
    assert!(writes(&world, &given, given.caller));
}

/// Checks that the test above can fail: a client that knows the owner itself can write.
#[test]
fn a_client_that_knows_the_owner_can_write() {
    let mut world = World::new(10, false);
    let (store, file, _) = given_out(&mut world);
    let layout = read_at(&store, &file);
    assert!(near(&[layout.owner]).into_iter().any(|caller| writes(&world, &layout, caller)));
}

#[test]
fn a_caller_without_permission_gets_no_layout() {
    let mut world = World::new(2, false);
    let (store, file, _) = given_out(&mut world);
    let nobody = Caller::nobody();
    let told = |purpose| block_on(store.open_layout(&nobody, &file, purpose));
    assert_eq!(told(Purpose::Write), Err(FsError::Access));
    assert!(told(Purpose::Read).is_ok_and(|layout| layout.is_some()));
    let alone = SetAttributes { mode: Some(Mode::from_bits(0o600)), ..SetAttributes::default() };
    set(&store, &file, &alone);
    assert_eq!(told(Purpose::Read), Err(FsError::Access));
}

/// A write must clear the set-user-ID bit of a file. An iod cannot do this, so such a file has no
/// write layout.
#[test]
fn files_with_set_user_id_have_no_write_layout() {
    let mut world = World::new(3, false);
    let (store, file, _) = given_out(&mut world);
    let mode = |bits| SetAttributes { mode: Some(Mode::from_bits(bits)), ..Default::default() };
    set(&store, &file, &mode(0o4755));
    assert_eq!(block_on(store.open_layout(&superuser(), &file, Purpose::Write)), Ok(None));
    set(&store, &file, &mode(0o755));
    written_at(&store, &file);
}

/// COMMIT updates the metafile. The attributes in its reply must include this update, so that the
/// client does not take it for a change by another client.
#[test]
fn commit_returns_the_attributes_after_its_update() {
    let mut world = World::new(4, false);
    let (store, file, layout) = given_out(&mut world);
    let before = block_on(store.getattr(&file)).expect("it is there");
    block_on(world.write(&layout, (1, 2), 99, 0));
    let told = block_on(store.commit(&superuser(), &file, 0, 0)).wcc.after.expect("it is known");
    let after = block_on(store.getattr(&file)).expect("it is there");
    assert!(told.changed > before.changed);
    assert_eq!(told.changed, after.changed);
    // No client has written since the last COMMIT, so this COMMIT does not update the metafile.
    world.tick();
    let told = block_on(store.commit(&superuser(), &file, 0, 0)).wcc.after.expect("it is known");
    assert_eq!(told.changed, after.changed);
}

/// Explicit times stay even if the metaserver has restarted and does not know the write layout yet.
#[test]
fn explicit_times_stay() {
    let mut world = World::new(5, false);
    let (_, file, layout) = given_out(&mut world);
    block_on(world.write(&layout, (1, 2), 99, 0));
    let store = world.start();
    let then = FileTime { seconds: -77, nanoseconds: 0 };
    let times = SetAttributes { modified: SetTime::To(then), ..SetAttributes::default() };
    set(&store, &file, &times);
    block_on(world.write(&layout, (1, 2), 98, 0));
    block_on(store.recall_layout(&file)).expect("all are there");
    let (data, attributes) = block_on(look(&store, &file));
    assert_eq!(attributes.modified, then);
    assert!(data.contains(&99) && !data.contains(&98));
}

/// An iod has set the owner of its objects for a client, and refuses to set another owner. The
/// client may still write, so the fence must fail.
#[test]
fn the_fence_waits_for_an_iod_that_cannot_refuse() {
    let mut world = World::new(6, false);
    let (store, file, layout) = given_out(&mut world);
    world.keeps_all.store(true, Ordering::Relaxed);
    assert_eq!(block_on(store.recall_layout(&file)), Err(FsError::Delay));
    let second = world.start();
    assert_eq!(block_on(second.getattr(&file)).map(drop), Err(FsError::Delay));
    world.keeps_all.store(false, Ordering::Relaxed);
    block_on(second.getattr(&file)).expect("all are there");
    block_on(world.write(&layout, (1, 2), 99, 0));
    assert_eq!(block_on(look(&second, &file)).0, text(60));
}

/// The migration of a file away from an unreachable iod must not wait for the revocation of read
/// layouts at that iod.
#[test]
fn files_leave_a_lost_iod_in_spite_of_read_layouts() {
    let mut world = World::new(7, false);
    world.volume.copies = 2;
    let store = world.start();
    let file = make(&store, "file");
    put(&store, &file, 0, &text(60), Stability::FileSync);
    read_at(&store, &file);
    world.volume.used = vec![0, 1];
    let store = world.start();
    world.set_away(2, true);
    let tended = block_on(store.tend()).expect("the names are there");
    assert_eq!(tended, Some(RebalanceReport { moved: 1, left: 0 }));
    assert_eq!(block_on(look(&store, &file)).0, text(60));
    // If a client has a write layout, the migration must wait for the iod, since the client could
    // continue to write there.
    world.set_away(2, false);
    world.volume.copies = 1;
    let store = world.start();
    assert_eq!(block_on(store.tend()).expect("the names are there").map(|it| it.left), Some(0));
    written_at(&store, &file);
    world.set_away(0, true);
    assert!(block_on(store.recall_layout(&file)).is_err());
}

/// An iod loses unstable writes of clients, and then the file migrates to other iods. A later
/// COMMIT must report the loss, although it does not go to this iod any more.
#[test]
fn a_move_does_not_hide_lost_data() {
    let elsewhere = LayoutPolicy { iods: vec![1, 2], ..LayoutPolicy::default() };
    for loses in [false, true] {
        let mut world = World::new(8, false);
        let (store, file, layout) = given_out(&mut world);
        let at = layout.objects.iter().position(|object| object.spot.address.port() == 0);
        block_on(world.write(&layout, (at.expect("it is on all"), 0), 99, 0));
        if loses {
            world.volume.iods[0].crash();
        }
        block_on(store.lay_out(&file, &elsewhere)).expect("it is a file");
        let tended = block_on(store.tend()).expect("the names are there");
        assert_eq!(tended, Some(RebalanceReport { moved: 1, left: 0 }));
        let told = block_on(store.commit(&superuser(), &file, 0, 0)).result;
        let is_safe = told.expect("all are there").verifier == layout.verifier;
        assert_eq!(is_safe, !loses);
        assert_eq!(block_on(look(&store, &file)).0.contains(&99), !loses);
    }
}

/// A SETATTR that withdraws the read permission must make the iods refuse clients with a read
/// layout, because SETATTR does not recall their leases.
#[test]
fn iods_refuse_a_caller_that_lost_its_read_permission() {
    let mut world = World::new(9, false);
    let store = world.start();
    let file = make(&store, "file");
    put(&store, &file, 0, &text(60), Stability::FileSync);
    let layout = read_at(&store, &file);
    let mode = |bits| SetAttributes { mode: Some(Mode::from_bits(bits)), ..Default::default() };
    let times = SetAttributes { modified: SetTime::Now, ..SetAttributes::default() };
    set(&store, &file, &times);
    assert!((0..3).all(|object| world.read(&layout, object).is_ok()));
    // One of the iods is unreachable, and SETATTR must not wait for this iod.
    world.set_away(2, true);
    set(&store, &file, &mode(0o600));
    world.set_away(2, false);
    for (number, object) in layout.objects.iter().enumerate() {
        let read = world.read(&layout, number).map(drop);
        let refused = object.spot.address.port() != 2;
        assert_eq!(read, if refused { Err(FsError::Access) } else { Ok(()) });
    }
    let next = read_at(&store, &file);
    assert!(next.owner.user > layout.owner.user && next.owner.user.is_multiple_of(2));
    assert!((0..3).all(|object| world.read(&next, object).is_ok()));
    assert!((0..3).all(|object| world.read(&layout, object).is_err()));
    for changes in [
        SetAttributes { uid: Some(7), ..SetAttributes::default() },
        SetAttributes { gid: Some(7), ..SetAttributes::default() },
    ] {
        let layout = read_at(&store, &file);
        set(&store, &file, &changes);
        assert!((0..3).all(|object| world.read(&layout, object) == Err(FsError::Access)));
    }
}

/// An iod that did not answer may execute a WRITE of the metaserver later. So a client with a write
/// layout must receive an error and not a partial result. Otherwise it could write newer data to
/// the rest of the range, and the late WRITE would overwrite the newer data.
#[test]
fn a_client_with_a_write_layout_gets_no_partial_write() {
    for is_out in [false, true] {
        let mut world = World::new(10, false);
        let store = world.start();
        let file = make(&store, "file");
        put(&store, &file, 0, &text(60), Stability::FileSync);
        if is_out {
            written_at(&store, &file);
        }
        world.takes_nothing[1].store(true, Ordering::Relaxed);
        let data = Bytes::from(vec![99; 60]);
        let done = block_on(store.write(&superuser(), &file, 0, data, Stability::Unstable));
        let due = if is_out { Err(FsError::Delay) } else { Ok(UNIT) };
        assert_eq!(done.result.map(|done| done.count), due);
    }
}

fn changed(store: &Striped, file: &ObjectId) -> FileTime {
    block_on(store.change_time(file)).expect("it is there")
}

/// If an iod does not answer, the store sets the owner numbers of some objects only, and gives no
/// layout to the client. When the store finds these owner numbers later, it must not record a
/// change of the file.
#[test]
fn a_layout_without_a_client_changes_nothing() {
    let mut world = World::new(11, false);
    let store = world.start();
    let file = make(&store, "file");
    put(&store, &file, 0, &text(60), Stability::FileSync);
    let before = changed(&store, &file);
    world.set_away(2, true);
    let told = block_on(store.open_layout(&superuser(), &file, Purpose::Write));
    assert_eq!(told, Ok(None));
    world.tick();
    // The change time also stays while an iod is unreachable and only the metafile can be read.
    assert!(block_on(store.getattr(&file)).is_err());
    assert_eq!(changed(&store, &file), before);
    world.set_away(2, false);
    assert_eq!(block_on(look(&store, &file)).1.changed, before);
    assert_eq!(changed(&store, &file), before);
    // A client receives a layout now, and writes an object.
    let layout = written_at(&store, &file);
    block_on(world.write(&layout, (1, 2), 99, 0));
    block_on(store.recall_layout(&file)).expect("all are there");
    assert!(changed(&store, &file) > before);
    assert!(block_on(look(&store, &file)).0.contains(&99));
}

/// After the failure of an iod the store queries all iods again. It must not record earlier writes
/// of clients in the metafile a second time.
#[test]
fn client_writes_are_recorded_once() {
    let mut world = World::new(12, false);
    let (store, file, layout) = given_out(&mut world);
    block_on(world.write(&layout, (1, 2), 99, 0));
    block_on(store.commit(&superuser(), &file, 0, 0)).result.expect("all are there");
    let shown = changed(&store, &file);
    let take = |nothing| {
        world.takes_nothing.iter().for_each(|takes| takes.store(nothing, Ordering::Relaxed));
    };
    take(true);
    let data = Bytes::from(vec![98; 60]);
    let done = block_on(store.write(&superuser(), &file, 0, data, Stability::Unstable));
    assert_eq!(done.result.map(drop), Err(FsError::Delay));
    take(false);
    world.tick();
    block_on(store.getattr(&file)).expect("all are there");
    assert_eq!(changed(&store, &file), shown);
}

/// The first query of a file after a restart records the writes of clients in the metafile. The
/// reply must contain the attributes after this update.
#[test]
fn a_query_returns_the_attributes_after_its_update() {
    let mut world = World::new(13, false);
    let (_, file, layout) = given_out(&mut world);
    block_on(world.write(&layout, (1, 2), 99, 0));
    let store = world.start();
    let before = changed(&store, &file);
    let found = block_on(store.getattr(&file)).expect("all are there");
    assert!(found.changed > before, "it is shown");
    assert_eq!(found.changed, changed(&store, &file));
}

/// If several metaservers serve the same files, a restarted metaserver ends the earlier write
/// layouts of a file and so changes its change time. This must count as internal maintenance, so
/// that the client of the layout can still flush its data.
#[test]
fn the_end_of_a_layout_from_before_a_start_is_maintenance() {
    for is_shared in [false, true] {
        let mut world = World::new(17, false);
        world.volume.shared = is_shared;
        let (_, file, layout) = given_out(&mut world);
        block_on(world.write(&layout, (1, 2), 99, 0));
        world.tick();
        let names = Arc::<MemStore>::clone(&world.volume.names);
        let store = world.start_over(Arc::new(Names::new(names, 17, Power::default()).shared()));
        let before = changed(&store, &file);
        let after = block_on(store.getattr(&file)).expect("all are there").changed;
        assert!(before < after, "it is shown");
        // With one metaserver, another client that received a later layout may have made the
        // change, so it does not count as maintenance.
        assert_eq!(store.maintenance_span(&file), is_shared.then_some((before, after)));
    }
}

/// Several metaservers give the first read layouts of a file at the same time. No metaserver may
/// make the iods refuse the readers of another metaserver.
#[test]
fn readers_at_several_metaservers_share_one_number() {
    for seed in 0..50 {
        let mut world = World::new(seed, false);
        world.volume.shared = true;
        let stores = [(); 3].map(|()| world.start());
        let file = make(&stores[0], "file");
        put(&stores[0], &file, 0, &text(60), Stability::FileSync);
        let user = superuser();
        let told = stores.iter().enumerate().map(async |(late, store)| {
            for _ in 0..4 * late {
                yield_now().await;
            }
            store.open_layout(&user, &file, Purpose::Read).await
        });
        for layout in block_on(join_all(told)) {
            let layout = layout.expect("all are there").expect("it can be read there");
            for object in 0..layout.objects.len() {
                assert!(world.read(&layout, object).is_ok(), "{seed}: {:?}", layout.owner);
            }
        }
    }
}

/// If several metaservers serve the same files, a caller may have read the attributes of a file
/// before this metaserver gave a layout. The later change time is then not a change by another
/// metaserver, and must not end the layout.
#[test]
fn attributes_from_before_a_layout_do_not_end_it() {
    let mut world = World::new(14, false);
    world.volume.shared = true;
    let store = world.start();
    let file = make(&store, "file");
    put(&store, &file, 0, &text(60), Stability::FileSync);
    let before = block_on(world.volume.names.getattr(&file)).expect("it is there");
    world.tick();
    let layout = written_at(&store, &file);
    assert!(before.changed < changed(&store, &file), "others are told of it");
    block_on(store.true_of(&file, before)).expect("all are there");
    block_on(world.write(&layout, (1, 2), 255, 0));
    assert!(block_on(look(&store, &file)).0.contains(&255), "the client was refused");
}

/// An iod loses unstable data of the first of two copies in a power cut, and is unreachable when
/// COMMIT detects the loss. Then only the second copy is up to date, and all other clients use it.
/// Data that a client with a read layout has read from the first copy must not be lost, because
/// COMMIT does not recall the client's lease. So this data must have been stable.
#[test]
fn data_read_from_two_copies_is_not_lost() {
    let mut world = World::new(15, false);
    world.volume.copies = 2;
    let store = world.start();
    let file = make(&store, "file");
    put(&store, &file, 0, &text(60), Stability::FileSync);
    let new = [99; 60];
    put(&store, &file, 0, &new, Stability::Unstable);
    let layout = read_at(&store, &file);
    let read = || world.read(&layout, 0).expect("it may");
    assert!(read().iter().all(|&byte| byte == 99));
    let away = usize::from(layout.objects[0].spot.address.port());
    world.volume.iods[away].crash();
    world.set_away(away, true);
    block_on(store.commit(&superuser(), &file, 0, 0)).result.expect("the other copies are there");
    world.set_away(away, false);
    assert!(read().iter().all(|&byte| byte == 99), "{:?}", read());
    assert_eq!(store.behind_count(), 1, "it is noted");
    let told = block_on(store.open_layout(&superuser(), &file, Purpose::Read));
    assert_eq!(told, Ok(None), "nobody is sent there any more");
}

/// A request for a read layout changes no data. So the store must not record a copy on an
/// unreachable iod as out of date.
#[test]
fn a_request_for_a_read_layout_changes_nothing() {
    let mut world = World::new(16, false);
    world.volume.copies = 2;
    let store = world.start();
    let file = make(&store, "file");
    put(&store, &file, 0, &text(60), Stability::FileSync);
    world.set_away(1, true);
    let told = block_on(store.open_layout(&superuser(), &file, Purpose::Read));
    assert_eq!((told, store.behind_count()), (Ok(None), 0));
    world.set_away(1, false);
    read_at(&store, &file);
}
