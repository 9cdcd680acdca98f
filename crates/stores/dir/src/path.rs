//! Finds the path of an object, for reports to people.

use std::os::fd::{AsFd, OwnedFd};

use leasehold_fs::ObjectId;
use rustix::fs::readlinkat;

use crate::volume::Volume;

impl Volume {
    /// Returns the current path of an object below the root. The kernel knows the name by which the
    /// object was opened, if it was opened by a name. May leave this thread acting as the server.
    pub(crate) fn path(&self, id: &ObjectId) -> Option<Vec<u8>> {
        if *id == self.root.id {
            return Some(Vec::new());
        }
        let object = self.object(id).ok()?;
        let path = self.kernels_path(&*object.descriptor())?;
        self.acting.as_server().ok()?;
        // The kernel may report the path of a removed name, or a text that is no path. So check
        // that the path leads to the object.
        (self.handles.at(&*self.root.descriptor(), &path) == Ok(*id)).then_some(path)
    }

    /// Returns the path below the root by which the kernel knows an open directory, even if another
    /// file system is mounted on the path.
    pub(crate) fn kernels_path(&self, descriptor: impl AsFd) -> Option<Vec<u8>> {
        let root = self.root.descriptor();
        let (top, whole) = (self.link_of(&*root)?, self.link_of(descriptor)?);
        // Only the path `/` ends with a slash; remove the slash so that the prefix below matches.
        let top = top.strip_suffix(b"/").unwrap_or(&top);
        Some(whole.strip_prefix(top)?.strip_prefix(b"/")?.to_vec())
    }

    fn link_of(&self, descriptor: impl AsFd) -> Option<Vec<u8>> {
        link_of(&self.own_descriptors, descriptor)
    }
}

/// Returns the kernel's path of an open object; `own` is the directory of the process's
/// descriptors.
pub(crate) fn link_of(own: &OwnedFd, descriptor: impl AsFd) -> Option<Vec<u8>> {
    let link = readlinkat(own, Volume::own_name(descriptor), Vec::new()).ok()?;
    Some(link.into_bytes())
}
