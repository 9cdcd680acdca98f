//! An asynchronous mutex: callers enter in the order of their requests, and no thread blocks.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_channel::oneshot;

/// An asynchronous mutex.
#[derive(Default)]
pub(crate) struct Turns(Mutex<State>);

#[derive(Default)]
struct State {
    taken: bool,
    waiting: VecDeque<oneshot::Sender<Turn>>,
}

/// The guard of the mutex. When the guard is dropped, the mutex passes to the next waiting caller.
pub(crate) struct Turn(Arc<Turns>);

impl Turns {
    /// Waits for the mutex. If a waiting caller was dropped, the mutex passes to the caller after
    /// it.
    pub(crate) async fn take(self: &Arc<Self>) -> Turn {
        let receiver = {
            let mut state = self.state();
            if !state.taken {
                state.taken = true;
                return Turn(Arc::clone(self));
            }
            let (sender, receiver) = oneshot::channel();
            state.waiting.push_back(sender);
            receiver
        };
        receiver.await.expect("each waiting caller receives the guard")
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        loop {
            let next = {
                let mut state = self.0.state();
                let next = state.waiting.pop_front();
                state.taken = next.is_some();
                next
            };
            let Some(next) = next else { return };
            match next.send(Self(Arc::clone(&self.0))) {
                Ok(()) => return,
                // The waiting caller was dropped, and `send` has returned the new guard. Forget
                // this guard without its destructor, and pass the mutex to the next caller.
                Err(turn) => core::mem::forget(turn),
            }
        }
    }
}
