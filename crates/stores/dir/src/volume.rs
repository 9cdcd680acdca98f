//! The state that all operations share: the exported tree, and the functions that find the open
//! object of an id.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::thread;

use leasehold_base::units::FileSystemId;
use leasehold_fs::{Attributes, Blocking, FileType, FsError, ObjectId, Properties, Verifier};
use rustix::fs::{CWD, Mode, OFlags, StatVfsMountFlags, fstatvfs, openat};
use rustix::io::Errno;
use rustix::path::DecInt;

use crate::attributes::{Mount, file_system_id, place_of};
use crate::buffers::Buffers;
use crate::change_detector::ChangeDetector;
use crate::descriptors::{Descriptors, Moment};
use crate::errors::meaning;
use crate::file_system;
use crate::guards::Guards;
use crate::handle::{Handles, Tag, tag_of};
use crate::held::HeldFiles;
use crate::identity::{Acting, aside};
use crate::index::{Index, Known};
use crate::locks::Locks;
use crate::mounts::Mounts;
use crate::object::{Descriptor, Object, Reach};
use crate::path::link_of;
use crate::placeholder::Placeholders;
use crate::search::Searches;
use crate::sync::{Syncer, Syncs};
use crate::unsettled::Unsettled;
use crate::{HandleSource, OpenError, Options, sys};

/// An exported directory and all objects below it on the same mount.
pub(crate) struct Volume {
    pub(crate) root: Arc<Object>,
    pub(crate) mount: Mount,
    pub(crate) file_system: FileSystemId,
    pub(crate) uuid: Option<[u8; 16]>,
    pub(crate) properties: Properties,
    /// The kind of the file system.
    pub(crate) kind: file_system::Kind,
    /// The number of recently written bytes that btrfs may not have added to its used space yet;
    /// always 0 on other file systems.
    pub(crate) unsettled: Unsettled,
    /// True if the sync of a directory includes the inodes of its new names.
    pub(crate) syncs_names: bool,
    pub(crate) acting: Acting,
    pub(crate) handles: Handles,
    /// The index of object locations; `None` if the kernel opens objects by handle.
    pub(crate) index: Option<Index>,
    pub(crate) searches: Searches,
    pub(crate) placeholders: Placeholders,
    /// The mounts below the root.
    mounts: Mounts,
    pub(crate) descriptors: Descriptors,
    pub(crate) held: HeldFiles,
    /// The kernel's directory that lists the descriptors of this process.
    pub(crate) own_descriptors: OwnedFd,
    pub(crate) locks: Locks,
    pub(crate) syncs: Arc<Syncs>,
    pub(crate) blocking: Arc<dyn Blocking>,
    pub(crate) buffers: Arc<Buffers>,
    pub(crate) change_detector: ChangeDetector,
    pub(crate) guards: Guards,
    /// The number of the current period. A directory that was found below the root in this period
    /// counts as inside.
    pub(crate) period: AtomicU32,
}

/// The reason why the store has no open object for an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The error is final.
    Failed(FsError),
    /// The kernel is about to reuse the inode number. A retry shows if the object was removed.
    Busy,
    /// The location of the object is unknown, so the store must search for the object.
    Lost,
}

/// A step of a path: an object, and its name in the parent directory.
type Step = (ObjectId, Box<[u8]>);

/// The flags for an open that only identifies the object.
pub(crate) const NAME: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The maximum number of attempts to open an object by its handle while the kernel reports a lack
/// of memory. The kernel also reports this error while it assigns the inode number of a removed
/// object to a new object, which takes microseconds unless the kernel's thread is preempted. A
/// thread that serves other requests makes only a few attempts; a thread of the pool makes many.
const TRIES_AT_ONCE: u32 = 4;
pub(crate) const TRIES_IN_POOL: u32 = 1000;

/// The maximum depth of directories in a search for an object.
pub(crate) const DEPTH_MAX: usize = 1024;

impl Volume {
    pub(crate) fn open(
        path: &Path,
        options: Options,
        syncer: Box<dyn Syncer>,
        tag: Option<Tag>,
    ) -> Result<Self, OpenError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, path, flags, Mode::empty()).map_err(OpenError::Root)?;
        let (mount, number) = place_of(&root).map_err(OpenError::Root)?;
        let (handles, id) =
            Handles::learn(root.as_fd(), number, tag).map_err(|errno| match errno {
                Errno::OVERFLOW => OpenError::LongHandles,
                other => OpenError::NoHandles(other),
            })?;
        let own_descriptors = openat(CWD, c"/proc/self/fd", OFlags::PATH | flags, Mode::empty())
            .map_err(OpenError::NoProc)?;
        let acting = Acting::probe().map_err(OpenError::Powers)?;
        let opens = || {
            acting.as_server().is_ok()
                && handles.kernels(&id).is_some_and(|handle| {
                    sys::open_by_handle(root.as_fd(), handles.kind(), &handle, NAME).is_ok()
                })
        };
        let by_handle = options.handles == HandleSource::Probe
            && acting == Acting::Caller
            && aside(opens).is_ok_and(|opens| opens);
        let known = file_system::Kind::of(&root).map_err(OpenError::Root)?;
        let Options { blocking, verifier, durability, descriptors_max, handles: _ } = options;
        Ok(Self {
            mount,
            file_system: file_system_id(&root).map_err(OpenError::Root)?,
            uuid: sys::file_system_uuid(root.as_fd()).ok(),
            properties: known.properties(&root).map_err(OpenError::Root)?,
            kind: known,
            unsettled: Unsettled::default(),
            syncs_names: known.syncs_names(&root),
            acting,
            handles,
            index: (!by_handle).then(Index::new),
            searches: Searches::default(),
            placeholders: Placeholders::default(),
            mounts: Mounts::new(&link_of(&own_descriptors, &root).unwrap_or_default()),
            descriptors: Descriptors::new(descriptors_max),
            held: HeldFiles::new(descriptors_max),
            guards: Guards::new(descriptors_max / 4),
            own_descriptors,
            syncs: Arc::new(Syncs::new(durability, Arc::clone(&blocking), syncer, verifier)),
            locks: Locks::new(),
            blocking,
            buffers: Arc::default(),
            change_detector: ChangeDetector::new(known.is_notified()),
            period: AtomicU32::new(1),
            root: Arc::new(Object::new(
                id,
                number,
                FileType::Directory,
                Descriptor::new(root, Reach::Read),
            )),
        })
    }

    /// Returns the open object with an id, and opens the object if necessary.
    pub(crate) fn object(&self, id: &ObjectId) -> Result<Arc<Object>, Missing> {
        if let Some(object) = self.open_object(id) {
            self.must_be_inside(&object).map_err(Missing::Failed)?;
            return Ok(object);
        }
        if !self.handles.could_be(id) {
            // The id has the form of an id below this export: an earlier server may have served
            // that file system with `cross`. So the id is stale and not malformed.
            let error = if tag_of(id).is_some() { FsError::Stale } else { FsError::BadHandle };
            return Err(Missing::Failed(error));
        }
        match &self.index {
            None => self.open_by_handle(id, TRIES_AT_ONCE),
            Some(index) => {
                self.acting.as_server().map_err(Missing::Failed)?;
                let (base, steps) = self.way(index, id)?;
                match self.must_be_inside(&base) {
                    Ok(()) => self.walk(base, steps),
                    // The recorded directory lies outside the export, but the object may have
                    // another name inside it: search for the object.
                    Err(FsError::Stale) => Err(Missing::Lost),
                    Err(error) => Err(Missing::Failed(error)),
                }
            }
        }
    }

    /// Returns the object with an id, if the object is already open.
    pub(crate) fn open_object(&self, id: &ObjectId) -> Option<Arc<Object>> {
        if *id == self.root.id {
            return Some(Arc::clone(&self.root));
        }
        self.descriptors.by_id(id).or_else(|| self.held.find(id))
    }

    /// Returns the object with an inode number that the caller read after `moment`, if the object
    /// was open at `moment` and still is.
    pub(crate) fn open_number(&self, number: u64, moment: Moment) -> Option<Arc<Object>> {
        if number == self.root.number {
            return Some(Arc::clone(&self.root));
        }
        self.descriptors.by_number(number, moment)
    }

    /// Opens an object by its handle, with at most `tries` attempts.
    pub(crate) fn open_by_handle(&self, id: &ObjectId, tries: u32) -> Result<Arc<Object>, Missing> {
        self.acting.as_server().map_err(Missing::Failed)?;
        let root = self.root.descriptor();
        let handle = self.handles.kernels(id).ok_or(Missing::Failed(FsError::BadHandle))?;
        for _ in 0..tries {
            match sys::open_by_handle(root.as_fd(), self.handles.kind(), &handle, NAME) {
                Ok(file) => {
                    let kept = self.keep(*id, Descriptor::new(file, Reach::Name));
                    let inside = |object| self.must_be_inside(&object).map(|()| object);
                    return kept.and_then(inside).map_err(Missing::Failed);
                }
                Err(Errno::NOMEM) => thread::yield_now(),
                // The kernel cannot interpret the handle, so the id is malformed.
                Err(Errno::INVAL) => return Err(Missing::Failed(FsError::BadHandle)),
                Err(errno) => return Err(Missing::Failed(meaning(errno))),
            }
        }
        Err(Missing::Busy)
    }

    /// Returns the nearest open directory above an object, and the recorded names from this
    /// directory down to the object. The last name comes first.
    fn way(&self, index: &Index, id: &ObjectId) -> Result<(Arc<Object>, Vec<Step>), Missing> {
        let mut steps = Vec::new();
        let mut next = *id;
        loop {
            match index.find(&next) {
                None => return Err(Missing::Lost),
                Some(Known::Gone) => return Err(Missing::Failed(FsError::Stale)),
                Some(Known::At { directory, name }) => {
                    steps.push((next, name));
                    next = directory;
                }
            }
            if let Some(base) = self.open_object(&next) {
                return Ok((base, steps));
            }
            if steps.len() == DEPTH_MAX {
                return Err(Missing::Lost);
            }
        }
    }

    /// Opens the recorded names one after the other; returns the object of the last name.
    fn walk(&self, mut base: Arc<Object>, steps: Vec<Step>) -> Result<Arc<Object>, Missing> {
        for (id, name) in steps.into_iter().rev() {
            let file =
                openat(&*base.descriptor(), &*name, NAME, Mode::empty()).map_err(|errno| {
                    match errno {
                        Errno::NOENT | Errno::NOTDIR => Missing::Lost,
                        other => Missing::Failed(meaning(other)),
                    }
                })?;
            if self.handles.of(&file) != Ok(id) {
                return Err(Missing::Lost);
            }
            base = self.keep(id, Descriptor::new(file, Reach::Name)).map_err(Missing::Failed)?;
        }
        Ok(base)
    }

    /// Returns the recorded directory of an object and its name there. The directory may lie inside
    /// or outside the export.
    pub(crate) fn recorded_place(&self, id: &ObjectId) -> Option<(Arc<Descriptor>, Box<[u8]>)> {
        let index = self.index.as_ref()?;
        let Some(Known::At { directory, name }) = index.find(id) else { return None };
        let above = self.open_object(&directory).or_else(|| {
            let (base, steps) = self.way(index, &directory).ok()?;
            self.walk(base, steps).ok()
        });
        Some((above?.descriptor(), name))
    }

    /// Keeps an object open by a descriptor, unless the object is already open.
    pub(crate) fn keep(
        &self,
        id: ObjectId,
        descriptor: Descriptor,
    ) -> Result<Arc<Object>, FsError> {
        let attributes = self.attributes_of(&descriptor)?;
        Ok(self.keep_seen(id, descriptor, &attributes))
    }

    /// Keeps an object open; `seen` contains attributes that were read after the open.
    pub(crate) fn keep_seen(
        &self,
        id: ObjectId,
        descriptor: Descriptor,
        seen: &Attributes,
    ) -> Arc<Object> {
        if id == self.root.id {
            return Arc::clone(&self.root);
        }
        if let Some(held) = self.held.find(&id) {
            return held;
        }
        let object = Object::new(id, seen.file_id.0, seen.file_type, descriptor);
        self.descriptors.insert(object)
    }

    /// Returns a descriptor of an object whose access mode includes `reach`. May leave this thread
    /// acting as the server.
    pub(crate) fn opened(&self, object: &Object, reach: Reach) -> Result<Arc<Descriptor>, FsError> {
        let present = object.descriptor();
        if present.reach() >= reach {
            return Ok(present);
        }
        // If the file is guarded, use the guard's descriptor. If the store opened the file again,
        // it would wait for the kernel's lease, which it holds itself. If the access mode of the
        // guard's descriptor is too narrow, release the lease first.
        if let Some(guarding) = self.guards.descriptor(&object.id) {
            if guarding.reach() >= reach {
                return Ok(object.widen_to(guarding));
            }
            self.guards.release(&object.id);
        }
        let file = self.reopen(object, &present, reach)?;
        Ok(object.widen(Descriptor::new(file, reach)))
    }

    /// Opens an object again, with another access mode.
    pub(crate) fn reopen(
        &self,
        object: &Object,
        present: &Descriptor,
        reach: Reach,
    ) -> Result<OwnedFd, FsError> {
        self.acting.as_server()?;
        let access = match reach {
            // Do not use `NAME`: the path of the store's own descriptor is a symbolic link, which
            // this open must follow.
            Reach::Name => OFlags::PATH,
            Reach::Read => OFlags::RDONLY,
            Reach::Write => OFlags::RDWR,
        };
        // NONBLOCK makes the open fail instead of waiting if another program holds a lease on the
        // file.
        let flags = access | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        // Not every file system opens a file without a name by its handle.
        let by_handle = self.index.is_none() && self.held.find(&object.id).is_none();
        let opened = if by_handle {
            let root = self.root.descriptor();
            let handle = self.handles.kernels(&object.id).ok_or(FsError::BadHandle)?;
            sys::open_by_handle(root.as_fd(), self.handles.kind(), &handle, flags)
        } else {
            openat(&self.own_descriptors, Self::own_name(present), flags, Mode::empty())
        };
        opened.map_err(meaning)
    }

    /// Returns the name of a descriptor in the kernel's directory of this process's descriptors.
    pub(crate) fn own_name(descriptor: impl AsFd) -> DecInt {
        DecInt::new(descriptor.as_fd().as_raw_fd())
    }

    /// Returns the whole path of a descriptor in that directory, for calls that accept no directory
    /// descriptor.
    pub(crate) fn own_path(descriptor: impl AsFd) -> String {
        format!("/proc/self/fd/{}", descriptor.as_fd().as_raw_fd())
    }

    /// Records the location of an object: a directory and a name in it.
    pub(crate) fn learn(&self, id: &ObjectId, directory: &ObjectId, name: &[u8]) {
        if let Some(index) = &self.index {
            index.insert(id, directory, name);
        }
    }

    /// Syncs all written data; returns the write verifier for this data if no data was lost.
    pub(crate) fn settle(&self) -> Option<Verifier> {
        let open = self.descriptors.all().map(|object| object.descriptor());
        self.syncs.settle(open.filter(|descriptor| descriptor.is_dirty()).collect())
    }

    /// Syncs the whole file system, and checks that it still accepts changes.
    pub(crate) fn sync_earlier_changes(&self) -> Result<(), FsError> {
        let root = self.root.descriptor();
        let known = fstatvfs(root.as_fd()).map_err(meaning)?;
        if known.f_flag.contains(StatVfsMountFlags::RDONLY) {
            return Err(FsError::ReadOnly);
        }
        // An aborted journal of ext4 is reported by fsync even if syncfs succeeds, so also sync the
        // root with fsync.
        self.syncs.sync_object(root.as_fd())?;
        self.sync_all()
    }

    /// Syncs the whole file system.
    pub(crate) fn sync_all(&self) -> Result<(), FsError> {
        for object in self.descriptors.all() {
            object.descriptor().clean();
        }
        self.syncs.sync_all(self.root.descriptor().as_fd())
    }

    /// Closes idle descriptors for writing: while such a descriptor is open, no program can execute
    /// the file. Removes the watches of idle directories, and starts a new period for the checks
    /// that directories are inside the export.
    pub(crate) fn close_idle(&self) {
        self.change_detector.forget_idle();
        let path = link_of(&self.own_descriptors, &*self.root.descriptor());
        if path.is_some_and(|path| self.mounts.have_changed(&path)) {
            self.change_detector.disturb_all();
        }
        if self.change_detector.has_strangers() {
            self.guards.ring();
        }
        self.doubt_all();
        for object in self.descriptors.all() {
            let descriptor = object.descriptor();
            if descriptor.reach() == Reach::Write
                && !descriptor.is_dirty()
                && descriptor.take_idle()
                && let Ok(file) = self.reopen(&object, &descriptor, Reach::Name)
            {
                object.narrow(&descriptor, Descriptor::new(file, Reach::Name));
            }
        }
    }
}
