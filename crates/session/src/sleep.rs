//! Waiting for time to pass.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use leasehold_base::units::Time;

use crate::session::Session;

/// A future that ends at a given time.
#[must_use = "a sleep does nothing unless polled"]
pub struct Sleep {
    session: Session,
    until: Time,
    sleeper: Option<u64>,
}

impl Sleep {
    pub(crate) fn new(session: &Session, until: Time) -> Self {
        Self { session: session.clone(), until, sleeper: None }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.session.now() >= self.until {
            return Poll::Ready(());
        }
        let (until, sleeper) = (self.until, self.sleeper);
        self.sleeper = Some(
            self.session
                .shared
                .with(|state, _, actions| state.sleep(until, sleeper, context.waker(), actions)),
        );
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(sleeper) = self.sleeper {
            self.session.shared.state().no_sleep(self.until, sleeper);
        }
    }
}
