//! Operations on byte ranges.

use leasehold_base::units::FileId;
use leasehold_fs::{
    ByteRange, Caller, Changed, Content, FsError, MaybeReady, ObjectId, RangeCopy, Ranges, Seek,
    Stability, WriteDone,
};

use crate::contents::{BLOCK_BYTES, Contents};
use crate::node::Body;
use crate::tree::Tree;
use crate::{FILE_BYTES_MAX, MemStore};

/// The maximum number of bytes that one call copies: as many as a large WRITE.
const COPY_BYTES_MAX: u64 = 1 << 20;

impl Tree {
    fn file(&self, id: FileId) -> Result<&Contents, FsError> {
        match &self.node(id).body {
            Body::Regular { contents, .. } => Ok(contents),
            Body::Directory(_) | Body::Symlink(_) | Body::Special { .. } => Err(FsError::WrongType),
        }
    }

    fn seek(
        &self,
        caller: &Caller,
        object: &ObjectId,
        offset: u64,
        content: Content,
    ) -> Result<Seek, FsError> {
        let id = self.resolve(object)?;
        let contents = self.file(id)?;
        self.check_file(caller, id, |rights| rights.read || rights.execute)?;
        if offset >= contents.size() {
            return Err(FsError::NoSuchDevice);
        }
        Ok(match contents.seek(offset, content == Content::Data) {
            Some(offset) => Seek { offset, end: false },
            None => Seek { offset: contents.size(), end: true },
        })
    }

    /// Runs a change of the contents of a file, which needs at most `blocks` more blocks.
    fn change_contents(
        &mut self,
        caller: &Caller,
        id: FileId,
        blocks: u64,
        change: impl FnOnce(&mut Contents),
    ) -> Result<(), FsError> {
        self.room_for(blocks)?;
        let stamp = self.stamp();
        self.written_by(caller, id);
        let node = self.node_mut(id);
        let before = node.block_count();
        if let Body::Regular { contents, .. } = &mut node.body {
            change(contents);
        }
        let after = node.block_count();
        self.used_blocks = self.used_blocks - before + after;
        self.touch(id, stamp, true);
        Ok(())
    }

    fn change_range(
        &mut self,
        caller: &Caller,
        object: &ObjectId,
        range: ByteRange,
        allocates: bool,
    ) -> Changed<()> {
        self.change(object, |tree, id| {
            tree.file(id)?;
            tree.check_file(caller, id, |rights| rights.write)?;
            let end = range.end()?;
            if end > FILE_BYTES_MAX {
                return Err(FsError::FileTooBig);
            }
            let length = usize::try_from(range.length).map_err(|_| FsError::NoSpace)?;
            let missing = tree.file(id)?.missing_blocks(range.offset, length);
            tree.change_contents(caller, id, if allocates { missing } else { 0 }, |contents| {
                match allocates {
                    true => contents.allocate(range.offset, end),
                    false => contents.deallocate(range.offset, end),
                }
            })
        })
    }

    /// Returns the source of a copy, if the caller may read it and write the target.
    fn source(&self, caller: &Caller, copy: &RangeCopy, to: FileId) -> Result<FileId, FsError> {
        let from = self.resolve(&copy.from)?;
        self.file(from)?;
        self.file(to)?;
        self.check_file(caller, from, |rights| rights.read || rights.execute)?;
        self.check_file(caller, to, |rights| rights.write)?;
        Ok(from)
    }

    fn clone_range(&mut self, caller: &Caller, copy: &RangeCopy) -> Changed<()> {
        self.change(&copy.to, |tree, to| {
            let from = tree.source(caller, copy, to)?;
            let size = tree.file(from)?.size();
            let bytes = copy.cloned_bytes(size)?;
            let is_aligned = |offset: u64| offset.is_multiple_of(BLOCK_BYTES);
            let end = copy.to_offset.checked_add(bytes).ok_or(FsError::FileTooBig)?;
            if end > FILE_BYTES_MAX {
                return Err(FsError::FileTooBig);
            }
            // A part of a block at the end must not replace a whole block of the target.
            let has_end = is_aligned(bytes)
                || (copy.from_offset + bytes == size && end >= tree.file(to)?.size());
            let overlaps = from == to && copy.overlaps(bytes);
            if !is_aligned(copy.from_offset) || !is_aligned(copy.to_offset) || !has_end || overlaps
            {
                return Err(FsError::Invalid);
            }
            if bytes == 0 {
                return Ok(());
            }
            let taken = tree.file(from)?.taken(copy.from_offset, bytes);
            let blocks = taken.block_count();
            tree.change_contents(caller, to, blocks, |to| to.take_blocks(copy.to_offset, taken))
        })
    }

    fn copy_range(&mut self, caller: &Caller, copy: &RangeCopy) -> Changed<WriteDone> {
        self.change(&copy.to, |tree, to| {
            let from = tree.source(caller, copy, to)?;
            let bytes = copy.bytes(tree.file(from)?.size()).min(COPY_BYTES_MAX);
            let end = copy.to_offset.checked_add(bytes).ok_or(FsError::FileTooBig)?;
            if end > FILE_BYTES_MAX {
                return Err(FsError::FileTooBig);
            }
            if from == to && copy.overlaps(bytes) {
                return Err(FsError::Invalid);
            }
            let count = u32::try_from(bytes).expect("it is at most a MiB");
            let data = tree.file(from)?.read(copy.from_offset, count);
            let blocks = tree.file(to)?.missing_blocks(copy.to_offset, data.len());
            tree.room_for(blocks)?;
            tree.used_blocks += blocks;
            if !data.is_empty() {
                tree.put(caller, to, copy.to_offset, &data, Stability::Unstable);
            }
            Ok(WriteDone { count, stability: Stability::Unstable, verifier: tree.verifier() })
        })
    }
}

impl Ranges for MemStore {
    fn seek<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        content: Content,
    ) -> MaybeReady<'a, Result<Seek, FsError>> {
        MaybeReady::now(self.tree().seek(caller, object, offset, content))
    }

    fn allocate<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        range: ByteRange,
    ) -> MaybeReady<'a, Changed<()>> {
        MaybeReady::now(self.tree().change_range(caller, object, range, true))
    }

    fn deallocate<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        range: ByteRange,
    ) -> MaybeReady<'a, Changed<()>> {
        MaybeReady::now(self.tree().change_range(caller, object, range, false))
    }

    fn clone_range<'a>(
        &'a self,
        caller: &'a Caller,
        copy: &'a RangeCopy,
    ) -> MaybeReady<'a, Changed<()>> {
        MaybeReady::now(self.tree().clone_range(caller, copy))
    }

    fn copy_range<'a>(
        &'a self,
        caller: &'a Caller,
        copy: &'a RangeCopy,
    ) -> MaybeReady<'a, Changed<WriteDone>> {
        MaybeReady::now(self.tree().copy_range(caller, copy))
    }
}
