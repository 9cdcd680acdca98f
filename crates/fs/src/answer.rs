//! A store's answer.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

/// What a store operation returns: the value at once where nothing has to be waited for, else a
/// future of it. The first, the common case, costs no allocation, and the trait can still be used
/// as `dyn Store`.
pub enum Answer<'a, T> {
    /// The value; empty once it was taken.
    Now(Option<T>),
    /// The value later.
    Later(Pin<Box<dyn Future<Output = T> + Send + 'a>>),
}

impl<'a, T> Answer<'a, T> {
    /// Answers at once.
    pub const fn now(value: T) -> Self {
        Self::Now(Some(value))
    }

    /// The same answer, its value made into another when it is there.
    pub fn map<U>(self, change: impl FnOnce(T) -> U + Send + 'a) -> Answer<'a, U>
    where
        T: 'a,
    {
        match self {
            Self::Now(value) => Answer::Now(value.map(change)),
            Self::Later(future) => Answer::later(async move { change(future.await) }),
        }
    }

    /// Answers when `future` does.
    pub fn later(future: impl Future<Output = T> + Send + 'a) -> Self {
        Self::Later(Box::pin(future))
    }
}

// The value is never pinned, only the boxed future is, and a box may be moved.
impl<T> Unpin for Answer<'_, T> {}

impl<T> Future for Answer<'_, T> {
    type Output = T;

    /// # Panics
    /// When polled again after it was ready, as every future may.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        match self.get_mut() {
            Self::Now(value) => Poll::Ready(value.take().expect("not polled after it was ready")),
            Self::Later(future) => future.as_mut().poll(context),
        }
    }
}
