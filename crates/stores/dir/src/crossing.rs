//! A directory with the file systems that are mounted below it, and the subvolumes of btrfs, as one
//! store (`cross = true`).
//!
//! Each of these file systems is a [`DirStore`] with its own file-system number, which is the
//! prefix of the ids of its objects. The state directory records the number, with the path and the
//! origin of the file system, before any id contains the number. So ids stay valid across restarts
//! and remounts, and never lead to another file system.
//!
//! The store opens a file system when a look-up leads there, or when a request contains an id in
//! it. The store closes the file system after a few seconds without a request, because an open file
//! system cannot be unmounted.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use leasehold_fs::{Blocking, Caller, Found, FsError, Name, ObjectId, Step, Store as _, offload};
use rustix::fs::{Mode, OFlags, fstatfs, openat};

use crate::attributes::{Mount, place_of};
use crate::handle::{is_placeholder, tag_of};
use crate::locks::lock;
use crate::{DirStore, Durability, HandleSource, Options, Origin};

mod store;

/// The maximum number of open file systems below one export.
const OPEN_MAX: usize = 256;

/// The maximum number of names on a path to a file system.
const DEPTH_MAX: usize = 256;

/// The table of the file-system numbers below an export, which survives restarts.
pub trait Numbers: Send + Sync {
    /// Returns the number of the file system with this origin that begins at a path below the
    /// export; records the number before it returns. Returns `None` if a client must not enter the
    /// file system, or if the number cannot be recorded. `at` is a path that leads to the file
    /// system now. May sleep.
    fn number(&self, path: &[u8], origin: &Origin, at: &Path) -> Option<u16>;

    /// Returns the path that was recorded with a number.
    fn path(&self, number: u16) -> Option<Vec<u8>>;
}

/// The parameters of the file systems below an export.
pub struct Below {
    /// The threads that open file systems. These threads must not be the threads of the export's
    /// own directory, because the close of a file system waits for syncs that run on those threads.
    pub blocking: Arc<dyn Blocking>,
    /// The storage to which a stable reply refers.
    pub durability: Durability,
    /// The maximum number of descriptors that each file system keeps open.
    pub descriptors_max: usize,
    /// The method by which the store finds objects.
    pub handles: HandleSource,
    /// The table of file-system numbers.
    pub numbers: Arc<dyn Numbers>,
}

/// A store that joins a directory and the file systems below it.
pub struct Crossing {
    shared: Arc<Shared>,
}

struct Shared {
    root: Arc<DirStore>,
    below: Below,
    open: Mutex<BTreeMap<u16, Arc<Child>>>,
    /// The lock that a thread holds while it opens or closes a file system.
    changing: Mutex<()>,
}

/// An open file system below the export.
struct Child {
    number: u16,
    store: Arc<DirStore>,
    mount: Mount,
    /// The id of the placeholder at the mount point, in the store that contains the placeholder.
    at: ObjectId,
    above: Arc<DirStore>,
    /// The path of the file system's root below the export.
    path: Vec<u8>,
    used: AtomicBool,
}

/// Pseudo file systems of the kernel, which contain no files to serve. The numbers are in
/// `linux/magic.h`.
const SPECIAL: &[u64] = &[
    0x9fa0,      // proc
    0x6265_6572, // sysfs
    0x0027_e0eb, // cgroup
    0x6367_7270, // cgroup2
    0x1cd1,      // devpts
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x7363_6673, // securityfs
    0xcafe_4a11, // bpf
    0x6165_676c, // pstore
    0xde5e_81e4, // efivarfs
    0x6265_6570, // configfs
    0x1980_0202, // mqueue
    0x9584_58f6, // hugetlbfs
    0x4249_4e4d, // binfmt_misc
    0x6573_5543, // fusectl
    0xf97c_ff8c, // selinuxfs
    0x0187,      // autofs
];

impl Crossing {
    /// Creates a store from a directory and the file systems below it.
    #[must_use]
    pub fn new(root: Arc<DirStore>, below: Below) -> Self {
        let (open, changing) = (Mutex::default(), Mutex::default());
        Self { shared: Arc::new(Shared { root, below, open, changing }) }
    }

    /// Returns the open file systems below the export.
    #[must_use]
    pub fn stores(&self) -> Vec<Arc<DirStore>> {
        lock(&self.shared.open).values().map(|child| Arc::clone(&child.store)).collect()
    }

    /// Closes the file systems that no request used since the last call, or that are no longer
    /// mounted at their paths. The server calls this function every few seconds.
    pub fn close_idle(&self) {
        let all: Vec<_> = lock(&self.shared.open).values().map(Arc::clone).collect();
        for child in all {
            child.store.close_idle();
            let is_there = child.is_there();
            if is_there && child.used.swap(false, Ordering::Relaxed) {
                continue;
            }
            self.shared.close(&child, is_there);
        }
    }
}

impl Child {
    /// Returns true if the file system is still mounted at its path.
    fn is_there(&self) -> bool {
        matches!(place(&self.above, &self.at), Some(Place { mount, .. }) if mount == self.mount)
    }
}

/// The directory at which another file system begins.
struct Place {
    /// The root of the other file system.
    opened: OwnedFd,
    mount: Mount,
    /// The path of the directory in the store above it.
    path: Vec<u8>,
}

/// Returns the directory at a placeholder where another file system begins.
fn place(above: &DirStore, at: &ObjectId) -> Option<Place> {
    let volume = &above.volume;
    let (directory, listed) = volume.handles.placed(at)?;
    let directory = volume.object(&directory).ok()?;
    let placeholder = volume.placeholder(at, directory, listed).ok()?;
    let path = placeholder.path(volume)?;
    volume.acting.as_server().ok()?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = placeholder.directory.descriptor();
    let opened = openat(directory.as_fd(), &*placeholder.name, flags, Mode::empty()).ok()?;
    let (mount, _) = place_of(&opened).ok()?;
    (mount != volume.mount).then_some(Place { opened, mount, path })
}

impl Shared {
    /// Returns the open file system with a number.
    fn open_child(&self, number: u16) -> Option<Arc<Child>> {
        let child = lock(&self.open).get(&number).map(Arc::clone)?;
        child.used.store(true, Ordering::Relaxed);
        Some(child)
    }

    /// Opens the file system at a placeholder. Returns `None` if clients must not enter it. Sleeps.
    fn enter(&self, above: &Arc<DirStore>, front: &[u8], at: &ObjectId) -> Option<Arc<Child>> {
        let Place { opened, mount, path } = place(above, at)?;
        let known = || {
            let open = lock(&self.open);
            let child = open.values().find(|child| child.at == *at && child.mount == mount)?;
            child.used.store(true, Ordering::Relaxed);
            Some(Arc::clone(child))
        };
        if let Some(child) = known() {
            return Some(child);
        }
        let _held = lock(&self.changing);
        if let Some(child) = known() {
            return Some(child);
        }
        let kind = u64::try_from(fstatfs(&opened).ok()?.f_type).ok()?;
        if SPECIAL.contains(&kind) {
            return None;
        }
        let path = if front.is_empty() { path } else { [front, b"/", &path].concat() };
        let own = format!("/proc/self/fd/{}", opened.as_raw_fd());
        let own = Path::new(&own);
        let origin = Origin::of(own).ok()?;
        let number = self.below.numbers.number(&path, &origin, own)?;
        let is_full = {
            let open = lock(&self.open);
            open.len() >= OPEN_MAX && !open.contains_key(&number)
        };
        if is_full {
            return None;
        }
        let Below { durability, descriptors_max, handles, .. } = &self.below;
        let options = Options {
            // The syncs of the new store must not run on the threads that open and close file
            // systems: a close waits for these syncs, and would wait for its own thread.
            blocking: Arc::clone(&self.root.volume.blocking),
            verifier: self.root.volume.syncs.now(),
            durability: *durability,
            descriptors_max: *descriptors_max,
            handles: *handles,
        };
        let store = self.root.open_below(own, options, number.to_be_bytes()).ok()?;
        let store = Arc::new(store);
        // Check the mount again: another file system may have been mounted at the path since its
        // number was determined, and must not get this number.
        if store.volume.mount != mount {
            return None;
        }
        let (above, used) = (Arc::clone(above), true.into());
        let child = Arc::new(Child { number, store, mount, at: *at, above, path, used });
        let before = lock(&self.open).insert(number, Arc::clone(&child));
        if let Some(before) = before {
            self.lose_unsettled(&before);
        }
        Some(child)
    }

    /// Closes a file system, unless a request uses it or some of its written data may be lost.
    fn close(&self, child: &Arc<Child>, is_there: bool) {
        let _held = lock(&self.changing);
        if !is_there {
            lock(&self.open).remove(&child.number);
            self.lose_unsettled(child);
            return;
        }
        // An idle file system has two references: one in the map, and one of the caller.
        let is_idle = |open: &BTreeMap<u16, Arc<Child>>| {
            Arc::strong_count(child) <= 2 && open.contains_key(&child.number)
        };
        if !is_idle(&lock(&self.open)) {
            return;
        }
        let is_saved = self.below.durability == Durability::Memory
            || child.store.settle() == Some(self.root.volume.syncs.now());
        let mut open = lock(&self.open);
        if is_saved && is_idle(&open) {
            open.remove(&child.number);
        }
    }

    /// If an unmounted file system may have lost written data, changes the write verifier, so that
    /// clients write their uncommitted data again.
    fn lose_unsettled(&self, child: &Child) {
        if self.below.durability != Durability::Memory && child.store.settle().is_none() {
            self.root.volume.syncs.lose();
        }
    }
}

/// The store that contains an id: the export's own store, or the store of a file system below it.
#[derive(Clone)]
enum Side {
    Root(Arc<DirStore>),
    Below(Arc<Child>),
}

impl Side {
    fn store(&self) -> &Arc<DirStore> {
        match self {
            Self::Root(store) => store,
            Self::Below(child) => &child.store,
        }
    }

    fn path(&self) -> &[u8] {
        match self {
            Self::Root(_) => &[],
            Self::Below(child) => &child.path,
        }
    }

    /// Returns true if an id is the root of a file system below the export.
    fn is_top(&self, id: &ObjectId) -> bool {
        matches!(self, Self::Below(child) if child.store.root() == *id)
    }
}

impl Crossing {
    /// Returns the store that contains an id, if the store is open.
    fn side_at_hand(&self, id: &ObjectId) -> Option<Side> {
        match tag_of(id) {
            None => Some(Side::Root(Arc::clone(&self.shared.root))),
            Some(tag) => self.shared.open_child(u16::from_be_bytes(tag)).map(Side::Below),
        }
    }

    /// Returns the store that contains an id; opens it if necessary. Returns [`FsError::Stale`] if
    /// the file system of the id is not mounted at its path.
    async fn side(&self, id: &ObjectId) -> Result<Side, FsError> {
        if let Some(side) = self.side_at_hand(id) {
            return Ok(side);
        }
        let tag = tag_of(id).ok_or(FsError::Stale)?;
        let number = u16::from_be_bytes(tag);
        let path = self.shared.below.numbers.path(number).ok_or(FsError::Stale)?;
        let may_come_back = |error| matches!(error, FsError::Delay | FsError::Io);
        let gone = |error| if may_come_back(error) { error } else { FsError::Stale };
        match self.walk(&path).await.map_err(gone)? {
            Some(child) if child.number == number => Ok(Side::Below(child)),
            _ => Err(FsError::Stale),
        }
    }

    /// Returns the file system that begins at a path.
    async fn walk(&self, path: &[u8]) -> Result<Option<Arc<Child>>, FsError> {
        let server = Caller { uid: 0, gid: 0, ..Caller::nobody() };
        let mut side = Side::Root(Arc::clone(&self.shared.root));
        let mut object = self.shared.root.root();
        let mut last = None;
        for name in path.split(|byte| *byte == b'/').take(DEPTH_MAX) {
            let name: Name<'_> = Step::parse(name)?.child(FsError::Stale)?;
            let found = side.store().lookup(&server, &object, name).await?;
            last = self.entered(&side, &found.object).await;
            object = match &last {
                Some(child) => {
                    side = Side::Below(Arc::clone(child));
                    child.store.root()
                }
                None => found.object,
            };
        }
        Ok(last)
    }

    /// Returns the file system at a placeholder, if `found` is a placeholder and clients may enter
    /// the file system.
    async fn entered(&self, side: &Side, found: &ObjectId) -> Option<Arc<Child>> {
        if !is_placeholder(found) {
            return None;
        }
        let (shared, side, at) = (Arc::clone(&self.shared), side.clone(), *found);
        let enter = move || shared.enter(side.store(), side.path(), &at);
        offload(&*self.shared.below.blocking, enter).await
    }

    /// Returns the object that a look-up found, or the root of the file system that is mounted
    /// there.
    async fn crossed(&self, side: &Side, found: Found) -> Result<Found, FsError> {
        let Some(child) = self.entered(side, &found.object).await else { return Ok(found) };
        let object = child.store.root();
        let attributes = child.store.getattr(&object).await?;
        Ok(Found { object, attributes, ..found })
    }

    /// Returns the directory that contains the mount point of a file system below the export.
    async fn above(child: &Child, caller: &Caller) -> Result<Found, FsError> {
        let attributes = child.store.getattr(&child.store.root()).await?;
        let found = child.above.parent(caller, &child.at).await?;
        Ok(Found { directory: Some(attributes), ..found })
    }
}
