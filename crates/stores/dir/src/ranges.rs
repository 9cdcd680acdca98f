//! SEEK, ALLOCATE, DEALLOCATE, CLONE and COPY. All run on the thread pool, because each may read
//! or change many blocks of the disk.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use leasehold_fs::{
    ByteRange, Caller, Changed, Content, FileType, FsError, MaybeReady, ObjectId, RangeCopy,
    Ranges, Seek, Stability, WriteDone, offload,
};
use rustix::fs::{FallocateFlags, SeekFrom, copy_file_range, fallocate};
use rustix::io::{Errno, retry_on_intr};

use crate::DirStore;
use crate::errors::meaning;
use crate::file_system::Kind;
use crate::object::{Descriptor, Object, Reach};
use crate::sync::Extent;
use crate::sys;
use crate::volume::Volume;
use crate::write::OFFSET_MAX;

/// The maximum number of bytes that one call copies: a disk copies them in less than a second.
const COPY_BYTES_MAX: u64 = 16 << 20;

/// The number of bytes that one system call copies. Other changes of the file wait meanwhile.
const PIECE_BYTES: u64 = 1 << 20;

/// A change of a range of a file.
#[derive(Clone, Copy)]
enum RangeChange {
    Allocate,
    Deallocate,
}

/// The open files of a copy.
struct Files {
    source: Arc<Descriptor>,
    target: Arc<Descriptor>,
    /// The size of the source.
    size: u64,
}

fn must_be_regular(object: &Object) -> Result<(), FsError> {
    if object.file_type == FileType::Regular { Ok(()) } else { Err(FsError::WrongType) }
}

impl Volume {
    fn seek(
        &self,
        caller: &Caller,
        object: &Object,
        offset: u64,
        content: Content,
    ) -> Result<Seek, FsError> {
        must_be_regular(object)?;
        let attributes = self.attributes(object)?;
        self.permit_read(caller, object, &attributes)?;
        let size = attributes.size;
        if offset >= size {
            return Err(FsError::NoSuchDevice);
        }
        let file = self.opened(object, Reach::Read)?;
        let wanted = match content {
            Content::Data => SeekFrom::Data(offset),
            Content::Hole => SeekFrom::Hole(offset),
        };
        // No other code uses the position of the descriptor, so concurrent calls do no harm.
        match rustix::fs::seek(&*file, wanted) {
            Ok(offset) => Ok(Seek { offset, end: offset >= size }),
            Err(Errno::NXIO) => Ok(Seek { offset: size, end: true }),
            Err(errno) => Err(meaning(errno)),
        }
    }

    fn change_range(
        &self,
        caller: &Caller,
        object: &Object,
        how: RangeChange,
        range: ByteRange,
    ) -> MaybeReady<'static, Changed<()>> {
        let opened = must_be_regular(object).and_then(|()| self.opened(object, Reach::Write));
        let descriptor = match opened {
            Ok(descriptor) => descriptor,
            Err(error) => {
                let wcc = self.unchanged(object);
                return MaybeReady::now(Changed { result: Err(error), wcc });
            }
        };
        let mut change = self.syncs.begin();
        let locked = self.locks.one(&object.id);
        let result = self.change_range_as(caller, object, &descriptor, how, range);
        let wcc = self.changed(object, &result);
        if result.is_ok() {
            change.join(&object.id, &descriptor, Extent::Object);
        }
        drop(locked);
        change.settle(Changed { result, wcc })
    }

    fn change_range_as(
        &self,
        caller: &Caller,
        object: &Object,
        descriptor: &Descriptor,
        how: RangeChange,
        range: ByteRange,
    ) -> Result<(), FsError> {
        let before = self.attributes_by(object, descriptor)?;
        self.permit_write(caller, object, &before)?;
        let end = range.end()?;
        let (flags, length) = match how {
            RangeChange::Allocate if end > OFFSET_MAX => return Err(FsError::FileTooBig),
            RangeChange::Allocate => (FallocateFlags::empty(), range.length),
            RangeChange::Deallocate if range.offset >= OFFSET_MAX => return Ok(()),
            RangeChange::Deallocate => (
                FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
                end.min(OFFSET_MAX) - range.offset,
            ),
        };
        self.acting.as_caller(caller)?;
        let done = retry_on_intr(|| fallocate(descriptor, flags, range.offset, length));
        descriptor.soil(&self.syncs, &object.id);
        done.map_err(meaning)
    }

    /// Opens the files of a copy, and checks the permissions.
    fn open_both(&self, caller: &Caller, from: &Object, to: &Object) -> Result<Files, FsError> {
        must_be_regular(from)?;
        must_be_regular(to)?;
        let read = self.attributes(from)?;
        self.permit_read(caller, from, &read)?;
        let written = self.attributes(to)?;
        self.permit_write(caller, to, &written)?;
        let target = self.opened(to, Reach::Write)?;
        let source = self.opened(from, Reach::Read)?;
        Ok(Files { source, target, size: read.size })
    }

    fn clone_range(
        &self,
        caller: &Caller,
        from: &Object,
        to: &Object,
        copy: &RangeCopy,
    ) -> MaybeReady<'static, Changed<()>> {
        let mut change = self.syncs.begin();
        let locked = self.locks.two(&from.id, &to.id);
        let result = self.open_both(caller, from, to).and_then(|files| {
            let length = copy.cloned_bytes(files.size)?;
            must_fit(from, to, copy, length)?;
            if length == 0 {
                return Ok(());
            }
            self.acting.as_caller(caller)?;
            let (source, target) = (files.source.as_fd(), files.target.as_fd());
            let cloned = retry_on_intr(|| sys::clone_range(source, target, copy, length));
            files.target.soil(&self.syncs, &to.id);
            change.join(&to.id, &files.target, Extent::Object);
            cloned.map_err(|errno| match errno {
                Errno::NOTTY => FsError::NotSupported,
                other => meaning(other),
            })
        });
        let wcc = self.changed(to, &result);
        drop(locked);
        change.settle(Changed { result, wcc })
    }

    fn copy_range(
        &self,
        caller: &Caller,
        from: &Object,
        to: &Object,
        copy: &RangeCopy,
    ) -> MaybeReady<'static, Changed<WriteDone>> {
        let change = self.syncs.begin();
        let verifier = change.verifier();
        let files = match self.open_both(caller, from, to) {
            Ok(files) => files,
            Err(error) => {
                return MaybeReady::now(Changed { result: Err(error), wcc: self.unchanged(to) });
            }
        };
        let result = self.copy_pieces(caller, from, to, copy, &files);
        let result =
            result.map(|count| WriteDone { count, stability: Stability::Unstable, verifier });
        let wcc = self.changed(to, &result);
        if let Ok(done) = &result {
            if self.kind == Kind::Btrfs {
                self.unsettled.wrote(Instant::now(), done.count.into());
            }
            self.syncs.write_behind(&to.id, &files.target, (copy.to_offset, done.count));
        }
        change.settle(Changed { result, wcc })
    }

    /// Copies up to [`COPY_BYTES_MAX`] bytes; returns their number. Returns an error only if no
    /// byte was copied.
    fn copy_pieces(
        &self,
        caller: &Caller,
        from: &Object,
        to: &Object,
        copy: &RangeCopy,
        files: &Files,
    ) -> Result<u32, FsError> {
        let length = copy.bytes(files.size).min(COPY_BYTES_MAX);
        must_fit(from, to, copy, length)?;
        self.acting.as_caller(caller)?;
        let mut done = 0;
        while done < length {
            let _locked = self.locks.one(&to.id);
            let piece = usize::try_from((length - done).min(PIECE_BYTES)).unwrap_or(usize::MAX);
            let copied = retry_on_intr(|| {
                let (mut at, mut put) = (copy.from_offset + done, copy.to_offset + done);
                let (source, target) = (&*files.source, &*files.target);
                copy_file_range(source, Some(&mut at), target, Some(&mut put), piece)
            });
            files.target.soil(&self.syncs, &to.id);
            match copied {
                // A program has truncated the source.
                Ok(0) => break,
                Ok(count) => done += count as u64,
                Err(_) if done > 0 => break,
                Err(errno) => return Err(meaning(errno)),
            }
        }
        u32::try_from(done).map_err(|_| FsError::Invalid)
    }
}

/// Checks the ranges of a copy of this length.
fn must_fit(from: &Object, to: &Object, copy: &RangeCopy, length: u64) -> Result<(), FsError> {
    if copy.to_offset.checked_add(length).is_none_or(|end| end > OFFSET_MAX) {
        return Err(FsError::FileTooBig);
    }
    if from.id == to.id && copy.overlaps(length) { Err(FsError::Invalid) } else { Ok(()) }
}

impl DirStore {
    fn change_range<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        how: RangeChange,
        range: ByteRange,
    ) -> MaybeReady<'a, Changed<()>> {
        let failed = |_| Changed::failed(FsError::WrongType);
        self.on_each(
            *object,
            move |object| {
                let (volume, caller) = (Arc::clone(&self.volume), caller.clone());
                let change = move || volume.change_range(&caller, &object, how, range);
                let done = offload(&*self.volume.blocking, change);
                MaybeReady::later(async move { done.await.await })
            },
            failed,
        )
    }

    /// Runs an operation on the source and the target of a copy in the thread pool.
    fn on_both<'a, T: Send + 'static>(
        &'a self,
        copy: &'a RangeCopy,
        operation: impl FnOnce(&Volume, &Object, &Object, &RangeCopy) -> MaybeReady<'static, Changed<T>>
        + Send
        + 'static,
    ) -> MaybeReady<'a, Changed<T>> {
        let failed = |_| Changed::failed(FsError::WrongType);
        self.on_each(
            copy.from,
            move |from| {
                self.on_each(
                    copy.to,
                    move |to| {
                        let (volume, copy) = (Arc::clone(&self.volume), *copy);
                        let run = move || operation(&volume, &from, &to, &copy);
                        let done = offload(&*self.volume.blocking, run);
                        MaybeReady::later(async move { done.await.await })
                    },
                    failed,
                )
            },
            failed,
        )
    }
}

impl Ranges for DirStore {
    fn seek<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        content: Content,
    ) -> MaybeReady<'a, Result<Seek, FsError>> {
        let seek = move |object: Arc<Object>| {
            let (volume, caller) = (Arc::clone(&self.volume), caller.clone());
            let seek = move || volume.seek(&caller, &object, offset, content);
            MaybeReady::later(offload(&*self.volume.blocking, seek))
        };
        self.on_each(*object, seek, |_| Err(FsError::WrongType))
    }

    fn allocate<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        range: ByteRange,
    ) -> MaybeReady<'a, Changed<()>> {
        self.change_range(caller, object, RangeChange::Allocate, range)
    }

    fn deallocate<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        range: ByteRange,
    ) -> MaybeReady<'a, Changed<()>> {
        self.change_range(caller, object, RangeChange::Deallocate, range)
    }

    fn clone_range<'a>(
        &'a self,
        caller: &'a Caller,
        copy: &'a RangeCopy,
    ) -> MaybeReady<'a, Changed<()>> {
        let caller = caller.clone();
        self.on_both(copy, move |volume, from, to, copy| {
            volume.clone_range(&caller, from, to, copy)
        })
    }

    fn copy_range<'a>(
        &'a self,
        caller: &'a Caller,
        copy: &'a RangeCopy,
    ) -> MaybeReady<'a, Changed<WriteDone>> {
        let caller = caller.clone();
        self.on_both(copy, move |volume, from, to, copy| volume.copy_range(&caller, from, to, copy))
    }
}
