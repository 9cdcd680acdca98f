//! Which leases are not granted because somebody waits that they would be in the way of: rule 18 of
//! the table.

use leasehold_base::units::Time;

use super::{Access, Ask, Call};
use crate::leases::{Client, Kind};

/// What calls keep that were given up while they waited.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Whose calls they were, if all were of one client.
    pub(super) client: Option<Client>,
    /// The most that one of them does.
    pub(super) access: Access,
    pub(super) until: Time,
}

/// What waits, by what it keeps from being granted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wants {
    plain: Stops,
    /// Those of clients that may hold leases.
    clients: Stops,
}

/// Calls that wait, by which leases would be in their way.
#[derive(Clone, Copy, Debug, Default)]
struct Stops {
    /// Any.
    all: usize,
    /// Those to write.
    writes: usize,
    /// Those to write, but for a renewal: the holder is about to report.
    new_writes: usize,
}

impl Wants {
    pub(super) fn of<'a>(waiting: impl Iterator<Item = &'a Call>) -> Self {
        let mut wants = Self::default();
        waiting.for_each(|call| *wants.like(call) += 1);
        wants
    }

    /// The number of calls like this one.
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

    /// Whether what is asked for would be in the way of what waits.
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
    /// Whether what another asks for would be in the way of the calls.
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
