//! WRITE and COMMIT.

use std::sync::Arc;

use leasehold_fs::{
    Answer, Attributes, Caller, Changed, Committed, FsError, Stability, Wcc, WriteDone,
};
use rustix::io::{Errno, pwrite, retry_on_intr};

use crate::errors::meaning;
use crate::object::{Descriptor, Object, Reach};
use crate::read::must_be_file;
use crate::sync::{Extent, Joined};
use crate::volume::Volume;

/// The largest offset that the kernel takes.
const OFFSET_MAX: u64 = i64::MAX.cast_unsigned();

impl Volume {
    /// Writes; waits only for the sync, where one is asked for.
    pub(crate) fn write(
        &self,
        caller: &Caller,
        object: &Object,
        offset: u64,
        data: &[u8],
        stability: Stability,
    ) -> Answer<'static, Changed<WriteDone>> {
        let opened = must_be_file(object).and_then(|()| self.opened(object, Reach::Write));
        let descriptor = match opened {
            Ok(descriptor) => descriptor,
            Err(error) => {
                return Answer::now(Changed { result: Err(error), wcc: self.unchanged(object) });
            }
        };
        let verifier = self.syncs.verifier();
        let held = self.locks.one(&object.id);
        let before = match self.attributes_of(&*descriptor) {
            Ok(before) => before,
            Err(error) => return Answer::now(Changed::failed(error)),
        };
        let result = self
            .write_as(caller, object, &before, &descriptor, offset, data)
            .map(|count| WriteDone { count, stability, verifier });
        let after = self.attributes_of(&*descriptor).ok();
        let joined = match (&result, stability) {
            (Ok(_), Stability::DataSync) => self.join(object, &descriptor, Extent::Data),
            (Ok(_), Stability::FileSync) => self.join(object, &descriptor, Extent::Object),
            (Ok(_), Stability::Unstable) | (Err(_), _) => None,
        };
        drop(held);
        let wcc = Wcc { before: Some(before.before()), after };
        settle(joined, Changed { result, wcc })
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
        // As the caller, so that the kernel takes set-user-id bits away and counts its quota.
        self.acting.as_caller(caller)?;
        descriptor.soil(&self.syncs, &object.id);
        let written = write_all(descriptor, offset, data).map_err(meaning)?;
        u32::try_from(written).map_err(|_| FsError::Invalid)
    }

    /// Puts what was written on stable storage.
    pub(crate) fn commit(&self, object: &Object) -> Answer<'static, Changed<Committed>> {
        let opened = must_be_file(object).and_then(|()| self.opened(object, Reach::Read));
        let held = self.locks.one(&object.id);
        let wcc = self.unchanged(object);
        let joined = match &opened {
            Ok(descriptor) => self.join(object, descriptor, Extent::Object),
            Err(_) => None,
        };
        drop(held);
        let syncs = Arc::clone(&self.syncs);
        // The verifier is read behind the sync: a loss that came before it shows.
        let committed = move |synced: Result<(), FsError>| Changed {
            result: synced.map(|()| Committed { verifier: syncs.verifier() }),
            wcc,
        };
        match (opened, joined) {
            (Err(error), _) => Answer::now(committed(Err(error))),
            (Ok(_), None) => Answer::now(committed(Ok(()))),
            (Ok(_), Some(joined)) => {
                let synced = joined.wait();
                Answer::later(async move { committed(synced.await) })
            }
        }
    }

    /// Joins the next sync of an object, if there are any.
    pub(crate) fn join(
        &self,
        object: &Object,
        descriptor: &Arc<Descriptor>,
        extent: Extent,
    ) -> Option<Joined> {
        let wanted = self.syncs.are_wanted();
        wanted.then(|| self.syncs.join(&object.id, Arc::clone(descriptor), extent))
    }
}

/// Writes from `offset` on; fewer bytes than there are only when something came in between.
fn write_all(descriptor: &Descriptor, offset: u64, data: &[u8]) -> Result<usize, Errno> {
    let mut written = 0;
    while written < data.len() {
        let rest = &data[written..];
        match retry_on_intr(|| pwrite(descriptor, rest, offset + written as u64)) {
            Ok(0) => break,
            Ok(count) => written += count,
            // The next WRITE will meet it again.
            Err(_) if written > 0 => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(written)
}

/// Answers a change: at once, or when it is on stable storage.
pub(crate) fn settle<T: Send + 'static>(
    joined: impl IntoIterator<Item = Joined>,
    changed: Changed<T>,
) -> Answer<'static, Changed<T>> {
    // All start before one is waited for.
    let waits: Vec<_> = joined.into_iter().map(Joined::wait).collect();
    if waits.is_empty() {
        return Answer::now(changed);
    }
    Answer::later(async move {
        let Changed { mut result, wcc } = changed;
        for wait in waits {
            if let Err(error) = wait.await {
                result = Err(error);
            }
        }
        Changed { result, wcc }
    })
}
