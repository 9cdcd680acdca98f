//! Waiting for a future on a thread without other work.

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::Wake;

#[derive(Default)]
struct Signal {
    raised: Mutex<bool>,
    change: Condvar,
}

impl Signal {
    fn wait(&self) {
        let raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.change.wait_while(raised, |raised| !*raised);
        *waited.unwrap_or_else(PoisonError::into_inner) = false;
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.change.notify_one();
    }
}

/// Blocks this thread until the future is ready; the thread sleeps between polls.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let signal = Arc::new(Signal::default());
    let waker = Waker::from(Arc::clone(&signal));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => signal.wait(),
        }
    }
}
