//! Work that blocks.

use core::future::Future;

use futures_channel::oneshot;

/// A piece of work that may sleep, in a system call or on a disk.
pub type Job = Box<dyn FnOnce() + Send>;

/// Where a store puts work that blocks; the shell gives it a pool of threads.
pub trait Blocking: Send + Sync {
    /// Runs the job soon, on a thread that may sleep.
    fn run(&self, job: Job);
}

/// Runs every job at once, in place: for tests and simulation, where nothing blocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inline;

impl Blocking for Inline {
    fn run(&self, job: Job) {
        job();
    }
}

/// Runs `work` where it may sleep, and answers with its result.
///
/// # Panics
/// Where the work did: its panic ends the waiting call, not the server.
pub fn offload<T, W>(blocking: &dyn Blocking, work: W) -> impl Future<Output = T> + Send + use<T, W>
where
    T: Send + 'static,
    W: FnOnce() -> T + Send + 'static,
{
    let (sender, receiver) = oneshot::channel();
    blocking.run(Box::new(move || {
        // The one that asked may be gone; the work is done all the same.
        drop(sender.send(work()));
    }));
    async { receiver.await.expect("blocking work runs to its end") }
}
