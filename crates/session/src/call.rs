//! A call as a future.

use core::future::Future;
use core::mem;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::sync::Arc;

use bytes::Bytes;
use leasehold_base::xdr::{Decode, Message, Reader};
use leasehold_core::calls::{CallId, Weight};
use leasehold_wire::rpc::{Reply, ReplyStatus};

use crate::error::Error;
use crate::session::{Session, Shared};

/// A call as a future: the first poll sends the call, and dropping this value forgets the call.
#[must_use = "a call is sent when it is polled"]
pub struct Call {
    shared: Arc<Shared>,
    stage: Stage,
}

enum Stage {
    New(Message, Weight),
    Begun(CallId),
    Ended,
}

impl Call {
    pub(crate) fn new(session: &Session, message: Message, weight: Weight) -> Self {
        Self { shared: Arc::clone(&session.shared), stage: Stage::New(message, weight) }
    }
}

impl Future for Call {
    type Output = Result<Results, Error>;

    /// # Panics
    /// Panics if polled again after it was ready.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let call = match mem::replace(&mut this.stage, Stage::Ended) {
            Stage::New(message, weight) => {
                let waker = context.waker().clone();
                let lane = this.shared.lane();
                let call = (message, weight);
                let begun = this
                    .shared
                    .with(|state, now, actions| state.begin(now, (call, lane), waker, actions));
                match begun {
                    Ok(call) => call,
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
            Stage::Begun(call) => call,
            Stage::Ended => panic!("a call is not polled after it was ready"),
        };
        let outcome = this.shared.state().outcome(call, context.waker());
        match outcome {
            Some(outcome) => Poll::Ready(outcome.and_then(|message| Results::new(&message))),
            None => {
                this.stage = Stage::Begun(call);
                Poll::Pending
            }
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let Stage::Begun(call) = self.stage {
            self.shared.with(|state, now, actions| state.forget(now, call, actions));
        }
    }
}

/// The results of an executed procedure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Results(Bytes);

impl Results {
    fn new(message: &Bytes) -> Result<Self, Error> {
        let mut reader = Reader::new(message);
        let reply = Reply::decode(&mut reader).map_err(Error::Garbled)?;
        if reply.status == ReplyStatus::Success {
            return Ok(Self(reader.rest_shared()));
        }
        Err(Error::Denied(reply.status))
    }

    /// Wraps results from within other results.
    pub(crate) const fn of(bytes: Bytes) -> Self {
        Self(bytes)
    }

    /// Decodes the results, which may borrow from this value. Ignores trailing bytes.
    ///
    /// # Errors
    /// [`Error::Garbled`] if decoding fails.
    pub fn read<'a, T: Decode<'a>>(&'a self) -> Result<T, Error> {
        T::decode(&mut Reader::new(&self.0)).map_err(Error::Garbled)
    }

    /// Returns the encoded results.
    #[must_use]
    pub const fn bytes(&self) -> &Bytes {
        &self.0
    }
}
