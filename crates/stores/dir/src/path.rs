//! By which path an object is reached, for people to read.

use std::os::fd::{AsFd, OwnedFd};

use leasehold_fs::ObjectId;
use rustix::fs::readlinkat;

use crate::volume::Volume;

impl Volume {
    /// A path from the root that leads to an object right now: the kernel knows by which name it was
    /// opened, where that was by one. May leave this thread acting as the server.
    pub(crate) fn path(&self, id: &ObjectId) -> Option<Vec<u8>> {
        if *id == self.root.id {
            return Some(Vec::new());
        }
        let object = self.object(id).ok()?;
        let path = self.kernels_path(&*object.descriptor())?;
        self.acting.as_server().ok()?;
        // It may be the path of a name that was removed, or none at all.
        (self.handles.at(&*self.root.descriptor(), &path) == Ok(*id)).then_some(path)
    }

    /// The path from the root by which the kernel knows an open directory, be something mounted on
    /// the path or not.
    pub(crate) fn kernels_path(&self, descriptor: impl AsFd) -> Option<Vec<u8>> {
        let root = self.root.descriptor();
        let (top, whole) = (self.link_of(&*root)?, self.link_of(descriptor)?);
        // Only a path of one letter ends with a slash.
        let top = top.strip_suffix(b"/").unwrap_or(&top);
        Some(whole.strip_prefix(top)?.strip_prefix(b"/")?.to_vec())
    }

    fn link_of(&self, descriptor: impl AsFd) -> Option<Vec<u8>> {
        link_of(&self.own_descriptors, descriptor)
    }
}

/// The kernel's path of an open object, by the directory of the process' descriptors.
pub(crate) fn link_of(own: &OwnedFd, descriptor: impl AsFd) -> Option<Vec<u8>> {
    let link = readlinkat(own, Volume::own_name(descriptor), Vec::new()).ok()?;
    Some(link.into_bytes())
}
