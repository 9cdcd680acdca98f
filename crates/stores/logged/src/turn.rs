//! Whose turn it is: one after another, in the order of asking, and no thread waits.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_channel::oneshot;

/// Lets one in at a time.
#[derive(Default)]
pub(crate) struct Turns(Mutex<State>);

#[derive(Default)]
struct State {
    taken: bool,
    waiting: VecDeque<oneshot::Sender<Turn>>,
}

/// A turn; the next one's comes when it is dropped.
pub(crate) struct Turn(Arc<Turns>);

impl Turns {
    /// Waits for a turn. One that nobody waits for any more goes to the next.
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
        receiver.await.expect("whoever waits is called")
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
                // Who asked has gone. The turn is still ours to pass on.
                Err(turn) => core::mem::forget(turn),
            }
        }
    }
}
