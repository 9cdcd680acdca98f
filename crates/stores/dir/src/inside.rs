//! The check that a directory is still below the root of the export. A local program may move the
//! directory out of the export, and a client that knows its id must not reach it there.
//!
//! The check follows the `..` entries from the directory to the root, which needs several system
//! calls for each step: too many for each request. So after a successful check the directory counts
//! as inside for a period of a few seconds, and so do the open directories on its path to the root.
//! Other objects are not checked, because the kernel does not report the locations of their names.
//!
//! A directory that is covered by a mounted file system also counts as outside.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use leasehold_fs::{FileType, FsError, ObjectId};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use crate::attributes::is_elsewhere;
use crate::errors::meaning;
use crate::object::{Descriptor, Object, Reach};
use crate::volume::{NAME, Volume};

/// The maximum depth of a directory: larger than the number of names in a path of 4,096 bytes.
const ABOVE_MAX: usize = 4096;

/// The directories that count as below the root without another check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Believed {
    /// The directories that were found below the root in the current period.
    Recent,
    /// Only the root.
    Nobody,
}

impl Volume {
    /// Starts a new period.
    pub(crate) fn doubt_all(&self) {
        self.period.fetch_add(1, Ordering::Relaxed);
    }

    /// Checks once in each period that a directory is still below the root; closes the directory if
    /// it is not. May leave this thread acting as the server.
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

    /// Returns true if another file system is mounted on a directory, or on a directory above it. A
    /// client that has the directory's id must then look the name up again.
    fn is_covered(&self, directory: &Object) -> bool {
        if directory.id == self.root.id || self.acting.as_server().is_err() {
            return false;
        }
        let path = self.kernels_path(&*directory.descriptor());
        path.is_some_and(|path| is_elsewhere(&*self.root.descriptor(), &path, self.mount))
    }

    /// Follows `..` from a directory to the root; returns [`FsError::Stale`] if the path does not
    /// reach the root.
    pub(crate) fn climb(&self, directory: &Arc<Object>, believed: Believed) -> Result<(), FsError> {
        self.acting.as_server()?;
        // Read the period before the climb. If a directory moves while the climb is in progress,
        // the climb may miss the move, but then the next period checks the directory again.
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
                // The server acts as the owner of the directory, and even the owner may lack search
                // permission. So use the recorded parent directory instead of `..`.
                Err(Errno::ACCESS) => self.recorded_parent(&id).ok_or(FsError::Access)?,
                Err(errno) => return Err(meaning(errno)),
            };
            // If the climb leaves the mount at its root, the query fails because the directory is
            // on another mount: the directory is then outside.
            let is_other = |error| if error == FsError::Access { FsError::Stale } else { error };
            self.attributes_of(&*descriptor).map_err(is_other)?;
            let above = self.handles.of(&*descriptor).map_err(meaning)?;
            // The topmost directory is its own parent: the climb did not meet the root.
            if above == id {
                break;
            }
            id = above;
        }
        Err(FsError::Stale)
    }

    /// Returns the recorded directory of an object, if the recorded name still leads to the object.
    fn recorded_parent(&self, id: &ObjectId) -> Option<Arc<Descriptor>> {
        // The next steps of the climb check that the recorded parent itself is inside.
        let (above, name) = self.recorded_place(id)?;
        (self.handles.at(&*above, &name) == Ok(*id)).then_some(above)
    }
}
