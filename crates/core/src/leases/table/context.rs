//! The context of a step: the record's table, the state that all shards share, and the effects.

use leasehold_base::units::Time;

use super::{Ask, Charge, Common, Effect, Phase, Shares};
use crate::leases::{Client, Object};

/// The access of one step to the state that all shards of a table share (rule 22). Few steps need
/// this state, so the owner of several shards may acquire it at the first use in a step.
pub trait Shared {
    /// Returns the bytes that the leases of all shards have reserved.
    fn shares(&mut self) -> &mut Shares;

    /// Takes a charge that the shard has recorded. The other shards receive it as
    /// [`Event::Charged`](super::Event::Charged).
    fn charged(&mut self, charge: Charge);
}

/// The shared state of a table with one shard.
impl Shared for Shares {
    fn shares(&mut self) -> &mut Shares {
        self
    }

    fn charged(&mut self, _: Charge) {}
}

/// The context of one event.
pub(super) struct Step<'a> {
    pub(super) now: Time,
    pub(super) shared: &'a mut dyn Shared,
    pub(super) effects: &'a mut Vec<Effect>,
}

/// The context in which one event changes one record.
pub(super) struct Turn<'a> {
    pub(super) now: Time,
    pub(super) object: Object,
    pub(super) common: &'a mut Common,
    pub(super) shared: &'a mut dyn Shared,
    pub(super) effects: &'a mut Vec<Effect>,
}

impl Turn<'_> {
    /// Reserves bytes for a client. Only a step that changes reserved bytes uses the state of all
    /// shards (rule 22).
    pub(super) fn reserve(&mut self, client: Client, bytes: u64) {
        if bytes > 0 {
            self.shared.shares().reserve(self.object.file_system, client, bytes);
        }
    }

    /// Frees bytes that were reserved for a client.
    pub(super) fn give_back(&mut self, client: Client, bytes: u64) {
        if bytes > 0 {
            self.shared.shares().give_back(self.object.file_system, client, bytes);
        }
    }

    /// Counts bytes that a call has written to where there was no data.
    pub(super) fn was_written(&mut self, bytes: u64) {
        if bytes > 0 {
            self.shared.shares().was_written(self.object.file_system, bytes);
        }
    }

    /// Rule 13: returns the number of requested bytes that a client's lease on the object may
    /// reserve; `has` is the number of bytes that the lease has already reserved. The holder of a
    /// reclaimed lease relies on all bytes of that lease.
    pub(super) fn permitted_space(&mut self, client: Client, ask: &Ask, has: u64) -> u64 {
        if ask.space == 0 {
            return 0;
        }
        let share = self.shared.shares().share(self.object.file_system, client, has);
        let reclaims = ask.reclaim && self.common.recovery == Some(Phase::Reclaims);
        ask.space.min(if reclaims { share.unreserved } else { share.least() })
    }

    /// Charges a client for a lease that ended at `end` (rule 19), at every shard (rule 22).
    pub(super) fn gave_back(&mut self, end: Time, client: Client, times: (Time, Time)) {
        if let Some(charge) = self.common.delays.gave_back(end, client, times) {
            self.shared.charged(charge);
        }
    }
}
