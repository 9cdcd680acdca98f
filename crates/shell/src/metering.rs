//! The counters of a loop: an [`Account`], for which this module measures the times of calls by the
//! clock.

use core::net::IpAddr;
use core::time::Duration;

use bytes::Bytes;
use leasehold_base::units::Time;
use leasehold_base::xdr::Message;
use leasehold_serve::account::{Account, Begun, ClientId, Timing};

use crate::clock;

/// The counters of one loop.
#[derive(Default)]
pub(crate) struct Meter {
    account: Account,
    /// The idle time of the loop.
    slept: Duration,
}

/// The measurements of a call in progress, which the loop adds to its counters at the end of the
/// call.
#[derive(Debug)]
pub(crate) struct Metered {
    begun: Begun,
    /// The times, if the call is timed. The times are in a box, because most calls are not timed
    /// and thousands of calls may wait.
    times: Option<Box<Times>>,
}

#[derive(Debug)]
struct Times {
    /// The start of the round in which the loop received the call.
    came: Time,
    taken_up: Time,
    /// The time for which the loop processed the call before the call had to wait (was parked).
    busy: Option<Duration>,
}

impl Meter {
    /// Records a new connection of a client.
    pub(crate) fn connected(&mut self, address: IpAddr, now: Time) -> ClientId {
        let client = self.client(address, now);
        self.account.connected(client);
        client
    }

    /// Records the close of a client's connection.
    pub(crate) fn disconnected(&mut self, client: ClientId) {
        self.account.disconnected(client);
    }

    /// Returns the client at an address, and records the time of its activity.
    pub(crate) fn client(&mut self, address: IpAddr, now: Time) -> ClientId {
        self.account.client(address, now)
    }

    /// Records the time of activity of a connected client.
    pub(crate) fn heard(&mut self, client: ClientId, now: Time) {
        self.account.heard(client, now);
    }

    /// Records the start of a call in the round that began at the given time.
    #[inline]
    pub(crate) fn begin(&mut self, call: &Bytes, client: ClientId, round: Time) -> Metered {
        let begun = self.account.begin(call, client);
        let times = || Box::new(Times { came: round, taken_up: clock::now(), busy: None });
        Metered { begun, times: begun.timed.then(times) }
    }

    /// Records the end of a call, with its reply if there is one.
    #[inline]
    pub(crate) fn end(&mut self, metered: Metered, reply: Option<&Message>) {
        let timing = metered.times.map(|times| {
            let now = clock::now();
            Timing {
                waited: times.taken_up.since(times.came),
                busy: times.busy.unwrap_or_else(|| now.since(times.taken_up)),
                latency: now.since(times.came),
            }
        });
        self.account.end(metered.begun, reply, timing.as_ref());
    }

    /// Records idle time.
    pub(crate) fn slept(&mut self, span: Duration) {
        self.slept += span;
    }

    /// Returns the counters and the idle time.
    pub(crate) fn told(&self) -> (Account, Duration) {
        (self.account.told(), self.slept)
    }
}

impl Metered {
    /// Records that the call is parked, which ends the measurement of its processing time.
    pub(crate) fn put_aside(&mut self) {
        if let Some(times) = &mut self.times
            && times.busy.is_none()
        {
            times.busy = Some(clock::now().since(times.taken_up));
        }
    }
}
