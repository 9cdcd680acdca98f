//! Modrevs as the server tells them: of each object its change time, and above it where that is
//! too coarse.
//!
//! Rules:
//! 1. The modrev of an object that was not changed through this server lately is its change time,
//!    in nanoseconds since 1970. The file system keeps that with the object, for no sync more, moves
//!    it for programs of its own as well, and brings it back with an earlier state after a crash.
//! 2. A change that comes through the server moves the modrev, also within one step of the clock
//!    that change times are taken from.
//! 3. What was told is remembered until the clock has left that step behind.
//!
//! What it does not do: a clock that is set back by more than the time between two changes of an
//! object lets its modrev fall, if the server has forgotten it meanwhile.

use core::time::Duration;
use std::collections::BTreeMap;

use leasehold_base::units::{FileTime, Time};

use super::{Modrev, Object};

/// How long a modrev is remembered after the last change: more than a step of any clock of files.
const REMEMBERED: Duration = Duration::from_secs(2);

/// The modrevs of objects that were looked at or changed lately.
#[derive(Clone, Debug, Default)]
pub struct Modrevs {
    known: BTreeMap<Object, Known>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    modrev: Modrev,
    /// The change time that it goes with.
    changed: FileTime,
    /// When it last moved.
    moved: Time,
}

impl Modrevs {
    /// The modrev of an object that has this change time.
    pub fn seen(&mut self, now: Time, object: Object, changed: FileTime) -> Modrev {
        match self.known.get(&object) {
            Some(known) if known.changed == changed => known.modrev,
            Some(known) => {
                let modrev = above(known.modrev, changed);
                self.know(now, object, modrev, changed)
            }
            None => self.know(now, object, of(changed), changed),
        }
    }

    /// The modrev of an object that was just changed, and now has this change time.
    pub fn changed(
        &mut self,
        now: Time,
        object: Object,
        before: Modrev,
        changed: FileTime,
    ) -> Modrev {
        let known = self.known.get(&object).map_or(before, |known| known.modrev.max(before));
        self.know(now, object, above(known, changed), changed)
    }

    /// Forgets what did not move for long enough.
    pub fn forget(&mut self, now: Time) {
        self.known.retain(|_, known| now < known.moved + REMEMBERED);
    }

    fn know(&mut self, now: Time, object: Object, modrev: Modrev, changed: FileTime) -> Modrev {
        self.known.insert(object, Known { modrev, changed, moved: now });
        modrev
    }
}

/// A change time as a modrev.
fn of(changed: FileTime) -> Modrev {
    let nanoseconds = i128::from(changed.seconds) * 1_000_000_000 + i128::from(changed.nanoseconds);
    Modrev(u64::try_from(nanoseconds.max(0)).unwrap_or(u64::MAX))
}

/// The modrev of a state that came after another.
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
    fn a_change_within_a_step_of_the_clock_moves_it() {
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
    fn a_change_by_others_moves_it() {
        let mut modrevs = Modrevs::default();
        let first = modrevs.seen(Time::ZERO, OBJECT, NOON);
        let later = FileTime { seconds: 2, nanoseconds: 0 };
        assert_eq!(modrevs.seen(Time::ZERO, OBJECT, later), Modrev(2_000_000_000));
        let earlier = FileTime { seconds: 1, nanoseconds: 0 };
        assert!(modrevs.seen(Time::ZERO, OBJECT, earlier) > first, "also where the clock falls");
    }

    #[test]
    fn it_is_the_change_time_again_when_nothing_moved_for_long() {
        let mut modrevs = Modrevs::default();
        let first = modrevs.seen(Time::ZERO, OBJECT, NOON);
        modrevs.changed(Time::ZERO, OBJECT, first, NOON);
        modrevs.forget(Time::ZERO + REMEMBERED);
        assert_eq!(modrevs.seen(Time::ZERO + REMEMBERED, OBJECT, NOON), first);
    }
}
