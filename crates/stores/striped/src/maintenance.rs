//! Internal maintenance: changes of metafiles that the store makes itself, without a change of file
//! data. This module records the affected files, with the change times before and after the
//! maintenance.
//!
//! A client compares the change time of a file to detect changes of other clients, for example
//! before it flushes data late. The record of an out-of-date copy and the migration of data also
//! change this time, although no client has changed the file. With the record of this module the
//! server can tell a client that its data is still valid.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use leasehold_base::units::FileTime;
use leasehold_fs::ObjectId;

/// The maximum number of recorded files. A new entry beyond it replaces another entry.
const FILES_MAX: usize = 65_536;

/// The change times before and after the maintenance.
type Span = (FileTime, FileTime);

/// The recorded files, by object key.
#[derive(Debug, Default)]
pub(crate) struct Maintenance(Mutex<BTreeMap<ObjectId, Span>>);

impl Maintenance {
    fn files(&self) -> MutexGuard<'_, BTreeMap<ObjectId, Span>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that maintenance changed the change time of a file from `before` to `after`, and
    /// that no other change occurred in between.
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

    /// Returns the change times before and after the maintenance, if no other change has followed.
    pub(crate) fn of(&self, file: &ObjectId) -> Option<Span> {
        self.files().get(file).copied()
    }

    /// Drops the entry of a file, because a client changes the file. The change time alone does not
    /// reveal this: the clock may not advance between two changes.
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
    fn maintenance_spans_join_until_another_change() {
        let upkeep = Maintenance::default();
        upkeep.note(file(1), at(1), at(2));
        upkeep.note(file(1), at(2), at(4));
        assert_eq!(upkeep.of(&file(1)), Some((at(1), at(4))));
        assert_eq!(upkeep.of(&file(2)), None);
        // Another change has occurred in between, as the change time shows.
        upkeep.note(file(1), at(5), at(6));
        assert_eq!(upkeep.of(&file(1)), Some((at(5), at(6))));
        upkeep.forget(&file(1));
        upkeep.note(file(1), at(6), at(7));
        assert_eq!(upkeep.of(&file(1)), Some((at(6), at(7))));
        upkeep.note(file(1), at(7), at(7));
        assert_eq!(upkeep.of(&file(1)), Some((at(6), at(7))), "the clock stood still");
    }

    #[test]
    fn the_number_of_files_is_bounded() {
        let upkeep = Maintenance::default();
        for number in 0..=u32::try_from(FILES_MAX).expect("it is small") {
            upkeep.note(file(number), at(1), at(2));
        }
        assert_eq!(upkeep.files().len(), FILES_MAX);
        let last = file(u32::try_from(FILES_MAX).expect("it is small"));
        assert_eq!(upkeep.of(&last), Some((at(1), at(2))));
    }
}
