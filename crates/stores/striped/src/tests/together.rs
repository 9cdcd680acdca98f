//! Tests of concurrent operations on one file, with iods that have random delays.

use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::outage::Power;
use super::volume::{Volume, data, make, superuser};
use crate::file::File;
use crate::{Around, Iod, Striped};
use bytes::Bytes;
use futures_util::future::join_all;
use leasehold_base::random::Random;
use leasehold_fs::suite::block_on;
use leasehold_fs::{FsError, MaybeReady, SetAttributes, Stability, Store, yield_now};
use leasehold_session::spawn;

/// An iod that yields a few times before each operation and before each reply, and fails while a
/// flag is set.
pub(super) struct Slow {
    pub(super) iod: Arc<dyn Iod>,
    pub(super) random: Mutex<Random>,
    pub(super) fails: Arc<AtomicBool>,
    /// True if the iod counts as unreachable while it fails.
    pub(super) tells: bool,
    pub(super) power: Power,
}

impl Slow {
    async fn turns(&self) {
        let turns = self.random.lock().expect("nobody panics").below(4);
        for _ in 0..turns {
            yield_now().await;
        }
        self.power.used().await;
    }
}

impl Around for Slow {
    fn around<'a, T: Send + 'a>(
        &'a self,
        call: impl for<'i> FnOnce(&'i dyn Iod) -> MaybeReady<'i, Result<T, FsError>> + Send + 'a,
    ) -> MaybeReady<'a, Result<T, FsError>> {
        MaybeReady::later(async move {
            self.turns().await;
            if self.fails.load(Ordering::Relaxed) {
                return Err(FsError::Io);
            }
            let answer = call(&*self.iod).await;
            self.turns().await;
            answer
        })
    }

    fn seems_away(&self) -> bool {
        self.tells && self.fails.load(Ordering::Relaxed)
    }
}

/// Starts a volume whose iods answer in an order that the seed determines. Returns it with a flag
/// that makes one iod fail.
fn slow_volume(seed: u64) -> (Volume, Striped, Arc<AtomicBool>) {
    let mut volume = Volume::new();
    let switch = Arc::new(AtomicBool::new(false));
    let store = volume.start_with(|number, iod| {
        let random = Mutex::new(Random::from_seed(seed * 8 + u64::from(number)));
        let fails = if number == 1 { Arc::clone(&switch) } else { Arc::default() };
        Arc::new(Slow { iod, random, fails, tells: false, power: Power::default() })
    });
    (volume, store, switch)
}

type Work<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

#[test]
fn concurrent_writes_are_all_present() {
    for seed in 0..300 {
        let (volume, store, _) = slow_volume(seed);
        let file = make(&store, "file");
        // Several writers write at the same time, and so make the data move from the metafile to
        // the iods.
        let writers = (0..8_u8).map(|writer| -> Work<'_> {
            let (store, file) = (&store, &file);
            Box::pin(async move {
                let caller = superuser();
                for part in 0..3 {
                    let offset = u64::from(writer) * 15 + part * 5;
                    let bytes = Bytes::from(vec![writer + 1; 5]);
                    let how = Stability::FileSync;
                    let done = store.write(&caller, file, offset, bytes, how).await;
                    assert_eq!(done.result.expect("there is room").count, 5);
                }
            })
        });
        block_on(join_all(writers));
        let whole: Vec<u8> = (1..=8).flat_map(|writer| [writer; 15]).collect();
        assert_eq!(data(&store, &file), whole, "seed {seed}");
        drop(volume);
    }
}

/// During a truncation a reader sees the file from before or from after it, and no state in
/// between.
#[test]
fn no_reader_sees_half_a_cut() {
    for seed in 0..300 {
        let (volume, store, _) = slow_volume(seed);
        let file = make(&store, "file");
        let written = block_on(store.write(
            &superuser(),
            &file,
            0,
            Bytes::from(vec![7; 100]),
            Stability::FileSync,
        ));
        written.result.expect("there is room");
        let cut = async {
            let size = SetAttributes { size: Some(30), ..SetAttributes::default() };
            let done = store.setattr(&superuser(), &file, &size, None).await;
            done.result.expect("the superuser may");
        };
        let look = async {
            for _ in 0..4 {
                let caller = superuser();
                let read = store.read(&caller, &file, 0, 200).await.expect("it is there");
                assert!([30, 100].contains(&read.data.len()), "seed {seed}: {}", read.data.len());
                assert!(read.data.iter().all(|&byte| byte == 7), "seed {seed}");
            }
        };
        let both: [Work<'_>; 2] = [Box::pin(cut), Box::pin(look)];
        block_on(join_all(both));
        drop(volume);
    }
}

#[test]
fn a_cut_that_an_iod_missed_completes_when_it_is_back() {
    let size = |bytes| SetAttributes { size: Some(bytes), ..SetAttributes::default() };
    let (mut volume, store, fails) = slow_volume(1);
    let file = make(&store, "file");
    let bytes = Bytes::from(vec![7; 100]);
    let done = block_on(store.write(&superuser(), &file, 0, bytes, Stability::FileSync));
    done.result.expect("there is room");
    fails.store(true, Ordering::Relaxed);
    let cut = block_on(store.setattr(&superuser(), &file, &size(30), None));
    assert_eq!((cut.result, cut.wcc.after), (Err(FsError::Io), None), "nobody knows");
    fails.store(false, Ordering::Relaxed);
    // The truncation failed halfway. Both the running metaserver and a restarted one must complete
    // it.
    let started = volume.start();
    assert_eq!(data(&started, &file), vec![7; 30]);
    assert_eq!(data(&store, &file), vec![7; 30]);
    drop((store, started));
    // After a later extension the truncated data must not reappear.
    let store = volume.start();
    block_on(store.setattr(&superuser(), &file, &size(60), None)).result.expect("it can be");
    assert_eq!(data(&store, &file), [vec![7; 30], vec![0; 30]].concat());
}

#[test]
fn a_write_that_an_iod_refuses_fails_and_the_size_stays_exact() {
    let (mut volume, store, fails) = slow_volume(2);
    let file = make(&store, "file");
    let put = |store: &Striped, offset| {
        let bytes = Bytes::from(vec![7; 30]);
        block_on(store.write(&superuser(), &file, offset, bytes, Stability::FileSync)).result
    };
    put(&store, 0).expect("there is room");
    fails.store(true, Ordering::Relaxed);
    match put(&store, 30) {
        Ok(done) => assert!(done.count < 30, "the rest was not written"),
        Err(error) => assert_eq!(error, FsError::Io),
    }
    assert_eq!(block_on(store.getattr(&file)), Err(FsError::Io), "an iod of it is away");
    fails.store(false, Ordering::Relaxed);
    let known = block_on(store.getattr(&file)).expect("all are there").size;
    drop(store);
    let store = volume.start();
    assert_eq!(block_on(store.getattr(&file)).expect("it is there").size, known);
    put(&store, 30).expect("there is room");
    assert_eq!(data(&store, &file), vec![7; 60]);
}

/// A task that runs immediately when it is woken, as tasks of a session do, waits for the lock of a
/// file. It must run when another task releases the lock.
#[test]
fn the_release_of_a_file_runs_the_waiting_work() {
    let file = Arc::new(File::default());
    let done = Arc::new(AtomicBool::new(false));
    let reads = block_on(file.read());
    spawn({
        let (file, done) = (Arc::clone(&file), Arc::clone(&done));
        async move {
            drop(file.write().await);
            done.store(true, Ordering::Relaxed);
        }
    });
    assert!(!done.load(Ordering::Relaxed));
    drop(reads);
    assert!(done.load(Ordering::Relaxed));
}
