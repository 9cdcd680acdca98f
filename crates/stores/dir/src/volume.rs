//! The state that all operations share: the exported tree, and the path from an id to an open
//! object.

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
    /// Written bytes that btrfs may not count yet; none on other kinds.
    pub(crate) unsettled: Unsettled,
    /// True if the sync of a directory includes the inodes of its new names.
    pub(crate) syncs_names: bool,
    pub(crate) acting: Acting,
    pub(crate) handles: Handles,
    /// The locations of objects, if the kernel does not open objects by handle.
    pub(crate) index: Option<Index>,
    pub(crate) searches: Searches,
    pub(crate) placeholders: Placeholders,
    /// The mounts below the root.
    mounts: Mounts,
    pub(crate) descriptors: Descriptors,
    /// The directory that contains the process's own descriptors as names.
    pub(crate) own_descriptors: OwnedFd,
    pub(crate) locks: Locks,
    pub(crate) syncs: Arc<Syncs>,
    pub(crate) blocking: Arc<dyn Blocking>,
    pub(crate) buffers: Arc<Buffers>,
    pub(crate) witness: ChangeDetector,
    pub(crate) guards: Guards,
    /// The number of the period in which directories found below the root count as inside.
    pub(crate) period: AtomicU32,
}

/// The reason why there is no object for an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The error is final.
    Failed(FsError),
    /// The kernel is about to reuse the inode number; a retry shows if the object is gone.
    Busy,
    /// The location of the object needs a search.
    Lost,
}

/// An object, and its name in the directory above.
type Step = (ObjectId, Box<[u8]>);

/// The flags for an open that only names the object.
pub(crate) const NAME: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The number of attempts to open a handle while the kernel reports a lack of memory. It also
/// reports this while it assigns the number of a removed object to a new one, which takes
/// microseconds unless that thread is preempted. A few attempts while other requests wait, and many
/// in the pool.
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
            guards: Guards::new(descriptors_max / 4),
            own_descriptors,
            syncs: Arc::new(Syncs::new(durability, Arc::clone(&blocking), syncer, verifier)),
            locks: Locks::new(),
            blocking,
            buffers: Arc::default(),
            witness: ChangeDetector::new(known.is_notified()),
            period: AtomicU32::new(1),
            root: Arc::new(Object::new(
                id,
                number,
                FileType::Directory,
                Descriptor::new(root, Reach::Read),
            )),
        })
    }

    /// Returns the open object of an id.
    pub(crate) fn object(&self, id: &ObjectId) -> Result<Arc<Object>, Missing> {
        if let Some(object) = self.open_object(id) {
            self.must_be_inside(&object).map_err(Missing::Failed)?;
            return Ok(object);
        }
        if !self.handles.could_be(id) {
            // An earlier server may have had the file system of the id below this export.
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
                    // The object may have another name.
                    Err(FsError::Stale) => Err(Missing::Lost),
                    Err(error) => Err(Missing::Failed(error)),
                }
            }
        }
    }

    /// Returns the object of an id, if it is open already.
    pub(crate) fn open_object(&self, id: &ObjectId) -> Option<Arc<Object>> {
        if *id == self.root.id {
            return Some(Arc::clone(&self.root));
        }
        self.descriptors.by_id(id)
    }

    /// Returns the object of an inode number that was read after `moment`, if it has been open
    /// since then.
    pub(crate) fn open_number(&self, number: u64, moment: Moment) -> Option<Arc<Object>> {
        if number == self.root.number {
            return Some(Arc::clone(&self.root));
        }
        self.descriptors.by_number(number, moment)
    }

    /// Opens an object by its handle, in up to `tries` attempts.
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
                // The kernel cannot interpret the handle.
                Err(Errno::INVAL) => return Err(Missing::Failed(FsError::BadHandle)),
                Err(errno) => return Err(Missing::Failed(meaning(errno))),
            }
        }
        Err(Missing::Busy)
    }

    /// Returns the nearest open directory above an object, and the recorded names from there down
    /// to the object, the last name first.
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

    /// Walks down the recorded names.
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

    /// Returns the directory and the recorded name of an object, inside or outside the export.
    pub(crate) fn recorded_place(&self, id: &ObjectId) -> Option<(Arc<Descriptor>, Box<[u8]>)> {
        let index = self.index.as_ref()?;
        let Some(Known::At { directory, name }) = index.find(id) else { return None };
        let above = self.open_object(&directory).or_else(|| {
            let (base, steps) = self.way(index, &directory).ok()?;
            self.walk(base, steps).ok()
        });
        Some((above?.descriptor(), name))
    }

    /// Keeps a descriptor as the descriptor of an object, unless the object is open already.
    pub(crate) fn keep(
        &self,
        id: ObjectId,
        descriptor: Descriptor,
    ) -> Result<Arc<Object>, FsError> {
        let attributes = self.attributes_of(&descriptor)?;
        Ok(self.keep_seen(id, descriptor, &attributes))
    }

    /// Keeps an object open; `seen` are attributes read after the open.
    pub(crate) fn keep_seen(
        &self,
        id: ObjectId,
        descriptor: Descriptor,
        seen: &Attributes,
    ) -> Arc<Object> {
        if id == self.root.id {
            return Arc::clone(&self.root);
        }
        let object = Object::new(id, seen.file_id.0, seen.file_type, descriptor);
        self.descriptors.insert(object)
    }

    /// Returns a descriptor of an object with at least the access mode `reach`; may leave this
    /// thread acting as the server.
    pub(crate) fn opened(&self, object: &Object, reach: Reach) -> Result<Arc<Descriptor>, FsError> {
        let present = object.descriptor();
        if present.reach() >= reach {
            return Ok(present);
        }
        // An open by the store itself would wait for the kernel's lease, which the store itself
        // holds.
        if let Some(guarding) = self.guards.descriptor(&object.id) {
            if guarding.reach() >= reach {
                return Ok(object.widen_to(guarding));
            }
            self.guards.release(&object.id);
        }
        let file = self.reopen(object, &present, reach)?;
        Ok(object.widen(Descriptor::new(file, reach)))
    }

    /// Opens an object once more.
    pub(crate) fn reopen(
        &self,
        object: &Object,
        present: &Descriptor,
        reach: Reach,
    ) -> Result<OwnedFd, FsError> {
        self.acting.as_server()?;
        let access = match reach {
            // Not `NAME`: the path of our own descriptor is a link, which the open must follow.
            Reach::Name => OFlags::PATH,
            Reach::Read => OFlags::RDONLY,
            Reach::Write => OFlags::RDWR,
        };
        // Never wait until another program releases a lease.
        let flags = access | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let opened = if self.index.is_none() {
            let root = self.root.descriptor();
            let handle = self.handles.kernels(&object.id).ok_or(FsError::BadHandle)?;
            sys::open_by_handle(root.as_fd(), self.handles.kind(), &handle, flags)
        } else {
            openat(&self.own_descriptors, Self::own_name(present), flags, Mode::empty())
        };
        opened.map_err(meaning)
    }

    /// Returns the name of a descriptor in the directory of the process's own descriptors.
    pub(crate) fn own_name(descriptor: impl AsFd) -> DecInt {
        DecInt::new(descriptor.as_fd().as_raw_fd())
    }

    /// Returns the path of that name, for calls that take no directory.
    pub(crate) fn own_path(descriptor: impl AsFd) -> String {
        format!("/proc/self/fd/{}", descriptor.as_fd().as_raw_fd())
    }

    /// Records the location of an object's name.
    pub(crate) fn learn(&self, id: &ObjectId, directory: &ObjectId, name: &[u8]) {
        if let Some(index) = &self.index {
            index.insert(id, directory, name);
        }
    }

    /// Syncs all written data; returns the verifier that is valid for it if none of it was lost.
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
        // ext4 reports an aborted journal by fsync also where syncfs succeeds.
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

    /// Closes idle descriptors for writing: while one is open, no program can execute the file.
    /// Stops the watch of idle directories, and starts a new period of the checks that directories
    /// are inside.
    pub(crate) fn close_idle(&self) {
        self.witness.forget_idle();
        let path = link_of(&self.own_descriptors, &*self.root.descriptor());
        if path.is_some_and(|path| self.mounts.have_changed(&path)) {
            self.witness.disturb_all();
        }
        if self.witness.has_strangers() {
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
