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
/// - The metaserver chooses the names; the iod has no other objects.
/// - An operation that would have to sleep returns a future; it never blocks.
pub trait Iod: Send + Sync {
    /// Returns the extent of an object.
    fn extent(&self, object: ObjectName) -> MaybeReady<'_, Result<Extent, FsError>>;

    /// Reads up to `count` bytes; fewer only at the end.
    fn read(
        &self,
        object: ObjectName,
        offset: u64,
        count: u32,
    ) -> MaybeReady<'_, Result<Bytes, FsError>>;

    /// Writes all of the data with the requested stability, or fails, possibly after a part of it.
    /// Creates the object.
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

    /// Gives an object to this user and group. Clients write the object as the user, and read the
    /// object as the group. Returns the place where clients find the object; `None` if clients
    /// cannot, or if the iod would accept a caller with another user nevertheless. The new owner is
    /// on stable storage when the call returns.
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

    /// Returns the room for data.
    fn space(&self) -> MaybeReady<'_, Result<Room, FsError>>;

    /// Returns true if the iod has not answered requests for a while, so that callers should avoid
    /// it.
    fn is_away(&self) -> bool {
        false
    }

    /// Returns true if the iod is permanently lost, with all of its objects.
    fn is_gone(&self) -> bool {
        false
    }

    /// Returns the traffic on the connections to the iod so far, if it has any.
    fn traffic(&self) -> Traffic {
        Traffic::default()
    }

    /// The number of times that a connection to the iod was opened or lost: the number changes when
    /// another process serves the iod. Zero if there are no connections.
    fn connections(&self) -> u64 {
        0
    }

    /// Returns true if the current connection is not verified. Any call verifies the connection.
    fn needs_judgement(&self) -> bool {
        false
    }

    /// Looks up the directory of the objects again before the next call: its handle is stale.
    fn find_again(&self) {}

    /// Returns the turns (rollback counters) that the iod has recorded beside its objects. See
    /// [`crate::VerifiedIod`]. The error is [`FsError::Stale`] if the objects have no mark any more, or
    /// are at another place.
    fn turns(&self) -> MaybeReady<'_, Result<NotedTurns, FsError>> {
        MaybeReady::now(Err(FsError::NotSupported))
    }

    /// Records a turn on stable storage.
    fn note_turn(&self, _turn: u64) -> MaybeReady<'_, Result<(), FsError>> {
        MaybeReady::now(Err(FsError::NotSupported))
    }

    /// Makes the iod answer clients if the iod has recorded this turn, and refuse all clients
    /// otherwise.
    fn let_clients_in(&self, _turn: u64) -> MaybeReady<'_, Result<(), FsError>> {
        MaybeReady::now(Ok(()))
    }

    /// Verifies the iod once more, and gives the iod its next turn if `step` requires one.
    fn take_turn(&self, _step: Step) -> MaybeReady<'_, Result<(), FsError>> {
        MaybeReady::now(Ok(()))
    }

    /// The number of times that the iod was found to be rolled back; `None` if the iod is not
    /// rolled back now.
    fn older(&self) -> Option<u64> {
        None
    }

    /// Returns true if the iod is rolled back: its counter is less than the metaserver's.
    fn is_older(&self) -> bool {
        self.older().is_some()
    }
}

/// The conditions under which an iod gets its next turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// If the iod is not rolled back, and its objects have changed since the last turn.
    IfChanged,
    /// Also if the iod is rolled back and [`Iod::older`] still returns this number: no file depends
    /// on its objects, or an administrator accepts the iod.
    Believed(u64),
}

/// The name of an object, which holds all stripes of one file on one iod. Names are unique for all
/// time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName(pub [u8; 16]);

impl ObjectName {
    /// The name as 32 hexadecimal digits.
    #[must_use]
    pub fn text(self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.0))
    }

    /// Returns the name of the second copy. It differs from the first name in one bit of the random
    /// number of a metaserver's start.
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

/// The room for data, and the file system that provides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// The room.
    pub space: Space,
    /// Distinguishes the file systems of iods: two iods on one file system share its room.
    pub place: (u64, FileSystemId),
}

/// Size, owner and time of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Size in bytes.
    pub size: u64,
    /// Bytes that the object uses on the disk.
    pub used: u64,
    /// The user that owns the object.
    pub owner: u32,
    /// The last change of the object's data.
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
    /// The object after the write.
    pub extent: Extent,
    /// The verifier. A later COMMIT returns the same one unless the iod has lost data.
    pub verifier: Verifier,
}
