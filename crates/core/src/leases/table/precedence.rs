//! The lease requests that are refused because they would conflict with waiting calls: rule 18 of
//! the table.

use leasehold_base::units::Time;

use super::{Access, Ask, Call};
use crate::leases::{Client, Kind};

/// The queue position that calls keep after their owner gave them up while they waited. It prevents
/// lease grants that would conflict with the calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The client of the calls, if one client made all of them.
    pub(super) client: Option<Client>,
    /// The greatest access of these calls.
    pub(super) access: Access,
    /// The time until which the queue position prevents grants.
    pub(super) until: Time,
}

/// The waiting calls, counted by the leases that they prevent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wants {
    /// The calls of callers that hold no leases.
    plain: Stops,
    /// The calls of clients that may hold leases.
    clients: Stops,
}

/// The numbers of waiting calls, by the leases that would conflict with them.
#[derive(Clone, Copy, Debug, Default)]
struct Stops {
    /// The number of calls that conflict with every lease.
    all: usize,
    /// The number of calls that conflict with write leases.
    writes: usize,
    /// The number of calls that conflict with new write leases but not with renewals. Such a call
    /// reads attributes, and the holder of the write lease is about to report them.
    new_writes: usize,
}

impl Wants {
    pub(super) fn of<'a>(waiting: impl Iterator<Item = &'a Call>) -> Self {
        let mut wants = Self::default();
        waiting.for_each(|call| *wants.like(call) += 1);
        wants
    }

    /// Returns the counter of the calls that conflict with the same leases as `call`.
    pub(super) fn like(&mut self, call: &Call) -> &mut usize {
        let Self { plain, clients } = self;
        let stops = if call.client.is_some() { clients } else { plain };
        let ask = call.ask.filter(|ask| !ask.opportune);
        match (call.access, ask.map(|ask| ask.kind)) {
            (Access::Write, _) | (_, Some(Kind::Write)) => &mut stops.all,
            (Access::Read, _) | (_, Some(Kind::Read)) => &mut stops.writes,
            (Access::Look | Access::Nothing, None) => &mut stops.new_writes,
        }
    }

    /// Returns true if the requested lease would conflict with waiting calls.
    pub(super) fn stop(&self, ask: &Ask, renews: bool) -> bool {
        self.plain.stop(ask, renews) || ask.opportune && self.clients.stop(ask, renews)
    }
}

impl Stops {
    const fn stop(&self, ask: &Ask, renews: bool) -> bool {
        let Self { all, writes, new_writes } = *self;
        let stops_write = writes > 0 || new_writes > 0 && !renews;
        all > 0 || matches!(ask.kind, Kind::Write) && stops_write
    }
}

impl Place {
    /// Returns true if a lease that `client` requests would conflict with the calls that keep this
    /// queue position, unless the calls are the client's own.
    pub(super) fn stops(&self, client: Client, ask: &Ask, renews: bool) -> bool {
        let by_access = match self.access {
            Access::Nothing => false,
            Access::Look => ask.kind == Kind::Write && !renews,
            Access::Read => ask.kind == Kind::Write,
            Access::Write => true,
        };
        by_access && self.client != Some(client)
    }
}
