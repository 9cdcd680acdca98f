//! Work that blocks.

use core::future::Future;

use futures_channel::oneshot;

/// A job that may sleep, in a system call or on a disk.
pub type Job = Box<dyn FnOnce() + Send>;

/// An executor of blocking jobs; the shell implements it with a pool of threads.
pub trait Blocking: Send + Sync {
    /// Runs the job soon, on a thread that may sleep.
    fn run(&self, job: Job);
}

/// Runs every job immediately on the calling thread, for tests and simulation, where nothing
/// blocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inline;

impl Blocking for Inline {
    fn run(&self, job: Job) {
        job();
    }
}

/// Runs `work` on a thread that may sleep, and returns its result.
///
/// # Panics
/// Panics if `work` panics: the panic ends the waiting call, but not the server.
pub fn offload<T, W>(blocking: &dyn Blocking, work: W) -> impl Future<Output = T> + Send + use<T, W>
where
    T: Send + 'static,
    W: FnOnce() -> T + Send + 'static,
{
    let (sender, receiver) = oneshot::channel();
    blocking.run(Box::new(move || {
        // The caller may have dropped the future, so a failure to send the result is ignored.
        drop(sender.send(work()));
    }));
    async { receiver.await.expect("blocking work runs to its end") }
}
