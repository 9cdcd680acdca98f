//! Threads for work that sleeps.

use std::cell::RefCell;
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
/// asks for so much is slowed down, and nothing is lost. What a job itself asks for begins at its
/// end, on its own thread if nothing else waits: no other has to be woken for it.
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
}

impl Blocking for Pool {
    fn run(&self, job: Job) {
        let asked_by_job = ASKED.with_borrow_mut(|asked| match asked {
            Some(Asked { of, jobs }) if Arc::ptr_eq(of, &self.shared) => {
                jobs.push(job);
                None
            }
            Some(_) | None => Some(job),
        });
        if let Some(job) = asked_by_job {
            self.shared.take_on(job);
        }
    }
}

/// What the job asks for that runs on this thread.
struct Asked {
    of: Arc<Shared>,
    jobs: Vec<Job>,
}

thread_local! {
    static ASKED: RefCell<Option<Asked>> = const { RefCell::new(None) };
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

    /// Has a thread do a job.
    fn take_on(self: &Arc<Self>, job: Job) {
        let mut queue = self.lock();
        if queue.jobs.len() >= POOL_JOBS_MAX {
            drop(queue);
            self.full.fetch_add(1, Ordering::Relaxed);
            return job();
        }
        queue.jobs.push_back(job);
        if queue.idle >= queue.jobs.len() {
            // Who is woken wants the queue at once.
            drop(queue);
            self.filled.notify_one();
        } else if queue.threads < POOL_THREADS_MAX {
            queue.threads += 1;
            drop(queue);
            self.start();
        }
    }

    /// Starts a thread that was counted already.
    fn start(self: &Arc<Self>) {
        let shared = Arc::clone(self);
        let started = thread::Builder::new().name("pool".into()).spawn(move || shared.work());
        let Err(error) = started else { return };
        tracing::warn!(%error, "cannot start a thread for work that blocks");
        let mut queue = self.lock();
        queue.threads -= 1;
        if queue.threads == 0 {
            let jobs = core::mem::take(&mut queue.jobs);
            drop(queue);
            jobs.into_iter().for_each(|job| job());
        }
    }

    /// The life of a thread.
    fn work(self: &Arc<Self>) {
        let mut own = None;
        while let Some(job) = self.next(own.take()) {
            ASKED.set(Some(Asked { of: Arc::clone(self), jobs: Vec::new() }));
            if catch_unwind(AssertUnwindSafe(|| told_at_the_end(job))).is_err() {
                // Whoever waits for its result sees that none comes.
                tracing::error!("work on the pool panicked");
            }
            let mut jobs = ASKED.take().map(|asked| asked.jobs).unwrap_or_default();
            own = jobs.pop();
            jobs.into_iter().for_each(|job| self.take_on(job));
        }
    }

    /// The next job, once one stands behind all others that the last one has asked for.
    fn next(&self, own: Option<Job>) -> Option<Job> {
        let mut queue = self.lock();
        queue.jobs.extend(own);
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
