//! The capabilities of a file system. They are measured if possible, and otherwise known by the
//! kind of the file system, because the kernel has no query for them.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use leasehold_fs::Properties;
use rustix::fs::{
    Mode, OFlags, SeekFrom, StatVfs, Timespec, Timestamps, fstat, fstatfs, fstatvfs, futimens,
    openat, seek,
};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::attributes::device_of;

/// The kinds of file systems whose capabilities differ from the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Btrfs,
    Exfat,
    Ext,
    F2fs,
    Fat,
    Tmpfs,
    Xfs,
    Other,
}

impl Kind {
    pub(crate) fn of(root: impl AsFd) -> Result<Self, Errno> {
        // The magic numbers of the kernel's `linux/magic.h`, and of the file systems themselves.
        Ok(match fstatfs(root)?.f_type {
            0x9123_683e => Self::Btrfs,
            0x2011_bab0 => Self::Exfat,
            0xef53 => Self::Ext,
            0xf2f5_2010 => Self::F2fs,
            0x4d44 => Self::Fat,
            0x0102_1994 => Self::Tmpfs,
            0x5846_5342 => Self::Xfs,
            _ => Self::Other,
        })
    }

    /// Returns the free blocks that the superuser's data can use.
    pub(crate) fn available_to_superuser(self, known: &StatVfs) -> u64 {
        match self {
            // Ext4 counts blocks that it reserves for its own metadata as free, by default the
            // number below (`ext4_calculate_resv_clusters`). Data cannot use these blocks, so
            // subtract them.
            Self::Ext => known.f_bfree.saturating_sub((known.f_blocks / 50).min(4096)),
            // Btrfs also counts its space for metadata as free, but the amount is unknown. The
            // other kinds have no such reserve.
            Self::Btrfs
            | Self::Exfat
            | Self::F2fs
            | Self::Fat
            | Self::Tmpfs
            | Self::Xfs
            | Self::Other => known.f_bavail,
        }
        .max(known.f_bavail)
    }

    pub(crate) fn properties(self, root: impl AsFd) -> Result<Properties, Errno> {
        let known = fstatvfs(&root)?;
        let is_fat = matches!(self, Self::Fat | Self::Exfat);
        let file = nameless_file(root);
        let file_bytes_max = file.as_ref().and_then(largest_offset);
        Ok(Properties {
            file_bytes_max: file_bytes_max
                .unwrap_or(match self {
                    Self::Fat => u64::from(u32::MAX),
                    // The kernel counts the blocks of a file with 32 bits.
                    Self::Ext => u64::from(u32::MAX) * known.f_bsize,
                    Self::Btrfs
                    | Self::Exfat
                    | Self::F2fs
                    | Self::Tmpfs
                    | Self::Xfs
                    | Self::Other => i64::MAX.cast_unsigned(),
                })
                .min(getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX)),
            name_bytes_max: u32::try_from(known.f_namemax).unwrap_or(u32::MAX),
            link_max: match self {
                Self::Btrfs => 65_535,
                Self::Ext => 65_000,
                Self::Exfat | Self::Fat => 1,
                Self::Tmpfs | Self::Xfs => i32::MAX.cast_unsigned(),
                // POSIX requires this minimum of every system.
                Self::F2fs | Self::Other => 8,
            },
            time_step: file.as_ref().and_then(time_step).unwrap_or(match self {
                Self::Fat => Duration::from_secs(2),
                Self::Exfat => Duration::from_millis(10),
                Self::Btrfs | Self::Ext | Self::F2fs | Self::Tmpfs | Self::Xfs | Self::Other => {
                    Duration::from_nanos(1)
                }
            }),
            // Some other kinds can be case-insensitive for single directories, by a flag, so a
            // property of the whole file system cannot express it.
            case_insensitive: is_fat,
            chown_restricted: true,
            can_set_time: true,
            symlinks: !is_fat,
            links: !is_fat,
            leases_names: true,
        })
    }

    /// Returns true if the sync of a directory also syncs the inodes of its new names, because a
    /// journal holds both in one transaction. An ext file system may have no journal.
    pub(crate) fn syncs_names(self, root: impl AsFd) -> bool {
        match self {
            Self::Btrfs | Self::F2fs | Self::Tmpfs | Self::Xfs => true,
            Self::Ext => has_journal(root),
            Self::Exfat | Self::Fat | Self::Other => false,
        }
    }

    /// Returns true if only this kernel changes the file system, so that it notifies each change.
    /// Other machines change a network file system, and other programs change a FUSE file system.
    pub(crate) fn is_notified(self) -> bool {
        match self {
            Self::Btrfs
            | Self::Exfat
            | Self::Ext
            | Self::F2fs
            | Self::Fat
            | Self::Tmpfs
            | Self::Xfs => true,
            Self::Other => false,
        }
    }
}

/// Creates a file for measurements. The file has no name, so no program sees it, and it disappears
/// when its descriptor is closed. Returns `None` if the file system does not support such files or
/// is read-only.
fn nameless_file(root: impl AsFd) -> Option<OwnedFd> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    openat(root, ".", flags, Mode::RUSR | Mode::WUSR).ok()
}

/// Returns the maximum size of a file, which is the maximum offset that a seek accepts.
fn largest_offset(file: &OwnedFd) -> Option<u64> {
    let fits = |offset| seek(file, SeekFrom::Start(offset)).is_ok();
    let (mut fitting, mut beyond) = (0, i64::MAX.cast_unsigned());
    if !fits(fitting) {
        return None;
    }
    if fits(beyond) {
        return Some(beyond);
    }
    while beyond - fitting > 1 {
        let middle = fitting.midpoint(beyond);
        if fits(middle) { fitting = middle } else { beyond = middle }
    }
    Some(fitting)
}

/// Returns the resolution of a file's times, if the resolution is at most a second.
fn time_step(file: &OwnedFd) -> Option<Duration> {
    const SECOND: i64 = 1_000_000_000;
    // The file system rounds this time down to its resolution, so the stored nanoseconds differ
    // from a second by the resolution.
    let time = Timespec { tv_sec: 1, tv_nsec: SECOND - 1 };
    futimens(file, &Timestamps { last_access: time, last_modification: time }).ok()?;
    let kept = i64::try_from(fstat(file).ok()?.st_mtime_nsec).ok()?;
    u64::try_from(SECOND - kept).ok().map(Duration::from_nanos)
}

/// Returns true if an ext file system has a journal; false if this is unknown.
fn has_journal(root: impl AsFd) -> bool {
    let Ok((major, minor)) = device_of(root) else { return false };
    let Ok(device) = std::fs::read_link(format!("/sys/dev/block/{major}:{minor}")) else {
        return false;
    };
    let Some(device) = device.file_name().and_then(|name| name.to_str()) else { return false };
    // The kernel's file contains the id of the journal's thread, or this text if there is no
    // journal.
    std::fs::read_to_string(format!("/sys/fs/ext4/{device}/journal_task"))
        .is_ok_and(|task| task.trim() != "<none>")
}

#[cfg(test)]
mod tests {
    use rustix::fs::CWD;

    use super::*;

    /// The values of an ext4 file system that the superuser has filled: 888472 KiB, with 5%
    /// reserved for the superuser, and 2%, at most 4096 blocks, that data cannot use.
    #[test]
    fn blocks_that_ext4_keeps_for_itself_are_not_available_to_the_superuser() {
        let root = openat(CWD, c".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        let mut known = fstatvfs(root.expect("it is there")).expect("it says so");
        (known.f_blocks, known.f_bfree, known.f_bavail) = (222_118, 4111, 0);
        assert_eq!(Kind::Ext.available_to_superuser(&known), 15);
        (known.f_blocks, known.f_bfree, known.f_bavail) = (10_000, 1000, 300);
        assert_eq!(Kind::Ext.available_to_superuser(&known), 800);
        // Btrfs counts the space for its metadata as free.
        assert_eq!(Kind::Btrfs.available_to_superuser(&known), 300);
        (known.f_bfree, known.f_bavail) = (100, 0);
        assert_eq!(Kind::Ext.available_to_superuser(&known), 0);
    }
}
