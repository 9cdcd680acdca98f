//! `mount -o remount,...` changes the flags of an existing mount.

use std::path::Path;

use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::mount::{MountFlags, mount_remount};

use crate::failure::{Failure, Kind};

/// The mount flags of the kernel, each with the options that set and clear it.
const FLAGS: [(&str, &str, MountFlags, StatVfsMountFlags); 6] = [
    ("ro", "rw", MountFlags::RDONLY, StatVfsMountFlags::RDONLY),
    ("noexec", "exec", MountFlags::NOEXEC, StatVfsMountFlags::NOEXEC),
    ("nosuid", "suid", MountFlags::NOSUID, StatVfsMountFlags::NOSUID),
    ("nodev", "dev", MountFlags::NODEV, StatVfsMountFlags::NODEV),
    ("noatime", "atime", MountFlags::NOATIME, StatVfsMountFlags::NOATIME),
    ("sync", "async", MountFlags::SYNCHRONOUS, StatVfsMountFlags::SYNCHRONOUS),
];

/// Returns true if the options request a change of an existing mount.
pub(super) fn is_asked(lists: &[String]) -> bool {
    words(lists).any(|word| word == "remount")
}

/// Changes the flags of an existing mount. Ignores other options: mount(8) repeats all options of
/// fstab at a remount, and they keep their original values.
pub(super) fn remount(directory: &Path, lists: &[String]) -> Result<(), Failure> {
    let place = directory.display();
    let no = |why: String| Kind::Directory.because(format!("cannot remount {place}: {why}"));
    let standing = statvfs(directory).map_err(|errno| no(errno.to_string()))?;
    let flags = wanted(standing.f_flag, lists);
    mount_remount(directory, flags, "").map_err(|errno| no(errno.to_string()))
}

fn wanted(standing: StatVfsMountFlags, lists: &[String]) -> MountFlags {
    let is_set = |(set, clear, _, now): &(&str, &str, MountFlags, StatVfsMountFlags)| {
        let said = words(lists).filter(|word| word == set || word == clear).last();
        said.map_or_else(|| standing.contains(*now), |word| word == *set)
    };
    FLAGS.iter().filter(|flag| is_set(flag)).map(|(_, _, flag, _)| *flag).collect()
}

fn words(lists: &[String]) -> impl Iterator<Item = &str> {
    lists.iter().flat_map(|list| list.split(','))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remount_keeps_other_flags() {
        let lists = ["remount,ro".to_owned(), "suid,vers=3,dev,nodev".to_owned()];
        assert!(is_asked(&lists) && !is_asked(&["ro".to_owned()]));
        let standing = StatVfsMountFlags::NOSUID | StatVfsMountFlags::NOEXEC;
        let flags = wanted(standing, &lists);
        assert_eq!(flags, MountFlags::RDONLY | MountFlags::NOEXEC | MountFlags::NODEV);
        let standing = StatVfsMountFlags::RDONLY | StatVfsMountFlags::NODEV;
        let flags = wanted(standing, &["remount,rw".to_owned()]);
        assert_eq!(flags, MountFlags::NODEV);
    }
}
