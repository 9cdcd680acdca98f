//! What clients have changed without being told so.
//!
//! Data that comes when its lease is over says which modrev it was made from, and is refused where
//! the object was changed since. A change of the client's own is no reason for that, but it does
//! not know of each: what it wrote where the data lies shows when its layout is ended, be it by
//! another's call, and a call that is to be made again may have changed something already.

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

/// What was changed under a lease.
#[derive(Clone, Copy, Debug)]
struct Own {
    under: (Client, Serial),
    before: Modrev,
    after: Modrev,
}

impl Untold {
    /// The holder of a lease has changed an object, and does not know.
    fn note(&mut self, object: Object, under: (Client, Serial), before: Modrev, after: Modrev) {
        if before == after {
            return;
        }
        match self.changes.get_mut(&object) {
            // One change after the other, and nobody else's in between.
            Some(own) if own.under == under && (own.before..=own.after).contains(&before) => {
                own.after = own.after.max(after);
            }
            Some(own) => *own = Own { under, before, after },
            None => {
                self.changes.insert(object, Own { under, before, after });
                self.order.push_back(object);
                if self.order.len() > UNTOLD_MAX
                    && let Some(oldest) = self.order.pop_front()
                {
                    self.changes.remove(&oldest);
                }
            }
        }
    }

    /// Whether all that was changed since this modrev was changed under this lease.
    fn is_own(&self, object: Object, under: (Client, Serial), since: Modrev, now: Modrev) -> bool {
        self.changes.get(&object).is_some_and(|own| {
            own.under == under && own.before <= since && own.after.admits_late(now)
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
