//! Periodic work.

use std::io;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::own;

/// Periodic work, which ends when this value is dropped.
pub struct Periodic {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Periodic {
    /// Runs the work on a new thread, once in each `interval`. The first run is after one interval.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn start(
        name: &str,
        interval: Duration,
        mut work: impl FnMut() + Send + 'static,
    ) -> io::Result<Self> {
        let (end, ended) = mpsc::channel();
        let thread = own::spawn(name, move || {
            while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                work();
            }
        })?;
        Ok(Self { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Periodic {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // If the work has panicked, the panic has already been logged, so the result of the
            // thread is ignored.
            drop(thread.join());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_repeats_until_the_value_is_dropped() {
        let (sender, receiver) = mpsc::channel();
        let work = move || sender.send(()).expect("the test listens until it is dropped");
        let periodic = Periodic::start("test", Duration::from_millis(1), work).expect("a thread");
        for _ in 0..3 {
            receiver.recv_timeout(Duration::from_secs(10)).expect("it works again");
        }
        drop(periodic);
        while receiver.try_recv().is_ok() {}
        assert_eq!(receiver.recv(), Err(mpsc::RecvError), "the work is gone with its thread");
    }
}
