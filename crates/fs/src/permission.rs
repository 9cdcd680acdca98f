//! Checks of mode bits, for stores that do not use a kernel's permission checks.

use crate::{
    Access, Attributes, Caller, FileType, FsError, Mode, NO_USER, SUPERUSER, SetAttributes, SetTime,
};

/// The set-group-id bit: a program runs with the file's group, and a directory passes its group to
/// new entries.
pub const SET_GROUP: u32 = 0o2000;

/// The permissions that mode bits grant to a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// The permission to read a file, or to list a directory.
    pub read: bool,
    /// The permission to write a file, or to change a directory.
    pub write: bool,
    /// The permission to run a file, or to search a directory.
    pub execute: bool,
}

/// Returns the permissions that the mode bits of an object grant to a caller: the bits of the
/// owner, the group or the others, in this order of precedence. The superuser has all permissions,
/// but may run a file only if the file has at least one execute bit.
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

/// Converts permissions to the kinds of access of ACCESS (RFC 1813 3.3.4).
#[must_use]
pub fn access(attributes: &Attributes, rights: Rights) -> Access {
    let directory = attributes.file_type == FileType::Directory;
    // A change of names in a directory also needs search permission, which is the execute bit.
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

/// Returns true if the sticky bit of a directory forbids the caller to remove or rename an entry.
/// Only the owner of the entry, the owner of the directory and the superuser may remove or rename
/// an entry of such a directory.
#[must_use]
pub fn sticky_forbids(directory: &Attributes, entry: &Attributes, caller: &Caller) -> bool {
    const STICKY: u32 = 0o1000;
    directory.mode.bits() & STICKY != 0
        && ![SUPERUSER, entry.uid, directory.uid].contains(&caller.uid)
}

/// Fails unless the caller may make all these changes to an object; `file_bytes_max` is the largest
/// size of a file.
///
/// # Errors
/// [`FsError::NotOwner`], [`FsError::Access`], [`FsError::Invalid`], [`FsError::FileTooBig`], and
/// the errors of [`must_be_file`] for a new size.
pub fn may_set(
    attributes: &Attributes,
    caller: &Caller,
    changes: &SetAttributes,
    file_bytes_max: u64,
) -> Result<(), FsError> {
    if [changes.uid, changes.gid].contains(&Some(NO_USER)) {
        return Err(FsError::Invalid);
    }
    let superuser = caller.uid == SUPERUSER;
    let owner = superuser || caller.uid == attributes.uid;
    let own_group = |gid| gid == attributes.gid || caller.in_group(gid);
    let times = [changes.accessed, changes.modified];
    let owners_only = changes.mode.is_some()
        || changes.uid.is_some()
        || changes.gid.is_some()
        || times.iter().any(|time| matches!(time, SetTime::To(_)));
    if (owners_only && !owner)
        || changes.uid.is_some_and(|uid| !superuser && uid != attributes.uid)
        || changes.gid.is_some_and(|gid| !superuser && !own_group(gid))
    {
        return Err(FsError::NotOwner);
    }
    if let Some(size) = changes.size {
        must_be_file(attributes.file_type)?;
        if size > file_bytes_max {
            return Err(FsError::FileTooBig);
        }
    }
    let writes = changes.size.is_some() || times.contains(&SetTime::Now);
    if writes && !owner && !rights(attributes, caller).write {
        return Err(FsError::Access);
    }
    Ok(())
}

/// Fails unless the object is a regular file.
///
/// # Errors
/// [`FsError::IsDirectory`] for a directory, [`FsError::Invalid`] for any other object.
pub const fn must_be_file(file_type: FileType) -> Result<(), FsError> {
    match file_type {
        FileType::Regular => Ok(()),
        FileType::Directory => Err(FsError::IsDirectory),
        FileType::BlockDevice
        | FileType::CharacterDevice
        | FileType::Symlink
        | FileType::Socket
        | FileType::Fifo => Err(FsError::Invalid),
    }
}

/// Returns a mode without the set-user-id and set-group-id bits, which a write by another user must
/// clear. Set-group-id without group execution means mandatory locking and stays.
#[must_use]
pub const fn without_set_ids(mode: Mode) -> Mode {
    const SET_USER: u32 = 0o4000;
    const GROUP_EXECUTE: u32 = 0o010;
    let cleared = if mode.bits() & GROUP_EXECUTE != 0 { SET_USER | SET_GROUP } else { SET_USER };
    Mode::from_bits(mode.bits() & !cleared)
}
