//! The check that a directory is still below the root. A local program may move it out of the
//! export, and a client with its id must not reach it there.
//!
//! The `..` entries lead from a directory to the root; the check needs several system calls for
//! each, too many for each request. So a directory that was found below the root counts as inside
//! for a period of a few seconds, and so do the open directories on its path to the root. For other
//! objects there is no check: the kernel does not provide the locations of their names.
//!
//! A covered directory, on which a file system is mounted, does not count as below the root,
//! either.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use leasehold_fs::{FileType, FsError, ObjectId};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use crate::attributes::is_elsewhere;
use crate::errors::meaning;
use crate::object::{Descriptor, Object, Reach};
use crate::volume::{NAME, Volume};

/// The maximum depth of a directory: more than a path of 4,096 bytes can name.
const ABOVE_MAX: usize = 4096;

/// The directories that count as below the root without a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Believed {
    /// Directories that were found there in this period.
    Recent,
    /// Only the root.
    Nobody,
}

impl Volume {
    /// Starts a new period.
    pub(crate) fn doubt_all(&self) {
        self.period.fetch_add(1, Ordering::Relaxed);
    }

    /// Checks that a directory is still below the root, once in a period; closes it if it is not.
    /// May leave this thread acting as the server.
    pub(crate) fn must_be_inside(&self, object: &Arc<Object>) -> Result<(), FsError> {
        if object.file_type != FileType::Directory
            || object.was_inside(self.period.load(Ordering::Relaxed))
        {
            return Ok(());
        }
        let inside = if self.is_covered(object) {
            Err(FsError::Stale)
        } else {
            self.climb(object, Believed::Recent)
        };
        if inside == Err(FsError::Stale) {
            self.descriptors.remove(object);
            if let Some(index) = &self.index {
                index.remove(&object.id);
            }
        }
        inside
    }

    /// Returns true if another file system is mounted on a directory, or on a directory above: a
    /// client with its id must look the name up again.
    fn is_covered(&self, directory: &Object) -> bool {
        if directory.id == self.root.id || self.acting.as_server().is_err() {
            return false;
        }
        let path = self.kernels_path(&*directory.descriptor());
        path.is_some_and(|path| is_elsewhere(&*self.root.descriptor(), &path, self.mount))
    }

    /// Climbs from a directory to the root; returns [`FsError::Stale`] if it does not reach the
    /// root.
    pub(crate) fn climb(&self, directory: &Arc<Object>, believed: Believed) -> Result<(), FsError> {
        self.acting.as_server()?;
        // Read the period before the climb: the next period detects a move behind the climb.
        let period = self.period.load(Ordering::Relaxed);
        let mut id = directory.id;
        let mut descriptor = directory.descriptor();
        let mut passed = vec![Arc::clone(directory)];
        for _ in 0..ABOVE_MAX {
            let open = self.open_object(&id);
            let is_believed = believed == Believed::Recent
                && open.as_ref().is_some_and(|open| open.was_inside(period));
            if id == self.root.id || is_believed {
                passed.iter().chain(&open).for_each(|object| object.note_inside(period));
                return Ok(());
            }
            passed.extend(open);
            descriptor = match openat(&*descriptor, c"..", NAME | OFlags::DIRECTORY, Mode::empty())
            {
                Ok(above) => Arc::new(Descriptor::new(above, Reach::Name)),
                // Even the owner may not search this directory, and the server acts as the owner.
                Err(Errno::ACCESS) => self.recorded_parent(&id).ok_or(FsError::Access)?,
                Err(errno) => return Err(meaning(errno)),
            };
            // The directory above the root of the mount is on another mount.
            let is_other = |error| if error == FsError::Access { FsError::Stale } else { error };
            self.attributes_of(&*descriptor).map_err(is_other)?;
            let above = self.handles.of(&*descriptor).map_err(meaning)?;
            // The parent of the topmost directory is the directory itself.
            if above == id {
                break;
            }
            id = above;
        }
        Err(FsError::Stale)
    }

    /// Returns the directory of an object, if the recorded name is still right.
    fn recorded_parent(&self, id: &ObjectId) -> Option<Arc<Descriptor>> {
        // The next steps of the climb check that the parent itself is inside.
        let (above, name) = self.recorded_place(id)?;
        (self.handles.at(&*above, &name) == Ok(*id)).then_some(above)
    }
}
