//! Background work that runs on the threads that wake it.

use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicU8, Ordering};
use core::task::{Context, Waker};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Wake;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Starts work on this thread. Each thread that wakes the work continues it, so no executor is
/// necessary. A source of wakes must therefore not hold a lock that the work may take. Replies and
/// sleeps of a session meet this condition, as does a lock that releases its queue of waiters
/// before it wakes them.
pub fn spawn(work: impl Future<Output = ()> + Send + 'static) {
    Arc::new(Task { work: Mutex::new(Some(Box::pin(work))), stage: AtomicU8::new(RESTING) }).run();
}

struct Task {
    /// The work; None when it is done.
    work: Mutex<Option<Work>>,
    stage: AtomicU8,
}

const RESTING: u8 = 0;
const RUNNING: u8 = 1;
/// The task was woken while it ran, so it must be polled once more.
const WOKEN: u8 = 2;

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.run();
    }
}

impl Task {
    fn run(self: Arc<Self>) {
        let begin = self.stage.fetch_update(Ordering::AcqRel, Ordering::Acquire, |stage| {
            Some(if stage == RESTING { RUNNING } else { WOKEN })
        });
        if begin != Ok(RESTING) {
            return;
        }
        loop {
            self.stage.store(RUNNING, Ordering::Release);
            self.poll();
            let rest =
                self.stage.compare_exchange(RUNNING, RESTING, Ordering::AcqRel, Ordering::Acquire);
            if rest.is_ok() {
                return;
            }
        }
    }

    fn poll(self: &Arc<Self>) {
        let waker = Waker::from(Arc::clone(self));
        let mut slot = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(work) = slot.as_mut() else { return };
        if work.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            *slot = None;
        }
    }
}
