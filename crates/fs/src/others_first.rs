//! Going behind the others.

use core::future::{Future, poll_fn};
use core::task::Poll;

/// Waits until all that can go on now has had its turn: for long work in steps, and to see what
/// else is asked for before something costly is done.
pub fn others_first() -> impl Future<Output = ()> + Send {
    let mut they_were = false;
    poll_fn(move |context| {
        if core::mem::replace(&mut they_were, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
}
