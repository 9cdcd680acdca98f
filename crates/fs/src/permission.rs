//! Mode bits, for stores whose kernel does not check them.

use crate::{
    Access, Attributes, Caller, FileType, FsError, Mode, NO_USER, SUPERUSER, SetAttributes, SetTime,
};

/// The bit of a mode that has a program run as its group, and a directory hand down its own.
pub const SET_GROUP: u32 = 0o2000;

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

/// Fails unless the caller may make all of these changes to an object, where a file has so many
/// bytes at most.
///
/// # Errors
/// [`FsError::NotOwner`], [`FsError::Access`], and what becomes of a size that cannot be set.
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

/// Fails unless it is what data is read from and written to.
///
/// # Errors
/// [`FsError::IsDirectory`], or [`FsError::Invalid`] for what is neither.
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

/// A mode without the bits that would let a caller change a program which runs as another.
/// Set-group-id without group execution means something else (mandatory locks) and stays.
#[must_use]
pub const fn without_set_ids(mode: Mode) -> Mode {
    const SET_USER: u32 = 0o4000;
    const GROUP_EXECUTE: u32 = 0o010;
    let cleared = if mode.bits() & GROUP_EXECUTE != 0 { SET_USER | SET_GROUP } else { SET_USER };
    Mode::from_bits(mode.bits() & !cleared)
}
