//! The persistent journal of the duplicate request cache, for a restart of the server.

use bytes::Bytes;
use leasehold_base::units::Time;

/// A journal that survives every end of the process.
///
/// The journal has as many slots as the cache has entries, numbered from zero.
pub trait ReplyJournal: Send + Sync {
    /// Writes an entry into a slot and replaces the earlier entry of the slot. `given` is the time
    /// at which the server last sent the reply of the entry.
    ///
    /// When this returns, the entry survives the end of the process. The method must not wait for a
    /// disk. A failed write may lose this entry, and must not damage other entries.
    fn write(&self, slot: u32, given: Time, note: &[u8]);

    /// Writes a marked (unsynced) entry into a slot: the server has made the change, but the change
    /// may not be on stable storage. A later start must make the change stable before it uses the
    /// entry. The default implementation, for a journal without marks, does nothing.
    fn write_made(&self, _slot: u32, _given: Time, _note: &[u8]) {}
}

/// An entry of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted {
    /// The slot of the entry.
    pub slot: u32,
    /// The time at which the server last sent the reply, on the clock of this start.
    pub given: Time,
    /// The encoded entry.
    pub note: Bytes,
}
