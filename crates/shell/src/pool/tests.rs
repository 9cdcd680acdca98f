//! Jobs of pools, and the threads that they run on.

use std::sync::Barrier;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::*;
use crate::sys;

const TIMEOUT: Duration = Duration::from_secs(20);

#[test]
fn pool_runs_one_job_per_thread_up_to_the_limit() {
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
        receiver.recv_timeout(TIMEOUT).expect("all jobs ran");
    }
    assert_eq!(pool.shared.lock().threads, POOL_THREADS_MAX);
}

#[test]
fn panic_ends_one_job_and_drop_completes_all() {
    let pool = Pool::new();
    let (sender, receiver) = mpsc::channel();
    for number in 0..100 {
        let sender = sender.clone();
        pool.run(Box::new(move || {
            assert!(number % 10 != 3, "a planted panic");
            sender.send(number).expect("the test waits");
        }));
    }
    drop((pool, sender));
    let mut seen: Vec<u32> = core::iter::from_fn(|| receiver.recv_timeout(TIMEOUT).ok()).collect();
    seen.sort_unstable();
    assert!(seen.into_iter().eq((0..100).filter(|number| number % 10 != 3)));
}

#[test]
fn nested_job_starts_after_its_parent_on_the_same_thread() {
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
        (0..4).map(|_| receiver.recv_timeout(TIMEOUT).expect("all ran")).collect();
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
    assert_eq!(receiver.recv_timeout(TIMEOUT), Ok(true), "one alone stays where it is");
}

/// Occupies each thread of a pool with a job. The jobs end when the caller waits on the returned
/// barrier.
fn occupied(pool: &Pool) -> Arc<Barrier> {
    let gate = Arc::new(Barrier::new(POOL_THREADS_MAX + 1));
    for _ in 0..POOL_THREADS_MAX {
        let gate = Arc::clone(&gate);
        pool.run(Box::new(move || {
            gate.wait();
            gate.wait();
        }));
    }
    // After this wait every thread of the pool runs one of these jobs.
    gate.wait();
    gate
}

#[test]
fn full_queue_runs_the_job_on_the_caller() {
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
    assert_eq!(receiver.recv_timeout(TIMEOUT), Ok(true));
    gate.wait();
    drop(sender);
    let rest = core::iter::from_fn(|| receiver.recv_timeout(TIMEOUT).ok());
    assert_eq!(rest.count(), POOL_JOBS_MAX);
}

/// Makes this thread act as an ordinary user, as a store does; returns false in a process of an
/// ordinary user, whose threads have one identity.
fn act_as_a_caller() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        own::begin().expect("there are threads");
        sys::set_file_system_user(4242);
        assert!(!own::is_own());
    }
    is_root
}

/// A pool starts its threads from any thread, even from a thread that acts as a user. The new
/// threads must not act as that user.
#[test]
fn jobs_run_with_the_identity_of_the_process() {
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
fn own_pool_never_runs_jobs_on_the_caller() {
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
