//! What the kernel has been told of files, and may have of their data.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use leasehold_base::units::FileTime;
use leasehold_client::{Attributes, NodeId};

/// What the kernel has of one object.
#[derive(Clone, Copy, Debug)]
struct Kept {
    /// When it was changed last, as the kernel was told.
    changed: FileTime,
    /// What counts changes by others, when the kernel's pages were last found good, or dropped.
    pages: Option<u64>,
    /// The same, when the kernel was last told to drop them.
    dropped: u64,
}

/// What the kernel has of all objects that it knows.
#[derive(Default)]
pub(crate) struct Keeper(Mutex<BTreeMap<NodeId, Kept>>);

/// What the kernel is to be told at an OPEN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opening {
    /// Its pages are good.
    pub(crate) pages_are_good: bool,
    /// Its attributes are to be asked for again.
    pub(crate) attributes_are_old: bool,
}

impl Keeper {
    /// The kernel is told of attributes. Whether it is to drop pages, as others have changed the
    /// file `replaced` times by now.
    pub(crate) fn told(&self, node: NodeId, attributes: &Attributes, replaced: u64) -> bool {
        let mut kept = self.kept();
        let new = Kept { changed: attributes.changed, pages: None, dropped: replaced };
        let known = kept.entry(node).or_insert(new);
        known.changed = attributes.changed;
        let is_old = known.pages.is_some_and(|pages| pages != replaced);
        let tell = is_old && known.dropped != replaced;
        known.dropped = replaced;
        tell
    }

    /// The kernel opens a file; from now on its pages are those of this count.
    pub(crate) fn open(&self, node: NodeId, attributes: &Attributes, replaced: u64) -> Opening {
        let new = Kept { changed: attributes.changed, pages: Some(replaced), dropped: replaced };
        let before = self.kept().insert(node, new);
        Opening {
            pages_are_good: before.is_some_and(|before| before.pages == Some(replaced)),
            attributes_are_old: before.is_none_or(|before| before.changed != attributes.changed),
        }
    }

    /// The kernel has nothing of an object any more.
    pub(crate) fn forget(&self, node: NodeId) {
        self.kept().remove(&node);
    }

    /// How many objects the kernel knows.
    pub(crate) fn count(&self) -> usize {
        self.kept().len()
    }

    fn kept(&self) -> MutexGuard<'_, BTreeMap<NodeId, Kept>> {
        // No step with it panics half way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use leasehold_base::units::{FileId, FileSystemId};
    use leasehold_client::{Device, FileType, Mode};

    use super::*;

    fn attributes(changed: i64) -> Attributes {
        let changed = FileTime { seconds: changed, nanoseconds: 0 };
        Attributes {
            file_type: FileType::Regular,
            mode: Mode::from_bits(0o644),
            link_count: 1,
            uid: 0,
            gid: 0,
            size: 0,
            used: 0,
            device: Device::default(),
            file_system: FileSystemId(0),
            file_id: FileId(0),
            accessed: changed,
            modified: changed,
            changed,
        }
    }

    const NODE: NodeId = NodeId(7);

    #[test]
    fn pages_are_good_until_somebody_else_changes_the_file() {
        let keeper = Keeper::default();
        assert!(!keeper.told(NODE, &attributes(1), 1), "there are none");
        let open = |changed, replaced| keeper.open(NODE, &attributes(changed), replaced);
        let is =
            |pages_are_good, attributes_are_old| Opening { pages_are_good, attributes_are_old };
        assert_eq!(open(1, 1), is(false, false), "the first time there is nothing to be good");
        assert_eq!(open(1, 1), is(true, false));
        assert_eq!(open(2, 1), is(true, true), "it was changed here");
        assert_eq!(open(3, 2), is(false, true), "it was changed elsewhere");
        assert_eq!(open(3, 2), is(true, false));
    }

    #[test]
    fn pages_of_an_open_file_are_dropped_once_for_a_change() {
        let keeper = Keeper::default();
        keeper.open(NODE, &attributes(1), 1);
        assert!(!keeper.told(NODE, &attributes(1), 1));
        assert!(keeper.told(NODE, &attributes(2), 2));
        assert!(!keeper.told(NODE, &attributes(2), 2), "it has been told");
        let opening = keeper.open(NODE, &attributes(2), 2);
        assert!(!opening.pages_are_good, "whether they are gone by now is not known");
        keeper.forget(NODE);
        assert_eq!(keeper.count(), 0);
    }
}
