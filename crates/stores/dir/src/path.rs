//! The path of an object, for reports to people.

use std::os::fd::{AsFd, OwnedFd};

use leasehold_fs::ObjectId;
use rustix::fs::readlinkat;

use crate::volume::Volume;

impl Volume {
    /// Returns a current path from the root to an object. The kernel knows the name with which the
    /// object was opened, if it was opened by a name. May leave this thread acting as the server.
    pub(crate) fn path(&self, id: &ObjectId) -> Option<Vec<u8>> {
        if *id == self.root.id {
            return Some(Vec::new());
        }
        let object = self.object(id).ok()?;
        let path = self.kernels_path(&*object.descriptor())?;
        self.acting.as_server().ok()?;
        // The path may belong to a name that was removed, or may be no path at all.
        (self.handles.at(&*self.root.descriptor(), &path) == Ok(*id)).then_some(path)
    }

    /// Returns the path from the root by which the kernel knows an open directory, even if another
    /// file system is mounted on the path.
    pub(crate) fn kernels_path(&self, descriptor: impl AsFd) -> Option<Vec<u8>> {
        let root = self.root.descriptor();
        let (top, whole) = (self.link_of(&*root)?, self.link_of(descriptor)?);
        // Only the path `/` ends with a slash.
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
