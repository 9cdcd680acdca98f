//! WRITE and COMMIT.

use std::time::Instant;

use leasehold_fs::permission::must_be_file;
use leasehold_fs::{
    Attributes, Caller, Changed, Committed, FsError, MaybeReady, Stability, WriteDone,
};
use rustix::io::{Errno, pwrite, retry_on_intr};

use crate::errors::meaning;
use crate::file_system::Kind;
use crate::object::{Descriptor, Object, Reach};
use crate::sync::Extent;
use crate::volume::Volume;

/// The maximum offset that the kernel accepts.
pub(crate) const OFFSET_MAX: u64 = i64::MAX.cast_unsigned();

impl Volume {
    /// Writes data. Waits only for the sync, if the request needs one.
    pub(crate) fn write(
        &self,
        caller: &Caller,
        object: &Object,
        offset: u64,
        data: &[u8],
        stability: Stability,
    ) -> MaybeReady<'static, Changed<WriteDone>> {
        let opened =
            must_be_file(object.file_type).and_then(|()| self.opened(object, Reach::Write));
        let descriptor = match opened {
            Ok(descriptor) => descriptor,
            Err(error) => {
                return MaybeReady::now(Changed {
                    result: Err(error),
                    wcc: self.unchanged(object),
                });
            }
        };
        let mut change = self.syncs.begin();
        let verifier = change.verifier();
        let held = self.locks.one(&object.id);
        let before = match self.attributes_by(object, &*descriptor) {
            Ok(before) => before,
            Err(error) => return MaybeReady::now(Changed::failed(error)),
        };
        let result = self
            .write_as(caller, object, &before, &descriptor, offset, data)
            .map(|count| WriteDone { count, stability, verifier });
        let wcc = self.changed(object, &result);
        match (&result, stability) {
            (Ok(_), Stability::DataSync) => change.join(&object.id, &descriptor, Extent::Data),
            (Ok(_), Stability::FileSync) => change.join(&object.id, &descriptor, Extent::Object),
            (Ok(_), Stability::Unstable) | (Err(_), _) => {}
        }
        drop(held);
        if let (Ok(done), Kind::Btrfs) = (&result, self.kind) {
            self.unsettled.wrote(Instant::now(), done.count.into());
        }
        if let (Ok(done), Stability::Unstable) = (&result, stability) {
            self.syncs.write_behind(&object.id, &descriptor, (offset, done.count));
        }
        change.settle(Changed { result, wcc })
    }

    fn write_as(
        &self,
        caller: &Caller,
        object: &Object,
        before: &Attributes,
        descriptor: &Descriptor,
        offset: u64,
        data: &[u8],
    ) -> Result<u32, FsError> {
        self.permit_write(caller, object, before)?;
        let end = offset.saturating_add(data.len() as u64);
        if end > OFFSET_MAX {
            return Err(FsError::FileTooBig);
        }
        // Write under the caller's identity, so that the kernel clears the set-user-ID and
        // set-group-ID bits and charges the caller's quota.
        self.acting.as_caller(caller)?;
        let written = write_all(descriptor, offset, data);
        descriptor.soil(&self.syncs, &object.id);
        u32::try_from(written.map_err(meaning)?).map_err(|_| FsError::Invalid)
    }

    /// Syncs the written data of a file.
    pub(crate) fn commit(&self, object: &Object) -> MaybeReady<'static, Changed<Committed>> {
        let opened = must_be_file(object.file_type).and_then(|()| self.opened(object, Reach::Read));
        let wcc = self.unchanged(object);
        match opened {
            Ok(descriptor) => {
                let mut change = self.syncs.begin();
                change.join_commit(&object.id, &descriptor);
                change.settle_commit(wcc)
            }
            Err(error) => MaybeReady::now(Changed { result: Err(error), wcc }),
        }
    }
}

/// Writes all data from `offset` on. Returns a smaller number of bytes than `data` has only after
/// an error.
fn write_all(descriptor: &Descriptor, offset: u64, data: &[u8]) -> Result<usize, Errno> {
    let mut written = 0;
    while written < data.len() {
        let rest = &data[written..];
        match retry_on_intr(|| pwrite(descriptor, rest, offset + written as u64)) {
            Ok(0) => break,
            Ok(count) => written += count,
            // Report the bytes that were written. The next WRITE gets the same error again.
            Err(_) if written > 0 => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(written)
}
