//! Conversions of attributes, times, devices and errors between NFS and the kernel.

use leasehold_base::units::{FileSystemId, FileTime};
use leasehold_client::{Device, Error, FileType, Mode, SetAttributes, SetTime, Status};
use leasehold_fuse::{AttributeChanges, Attributes, Errno, Moment, TimeChange};

/// The type bits of a mode.
pub(crate) const TYPE_BITS: u32 = 0o170_000;

/// The preferred unit of reads and writes, for `stat`.
const BLOCK_BYTES: u32 = 1024 * 1024;

/// Returns the type bits of a kind of object.
pub(crate) const fn type_bits(file_type: FileType) -> u32 {
    match file_type {
        FileType::Regular => 0o100_000,
        FileType::Directory => 0o040_000,
        FileType::BlockDevice => 0o060_000,
        FileType::CharacterDevice => 0o020_000,
        FileType::Symlink => 0o120_000,
        FileType::Socket => 0o140_000,
        FileType::Fifo => 0o010_000,
    }
}

/// Converts the attributes of an object for programs, in a mount whose root is on the file system
/// `home`.
pub(crate) fn attributes(
    of: &leasehold_client::Attributes,
    home: Option<FileSystemId>,
) -> Attributes {
    let moment = |time: FileTime| Moment {
        seconds: time.seconds,
        nanoseconds: time.nanoseconds.min(999_999_999),
    };
    Attributes {
        file: number(of, home),
        size: of.size,
        blocks: of.used.div_ceil(512),
        accessed: moment(of.accessed),
        modified: moment(of.modified),
        changed: moment(of.changed),
        mode: type_bits(of.file_type) | of.mode.bits(),
        links: of.link_count,
        uid: of.uid,
        gid: of.gid,
        device: encode_device(of.device),
        block_bytes: BLOCK_BYTES,
    }
}

/// Returns the file id of an object that programs see. A mount is one file system to programs,
/// which treat files with equal file ids as one file. An export may contain several file systems,
/// so the file ids of all file systems except `home` are changed to distinguish them.
pub(crate) fn number(of: &leasehold_client::Attributes, home: Option<FileSystemId>) -> u64 {
    // The function mixes the bits with the constants of splitmix64, so that similar file system ids
    // give dissimilar results.
    let mixed = |id: u64| {
        let id = (id ^ id >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let id = (id ^ id >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        id ^ id >> 31
    };
    match home {
        Some(home) if home != of.file_system => of.file_id.0 ^ mixed(of.file_system.0 ^ home.0),
        Some(_) | None => of.file_id.0,
    }
}

/// Encodes a device number in the kernel's format: bits 0 to 7 contain the low bits of the minor
/// number, bits 8 to 19 the major number, and the higher bits the rest of the minor number.
const fn encode_device(device: Device) -> u32 {
    (device.minor & 0xff) | (device.major & 0xfff) << 8 | (device.minor & !0xff) << 12
}

pub(crate) const fn decode_device(packed: u32) -> Device {
    Device { major: packed >> 8 & 0xfff, minor: packed & 0xff | packed >> 12 & 0xf_ff00 }
}

/// Converts the attribute changes of a SETATTR.
pub(crate) fn changes(of: &AttributeChanges) -> SetAttributes {
    let time = |change: Option<TimeChange>| match change {
        None => SetTime::Keep,
        Some(TimeChange::Now) => SetTime::Now,
        Some(TimeChange::To(Moment { seconds, nanoseconds })) => {
            SetTime::To(FileTime { seconds, nanoseconds })
        }
    };
    SetAttributes {
        mode: of.mode.map(Mode::from_bits),
        uid: of.uid,
        gid: of.gid,
        size: of.size,
        accessed: time(of.accessed),
        modified: time(of.modified),
    }
}

/// Returns the error number that a program receives for a call that failed at the server or got no
/// reply.
#[allow(clippy::needless_pass_by_value, reason = "callers pass the function to `map_err`")]
pub(crate) fn errno(error: Error) -> Errno {
    match error {
        Error::Failed(status) => of_status(status),
        Error::Busy => Errno::AGAIN,
        Error::Closed => Errno::NOTCONN,
        Error::Denied(_) => Errno::ACCESS,
        Error::Garbled(_) | Error::TimedOut | Error::Unreachable(_) => Errno::IO,
    }
}

const fn of_status(status: Status) -> Errno {
    match status {
        Status::NotOwner => Errno::PERM,
        Status::NotFound => Errno::NOENT,
        Status::NoSuchAddress => Errno::NXIO,
        Status::Access => Errno::ACCESS,
        Status::AlreadyExists => Errno::EXIST,
        Status::CrossDevice => Errno::XDEV,
        Status::NoSuchDevice => Errno::NODEV,
        Status::NotDirectory => Errno::NOTDIR,
        Status::IsDirectory => Errno::ISDIR,
        Status::Invalid => Errno::INVAL,
        Status::FileTooBig => Errno::FBIG,
        Status::NoSpace => Errno::NOSPC,
        Status::ReadOnly => Errno::ROFS,
        Status::TooManyLinks => Errno::MLINK,
        Status::NameTooLong => Errno::NAMETOOLONG,
        Status::NotEmpty => Errno::NOTEMPTY,
        Status::QuotaExceeded => Errno::DQUOT,
        Status::Stale | Status::BadHandle => Errno::STALE,
        Status::NotSupported | Status::BadType => Errno::OPNOTSUPP,
        Status::Jukebox => Errno::AGAIN,
        Status::Io
        | Status::Remote
        | Status::NotSynchronized
        | Status::BadCookie
        | Status::TooSmall
        | Status::ServerFault => Errno::IO,
    }
}

#[cfg(test)]
mod tests {
    use leasehold_base::units::FileId;

    use super::*;

    /// Programs such as `tar` and `rsync` treat two names with one file id as links of one file, so
    /// files of two file systems need different ids.
    #[test]
    fn files_of_two_file_systems_have_different_numbers() {
        let time = FileTime { seconds: 0, nanoseconds: 0 };
        let file = |file_system| leasehold_client::Attributes {
            file_type: FileType::Regular,
            mode: Mode::from_bits(0o644),
            link_count: 2,
            uid: 0,
            gid: 0,
            size: 0,
            used: 0,
            device: Device::default(),
            file_system: FileSystemId(file_system),
            file_id: FileId(12),
            accessed: time,
            modified: time,
            changed: time,
        };
        let home = Some(FileSystemId(7));
        assert_eq!((number(&file(7), home), number(&file(8), None)), (12, 12));
        let mut numbers: Vec<_> = (7..1000).map(|of| number(&file(of), home)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 993);
    }

    #[test]
    fn device_number_round_trips() {
        for device in [
            Device { major: 8, minor: 1 },
            Device { major: 0xfff, minor: 0xf_ffff },
            Device { major: 1, minor: 0x12345 },
        ] {
            assert_eq!(decode_device(encode_device(device)), device);
        }
    }
}
