//! Placeholders: the empty directories that the store shows in place of other file systems that
//! clients cannot enter. Such a file system begins at a mount point, or is a subvolume of btrfs.
//!
//! A placeholder shows nothing of the other file system or of the covered directory: its attributes
//! are synthetic, and no operation can change it. The id of a placeholder contains the id of the
//! parent directory and the inode number with which the directory lists the name. So the id stays
//! valid across a restart, and becomes stale when no file system is mounted there any more.
//! `docs/design/0032-mounts-below-an-export.md` explains why clients see neither an error nor the
//! covered directory.

use std::collections::HashMap;
use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex};

use leasehold_base::units::{Cookie, FileId, FileTime};
use leasehold_fs::{
    Access, Attributes, Budget, Device, Entries, Entry, FileType, Found, FsError, Mode, ObjectId,
    Page, Wanted,
};
use rustix::fs::{OFlags, RawDir, openat};

use crate::attributes::is_elsewhere;
use crate::errors::meaning;
use crate::handle::Listed;
use crate::locks::{Mixing, lock};
use crate::names::must_be_directory;
use crate::object::Object;
use crate::volume::Volume;

/// The maximum number of placeholders whose names the store remembers. For each call on another
/// placeholder, the store searches the directory for the name.
const REMEMBERED_MAX: usize = 1024;

/// The number of bytes of a listing that the store reads from the kernel in one call.
const CHUNK_BYTES: usize = 32 << 10;

/// The mode of a placeholder: all users may list it, and no user may change it.
const MODE: Mode = Mode::from_bits(0o555);

/// The remembered names of placeholders.
#[derive(Default)]
pub(crate) struct Placeholders {
    names: Mutex<HashMap<ObjectId, Seen, Mixing>>,
}

/// The inode number with which a directory lists a name, and the name.
type Seen = (u64, Box<[u8]>);

/// A placeholder whose other file system exists now.
pub(crate) struct Placeholder {
    pub(crate) id: ObjectId,
    pub(crate) directory: Arc<Object>,
    pub(crate) name: Box<[u8]>,
    pub(crate) attributes: Attributes,
}

impl Placeholders {
    fn find(&self, id: &ObjectId) -> Option<Seen> {
        lock(&self.names).get(id).cloned()
    }

    fn note(&self, id: ObjectId, listed: u64, name: &[u8]) {
        let mut names = lock(&self.names);
        if names.len() >= REMEMBERED_MAX && !names.contains_key(&id) {
            names.clear();
        }
        names.insert(id, (listed, name.into()));
    }

    fn forget(&self, id: &ObjectId) {
        lock(&self.names).remove(id);
    }
}

impl Volume {
    /// Returns true if a name leads to another file system. Runs under the caller's identity, so
    /// the caller needs search permission in the directory.
    pub(crate) fn leads_elsewhere(&self, directory: &Object, name: &[u8]) -> bool {
        is_elsewhere(&*directory.descriptor(), name, self.mount)
    }

    /// Returns the placeholder of a name that leads to another file system. May leave this thread
    /// acting as the server.
    pub(crate) fn placeholder_of(
        &self,
        directory: &Arc<Object>,
        name: &[u8],
    ) -> Result<(ObjectId, Attributes), FsError> {
        let (listed, _) = self.listed(directory, |_, found| found == name)?;
        self.placeholder_listed(&directory.id, name, listed)
    }

    /// Like `placeholder_of`, for a caller that knows the inode number in the directory's listing.
    pub(crate) fn placeholder_listed(
        &self,
        directory: &ObjectId,
        name: &[u8],
        listed: u64,
    ) -> Result<(ObjectId, Attributes), FsError> {
        let id = self.handles.placeholder(directory, listed).ok_or(FsError::Access)?;
        self.placeholders.note(id, listed, name);
        Ok((id, self.made_up(listed)))
    }

    /// Returns the placeholder with an id. Returns [`FsError::Stale`] if the other file system is
    /// no longer mounted there.
    pub(crate) fn placeholder(
        &self,
        id: &ObjectId,
        directory: Arc<Object>,
        listed: Listed,
    ) -> Result<Placeholder, FsError> {
        must_be_directory(&directory).map_err(|_| FsError::Stale)?;
        self.acting.as_server()?;
        let known = self.placeholders.find(id);
        let known = known.filter(|(_, name)| self.leads_elsewhere(&directory, name));
        let found = known.map_or_else(
            || {
                let is_it = |number, name: &[u8]| {
                    listed.may_be(number) && self.leads_elsewhere(&directory, name)
                };
                self.listed(&directory, is_it)
            },
            Ok,
        );
        match found {
            Ok((number, name)) => {
                self.placeholders.note(*id, number, &name);
                Ok(Placeholder { id: *id, directory, name, attributes: self.made_up(number) })
            }
            Err(FsError::NotFound) => {
                self.placeholders.forget(id);
                Err(FsError::Stale)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the first entry of a directory that `is_meant` accepts, and the inode number in the
    /// listing. Runs under the server's identity.
    fn listed(
        &self,
        directory: &Object,
        is_meant: impl Fn(u64, &[u8]) -> bool,
    ) -> Result<Seen, FsError> {
        self.acting.as_server()?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = directory.descriptor();
        let stream = openat(descriptor.as_fd(), c".", flags, rustix::fs::Mode::empty());
        let stream = stream.map_err(meaning)?;
        let mut chunk = Vec::<u8>::with_capacity(CHUNK_BYTES);
        let mut records = RawDir::new(&stream, chunk.spare_capacity_mut());
        while let Some(record) = records.next() {
            let record = record.map_err(meaning)?;
            let name = record.file_name().to_bytes();
            if name != b"." && name != b".." && is_meant(record.ino(), name) {
                return Ok((record.ino(), name.into()));
            }
        }
        Err(FsError::NotFound)
    }

    fn made_up(&self, listed: u64) -> Attributes {
        let never = FileTime { seconds: 0, nanoseconds: 0 };
        Attributes {
            file_type: FileType::Directory,
            mode: MODE,
            link_count: 2,
            uid: 0,
            gid: 0,
            size: 0,
            used: 0,
            device: Device { major: 0, minor: 0 },
            file_system: self.file_system,
            file_id: FileId(listed),
            accessed: never,
            modified: never,
            changed: never,
        }
    }
}

impl Placeholder {
    /// Returns the directory that contains the placeholder.
    pub(crate) fn parent(&self, volume: &Volume) -> Result<Found, FsError> {
        let attributes = volume.attributes(&self.directory)?;
        let object = self.directory.id;
        Ok(Found { object, attributes, directory: Some(self.attributes) })
    }

    /// Returns the granted rights: every user may list and search a placeholder.
    pub(crate) fn access(&self, wanted: Access) -> (Access, Attributes) {
        let Access { read, lookup, .. } = wanted;
        let granted =
            Access { read, lookup, modify: false, extend: false, delete: false, execute: false };
        (granted, self.attributes)
    }

    /// Lists the entries `.` and `..` of the placeholder.
    pub(crate) fn readdir(
        &self,
        volume: &Volume,
        cookie: Cookie,
        mut budget: Budget,
        wanted: Wanted,
    ) -> Result<Page, FsError> {
        let above = volume.attributes(&self.directory)?;
        let all = [(&b"."[..], self.id, self.attributes), (b"..", self.directory.id, above)];
        let mut entries = Entries::default();
        for (at, (name, object, attributes)) in (1..).zip(all) {
            if at <= cookie.0 {
                continue;
            }
            if !budget.take(name) {
                if entries.is_empty() {
                    return Err(FsError::TooSmall);
                }
                return Ok(Page { entries, end: false, attributes: self.attributes });
            }
            let is_wanted = wanted == Wanted::Everything;
            entries.push(&Entry {
                name,
                file_id: attributes.file_id,
                cookie: Cookie(at),
                attributes: is_wanted.then_some(attributes),
                object: is_wanted.then_some(object),
            });
        }
        Ok(Page { entries, end: true, attributes: self.attributes })
    }

    /// Returns the path of the placeholder below the root, for reports to people.
    pub(crate) fn path(&self, volume: &Volume) -> Option<Vec<u8>> {
        let above = volume.path(&self.directory.id)?;
        let front = if above.is_empty() { above } else { [&above[..], b"/"].concat() };
        Some([&front[..], &self.name].concat())
    }
}
