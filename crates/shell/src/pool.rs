//! Threads for work that sleeps: work of a store, and work of the server itself.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use leasehold_fs::{Blocking, Job};

use crate::limits::{POOL_JOBS_MAX, POOL_THREADS_MAX};
use crate::log::end_the_process;
use crate::own;
use crate::remote::told_at_the_end;

/// A pool of a few threads, started as they are needed; idle ones stay.
///
/// Two threads suffice for the syncs of one file, which share; with many files eight were of use,
/// and more only wait for the same disk. When the pool is dropped, its threads end what is queued. A job that finds the queue full is run in place: whoever
/// asks for so much is slowed down, and nothing is lost. What a job itself asks for begins at its
/// end, on its own thread if nothing else waits: no other has to be woken for it.
///
/// callers, and each job of a store takes the identity of its caller itself. [`Pool::own`] makes a
/// pool for files of the server.
#[derive(Default)]
pub struct Pool {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    filled: Condvar,
    /// True if each job must have the identity of the process.
    is_own: bool,
    /// Signals that a thread took a job from a full queue, where no job runs in place.
    room: Condvar,
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

    /// Makes a pool for file work of the server itself. No job of the pool runs on the thread that
    /// asks, which may act as a caller: a thread that finds the queue full waits for room. A job
    /// that panics ends the process, as no thread would learn that the work was not done.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn own() -> io::Result<Self> {
        let shared = Arc::new(Shared { is_own: true, ..Shared::default() });
        // One thread is there for as long as the pool is, so that each job runs in the end.
        shared.lock().threads = 1;
        let first = Arc::clone(&shared);
        own::spawn("own", move || first.work())?;
        Ok(Self { shared })
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
            self.shared.take_on(job, Asker::Outside);
        }
    }
}

/// A thread that has a job for a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asker {
    /// A thread of the pool itself, whose job asked for another job: the thread must not wait for
    /// itself.
    Inside,
    /// Any other thread.
    Outside,
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
    fn take_on(self: &Arc<Self>, job: Job, asker: Asker) {
        let mut queue = self.lock();
        if queue.jobs.len() >= POOL_JOBS_MAX {
            self.full.fetch_add(1, Ordering::Relaxed);
            if !self.is_own {
                drop(queue);
                return job();
            }
            if asker == Asker::Outside {
                let is_full = |queue: &mut Queue| queue.jobs.len() >= POOL_JOBS_MAX;
                let waited = self.room.wait_while(queue, is_full);
                queue = waited.unwrap_or_else(PoisonError::into_inner);
            }
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
        let started = own::spawn("pool", move || shared.work());
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
            if catch_unwind(AssertUnwindSafe(|| self.do_job(job))).is_err() {
                if self.is_own {
                    end_the_process("file work of the server panicked: the server ends");
                }
                // Whoever waits for its result sees that none comes.
                tracing::error!("work on the pool panicked");
            }
            let mut jobs = ASKED.take().map(|asked| asked.jobs).unwrap_or_default();
            own = jobs.pop();
            jobs.into_iter().for_each(|job| self.take_on(job, Asker::Inside));
        }
    }

    fn do_job(&self, job: Job) {
        if self.is_own {
            own::must_be_own();
        }
        told_at_the_end(job);
    }

    /// The next job, once one stands behind all others that the last one has asked for.
    fn next(&self, own: Option<Job>) -> Option<Job> {
        let mut queue = self.lock();
        queue.jobs.extend(own);
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                if self.is_own {
                    self.room.notify_one();
                }
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
mod tests;
