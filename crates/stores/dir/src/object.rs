//! An object that is open, and its one descriptor.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use leasehold_base::units::FileTime;
use leasehold_fs::{FileType, ObjectId};

use crate::descriptors::Moment;
use crate::sync::Syncs;

/// What a descriptor can be used for, each for all that stands before it as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reach {
    /// To name the object (`O_PATH`).
    Name,
    /// To read, to list, and to sync.
    Read,
    /// To write.
    Write,
}

/// A descriptor of an object.
///
/// The kernel tells of lost data whoever had the file open. So one that was written by is synced
/// before it is closed, whatever it is closed for.
pub(crate) struct Descriptor {
    /// There until it is closed.
    file: Option<OwnedFd>,
    reach: Reach,
    dirty: AtomicBool,
    /// How many bytes were written since the kernel was last told to write.
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

    /// Notes that data of `object` was written. Not before it was: a sync in between would not
    /// have taken it along.
    pub(crate) fn soil(&self, syncs: &Arc<Syncs>, object: &ObjectId) {
        self.home.get_or_init(|| (Arc::clone(syncs), *object));
        self.dirty.store(true, Ordering::SeqCst);
        self.used.store(true, Ordering::SeqCst);
    }

    /// Whether nothing was written since the last time this was asked.
    pub(crate) fn take_idle(&self) -> bool {
        !self.used.swap(false, Ordering::SeqCst)
    }

    /// Notes that all written so far is about to be synced.
    pub(crate) fn clean(&self) {
        self.dirty.store(false, Ordering::SeqCst);
        self.catch_up();
    }

    /// Adds to what was written and the kernel has not been told to write; how many bytes that is.
    pub(crate) fn fall_behind(&self, bytes: u32) -> u64 {
        let bytes = u64::from(bytes);
        self.behind.fetch_add(bytes, Ordering::Relaxed) + bytes
    }

    /// Notes that the kernel is about to be told to write all of it.
    pub(crate) fn catch_up(&self) {
        self.behind.store(0, Ordering::Relaxed);
    }

    /// Whether data was written that no sync has begun for.
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

/// An object that is open. As long as it is, the kernel gives its number to no other.
pub(crate) struct Object {
    pub(crate) id: ObjectId,
    pub(crate) number: u64,
    pub(crate) file_type: FileType,
    /// When that began, told by the cache.
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

    /// The present descriptor.
    pub(crate) fn descriptor(&self) -> Arc<Descriptor> {
        Arc::clone(&self.descriptor.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes a descriptor that reaches further; gives back the one that is there afterwards.
    pub(crate) fn widen(&self, descriptor: Descriptor) -> Arc<Descriptor> {
        self.widen_to(Arc::new(descriptor))
    }

    /// The same with one that others have as well.
    pub(crate) fn widen_to(&self, descriptor: Arc<Descriptor>) -> Arc<Descriptor> {
        let mut present = self.descriptor.write().unwrap_or_else(PoisonError::into_inner);
        if present.reach < descriptor.reach {
            *present = descriptor;
        }
        Arc::clone(&present)
    }

    /// Takes a descriptor that only names the object in the place of `idle`, unless that has
    /// been written to or replaced in between.
    pub(crate) fn narrow(&self, idle: &Arc<Descriptor>, name: Descriptor) {
        let mut present = self.descriptor.write().unwrap_or_else(PoisonError::into_inner);
        // Writers soil a descriptor that they hold an own reference to.
        if Arc::ptr_eq(&present, idle) && Arc::strong_count(idle) == 2 && !idle.is_dirty() {
            *present = Arc::new(name);
        }
    }

    /// Notes a use.
    pub(crate) fn touch(&self) {
        self.used.store(true, Ordering::Relaxed);
    }

    /// Whether it was used since the last time this was asked.
    pub(crate) fn take_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }

    /// Whether there is an access list beside the mode bits, when that was seen at this change
    /// time.
    pub(crate) fn has_access_list(&self, changed: FileTime) -> Option<bool> {
        let noted = self.access_list.load(Ordering::Relaxed);
        (noted & !1 == moment(changed)).then_some(noted & 1 == 1)
    }

    /// Notes whether there is an access list.
    pub(crate) fn note_access_list(&self, changed: FileTime, there: bool) {
        self.access_list.store(moment(changed) | u64::from(there), Ordering::Relaxed);
    }

    /// Whether it was found below the root in this period, which is not 0.
    pub(crate) fn was_inside(&self, period: u32) -> bool {
        self.inside.load(Ordering::Relaxed) == period
    }

    /// Notes that it was.
    pub(crate) fn note_inside(&self, period: u32) {
        self.inside.store(period, Ordering::Relaxed);
    }

    /// Whether a verifier of an exclusive create may still stand at the file.
    pub(crate) fn may_be_exclusive(&self) -> bool {
        !self.not_exclusive.load(Ordering::Relaxed)
    }

    /// Notes that none does.
    pub(crate) fn note_not_exclusive(&self) {
        self.not_exclusive.store(true, Ordering::Relaxed);
    }
}

/// A change time in 63 bits above a free one, with a bit set so that it is never zero.
fn moment(time: FileTime) -> u64 {
    (time.seconds.cast_unsigned().wrapping_shl(31) ^ u64::from(time.nanoseconds) << 1) | 1 << 63
}
