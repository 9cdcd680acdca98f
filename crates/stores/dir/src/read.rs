//! READ and READLINK.

use std::os::fd::AsFd;
use std::sync::Arc;

use leasehold_fs::permission::must_be_file;
use leasehold_fs::{Attributes, Caller, FileType, FsError, MaybeReady, ReadDone, Target, offload};
use rustix::fs::readlinkat;
use rustix::io::{Errno, retry_on_intr};

use crate::buffers::Buffers;
use crate::errors::meaning;
use crate::object::{Descriptor, Object, Reach};
use crate::sys;
use crate::volume::Volume;

/// A read in progress.
struct Reading {
    descriptor: Arc<Descriptor>,
    buffers: Arc<Buffers>,
    buffer: Vec<u8>,
    /// The offset in the file at which the data in the buffer begins.
    offset: u64,
    /// The number of bytes that the read returns, unless the file ends earlier.
    count: usize,
    /// The attributes from before the read. If the file changes during the read, these attributes
    /// are older than the data, so a client that caches both detects the change by a later GETATTR.
    /// Attributes from after the read would hide the change.
    attributes: Attributes,
}

impl Volume {
    /// Reads data in the kernel's cache immediately, and other data on the thread pool.
    pub(crate) fn read(
        &self,
        caller: &Caller,
        object: &Object,
        offset: u64,
        count: u32,
    ) -> MaybeReady<'static, Result<ReadDone, FsError>> {
        let mut reading = match self.begin_read(caller, object, offset, count) {
            Ok(reading) => reading,
            Err(error) => return MaybeReady::now(Err(error)),
        };
        match reading.go_on(true) {
            Ok(()) => MaybeReady::now(Ok(reading.finish())),
            Err(Errno::AGAIN | Errno::OPNOTSUPP) => {
                let done = offload(&*self.blocking, move || {
                    reading.go_on(false).map_err(meaning)?;
                    Ok(reading.finish())
                });
                MaybeReady::later(done)
            }
            Err(errno) => MaybeReady::now(Err(meaning(errno))),
        }
    }

    fn begin_read(
        &self,
        caller: &Caller,
        object: &Object,
        offset: u64,
        count: u32,
    ) -> Result<Reading, FsError> {
        must_be_file(object.file_type)?;
        let attributes = self.attributes(object)?;
        self.permit_read(caller, object, &attributes)?;
        let descriptor = self.opened(object, Reach::Read)?;
        let rest = attributes.size.saturating_sub(offset);
        let count = usize::try_from(rest.min(count.into())).unwrap_or(usize::MAX);
        let buffer = self.buffers.take(count);
        let buffers = Arc::clone(&self.buffers);
        Ok(Reading { descriptor, buffers, buffer, offset, count, attributes })
    }

    /// Returns the target of a symbolic link.
    pub(crate) fn readlink(&self, object: &Object) -> Result<(Target, Attributes), FsError> {
        if object.file_type != FileType::Symlink {
            return Err(FsError::Invalid);
        }
        let attributes = self.attributes(object)?;
        let target = readlinkat(&*object.descriptor(), c"", Vec::new()).map_err(meaning)?;
        Ok((target.into_bytes(), attributes))
    }
}

impl Reading {
    /// Reads until the buffer has `count` bytes or the file ends.
    fn go_on(&mut self, cached_only: bool) -> Result<(), Errno> {
        while self.buffer.len() < self.count {
            let limit = self.count - self.buffer.len();
            let offset = self.offset + self.buffer.len() as u64;
            let file = self.descriptor.as_fd();
            let buffer = &mut self.buffer;
            let count = retry_on_intr(|| sys::read_at(file, buffer, limit, offset, cached_only))?;
            if count == 0 {
                // A program truncated the file after the query of its attributes, so report the
                // smaller size.
                self.attributes.size = self.attributes.size.min(offset);
                break;
            }
        }
        Ok(())
    }

    fn finish(self) -> ReadDone {
        let Self { buffers, buffer, offset, attributes, .. } = self;
        let end = offset.saturating_add(buffer.len() as u64) >= attributes.size;
        ReadDone { data: buffers.share(buffer), end, attributes }
    }
}
