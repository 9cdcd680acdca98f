//! Files of which the metafile was changed last by this store itself, with no data changed: since
//! when.
//!
//! Who holds a lease on a file is told what its own calls change, and everybody else's are kept
//! off. What is noted of a copy, or moved, is nobody's change, but moves the change time of the
//! metafile all the same, and data that a client brings late is compared by that.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use leasehold_base::units::FileTime;
use leasehold_fs::ObjectId;

/// Files that are kept in mind; of more some are forgotten.
const FILES_MAX: usize = 65_536;

/// From which change time to which.
type Span = (FileTime, FileTime);

/// The files, by the part of their ids that is equal for all ids of one.
#[derive(Debug, Default)]
pub(crate) struct Upkeep(Mutex<BTreeMap<ObjectId, Span>>);

impl Upkeep {
    fn files(&self) -> MutexGuard<'_, BTreeMap<ObjectId, Span>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A metafile was changed, with no data changed, and by nobody else meanwhile.
    pub(crate) fn note(&self, file: ObjectId, before: FileTime, after: FileTime) {
        if before == after {
            return;
        }
        let mut files = self.files();
        if files.len() >= FILES_MAX && !files.contains_key(&file) {
            files.pop_first();
        }
        let span = files.entry(file).or_insert((before, after));
        let since = if span.1 == before { span.0 } else { before };
        *span = (since, after);
    }

    /// From when to when that was all, if nobody has changed the file since.
    pub(crate) fn of(&self, file: &ObjectId) -> Option<Span> {
        self.files().get(file).copied()
    }

    /// Somebody changes a file. The clock may stand still, so that its change time does not show
    /// it.
    pub(crate) fn forget(&self, file: &ObjectId) {
        self.files().remove(file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(number: u32) -> ObjectId {
        ObjectId::new(&number.to_be_bytes()).expect("it is short")
    }

    const fn at(seconds: i64) -> FileTime {
        FileTime { seconds, nanoseconds: 0 }
    }

    #[test]
    fn it_goes_on_until_somebody_changes_the_file() {
        let upkeep = Upkeep::default();
        upkeep.note(file(1), at(1), at(2));
        upkeep.note(file(1), at(2), at(4));
        assert_eq!(upkeep.of(&file(1)), Some((at(1), at(4))));
        assert_eq!(upkeep.of(&file(2)), None);
        // Somebody has changed it since, as its change time shows.
        upkeep.note(file(1), at(5), at(6));
        assert_eq!(upkeep.of(&file(1)), Some((at(5), at(6))));
        upkeep.forget(&file(1));
        upkeep.note(file(1), at(6), at(7));
        assert_eq!(upkeep.of(&file(1)), Some((at(6), at(7))));
        upkeep.note(file(1), at(7), at(7));
        assert_eq!(upkeep.of(&file(1)), Some((at(6), at(7))), "the clock stood still");
    }

    #[test]
    fn it_remembers_no_more_than_so_many() {
        let upkeep = Upkeep::default();
        for number in 0..=u32::try_from(FILES_MAX).expect("it is small") {
            upkeep.note(file(number), at(1), at(2));
        }
        assert_eq!(upkeep.files().len(), FILES_MAX);
        let last = file(u32::try_from(FILES_MAX).expect("it is small"));
        assert_eq!(upkeep.of(&last), Some((at(1), at(2))));
    }
}
