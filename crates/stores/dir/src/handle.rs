//! The kernel's handles, which identify objects for their lifetime, and the ids that contain them.
//!
//! The length of an id determines its kind, because the kernel's handles consist of words of four
//! bytes:
//! - A length of `4n` is the kernel's handle of an object.
//! - A length of `4n + 1` is the id of a placeholder. It contains the low bytes of the inode number
//!   with which the directory lists the placeholder, and then the directory's handle without the
//!   bytes that all handles of its file system share.
//! - A length of `4n + 2` or `4n + 3` is the id of an object or of a placeholder on a file system
//!   below the export. It contains the file-system number (the tag), then for a placeholder the low
//!   bytes of the listed inode number, and then the handle without the shared bytes.

use std::os::fd::{AsFd, BorrowedFd};

use leasehold_fs::ObjectId;
use rustix::fs::AtFlags;
use rustix::io::Errno;
use rustix::path::Arg;

use crate::sys;

/// The format of the handles of one file system. All handles have the type and the length of the
/// root's handle, so an id does not contain the type.
pub(crate) struct Handles {
    kind: i32,
    length: usize,
    number: Option<NumberField>,
    /// The offset of the bytes that all handles of the file system share, and these bytes.
    shared: Option<(usize, [u8; SUBVOLUME_BYTES])>,
    /// The file-system number of a file system below the export; `None` for the export itself.
    tag: Option<Tag>,
}

/// The file-system number of a file system that is mounted below an export, as ids contain it.
pub(crate) type Tag = [u8; 2];

/// The offset of the inode number in a handle, in the machine's byte order.
#[derive(Clone, Copy)]
enum NumberField {
    Narrow(usize),
    Wide(usize),
}

/// The kernel's handle type `FILEID_INO32_GEN`.
const INO32_GENERATION: i32 = 1;
/// The handle type of XFS with 64-bit inode numbers.
const XFS_INO64_GENERATION: i32 = 0x81;
/// The handle type of btrfs without the parent directory.
const BTRFS: i32 = 0x4d;
const BTRFS_BYTES: usize = 20;

/// The offset of the subvolume's number in a handle of btrfs. For this store each subvolume is a
/// separate file system.
const SUBVOLUME_AT: usize = 8;
const SUBVOLUME_BYTES: usize = 8;

/// The number of bytes of an inode number in the id of a placeholder.
const LISTED_BYTES: usize = 5;

/// The low bytes of an inode number in a directory listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listed([u8; LISTED_BYTES]);

impl Listed {
    /// Returns true if an inode number has these low bytes.
    pub(crate) fn may_be(self, number: u64) -> bool {
        number.to_be_bytes().ends_with(&self.0)
    }
}

impl NumberField {
    /// Returns the offset of the inode number for the known handle types: ext4 and small XFS;
    /// tmpfs, which puts the generation first; XFS; btrfs.
    const fn of(kind: i32, length: usize) -> Option<Self> {
        match (kind, length) {
            (INO32_GENERATION, 8) => Some(Self::Narrow(0)),
            (INO32_GENERATION, 12) => Some(Self::Wide(4)),
            (XFS_INO64_GENERATION, 12) | (BTRFS, BTRFS_BYTES) => Some(Self::Wide(0)),
            _ => None,
        }
    }

    fn read(self, id: &ObjectId) -> Option<u64> {
        let bytes = id.as_bytes();
        match self {
            Self::Narrow(at) => {
                let field = bytes.get(at..at + 4)?.try_into().ok()?;
                Some(u64::from(u32::from_ne_bytes(field)))
            }
            Self::Wide(at) => Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?)),
        }
    }
}

impl Handles {
    /// Derives the format of handles from the root's handle and the root's inode number, and
    /// returns the id of the root.
    pub(crate) fn learn(
        root: BorrowedFd<'_>,
        root_number: u64,
        tag: Option<Tag>,
    ) -> Result<(Self, ObjectId), Errno> {
        let sys::Handle { kind, id } = sys::handle_at(root, c"", AtFlags::EMPTY_PATH)?;
        let length = id.as_bytes().len();
        let number =
            NumberField::of(kind, length).filter(|field| field.read(&id) == Some(root_number));
        let shared = id.as_bytes().get(SUBVOLUME_AT..SUBVOLUME_AT + SUBVOLUME_BYTES);
        let shared = shared
            .filter(|_| (kind, length) == (BTRFS, BTRFS_BYTES))
            .and_then(|bytes| Some((SUBVOLUME_AT, bytes.try_into().ok()?)));
        let handles = Self { kind, length, number, shared, tag };
        let id = handles.id(&id).ok_or(Errno::OVERFLOW)?;
        Ok((handles, id))
    }

    /// Returns the handle type, which the kernel needs with each handle.
    pub(crate) const fn kind(&self) -> i32 {
        self.kind
    }

    /// Returns true if an id has the form of a handle of this file system.
    pub(crate) fn could_be(&self, id: &ObjectId) -> bool {
        self.kernels(id).is_some()
    }

    /// Returns the id that contains a handle; `None` if the handle is too long.
    fn id(&self, handle: &ObjectId) -> Option<ObjectId> {
        match self.tag {
            None => Some(*handle),
            Some(tag) => ObjectId::new(&[&tag[..], &self.shorten(handle.as_bytes())].concat()),
        }
    }

    /// Returns the kernel's handle in an id; `None` for an id of another file system, or of a
    /// placeholder.
    pub(crate) fn kernels(&self, id: &ObjectId) -> Option<ObjectId> {
        match self.tag {
            None => (id.as_bytes().len() == self.length).then_some(*id),
            Some(tag) => self.lengthen(id.as_bytes().strip_prefix(&tag)?),
        }
    }

    /// Returns the inode number in a handle, if its offset is known.
    pub(crate) fn number(&self, id: &ObjectId) -> Option<u64> {
        self.number?.read(&self.kernels(id)?)
    }

    /// Returns the id of the placeholder that a directory lists with an inode number; `None` if the
    /// handles of the file system are too long for such an id.
    pub(crate) fn placeholder(&self, directory: &ObjectId, listed: u64) -> Option<ObjectId> {
        let low = &listed.to_be_bytes()[size_of::<u64>() - LISTED_BYTES..];
        let tag = self.tag.as_ref().map_or(&[][..], |tag| tag);
        ObjectId::new(&[tag, low, &self.shorten(self.kernels(directory)?.as_bytes())].concat())
    }

    /// Returns the directory of a placeholder, and the low bytes of the inode number with which the
    /// directory lists the placeholder; `None` for any other id.
    pub(crate) fn placed(&self, id: &ObjectId) -> Option<(ObjectId, Listed)> {
        let tag = self.tag.as_ref().map_or(&[][..], |tag| tag);
        let (low, directory) = id.as_bytes().strip_prefix(tag)?.split_first_chunk()?;
        if id.as_bytes().len() % 4 != 1 + tag.len() {
            return None;
        }
        Some((self.id(&self.lengthen(directory)?)?, Listed(*low)))
    }

    /// Returns a handle without the shared bytes.
    fn shorten(&self, handle: &[u8]) -> Vec<u8> {
        let Some((at, shared)) = self.shared else { return handle.to_vec() };
        [&handle[..at], &handle[at + shared.len()..]].concat()
    }

    /// Restores a handle from its shortened form; returns `None` if no handle has these bytes.
    fn lengthen(&self, short: &[u8]) -> Option<ObjectId> {
        let whole = match self.shared {
            None => short.to_vec(),
            Some((at, shared)) => {
                let (front, back) = short.split_at_checked(at)?;
                [front, &shared, back].concat()
            }
        };
        ObjectId::new(&whole).filter(|handle| handle.as_bytes().len() == self.length)
    }

    /// Returns the id of an open object.
    pub(crate) fn of(&self, object: impl AsFd) -> Result<ObjectId, Errno> {
        self.checked(&sys::handle_at(object.as_fd(), c"", AtFlags::EMPTY_PATH)?)
    }

    /// Returns the id of the object to which a name in a directory leads.
    pub(crate) fn at(&self, directory: impl AsFd, name: &[u8]) -> Result<ObjectId, Errno> {
        let handle =
            name.into_with_c_str(|name| sys::handle_at(directory.as_fd(), name, AtFlags::empty()))?;
        self.checked(&handle)
    }

    fn checked(&self, handle: &sys::Handle) -> Result<ObjectId, Errno> {
        // An object in another subvolume has other shared bytes. That subvolume is another file
        // system, so the handle is rejected.
        let is_ours = self.shared.is_none_or(|(at, shared)| {
            handle.id.as_bytes().get(at..).is_some_and(|rest| rest.starts_with(&shared))
        });
        if handle.kind == self.kind && handle.id.as_bytes().len() == self.length && is_ours {
            self.id(&handle.id).ok_or(Errno::OPNOTSUPP)
        } else {
            Err(Errno::OPNOTSUPP)
        }
    }
}

/// Returns the file-system number in an id; `None` for an id of the export's own file system.
pub(crate) fn tag_of(id: &ObjectId) -> Option<Tag> {
    let bytes = id.as_bytes();
    (bytes.len() > 4 && bytes.len() % 4 >= 2).then(|| [bytes[0], bytes[1]])
}

/// Returns true if an id names a placeholder, on any file system.
pub(crate) fn is_placeholder(id: &ObjectId) -> bool {
    id.as_bytes().len() % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placeholder_leads_back_to_its_directory() {
        for (kind, length) in [(1, 8), (1, 12), (XFS_INO64_GENERATION, 12), (BTRFS, BTRFS_BYTES)] {
            let bytes: [u8; 20] = core::array::from_fn(|at| u8::try_from(at).expect("it is small"));
            let shared = (kind == BTRFS).then_some((8, [8, 9, 10, 11, 12, 13, 14, 15]));
            for tag in [None, Some([1, 2])] {
                let handles = Handles { kind, length, number: None, shared, tag };
                let handle = ObjectId::new(&bytes[..length]).expect("it is short");
                let directory = handles.id(&handle).expect("it is short");
                assert_eq!(handles.kernels(&directory), Some(handle));
                assert_eq!((tag_of(&directory), is_placeholder(&directory)), (tag, false));
                let id = handles.placeholder(&directory, 0x1234_5678_9abc).expect("it is short");
                assert!(!handles.could_be(&id));
                assert_eq!((tag_of(&id), is_placeholder(&id)), (tag, true));
                let (above, listed) = handles.placed(&id).expect("it is one");
                assert_eq!(above, directory);
                assert!(listed.may_be(0x1234_5678_9abc) && !listed.may_be(0x1234_5678_9abd));
                assert_eq!(handles.placed(&directory), None);
                for length in 0..20 {
                    let other = ObjectId::new(&id.as_bytes()[..length.min(id.as_bytes().len())]);
                    let placed = other.and_then(|other| handles.placed(&other));
                    assert_eq!(placed.is_some(), length >= id.as_bytes().len(), "{length}");
                }
            }
        }
    }
}
