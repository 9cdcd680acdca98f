//! What metaservers of these worlds say to each other, and what they and their clients do.

use core::time::Duration;

use leasehold_base::units::{FileId, Time};
use leasehold_core::leases::{Kind, Serial};
use leasehold_core::replica::covers::Purpose;

#[derive(Clone, Copy, Debug)]
pub(super) enum Ask {
    Hello,
    Cover(FileId, Kind, Purpose, Option<Serial>),
    Uncover(FileId, Serial),
    /// A file is read: nobody else may write it.
    Look(FileId),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Whether clients may hold what is not known, and what is covered by who asks.
    Known(bool, Vec<(FileId, Kind)>),
    Covered(Serial, Kind, Duration),
    Done,
    Later,
    /// It is of another epoch, and had no effect.
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
    /// The epoch of who gets it, as far as the sender knows.
    pub(super) callee_epoch: u64,
    pub(super) call: u64,
    pub(super) body: Body,
}

/// The number of a lease of a client: a later one is greater, also in a later epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lease(pub(super) u64);

/// What a client has a metaserver do.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    /// A file is read, and a lease asked for.
    Read(FileId, Option<Kind>),
    /// A file is written: if by a lease, then by this, and from what there was under it.
    Write(FileId, u64, Option<(Lease, u64)>),
    /// A lease is given back.
    Return(FileId, Lease),
}

/// What a metaserver tells its client.
#[derive(Clone, Copy, Debug)]
pub(super) enum Told {
    /// What was read by the call that was sent then, and what was granted.
    Read(FileId, u64, Option<(Kind, Lease, Time)>),
    Written(FileId),
    /// What was written came too late.
    Late(FileId),
    /// It is to be done again later.
    Again(FileId),
    Evict(FileId, Lease),
}
