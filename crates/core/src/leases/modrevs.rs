//! The modrevs of objects: the change time of each object, or a greater value where the change time
//! is too coarse.
//!
//! Rules:
//! 1. The modrev of an object without recent changes through this server is its change time, in
//!    nanoseconds since 1970. The file system stores the change time with the object, so that it
//!    needs no additional sync, and updates the change time for changes by local programs as well.
//!    If a crash restores an earlier state, the change time of that state is restored too.
//! 2. A change through the server increases the modrev, even within one tick of the clock from
//!    which change times are taken.
//! 3. The server remembers a modrev until the clock of the change times has passed the tick in
//!    which the object was changed.
//!
//! Limits: the modrev of an object may decrease if the clock is set back by more than the time
//! between two changes of the object, and if the server has forgotten the modrev between the two
//! changes.

use core::time::Duration;
use std::collections::BTreeMap;

use leasehold_base::units::{FileTime, Time};

use super::{Modrev, Object};

/// How long a modrev is remembered after the last change: more than a tick of any file system
/// clock.
const REMEMBERED: Duration = Duration::from_secs(2);

/// The modrevs of objects that were recently read or changed.
#[derive(Clone, Debug, Default)]
pub struct Modrevs {
    known: BTreeMap<Object, Known>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    modrev: Modrev,
    /// The change time that the modrev belongs to.
    changed: FileTime,
    /// The time of the last change of the modrev.
    moved: Time,
}

impl Modrevs {
    /// Returns the modrev of an object that has this change time.
    pub fn seen(&mut self, now: Time, object: Object, changed: FileTime) -> Modrev {
        let modrev = self.at(object, changed);
        if self.known.get(&object).is_none_or(|known| known.changed != changed) {
            self.know(now, object, modrev, changed);
        }
        modrev
    }

    /// Returns the modrevs of an object at an earlier change time (`since`) and at its current
    /// change time (`changed`). If a modrev of a change time from `since` to `changed` is
    /// remembered, the first result is that modrev.
    pub fn seen_since(
        &mut self,
        now: Time,
        object: Object,
        (since, changed): (FileTime, FileTime),
    ) -> (Modrev, Modrev) {
        let known = self.known.get(&object);
        let known = known.filter(|known| (since..=changed).contains(&known.changed));
        let before = known.map_or_else(|| self.at(object, since), |known| known.modrev);
        (before, self.seen(now, object, changed))
    }

    fn at(&self, object: Object, changed: FileTime) -> Modrev {
        match self.known.get(&object) {
            Some(known) if known.changed == changed => known.modrev,
            Some(known) => above(known.modrev, changed),
            // Rule 1: the modrev of an object without recent changes is its change time.
            None => of(changed),
        }
    }

    /// Returns the modrev of an object that was just changed and now has this change time.
    pub fn changed(
        &mut self,
        now: Time,
        object: Object,
        before: Modrev,
        changed: FileTime,
    ) -> Modrev {
        // Rule 2: the new modrev exceeds the earlier modrev, even if the change time has not
        // changed.
        let known = self.known.get(&object).map_or(before, |known| known.modrev.max(before));
        self.know(now, object, above(known, changed), changed)
    }

    /// Rule 3: forgets modrevs that have not changed for some time (`REMEMBERED`).
    pub fn forget(&mut self, now: Time) {
        self.known.retain(|_, known| now < known.moved + REMEMBERED);
    }

    fn know(&mut self, now: Time, object: Object, modrev: Modrev, changed: FileTime) -> Modrev {
        self.known.insert(object, Known { modrev, changed, moved: now });
        modrev
    }
}

/// Returns a change time as a modrev.
fn of(changed: FileTime) -> Modrev {
    let nanoseconds = i128::from(changed.seconds) * 1_000_000_000 + i128::from(changed.nanoseconds);
    Modrev(u64::try_from(nanoseconds.max(0)).unwrap_or(u64::MAX))
}

/// Returns the modrev of the state that follows `modrev`.
fn above(modrev: Modrev, changed: FileTime) -> Modrev {
    of(changed).max(Modrev(modrev.0.saturating_add(1)))
}

#[cfg(test)]
mod tests {
    use leasehold_base::units::{FileId, FileSystemId};

    use super::*;

    const OBJECT: Object = Object { file_system: FileSystemId(1), file: FileId(1) };
    const NOON: FileTime = FileTime { seconds: 1, nanoseconds: 5 };

    #[test]
    fn a_change_within_a_clock_tick_increases_the_modrev() {
        let mut modrevs = Modrevs::default();
        let first = modrevs.seen(Time::ZERO, OBJECT, NOON);
        assert_eq!(first, Modrev(1_000_000_005));
        let second = modrevs.changed(Time::ZERO, OBJECT, first, NOON);
        assert!(second > first);
        assert_eq!(modrevs.seen(Time::ZERO, OBJECT, NOON), second);
        modrevs.forget(Time::ZERO + Duration::from_secs(1));
        assert_eq!(modrevs.seen(Time::ZERO, OBJECT, NOON), second, "it is remembered");
    }

    #[test]
    fn a_change_by_another_caller_increases_the_modrev() {
        let mut modrevs = Modrevs::default();
        let first = modrevs.seen(Time::ZERO, OBJECT, NOON);
        let later = FileTime { seconds: 2, nanoseconds: 0 };
        assert_eq!(modrevs.seen(Time::ZERO, OBJECT, later), Modrev(2_000_000_000));
        let earlier = FileTime { seconds: 1, nanoseconds: 0 };
        assert!(modrevs.seen(Time::ZERO, OBJECT, earlier) > first, "even if the clock goes back");
    }

    #[test]
    fn the_earlier_modrev_is_reported_unchanged() {
        let second = |seconds| FileTime { seconds, nanoseconds: 0 };
        let (mut modrevs, earlier) = (Modrevs::default(), Modrev(1_000_000_000));
        let told = modrevs.seen_since(Time::ZERO, OBJECT, (second(1), second(3)));
        assert_eq!(told, (earlier, Modrev(3_000_000_000)));
        // Two changes within one tick of the clock.
        let mut modrevs = Modrevs::default();
        let twice = modrevs.changed(Time::ZERO, OBJECT, earlier, second(1));
        assert!(twice > earlier);
        let told = modrevs.seen_since(Time::ZERO, OBJECT, (second(1), second(3)));
        assert_eq!(told, (twice, Modrev(3_000_000_000)));
        let told = modrevs.seen_since(Time::ZERO, OBJECT, (second(1), second(5)));
        assert_eq!(
            told,
            (Modrev(3_000_000_000), Modrev(5_000_000_000)),
            "from the time it was seen"
        );
    }

    #[test]
    fn a_modrev_without_recent_changes_is_the_change_time() {
        let mut modrevs = Modrevs::default();
        let first = modrevs.seen(Time::ZERO, OBJECT, NOON);
        modrevs.changed(Time::ZERO, OBJECT, first, NOON);
        modrevs.forget(Time::ZERO + REMEMBERED);
        assert_eq!(modrevs.seen(Time::ZERO + REMEMBERED, OBJECT, NOON), first);
    }
}
