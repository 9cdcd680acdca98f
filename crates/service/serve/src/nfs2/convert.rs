//! Conversions between version 2 and the types of `fs`.

use leasehold_fs::{self as fs, Device, FileType, FsError, Mode, SetTime};
use leasehold_wire::nfs2;

use crate::context::{Context, Target};

/// Returns the status of an error (RFC 1094 2.3.1). An invalid handle becomes a stale handle. Any
/// other error without a status in version 2 becomes an I/O error, which no client mistakes for a
/// more specific error.
pub(crate) const fn status(error: FsError) -> nfs2::Status {
    use nfs2::Status;
    match error {
        FsError::Access => Status::Access,
        FsError::AlreadyExists => Status::AlreadyExists,
        FsError::BadHandle | FsError::Stale => Status::Stale,
        FsError::FileTooBig => Status::FileTooBig,
        FsError::IsDirectory => Status::IsDirectory,
        FsError::NameTooLong => Status::NameTooLong,
        FsError::NoSpace => Status::NoSpace,
        FsError::NoSuchDevice => Status::NoSuchDevice,
        FsError::NotEmpty => Status::NotEmpty,
        FsError::NotDirectory => Status::NotDirectory,
        FsError::NotFound => Status::NotFound,
        FsError::NotOwner => Status::NotOwner,
        FsError::QuotaExceeded => Status::QuotaExceeded,
        FsError::ReadOnly => Status::ReadOnly,
        FsError::AttributeTooBig
        | FsError::BadCookie
        | FsError::BadType
        | FsError::CrossDevice
        | FsError::Invalid
        | FsError::Io
        | FsError::Delay
        | FsError::NoAttribute
        | FsError::NotSupported
        | FsError::NotSynchronized
        | FsError::ServerFault
        | FsError::TooSmall
        | FsError::TooManyLinks
        | FsError::WrongType => Status::Io,
    }
}

/// The type bits of the Unix mode, which version 2 sends in addition to the type (RFC 1094 2.3.5).
pub(super) mod type_bits {
    pub(crate) const MASK: u32 = 0o170_000;
    pub(crate) const FIFO: u32 = 0o010_000;
    pub(crate) const CHARACTER_DEVICE: u32 = 0o020_000;
    pub(crate) const DIRECTORY: u32 = 0o040_000;
    pub(crate) const BLOCK_DEVICE: u32 = 0o060_000;
    pub(crate) const REGULAR: u32 = 0o100_000;
    pub(crate) const SYMLINK: u32 = 0o120_000;
    pub(crate) const SOCKET: u32 = 0o140_000;
}

/// The value in place of a device number for objects that are not devices.
const NO_DEVICE: u32 = u32::MAX;

/// The unit of `blocks`, in bytes.
const BLOCK_BYTES: u64 = 512;

/// Converts attributes to version 2. A size that does not fit becomes the largest representable
/// size, so that clients can use that part of the file (`docs/design/0006-statuses.md`).
pub(super) fn attributes(attributes: &fs::Attributes) -> nfs2::Attributes {
    let (file_type, bits) = file_type(attributes.file_type);
    let device = matches!(attributes.file_type, FileType::BlockDevice | FileType::CharacterDevice);
    nfs2::Attributes {
        file_type,
        mode: bits | attributes.mode.bits(),
        link_count: attributes.link_count,
        uid: fs::shown_owner(attributes.uid),
        gid: fs::shown_owner(attributes.gid),
        size: at_most_u32(attributes.size),
        block_bytes: leasehold_base::limits::TRANSFER_V2_BYTES_MAX,
        device: if device { pack_device(attributes.device) } else { NO_DEVICE },
        blocks: at_most_u32(attributes.used.div_ceil(BLOCK_BYTES)),
        file_system: fold(attributes.file_system.0),
        file_id: file_id(attributes.file_id),
        accessed: attributes.accessed.into(),
        modified: attributes.modified.into(),
        changed: attributes.changed.into(),
    }
}

/// Folds a file id to 32 bits. Two files of one file system may get the same folded id.
pub(super) fn file_id(file_id: leasehold_base::units::FileId) -> nfs2::FileId {
    nfs2::FileId(fold(file_id.0))
}

/// Returns the type and device number. A named pipe is a character device with the number
/// [`NO_DEVICE`], as in other servers of version 2; clients recognise the pipe by the type bits of
/// the mode.
const fn file_type(file_type: FileType) -> (nfs2::FileType, u32) {
    match file_type {
        FileType::Regular => (nfs2::FileType::Regular, type_bits::REGULAR),
        FileType::Directory => (nfs2::FileType::Directory, type_bits::DIRECTORY),
        FileType::BlockDevice => (nfs2::FileType::BlockDevice, type_bits::BLOCK_DEVICE),
        FileType::CharacterDevice => (nfs2::FileType::CharacterDevice, type_bits::CHARACTER_DEVICE),
        FileType::Symlink => (nfs2::FileType::Symlink, type_bits::SYMLINK),
        FileType::Socket => (nfs2::FileType::NonFile, type_bits::SOCKET),
        FileType::Fifo => (nfs2::FileType::CharacterDevice, type_bits::FIFO),
    }
}

fn at_most_u32(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// Combines both halves of a number, so that numbers that differ in one half remain different.
fn fold(number: u64) -> u32 {
    let [a, b, c, d, e, f, g, h] = number.to_be_bytes();
    u32::from_be_bytes([a, b, c, d]) ^ u32::from_be_bytes([e, f, g, h])
}

/// Packs a device number into 32 bits in the layout of Linux: minor 0 to 7, major 8 to 19, then the
/// rest of the minor.
const fn pack_device(device: Device) -> u32 {
    (device.minor & 0xff) | ((device.major & 0xfff) << 8) | ((device.minor & !0xff) << 12)
}

/// Unpacks a device number.
pub(super) const fn unpack_device(packed: u32) -> Device {
    Device { major: (packed >> 8) & 0xfff, minor: (packed & 0xff) | ((packed >> 12) & 0xfff00) }
}

/// Converts the requested attribute changes.
pub(super) fn set_attributes(wanted: &nfs2::SetAttributes) -> fs::SetAttributes {
    fs::SetAttributes {
        mode: wanted.mode.map(Mode::from_bits),
        uid: wanted.uid,
        gid: wanted.gid,
        size: wanted.size.map(u64::from),
        accessed: set_time(wanted.accessed),
        modified: set_time(wanted.modified),
    }
}

fn set_time(wanted: nfs2::SetTime) -> SetTime {
    match wanted {
        nfs2::SetTime::Keep => SetTime::Keep,
        nfs2::SetTime::Now => SetTime::Now,
        nfs2::SetTime::To(time) => SetTime::To(time.into()),
    }
}

/// Returns an object with its attributes in the form of version 2.
pub(super) fn found(context: &Context, near: &Target<'_>, found: &fs::Found) -> nfs2::Found {
    nfs2::Found {
        object: nfs2::Handle(context.service.handles.seal(near.request.export.id, &found.object)),
        attributes: attributes(&found.attributes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_survive_packing() {
        for device in [
            Device { major: 0, minor: 0 },
            Device { major: 8, minor: 1 },
            Device { major: 0xfff, minor: 0xf_ffff },
        ] {
            assert_eq!(unpack_device(pack_device(device)), device);
        }
        assert_eq!(pack_device(Device { major: 8, minor: 1 }), 0x801);
    }
}
