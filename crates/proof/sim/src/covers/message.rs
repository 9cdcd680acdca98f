//! The messages between the metaservers of these worlds, and the messages between a metaserver and
//! its client.

use core::time::Duration;

use leasehold_base::units::{FileId, Time};
use leasehold_core::leases::{Kind, Serial};
use leasehold_core::replica::covers::Purpose;

#[derive(Clone, Copy, Debug)]
pub(super) enum Ask {
    Hello,
    Cover(FileId, Kind, Purpose, Option<Serial>),
    Uncover(FileId, Serial),
    /// A client reads a file without a lease, so no other client may hold a write lease on it.
    Look(FileId),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The reply to HELLO: true if the sender's clients may hold leases that the sender does not
    /// know, and the objects on which the receiver has covers.
    Known(bool, Vec<(FileId, Kind)>),
    Covered(Serial, Kind, Duration),
    Done,
    Later,
    /// The message belongs to another epoch, and the receiver has ignored it.
    Epoch,
}

#[derive(Clone, Debug)]
pub(super) enum Body {
    Ask(Ask),
    Answer(Answer),
}

#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) epoch: u64,
    /// The receiver's epoch, as last known to the sender.
    pub(super) callee_epoch: u64,
    pub(super) call: u64,
    pub(super) body: Body,
}

/// The sequence number of a client's lease. A later lease has a greater number, also in a later
/// epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lease(pub(super) u64);

/// A call of a client to its metaserver.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    /// Reads a file, and requests a lease of a kind on it.
    Read(FileId, Option<Kind>),
    /// Writes a file. If the client writes data back, the call contains the lease of the data, and
    /// the value that the client had cached before its change.
    Write(FileId, u64, Option<(Lease, u64)>),
    /// Returns a lease.
    Return(FileId, Lease),
}

/// A message of a metaserver to its client.
#[derive(Clone, Copy, Debug)]
pub(super) enum Told {
    /// The result of a read, with the granted lease, its kind, and the time at which the client
    /// sent the call.
    Read(FileId, u64, Option<(Kind, Lease, Time)>),
    Written(FileId),
    /// The metaserver rejects written data, because the data arrived after the end of its lease.
    Late(FileId),
    /// The client must retry the call later.
    Again(FileId),
    Evict(FileId, Lease),
}
