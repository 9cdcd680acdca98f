//! Tests of the flow control of READs that share a link: their order, and the time for which a READ
//! counts.

use core::future::pending;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use core::task::Poll;
use core::time::Duration;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::FutureExt as _;
use leasehold_base::random::Random;
use leasehold_base::units::Time;
use leasehold_base::xdr::Message;
use leasehold_fs::suite::block_on;
use leasehold_fs::{FsError, MaybeReady, Stability, Verifier};
use leasehold_session::{Connection, Driver, Options, Session, Transport};

use crate::{Extent, FlowControlledIod, Iod, ObjectName, Pace, Room, Written};

const MIB: u32 = 1 << 20;

/// A clock that a test advances.
pub(super) struct Clock {
    pub(super) now: Arc<AtomicU64>,
}

impl Transport for Clock {
    fn now(&self) -> Time {
        Time::from_nanoseconds(self.now.load(Ordering::Relaxed))
    }

    fn connect(&self, _connection: Connection) {}

    fn send(&self, _connection: Connection, _message: &Arc<Message>) {}

    fn wake_at(&self, _time: Time) {}
}

/// The requests that wait at an iod; a test decides when the iod answers.
#[derive(Default)]
struct Asked {
    reads: AtomicUsize,
    answers: Mutex<usize>,
}

struct Held(Arc<Asked>);

fn nothing<'a, T>() -> MaybeReady<'a, Result<T, FsError>> {
    MaybeReady::now(Err(FsError::Io))
}

impl Iod for Held {
    fn extent(&self, _object: ObjectName) -> MaybeReady<'_, Result<Extent, FsError>> {
        nothing()
    }

    fn read(
        &self,
        _object: ObjectName,
        _offset: u64,
        count: u32,
    ) -> MaybeReady<'_, Result<Bytes, FsError>> {
        MaybeReady::later(async move {
            self.0.reads.fetch_add(1, Ordering::Relaxed);
            core::future::poll_fn(|_| {
                let mut answers = self.0.answers.lock().expect("nobody panics");
                if *answers == 0 {
                    return Poll::Pending;
                }
                *answers -= 1;
                Poll::Ready(())
            })
            .await;
            Ok(vec![0; count as usize].into())
        })
    }

    fn write(
        &self,
        _object: ObjectName,
        _offset: u64,
        _data: Bytes,
        _stability: Stability,
    ) -> MaybeReady<'_, Result<Written, FsError>> {
        nothing()
    }

    fn resize(&self, _object: ObjectName, _size: u64) -> MaybeReady<'_, Result<Extent, FsError>> {
        nothing()
    }

    fn commit(&self, _object: ObjectName) -> MaybeReady<'_, Result<Verifier, FsError>> {
        nothing()
    }

    fn remove(&self, _object: ObjectName) -> MaybeReady<'_, Result<(), FsError>> {
        nothing()
    }

    fn verifier(&self) -> MaybeReady<'_, Result<Verifier, FsError>> {
        nothing()
    }

    fn space(&self) -> MaybeReady<'_, Result<Room, FsError>> {
        MaybeReady::later(pending())
    }
}

struct World {
    now: Arc<AtomicU64>,
    driver: Driver,
    pace: Arc<Pace>,
    asked: Arc<Asked>,
    iod: FlowControlledIod,
}

/// Adds an iod to a schedule. Returns the iod with its list of requests.
fn iod_of(pace: &Arc<Pace>) -> (Arc<Asked>, FlowControlledIod) {
    let asked = Arc::new(Asked::default());
    let iod = FlowControlledIod::new(Arc::new(Held(Arc::clone(&asked))), Arc::clone(pace));
    (asked, iod)
}

impl World {
    fn new() -> Self {
        Self::with(|pace| pace)
    }

    fn with(order: impl FnOnce(Pace) -> Pace) -> Self {
        let (now, mut driver) = (Arc::new(AtomicU64::new(0)), None);
        let session = Session::new(Options::stream(), Random::from_seed(1), |given| {
            driver = Some(given);
            Clock { now: Arc::clone(&now) }
        });
        let pace = Arc::new(order(Pace::new(session)));
        let (asked, iod) = iod_of(&pace);
        Self { now, driver: driver.expect("it was given"), pace, asked, iod }
    }

    fn read(&self, count: u32) -> MaybeReady<'_, Result<Bytes, FsError>> {
        self.iod.read(ObjectName([0; 16]), 0, count)
    }

    fn asked(&self) -> usize {
        self.asked.reads.load(Ordering::Relaxed)
    }

    fn answer(&self, reads: usize) {
        *self.asked.answers.lock().expect("nobody panics") += reads;
    }

    fn pass(&self, span: Duration) {
        let span = u64::try_from(span.as_nanos()).expect("it is short");
        self.now.fetch_add(span, Ordering::Relaxed);
        self.driver.tick();
    }
}

/// At most two large READs are in progress, and each reply starts the next one. Small READs do not
/// wait, and the schedule skips a READ that was dropped.
#[test]
fn large_reads_take_turns() {
    block_on(async {
        let world = World::new();
        let mut reads: Vec<_> = (0..5).map(|_| world.read(MIB)).collect();
        for read in &mut reads {
            assert!(read.now_or_never().is_none());
        }
        assert_eq!(world.asked(), 2);
        let small = world.read(4096);
        drop(reads.remove(2));
        world.answer(1);
        assert!((&mut reads[0]).now_or_never().is_some());
        for read in &mut reads[1..] {
            assert!(read.now_or_never().is_none());
        }
        assert_eq!(world.asked(), 3, "the one after that which nobody waits for");
        world.answer(1);
        assert!(small.now_or_never().is_some(), "it has no turn to wait for");
    });
}

/// The limit of outstanding bytes grows while replies arrive quickly. After a pause the limit is
/// small again.
#[test]
fn quick_replies_raise_the_bound() {
    block_on(async {
        let world = World::new();
        for _ in 0..10 {
            world.answer(1);
            world.pass(Duration::from_millis(5));
            world.read(MIB).await.expect("it is answered");
        }
        let mut reads: Vec<_> = (0..20).map(|_| world.read(MIB)).collect();
        for read in &mut reads {
            assert!(read.now_or_never().is_none());
        }
        assert_eq!(world.asked(), 10 + 10, "a MiB in 5 ms is ten in the span");
        drop(reads);
        world.pass(Duration::from_secs(10));
        world.answer(1);
        world.read(MIB).await.expect("it is answered");
        let mut reads: Vec<_> = (0..20).map(|_| world.read(MIB)).collect();
        for read in &mut reads {
            assert!(read.now_or_never().is_none());
        }
        assert_eq!(world.asked(), 21 + 2);
    });
}

/// A silent iod delays the READs of other iods by at most a second.
#[test]
fn a_silent_iod_does_not_keep_its_turn() {
    block_on(async {
        let world = World::new();
        let mut reads: Vec<_> = (0..4).map(|_| world.read(MIB)).collect();
        for read in &mut reads {
            assert!(read.now_or_never().is_none());
        }
        assert_eq!(world.asked(), 2);
        world.pass(Duration::from_millis(1001));
        for read in &mut reads {
            assert!(read.now_or_never().is_none());
        }
        assert_eq!(world.asked(), 4);
        world.answer(4);
        for read in reads {
            assert_eq!(read.await.map(|data| data.len()), Ok(MIB as usize));
        }
    });
}

/// While an iod is silent, all outstanding READs but one are READs of other iods.
#[test]
fn a_silent_iod_has_one_turn_of_several() {
    block_on(async {
        let world = World::new();
        let (asked, other) = iod_of(&world.pace);
        let name = ObjectName([0; 16]);
        let mut silent: Vec<_> = (0..3).map(|_| world.read(MIB)).collect();
        assert!((&mut silent[0]).now_or_never().is_none());
        let mut others: Vec<_> = (0..4).map(|_| other.read(name, 0, MIB)).collect();
        assert!((&mut others[0]).now_or_never().is_none());
        // The READs of the silent iod enter the queue first.
        for read in silent.iter_mut().chain(&mut others) {
            assert!(read.now_or_never().is_none());
        }
        for done in 1..4 {
            assert_eq!((world.asked(), asked.reads.load(Ordering::Relaxed)), (1, done));
            *asked.answers.lock().expect("nobody panics") += 1;
            assert!((&mut others[done - 1]).now_or_never().is_some());
            for read in silent.iter_mut().chain(&mut others[done..]) {
                assert!(read.now_or_never().is_none());
            }
        }
    });
}

/// Three metaservers receive requests for the same stripes in the same order. At no time may two of
/// them read from one iod, and all data must arrive.
#[test]
fn several_metaservers_start_at_different_iods() {
    block_on(async {
        const IODS: usize = 9;
        // The maximum number of READs in progress at each metaserver.
        const TURNS: usize = 3;
        let name = ObjectName([0; 16]);
        let mut begun = Vec::new();
        for number in 0..3 {
            let world = World::with(|pace| pace.one_of(number, 3));
            let mut iods: Vec<_> = (1..IODS).map(|_| iod_of(&world.pace)).collect();
            iods.insert(0, (Arc::clone(&world.asked), world.iod));
            // Each metaserver reads from all iods twice.
            let mut reads: Vec<_> =
                iods.iter().chain(&iods).map(|(_, iod)| iod.read(name, 0, MIB)).collect();
            let (mut before, mut order) = ([0; IODS], Vec::new());
            while !reads.is_empty() {
                // A READ enters the queue at its first poll, and may start at its second poll.
                for _ in 0..2 {
                    reads.retain_mut(|read| read.now_or_never().is_none());
                }
                let now: [usize; IODS] =
                    core::array::from_fn(|iod| iods[iod].0.reads.load(Ordering::Relaxed));
                let asked: Vec<_> = (0..IODS).filter(|&iod| now[iod] > before[iod]).collect();
                for &iod in &asked {
                    *iods[iod].0.answers.lock().expect("nobody panics") += 1;
                }
                before = now;
                order.push(asked);
                assert!(order.len() < 100, "all come to their end");
            }
            assert_eq!(before, [2; IODS]);
            begun.push(order);
        }
        let together = |at: usize| begun.iter().flat_map(move |order| order[at].clone());
        for at in 0..2 * IODS / TURNS {
            let iods: BTreeSet<_> = together(at).collect();
            assert_eq!(iods.len(), IODS, "each by one: {begun:?}");
        }
    });
}
