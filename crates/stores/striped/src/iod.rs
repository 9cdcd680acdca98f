//! The metaserver's interface to an I/O daemon.

use core::fmt;

use bytes::Bytes;
use leasehold_base::units::{FileSystemId, FileTime};
use leasehold_fs::{
    Attributes, FsError, MaybeReady, NotedTurns, Owner, Space, Spot, Stability, Verifier,
};
use leasehold_session::Traffic;

/// An I/O daemon (iod): it stores objects of bytes by name.
///
/// Properties of every operation:
/// - An object that was never written is empty; a query does not create it.
/// - The metaserver chooses the object names, and the iod creates no objects of its own.
/// - An operation that must wait returns a future; no operation blocks its thread.
pub trait Iod: Send + Sync {
    /// Returns the extent of an object: its size, owner and modification time.
    fn extent(&self, object: ObjectName) -> MaybeReady<'_, Result<Extent, FsError>>;

    /// Reads up to `count` bytes; returns fewer bytes only at the end of the object.
    fn read(
        &self,
        object: ObjectName,
        offset: u64,
        count: u32,
    ) -> MaybeReady<'_, Result<Bytes, FsError>>;

    /// Writes all of the data with the requested stability. After an error a part of the data may
    /// be written. Creates the object if it does not exist.
    fn write(
        &self,
        object: ObjectName,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> MaybeReady<'_, Result<Written, FsError>>;

    /// Cuts an object off, or extends it by a hole; the size is stable when the call returns.
    fn resize(&self, object: ObjectName, size: u64) -> MaybeReady<'_, Result<Extent, FsError>>;

    /// Writes the data of an object to stable storage.
    fn commit(&self, object: ObjectName) -> MaybeReady<'_, Result<Verifier, FsError>>;

    /// Removes an object, if it exists.
    fn remove(&self, object: ObjectName) -> MaybeReady<'_, Result<(), FsError>>;

    /// Sets the owner of an object. Clients write the object as the user of the owner, and read the
    /// object as the group. Returns the address and the handle at which clients find the object;
    /// `None` if clients cannot access the object, or if the iod would also accept writes by other
    /// users. The new owner is on stable storage when the call returns.
    fn give(
        &self,
        _object: ObjectName,
        _owner: Owner,
    ) -> MaybeReady<'_, Result<Option<Spot>, FsError>> {
        MaybeReady::now(Ok(None))
    }

    /// Returns the objects whose names begin with a byte. The list may contain or omit an object
    /// that is created or removed during the call.
    fn list(&self, _first: u8) -> MaybeReady<'_, Result<Vec<ObjectName>, FsError>> {
        MaybeReady::now(Err(FsError::NotSupported))
    }

    /// Returns the verifier that a COMMIT would return now.
    fn verifier(&self) -> MaybeReady<'_, Result<Verifier, FsError>>;

    /// Executes a change without effect.
    ///
    /// # Errors
    /// The error of any change, as for a read-only file system.
    fn probe(&self) -> MaybeReady<'_, Result<(), FsError>> {
        MaybeReady::now(Ok(()))
    }

    /// Returns the size and free space of the iod's file system.
    fn space(&self) -> MaybeReady<'_, Result<Room, FsError>>;

    /// Returns true if the iod is unreachable: it has not answered requests for a while, so callers
    /// should avoid it.
    fn is_away(&self) -> bool {
        false
    }

    /// Returns true if the iod is permanently lost, with all of its objects.
    fn is_gone(&self) -> bool {
        false
    }

    /// Returns the traffic on the connections to the iod so far; zero if there are no connections.
    fn traffic(&self) -> Traffic {
        Traffic::default()
    }

    /// Returns the number of times that a connection to the iod was opened or lost, or zero for an
    /// iod without connections. A restart of the iod changes the number.
    fn connections(&self) -> u64 {
        0
    }

    /// Returns true if the current connection is not verified. Any call verifies the connection.
    fn needs_judgement(&self) -> bool {
        false
    }

    /// Makes the next call look up the directory of the objects again, because the handle of the
    /// directory is stale.
    fn find_again(&self) {}

    /// Returns the rollback counter ("turn") that the iod has recorded beside its objects. See
    /// [`crate::VerifiedIod`]. The error is [`FsError::Stale`] if the handle of the mark is stale,
    /// as when the directory of the objects was replaced.
    fn turns(&self) -> MaybeReady<'_, Result<NotedTurns, FsError>> {
        MaybeReady::now(Err(FsError::NotSupported))
    }

    /// Makes the iod record this rollback counter on stable storage.
    fn note_turn(&self, _turn: u64) -> MaybeReady<'_, Result<(), FsError>> {
        MaybeReady::now(Err(FsError::NotSupported))
    }

    /// Makes the iod answer clients if the iod has recorded this rollback counter, and refuse all
    /// clients otherwise.
    fn let_clients_in(&self, _turn: u64) -> MaybeReady<'_, Result<(), FsError>> {
        MaybeReady::now(Ok(()))
    }

    /// Verifies the iod once more, and advances its rollback counter if `step` requires this.
    fn take_turn(&self, _step: Step) -> MaybeReady<'_, Result<(), FsError>> {
        MaybeReady::now(Ok(()))
    }

    /// Returns the number of times that the iod was found to be rolled back; `None` if the iod is
    /// not rolled back now.
    fn older(&self) -> Option<u64> {
        None
    }

    /// Returns true if the iod is rolled back: its rollback counter is less than the metaserver's.
    fn is_older(&self) -> bool {
        self.older().is_some()
    }
}

/// The condition under which the metaserver advances the rollback counter of an iod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// If the iod is not rolled back, and its objects have changed since the last advance.
    IfChanged,
    /// Also if the iod is rolled back and [`Iod::older`] still returns this number. The caller has
    /// checked that no file depends on the objects of the iod, or an administrator accepts the iod.
    Believed(u64),
}

/// The name of a stripe object, which contains all stripes of one file on one iod. The store never
/// uses an object name for a second file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName(pub [u8; 16]);

impl ObjectName {
    /// Returns the name as 32 hexadecimal digits.
    #[must_use]
    pub fn text(self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.0))
    }

    /// Returns the name of the second copy. The two names differ in one bit of the random number
    /// that each start of the metaserver puts into object names.
    #[must_use]
    pub const fn second(self) -> Self {
        let mut name = self.0;
        name[15] ^= 0x80;
        Self(name)
    }

    /// Parses hexadecimal digits; returns `None` if the text is not a name as [`Self::text`] writes
    /// it.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let name = u128::from_str_radix(core::str::from_utf8(text).ok()?, 16).ok()?;
        let name = Self(name.to_be_bytes());
        (name.text().as_bytes() == text).then_some(name)
    }
}

impl fmt::Debug for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

/// The size and free space of the file system of an iod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// The size and the free space.
    pub space: Space,
    /// The machine and the file system of the iod. Two iods with equal values share one file system
    /// and its free space.
    pub place: (u64, FileSystemId),
}

/// The size, owner and modification time of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// The size in bytes.
    pub size: u64,
    /// The number of bytes that the object uses on the disk.
    pub used: u64,
    /// The user id of the object's owner.
    pub owner: u32,
    /// The time of the last change of the object's data.
    pub modified: FileTime,
}

impl Extent {
    /// Returns the extent of an object that is a file with these attributes.
    pub(crate) const fn of(attributes: &Attributes) -> Self {
        let Attributes { size, used, uid: owner, modified, .. } = *attributes;
        Self { size, used, owner, modified }
    }
}

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The extent of the object after the write.
    pub extent: Extent,
    /// The write verifier. A later COMMIT returns an equal verifier unless the iod has lost data.
    pub verifier: Verifier,
}
