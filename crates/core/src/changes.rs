//! The change attribute of NFS version 4 (RFC 8881 5.8.1.4): the change time of each object, or a
//! greater number where the change time is too coarse.
//!
//! The number of an object is its change time in nanoseconds since 1970, like a modrev of a lease.
//! The file system keeps the change time on stable storage and also updates it for changes by local
//! programs, so the number survives a restart. A change through version 4 after which the change
//! time is the same increases the number. The table remembers the numbers of the objects that were
//! changed last, up to a limit and without a limit of time: a number that has exceeded the change
//! time must not fall back to a number that a client has seen with earlier contents.
//!
//! Limits: the table does not see changes by other protocols within one step of the clock of the
//! file system. After a restart, or if more objects than the limit have changed since, the number
//! of an object is its change time again. A client that saw the object only between two changes in
//! one step of the clock then does not notice the second change. File systems of Linux 6.13 and
//! later have no such steps.

use std::collections::BTreeMap;

use leasehold_base::units::FileTime;

use crate::leases::Object;

/// The numbers of the objects that were changed last.
#[derive(Clone, Debug)]
pub struct Changes {
    known: BTreeMap<Object, Known>,
    /// The objects in the order of their last changes.
    order: BTreeMap<u64, Object>,
    next: u64,
    most: usize,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    number: u64,
    /// The change time that the number belongs to.
    changed: FileTime,
    /// The place in the order.
    place: u64,
}

impl Changes {
    /// Creates a table for at most this number of objects.
    #[must_use]
    pub const fn new(most: usize) -> Self {
        Self { known: BTreeMap::new(), order: BTreeMap::new(), next: 0, most }
    }

    /// Returns the number of an object that has this change time.
    pub fn number(&mut self, object: Object, changed: FileTime) -> u64 {
        match self.known.get(&object) {
            None => of(changed),
            Some(known) if known.changed == changed => known.number,
            // Another program has changed the object.
            Some(known) => {
                let number = above(known.number, changed);
                self.know(object, number, changed);
                number
            }
        }
    }

    /// Returns the numbers before and after a change through version 4 of an object that now has
    /// the change time `changed`. The number before is `None` unless the change time at the
    /// beginning of the change, `before`, is known.
    pub fn changed(
        &mut self,
        object: Object,
        (before, changed): (Option<FileTime>, FileTime),
    ) -> (Option<u64>, u64) {
        let known = self.known.get(&object);
        let first = before.map(|before| match known {
            Some(known) if known.changed == before => known.number,
            Some(known) => above(known.number, before),
            None => of(before),
        });
        let last = first.max(known.map(|known| known.number));
        let number = last.map_or_else(|| of(changed), |last| above(last, changed));
        self.know(object, number, changed);
        (first, number)
    }

    fn know(&mut self, object: Object, number: u64, changed: FileTime) {
        let place = self.next;
        self.next += 1;
        if let Some(known) = self.known.insert(object, Known { number, changed, place }) {
            self.order.remove(&known.place);
        }
        self.order.insert(place, object);
        if self.known.len() > self.most
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.known.remove(&oldest);
        }
    }
}

/// Returns a change time as a number.
fn of(changed: FileTime) -> u64 {
    let nanoseconds = i128::from(changed.seconds) * 1_000_000_000 + i128::from(changed.nanoseconds);
    u64::try_from(nanoseconds.max(0)).unwrap_or(u64::MAX)
}

/// Returns the number of the state that follows the state with the number `before`.
fn above(before: u64, changed: FileTime) -> u64 {
    of(changed).max(before.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use leasehold_base::units::{FileId, FileSystemId};

    use super::*;

    const NOON: FileTime = FileTime { seconds: 1, nanoseconds: 5 };
    const LATER: FileTime = FileTime { seconds: 2, nanoseconds: 0 };
    const EARLIER: FileTime = FileTime { seconds: 1, nanoseconds: 0 };

    fn object(number: u64) -> Object {
        Object { file_system: FileSystemId(1), file: FileId(number) }
    }

    #[test]
    fn each_change_within_a_clock_step_has_its_own_number() {
        let mut changes = Changes::new(8);
        assert_eq!(changes.number(object(1), NOON), 1_000_000_005);
        assert_eq!(changes.changed(object(1), (None, NOON)), (None, 1_000_000_005));
        assert_eq!(changes.changed(object(1), (None, NOON)), (None, 1_000_000_006));
        let both = changes.changed(object(1), (Some(NOON), NOON));
        assert_eq!(both, (Some(1_000_000_006), 1_000_000_007));
        assert_eq!(changes.number(object(1), NOON), 1_000_000_007);
        assert_eq!(changes.changed(object(1), (Some(NOON), LATER)).1, 2_000_000_000);
    }

    #[test]
    fn a_change_that_leaves_the_change_time_is_noticed_by_the_time_before() {
        let mut changes = Changes::new(8);
        let both = changes.changed(object(1), (Some(NOON), NOON));
        assert_eq!(both, (Some(1_000_000_005), 1_000_000_006));
    }

    #[test]
    fn a_change_by_another_program_increases_the_number() {
        let mut changes = Changes::new(8);
        changes.changed(object(1), (None, NOON));
        let after = changes.number(object(1), EARLIER);
        assert!(after > 1_000_000_005, "even if the clock goes back");
        assert_eq!(changes.number(object(1), EARLIER), after, "the number is the same again");
        // The other program changed the object between two changes through version 4.
        let (before, after) = changes.changed(object(1), (Some(LATER), LATER));
        assert_eq!((before, after), (Some(2_000_000_000), 2_000_000_001));
    }

    #[test]
    fn the_table_forgets_the_object_that_was_changed_first() {
        let mut changes = Changes::new(2);
        for number in [1, 1, 2, 2, 1, 3, 3] {
            changes.changed(object(number), (None, NOON));
        }
        assert_eq!((changes.known.len(), changes.order.len()), (2, 2));
        let numbers = [1, 2, 3].map(|number| changes.number(object(number), NOON));
        assert_eq!(numbers, [1_000_000_007, 1_000_000_005, 1_000_000_006]);
    }
}
