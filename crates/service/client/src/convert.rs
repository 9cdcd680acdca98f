//! Conversions between attributes of messages and of files.

use leasehold_base::attributes as files;
use leasehold_base::units::FileTime;
use leasehold_wire::nfs3;

pub(crate) const fn attributes(from: &nfs3::Attributes) -> files::Attributes {
    files::Attributes {
        file_type: file_type(from.file_type),
        mode: files::Mode::from_bits(from.mode),
        link_count: from.link_count,
        uid: from.uid,
        gid: from.gid,
        size: from.size,
        used: from.used,
        device: files::Device { major: from.device.major, minor: from.device.minor },
        file_system: from.file_system,
        file_id: from.file_id,
        accessed: time(from.accessed),
        modified: time(from.modified),
        changed: time(from.changed),
    }
}

pub(crate) fn wcc(from: &nfs3::Wcc) -> files::Wcc {
    files::Wcc {
        before: from.before.map(|before| files::Before {
            size: before.size,
            modified: time(before.modified),
            changed: time(before.changed),
        }),
        after: from.after.as_ref().map(attributes),
    }
}

const fn file_type(from: nfs3::FileType) -> files::FileType {
    match from {
        nfs3::FileType::Regular => files::FileType::Regular,
        nfs3::FileType::Directory => files::FileType::Directory,
        nfs3::FileType::BlockDevice => files::FileType::BlockDevice,
        nfs3::FileType::CharacterDevice => files::FileType::CharacterDevice,
        nfs3::FileType::Symlink => files::FileType::Symlink,
        nfs3::FileType::Socket => files::FileType::Socket,
        nfs3::FileType::Fifo => files::FileType::Fifo,
    }
}

/// The last second that messages can express, in 2106.
const LAST: i64 = u32::MAX as i64;

/// Returns the time nearest to `time` that messages can express.
pub(crate) const fn said(time: FileTime) -> FileTime {
    match time.seconds {
        ..0 => FileTime { seconds: 0, nanoseconds: 0 },
        0..=LAST => time,
        _ => FileTime { seconds: LAST, nanoseconds: 0 },
    }
}

/// Converts a time for a message; a time out of range becomes the nearest valid time.
pub(crate) fn wire_time(from: FileTime) -> nfs3::Time {
    let FileTime { seconds, nanoseconds } = said(from);
    let seconds = u32::try_from(seconds).expect("`said` limits the range");
    nfs3::Time { seconds, nanoseconds }
}

/// Converts a time from a message. In the protocol the seconds are unsigned (RFC 1813 2.5).
const fn time(from: nfs3::Time) -> FileTime {
    FileTime { seconds: from.seconds as i64, nanoseconds: from.nanoseconds }
}

pub(crate) fn set_attributes(from: &files::SetAttributes) -> nfs3::SetAttributes {
    nfs3::SetAttributes {
        mode: from.mode.map(files::Mode::bits),
        uid: from.uid,
        gid: from.gid,
        size: from.size,
        accessed: set_time(from.accessed),
        modified: set_time(from.modified),
    }
}

fn set_time(from: files::SetTime) -> nfs3::SetTime {
    match from {
        files::SetTime::Keep => nfs3::SetTime::Keep,
        files::SetTime::Now => nfs3::SetTime::Now,
        files::SetTime::To(time) => nfs3::SetTime::To(wire_time(time)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The Linux kernel's client and the Leasehold server convert such times in the same way.
    #[test]
    fn times_out_of_range_become_the_nearest_valid_time() {
        let at = |seconds, nanoseconds| FileTime { seconds, nanoseconds };
        assert_eq!(said(at(-157_766_400, 7)), at(0, 0));
        assert_eq!(said(at(1, 7)), at(1, 7));
        assert_eq!(said(at(LAST, 7)), at(LAST, 7));
        assert_eq!(said(at(LAST + 1, 7)), at(LAST, 0));
        assert_eq!(wire_time(at(i64::MAX, 7)), nfs3::Time { seconds: u32::MAX, nanoseconds: 0 });
    }
}
