//! A store in memory: the model for tests and for the simulator.
//!
//! It has no clock and no randomness: [`MemStore::set_now`] sets the time, and [`MemStore::crash`]
//! simulates a crash of a server, which restores the stable state. Names and attributes are stable
//! once an operation is answered. Data is stable after a stable WRITE or a COMMIT. File numbers are
//! reused, as on a disk; object ids never are.

mod attributes;
mod contents;
mod data;
mod holds;
mod listing;
mod names;
mod node;
mod ranges;
mod rename;
#[cfg(test)]
mod tests;
mod tree;
mod xattrs;

use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use leasehold_base::units::{Cookie, FileSystemId, FileTime};
use leasehold_fs::{
    Access, Attributes, Budget, Caller, Capabilities, Changed, Coherence, Committed,
    ExclusiveAccess, Found, FsError, Guard, Held, LayoutPolicies, Linked, MaybeReady, Name,
    NewFile, NewNode, ObjectId, OpenFiles, Page, Place, Properties, ReadDone, Renamed,
    SetAttributes, Space, Stability, Store, Target, Wanted, WriteDone, permission,
};

use crate::node::Body;
use crate::tree::Tree;

/// The largest size of a file: the largest signed 64-bit offset, as on disks.
const FILE_BYTES_MAX: u64 = i64::MAX.unsigned_abs();

/// The largest number of names of one object, as in ext4.
const LINK_MAX: u32 = 65_000;

/// The parameters of a store in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The number of the file system.
    pub file_system: FileSystemId,
    /// The space for data in bytes. Each directory uses one block.
    pub capacity_bytes: u64,
    /// The largest number of objects.
    pub capacity_files: u64,
    /// True if clients may hold leases on all types of objects. Otherwise only regular files may be
    /// leased, as in stores with names that several servers share.
    pub leases_names: bool,
}

impl Default for Config {
    /// Returns a store of one GiB and a million objects, all of which may be leased.
    fn default() -> Self {
        Self {
            file_system: FileSystemId(1),
            capacity_bytes: 1 << 30,
            capacity_files: 1 << 20,
            leases_names: true,
        }
    }
}

/// A store in memory. Its root belongs to the superuser.
#[derive(Debug)]
pub struct MemStore(Arc<Mutex<Tree>>);

impl MemStore {
    /// Creates an empty store, at the start of 1970.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self(Arc::new(Mutex::new(Tree::new(config))))
    }

    /// Sets the time. Changes receive this time, or a later one if necessary, so that each change
    /// is later than the one before.
    pub fn set_now(&self, now: FileTime) {
        self.tree().now = now;
    }

    /// Loses all unstable changes, as in a crash of a server, and changes the write verifier.
    pub fn crash(&self) {
        self.tree().crash();
    }

    /// Makes everything stable.
    pub fn sync(&self) {
        self.tree().sync();
    }

    /// Audits the store.
    ///
    /// # Panics
    /// Panics if its parts are inconsistent.
    pub fn check(&self) {
        self.tree().check();
    }

    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.0.lock().expect("no operation panics")
    }
}

impl Default for MemStore {
    fn default() -> Self {
        Self::new(Config::default())
    }
}

impl Store for MemStore {
    fn root(&self) -> ObjectId {
        Tree::root()
    }

    fn identity(&self, object: &ObjectId) -> ObjectId {
        *object
    }

    fn path(&self, object: &ObjectId) -> Option<Vec<u8>> {
        let tree = self.tree();
        tree.resolve(object).ok().and_then(|id| tree.path(id))
    }

    fn properties(&self, _object: &ObjectId) -> Properties {
        Properties {
            file_bytes_max: FILE_BYTES_MAX,
            name_bytes_max: u32::try_from(tree::NAME_BYTES_MAX).expect("it is small"),
            link_max: LINK_MAX,
            time_step: Duration::from_nanos(1),
            case_insensitive: false,
            chown_restricted: true,
            can_set_time: true,
            symlinks: true,
            links: true,
            leases_names: self.tree().config.leases_names,
        }
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            local_guard: None,
            coherence: Some(self),
            direct_layouts: None,
            layout_policies: Some(self),
            local_metadata: None,
            reservations: None,
            open_files: Some(self),
            extended_attributes: Some(self),
            ranges: Some(self),
        }
    }

    fn getattr<'a>(&'a self, object: &'a ObjectId) -> MaybeReady<'a, Result<Attributes, FsError>> {
        let tree = self.tree();
        MaybeReady::now(tree.resolve(object).map(|id| tree.attributes(id)))
    }

    fn setattr<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        changes: &'a SetAttributes,
        guard: Option<FileTime>,
    ) -> MaybeReady<'a, Changed<()>> {
        MaybeReady::now(self.tree().setattr(caller, object, changes, guard))
    }

    fn lookup<'a>(
        &'a self,
        caller: &'a Caller,
        directory: &'a ObjectId,
        name: Name<'a>,
    ) -> MaybeReady<'a, Result<Found, FsError>> {
        MaybeReady::now(self.tree().lookup(caller, Place { directory: *directory, name }))
    }

    fn parent<'a>(
        &'a self,
        caller: &'a Caller,
        directory: &'a ObjectId,
    ) -> MaybeReady<'a, Result<Found, FsError>> {
        MaybeReady::now(self.tree().parent(caller, directory))
    }

    fn access<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        wanted: Access,
    ) -> MaybeReady<'a, Result<(Access, Attributes), FsError>> {
        let tree = self.tree();
        MaybeReady::now(tree.resolve(object).map(|id| {
            let attributes = tree.attributes(id);
            let has = permission::access(&attributes, permission::rights(&attributes, caller));
            (has.and(wanted), attributes)
        }))
    }

    fn readlink<'a>(
        &'a self,
        _caller: &'a Caller,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<(Target, Attributes), FsError>> {
        let tree = self.tree();
        MaybeReady::now(tree.resolve(object).and_then(|id| match &tree.node(id).body {
            Body::Symlink(target) => Ok((target.clone(), tree.attributes(id))),
            Body::Regular { .. } | Body::Directory(_) | Body::Special { .. } => {
                Err(FsError::Invalid)
            }
        }))
    }

    fn read<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        count: u32,
    ) -> MaybeReady<'a, Result<ReadDone, FsError>> {
        MaybeReady::now(self.tree().read(caller, object, offset, count))
    }

    fn write<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> MaybeReady<'a, Changed<WriteDone>> {
        MaybeReady::now(self.tree().write(caller, object, offset, &data, stability))
    }

    fn create<'a>(
        &'a self,
        caller: &'a Caller,
        place: Place<'a>,
        file: &'a NewFile,
    ) -> MaybeReady<'a, Changed<Found>> {
        MaybeReady::now(self.tree().create(caller, place, file))
    }

    fn make<'a>(
        &'a self,
        caller: &'a Caller,
        place: Place<'a>,
        node: &'a NewNode<'a>,
        attributes: &'a SetAttributes,
    ) -> MaybeReady<'a, Changed<Found>> {
        MaybeReady::now(self.tree().make(caller, place, node, attributes))
    }

    fn remove<'a>(&'a self, caller: &'a Caller, place: Place<'a>) -> MaybeReady<'a, Changed<()>> {
        MaybeReady::now(self.tree().remove(caller, place))
    }

    fn rmdir<'a>(&'a self, caller: &'a Caller, place: Place<'a>) -> MaybeReady<'a, Changed<()>> {
        MaybeReady::now(self.tree().rmdir(caller, place))
    }

    fn rename<'a>(
        &'a self,
        caller: &'a Caller,
        from: Place<'a>,
        to: Place<'a>,
    ) -> MaybeReady<'a, Renamed> {
        MaybeReady::now(self.tree().rename(caller, from, to))
    }

    fn link<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        place: Place<'a>,
    ) -> MaybeReady<'a, Linked> {
        MaybeReady::now(self.tree().link(caller, object, place))
    }

    fn readdir<'a>(
        &'a self,
        caller: &'a Caller,
        directory: &'a ObjectId,
        cookie: Cookie,
        budget: Budget,
        wanted: Wanted,
    ) -> MaybeReady<'a, Result<Page, FsError>> {
        MaybeReady::now(self.tree().readdir(caller, directory, cookie, budget, wanted))
    }

    fn space<'a>(
        &'a self,
        _caller: &'a Caller,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<(Space, Attributes), FsError>> {
        let tree = self.tree();
        MaybeReady::now(tree.resolve(object).map(|id| (tree.space(), tree.attributes(id))))
    }

    fn commit<'a>(
        &'a self,
        _caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        length: u32,
    ) -> MaybeReady<'a, Changed<Committed>> {
        MaybeReady::now(self.tree().commit(object, offset, length))
    }
}

impl Coherence for MemStore {
    fn acquire<'a>(
        &'a self,
        object: &'a ObjectId,
        guard: Guard,
        _opportunistic: bool,
    ) -> MaybeReady<'a, Result<(), FsError>> {
        let tree = self.tree();
        MaybeReady::now(tree.resolve(object).and_then(|id| {
            let is_file = matches!(tree.node(id).body, Body::Regular { .. });
            let may = is_file || guard == Guard::Nothing || tree.config.leases_names;
            may.then_some(()).ok_or(FsError::NotSupported)
        }))
    }

    fn exclusive<'a>(
        &'a self,
        _object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<ExclusiveAccess, FsError>> {
        MaybeReady::now(Ok(ExclusiveAccess::default()))
    }
}

impl LayoutPolicies for MemStore {
    fn layout_policy<'a>(
        &'a self,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<Option<Bytes>, FsError>> {
        let tree = self.tree();
        MaybeReady::now(tree.resolve(object).map(|id| tree.node(id).layout.clone()))
    }

    fn set_layout_policy<'a>(
        &'a self,
        object: &'a ObjectId,
        policy: Bytes,
    ) -> MaybeReady<'a, Result<(), FsError>> {
        let mut tree = self.tree();
        MaybeReady::now(tree.resolve(object).map(|id| tree.node_mut(id).layout = Some(policy)))
    }
}

impl OpenFiles for MemStore {
    fn hold<'a>(&'a self, object: &'a ObjectId) -> MaybeReady<'a, Result<Held, FsError>> {
        let hold = self.tree().hold(object);
        let tree = Arc::clone(&self.0);
        MaybeReady::now(hold.map(|hold| {
            Held::until(move || {
                // If an operation has panicked, no operation uses the store any more.
                if let Ok(mut tree) = tree.lock() {
                    tree.release(&hold);
                }
            })
        }))
    }
}
