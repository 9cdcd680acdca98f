//! Tests with an unreachable iod: the calls that wait for the iod, and the fate of abandoned
//! changes.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, mpsc};
use std::task::Wake;

use bytes::Bytes;
use futures_channel::oneshot;
use futures_util::FutureExt as _;
use leasehold_base::random::Random;
use leasehold_base::units::{Cookie, FileTime};
use leasehold_fs::suite::block_on;
use leasehold_fs::{
    Access, Allowance, Budget, Completeness, Found, FsError, LocalMetadata, MaybeReady, Mode,
    NewFile, Page, Reservations, SetAttributes, SetTime, Stability, Store as _, Wanted,
};
use leasehold_session::{Driver, Options, Session, Traffic, spawn};

use super::flow_controlled_iod::Clock;
use super::volume::{Volume, data, make, place, put, superuser, text};
use crate::{Around, Extent, Iod, ObjectName, RetryingIod, Striped, Timeouts, Written};

/// An iod that answers no call while a test holds it.
struct Held {
    iod: Arc<dyn Iod>,
    is_held: AtomicBool,
    calls: AtomicUsize,
    /// The number of calls that the iod answers even while it is held.
    answered: AtomicUsize,
    /// The waker of the last poll of each call.
    asked: Mutex<BTreeMap<usize, Waker>>,
    /// The traffic on the connections of the iod.
    traffic: Mutex<Traffic>,
    /// Notified when the iod answers a call.
    told: Mutex<Option<oneshot::Sender<()>>>,
}

impl Held {
    fn set_held(&self, is_held: bool) {
        self.is_held.store(is_held, Ordering::Relaxed);
        let asked = core::mem::take(&mut *self.asked.lock().expect("nobody panics"));
        asked.into_values().for_each(Waker::wake);
    }

    /// Holds the iod, which still answers this number of further calls.
    fn hold_after(&self, calls: usize) {
        self.answered.store(self.calls.load(Ordering::Relaxed) + calls, Ordering::Relaxed);
        self.set_held(true);
    }
}

impl Around for Held {
    fn around<'a, T: Send + 'a>(
        &'a self,
        call: impl for<'i> FnOnce(&'i dyn Iod) -> MaybeReady<'i, Result<T, FsError>> + Send + 'a,
    ) -> MaybeReady<'a, Result<T, FsError>> {
        MaybeReady::later(async move {
            let number = self.calls.fetch_add(1, Ordering::Relaxed);
            core::future::poll_fn(|context| {
                let is_answered = number < self.answered.load(Ordering::Relaxed);
                if is_answered || !self.is_held.load(Ordering::Relaxed) {
                    return Poll::Ready(());
                }
                let mut asked = self.asked.lock().expect("nobody panics");
                asked.insert(number, context.waker().clone());
                Poll::Pending
            })
            .await;
            let told = self.told.lock().expect("nobody panics").take();
            if let Some(told) = told {
                told.send(()).expect("somebody waits");
            }
            call(&*self.iod).await
        })
    }

    fn traffic_so_far(&self) -> Traffic {
        *self.traffic.lock().expect("nobody panics")
    }
}

type Writing<'a> = MaybeReady<'a, Result<Written, FsError>>;

struct World {
    now: Arc<AtomicU64>,
    driver: Driver,
    volume: Volume,
    store: Striped,
    held: Arc<Held>,
    iod: Arc<RetryingIod>,
}

impl World {
    /// Creates a volume whose second iod has a failure detector and can be held.
    fn new() -> Self {
        let (now, mut driver) = (Arc::new(AtomicU64::new(0)), None);
        let clock = Session::new(Options::stream(), Random::from_seed(1), |given| {
            driver = Some(given);
            Clock { now: Arc::clone(&now) }
        });
        let patience = Timeouts { later: Duration::from_secs(2), give_up: Duration::from_secs(60) };
        let made = Mutex::new(None);
        let mut volume = Volume::new();
        let store = volume.start_with(|number, iod| {
            if number != 1 {
                return iod;
            }
            let (is_held, calls, answered, asked, traffic, told) = <_>::default();
            let held = Arc::new(Held { iod, is_held, calls, answered, asked, traffic, told });
            let patient = RetryingIod::new(Arc::<Held>::clone(&held), clock.clone(), patience);
            *made.lock().expect("nobody panics") = Some((held, Arc::clone(&patient)));
            patient
        });
        let (held, iod) = made.into_inner().expect("nobody panics").expect("it is one of three");
        Self { now, driver: driver.expect("it was given"), volume, store, held, iod }
    }

    fn pass(&self, span: Duration) {
        let span = u64::try_from(span.as_nanos()).expect("it is short");
        self.now.fetch_add(span, Ordering::Relaxed);
        self.driver.tick();
    }

    /// Advances the clock by a tenth of a second, with this traffic on the connections of the iod.
    fn pass_with(&self, more: Traffic) {
        let mut traffic = self.held.traffic.lock().expect("nobody panics");
        *traffic = *traffic + more;
        drop(traffic);
        self.pass(Duration::from_millis(100));
    }

    /// Advances the clock in steps of a tenth of a second, each with this traffic on the
    /// connections of the iod, and polls a call after each step.
    fn goes_on(&self, call: &mut Writing<'_>, tenths: usize, each: Traffic) {
        for _ in 0..tenths {
            self.pass_with(each);
            assert!((&mut *call).now_or_never().is_none(), "it is told too soon");
        }
    }

    fn write(&self, object: u32) -> Writing<'_> {
        let mut write =
            self.iod.write(name(object), 0, Bytes::from_static(b"data"), Stability::Unstable);
        assert!((&mut write).now_or_never().is_none());
        write
    }

    /// Returns the result of a write after the timeout for an unreachable iod; `None` if the write
    /// still waits.
    fn told(&self) -> Option<Result<Written, FsError>> {
        let write = self.write(0);
        self.pass(Duration::from_millis(2001));
        write.now_or_never()
    }

    /// Requests changes of several objects, and waits until all of them are abandoned.
    fn leave(&self, objects: impl Iterator<Item = u32>) {
        let mut removals: Vec<_> = objects.map(|object| self.iod.remove(name(object))).collect();
        for removal in &mut removals {
            assert!(removal.now_or_never().is_none());
        }
        self.pass(Duration::from_millis(2001));
        for removal in removals {
            assert_eq!(removal.now_or_never(), Some(Err(FsError::Delay)));
        }
    }
}

fn name(number: u32) -> ObjectName {
    let mut name = [0; 16];
    name[..4].copy_from_slice(&number.to_be_bytes());
    ObjectName(name)
}

/// An iod that answers again works as before, however many changes were abandoned.
#[test]
fn an_iod_that_is_back_works_regardless_of_abandoned_changes() {
    let world = World::new();
    world.held.set_held(true);
    world.leave(0..1025);
    assert_eq!(block_on(world.iod.extent(name(9999))), Err(FsError::Delay), "it is full");
    assert!(world.iod.is_away());
    world.held.set_held(false);
    assert_eq!(block_on(world.iod.extent(name(9999))), Ok(Extent::default()));
    assert!(!world.iod.is_away());
}

/// While data is in transit to an iod over a slow link, the store does not send the data again, and
/// the iod does not count as unreachable. The silence begins when the traffic stops.
#[test]
fn an_iod_that_receives_queued_data_is_not_silent() {
    let world = World::new();
    world.held.set_held(true);
    let mut write = world.write(0);
    let waiting = Traffic { given: 1 << 20, ..Traffic::default() };
    *world.held.traffic.lock().expect("nobody panics") = waiting;
    let taken = Traffic { taken: 1000, ..Traffic::default() };
    world.goes_on(&mut write, 100, taken);
    assert!(!world.iod.is_away());
    // The checks for traffic are a quarter of a second apart, so the last traffic may have been
    // detected that much later.
    world.goes_on(&mut write, 19, Traffic::default());
    world.pass(Duration::from_millis(400));
    assert_eq!(write.now_or_never(), Some(Err(FsError::Delay)));
    assert!(world.iod.is_away());
    world.held.set_held(false);
    assert!(block_on(world.iod.extent(name(0))).is_ok_and(|extent| extent.size == 4));
    assert!(!world.iod.is_away());
}

/// An iod whose reply arrives slowly is not silent either, for any request.
#[test]
fn an_iod_whose_reply_arrives_slowly_is_not_silent() {
    let world = World::new();
    world.held.set_held(true);
    let mut write = world.write(0);
    world.goes_on(&mut write, 100, Traffic { came: 1, ..Traffic::default() });
    world.held.set_held(false);
    assert!(block_on(write).is_ok());
}

/// The operating system of a hung iod still acknowledges data from the metaserver. This traffic
/// must not count as a sign of life, so each caller receives the retry status after two seconds.
#[test]
fn data_accepted_at_once_is_no_sign_of_life() {
    let world = World::new();
    world.held.set_held(true);
    for object in 0..5 {
        let mut write = world.write(object);
        let sent = Traffic { given: 100, taken: 100, came: 0 };
        world.goes_on(&mut write, 19, sent);
        world.pass_with(sent);
        assert_eq!(write.now_or_never(), Some(Err(FsError::Delay)));
    }
    assert!(world.iod.is_away());
}

/// A caller that queries the free space may have a lease to renew. So the first caller waits only
/// briefly for an iod that has reported its free space before, and the next caller does not wait at
/// all. The store must still detect that the iod is unreachable.
#[test]
fn the_last_known_room_counts_if_an_iod_does_not_reply() {
    let world = World::new();
    world.held.set_held(true);
    let mut first = world.iod.space();
    assert!((&mut first).now_or_never().is_none());
    world.pass(Duration::from_millis(300));
    assert!((&mut first).now_or_never().is_none(), "it is not known");
    world.held.set_held(false);
    let room = block_on(first).expect("it is there");
    world.held.set_held(true);
    let mut next = world.iod.space();
    assert!((&mut next).now_or_never().is_none());
    world.pass(Duration::from_millis(251));
    assert_eq!(next.now_or_never(), Some(Ok(room)));
    assert_eq!(world.iod.space().now_or_never(), Some(Ok(room)));
    world.pass(Duration::from_millis(2001));
    assert!(world.iod.is_away());
    world.held.set_held(false);
    world.pass(Duration::from_millis(1001));
    assert!(!world.iod.is_away(), "it was asked whether it is there");
    assert_eq!(world.iod.space().now_or_never(), Some(Ok(room)));
}

/// The renewal of a lease needs the owner and the change time of a file, which are in the metafile.
/// So it waits for no iod. The size in the cache is exact, unless an iod may have executed a change
/// without a reply.
#[test]
fn a_lease_renewal_waits_for_no_iod() {
    let world = World::new();
    let file = make(&world.store, "file");
    put(&world.store, &file, 0, &text(200), Stability::FileSync);
    let wanted = Access { modify: true, ..Access::default() };
    let told = || {
        let known = world.store.getattr_local(&file).now_or_never().expect("nobody is waited for");
        let rights = world.store.rights(&superuser(), &file, wanted).now_or_never();
        assert_eq!(rights, Some(Ok(wanted)));
        known.expect("it is there")
    };
    let whole = block_on(world.store.getattr(&file)).expect("it is there");
    world.held.set_held(true);
    assert_eq!(told(), (whole, Completeness::Complete));
    let (caller, new) = (superuser(), Bytes::copy_from_slice(&text(250)));
    let mut write = world.store.write(&caller, &file, 0, new, Stability::FileSync);
    assert!((&mut write).now_or_never().is_none());
    world.pass(Duration::from_millis(2001));
    write.now_or_never().expect("it is done in part, or told to come again");
    let room = world.store.reservable_space(&caller, &file).now_or_never();
    assert!(room.is_some_and(|room| room.is_ok()), "there is some whatever size the file has");
    let (known, completeness) = told();
    let changed = block_on(world.store.change_time(&file)).expect("it is there");
    assert_eq!(completeness, Completeness::SizeMayBeOld);
    assert_eq!((known.file_id, known.changed), (whole.file_id, changed));
    world.held.set_held(false);
    block_on(world.store.getattr(&file)).expect("it is back");
    assert_eq!(told().1, Completeness::Complete);
}

/// If no requests were outstanding after a short absence of the iod, as when this machine was
/// paused, the iod does not count as silent for the time since. With continuous requests, the
/// silence continues.
#[test]
fn a_period_without_requests_is_no_silence() {
    let world = World::new();
    world.held.set_held(true);
    assert_eq!(world.told(), Some(Err(FsError::Delay)));
    world.pass(Duration::from_secs(600));
    let start = world.now.load(Ordering::Relaxed);
    while world.now.load(Ordering::Relaxed) - start < 58_000_000_000 {
        assert_eq!(world.told(), Some(Err(FsError::Delay)));
        world.pass(Duration::from_secs(5));
    }
    assert_eq!(world.told(), Some(Err(FsError::Io)));
}

/// A client that sends a request only once a minute, as NFS version 2 clients do, must receive an
/// error for a lost iod. Therefore the store makes health checks of the iod between the requests,
/// and stops them when the iod answers again.
#[test]
fn a_silent_iod_is_probed_until_it_answers() {
    let world = World::new();
    world.held.set_held(true);
    assert_eq!(world.told(), Some(Err(FsError::Delay)));
    for _ in 0..20 {
        world.pass(Duration::from_secs(1));
        world.pass(Duration::from_millis(2001));
    }
    assert_eq!(world.told(), Some(Err(FsError::Io)));
    world.held.set_held(false);
    world.pass(Duration::from_secs(1));
    assert!(!world.iod.is_away());
}

/// A call ends at its time limit, even if there is still traffic.
#[test]
fn a_call_ends_even_if_traffic_continues() {
    let world = World::new();
    world.held.set_held(true);
    let mut write = world.write(0);
    let came = Traffic { came: 1, ..Traffic::default() };
    world.goes_on(&mut write, 590, came);
    (0..50).for_each(|_| world.pass_with(came));
    assert_eq!(write.now_or_never(), Some(Err(FsError::Delay)));
}

/// An iod becomes unreachable while the data of a file moves from the metafile to iods. The writer
/// must receive a retry status, and not an error for lack of space.
#[test]
fn a_file_that_moves_out_waits_for_an_iod() {
    let world = World::new();
    let file = make(&world.store, "file");
    put(&world.store, &file, 0, &text(10), Stability::FileSync);
    // The iod answers the query of the object size, and then no further call.
    world.held.hold_after(1);
    let (caller, more) = (superuser(), Bytes::from(text(60)));
    let mut grown = world.store.write(&caller, &file, 10, more, Stability::FileSync);
    for _ in 0..2 {
        assert!((&mut grown).now_or_never().is_none());
        world.pass(Duration::from_millis(2001));
    }
    let told = grown.now_or_never().expect("it has waited for long enough");
    assert_eq!(told.result.map(|done| done.count), Err(FsError::Delay));
    world.held.set_held(false);
    put(&world.store, &file, 10, &text(60), Stability::FileSync);
    assert_eq!(data(&world.store, &file), [text(10), text(60)].concat());
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Several calls wait for one abandoned change. All of them must continue when the change
/// completes, even if the last waiting call was dropped.
#[test]
fn all_calls_that_wait_for_an_abandoned_change_wake_up() {
    let world = World::new();
    world.held.set_held(true);
    world.leave(0..1);
    let mut callers: Vec<_> = (0..3).map(|_| world.iod.extent(name(0))).collect();
    let woken: [Arc<Woken>; 3] = Default::default();
    for (caller, woken) in callers.iter_mut().zip(&woken) {
        let waker = Waker::from(Arc::clone(woken));
        assert!(caller.poll_unpin(&mut Context::from_waker(&waker)).is_pending());
    }
    drop(callers.pop());
    world.held.set_held(false);
    for (caller, woken) in callers.into_iter().zip(&woken) {
        assert!(woken.0.load(Ordering::Relaxed) > 0, "it is told to look again");
        assert_eq!(caller.now_or_never(), Some(Ok(Extent::default())));
    }
}

/// The completion of an abandoned change wakes a task that runs immediately on the same thread, as
/// tasks of a session do, and calls the same iod for the same object. The call must not wait for a
/// lock of the task that polls the change, because this would be a deadlock.
#[test]
#[expect(clippy::disallowed_methods, reason = "what waits for itself is to fail, not to last")]
fn an_abandoned_change_may_wake_a_caller_of_the_same_iod() {
    let (done, ends) = mpsc::channel();
    std::thread::spawn(move || {
        let world = World::new();
        world.held.set_held(true);
        world.leave(0..1);
        let (tells, told) = oneshot::channel();
        *world.held.told.lock().expect("nobody panics") = Some(tells);
        let iod = Arc::clone(&world.iod);
        spawn(async move {
            told.await.expect("the iod is back");
            done.send(iod.extent(name(0)).await).expect("it is waited for");
        });
        world.held.set_held(false);
        assert!(block_on(world.iod.verifier()).is_ok());
    });
    assert_eq!(ends.recv_timeout(Duration::from_secs(20)), Ok(Ok(Extent::default())));
}

/// READDIRPLUS waits for an unreachable iod only once, however many files it lists, and not at all
/// if the iod is known to be unreachable. It returns all attributes that are known.
#[test]
fn a_listing_waits_for_an_iod_once() {
    let mut world = World::new();
    let files: Vec<_> = (0..150).map(|number| make(&world.store, &format!("{number}"))).collect();
    for file in &files {
        put(&world.store, file, 0, &text(60), Stability::FileSync);
    }
    let small = make(&world.store, "small");
    put(&world.store, &small, 0, &text(5), Stability::FileSync);
    let kept = Arc::clone(&world.iod);
    world.store = world
        .volume
        .start_with(|number, iod| if number == 1 { Arc::<RetryingIod>::clone(&kept) } else { iod });
    assert_eq!(data(&world.store, &files[0]), text(60));
    let caller = superuser();
    let told = |page: Option<Result<Page, FsError>>| {
        let page = page.expect("nobody waits").expect("the names are there");
        page.entries.iter().filter(|entry| entry.attributes.is_some_and(|it| it.size < 100)).count()
    };
    let root = world.store.root();
    let list = || {
        let budget = Budget { reply: Allowance::UNLIMITED, names: Allowance::UNLIMITED };
        world.store.readdir(&caller, &root, Cookie(0), budget, Wanted::Everything)
    };
    world.held.set_held(true);
    let mut first = list();
    assert!((&mut first).now_or_never().is_none());
    world.pass(Duration::from_millis(2001));
    let without = told(first.now_or_never());
    assert_eq!(told(list().now_or_never()), without);
    world.held.set_held(false);
    assert!(block_on(world.iod.verifier()).is_ok());
    assert_eq!(told(list().now_or_never()), without + 149, "all but what was in mind");
}

const MODIFIED: FileTime = FileTime { seconds: 7, nanoseconds: 0 };

/// Returns a guarded CREATE of a file of this size, which is too large for inline data.
fn guarded(size: u64) -> NewFile {
    let (size, modified) = (Some(size), SetTime::To(MODIFIED));
    NewFile::Guarded(SetAttributes { size, modified, ..SetAttributes::default() })
}

/// Holds the iod, and creates files until the CREATE of one of them needs this iod and becomes
/// pending. Returns the name of this file.
fn put_off(world: &World, file: &NewFile) -> &'static str {
    world.held.set_held(true);
    let caller = superuser();
    for name in ["first", "second", "third"] {
        let mut create = world.store.create(&caller, place(&world.store, name), file);
        if let Some(done) = (&mut create).now_or_never() {
            done.result.expect("the other iods are there");
            continue;
        }
        world.pass(Duration::from_millis(2001));
        let done = create.now_or_never().expect("nobody waits for longer");
        assert_eq!(done.result, Err(FsError::Delay));
        return name;
    }
    panic!("each begins at another iod, so one of three ends at the one that is held");
}

/// Executes a CREATE after the iod has become reachable.
fn create(world: &World, name: &str, file: &NewFile) -> Result<Found, FsError> {
    block_on(world.store.create(&superuser(), place(&world.store, name), file)).result
}

/// A GUARDED create with a size makes its file, and then finds an iod unreachable. The retry must
/// continue with this file and not report that the file exists. A CREATE of another client must not
/// take over this file.
#[test]
fn a_retried_create_continues_with_its_file() {
    let world = World::new();
    let (file, other) = (guarded(100), guarded(107));
    let name = put_off(&world, &file);
    // A retry while the iod is still unreachable does not change the file.
    let caller = superuser();
    let mut early = world.store.create(&caller, place(&world.store, name), &file);
    let told = (&mut early).now_or_never().unwrap_or_else(|| {
        world.pass(Duration::from_millis(2001));
        early.now_or_never().expect("nobody waits for longer")
    });
    assert_eq!(told.result, Err(FsError::Delay));
    world.held.set_held(false);
    assert!(block_on(world.iod.verifier()).is_ok());
    assert_eq!(create(&world, name, &other), Err(FsError::AlreadyExists));
    let made = create(&world, name, &file).expect("it is its own");
    assert_eq!((made.attributes.size, made.attributes.modified), (100, MODIFIED));
    assert_eq!(block_on(world.store.getattr(&made.object)), Ok(made.attributes));
    assert_eq!(data(&world.store, &made.object), [0_u8; 100]);
    assert_eq!(create(&world, name, &file), Err(FsError::AlreadyExists), "it has been answered");
}

/// Another client changes or replaces the file before the retry of the CREATE. The retry must not
/// change the file.
#[test]
fn a_retried_create_takes_no_file_of_another_client() {
    let file = guarded(100);
    for is_replaced in [false, true] {
        let world = World::new();
        let name = put_off(&world, &file);
        let (caller, names) = (superuser(), &world.volume.names);
        let at = place(&world.store, name);
        if is_replaced {
            block_on(names.remove(&caller, at)).result.expect("it is there");
            let empty = NewFile::Guarded(SetAttributes::default());
            block_on(names.create(&caller, at, &empty)).result.expect("the name is free");
        } else {
            let found = block_on(names.lookup(&caller, &at.directory, at.name));
            let found = found.expect("it is there").object;
            let mode = Some(Mode::from_bits(0o600));
            let changes = SetAttributes { mode, ..SetAttributes::default() };
            let done = block_on(names.setattr(&caller, &found, &changes, None));
            done.result.expect("the superuser may");
        }
        world.held.set_held(false);
        assert!(block_on(world.iod.verifier()).is_ok());
        for _ in 0..2 {
            assert_eq!(create(&world, name, &file), Err(FsError::AlreadyExists));
        }
        let found = block_on(world.store.lookup(&caller, &at.directory, at.name));
        let found = found.expect("it is there");
        // The first CREATE has sent the request for the size, so the iod executes this request
        // later.
        let left: Vec<u8> = if is_replaced { Vec::new() } else { vec![0; 100] };
        assert_eq!(data(&world.store, &found.object), left);
    }
}
