//! The persistent journal of the duplicate request cache, for a restart of the server.

use bytes::Bytes;
use leasehold_base::units::Time;

/// A journal that survives every end of the process.
///
/// The journal has as many slots as the cache has entries, numbered from zero.
pub trait ReplyJournal: Send + Sync {
    /// Writes an entry into a slot, over the earlier entry; the server last sent its reply at
    /// `given`.
    ///
    /// When this returns, the entry survives the end of the process. The method must not wait for a
    /// disk. Losing an entry has no other consequence than the loss of that entry.
    fn write(&self, slot: u32, given: Time, note: &[u8]);

    /// Writes a marked entry into a slot: the change is made, but may not be on stable storage. A
    /// later start must make the change stable before it uses the entry. A journal without marks
    /// does nothing.
    fn write_made(&self, _slot: u32, _given: Time, _note: &[u8]) {}
}

/// An entry of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted {
    /// The slot of the entry.
    pub slot: u32,
    /// The time of its last reply, on the clock of this start.
    pub given: Time,
    /// The encoded entry.
    pub note: Bytes,
}
