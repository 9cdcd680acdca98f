//! Yielding to other tasks.

use core::future::{Future, poll_fn};
use core::task::Poll;

/// Yields once, so that all tasks that are ready run first. Long work yields between its steps.
/// Costly work yields before it starts, so that requests that are ready are received first.
pub fn yield_now() -> impl Future<Output = ()> + Send {
    let mut they_were = false;
    poll_fn(move |context| {
        if core::mem::replace(&mut they_were, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
}
