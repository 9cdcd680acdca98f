//! A placeholder for an iod that is permanently lost.

use bytes::Bytes;
use leasehold_fs::{FsError, MaybeReady, Stability, Verifier};

use crate::iod::{Extent, Iod, ObjectName, Room, Written};

/// An iod that is permanently lost, with all of its objects. The placeholder keeps the number of
/// the iod in the volume.
pub struct LostIod;

const LOST: FsError = FsError::Io;

impl Iod for LostIod {
    fn extent(&self, _: ObjectName) -> MaybeReady<'_, Result<Extent, FsError>> {
        MaybeReady::now(Err(LOST))
    }

    fn read(&self, _: ObjectName, _: u64, _: u32) -> MaybeReady<'_, Result<Bytes, FsError>> {
        MaybeReady::now(Err(LOST))
    }

    fn write(
        &self,
        _: ObjectName,
        _: u64,
        _: Bytes,
        _: Stability,
    ) -> MaybeReady<'_, Result<Written, FsError>> {
        MaybeReady::now(Err(LOST))
    }

    fn resize(&self, _: ObjectName, _: u64) -> MaybeReady<'_, Result<Extent, FsError>> {
        MaybeReady::now(Err(LOST))
    }

    fn commit(&self, _: ObjectName) -> MaybeReady<'_, Result<Verifier, FsError>> {
        MaybeReady::now(Err(LOST))
    }

    fn remove(&self, _: ObjectName) -> MaybeReady<'_, Result<(), FsError>> {
        MaybeReady::now(Ok(()))
    }

    fn list(&self, _: u8) -> MaybeReady<'_, Result<Vec<ObjectName>, FsError>> {
        MaybeReady::now(Err(LOST))
    }

    fn verifier(&self) -> MaybeReady<'_, Result<Verifier, FsError>> {
        MaybeReady::now(Ok(Verifier::default()))
    }

    fn space(&self) -> MaybeReady<'_, Result<Room, FsError>> {
        MaybeReady::now(Err(LOST))
    }

    fn is_away(&self) -> bool {
        true
    }

    fn is_gone(&self) -> bool {
        true
    }
}
