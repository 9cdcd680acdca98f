//! What clients have changed without being told so, and what no client has changed.
//!
//! Data that comes when its lease is over says which modrev it was made from, and is refused where
//! the object was changed since. A change of the client's own is no reason for that, but it does
//! not know of each: what it wrote where the data lies shows when its layout is ended, be it by
//! another's call, and a call that is to be made again may have changed something already. Nor is
//! upkeep of the store's, which notes that a copy lacks something, or moves data to where it is to
//! lie: that is done to a file whoever holds it, and nobody is told.

use std::collections::{BTreeMap, VecDeque};

use leasehold_core::leases::{Client, Modrev, Object, Serial};

use super::Leases;

/// Of how many objects it is remembered at most. Data for one that is not may be refused.
const UNTOLD_MAX: usize = 1 << 16;

/// The latest changes of objects that their makers were not told of.
#[derive(Debug, Default)]
pub(super) struct Untold {
    changes: BTreeMap<Object, Own>,
    /// The same objects, the longest known first.
    order: VecDeque<Object>,
}

/// What was changed under one lease at most, with the store's upkeep.
#[derive(Clone, Copy, Debug)]
struct Own {
    /// Who alone may have changed it, if anybody has.
    client: Option<Client>,
    /// The lease under which that was, where it is known.
    serial: Option<Serial>,
    before: Modrev,
    after: Modrev,
}

impl Own {
    fn is_under(&self, (client, serial): (Client, Serial)) -> bool {
        self.client.is_none_or(|own| own == client) && self.serial.is_none_or(|own| own == serial)
    }
}

impl Untold {
    /// The holder of a lease has changed an object, and does not know.
    fn note(&mut self, object: Object, under: (Client, Serial), before: Modrev, after: Modrev) {
        if before == after {
            return;
        }
        let (client, serial) = (Some(under.0), Some(under.1));
        let change = Own { client, serial, before, after };
        match self.changes.get_mut(&object) {
            // One change after the other, and nobody else's in between.
            Some(own) if own.is_under(under) && (own.before..=own.after).contains(&before) => {
                *own = Own { before: own.before, after: own.after.max(after), ..change };
            }
            Some(_) | None => self.put(object, change),
        }
    }

    /// The store has done nothing but upkeep to an object since it had this modrev.
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

    /// A client, or one that can hold no lease, changes an object, and is told of it or not. What
    /// is noted goes on with no change of another's, also where modrevs cannot tell that.
    pub(super) fn changed(&mut self, object: Object, client: Option<Client>) {
        let Some(own) = self.changes.get_mut(&object) else { return };
        if client.is_some() && own.client.is_none_or(|own| Some(own) == client) {
            own.client = client;
        } else {
            // It keeps its place, and nothing is or becomes a part of it.
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

    /// Whether all that was changed since this modrev was changed under this lease, or by upkeep.
    fn is_own(&self, object: Object, under: (Client, Serial), since: Modrev, now: Modrev) -> bool {
        self.changes.get(&object).is_some_and(|own| {
            own.is_under(under) && own.before <= since && own.after.admits_late(now)
        })
    }
}

impl Leases {
    /// The holder of a lease has changed an object from one modrev to another, and may not hear of
    /// it.
    pub(super) fn note_untold(
        &self,
        object: Object,
        under: (Client, Serial),
        (before, after): (Modrev, Modrev),
    ) {
        self.lock().untold.note(object, under, before, after);
    }

    /// Whether an object has changed since this modrev only by what was done under this lease.
    pub(super) fn is_own(
        &self,
        object: Object,
        under: (Client, Serial),
        (since, now): (Modrev, Modrev),
    ) -> bool {
        self.lock().untold.is_own(object, under, since, now)
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
    fn what_another_changed_is_not_its_own() {
        let mut untold = Untold::default();
        untold.note(object(1), LEASE, Modrev(10), Modrev(12));
        assert!(untold.is_own(object(1), LEASE, Modrev(10), Modrev(12)));
        assert!(!untold.is_own(object(1), LEASE, Modrev(9), Modrev(12)), "changed before");
        assert!(!untold.is_own(object(1), LEASE, Modrev(10), Modrev(13)), "changed after");
        let others = [(Client(1), Serial(8)), (Client(2), Serial(7))];
        for other in others {
            assert!(!untold.is_own(object(1), other, Modrev(10), Modrev(12)), "another's lease");
        }
        assert!(!untold.is_own(object(2), LEASE, Modrev(10), Modrev(12)), "another object");
    }

    #[test]
    fn changes_in_a_row_are_one() {
        let mut untold = Untold::default();
        untold.note(object(1), LEASE, Modrev(10), Modrev(12));
        untold.note(object(1), LEASE, Modrev(12), Modrev(15));
        assert!(untold.is_own(object(1), LEASE, Modrev(10), Modrev(15)));
        // Somebody else came in between.
        untold.note(object(1), LEASE, Modrev(16), Modrev(18));
        assert!(!untold.is_own(object(1), LEASE, Modrev(10), Modrev(18)));
        assert!(untold.is_own(object(1), LEASE, Modrev(16), Modrev(18)));
    }

    #[test]
    fn upkeep_is_nobodys_change() {
        let mut untold = Untold::default();
        let other = (Client(2), Serial(8));
        untold.kept_up(object(1), Modrev(10), Modrev(12));
        untold.kept_up(object(1), Modrev(10), Modrev(14));
        for under in [LEASE, other] {
            assert!(untold.is_own(object(1), under, Modrev(10), Modrev(14)));
            assert!(!untold.is_own(object(1), under, Modrev(9), Modrev(14)), "changed before");
            assert!(!untold.is_own(object(1), under, Modrev(10), Modrev(15)), "changed after");
        }
        // A client's change and upkeep, in either order.
        untold.note(object(1), LEASE, Modrev(14), Modrev(16));
        untold.kept_up(object(1), Modrev(16), Modrev(18));
        assert!(untold.is_own(object(1), LEASE, Modrev(10), Modrev(18)));
        assert!(!untold.is_own(object(1), other, Modrev(10), Modrev(18)), "another's");
        // Behind what is not known.
        untold.kept_up(object(1), Modrev(20), Modrev(22));
        assert!(!untold.is_own(object(1), LEASE, Modrev(10), Modrev(22)));
        assert!(untold.is_own(object(1), other, Modrev(20), Modrev(22)));
    }

    /// What a client is told of it knows itself. Nothing tells what comes behind it from what was
    /// before, where the clock stood still.
    #[test]
    fn upkeep_hides_no_change() {
        for other in [None, Some(Client(2))] {
            let mut untold = Untold::default();
            untold.note(object(1), LEASE, Modrev(10), Modrev(12));
            untold.changed(object(1), other);
            untold.kept_up(object(1), Modrev(12), Modrev(14));
            assert!(!untold.is_own(object(1), LEASE, Modrev(10), Modrev(14)));
            assert!(untold.is_own(object(1), LEASE, Modrev(12), Modrev(14)));
            untold.changed(object(1), other);
            untold.kept_up(object(1), Modrev(14), Modrev(16));
            let is_own = untold.is_own(object(1), LEASE, Modrev(12), Modrev(16));
            assert!(!is_own, "whatever was changed");
        }
        let mut untold = Untold::default();
        untold.note(object(1), LEASE, Modrev(10), Modrev(12));
        untold.changed(object(1), Some(LEASE.0));
        untold.kept_up(object(1), Modrev(12), Modrev(14));
        assert!(untold.is_own(object(1), LEASE, Modrev(10), Modrev(14)), "its own");
    }

    #[test]
    fn it_remembers_no_more_than_so_many() {
        let mut untold = Untold::default();
        for number in 0..=UNTOLD_MAX as u64 {
            untold.note(object(number), LEASE, Modrev(10), Modrev(12));
        }
        assert_eq!((untold.changes.len(), untold.order.len()), (UNTOLD_MAX, UNTOLD_MAX));
        assert!(!untold.is_own(object(0), LEASE, Modrev(10), Modrev(12)));
        assert!(untold.is_own(object(1), LEASE, Modrev(10), Modrev(12)));
    }
}
