//! READDIR and READDIRPLUS.
//!
//! The store opens the directory again for each part of a listing, as the caller. So listings share
//! no position, and the kernel checks the permission each time. A cookie is the kernel's own
//! position after an entry.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use leasehold_base::units::{Cookie, FileId};
use leasehold_fs::{
    Attributes, Budget, Caller, Entries, Entry, FileType, FsError, ObjectId, Page, Wanted,
};
use rustix::fs::{Mode, OFlags, RawDir, SeekFrom, openat, seek};
use rustix::io::Errno;

use crate::descriptors::Moment;
use crate::errors::meaning;
use crate::names::must_be_directory;
use crate::object::{Descriptor, Object};
use crate::sys;
use crate::volume::Volume;

/// The average length of the kernel's record of an entry.
const RECORD_BYTES: u32 = 32;

/// The average length of an entry's name.
const NAME_BYTES: u32 = 16;

/// The minimum and the maximum number of bytes that one system call returns: the minimum has space
/// for the longest name, and the maximum limits the duration of the call.
const CHUNK_BYTES_MIN: usize = 1 << 10;
const CHUNK_BYTES_MAX: usize = 64 << 10;

impl Volume {
    /// Lists a part of a directory.
    pub(crate) fn readdir(
        &self,
        caller: &Caller,
        directory: &Arc<Object>,
        cookie: Cookie,
        mut budget: Budget,
        wanted: Wanted,
    ) -> Result<Page, FsError> {
        let descriptor = must_be_directory(directory)?;
        // Query the attributes before the names. If a name changes in between, the attributes are
        // older than the names, and the client detects the change at its next query.
        let attributes = self.attributes_of(&*descriptor)?;
        self.acting.as_caller(caller)?;
        let stream = self.open_stream(&descriptor, cookie)?;
        // A caller without search permission may see the names in a directory, but not the
        // attributes of their objects.
        let may_search = sys::access(descriptor.as_fd(), libc::X_OK).is_ok();
        let wanted = if may_search { wanted } else { Wanted::Names };
        let mut chunk = Vec::<u8>::with_capacity(chunk_bytes(&budget));
        let mut records = RawDir::new(&stream, chunk.spare_capacity_mut());
        let mut entries = Entries::default();
        let mut moment = self.descriptors.now();
        let end = loop {
            if records.is_buffer_empty() {
                moment = self.descriptors.now();
            }
            let record = match records.next() {
                None => break true,
                // The kernel returns this error for a directory that was removed, so the client's
                // handle is stale.
                Some(Err(Errno::NOENT)) => return Err(FsError::Stale),
                Some(Err(errno)) => return Err(meaning(errno)),
                Some(Ok(record)) => record,
            };
            let name = record.file_name().to_bytes();
            let mut rest = budget;
            if !rest.take(name) {
                break false;
            }
            let number = FileId(record.ino());
            let cookie = Cookie(record.next_entry_cookie());
            let mut entry = Entry { name, file_id: number, cookie, attributes: None, object: None };
            let is_root = directory.id == self.root.id;
            let is_there = if name == b"." || (name == b".." && is_root) {
                entry.file_id = attributes.file_id;
                entry.object = (wanted == Wanted::Everything).then_some(directory.id);
                entry.attributes = (wanted == Wanted::Everything).then_some(attributes);
                true
            } else {
                wanted == Wanted::Names || self.describe(&mut entry, &descriptor, directory, moment)
            };
            if is_there {
                entries.push(&entry);
                budget = rest;
            }
        };
        if entries.is_empty() && !end {
            return Err(FsError::TooSmall);
        }
        Ok(Page { entries, end, attributes })
    }

    /// Opens a directory for reading from a position.
    fn open_stream(&self, descriptor: &Descriptor, cookie: Cookie) -> Result<OwnedFd, FsError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let name = Self::own_name(descriptor);
        let stream = openat(&self.own_descriptors, name, flags, Mode::empty()).map_err(meaning)?;
        if cookie != Cookie(0) {
            seek(&stream, SeekFrom::Start(cookie.0)).map_err(|_| FsError::BadCookie)?;
        }
        Ok(stream)
    }

    /// Adds the available attributes to an entry; returns false if the entry no longer exists.
    fn describe(
        &self,
        entry: &mut Entry<'_>,
        descriptor: &Descriptor,
        above: &Object,
        moment: Moment,
    ) -> bool {
        match self.look_again(entry, descriptor, moment) {
            Ok((object, attributes)) => {
                entry.object = Some(object);
                entry.attributes = Some(attributes);
                entry.file_id = attributes.file_id;
                if entry.name != b".." {
                    self.learn(&object, &above.id, entry.name);
                }
                true
            }
            Err(FsError::NotFound) => false,
            Err(FsError::Access) if self.leads_elsewhere(above, entry.name) => {
                let number = entry.file_id.0;
                if let Ok((object, attributes)) =
                    self.placeholder_listed(&above.id, entry.name, number)
                {
                    entry.object = Some(object);
                    entry.attributes = Some(attributes);
                }
                true
            }
            Err(_) => true,
        }
    }

    /// Tries a cheaper method first: an open object with the inode number of the entry. This method
    /// is not valid for directories, because another file system may be mounted on the name.
    fn look_again(
        &self,
        entry: &Entry<'_>,
        descriptor: &Descriptor,
        moment: Moment,
    ) -> Result<(ObjectId, Attributes), FsError> {
        if let Some(object) = self.open_number(entry.file_id.0, moment)
            && object.file_type != FileType::Directory
            && let Ok(attributes) = self.attributes(&object)
        {
            return Ok((object.id, attributes));
        }
        self.look(descriptor, entry.name)
    }
}

/// Returns the number of bytes to request from the kernel in one call, for the client's budget.
fn chunk_bytes(budget: &Budget) -> usize {
    let count = |bytes: u32, entry_bytes: u32| bytes / (entry_bytes.saturating_add(NAME_BYTES));
    let reply = count(budget.reply.bytes, budget.reply.entry_bytes);
    let names = count(budget.names.bytes, budget.names.entry_bytes);
    let bytes = reply.min(names).saturating_mul(RECORD_BYTES) as usize;
    bytes.clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX)
}
