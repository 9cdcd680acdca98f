//! Conversions between attributes of version 2 and of version 3.

use leasehold_base::units::{FileId, FileSystemId};
use leasehold_wire::nfs2;
use leasehold_wire::nfs3::{self, Status};

/// The type bits of the Unix mode, which version 2 sends in addition to the type (RFC 1094 2.3.5).
const TYPE_BITS: u32 = 0o170_000;
const FIFO: u32 = 0o010_000;
const SOCKET: u32 = 0o140_000;

/// The unit of `blocks`, in bytes.
const BLOCK_BYTES: u64 = 512;

pub(super) fn attributes(from: &nfs2::Attributes) -> nfs3::Attributes {
    nfs3::Attributes {
        file_type: file_type(from),
        mode: from.mode & !TYPE_BITS,
        link_count: from.link_count,
        uid: from.uid,
        gid: from.gid,
        size: from.size.into(),
        used: u64::from(from.blocks) * BLOCK_BYTES,
        device: unpack_device(from.device),
        file_system: FileSystemId(from.file_system.into()),
        file_id: FileId(from.file_id.0.into()),
        accessed: time(from.accessed),
        modified: time(from.modified),
        changed: time(from.changed),
    }
}

/// Most servers report a named pipe as a character device, and a socket without a type: the mode
/// has the type.
fn file_type(from: &nfs2::Attributes) -> nfs3::FileType {
    match from.mode & TYPE_BITS {
        FIFO => return nfs3::FileType::Fifo,
        SOCKET => return nfs3::FileType::Socket,
        _ => {}
    }
    match from.file_type {
        nfs2::FileType::Regular => nfs3::FileType::Regular,
        nfs2::FileType::Directory => nfs3::FileType::Directory,
        nfs2::FileType::BlockDevice => nfs3::FileType::BlockDevice,
        nfs2::FileType::CharacterDevice => nfs3::FileType::CharacterDevice,
        nfs2::FileType::Symlink => nfs3::FileType::Symlink,
        nfs2::FileType::Socket | nfs2::FileType::NonFile => nfs3::FileType::Socket,
        nfs2::FileType::Fifo => nfs3::FileType::Fifo,
    }
}

/// Unpacks a device number in the layout of Linux: minor 0 to 7, major 8 to 19, then the rest of
/// the minor.
const fn unpack_device(packed: u32) -> nfs3::Device {
    let minor = (packed & 0xff) | ((packed >> 12) & 0xf_ff00);
    nfs3::Device { major: (packed >> 8) & 0xfff, minor }
}

fn time(from: nfs2::Time) -> nfs3::Time {
    leasehold_base::units::FileTime::from(from).into()
}

/// # Errors
/// An error if the size exceeds the largest size of version 2.
pub(super) fn set_attributes(from: &nfs3::SetAttributes) -> Result<nfs2::SetAttributes, Status> {
    let size = from.size.map(u32::try_from).transpose().map_err(|_| Status::FileTooBig)?;
    if size == Some(u32::MAX) {
        // In version 2 this value means that the size stays unchanged, so it cannot be sent as a
        // size.
        return Err(Status::FileTooBig);
    }
    Ok(nfs2::SetAttributes {
        mode: from.mode,
        uid: from.uid,
        gid: from.gid,
        size,
        accessed: set_time(from.accessed),
        modified: set_time(from.modified),
    })
}

fn set_time(from: nfs3::SetTime) -> nfs2::SetTime {
    match from {
        nfs3::SetTime::Keep => nfs2::SetTime::Keep,
        nfs3::SetTime::Now => nfs2::SetTime::Now,
        nfs3::SetTime::To(time) => nfs2::SetTime::To(nfs2::Time {
            seconds: time.seconds,
            microseconds: time.nanoseconds.min(999_999_999) / 1000,
        }),
    }
}
