//! An open object and its descriptor.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use leasehold_base::units::FileTime;
use leasehold_fs::{FileType, ObjectId};

use crate::descriptors::Moment;
use crate::sync::Syncs;

/// The access mode of a descriptor; each mode includes the modes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reach {
    /// The descriptor only identifies the object (`O_PATH`).
    Name,
    /// The descriptor can read, list and sync.
    Read,
    /// The descriptor can also write.
    Write,
}

/// A descriptor of an object.
///
/// The kernel reports lost data to every descriptor that was open when the loss occurred. So before
/// the store closes a descriptor with written data, for any reason, it syncs the descriptor.
pub(crate) struct Descriptor {
    /// The kernel's descriptor; `None` while it is being closed.
    file: Option<OwnedFd>,
    reach: Reach,
    dirty: AtomicBool,
    /// The number of bytes written since the store last requested write-back from the kernel.
    behind: AtomicU64,
    used: AtomicBool,
    home: OnceLock<(Arc<Syncs>, ObjectId)>,
}

impl Descriptor {
    pub(crate) fn new(file: OwnedFd, reach: Reach) -> Self {
        Self {
            file: Some(file),
            reach,
            dirty: AtomicBool::new(false),
            behind: AtomicU64::new(0),
            used: AtomicBool::new(true),
            home: OnceLock::new(),
        }
    }

    pub(crate) const fn reach(&self) -> Reach {
        self.reach
    }

    /// Records a write of data of `object`. The caller calls this function after the write, because
    /// a sync that starts between this record and the write would not include the data.
    pub(crate) fn soil(&self, syncs: &Arc<Syncs>, object: &ObjectId) {
        self.home.get_or_init(|| (Arc::clone(syncs), *object));
        self.dirty.store(true, Ordering::SeqCst);
        self.used.store(true, Ordering::SeqCst);
    }

    /// Returns true if no write has occurred since the last call.
    pub(crate) fn take_idle(&self) -> bool {
        !self.used.swap(false, Ordering::SeqCst)
    }

    /// Records that a sync of all written data is about to start.
    pub(crate) fn clean(&self) {
        self.dirty.store(false, Ordering::SeqCst);
        self.catch_up();
    }

    /// Counts written bytes; returns the number of bytes since the last request for write-back.
    pub(crate) fn fall_behind(&self, bytes: u32) -> u64 {
        let bytes = u64::from(bytes);
        self.behind.fetch_add(bytes, Ordering::Relaxed) + bytes
    }

    /// Records that the store is about to request write-back.
    pub(crate) fn catch_up(&self) {
        self.behind.store(0, Ordering::Relaxed);
    }

    /// Returns true if the descriptor has written data that no sync includes yet.
    pub(crate) fn is_dirty(&self) -> bool {
        self.dirty.load(Ordering::SeqCst)
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_ref().expect("it is there until it is dropped").as_fd()
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        if let (true, Some((syncs, object)), Some(file)) =
            (self.is_dirty(), self.home.take(), self.file.take())
        {
            syncs.sync_at_last(&object, Self::new(file, self.reach));
        }
    }
}

/// An open object. While it is open, the kernel does not reuse its inode number.
pub(crate) struct Object {
    pub(crate) id: ObjectId,
    pub(crate) number: u64,
    pub(crate) file_type: FileType,
    /// The point in time at which the object was opened; the table of open objects sets it.
    pub(crate) opened: Moment,
    descriptor: RwLock<Arc<Descriptor>>,
    used: AtomicBool,
    access_list: AtomicU64,
    not_exclusive: AtomicBool,
    inside: AtomicU32,
}

impl Object {
    pub(crate) fn new(
        id: ObjectId,
        number: u64,
        file_type: FileType,
        descriptor: Descriptor,
    ) -> Self {
        Self {
            id,
            number,
            file_type,
            opened: Moment::default(),
            descriptor: RwLock::new(Arc::new(descriptor)),
            used: AtomicBool::new(false),
            access_list: AtomicU64::new(0),
            not_exclusive: AtomicBool::new(false),
            inside: AtomicU32::new(0),
        }
    }

    /// Returns the current descriptor.
    pub(crate) fn descriptor(&self) -> Arc<Descriptor> {
        Arc::clone(&self.descriptor.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Installs a descriptor with a wider access mode; returns the descriptor that is installed
    /// afterwards.
    pub(crate) fn widen(&self, descriptor: Descriptor) -> Arc<Descriptor> {
        self.widen_to(Arc::new(descriptor))
    }

    /// Like `widen`, with a shared descriptor.
    pub(crate) fn widen_to(&self, descriptor: Arc<Descriptor>) -> Arc<Descriptor> {
        let mut present = self.descriptor.write().unwrap_or_else(PoisonError::into_inner);
        if present.reach < descriptor.reach {
            *present = descriptor;
        }
        Arc::clone(&present)
    }

    /// Replaces the descriptor `idle` by `name`, which has a narrower access mode, unless the
    /// object was written to, or got another descriptor, in between.
    pub(crate) fn narrow(&self, idle: &Arc<Descriptor>, name: Descriptor) {
        let mut present = self.descriptor.write().unwrap_or_else(PoisonError::into_inner);
        // A writer holds a reference of its own until it has marked the descriptor as dirty. So
        // with two references, one in the object and one of the caller, no write is in progress.
        if Arc::ptr_eq(&present, idle) && Arc::strong_count(idle) == 2 && !idle.is_dirty() {
            *present = Arc::new(name);
        }
    }

    /// Records that an operation uses the object.
    pub(crate) fn touch(&self) {
        self.used.store(true, Ordering::Relaxed);
    }

    /// Returns true if the object was used since the last call.
    pub(crate) fn take_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }

    /// Returns true if the object has an access control list; `None` if the store has not queried
    /// the list since the change time `changed`.
    pub(crate) fn has_access_list(&self, changed: FileTime) -> Option<bool> {
        let noted = self.access_list.load(Ordering::Relaxed);
        (noted & !1 == moment(changed)).then_some(noted & 1 == 1)
    }

    /// Records if the object has an access control list, as of the change time `changed`.
    pub(crate) fn note_access_list(&self, changed: FileTime, there: bool) {
        self.access_list.store(moment(changed) | u64::from(there), Ordering::Relaxed);
    }

    /// Returns true if the directory was found below the root in this period, which is not 0.
    pub(crate) fn was_inside(&self, period: u32) -> bool {
        self.inside.load(Ordering::Relaxed) == period
    }

    /// Records that the directory was found below the root in this period.
    pub(crate) fn note_inside(&self, period: u32) {
        self.inside.store(period, Ordering::Relaxed);
    }

    /// Returns true if the file may still have the verifier of an exclusive create.
    pub(crate) fn may_be_exclusive(&self) -> bool {
        !self.not_exclusive.load(Ordering::Relaxed)
    }

    /// Records that the file has no verifier of an exclusive create.
    pub(crate) fn note_not_exclusive(&self) {
        self.not_exclusive.store(true, Ordering::Relaxed);
    }
}

/// Encodes a change time in 63 bits, above a flag bit. The top bit is always set, so the result is
/// never zero.
fn moment(time: FileTime) -> u64 {
    (time.seconds.cast_unsigned().wrapping_shl(31) ^ u64::from(time.nanoseconds) << 1) | 1 << 63
}
