//! By which path an object is reached, for people to read.

use std::os::fd::AsFd;

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
        let root = self.root.descriptor();
        let (top, whole) = (self.link_of(&*root)?, self.link_of(&*object.descriptor())?);
        // Only a path of one letter ends with a slash.
        let top = top.strip_suffix(b"/").unwrap_or(&top);
        let path = whole.strip_prefix(top)?.strip_prefix(b"/")?;
        self.acting.as_server().ok()?;
        // It may be the path of a name that was removed, or none at all.
        (self.handles.at(&*root, path) == Ok(*id)).then(|| path.to_vec())
    }

    /// What the kernel calls an open object.
    fn link_of(&self, descriptor: impl AsFd) -> Option<Vec<u8>> {
        let name = Self::own_name(descriptor);
        let link = readlinkat(&self.own_descriptors, name, Vec::new()).ok()?;
        Some(link.into_bytes())
    }
}
