//! The messages between metaservers of these worlds, and the actions of metaservers and their
//! clients.

use core::time::Duration;

use leasehold_base::units::{FileId, Time};
use leasehold_core::leases::{Kind, Serial};
use leasehold_core::replica::covers::Purpose;

#[derive(Clone, Copy, Debug)]
pub(super) enum Ask {
    Hello,
    Cover(FileId, Kind, Purpose, Option<Serial>),
    Uncover(FileId, Serial),
    /// A client reads a file: no other client may write it.
    Look(FileId),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// True if clients may hold unknown leases, and the objects that the caller has covers on.
    Known(bool, Vec<(FileId, Kind)>),
    Covered(Serial, Kind, Duration),
    Done,
    Later,
    /// The message is of another epoch, and had no effect.
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
    /// The receiver's epoch, as far as the sender knows it.
    pub(super) callee_epoch: u64,
    pub(super) call: u64,
    pub(super) body: Body,
}

/// The number of a client's lease: a later one is greater, also in a later epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lease(pub(super) u64);

/// A call of a client to its metaserver.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    /// Reads a file, and requests a lease.
    Read(FileId, Option<Kind>),
    /// Writes a file, optionally under this lease and from the value that was cached under it.
    Write(FileId, u64, Option<(Lease, u64)>),
    /// Returns a lease.
    Return(FileId, Lease),
}

/// A message of a metaserver to its client.
#[derive(Clone, Copy, Debug)]
pub(super) enum Told {
    /// The result of the read that was sent at that time, and the grant.
    Read(FileId, u64, Option<(Kind, Lease, Time)>),
    Written(FileId),
    /// The written data came too late.
    Late(FileId),
    /// The client has to retry the call later.
    Again(FileId),
    Evict(FileId, Lease),
}
