//! The messages between the clients and the server: the messages of `spec/lease.x`, as Rust values.

use leasehold_core::leases::table::{Access, Ask, Grant, Told};
use leasehold_core::leases::{Modrev, Object, Open, Serial};

use super::store::{Content, Id};

/// A call of a client to the server.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) host: usize,
    /// True if the client uses leases. False for a plain client, which sends neither instance nor
    /// epoch.
    pub(super) leases: bool,
    pub(super) instance: u64,
    pub(super) epoch: u64,
    pub(super) xid: u64,
    pub(super) body: Body,
}

/// The procedure and its arguments.
#[derive(Clone, Debug)]
pub(super) enum Body {
    Hello,
    /// Requests a lease. If the access is a read, also requests the content.
    Lease(Object, Access, Ask),
    Return(Object, Serial, Open),
    Reclaimed,
    Recovered,
    Read(Object),
    Look(Object),
    Change(Object, Change),
    Commit(Object),
}

impl Body {
    /// Returns the object that the call concerns; `None` for a call about the client itself.
    pub(super) const fn object(&self) -> Option<Object> {
        match self {
            Self::Hello | Self::Reclaimed | Self::Recovered => None,
            Self::Lease(object, ..)
            | Self::Return(object, ..)
            | Self::Read(object)
            | Self::Look(object)
            | Self::Change(object, _)
            | Self::Commit(object) => Some(*object),
        }
    }

    /// Returns true if the call requests a lease.
    pub(super) const fn asks(&self) -> bool {
        match self {
            Self::Lease(..) => true,
            Self::Change(_, change) => change.ask.is_some(),
            Self::Hello
            | Self::Return(..)
            | Self::Reclaimed
            | Self::Recovered
            | Self::Read(_)
            | Self::Look(_)
            | Self::Commit(_) => false,
        }
    }
}

/// New values of some cells of an object.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) cells: Vec<(usize, Id)>,
    /// The attributes of the object after the change.
    pub(super) attributes: Id,
    pub(super) stable: bool,
    /// A lease request that is a part of the same call.
    pub(super) ask: Option<Ask>,
    /// For written-back data: the lease under which the client made the changes, and the modrev on
    /// which they are based.
    pub(super) base: Option<(Serial, Modrev)>,
    /// The number of changes that the object had had when the client made these changes. Only the
    /// checks use this number, and not the server.
    pub(super) made_from: usize,
}

/// A reply of the server.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    Welcome(u64),
    Epoch(u64),
    Unknown,
    Later,
    Done,
    Leased(Option<Grant>, Modrev, Option<Content>),
    Content(Content),
    /// The attributes, from the server or from the holder of a write lease.
    Attributes(Option<Told>),
    /// The modrevs of the object before and after the change; `None` if other callers may have
    /// changed the object in between.
    Changed {
        modrevs: Option<(Modrev, Modrev)>,
        boot: u64,
    },
    Committed {
        boot: u64,
    },
    Late,
}

/// A message on a link between a client and the server.
#[derive(Clone, Debug)]
pub(super) enum Message {
    Call(Call),
    Answer {
        instance: u64,
        xid: u64,
        answer: Answer,
    },
    Evict {
        epoch: u64,
        object: Object,
        serial: Serial,
    },
    Received {
        instance: u64,
        epoch: u64,
        object: Object,
        serial: Serial,
    },
    Inquire {
        epoch: u64,
        object: Object,
        serial: Serial,
        round: u64,
    },
    Report {
        instance: u64,
        epoch: u64,
        object: Object,
        serial: Serial,
        round: u64,
        told: Option<Told>,
    },
}
