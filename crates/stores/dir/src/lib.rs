//! The store over a local directory, on Linux.
//!
//! An object's id is the kernel's own handle of it, so it stays good across rename and restart.
//! With the power to do so the store opens objects by handle and lets the kernel check each
//! operation as its caller; as an ordinary user it keeps in mind where objects are, searches for
//! what others moved, and acts as that user for everybody.
//!
//! Nothing leads out of the export: no symbolic link is followed, `..` of the root is the root,
//! a name that something is mounted on leads to an empty placeholder, and a directory that was moved
//! out is refused.
//!
//! What the shell has to do once: take the process' umask away (`umask(0)`), so that files get
//! the modes that clients ask for, and raise the limit of descriptors.

mod attributes;
mod buffers;
mod create;
mod crossing;
mod descriptors;
mod errors;
mod file_system;
mod guards;
mod handle;
mod identity;
mod index;
mod inside;
mod layout;
mod listing;
mod locks;
mod mounts;
mod names;
mod object;
mod origin;
mod path;
mod permissions;
mod placeholder;
mod read;
mod search;
mod setattr;
mod store;
mod sync;
mod sys;
#[cfg(test)]
mod tests;
mod unsettled;
mod volume;
mod witness;
mod write;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use leasehold_fs::{Blocking, Disturbance, FsError, ObjectId, Verifier};
use rustix::io::Errno;

pub use crate::crossing::{Below, Crossing, Numbers};
pub use crate::errors::descriptors_lacked;
pub use crate::layout::LAYOUT;
pub use crate::origin::Origin;
pub use crate::sync::{Extent, SyncCounts, Syncer};

use crate::sync::{Counting, Kernel};
use crate::volume::Volume;

/// A local directory as a store.
pub struct DirStore {
    volume: Arc<Volume>,
    done: Arc<SyncCounts>,
}

/// What a [`DirStore`] is given.
pub struct Options {
    /// Where work goes that blocks.
    pub blocking: Arc<dyn Blocking>,
    /// Different for each start of the server, or what [`DirStore::settle`] of the one before gave.
    pub verifier: Verifier,
    /// What an answer promises.
    pub durability: Durability,
    /// How many descriptors the store may keep open; while requests run it uses a few more.
    pub descriptors_max: usize,
    /// How objects are found again.
    pub handles: HandleSource,
}

/// What an answer promises about stable storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// What must be stable is on the disk before it is answered.
    Disk,
    /// Nothing is synced; a crash of the machine loses what the kernel had not written yet.
    Memory,
    /// What a COMMIT asks for is on the disk, and all else after [`DirStore::sync_all`]: a log
    /// keeps it until then.
    Log,
}

/// How objects are found again by their ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandleSource {
    /// By the kernel's handles where it opens them for us, else by names.
    Probe,
    /// By names, kept in mind and searched for.
    Names,
}

/// Why a directory cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The directory cannot be opened.
    Root(Errno),
    /// Its file system has no handles.
    NoHandles(Errno),
    /// Its file system's handles are longer than an id.
    LongHandles,
    /// `/proc/self/fd` is not there.
    NoProc(Errno),
    /// The process can act as other users but would keep its powers then.
    Powers(Errno),
}

impl DirStore {
    /// What its syncs came to so far.
    #[must_use]
    pub fn syncs(&self) -> &SyncCounts {
        &self.done
    }

    /// Opens a directory to be served.
    ///
    /// Every thread that serves a request acts on files as the caller of its last request until
    /// the next. The calling thread keeps its identity.
    ///
    /// # Errors
    /// As [`OpenError`] says.
    pub fn open(path: &Path, options: Options) -> Result<Self, OpenError> {
        Self::with_syncer(path, options, Box::new(Kernel::of(path)))
    }

    /// The same, with other system calls to put data on stable storage by.
    ///
    /// # Errors
    /// As [`OpenError`] says.
    pub fn with_syncer(
        path: &Path,
        options: Options,
        syncer: Box<dyn Syncer>,
    ) -> Result<Self, OpenError> {
        let done = Arc::new(SyncCounts::default());
        let syncer = Box::new(Counting { syncer, done: Arc::clone(&done) });
        Ok(Self { volume: Arc::new(Volume::open(path, options, syncer, None)?), done })
    }

    /// The same for a file system below, with a tag in all ids. Its syncs count as syncs of this store,
    /// because the file system is closed and opened again.
    fn open_below(
        &self,
        path: &Path,
        options: Options,
        tag: handle::Tag,
    ) -> Result<Self, OpenError> {
        let (syncer, done) = (Box::new(Kernel::of(path)), Arc::clone(&self.done));
        let syncer = Box::new(Counting { syncer, done });
        let volume = Arc::new(Volume::open(path, options, syncer, Some(tag))?);
        Ok(Self { volume, done: Arc::default() })
    }

    /// Lets the owner of a call wait for stable storage in place of the store
    /// ([`leasehold_fs::unsettled`]) from now on, until the store loses data. A store under another
    /// store must not do so, since the upper store takes a finished change for a stable one.
    pub fn hand_over_waits(&self) {
        self.volume.syncs.hands_over.store(true, Ordering::Relaxed);
    }

    /// Closes files that were open for writing and were not written since the last call, so that
    /// programs on this machine can be run from them, and watches directories no more that were
    /// not changed since. Directories are asked anew whether they are still in the export. To be
    /// called every few seconds.
    pub fn close_idle(&self) {
        self.volume.close_idle();
    }

    /// Has objects guarded against programs of this machine from now on, and tells of each program
    /// that is to open one, or has changed names in one: who opens waits until
    /// [`Store::guard`](leasehold_fs::Store::guard) lets it go on. To be run on a thread of its own;
    /// comes back after [`DirStore::end_watch`].
    ///
    /// # Errors
    /// What the kernel does not give.
    pub fn watch(&self, tell: &dyn Fn(ObjectId, Disturbance)) -> Result<(), Errno> {
        self.volume.watch_programs(tell)
    }

    /// How many guards were refused, as the store or the kernel was short of a resource: a client
    /// that asked for a lease then may not cache.
    #[must_use]
    pub fn refused_guards(&self) -> u64 {
        self.volume.guards.refused()
    }

    /// Has [`DirStore::watch`] come back.
    pub fn end_watch(&self) {
        self.volume.guards.end();
    }

    /// Puts all that was written on stable storage, once no more requests come. Gives the verifier
    /// that the next start may go on with: none, where something may be lost or be on its way.
    #[must_use]
    pub fn settle(&self) -> Option<Verifier> {
        self.volume.settle()
    }

    /// Puts on stable storage all changes that an earlier server made in this boot of the machine;
    /// sleeps.
    ///
    /// # Errors
    /// The error that the kernel reports, and [`FsError::ReadOnly`] on a read-only file system: a
    /// file system that gave up its journal is read-only, and syncs of it can succeed without the
    /// changes.
    pub fn sync_earlier_changes(&self) -> Result<(), FsError> {
        self.volume.sync_earlier_changes()
    }

    /// Puts on the disk all that was done before; sleeps.
    ///
    /// # Errors
    /// [`FsError::Io`] when something may be lost; the verifier is another one then.
    pub fn sync_all(&self) -> Result<(), FsError> {
        self.volume.sync_all()
    }

    /// The UUID of the file system, where the kernel (Linux 6.9 or later) tells it.
    #[must_use]
    pub fn volume(&self) -> Option<[u8; 16]> {
        self.volume.uuid
    }

    /// Whether a COMMIT of a new file takes its name along.
    #[must_use]
    pub fn commits_names(&self) -> bool {
        self.volume.syncs_names
    }

    /// Whether the kernel opens objects by handle, so that they are found wherever they were
    /// moved.
    #[must_use]
    pub fn opens_by_handle(&self) -> bool {
        self.volume.index.is_none()
    }

    /// Whether operations are done as their callers, not as the server's user.
    #[must_use]
    pub fn acts_as_callers(&self) -> bool {
        self.volume.acting == identity::Acting::Caller
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root(errno) => write!(f, "the directory cannot be opened: {errno}"),
            Self::NoHandles(errno) => {
                write!(
                    f,
                    "its file system gives no handles to name files by ({errno}), as /proc does, \
                     and overlayfs unless it is mounted with `nfs_export=on`: serve a directory \
                     of a disk's file system"
                )
            }
            Self::LongHandles => {
                f.write_str("its file system's handles are too long for a version 2 handle")
            }
            Self::NoProc(errno) => write!(f, "/proc/self/fd is needed but not there: {errno}"),
            Self::Powers(errno) => {
                write!(f, "callers would act with the server's capabilities (securebits?): {errno}")
            }
        }
    }
}

impl std::error::Error for OpenError {}
