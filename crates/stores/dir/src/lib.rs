//! The store over a local directory, on Linux.
//!
//! The id of an object is the kernel's own handle of the object, so the id stays valid across
//! renames and restarts. With sufficient privileges the store opens objects by handle, and the
//! kernel checks each operation under the identity of the caller. As an ordinary user the store
//! remembers the names of objects, searches for objects that other programs moved, and acts as that
//! user for all callers.
//!
//! No name leads out of the export: the store follows no symbolic link, `..` of the root is the
//! root, a mount point appears as an empty placeholder, and the store refuses access to a directory
//! that a local program moved out of the export.
//!
//! The shell must do two things once: clear the umask of the process (`umask(0)`), so that files
//! get the modes that clients request, and raise the limit of descriptors.

mod attributes;
mod buffers;
mod change_detector;
mod create;
mod crossing;
mod descriptors;
mod errors;
mod file_system;
mod guards;
mod handle;
mod held;
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
mod ranges;
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
mod write;
mod xattrs;

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

/// The parameters of a [`DirStore`].
pub struct Options {
    /// The threads for work that blocks.
    pub blocking: Arc<dyn Blocking>,
    /// The write verifier: a new value for each start of the server, or the value that the previous
    /// server's [`DirStore::settle`] returned.
    pub verifier: Verifier,
    /// The storage to which a stable reply refers.
    pub durability: Durability,
    /// The maximum number of descriptors that the store keeps open; while requests run it uses a
    /// few more.
    pub descriptors_max: usize,
    /// The method by which the store finds objects.
    pub handles: HandleSource,
}

/// The storage to which a stable reply refers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Data that must be stable is on the disk before the reply.
    Disk,
    /// The store syncs nothing; a crash of the machine loses data that the kernel has not written
    /// yet.
    Memory,
    /// Data of a COMMIT is on the disk before the reply, and all other data after
    /// [`DirStore::sync_all`]: a write-ahead log keeps the other data until then.
    /// [`DirStore::sync_all`]: a write-ahead log keeps it until then.
    Log,
}

/// The method by which the store finds objects by their ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandleSource {
    /// By the kernel's handles if the kernel opens them for this process, otherwise by names.
    Probe,
    /// By names, which the store remembers or searches for.
    Names,
}

/// The reason why a directory cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The directory cannot be opened.
    Root(Errno),
    /// The file system of the directory has no handles.
    NoHandles(Errno),
    /// The handles of the file system are longer than an id.
    LongHandles,
    /// `/proc/self/fd` cannot be opened.
    NoProc(Errno),
    /// The process can act as other users, but would then keep its privileges.
    Powers(Errno),
}

impl DirStore {
    /// Returns the counts of the store's syncs so far.
    #[must_use]
    pub fn syncs(&self) -> &SyncCounts {
        &self.done
    }

    /// Opens a directory to serve it.
    ///
    /// Each thread that serves a request acts on files as the caller of its last request until the
    /// next request. The calling thread keeps its identity.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(path: &Path, options: Options) -> Result<Self, OpenError> {
        Self::with_syncer(path, options, Box::new(Kernel::of(path)))
    }

    /// Like `open`, with a replacement for the system calls that sync data.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn with_syncer(
        path: &Path,
        options: Options,
        syncer: Box<dyn Syncer>,
    ) -> Result<Self, OpenError> {
        let done = Arc::new(SyncCounts::default());
        let syncer = Box::new(Counting { syncer, done: Arc::clone(&done) });
        Ok(Self { volume: Arc::new(Volume::open(path, options, syncer, None)?), done })
    }

    /// Like `open`, for a file system below this one, whose ids all contain a tag. Its syncs count
    /// as syncs of this store, because the store may close the file system and open it again.
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

    /// From now on, lets the owner of a call wait for stable storage in place of the store
    /// ([`leasehold_fs::unsettled`]), until the store loses data. A store that another store uses
    /// must not do so, because the upper store counts a finished change as stable.
    pub fn hand_over_waits(&self) {
        self.volume.syncs.hands_over.store(true, Ordering::Relaxed);
    }

    /// Closes descriptors for writing that no operation has used since the last call, so that
    /// programs of this machine can execute the files. Removes the watches of directories that have
    /// not changed since the last call. After this call the store checks again that directories are
    /// still in the export. The server calls this function every few seconds.
    pub fn close_idle(&self) {
        self.volume.close_idle();
    }

    /// Starts to guard objects against programs of this machine, and reports each program that
    /// opens a guarded file, or has changed names in a guarded directory. A program that opens a
    /// guarded file waits until [`LocalGuard::guard`](leasehold_fs::LocalGuard::guard) releases the guard.
    /// Runs on a thread of its own until [`DirStore::end_watch`].
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn watch(&self, tell: &dyn Fn(ObjectId, Disturbance)) -> Result<(), Errno> {
        self.volume.watch_programs(tell)
    }

    /// Returns the number of guards that the store refused because it or the kernel lacked a
    /// resource. A client that requested a lease on such an object must not cache.
    #[must_use]
    pub fn refused_guards(&self) -> u64 {
        self.volume.guards.refused()
    }

    /// Makes [`DirStore::watch`] return.
    pub fn end_watch(&self) {
        self.volume.guards.end();
    }

    /// Syncs all written data, after the last request. Returns the write verifier with which the
    /// next start may continue; `None` if data may be lost or is not yet stable.
    #[must_use]
    pub fn settle(&self) -> Option<Verifier> {
        self.volume.settle()
    }

    /// Syncs all changes that an earlier server process made since the machine booted; sleeps.
    ///
    /// # Errors
    /// The error that the kernel reports, and [`FsError::ReadOnly`] on a read-only file system. A
    /// file system whose journal failed is read-only, and its syncs can succeed although the
    /// changes are lost.
    pub fn sync_earlier_changes(&self) -> Result<(), FsError> {
        self.volume.sync_earlier_changes()
    }

    /// Syncs all earlier changes to the disk; sleeps.
    ///
    /// # Errors
    /// [`FsError::Io`] if data may be lost; the write verifier then changes.
    pub fn sync_all(&self) -> Result<(), FsError> {
        self.volume.sync_all()
    }

    /// Returns the UUID of the file system, if the kernel provides it (Linux 6.9 or later).
    #[must_use]
    pub fn volume(&self) -> Option<[u8; 16]> {
        self.volume.uuid
    }

    /// Returns true if a COMMIT of a new file also syncs its name.
    #[must_use]
    pub fn commits_names(&self) -> bool {
        self.volume.syncs_names
    }

    /// Returns true if the kernel opens objects by handle, so that the store finds an object after
    /// any move.
    #[must_use]
    pub fn opens_by_handle(&self) -> bool {
        self.volume.index.is_none()
    }

    /// Returns true if operations run under the identity of their callers; false if they run under
    /// the identity of the server's user.
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
                    "its file system provides no file handles ({errno}), as /proc, and as \
                     overlayfs unless it is mounted with `nfs_export=on`: serve a directory \
                     of a disk's file system"
                )
            }
            Self::LongHandles => {
                f.write_str("its file system's handles are too long for a version 2 handle")
            }
            Self::NoProc(errno) => write!(f, "/proc/self/fd is needed but not there: {errno}"),
            Self::Powers(errno) => {
                write!(f, "callers would keep the server's capabilities; check securebits: {errno}")
            }
        }
    }
}

impl std::error::Error for OpenError {}
