//! A record of the attributes, names and pages that the kernel may have cached.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use leasehold_base::units::FileTime;
use leasehold_client::{Attributes, NodeId};

/// The cached state of one object in the kernel, as far as this process knows it.
#[derive(Clone, Copy, Debug)]
struct KernelCache {
    /// The change time in the attributes that the kernel last received.
    changed: FileTime,
    /// The values that the kernel last received and that it compares with new attributes. `None` if
    /// the kernel has changed the values itself.
    shown: Option<Shown>,
    /// The count of changes by other clients (see `Client::replaced`) at the time when the kernel's
    /// pages were last valid or dropped.
    pages: Option<u64>,
    /// The count of changes by other clients at the time of the last invalidation that was sent to
    /// the kernel.
    dropped: u64,
    /// True if the kernel has received an invalidation of all data of the file, and no data of the
    /// file after it.
    empty: bool,
}

/// The modification time and the size, by which the kernel detects stale pages.
type Shown = (FileTime, u64);

const fn shown(attributes: &Attributes) -> Shown {
    (attributes.modified, attributes.size)
}

/// The way in which the kernel receives attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Telling {
    /// The kernel drops pages by itself if the time or the size of the data changes. If an
    /// invalidation arrives before the kernel has processed the attributes, the kernel ignores the
    /// attributes, and then uses an old size.
    Compared,
    /// The kernel accepts the attributes and does not drop pages because of them.
    Taken,
    /// The kernel has not requested the attributes and does not receive them.
    Unasked,
}

/// The maximum time for which the kernel may cache a name under a lease. With this limit the kernel
/// repeats its lookups so often that the client recognises that the lease is in use, and renews the
/// lease in time.
pub(crate) const NAMED_MAX: Duration = Duration::from_secs(5);
/// The additional time for which a name may be cached, because the kernel counts the validity from
/// the arrival of the reply.
const LATE_MAX: Duration = Duration::from_secs(1);

/// The cached names of one directory in the kernel.
#[derive(Clone, Copy, Debug)]
struct Named {
    /// The number of replies with a name of the directory that are in transit to the kernel.
    under_way: u32,
    /// The time at which the last cached name expires.
    until: Instant,
}

/// The cached state of all objects in the kernel.
#[derive(Default)]
pub(crate) struct KernelCaches {
    kept: Mutex<BTreeMap<NodeId, KernelCache>>,
    named: Mutex<BTreeMap<NodeId, Named>>,
}

/// A guard: while it exists, a reply with a name of the directory may be in transit to the kernel.
pub(crate) struct Naming<'a> {
    keeper: &'a KernelCaches,
    directory: NodeId,
}

/// The instructions for the kernel at an OPEN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opening {
    /// True if the kernel's pages are valid.
    pub(crate) pages_are_good: bool,
    /// True if the kernel must request the attributes again.
    pub(crate) attributes_are_old: bool,
}

impl KernelCache {
    const fn new(attributes: &Attributes, pages: Option<u64>, dropped: u64) -> Self {
        Self { changed: attributes.changed, shown: None, pages, dropped, empty: false }
    }
}

impl KernelCaches {
    /// Records attributes for the kernel, at the given count of changes by other clients. Returns
    /// true if the caller must send the kernel an invalidation of its pages.
    pub(crate) fn told(
        &self,
        node: NodeId,
        attributes: &Attributes,
        replaced: u64,
        telling: Telling,
    ) -> bool {
        let mut kept = self.kept();
        let known =
            kept.entry(node).or_insert_with(|| KernelCache::new(attributes, None, replaced));
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

    /// Records that the kernel has received an invalidation of all data of a file.
    pub(crate) fn emptied(&self, node: NodeId) {
        if let Some(known) = self.kept().get_mut(&node) {
            known.empty = true;
        }
    }

    /// Records that the kernel receives data of a file to cache.
    pub(crate) fn filled(&self, node: NodeId) {
        if let Some(known) = self.kept().get_mut(&node) {
            known.empty = false;
        }
    }

    /// Records that a local program writes to a file. The kernel then has data of the file, and a
    /// size that it computed itself.
    pub(crate) fn written(&self, node: NodeId) {
        if let Some(known) = self.kept().get_mut(&node) {
            (known.empty, known.shown) = (false, None);
        }
    }

    /// Returns true if the kernel has received an invalidation of a file's data, and no data of the
    /// file after it.
    pub(crate) fn is_empty(&self, node: NodeId) -> bool {
        self.kept().get(&node).is_some_and(|known| known.empty)
    }

    /// Records an open of a file at the count `replaced` of changes by other clients. The kernel's
    /// pages are valid at this count from now on.
    pub(crate) fn open(&self, node: NodeId, attributes: &Attributes, replaced: u64) -> Opening {
        let new = KernelCache::new(attributes, Some(replaced), replaced);
        let mut kept = self.kept();
        let before = kept.get(&node).copied();
        // The reply to an open contains neither data nor attributes, so these two fields keep their
        // values.
        let (empty, shown) = before.map_or((false, None), |before| (before.empty, before.shown));
        kept.insert(node, KernelCache { empty, shown, ..new });
        drop(kept);
        Opening {
            pages_are_good: before.is_some_and(|before| before.pages == Some(replaced)),
            attributes_are_old: before.is_none_or(|before| before.changed != attributes.changed),
        }
    }

    /// Records that the kernel has dropped an object.
    pub(crate) fn forget(&self, node: NodeId) {
        self.kept().remove(&node);
        let mut named = self.named();
        if named.get(&node).is_some_and(|of| of.under_way == 0) {
            named.remove(&node);
        }
    }

    /// Marks a name of a directory, or the absence of a name, as in transit to the kernel, until
    /// the returned guard is dropped. The caller must set the mark before its lookup, so that a
    /// recall between the lookup and the reply invalidates the name.
    pub(crate) fn naming(&self, directory: NodeId) -> Naming<'_> {
        let mut named = self.named();
        let new = Named { under_way: 0, until: Instant::now() };
        named.entry(directory).or_insert(new).under_way += 1;
        Naming { keeper: self, directory }
    }

    /// Returns true if the kernel may have cached names of a directory. The caller must then
    /// invalidate the names.
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

    /// Returns the number of objects that the kernel references.
    pub(crate) fn count(&self) -> usize {
        self.kept().len()
    }

    fn kept(&self) -> MutexGuard<'_, BTreeMap<NodeId, KernelCache>> {
        // The poison of the mutex is ignored, because no code panics in the middle of a change.
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
    fn pages_are_valid_until_another_client_changes_the_file() {
        let keeper = KernelCaches::default();
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
    fn pages_of_an_open_file_are_dropped_once_per_change() {
        let keeper = KernelCaches::default();
        let told =
            |changed, replaced| keeper.told(NODE, &attributes(changed), replaced, Telling::Taken);
        keeper.open(NODE, &attributes(1), 1);
        assert!(!told(1, 1));
        assert!(told(2, 2));
        assert!(!told(2, 2), "it has been told");
        let opening = keeper.open(NODE, &attributes(2), 2);
        assert!(!opening.pages_are_good, "the kernel may not have dropped them yet");
        keeper.forget(NODE);
        assert_eq!(keeper.count(), 0);
    }

    #[test]
    fn comparing_kernel_needs_a_drop_when_attributes_look_unchanged() {
        let keeper = KernelCaches::default();
        let told = |attributes: &Attributes, replaced| {
            keeper.told(NODE, attributes, replaced, Telling::Compared)
        };
        assert!(!told(&attributes(1), 1));
        keeper.open(NODE, &attributes(1), 1);
        assert!(!told(&attributes(2), 2), "it sees another time");
        let longer = Attributes { size: 5, ..attributes(2) };
        assert!(!told(&longer, 3), "it sees another size");
        let put_back = Attributes { changed: attributes(4).changed, ..longer };
        assert!(told(&put_back, 4), "another client has set the time back");
        keeper.written(NODE);
        assert!(told(&attributes(5), 5), "the kernel's values are unknown");
        assert!(
            keeper.told(NODE, &attributes(6), 6, Telling::Unasked),
            "the kernel receives no attributes"
        );
        assert!(!told(&attributes(6), 7), "the kernel still has the earlier attributes");
    }

    #[test]
    fn file_dropped_for_a_recall_is_empty_until_new_data() {
        let keeper = KernelCaches::default();
        keeper.open(NODE, &attributes(1), 1);
        assert!(!keeper.is_empty(NODE), "earlier pages may remain");
        keeper.emptied(NODE);
        keeper.open(NODE, &attributes(2), 2);
        assert!(keeper.is_empty(NODE), "an open brings no pages");
        assert!(!keeper.told(NODE, &attributes(3), 3, Telling::Taken), "there is nothing to drop");
        keeper.filled(NODE);
        assert!(!keeper.is_empty(NODE));
    }

    #[test]
    fn names_are_invalidated_once_and_while_in_transit() {
        let keeper = KernelCaches::default();
        assert!(!keeper.takes_names(NODE), "the kernel has none");
        let naming = keeper.naming(NODE);
        assert!(keeper.takes_names(NODE) && keeper.takes_names(NODE), "one is on its way");
        drop(naming);
        assert!(keeper.takes_names(NODE), "it came");
        assert!(!keeper.takes_names(NODE), "it was dropped");
    }
}
