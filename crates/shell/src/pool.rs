//! Threads for work that sleeps.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use leasehold_fs::{Blocking, Job};

use crate::limits::{POOL_JOBS_MAX, POOL_THREADS_MAX};
use crate::remote::told_at_the_end;

/// A pool of a few threads, started as they are needed; idle ones stay.
///
/// Two threads suffice for the syncs of one file, which share; with many files eight were of use,
/// and more only wait for the same disk. When the pool is dropped, its threads end what is queued. A job that finds the queue full is run in place: whoever
/// asks for so much is slowed down, and nothing is lost.
#[derive(Default)]
pub struct Pool {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    filled: Condvar,
    /// How often the queue was full.
    full: AtomicU64,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    /// Whether nobody asks for work any more.
    closed: bool,
}

impl Pool {
    /// Makes a pool without threads yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How often a job found the queue full.
    #[must_use]
    pub fn full_count(&self) -> u64 {
        self.shared.full.load(Ordering::Relaxed)
    }

    /// Starts a thread that was counted already.
    fn start(&self) {
        let shared = Arc::clone(&self.shared);
        let started = thread::Builder::new().name("pool".into()).spawn(move || shared.work());
        let Err(error) = started else { return };
        tracing::warn!(%error, "cannot start a thread for work that blocks");
        let mut queue = self.shared.lock();
        queue.threads -= 1;
        if queue.threads == 0 {
            let jobs = core::mem::take(&mut queue.jobs);
            drop(queue);
            jobs.into_iter().for_each(|job| job());
        }
    }
}

impl Blocking for Pool {
    fn run(&self, job: Job) {
        let mut queue = self.shared.lock();
        if queue.jobs.len() >= POOL_JOBS_MAX {
            drop(queue);
            self.shared.full.fetch_add(1, Ordering::Relaxed);
            return job();
        }
        queue.jobs.push_back(job);
        if queue.idle >= queue.jobs.len() {
            self.shared.filled.notify_one();
        } else if queue.threads < POOL_THREADS_MAX {
            queue.threads += 1;
            drop(queue);
            self.start();
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.filled.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // No job runs while the queue is held: it is whole even after a panic.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The life of a thread.
    fn work(&self) {
        while let Some(job) = self.next() {
            if catch_unwind(AssertUnwindSafe(|| told_at_the_end(job))).is_err() {
                // Whoever waits for its result sees that none comes.
                tracing::error!("work on the pool panicked");
            }
        }
    }

    fn next(&self) -> Option<Job> {
        let mut queue = self.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            if queue.closed {
                return None;
            }
            queue.idle += 1;
            queue = self.filled.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

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
        let mut seen: Vec<u32> =
            core::iter::from_fn(|| receiver.recv_timeout(PATIENCE).ok()).collect();
        seen.sort_unstable();
        assert!(seen.into_iter().eq((0..100).filter(|number| number % 10 != 3)));
    }

    #[test]
    fn a_full_queue_makes_the_caller_work() {
        let pool = Pool::new();
        let gate = Arc::new(Barrier::new(POOL_THREADS_MAX + 1));
        for _ in 0..POOL_THREADS_MAX {
            let gate = Arc::clone(&gate);
            pool.run(Box::new(move || {
                gate.wait();
                gate.wait();
            }));
        }
        // From here on every thread has its job and none takes another.
        gate.wait();
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
}
