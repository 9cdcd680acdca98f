//! What a loop counts, with the clock: the shell's side of an [`Account`].

use core::net::IpAddr;
use core::time::Duration;

use bytes::Bytes;
use leasehold_base::units::Time;
use leasehold_base::xdr::Message;
use leasehold_serve::account::{Account, Begun, ClientId, Timing};

use crate::clock;

/// What one loop counts.
#[derive(Default)]
pub(crate) struct Meter {
    account: Account,
    /// How long the loop had nothing to do.
    slept: Duration,
}

/// A call that is being served, as it is counted at its end.
#[derive(Debug)]
pub(crate) struct Metered {
    begun: Begun,
    /// Of one that is timed; apart, because the others are passed on by the thousand.
    times: Option<Box<Times>>,
}

#[derive(Debug)]
struct Times {
    /// When it could be taken up: the loop began the round in which it did.
    came: Time,
    taken_up: Time,
    /// How long the loop was busy with it before it was put aside to wait.
    busy: Option<Duration>,
}

impl Meter {
    /// A client is connected.
    pub(crate) fn connected(&mut self, address: IpAddr, now: Time) -> ClientId {
        let client = self.client(address, now);
        self.account.connected(client);
        client
    }

    /// A connection of a client is closed.
    pub(crate) fn disconnected(&mut self, client: ClientId) {
        self.account.disconnected(client);
    }

    /// The client at an address, who is heard now.
    pub(crate) fn client(&mut self, address: IpAddr, now: Time) -> ClientId {
        self.account.client(address, now)
    }

    /// A client that is connected is heard.
    pub(crate) fn heard(&mut self, client: ClientId, now: Time) {
        self.account.heard(client, now);
    }

    /// A call is taken up, in a round that began at a moment.
    #[inline]
    pub(crate) fn begin(&mut self, call: &Bytes, client: ClientId, round: Time) -> Metered {
        let begun = self.account.begin(call, client);
        let times = || Box::new(Times { came: round, taken_up: clock::now(), busy: None });
        Metered { begun, times: begun.timed.then(times) }
    }

    /// A call has come to its end, perhaps with a reply.
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

    /// The loop had nothing to do for a while.
    pub(crate) fn slept(&mut self, span: Duration) {
        self.slept += span;
    }

    /// What was counted so far, and how long the loop had nothing to do.
    pub(crate) fn told(&self) -> (Account, Duration) {
        (self.account.told(), self.slept)
    }
}

impl Metered {
    /// The call is put aside to wait.
    pub(crate) fn put_aside(&mut self) {
        if let Some(times) = &mut self.times
            && times.busy.is_none()
        {
            times.busy = Some(clock::now().since(times.taken_up));
        }
    }
}
