//! File attributes, converted from the attributes that the kernel returns.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use leasehold_base::units::{FileId, FileSystemId, FileTime};
use leasehold_fs::{Attributes, Caller, Device, FileType, FsError, Mode, SUPERUSER, Space, Wcc};
use rustix::fs::{AtFlags, Statx, StatxFlags, StatxTimestamp, statx};
use rustix::io::Errno;

use crate::errors::meaning;
use crate::identity::Acting;
use crate::object::Object;
use crate::volume::Volume;

/// The mount through which an object was reached; a file system may have several mounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    device: (u32, u32),
    id: u64,
}

/// Queries the kernel for the attributes of a name in a directory, or of the directory's own
/// descriptor with an empty name.
fn stat(directory: impl AsFd, name: &[u8]) -> Result<Statx, Errno> {
    let mut flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    if name.is_empty() {
        flags |= AtFlags::EMPTY_PATH;
    }
    statx(directory, name, flags, StatxFlags::BASIC_STATS | StatxFlags::MNT_ID)
}

/// Returns the mount and the inode number of an open object.
pub(crate) fn place_of(object: impl AsFd) -> Result<(Mount, u64), Errno> {
    let seen = stat(object, b"")?;
    Ok((mount_of(&seen), seen.stx_ino))
}

fn mount_of(seen: &Statx) -> Mount {
    Mount { device: (seen.stx_dev_major, seen.stx_dev_minor), id: seen.stx_mnt_id }
}

/// Returns true if a name in a directory leads to another mount than `mount`.
pub(crate) fn is_elsewhere(directory: impl AsFd, name: &[u8], mount: Mount) -> bool {
    stat(directory, name).is_ok_and(|seen| mount_of(&seen) != mount)
}

impl Volume {
    /// Returns the attributes of an open object; [`FsError::Stale`] if it has no name any more and
    /// no client holds it.
    pub(crate) fn attributes(&self, object: &Object) -> Result<Attributes, FsError> {
        self.attributes_by(object, &*object.descriptor())
    }

    /// Like `attributes`, by one of the object's descriptors.
    pub(crate) fn attributes_by(
        &self,
        object: &Object,
        descriptor: impl AsFd,
    ) -> Result<Attributes, FsError> {
        let attributes = self.attributes_at(descriptor, b"")?;
        let is_gone = attributes.link_count == 0 && self.held.find(&object.id).is_none();
        if is_gone { Err(FsError::Stale) } else { Ok(attributes) }
    }

    /// Returns the attributes of an object; closes the object if it has no name any more.
    pub(crate) fn getattr(&self, object: &Arc<Object>) -> Result<Attributes, FsError> {
        let attributes = self.attributes(object);
        if attributes == Err(FsError::Stale) {
            self.descriptors.remove(object);
        }
        attributes
    }

    /// Returns the free space on the file system that the caller may use.
    pub(crate) fn space(
        &self,
        caller: &Caller,
        object: &Object,
    ) -> Result<(Space, Attributes), FsError> {
        let attributes = self.attributes(object)?;
        let known = rustix::fs::fstatvfs(&*object.descriptor()).map_err(meaning)?;
        // The superuser may use the blocks that a file system reserves for it. If the server acts
        // as its own user for all callers, a caller that claims to be the superuser may not: the
        // kernel would deny these blocks to the server's user.
        let has_reserve = caller.uid == SUPERUSER && self.acting == Acting::Caller;
        let available =
            if has_reserve { self.kind.available_to_superuser(&known) } else { known.f_bavail };
        let space = Space {
            bytes: known.f_blocks.saturating_mul(known.f_frsize),
            free_bytes: known.f_bfree.saturating_mul(known.f_frsize),
            available_bytes: available
                .saturating_mul(known.f_frsize)
                .saturating_sub(self.unsettled.bytes(Instant::now())),
            files: known.f_files,
            free_files: known.f_ffree,
            available_files: known.f_favail,
        };
        Ok((space, attributes))
    }

    /// See [`leasehold_fs::Reservations::reservable_space`].
    pub(crate) fn room(&self, caller: &Caller, object: &Object) -> Result<Space, FsError> {
        Ok(self.space(caller, object)?.0.promised())
    }

    /// Returns the attributes of the object of a descriptor.
    pub(crate) fn attributes_of(&self, descriptor: impl AsFd) -> Result<Attributes, FsError> {
        let attributes = self.attributes_at(descriptor, b"")?;
        if attributes.link_count == 0 { Err(FsError::Stale) } else { Ok(attributes) }
    }

    /// Returns the attributes of a name; [`FsError::Access`] if the name is a mount point.
    pub(crate) fn attributes_at(
        &self,
        directory: impl AsFd,
        name: &[u8],
    ) -> Result<Attributes, FsError> {
        let seen = stat(directory, name).map_err(meaning)?;
        if mount_of(&seen) != self.mount {
            return Err(FsError::Access);
        }
        self.convert(&seen)
    }

    /// Returns the attributes of an object that an operation did not change. One sample serves as
    /// the attributes from before and from after. If another program changed the object earlier,
    /// the client detects that its cached attributes are old.
    pub(crate) fn unchanged(&self, object: &Object) -> Wcc {
        self.attributes(object).map_or_else(
            |_| Wcc::default(),
            |attributes| Wcc { before: Some(attributes.before()), after: Some(attributes) },
        )
    }

    /// Returns the attributes of an object that an operation was supposed to change. After a
    /// change, the attributes from before are absent, because a local program may have changed the
    /// object in between.
    pub(crate) fn changed<T>(&self, object: &Object, result: &Result<T, FsError>) -> Wcc {
        match result {
            Ok(_) => Wcc { before: None, after: self.attributes(object).ok() },
            Err(_) => self.unchanged(object),
        }
    }

    fn convert(&self, seen: &Statx) -> Result<Attributes, FsError> {
        Ok(Attributes {
            file_type: type_of(seen.stx_mode)?,
            mode: Mode::from_bits(seen.stx_mode.into()),
            link_count: seen.stx_nlink,
            uid: seen.stx_uid,
            gid: seen.stx_gid,
            size: seen.stx_size,
            used: seen.stx_blocks.saturating_mul(BLOCK_BYTES),
            device: Device { major: seen.stx_rdev_major, minor: seen.stx_rdev_minor },
            file_system: self.file_system,
            file_id: FileId(seen.stx_ino),
            accessed: time_of(seen.stx_atime),
            modified: time_of(seen.stx_mtime),
            changed: time_of(seen.stx_ctime),
        })
    }
}

/// The unit in which the kernel counts the disk usage of a file.
const BLOCK_BYTES: u64 = 512;

const fn time_of(time: StatxTimestamp) -> FileTime {
    FileTime { seconds: time.tv_sec, nanoseconds: time.tv_nsec }
}

fn type_of(mode: u16) -> Result<FileType, FsError> {
    use rustix::fs::FileType as Kernel;
    match Kernel::from_raw_mode(mode.into()) {
        Kernel::RegularFile => Ok(FileType::Regular),
        Kernel::Directory => Ok(FileType::Directory),
        Kernel::BlockDevice => Ok(FileType::BlockDevice),
        Kernel::CharacterDevice => Ok(FileType::CharacterDevice),
        Kernel::Symlink => Ok(FileType::Symlink),
        Kernel::Socket => Ok(FileType::Socket),
        Kernel::Fifo => Ok(FileType::Fifo),
        Kernel::Unknown => Err(FsError::ServerFault),
    }
}

/// Returns the major and minor number of an object's device.
pub(crate) fn device_of(object: impl AsFd) -> Result<(u32, u32), Errno> {
    let seen = stat(object, b"")?;
    Ok((seen.stx_dev_major, seen.stx_dev_minor))
}

/// Returns the id of a file system: the kernel's id, which it usually derives from the UUID, or the
/// device number.
pub(crate) fn file_system_id(root: impl AsFd) -> Result<FileSystemId, Errno> {
    let known = rustix::fs::fstatvfs(&root)?.f_fsid;
    let (major, minor) = device_of(root)?;
    Ok(FileSystemId(if known == 0 { rustix::fs::makedev(major, minor) } else { known }))
}
