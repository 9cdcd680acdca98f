//! The objects of a store in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use leasehold_base::units::{Cookie, FileId, FileSystemId, FileTime};
use leasehold_fs::{Attributes, Device, FileType, Mode};

use crate::contents::{BLOCK_BYTES, Contents};

/// An object.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Distinguishes the object from all others with the same number.
    pub(crate) generation: u64,
    pub(crate) mode: Mode,
    pub(crate) link_count: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) times: Times,
    /// The times that a crash restores.
    pub(crate) stable_times: Option<Times>,
    /// The data layout of the file, in the encoding of another store.
    pub(crate) layout: Option<Bytes>,
    /// The extended attributes.
    pub(crate) xattrs: BTreeMap<Vec<u8>, Bytes>,
    /// The number of holds that keep the object after its last name is removed.
    pub(crate) holds: u32,
    pub(crate) body: Body,
}

/// The access, modification and change times of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) accessed: FileTime,
    pub(crate) modified: FileTime,
    pub(crate) changed: FileTime,
}

/// The contents of an object, by type.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    Regular { contents: Contents, verifier: Option<[u8; 8]> },
    Directory(Directory),
    Symlink(Vec<u8>),
    Special { file_type: FileType, device: Device },
}

/// The names of a directory.
///
/// A new name receives the next cookie and keeps it until it is removed. So a listing in the order
/// of cookies returns each name that stays exactly once.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    pub(crate) parent: FileId,
    names: BTreeMap<Arc<[u8]>, Slot>,
    order: BTreeMap<Cookie, Arc<[u8]>>,
    last_cookie: Cookie,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    cookie: Cookie,
    target: FileId,
}

impl Directory {
    /// The cookie of `.`.
    pub(crate) const THIS: Cookie = Cookie(1);
    /// The cookie of `..`.
    pub(crate) const PARENT: Cookie = Cookie(2);

    pub(crate) fn new(parent: FileId) -> Self {
        let (names, order) = (BTreeMap::new(), BTreeMap::new());
        Self { parent, names, order, last_cookie: Self::PARENT }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub(crate) fn target(&self, name: &[u8]) -> Option<FileId> {
        self.names.get(name).map(|slot| slot.target)
    }

    /// Sets the object of a name. An existing name keeps its cookie.
    pub(crate) fn insert(&mut self, name: &[u8], target: FileId) {
        if let Some(slot) = self.names.get_mut(name) {
            slot.target = target;
            return;
        }
        self.last_cookie.0 += 1;
        let name: Arc<[u8]> = name.into();
        self.names.insert(Arc::clone(&name), Slot { cookie: self.last_cookie, target });
        self.order.insert(self.last_cookie, name);
    }

    pub(crate) fn remove(&mut self, name: &[u8]) {
        let slot = self.names.remove(name).expect("the name was just found");
        self.order.remove(&slot.cookie);
    }

    /// Returns true if the cookie was in use at any time.
    pub(crate) fn knows(&self, cookie: Cookie) -> bool {
        cookie <= self.last_cookie
    }

    /// Returns the names after a cookie, without `.` and `..`.
    pub(crate) fn behind(&self, cookie: Cookie) -> impl Iterator<Item = (Cookie, &[u8], FileId)> {
        let from = Cookie(cookie.0.saturating_add(1));
        self.order.range(from..).map(|(cookie, name)| (*cookie, &**name, self.names[name].target))
    }
}

impl Node {
    pub(crate) fn file_type(&self) -> FileType {
        match &self.body {
            Body::Regular { .. } => FileType::Regular,
            Body::Directory(_) => FileType::Directory,
            Body::Symlink(_) => FileType::Symlink,
            Body::Special { file_type, .. } => *file_type,
        }
    }

    /// Returns the number of blocks that the object uses. A directory uses one, and the target of a
    /// symbolic link is inside the object.
    pub(crate) fn block_count(&self) -> u64 {
        match &self.body {
            Body::Regular { contents, .. } => contents.block_count(),
            Body::Directory(_) => 1,
            Body::Symlink(_) | Body::Special { .. } => 0,
        }
    }

    pub(crate) fn attributes(&self, file_system: FileSystemId, file_id: FileId) -> Attributes {
        let used = self.block_count() * BLOCK_BYTES;
        let (size, device) = match &self.body {
            Body::Regular { contents, .. } => (contents.size(), Device::default()),
            Body::Directory(_) => (used, Device::default()),
            Body::Symlink(target) => (target.len() as u64, Device::default()),
            Body::Special { device, .. } => (0, *device),
        };
        Attributes {
            file_type: self.file_type(),
            mode: self.mode,
            link_count: self.link_count,
            uid: self.uid,
            gid: self.gid,
            size,
            used,
            device,
            file_system,
            file_id,
            accessed: self.times.accessed,
            modified: self.times.modified,
            changed: self.times.changed,
        }
    }
}
