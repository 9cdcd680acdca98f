//! The origin of a directory: its identity, independent of its path.

use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;

use leasehold_fs::ObjectId;
use rustix::fs::{AtFlags, Mode, OFlags};

use crate::sys;

/// The UUID and the handle that distinguish a directory from every other directory. They stay equal
/// across renames, restarts and other mount points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The UUID of the file system, if the kernel provides it (Linux 6.9 or later).
    pub volume: Option<[u8; 16]>,
    /// The kernel's handle of the directory. Handles of different file systems may be equal, so
    /// without the UUID two directories may have equal origins.
    pub object: ObjectId,
}

impl Origin {
    /// Reads the origin of a directory.
    ///
    /// # Errors
    /// The directory cannot be opened, or its file system has no handles.
    pub fn of(directory: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(directory, flags, Mode::empty())?;
        let sys::Handle { id, .. } = sys::handle_at(root.as_fd(), c"", AtFlags::EMPTY_PATH)?;
        // Open the directory for reading, because the query for the UUID is not possible with an
        // `O_PATH` descriptor.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(directory, flags, Mode::empty())?;
        Ok(Self { volume: sys::file_system_uuid(opened.as_fd()).ok(), object: id })
    }

    /// Returns true if both origins can belong to one directory: the handles are equal, and no
    /// known UUID differs.
    #[must_use]
    pub fn may_be(&self, other: &Self) -> bool {
        let differ = self.volume.zip(other.volume).is_some_and(|(one, other)| one != other);
        self.object == other.object && !differ
    }

    /// Returns true if both origins certainly belong to one directory.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        self.volume.is_some() && self == other
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_directory_keeps_its_origin_when_it_is_renamed() {
        let home = tempfile::tempdir().expect("there is room");
        let [one, other, moved] = ["one", "other", "moved"].map(|name| home.path().join(name));
        fs::create_dir(&one).expect("there is room");
        fs::create_dir(&other).expect("there is room");
        let origin = |path: &Path| Origin::of(path).expect("the file system has handles");
        let before = origin(&one);
        assert!(!before.may_be(&origin(&other)) && !before.is(&origin(&other)));
        fs::rename(&one, &moved).expect("there is room");
        assert_eq!(origin(&moved), before);
        // A new directory with the same name has another origin, even if it has the same inode
        // number.
        fs::remove_dir(&moved).expect("it is empty");
        fs::create_dir(&one).expect("there is room");
        assert!(!before.may_be(&origin(&one)));
    }

    #[test]
    fn without_a_uuid_nothing_is_certain() {
        let object = ObjectId::new(b"root").expect("it is short");
        let [known, other] = [7, 8].map(|byte| Origin { volume: Some([byte; 16]), object });
        let unknown = Origin { volume: None, object };
        assert!(known.may_be(&unknown) && unknown.may_be(&known) && known.is(&known));
        assert!(!known.may_be(&other) && !known.is(&unknown) && !unknown.is(&unknown));
    }
}
