//! Reads, writes and commits.

use bytes::Bytes;
use leasehold_base::units::FileId;
use leasehold_fs::permission::Rights;
use leasehold_fs::{Caller, Changed, Committed, FsError, ObjectId, ReadDone, Stability, WriteDone};

use crate::FILE_BYTES_MAX;
use crate::contents::Contents;
use crate::node::Body;
use crate::tree::Tree;

impl Tree {
    pub(crate) fn read(
        &mut self,
        caller: &Caller,
        object: &ObjectId,
        offset: u64,
        count: u32,
    ) -> Result<ReadDone, FsError> {
        let id = self.resolve(object)?;
        self.contents(id)?;
        // Execute permission suffices for READ, because a client pages in a program with READ (RFC
        // 1813 4.4).
        self.check_file(caller, id, |rights| rights.read || rights.execute)?;
        let contents = self.contents(id)?;
        let data = contents.read(offset, count);
        let end = offset.saturating_add(data.len() as u64) >= contents.size();
        self.accessed(id);
        Ok(ReadDone { data: data.into(), end, attributes: self.attributes(id) })
    }

    pub(crate) fn write(
        &mut self,
        caller: &Caller,
        object: &ObjectId,
        offset: u64,
        data: &Bytes,
        stability: Stability,
    ) -> Changed<WriteDone> {
        self.change(object, |tree, id| {
            tree.contents(id)?;
            tree.check_file(caller, id, |rights| rights.write)?;
            let end = offset.checked_add(data.len() as u64).ok_or(FsError::FileTooBig)?;
            if end > FILE_BYTES_MAX {
                return Err(FsError::FileTooBig);
            }
            let blocks = tree.contents(id)?.missing_blocks(offset, data.len());
            tree.room_for(blocks)?;
            tree.used_blocks += blocks;
            if !data.is_empty() {
                tree.put(caller, id, offset, data, stability);
            }
            let count = u32::try_from(data.len()).expect("a message is far shorter");
            Ok(WriteDone { count, stability, verifier: tree.verifier() })
        })
    }

    pub(crate) fn put(
        &mut self,
        caller: &Caller,
        id: FileId,
        offset: u64,
        data: &[u8],
        stability: Stability,
    ) {
        let stamp = self.stamp();
        self.written_by(caller, id);
        let node = self.node_mut(id);
        node.stable_times.get_or_insert(node.times);
        node.times.modified = stamp;
        node.times.changed = stamp;
        if let Body::Regular { contents, .. } = &mut node.body {
            contents.write(offset, data);
        }
        match stability {
            Stability::Unstable => {}
            Stability::DataSync | Stability::FileSync => {
                self.make_stable(id, offset, offset + data.len() as u64);
            }
        }
    }

    pub(crate) fn commit(
        &mut self,
        object: &ObjectId,
        offset: u64,
        length: u32,
    ) -> Changed<Committed> {
        self.change(object, |tree, id| {
            tree.contents(id)?;
            let end = match length {
                0 => u64::MAX,
                _ => offset.saturating_add(u64::from(length)),
            };
            tree.make_stable(id, offset, end);
            Ok(Committed { verifier: tree.verifier() })
        })
    }

    pub(crate) fn sync(&mut self) {
        for id in self.nodes.keys().copied().collect::<Vec<_>>() {
            self.make_stable(id, 0, u64::MAX);
        }
    }

    pub(crate) fn make_stable(&mut self, id: FileId, start: u64, end: u64) {
        let node = self.node_mut(id);
        if let Body::Regular { contents, .. } = &mut node.body {
            contents.commit(start, end);
            if !contents.is_unstable() {
                node.stable_times = None;
            }
        }
    }

    fn contents(&self, id: FileId) -> Result<&Contents, FsError> {
        match &self.node(id).body {
            Body::Regular { contents, .. } => Ok(contents),
            Body::Directory(_) => Err(FsError::IsDirectory),
            Body::Symlink(_) | Body::Special { .. } => Err(FsError::Invalid),
        }
    }

    /// Returns an error unless the caller has the right or owns the file: the owner's program may
    /// have opened it before a change of mode.
    pub(crate) fn check_file(
        &self,
        caller: &Caller,
        id: FileId,
        has: impl FnOnce(Rights) -> bool,
    ) -> Result<(), FsError> {
        if caller.uid == self.node(id).uid || has(self.rights(caller, id)) {
            Ok(())
        } else {
            Err(FsError::Access)
        }
    }
}
