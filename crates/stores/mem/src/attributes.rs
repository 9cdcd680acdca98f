//! Changing attributes.

use leasehold_base::units::{FileId, FileTime};
use leasehold_fs::permission::rights;
use leasehold_fs::{Attributes, Caller, Changed, FileType, FsError, Mode, ObjectId};
use leasehold_fs::{SUPERUSER, SetAttributes, SetTime};

use crate::FILE_BYTES_MAX;
use crate::node::Body;
use crate::tree::Tree;

const SET_USER: u32 = 0o4000;
pub(crate) const SET_GROUP: u32 = 0o2000;
const GROUP_EXECUTE: u32 = 0o010;

impl Tree {
    pub(crate) fn setattr(
        &mut self,
        caller: &Caller,
        object: &ObjectId,
        changes: &SetAttributes,
        guard: Option<FileTime>,
    ) -> Changed<()> {
        self.change(object, |tree, id| {
            let attributes = tree.attributes(id);
            if guard.is_some_and(|changed| changed != attributes.changed) {
                return Err(FsError::NotSynchronized);
            }
            may_set(&attributes, caller, changes)?;
            if *changes != SetAttributes::default() {
                let stamp = tree.stamp();
                tree.apply(caller, id, changes, stamp);
            }
            Ok(())
        })
    }

    /// Makes changes that [`may_set`] allowed.
    pub(crate) fn apply(
        &mut self,
        caller: &Caller,
        id: FileId,
        changes: &SetAttributes,
        stamp: FileTime,
    ) {
        if let Some(size) = changes.size {
            self.resize(caller, id, size);
            self.touch(id, stamp, true);
        }
        self.touch(id, stamp, false);
        let node = self.node_mut(id);
        let directory = matches!(node.body, Body::Directory(_));
        if !directory && (changes.uid.is_some() || changes.gid.is_some()) {
            node.mode = without_set_ids(node.mode);
        }
        node.uid = changes.uid.unwrap_or(node.uid);
        node.gid = changes.gid.unwrap_or(node.gid);
        if let Some(mode) = changes.mode {
            let member = caller.uid == SUPERUSER || caller.in_group(node.gid);
            let kept = if member { mode.bits() } else { mode.bits() & !SET_GROUP };
            node.mode = Mode::from_bits(kept);
        }
        set_time(&mut node.times.accessed, changes.accessed, stamp);
        set_time(&mut node.times.modified, changes.modified, stamp);
    }

    fn resize(&mut self, caller: &Caller, id: FileId, size: u64) {
        let node = self.node_mut(id);
        let before = node.block_count();
        if let Body::Regular { contents, .. } = &mut node.body {
            contents.truncate(size);
        }
        let after = node.block_count();
        self.used_blocks = self.used_blocks - before + after;
        self.written_by(caller, id);
    }

    /// Takes away the bits that would let a caller change a program which runs as another.
    pub(crate) fn written_by(&mut self, caller: &Caller, id: FileId) {
        if caller.uid != SUPERUSER {
            let node = self.node_mut(id);
            node.mode = without_set_ids(node.mode);
        }
    }
}

/// Set-group-id without group execution means something else (mandatory locks) and stays.
fn without_set_ids(mode: Mode) -> Mode {
    let cleared = if mode.bits() & GROUP_EXECUTE != 0 { SET_USER | SET_GROUP } else { SET_USER };
    Mode::from_bits(mode.bits() & !cleared)
}

fn set_time(time: &mut FileTime, how: SetTime, now: FileTime) {
    match how {
        SetTime::Keep => {}
        SetTime::Now => *time = now,
        SetTime::To(moment) => *time = moment,
    }
}

/// Fails unless the caller may make all of these changes to an object.
pub(crate) fn may_set(
    attributes: &Attributes,
    caller: &Caller,
    changes: &SetAttributes,
) -> Result<(), FsError> {
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
        may_resize(attributes, size)?;
    }
    let writes = changes.size.is_some() || times.contains(&SetTime::Now);
    if writes && !owner && !rights(attributes, caller).write {
        return Err(FsError::Access);
    }
    Ok(())
}

fn may_resize(attributes: &Attributes, size: u64) -> Result<(), FsError> {
    match attributes.file_type {
        FileType::Regular if size <= FILE_BYTES_MAX => Ok(()),
        FileType::Regular => Err(FsError::FileTooBig),
        FileType::Directory => Err(FsError::IsDirectory),
        FileType::BlockDevice
        | FileType::CharacterDevice
        | FileType::Symlink
        | FileType::Socket
        | FileType::Fifo => Err(FsError::Invalid),
    }
}
