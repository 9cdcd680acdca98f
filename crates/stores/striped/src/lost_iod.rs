//! The stand-in for an iod that is permanently lost.

use bytes::Bytes;
use leasehold_fs::{Answer, FsError, Stability, Verifier};

use crate::iod::{Extent, Iod, ObjectName, Room, Written};

/// An iod that is permanently lost: it keeps the iod's number, and its objects are lost.
pub struct LostIod;

const LOST: FsError = FsError::Io;

impl Iod for LostIod {
    fn extent(&self, _: ObjectName) -> Answer<'_, Result<Extent, FsError>> {
        Answer::now(Err(LOST))
    }

    fn read(&self, _: ObjectName, _: u64, _: u32) -> Answer<'_, Result<Bytes, FsError>> {
        Answer::now(Err(LOST))
    }

    fn write(
        &self,
        _: ObjectName,
        _: u64,
        _: Bytes,
        _: Stability,
    ) -> Answer<'_, Result<Written, FsError>> {
        Answer::now(Err(LOST))
    }

    fn resize(&self, _: ObjectName, _: u64) -> Answer<'_, Result<Extent, FsError>> {
        Answer::now(Err(LOST))
    }

    fn commit(&self, _: ObjectName) -> Answer<'_, Result<Verifier, FsError>> {
        Answer::now(Err(LOST))
    }

    fn remove(&self, _: ObjectName) -> Answer<'_, Result<(), FsError>> {
        Answer::now(Ok(()))
    }

    fn list(&self, _: u8) -> Answer<'_, Result<Vec<ObjectName>, FsError>> {
        Answer::now(Err(LOST))
    }

    fn verifier(&self) -> Answer<'_, Result<Verifier, FsError>> {
        Answer::now(Ok(Verifier::default()))
    }

    fn space(&self) -> Answer<'_, Result<Room, FsError>> {
        Answer::now(Err(LOST))
    }

    fn is_away(&self) -> bool {
        true
    }

    fn is_gone(&self) -> bool {
        true
    }
}
