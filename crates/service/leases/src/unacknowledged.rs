//! Unacknowledged changes: changes by clients that have not received the reply, and internal
//! maintenance by the store.
//!
//! Data that arrives after the end of its lease names its base modrev. The server refuses such data
//! if the object has changed since that modrev, unless the client itself made all these changes.
//! The client does not know all of its own changes: its direct writes become visible when the
//! layout ends, possibly by another client's call, and a call that it must retry may already have
//! changed something. Internal maintenance does not make data late either: the store marks
//! out-of-date replicas or migrates data regardless of leases, and reports such a change to no
//! client.

use std::collections::{BTreeMap, VecDeque};

use leasehold_core::leases::{Client, Modrev, Object, Serial};

use super::Leases;
use crate::shard::SHARDS;

/// The maximum number of objects of one shard with a record; all shards together have 2^16. The server may refuse late data for an object
/// without a record, even if only its own client changed the object.
const UNTOLD_MAX: usize = (1 << 16) / SHARDS;

/// The latest unacknowledged changes of objects.
#[derive(Debug, Default)]
pub(super) struct Unacknowledged {
    changes: BTreeMap<Object, Own>,
    /// The same objects, the oldest record first.
    order: VecDeque<Object>,
}

/// An interval of modrevs in which changes were made under at most one lease, or by internal
/// maintenance.
#[derive(Clone, Copy, Debug)]
struct Own {
    /// The only client that may have made changes; None if no client has.
    client: Option<Client>,
    /// The lease of these changes, if known.
    serial: Option<Serial>,
    before: Modrev,
    after: Modrev,
}

impl Own {
    fn is_under(&self, (client, serial): (Client, Serial)) -> bool {
        self.client.is_none_or(|own| own == client) && self.serial.is_none_or(|own| own == serial)
    }
}

impl Unacknowledged {
    /// Records a change that the holder of a lease made without knowing.
    fn note(&mut self, object: Object, under: (Client, Serial), before: Modrev, after: Modrev) {
        if before == after {
            return;
        }
        let (client, serial) = (Some(under.0), Some(under.1));
        let change = Own { client, serial, before, after };
        match self.changes.get_mut(&object) {
            // The new change continues the recorded interval, without a change by another client in
            // between. The interval is extended.
            Some(own) if own.is_under(under) && (own.before..=own.after).contains(&before) => {
                *own = Own { before: own.before, after: own.after.max(after), ..change };
            }
            Some(_) | None => self.put(object, change),
        }
    }

    /// Records that only internal maintenance has changed an object since the modrev `before`.
    pub(super) fn kept_up(&mut self, object: Object, before: Modrev, after: Modrev) {
        if before == after {
            return;
        }
        match self.changes.get_mut(&object) {
            Some(own) if before <= own.after && own.before <= after => {
                own.after = own.after.max(after);
            }
            Some(_) | None => {
                self.put(object, Own { client: None, serial: None, before, after });
            }
        }
    }

    /// Records a change by a client with leases or by another caller, acknowledged or not. After a
    /// change by another caller the record covers no modrev: a change within the resolution of the
    /// clock may have no modrev of its own.
    pub(super) fn changed(&mut self, object: Object, client: Option<Client>) {
        let Some(own) = self.changes.get_mut(&object) else { return };
        if client.is_some() && own.client.is_none_or(|own| Some(own) == client) {
            own.client = client;
        } else {
            // The empty interval makes the record match no later query and no later change. The
            // record is not removed, so the object keeps its position in `order`.
            (own.before, own.after) = (Modrev(u64::MAX), Modrev(0));
        }
    }

    fn put(&mut self, object: Object, change: Own) {
        if self.changes.insert(object, change).is_none() {
            self.order.push_back(object);
            if self.order.len() > UNTOLD_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.changes.remove(&oldest);
            }
        }
    }

    /// Returns true if all changes since this modrev were made under this lease or by maintenance.
    fn is_own(&self, object: Object, under: (Client, Serial), since: Modrev, now: Modrev) -> bool {
        self.changes.get(&object).is_some_and(|own| {
            own.is_under(under) && own.before <= since && own.after.admits_late(now)
        })
    }
}

impl Leases {
    /// Records a change that the holder of a lease made and may not learn of.
    pub(super) fn note_untold(
        &self,
        object: Object,
        under: (Client, Serial),
        (before, after): (Modrev, Modrev),
    ) {
        self.shard(object).unacknowledged.note(object, under, before, after);
    }

    /// Returns true if all changes of an object since the modrev `since` were made under this lease
    /// or by internal maintenance.
    pub(super) fn is_own(
        &self,
        object: Object,
        under: (Client, Serial),
        (since, now): (Modrev, Modrev),
    ) -> bool {
        self.shard(object).unacknowledged.is_own(object, under, since, now)
    }
}

#[cfg(test)]
mod tests {
    use leasehold_base::units::{FileId, FileSystemId};

    use super::*;

    const LEASE: (Client, Serial) = (Client(1), Serial(7));

    fn object(number: u64) -> Object {
        Object { file_system: FileSystemId(1), file: FileId(number) }
    }

    #[test]
    fn change_by_another_client_is_not_own() {
        let mut unacknowledged = Unacknowledged::default();
        unacknowledged.note(object(1), LEASE, Modrev(10), Modrev(12));
        assert!(unacknowledged.is_own(object(1), LEASE, Modrev(10), Modrev(12)));
        assert!(!unacknowledged.is_own(object(1), LEASE, Modrev(9), Modrev(12)), "changed before");
        assert!(!unacknowledged.is_own(object(1), LEASE, Modrev(10), Modrev(13)), "changed after");
        let others = [(Client(1), Serial(8)), (Client(2), Serial(7))];
        for other in others {
            assert!(
                !unacknowledged.is_own(object(1), other, Modrev(10), Modrev(12)),
                "another's lease"
            );
        }
        assert!(!unacknowledged.is_own(object(2), LEASE, Modrev(10), Modrev(12)), "another object");
    }

    #[test]
    fn changes_in_a_row_are_one() {
        let mut unacknowledged = Unacknowledged::default();
        unacknowledged.note(object(1), LEASE, Modrev(10), Modrev(12));
        unacknowledged.note(object(1), LEASE, Modrev(12), Modrev(15));
        assert!(unacknowledged.is_own(object(1), LEASE, Modrev(10), Modrev(15)));
        // The gap between the modrevs 15 and 16 is a change by another client.
        unacknowledged.note(object(1), LEASE, Modrev(16), Modrev(18));
        assert!(!unacknowledged.is_own(object(1), LEASE, Modrev(10), Modrev(18)));
        assert!(unacknowledged.is_own(object(1), LEASE, Modrev(16), Modrev(18)));
    }

    #[test]
    fn maintenance_belongs_to_no_client() {
        let mut unacknowledged = Unacknowledged::default();
        let other = (Client(2), Serial(8));
        unacknowledged.kept_up(object(1), Modrev(10), Modrev(12));
        unacknowledged.kept_up(object(1), Modrev(10), Modrev(14));
        for under in [LEASE, other] {
            assert!(unacknowledged.is_own(object(1), under, Modrev(10), Modrev(14)));
            assert!(
                !unacknowledged.is_own(object(1), under, Modrev(9), Modrev(14)),
                "changed before"
            );
            assert!(
                !unacknowledged.is_own(object(1), under, Modrev(10), Modrev(15)),
                "changed after"
            );
        }
        // A client's change and internal maintenance form one interval, in either order.
        unacknowledged.note(object(1), LEASE, Modrev(14), Modrev(16));
        unacknowledged.kept_up(object(1), Modrev(16), Modrev(18));
        assert!(unacknowledged.is_own(object(1), LEASE, Modrev(10), Modrev(18)));
        assert!(!unacknowledged.is_own(object(1), other, Modrev(10), Modrev(18)), "another's");
        // A gap precedes this interval, so it does not extend the earlier interval and replaces it.
        unacknowledged.kept_up(object(1), Modrev(20), Modrev(22));
        assert!(!unacknowledged.is_own(object(1), LEASE, Modrev(10), Modrev(22)));
        assert!(unacknowledged.is_own(object(1), other, Modrev(20), Modrev(22)));
    }

    /// A client already knows its acknowledged changes. If the clock does not advance between two
    /// changes, modrevs cannot separate the later maintenance from earlier changes.
    #[test]
    fn maintenance_hides_no_change() {
        for other in [None, Some(Client(2))] {
            let mut unacknowledged = Unacknowledged::default();
            unacknowledged.note(object(1), LEASE, Modrev(10), Modrev(12));
            unacknowledged.changed(object(1), other);
            unacknowledged.kept_up(object(1), Modrev(12), Modrev(14));
            assert!(!unacknowledged.is_own(object(1), LEASE, Modrev(10), Modrev(14)));
            assert!(unacknowledged.is_own(object(1), LEASE, Modrev(12), Modrev(14)));
            unacknowledged.changed(object(1), other);
            unacknowledged.kept_up(object(1), Modrev(14), Modrev(16));
            let is_own = unacknowledged.is_own(object(1), LEASE, Modrev(12), Modrev(16));
            assert!(!is_own, "in every case");
        }
        let mut unacknowledged = Unacknowledged::default();
        unacknowledged.note(object(1), LEASE, Modrev(10), Modrev(12));
        unacknowledged.changed(object(1), Some(LEASE.0));
        unacknowledged.kept_up(object(1), Modrev(12), Modrev(14));
        assert!(unacknowledged.is_own(object(1), LEASE, Modrev(10), Modrev(14)), "its own");
    }

    #[test]
    fn number_of_records_is_bounded() {
        let mut unacknowledged = Unacknowledged::default();
        for number in 0..=UNTOLD_MAX as u64 {
            unacknowledged.note(object(number), LEASE, Modrev(10), Modrev(12));
        }
        assert_eq!(
            (unacknowledged.changes.len(), unacknowledged.order.len()),
            (UNTOLD_MAX, UNTOLD_MAX)
        );
        assert!(!unacknowledged.is_own(object(0), LEASE, Modrev(10), Modrev(12)));
        assert!(unacknowledged.is_own(object(1), LEASE, Modrev(10), Modrev(12)));
    }
}
