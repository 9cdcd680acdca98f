//! Mode bits, for stores whose kernel does not check them.

use crate::{Access, Attributes, Caller, FileType, SUPERUSER};

/// Read, write and execute (or search) as mode bits give them to a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// Read a file, list a directory.
    pub read: bool,
    /// Write a file, change a directory.
    pub write: bool,
    /// Run a file, search a directory.
    pub execute: bool,
}

/// What the mode bits of an object give a caller: those of the owner, the group or the others,
/// whichever fits first. The superuser may all, but run only what somebody may run.
#[must_use]
pub fn rights(attributes: &Attributes, caller: &Caller) -> Rights {
    let mode = attributes.mode.bits();
    if caller.uid == SUPERUSER {
        let execute = attributes.file_type == FileType::Directory || mode & 0o111 != 0;
        return Rights { read: true, write: true, execute };
    }
    let bits = if caller.uid == attributes.uid {
        mode >> 6
    } else if caller.in_group(attributes.gid) {
        mode >> 3
    } else {
        mode
    };
    Rights { read: bits & 4 != 0, write: bits & 2 != 0, execute: bits & 1 != 0 }
}

/// Rights in the words of ACCESS (RFC 1813 3.3.4).
#[must_use]
pub fn access(attributes: &Attributes, rights: Rights) -> Access {
    let directory = attributes.file_type == FileType::Directory;
    // Changing names in a directory needs the right to search it as well.
    let change = rights.write && (!directory || rights.execute);
    Access {
        read: rights.read,
        lookup: directory && rights.execute,
        modify: change,
        extend: change,
        delete: directory && change,
        execute: !directory && rights.execute,
    }
}

/// Whether a sticky directory keeps a caller from removing or renaming an entry of it: only the
/// owners of entry and directory may, and the superuser.
#[must_use]
pub fn sticky_forbids(directory: &Attributes, entry: &Attributes, caller: &Caller) -> bool {
    const STICKY: u32 = 0o1000;
    directory.mode.bits() & STICKY != 0
        && ![SUPERUSER, entry.uid, directory.uid].contains(&caller.uid)
}
