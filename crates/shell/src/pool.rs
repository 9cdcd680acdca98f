//! Threads for blocking work: work of a store, and file work of the server itself.

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

/// A pool of a few threads, started on demand; idle threads stay.
///
/// Two threads suffice for the syncs of one file, because one sync serves several writes. With many
/// files up to eight threads help; more threads would only wait for the same disk. When the pool is
/// dropped, its threads complete the queued jobs. If the queue is full, a job runs on the thread
/// that submits it, which slows that thread down but loses no work. A job that is submitted by
/// another job is queued at the end of the submitting job. If no other job is queued, the same
/// thread then runs it, so that no other thread must be woken.
///
/// Any thread may submit jobs, even a thread that acts as a user. A job of a store takes the
/// identity of its user itself. [`Pool::own`] creates a pool for the server's own files.
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
    /// Signals that a thread has taken a job from a full queue. Only pools whose jobs never run on
    /// the submitting thread use this signal.
    room: Condvar,
    /// The number of times that the queue was full.
    full: AtomicU64,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    /// True after the pool has been dropped; the threads then complete the queued jobs and end.
    closed: bool,
}

impl Pool {
    /// Creates a pool without threads.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a pool for file work of the server itself. No job of the pool runs on the calling
    /// thread, which may act as a user: if the queue is full, the caller waits until a job has left
    /// it. A job that panics ends the process, because no thread would learn that the work of the
    /// job was not done.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn own() -> io::Result<Self> {
        let shared = Arc::new(Shared { is_own: true, ..Shared::default() });
        // One thread exists as long as the pool, so that each job runs even if no further thread
        // can be started.
        shared.lock().threads = 1;
        let first = Arc::clone(&shared);
        own::spawn("own", move || first.work())?;
        Ok(Self { shared })
    }

    /// Returns the number of times that a job found the queue full.
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

/// The thread that submits a job to a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asker {
    /// A thread of the pool itself, whose job has submitted another job. Such a thread must not
    /// wait for free space in the queue, because it may be the only thread that takes jobs from the
    /// queue.
    Inside,
    /// Any other thread.
    Outside,
}

/// The jobs that the running job of this thread has submitted.
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
        // No thread holds the mutex while a job runs, so the queue is consistent even after a
        // panic.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a job and wakes or starts a thread for it.
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
            // The mutex is released before the notification, because the woken thread acquires the
            // mutex at once.
            drop(queue);
            self.filled.notify_one();
        } else if queue.threads < POOL_THREADS_MAX {
            queue.threads += 1;
            drop(queue);
            self.start();
        }
    }

    /// Starts a thread that `threads` already includes.
    fn start(self: &Arc<Self>) {
        let shared = Arc::clone(self);
        let started = own::spawn("pool", move || shared.work());
        let Err(error) = started else { return };
        tracing::warn!(%error, "cannot start a thread for blocking work");
        let mut queue = self.lock();
        queue.threads -= 1;
        if queue.threads == 0 {
            let jobs = core::mem::take(&mut queue.jobs);
            drop(queue);
            jobs.into_iter().for_each(|job| job());
        }
    }

    /// Runs jobs until the pool is closed.
    fn work(self: &Arc<Self>) {
        let mut own = None;
        while let Some(job) = self.next(own.take()) {
            ASKED.set(Some(Asked { of: Arc::clone(self), jobs: Vec::new() }));
            if catch_unwind(AssertUnwindSafe(|| self.do_job(job))).is_err() {
                if self.is_own {
                    end_the_process("file work of the server panicked: the server ends");
                }
                // A caller that waits for the result of the job detects that the result is lost, so
                // the thread continues with the next job.
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

    /// Queues `own`, the last job that the previous job has submitted, behind all other jobs. Then
    /// returns the next job.
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
