//! Whether a directory still is below the root: a local program may move it out of the export, and
//! whoever knows its id from before must not reach it there.
//!
//! What leads from a directory to the root are its `..`, a few system calls for each, too many for
//! each request. So a directory that was found below the root is believed to be there for a period
//! of a few seconds, and so are the directories that led up from it, as far as they are open.
//! Of other objects nobody can tell: the kernel does not say where their names are.
//!
//! A directory that something is mounted on is not below the root either, as long as it is covered.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use leasehold_fs::{FileType, FsError, ObjectId};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use crate::attributes::is_elsewhere;
use crate::errors::meaning;
use crate::object::{Descriptor, Object, Reach};
use crate::volume::{NAME, Volume};

/// So many directories may be above one: more than a path can name, for it has 4,096 bytes.
const ABOVE_MAX: usize = 4096;

/// Who is believed to be below the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Believed {
    /// Directories that were found there in this period.
    Recent,
    /// The root alone.
    Nobody,
}

impl Volume {
    /// Begins a new period.
    pub(crate) fn doubt_all(&self) {
        self.period.fetch_add(1, Ordering::Relaxed);
    }

    /// Looks whether a directory is still below the root, once in a period; lets go of it when it
    /// is not. May leave this thread acting as the server.
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

    /// Returns true if another file system is mounted on a directory, or on a directory above: a client
    /// that knows the directory from before must look the name up again.
    fn is_covered(&self, directory: &Object) -> bool {
        if directory.id == self.root.id || self.acting.as_server().is_err() {
            return false;
        }
        let path = self.kernels_path(&*directory.descriptor());
        path.is_some_and(|path| is_elsewhere(&*self.root.descriptor(), &path, self.mount))
    }

    /// Goes up from a directory to the root; [`FsError::Stale`] when it does not get there.
    pub(crate) fn climb(&self, directory: &Arc<Object>, believed: Believed) -> Result<(), FsError> {
        self.acting.as_server()?;
        // Before the way is gone: what is moved behind us is seen in the next period.
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
                // One that even its owner may not search, when that is who we are.
                Err(Errno::ACCESS) => self.recorded_parent(&id).ok_or(FsError::Access)?,
                Err(errno) => return Err(meaning(errno)),
            };
            // Above the mount's root is another mount.
            let is_other = |error| if error == FsError::Access { FsError::Stale } else { error };
            self.attributes_of(&*descriptor).map_err(is_other)?;
            let above = self.handles.of(&*descriptor).map_err(meaning)?;
            // Above the highest of all is itself.
            if above == id {
                break;
            }
            id = above;
        }
        Err(FsError::Stale)
    }

    /// The directory that has an object under the name that is kept in mind.
    fn recorded_parent(&self, id: &ObjectId) -> Option<Arc<Descriptor>> {
        // Whether it is inside itself shows further up.
        let (above, name) = self.recorded_place(id)?;
        (self.handles.at(&*above, &name) == Ok(*id)).then_some(above)
    }
}
