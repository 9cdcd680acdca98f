//! The kernel's handles, which name objects for as long as they live.

use std::os::fd::{AsFd, BorrowedFd};

use leasehold_fs::ObjectId;
use rustix::fs::AtFlags;
use rustix::io::Errno;
use rustix::path::Arg;

use crate::sys;

/// How the handles of one file system look. All have the type and the length of its root's: the
/// type then needs no room in an id.
pub(crate) struct Handles {
    kind: i32,
    length: usize,
    number: Option<NumberField>,
}

/// Where the inode number stands in a handle, in the machine's byte order.
#[derive(Clone, Copy)]
enum NumberField {
    Narrow(usize),
    Wide(usize),
}

/// The kernel's `FILEID_INO32_GEN`.
const INO32_GENERATION: i32 = 1;
/// XFS' type with 64-bit numbers.
const XFS_INO64_GENERATION: i32 = 0x81;
/// Btrfs' type without the parent.
const BTRFS: i32 = 0x4d;

impl NumberField {
    /// Where it stands, for the types that are known: ext4 and small XFS; tmpfs, which puts the
    /// generation first; XFS; btrfs.
    const fn of(kind: i32, length: usize) -> Option<Self> {
        match (kind, length) {
            (INO32_GENERATION, 8) => Some(Self::Narrow(0)),
            (INO32_GENERATION, 12) => Some(Self::Wide(4)),
            (XFS_INO64_GENERATION, 12) | (BTRFS, 20) => Some(Self::Wide(0)),
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
    /// Learns how handles look from the root's, whose inode number is known.
    pub(crate) fn learn(root: BorrowedFd<'_>, root_number: u64) -> Result<(Self, ObjectId), Errno> {
        let sys::Handle { kind, id } = sys::handle_at(root, c"", AtFlags::EMPTY_PATH)?;
        let length = id.as_bytes().len();
        let number =
            NumberField::of(kind, length).filter(|field| field.read(&id) == Some(root_number));
        Ok((Self { kind, length, number }, id))
    }

    /// The type that the kernel wants back with each handle.
    pub(crate) const fn kind(&self) -> i32 {
        self.kind
    }

    /// Whether an id has the form of a handle of this file system.
    pub(crate) fn could_be(&self, id: &ObjectId) -> bool {
        id.as_bytes().len() == self.length
    }

    /// The inode number in a handle, where it is known to stand.
    pub(crate) fn number(&self, id: &ObjectId) -> Option<u64> {
        self.number?.read(id)
    }

    /// The handle of an open object.
    pub(crate) fn of(&self, object: impl AsFd) -> Result<ObjectId, Errno> {
        self.checked(&sys::handle_at(object.as_fd(), c"", AtFlags::EMPTY_PATH)?)
    }

    /// The handle of a name in a directory.
    pub(crate) fn at(&self, directory: impl AsFd, name: &[u8]) -> Result<ObjectId, Errno> {
        let handle =
            name.into_with_c_str(|name| sys::handle_at(directory.as_fd(), name, AtFlags::empty()))?;
        self.checked(&handle)
    }

    fn checked(&self, handle: &sys::Handle) -> Result<ObjectId, Errno> {
        if handle.kind == self.kind && self.could_be(&handle.id) {
            Ok(handle.id)
        } else {
            Err(Errno::OPNOTSUPP)
        }
    }
}
