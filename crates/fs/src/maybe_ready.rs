//! The result type of a store's methods.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

/// The result of a store operation: a value that is ready, or a future. The ready value is the
/// common case and needs no allocation, and the trait remains usable as `dyn Store`.
pub enum MaybeReady<'a, T> {
    /// The value; None after the poll that returned it.
    Now(Option<T>),
    /// A future of the value.
    Later(Pin<Box<dyn Future<Output = T> + Send + 'a>>),
}

impl<'a, T> MaybeReady<'a, T> {
    /// Returns a ready result.
    pub const fn now(value: T) -> Self {
        Self::Now(Some(value))
    }

    /// Applies `change` to the value when it is ready.
    pub fn map<U>(self, change: impl FnOnce(T) -> U + Send + 'a) -> MaybeReady<'a, U>
    where
        T: 'a,
    {
        match self {
            Self::Now(value) => MaybeReady::Now(value.map(change)),
            Self::Later(future) => MaybeReady::later(async move { change(future.await) }),
        }
    }

    /// Returns the result of `future`.
    pub fn later(future: impl Future<Output = T> + Send + 'a) -> Self {
        Self::Later(Box::pin(future))
    }
}

// Only the boxed future is pinned and never the value, and a box can be moved without moving the
// future. So the type may be `Unpin`.
impl<T> Unpin for MaybeReady<'_, T> {}

impl<T> Future for MaybeReady<'_, T> {
    type Output = T;

    /// # Panics
    /// Panics if polled again after it returned the value.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        match self.get_mut() {
            Self::Now(value) => Poll::Ready(value.take().expect("not polled after it was ready")),
            Self::Later(future) => future.as_mut().poll(context),
        }
    }
}
