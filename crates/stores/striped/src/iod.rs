//! An I/O daemon, as the metaserver sees it.

use core::fmt;

use bytes::Bytes;
use leasehold_base::units::{FileSystemId, FileTime};
use leasehold_fs::{
    Answer, Attributes, FsError, NotedTurns, Owner, Space, Spot, Stability, Verifier,
};
use leasehold_session::Traffic;

/// What an I/O daemon (iod) keeps: objects of bytes by name.
///
/// What holds for every operation:
/// - An object that was never written is empty; to ask for it makes nothing.
/// - Names are the metaserver's; nobody else's objects are there.
/// - An operation that cannot be answered without sleeping answers later; it never blocks.
pub trait Iod: Send + Sync {
    /// How large an object is.
    fn extent(&self, object: ObjectName) -> Answer<'_, Result<Extent, FsError>>;

    /// Reads up to `count` bytes; fewer only at the end.
    fn read(
        &self,
        object: ObjectName,
        offset: u64,
        count: u32,
    ) -> Answer<'_, Result<Bytes, FsError>>;

    /// Writes all of the data as stable as asked, or fails; then some of it may be there. Makes
    /// the object.
    fn write(
        &self,
        object: ObjectName,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> Answer<'_, Result<Written, FsError>>;

    /// Cuts an object off, or makes it longer by a hole; on stable storage when it answers.
    fn resize(&self, object: ObjectName, size: u64) -> Answer<'_, Result<Extent, FsError>>;

    /// Puts on stable storage what was written to an object.
    fn commit(&self, object: ObjectName) -> Answer<'_, Result<Verifier, FsError>>;

    /// Removes an object, if it is there.
    fn remove(&self, object: ObjectName) -> Answer<'_, Result<(), FsError>>;

    /// Gives an object to this user and group. Clients write the object as the user, and read the
    /// object as the group. Returns the place where clients find the object; none where clients
    /// cannot, or where the iod would let in a caller with another user all the same. The new owner
    /// is on stable storage when the call returns.
    fn give(
        &self,
        _object: ObjectName,
        _owner: Owner,
    ) -> Answer<'_, Result<Option<Spot>, FsError>> {
        Answer::now(Ok(None))
    }

    /// The objects whose names begin with a byte. One that is made or removed meanwhile may be among
    /// them or not.
    fn list(&self, _first: u8) -> Answer<'_, Result<Vec<ObjectName>, FsError>> {
        Answer::now(Err(FsError::NotSupported))
    }

    /// The verifier that a COMMIT would bring now.
    fn verifier(&self) -> Answer<'_, Result<Verifier, FsError>>;

    /// Carries out a change that changes nothing.
    ///
    /// # Errors
    /// The error that any change would get, as where the file system is read-only.
    fn probe(&self) -> Answer<'_, Result<(), FsError>> {
        Answer::now(Ok(()))
    }

    /// Room for data.
    fn space(&self) -> Answer<'_, Result<Room, FsError>>;

    /// Whether it was asked and did not answer for a while, so that who can do without it should.
    fn is_away(&self) -> bool {
        false
    }

    /// True if the iod is gone for good, with all of its objects.
    fn is_gone(&self) -> bool {
        false
    }

    /// What went over the connections to it so far, where it has any.
    fn traffic(&self) -> Traffic {
        Traffic::default()
    }

    /// The number of times that a connection to the iod was opened or lost: the number changes when
    /// another process serves the iod. Zero where there are no connections.
    fn connections(&self) -> u64 {
        0
    }

    /// Returns true if the present connection is to be judged. Any call has the connection judged.
    fn needs_judgement(&self) -> bool {
        false
    }

    /// Finds the place of the objects again before the next call: the handle of the place is stale.
    fn find_again(&self) {}

    /// The turns that the iod has noted beside its objects. See [`crate::Judged`]. The error is
    /// [`FsError::Stale`] where the objects have no mark any more, or another place.
    fn turns(&self) -> Answer<'_, Result<NotedTurns, FsError>> {
        Answer::now(Err(FsError::NotSupported))
    }

    /// Notes a turn on stable storage.
    fn note_turn(&self, _turn: u64) -> Answer<'_, Result<(), FsError>> {
        Answer::now(Err(FsError::NotSupported))
    }

    /// Has the iod answer clients if the iod has noted this turn, and answer no client otherwise.
    fn let_clients_in(&self, _turn: u64) -> Answer<'_, Result<(), FsError>> {
        Answer::now(Ok(()))
    }

    /// Judges the iod once more, and gives the iod its next turn where `step` asks for a turn.
    fn take_turn(&self, _step: Step) -> Answer<'_, Result<(), FsError>> {
        Answer::now(Ok(()))
    }

    /// The number of times that the iod was found older than its metaserver knows it; none if the
    /// iod is not older now.
    fn older(&self) -> Option<u64> {
        None
    }

    /// Returns true if the iod is older than its metaserver knows it.
    fn is_older(&self) -> bool {
        self.older().is_some()
    }
}

/// The conditions on which an iod gets its next turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// If the iod is not older, and its objects changed since the last turn.
    IfChanged,
    /// Also if the iod is older ever since [`Iod::older`] gave this number: no file depends on its
    /// objects, or an administrator believes the iod.
    Believed(u64),
}

/// The name of an object: of all stripes that a file has on one iod. No two files ever have the
/// same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName(pub [u8; 16]);

impl ObjectName {
    /// The name as 32 hexadecimal digits.
    #[must_use]
    pub fn text(self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.0))
    }

    /// The name of the second copy: the other differs from all names in the same bit, which is one
    /// of the random number that a metaserver's start has.
    #[must_use]
    pub const fn second(self) -> Self {
        let mut name = self.0;
        name[15] ^= 0x80;
        Self(name)
    }

    /// The name that is written so; none where it is another's.
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

/// Room for data, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// The room.
    pub space: Space,
    /// What tells the file system from others that iods are on: two iods on one share its room.
    pub place: (u64, FileSystemId),
}

/// How large an object is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Size in bytes.
    pub size: u64,
    /// Bytes that it takes on the disk.
    pub used: u64,
    /// The user that it belongs to.
    pub owner: u32,
    /// When its data was changed last.
    pub modified: FileTime,
}

impl Extent {
    /// The extent of an object that is a file with these attributes.
    pub(crate) const fn of(attributes: &Attributes) -> Self {
        let Attributes { size, used, uid: owner, modified, .. } = *attributes;
        Self { size, used, owner, modified }
    }
}

/// What became of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The object afterwards.
    pub extent: Extent,
    /// The verifier of a later COMMIT, unless something was lost.
    pub verifier: Verifier,
}
