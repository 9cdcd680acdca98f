//! What the kernel has been told of files, and may have of their data.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use leasehold_base::units::FileTime;
use leasehold_client::{Attributes, NodeId};

/// What the kernel has of one object.
#[derive(Clone, Copy, Debug)]
struct Kept {
    /// When it was changed last, as the kernel was told.
    changed: FileTime,
    /// What the kernel compares, as it was told last; none where it has changed that by itself.
    shown: Option<Shown>,
    /// What counts changes by others, when the kernel's pages were last found good, or dropped.
    pages: Option<u64>,
    /// The same, when the kernel was last told to drop them.
    dropped: u64,
    /// The kernel was told to drop all, and was given nothing to keep since.
    empty: bool,
}

/// What tells the kernel that pages are old, where it looks.
type Shown = (FileTime, u64);

const fn shown(attributes: &Attributes) -> Shown {
    (attributes.modified, attributes.size)
}

/// How the kernel is told of attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Telling {
    /// It drops pages by itself if time or size of the data are not those that it had. It does not
    /// heed what it is told if it is to drop something before it has looked at that, and then knows
    /// of an old size.
    Compared,
    /// It takes them as they are.
    Taken,
    /// It has not asked, and hears nothing of them.
    Unasked,
}

/// For how long the kernel may keep a name under a lease. It asks again so often that the client
/// knows the lease to be in use, and renews it in time.
pub(crate) const NAMED_MAX: Duration = Duration::from_secs(5);
/// A name may be kept for longer by so much, as the kernel counts from when it has the answer.
const LATE_MAX: Duration = Duration::from_secs(1);

/// Names of one directory that the kernel has.
#[derive(Clone, Copy, Debug)]
struct Named {
    /// How many answers are on their way.
    under_way: u32,
    /// When the kernel has none any more.
    until: Instant,
}

/// What the kernel has of all objects that it knows.
#[derive(Default)]
pub(crate) struct Keeper {
    kept: Mutex<BTreeMap<NodeId, Kept>>,
    named: Mutex<BTreeMap<NodeId, Named>>,
}

/// The kernel is being told of a name in a directory.
pub(crate) struct Naming<'a> {
    keeper: &'a Keeper,
    directory: NodeId,
}

/// What the kernel is to be told at an OPEN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opening {
    /// Its pages are good.
    pub(crate) pages_are_good: bool,
    /// Its attributes are to be asked for again.
    pub(crate) attributes_are_old: bool,
}

impl Kept {
    const fn new(attributes: &Attributes, pages: Option<u64>, dropped: u64) -> Self {
        Self { changed: attributes.changed, shown: None, pages, dropped, empty: false }
    }
}

impl Keeper {
    /// The kernel is told of attributes. Whether it is to drop pages, as others have changed the
    /// file `replaced` times by now.
    pub(crate) fn told(
        &self,
        node: NodeId,
        attributes: &Attributes,
        replaced: u64,
        telling: Telling,
    ) -> bool {
        let mut kept = self.kept();
        let known = kept.entry(node).or_insert_with(|| Kept::new(attributes, None, replaced));
        let shown = shown(attributes);
        let is_seen =
            telling == Telling::Compared && known.shown.is_some_and(|before| before != shown);
        if telling != Telling::Unasked {
            known.shown = Some(shown);
        }
        known.changed = attributes.changed;
        let is_old = known.pages.is_some_and(|pages| pages != replaced);
        let tell = is_old && known.dropped != replaced && !is_seen && !known.empty;
        known.dropped = replaced;
        tell
    }

    /// The kernel is told to drop what it has of a file.
    pub(crate) fn emptied(&self, node: NodeId) {
        if let Some(known) = self.kept().get_mut(&node) {
            known.empty = true;
        }
    }

    /// The kernel is given data of a file to keep.
    pub(crate) fn filled(&self, node: NodeId) {
        if let Some(known) = self.kept().get_mut(&node) {
            known.empty = false;
        }
    }

    /// A program on this machine writes to a file: the kernel has something to keep, and a size that
    /// it was not told.
    pub(crate) fn written(&self, node: NodeId) {
        if let Some(known) = self.kept().get_mut(&node) {
            (known.empty, known.shown) = (false, None);
        }
    }

    /// Whether the kernel was told to drop what it has of a file, and has nothing new to keep.
    pub(crate) fn is_empty(&self, node: NodeId) -> bool {
        self.kept().get(&node).is_some_and(|known| known.empty)
    }

    /// The kernel opens a file; from now on its pages are those of this count.
    pub(crate) fn open(&self, node: NodeId, attributes: &Attributes, replaced: u64) -> Opening {
        let new = Kept::new(attributes, Some(replaced), replaced);
        let mut kept = self.kept();
        let before = kept.get(&node).copied();
        // It brings the kernel neither pages nor attributes.
        let (empty, shown) = before.map_or((false, None), |before| (before.empty, before.shown));
        kept.insert(node, Kept { empty, shown, ..new });
        drop(kept);
        Opening {
            pages_are_good: before.is_some_and(|before| before.pages == Some(replaced)),
            attributes_are_old: before.is_none_or(|before| before.changed != attributes.changed),
        }
    }

    /// The kernel has nothing of an object any more.
    pub(crate) fn forget(&self, node: NodeId) {
        self.kept().remove(&node);
        let mut named = self.named();
        if named.get(&node).is_some_and(|of| of.under_way == 0) {
            named.remove(&node);
        }
    }

    /// The kernel is told of a name in a directory, or of its absence, until this is dropped. This
    /// begins before it is looked for, so that a lease that is taken back meanwhile takes it along.
    pub(crate) fn naming(&self, directory: NodeId) -> Naming<'_> {
        let mut named = self.named();
        let new = Named { under_way: 0, until: Instant::now() };
        named.entry(directory).or_insert(new).under_way += 1;
        Naming { keeper: self, directory }
    }

    /// Whether the kernel may have names of a directory, which it is told to drop now.
    pub(crate) fn takes_names(&self, directory: NodeId) -> bool {
        let mut named = self.named();
        let Some(of) = named.get_mut(&directory) else { return false };
        let has = of.under_way > 0 || of.until > Instant::now();
        of.until = Instant::now();
        if of.under_way == 0 {
            named.remove(&directory);
        }
        has
    }

    /// How many objects the kernel knows.
    pub(crate) fn count(&self) -> usize {
        self.kept().len()
    }

    fn kept(&self) -> MutexGuard<'_, BTreeMap<NodeId, Kept>> {
        // No step with it panics half way.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn named(&self) -> MutexGuard<'_, BTreeMap<NodeId, Named>> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Naming<'_> {
    fn drop(&mut self) {
        if let Some(of) = self.keeper.named().get_mut(&self.directory) {
            of.under_way -= 1;
            of.until = Instant::now() + NAMED_MAX + LATE_MAX;
        }
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
        assert!(!keeper.told(NODE, &attributes(1), 1, Telling::Taken), "there are none");
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
        let told =
            |changed, replaced| keeper.told(NODE, &attributes(changed), replaced, Telling::Taken);
        keeper.open(NODE, &attributes(1), 1);
        assert!(!told(1, 1));
        assert!(told(2, 2));
        assert!(!told(2, 2), "it has been told");
        let opening = keeper.open(NODE, &attributes(2), 2);
        assert!(!opening.pages_are_good, "whether they are gone by now is not known");
        keeper.forget(NODE);
        assert_eq!(keeper.count(), 0);
    }

    #[test]
    fn a_kernel_that_compares_is_told_to_drop_what_looks_as_it_did() {
        let keeper = Keeper::default();
        let told = |attributes: &Attributes, replaced| {
            keeper.told(NODE, attributes, replaced, Telling::Compared)
        };
        assert!(!told(&attributes(1), 1));
        keeper.open(NODE, &attributes(1), 1);
        assert!(!told(&attributes(2), 2), "it sees another time");
        let longer = Attributes { size: 5, ..attributes(2) };
        assert!(!told(&longer, 3), "it sees another size");
        let put_back = Attributes { changed: attributes(4).changed, ..longer };
        assert!(told(&put_back, 4), "somebody has set the time back");
        keeper.written(NODE);
        assert!(told(&attributes(5), 5), "what it compares with is not known");
        assert!(
            keeper.told(NODE, &attributes(6), 6, Telling::Unasked),
            "it is told of nothing else"
        );
        assert!(!told(&attributes(6), 7), "it still has what it was told before");
    }

    #[test]
    fn what_was_dropped_for_a_lease_is_empty_until_there_is_something_new() {
        let keeper = Keeper::default();
        keeper.open(NODE, &attributes(1), 1);
        assert!(!keeper.is_empty(NODE), "pages may be left of before");
        keeper.emptied(NODE);
        keeper.open(NODE, &attributes(2), 2);
        assert!(keeper.is_empty(NODE), "what is opened brings no pages");
        assert!(!keeper.told(NODE, &attributes(3), 3, Telling::Taken), "there is nothing to drop");
        keeper.filled(NODE);
        assert!(!keeper.is_empty(NODE));
    }

    #[test]
    fn names_are_taken_back_once_and_while_they_are_told() {
        let keeper = Keeper::default();
        assert!(!keeper.takes_names(NODE), "the kernel was told of none");
        let naming = keeper.naming(NODE);
        assert!(keeper.takes_names(NODE) && keeper.takes_names(NODE), "one is on its way");
        drop(naming);
        assert!(keeper.takes_names(NODE), "it came");
        assert!(!keeper.takes_names(NODE), "it was dropped");
    }
}
