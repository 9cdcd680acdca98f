//! The search for a cycle of owners that wait for each other.

use std::collections::BTreeSet;

use leasehold_base::limits::state::DEADLOCK_OWNERS_MAX;

use super::ranges::Held;
use super::waiters::Stage;
use super::{Locker, Locks, Object};
use crate::owners::OwnerNumber;

impl Locks {
    /// Rule 8: returns true if the owner of a request would wait, over any number of owners, for
    /// itself.
    pub(super) fn would_deadlock(&self, object: Object, wanted: &Held) -> bool {
        if self.is_local(wanted.owner) {
            return false;
        }
        let mut seen = BTreeSet::new();
        let mut next = self.holders_against(object, wanted);
        while let Some(owner) = next.pop_first() {
            if owner == wanted.owner {
                return true;
            }
            if seen.len() == DEADLOCK_OWNERS_MAX {
                return false;
            }
            if seen.insert(owner) && !self.is_local(owner) {
                next.append(&mut self.waited_for_by(owner));
            }
        }
        false
    }

    /// Returns the owners whose locks the blocking requests of an owner wait for.
    fn waited_for_by(&self, owner: OwnerNumber) -> BTreeSet<OwnerNumber> {
        let mut owners = BTreeSet::new();
        for object in self.objects_of(owner) {
            for waiter in self.queues.of(object) {
                let blocks = matches!(waiter.stage, Stage::Blocks(_));
                if blocks && waiter.wanted.owner == owner {
                    owners.append(&mut self.holders_against(object, &waiter.wanted));
                }
            }
        }
        owners
    }

    /// Returns the owners of locks that conflict with a request.
    fn holders_against(&self, object: Object, wanted: &Held) -> BTreeSet<OwnerNumber> {
        self.hard_conflicts(object, Some(wanted.owner), wanted.range, wanted.kind)
            .map(|held| held.owner)
            .collect()
    }

    /// An open-file description may be shared by programs that run independently, so a cycle of
    /// descriptions need not be a deadlock.
    fn is_local(&self, owner: OwnerNumber) -> bool {
        self.owners.key(owner).locker == Locker::Local
    }
}
