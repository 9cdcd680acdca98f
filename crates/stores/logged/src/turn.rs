//! An asynchronous mutex: callers enter in the order of their requests, and no thread blocks.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_channel::oneshot;

/// The mutex.
#[derive(Default)]
pub(crate) struct Turns(Mutex<State>);

#[derive(Default)]
struct State {
    taken: bool,
    waiting: VecDeque<oneshot::Sender<Turn>>,
}

/// The guard. When it is dropped, the next caller enters.
pub(crate) struct Turn(Arc<Turns>);

impl Turns {
    /// Waits for the guard. If a waiting caller has gone, the guard passes to the next one.
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
                // The receiver was dropped. This guard still has to be passed on.
                Err(turn) => core::mem::forget(turn),
            }
        }
    }
}
