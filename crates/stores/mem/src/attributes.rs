//! Changes of attributes.

use leasehold_base::units::{FileId, FileTime};
use leasehold_fs::permission::{SET_GROUP, may_set, without_set_ids};
use leasehold_fs::{Caller, Changed, FsError, Mode, ObjectId, SUPERUSER, SetAttributes, SetTime};

use crate::FILE_BYTES_MAX;
use crate::node::Body;
use crate::tree::Tree;

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
            may_set(&attributes, caller, changes, FILE_BYTES_MAX)?;
            if *changes != SetAttributes::default() {
                let stamp = tree.stamp();
                tree.apply(caller, id, changes, stamp);
            }
            Ok(())
        })
    }

    /// Applies changes that [`may_set`] has permitted.
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

    /// Clears the set-id bits that would let a caller change a program of another user.
    pub(crate) fn written_by(&mut self, caller: &Caller, id: FileId) {
        if caller.uid != SUPERUSER {
            let node = self.node_mut(id);
            node.mode = without_set_ids(node.mode);
        }
    }
}

fn set_time(time: &mut FileTime, how: SetTime, now: FileTime) {
    match how {
        SetTime::Keep => {}
        SetTime::Now => *time = now,
        SetTime::To(moment) => *time = moment,
    }
}
