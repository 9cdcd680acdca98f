//! Jobs of pools, and the threads that they run on.

use std::sync::Barrier;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::*;
use crate::sys;

const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn as_many_jobs_sleep_at_once_as_there_may_be_threads() {
    let pool = Pool::new();
    let together = Arc::new(Barrier::new(POOL_THREADS_MAX));
    let (sender, receiver) = mpsc::channel();
    for _ in 0..POOL_THREADS_MAX * 3 {
        let (together, sender) = (Arc::clone(&together), sender.clone());
        pool.run(Box::new(move || {
            together.wait();
            sender.send(()).expect("the test waits");
        }));
    }
    for _ in 0..POOL_THREADS_MAX * 3 {
        receiver.recv_timeout(PATIENCE).expect("all jobs ran");
    }
    assert_eq!(pool.shared.lock().threads, POOL_THREADS_MAX);
}

#[test]
fn a_panic_ends_one_job_and_a_drop_none() {
    let pool = Pool::new();
    let (sender, receiver) = mpsc::channel();
    for number in 0..100 {
        let sender = sender.clone();
        pool.run(Box::new(move || {
            assert!(number % 10 != 3, "told to panic");
            sender.send(number).expect("the test waits");
        }));
    }
    drop((pool, sender));
    let mut seen: Vec<u32> = core::iter::from_fn(|| receiver.recv_timeout(PATIENCE).ok()).collect();
    seen.sort_unstable();
    assert!(seen.into_iter().eq((0..100).filter(|number| number % 10 != 3)));
}

#[test]
fn what_a_job_asks_for_begins_at_its_end_and_wakes_nobody() {
    let pool = Arc::new(Pool::new());
    let (sender, receiver) = mpsc::channel();
    let inner = Arc::clone(&pool);
    pool.run(Box::new(move || {
        let here = thread::current().id();
        for number in 0..3 {
            let sender = sender.clone();
            inner.run(Box::new(move || {
                let same = here == thread::current().id();
                sender.send((number, same)).expect("the test waits");
            }));
        }
        sender.send((9, true)).expect("the test waits");
    }));
    let mut seen: Vec<(u32, bool)> =
        (0..4).map(|_| receiver.recv_timeout(PATIENCE).expect("all ran")).collect();
    assert_eq!(seen[0], (9, true), "the job itself ends first");
    seen.sort_unstable();
    assert_eq!(seen.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 1, 2, 9]);
    let (sender, receiver) = mpsc::channel();
    let inner = Arc::clone(&pool);
    pool.run(Box::new(move || {
        let here = thread::current().id();
        inner.run(Box::new(move || {
            sender.send(here == thread::current().id()).expect("the test waits");
        }));
    }));
    assert_eq!(receiver.recv_timeout(PATIENCE), Ok(true), "one alone stays where it is");
}

/// Gives each thread of a pool a job that ends when the gate is waited at once more; no thread takes
/// another job before.
fn occupied(pool: &Pool) -> Arc<Barrier> {
    let gate = Arc::new(Barrier::new(POOL_THREADS_MAX + 1));
    for _ in 0..POOL_THREADS_MAX {
        let gate = Arc::clone(&gate);
        pool.run(Box::new(move || {
            gate.wait();
            gate.wait();
        }));
    }
    // From here on every thread has its job and no thread takes another job.
    gate.wait();
    gate
}

#[test]
fn a_full_queue_makes_the_caller_work() {
    let pool = Pool::new();
    let gate = occupied(&pool);
    let (sender, receiver) = mpsc::channel();
    while pool.full_count() == 0 {
        let sender = sender.clone();
        let here = thread::current().id();
        pool.run(Box::new(move || {
            sender.send(here == thread::current().id()).expect("the test waits");
        }));
    }
    assert_eq!(receiver.recv_timeout(PATIENCE), Ok(true));
    gate.wait();
    drop(sender);
    let rest = core::iter::from_fn(|| receiver.recv_timeout(PATIENCE).ok());
    assert_eq!(rest.count(), POOL_JOBS_MAX);
}

/// Makes this thread act as an ordinary user, as a store does for a caller; false for an ordinary
/// user's process, whose threads have one identity.
fn act_as_a_caller() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        own::begin().expect("there are threads");
        sys::set_file_system_user(4242);
        assert!(!own::is_own());
    }
    is_root
}

/// A pool's thread that was started from a thread that acted as a caller acted as that caller, too.
#[test]
fn jobs_run_as_the_server_whoever_asks_for_them() {
    let (sender, receiver) = mpsc::channel();
    let asker = thread::spawn(move || {
        act_as_a_caller();
        for pool in [Pool::new(), Pool::own().expect("there are threads")] {
            let gate = Arc::new(Barrier::new(POOL_THREADS_MAX + 1));
            for _ in 0..POOL_THREADS_MAX {
                let (gate, sender) = (Arc::clone(&gate), sender.clone());
                pool.run(Box::new(move || {
                    gate.wait();
                    sender.send(own::is_own()).expect("the test waits");
                }));
            }
            gate.wait();
        }
    });
    asker.join().expect("no panic");
    let own: Vec<bool> = receiver.iter().collect();
    assert_eq!(own, [true; 2 * POOL_THREADS_MAX]);
}

#[test]
fn no_job_of_the_server_runs_on_the_thread_that_asks() {
    let pool = Arc::new(Pool::own().expect("there are threads"));
    let gate = occupied(&pool);
    let (sender, receiver) = mpsc::channel();
    let count = POOL_JOBS_MAX + 10;
    let asker = thread::spawn({
        let pool = Arc::clone(&pool);
        move || {
            act_as_a_caller();
            for _ in 0..count {
                let sender = sender.clone();
                pool.run(Box::new(move || sender.send(own::is_own()).expect("the test waits")));
            }
        }
    });
    while pool.full_count() == 0 {
        thread::yield_now();
    }
    assert!(receiver.try_recv().is_err(), "the thread that asks waits for room");
    gate.wait();
    asker.join().expect("no panic");
    assert!(receiver.iter().take(count).all(|is_own| is_own));
}
