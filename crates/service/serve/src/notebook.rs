//! Where kept replies are written down, for a server that is started again.

use bytes::Bytes;
use leasehold_base::units::Time;

/// Keeps notes over the end of the process, whatever ends it.
///
/// There are as many slots as replies are kept at most, from zero on.
pub trait Notebook: Send + Sync {
    /// Puts a note in a slot, over what is there; its reply was last given at `given`.
    ///
    /// The note is safe from the end of the process when this returns. It must not wait for a disk.
    /// A note that cannot be taken is lost, and no more than that.
    fn write(&self, slot: u32, given: Time, note: &[u8]);

    /// Puts a marked note in a slot: the change is made, and may not be on stable storage. A later
    /// start must put the change on stable storage before it believes the note. A notebook without
    /// marks does nothing.
    fn write_made(&self, _slot: u32, _given: Time, _note: &[u8]) {}
}

/// A note as it was found in a notebook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted {
    /// The slot that it is in.
    pub slot: u32,
    /// When its reply was last given, on the clock of this start.
    pub given: Time,
    /// The note.
    pub note: Bytes,
}
