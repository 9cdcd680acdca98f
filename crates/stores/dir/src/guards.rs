//! The local-access interlock between programs of this machine and clients that hold leases.
//!
//! - Data: the kernel's own leases. If a program opens a file in conflict with a client's lease,
//!   its `open` waits until the server releases the kernel's lease, or until the kernel's time
//!   limit (`/proc/sys/fs/lease-break-time`, 45 s). The kernel refuses the lease if a program
//!   already has the file open.
//! - Names: the notifications that [`crate::change_detector`] also uses. They arrive only after
//!   the change.
//!
//! The store refuses and counts a guard for which a resource is missing: an entry in this table, or
//! a watch or memory of the kernel. The client then gets no lease, so no client caches without the
//! guard. An entry becomes free when its file is removed, or when the thread finds that no lease
//! needs the guard any more.
//!
//! If the store itself opened a guarded file again, its `open` would wait as well. So while a file
//! is guarded, all operations on the file use the one descriptor that has the kernel's lease. An
//! operation that needs a wider access mode first releases the lease.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leasehold_fs::{Disturbance, FileType, FsError, Guard, ObjectId};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::Timespec;
use rustix::io::Errno;

use crate::change_detector::Hold;
use crate::locks::lock;
use crate::object::{Descriptor, Object, Reach};
use crate::sys;
use crate::volume::Volume;

/// The interval at which the thread asks the owner of the leases which guards it still needs.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// The interval of these queries while the store refuses guards.
const LOOK_SOON: Duration = Duration::from_secs(1);

/// The guards, and the thread that receives notifications.
pub(crate) struct Guards {
    /// The kernel's id of the thread that receives notifications; 0 if no thread runs.
    thread: AtomicI32,
    ended: AtomicBool,
    /// The event descriptor that wakes the thread for work other than the kernel's notifications.
    bell: Option<OwnedFd>,
    files_max: usize,
    files: Mutex<Files>,
    /// The number of guards that the store refused because a resource was missing.
    refused: AtomicU64,
    /// True if a guard was refused since the thread last looked for files that need no guard.
    is_short: AtomicBool,
}

#[derive(Default)]
struct Files {
    guarded: HashMap<ObjectId, Guarded>,
    by_number: HashMap<i32, ObjectId>,
}

/// A file on which the server holds a lease of the kernel.
struct Guarded {
    descriptor: Arc<Descriptor>,
    kind: i32,
}

impl Guards {
    /// Creates a table of guards for up to `files_max` files.
    pub(crate) fn new(files_max: usize) -> Self {
        Self {
            thread: AtomicI32::new(0),
            ended: AtomicBool::new(false),
            bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok(),
            files_max,
            files: Mutex::default(),
            refused: AtomicU64::new(0),
            is_short: AtomicBool::new(false),
        }
    }

    /// Returns true if a thread receives notifications, so that guards work.
    pub(crate) fn is_told(&self) -> bool {
        self.thread.load(Ordering::SeqCst) != 0
    }

    /// Wakes the thread.
    pub(crate) fn ring(&self) {
        if let Some(bell) = &self.bell {
            // The write fails only if the counter is at its maximum of 2^64 - 2, and the thread is
            // then awake anyway: ignore the error.
            let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
        }
    }

    /// Makes the thread that receives notifications end.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        self.ring();
    }

    /// Returns the descriptor that holds the kernel's lease on a file.
    pub(crate) fn descriptor(&self, id: &ObjectId) -> Option<Arc<Descriptor>> {
        if !self.is_told() {
            return None;
        }
        lock(&self.files).guarded.get(id).map(|guarded| Arc::clone(&guarded.descriptor))
    }

    /// Releases the kernel's lease on a file, if there is one.
    pub(crate) fn release(&self, id: &ObjectId) {
        if !self.is_told() {
            return;
        }
        let mut files = lock(&self.files);
        if let Some(Guarded { descriptor, .. }) = files.guarded.remove(id) {
            files.by_number.remove(&descriptor.as_fd().as_raw_fd());
            // The kernel may have broken the lease already, so an error is ignored.
            let _ = sys::set_lease(descriptor.as_fd(), sys::NO_LEASE);
        }
    }

    /// Returns true if a file has a guard of this kind or a stronger kind.
    fn has(&self, id: &ObjectId, kind: i32) -> bool {
        let files = lock(&self.files);
        files.guarded.get(id).is_some_and(|guarded| {
            // If the kernel has broken the lease, or is breaking it, its kind differs: such a lease
            // does not guard the file any more.
            let is_whole = sys::lease(guarded.descriptor.as_fd()) == Ok(guarded.kind);
            is_whole && (guarded.kind == kind || guarded.kind == sys::WRITE_LEASE)
        })
    }

    /// Returns the number of guards that the store refused because a resource was missing.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Counts a refused guard, and makes the thread look for unneeded guards soon.
    fn refuse(&self) -> FsError {
        self.refused.fetch_add(1, Ordering::Relaxed);
        if !self.is_short.swap(true, Ordering::SeqCst) {
            self.ring();
        }
        FsError::Delay
    }

    /// Returns the time until the thread looks for unneeded guards again.
    fn look_again(&self) -> Duration {
        if self.is_short.load(Ordering::SeqCst) { LOOK_SOON } else { LOOK_AGAIN }
    }

    /// Returns the guarded files, each with its descriptor.
    pub(crate) fn all(&self) -> Vec<(ObjectId, Arc<Descriptor>)> {
        let files = lock(&self.files);
        let guarded = files.guarded.iter();
        guarded.map(|(id, guarded)| (*id, Arc::clone(&guarded.descriptor))).collect()
    }

    /// Takes a lease of the kernel on a file.
    fn take(&self, id: &ObjectId, descriptor: Arc<Descriptor>, kind: i32) -> Result<(), FsError> {
        let thread = self.thread.load(Ordering::SeqCst);
        let mut files = lock(&self.files);
        if files.guarded.len() >= self.files_max {
            return Err(self.refuse());
        }
        let number = descriptor.as_fd().as_raw_fd();
        let taken = sys::tell_of_lease(descriptor.as_fd(), thread)
            .and_then(|()| sys::set_lease(descriptor.as_fd(), kind));
        match taken {
            Ok(()) => {
                files.by_number.insert(number, *id);
                files.guarded.insert(*id, Guarded { descriptor, kind });
                Ok(())
            }
            // A program has the file open in conflict with the lease, so the client must not get
            // its lease now.
            Err(Errno::AGAIN) => Err(FsError::Delay),
            // The kernel has no memory or descriptor for the lease: refuse the guard.
            Err(Errno::NOLCK | Errno::NOMEM | Errno::MFILE | Errno::NFILE | Errno::NOBUFS) => {
                Err(self.refuse())
            }
            // The file system does not support leases, or the file belongs to another user. The
            // file then has no guard.
            Err(_) => Ok(()),
        }
    }

    /// Returns the guarded files that programs wait to open: the file of one notification, or all
    /// guarded files if notifications were lost.
    fn wanted(&self, number: Option<i32>) -> Vec<(ObjectId, Disturbance)> {
        let files = lock(&self.files);
        let is_wanted = |id: &ObjectId| {
            let Guarded { descriptor, kind } = files.guarded.get(id)?;
            match sys::lease(descriptor.as_fd()) {
                Ok(now) if now == *kind => None,
                Ok(sys::READ_LEASE) => Some((*id, Disturbance::Reads)),
                Ok(_) | Err(_) => Some((*id, Disturbance::Changes)),
            }
        };
        match number {
            Some(number) => files.by_number.get(&number).and_then(is_wanted).into_iter().collect(),
            None => files.guarded.keys().filter_map(is_wanted).collect(),
        }
    }
}

impl Volume {
    /// See [`leasehold_fs::LocalGuard::guard`].
    pub(crate) fn guard(&self, object: &Object, guard: Guard) -> Result<(), FsError> {
        if !self.guards.is_told() {
            return Ok(());
        }
        match (object.file_type, guard) {
            (FileType::Regular, Guard::Nothing) => self.guards.release(&object.id),
            (FileType::Regular, Guard::Changes) => self.guard_data(object, sys::READ_LEASE)?,
            (FileType::Regular, Guard::Everything) => self.guard_data(object, sys::WRITE_LEASE)?,
            (FileType::Directory, Guard::Nothing) => self.change_detector.let_go(&object.id),
            (FileType::Directory, Guard::Changes | Guard::Everything) => {
                self.guard_names(object)?;
            }
            (
                FileType::BlockDevice
                | FileType::CharacterDevice
                | FileType::Symlink
                | FileType::Socket
                | FileType::Fifo,
                _,
            ) => {}
        }
        Ok(())
    }

    fn guard_data(&self, object: &Object, kind: i32) -> Result<(), FsError> {
        // The kernel grants a read lease only if no descriptor is open for writing, including
        // descriptors of this store. So release the old guard and the store's own descriptor for
        // writing first.
        if self.guards.has(&object.id, kind) {
            return Ok(());
        }
        self.guards.release(&object.id);
        if kind == sys::READ_LEASE {
            self.read_only(object);
        }
        let writes = object.descriptor().reach() == Reach::Write;
        let kind = if writes { sys::WRITE_LEASE } else { kind };
        let reach = if kind == sys::WRITE_LEASE { Reach::Write } else { Reach::Read };
        let descriptor = match self.opened(object, reach) {
            Ok(descriptor) => descriptor,
            Err(FsError::Delay) => return Err(FsError::Delay),
            // If the server cannot open the file for another reason, the file has no guard.
            Err(_) => return Ok(()),
        };
        self.acting.as_server()?;
        self.guards.take(&object.id, descriptor, kind)
    }

    /// Replaces a file's descriptor for writing by a descriptor for reading, if no write is in
    /// progress.
    fn read_only(&self, object: &Object) {
        let present = object.descriptor();
        if present.reach() == Reach::Write
            && !present.is_dirty()
            && let Ok(file) = self.reopen(object, &present, Reach::Read)
        {
            object.narrow(&present, Descriptor::new(file, Reach::Read));
        }
    }

    fn guard_names(&self, directory: &Object) -> Result<(), FsError> {
        let path = Self::own_path(&*directory.descriptor());
        self.acting.as_server()?;
        match self.change_detector.hold(&directory.id, &path) {
            Hold::First => self.guards.ring(),
            Hold::Another | Hold::Unknown => {}
            Hold::Short => return Err(self.guards.refuse()),
        }
        Ok(())
    }

    /// Releases the guard of an object that was removed or that is not open.
    pub(crate) fn guard_no_more(&self, id: &ObjectId) {
        self.guards.release(id);
        self.change_detector.let_go(id);
    }

    /// Releases the guard of an object that has lost its last name, because the guard would keep
    /// the object open. Does nothing if the object has got another name in the meantime.
    pub(crate) fn guard_gone(&self, id: &ObjectId) {
        let guarding = self.guards.descriptor(id);
        if guarding.is_none_or(|file| self.attributes_of(&*file) == Err(FsError::Stale)) {
            self.guard_no_more(id);
        }
    }

    /// Closes files that have lost their last name, even if a local program removed the name: as
    /// long as the server has a file open, the kernel cannot free its blocks.
    pub(crate) fn let_go_of_gone(&self) {
        for (id, descriptor) in self.guards.all() {
            if self.attributes_of(&*descriptor) == Err(FsError::Stale) {
                self.guards.release(&id);
            }
        }
        for object in self.descriptors.all() {
            if self.attributes(&object) == Err(FsError::Stale) {
                self.descriptors.remove(&object);
            }
        }
    }

    /// Reports programs that open guarded files or change guarded directories, until the watch
    /// ends; see [`crate::DirStore::watch`].
    pub(crate) fn watch_programs(&self, tell: &dyn Fn(ObjectId, Disturbance)) -> Result<(), Errno> {
        let (thread, signals) = sys::hear_of_leases()?;
        let Some(bell) = &self.guards.bell else { return Err(Errno::MFILE) };
        self.guards.thread.store(thread, Ordering::SeqCst);
        let mut looked = Instant::now();
        while !self.guards.ended.load(Ordering::SeqCst) {
            let mut waits =
                vec![PollFd::new(&signals, PollFlags::IN), PollFd::new(bell, PollFlags::IN)];
            let pause = Timespec::try_from(self.guards.look_again()).map_err(|_| Errno::INVAL)?;
            waits.extend(
                self.change_detector.held_queue().map(|queue| PollFd::new(queue, PollFlags::IN)),
            );
            match poll(&mut waits, Some(&pause)) {
                Ok(_) | Err(Errno::INTR) => self.tell_of_all(bell, &signals, tell),
                Err(errno) => return Err(errno),
            }
            if looked.elapsed() >= self.guards.look_again() {
                looked = Instant::now();
                self.guards.is_short.store(false, Ordering::SeqCst);
                self.let_go_of_gone();
                self.tell_of_idle(tell);
            }
        }
        self.guards.thread.store(0, Ordering::SeqCst);
        let mut files = lock(&self.guards.files);
        // Release each lease explicitly: the kernel's lease belongs to a descriptor, which an open
        // object may keep open.
        for guarded in files.guarded.values() {
            let _ = sys::set_lease(guarded.descriptor.as_fd(), sys::NO_LEASE);
        }
        *files = Files::default();
        Ok(())
    }
    fn tell_of_all(&self, bell: &OwnedFd, signals: &OwnedFd, tell: &dyn Fn(ObjectId, Disturbance)) {
        // The read fails if only the kernel's notifications woke the thread: ignore the error.
        let _ = rustix::io::read(bell, &mut [0; 8]);
        for directory in self.change_detector.strangers() {
            tell(directory, Disturbance::Changes);
        }
        loop {
            match sys::heard(signals.as_fd()) {
                Ok(number) => {
                    let wanted = self.guards.wanted(number);
                    wanted.into_iter().for_each(|(file, disturbance)| tell(file, disturbance));
                }
                Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }

    /// Reports all guarded objects, so that the owner of the leases can release the guards that it
    /// does not need.
    fn tell_of_idle(&self, tell: &dyn Fn(ObjectId, Disturbance)) {
        let files = self.guards.all().into_iter().map(|(id, _)| id);
        for object in files.chain(self.change_detector.held()) {
            tell(object, Disturbance::Nothing);
        }
    }
}
