//! The messages between clients and the server: the messages of `spec/lease.x`, as values.

use leasehold_core::leases::table::{Access, Ask, Grant, Told};
use leasehold_core::leases::{Modrev, Object, Open, Serial};

use super::store::{Content, Id};

/// A call of a client.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) host: usize,
    /// False for a plain client, which has neither instance nor epoch.
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
    /// Requests a lease, and the content as well if the access is to read.
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
    /// The object of the call.
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

/// New values of some cells.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) cells: Vec<(usize, Id)>,
    /// The attributes after the change.
    pub(super) attributes: Id,
    pub(super) stable: bool,
    /// A lease request in the same call.
    pub(super) ask: Option<Ask>,
    /// The lease of the changes, and the modrev from which the client made them.
    pub(super) base: Option<(Serial, Modrev)>,
    /// The number of changes that the object had had when the client made these; this is the
    /// world's knowledge, and the server does not use it.
    pub(super) made_from: usize,
}

/// A reply.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    Welcome(u64),
    Epoch(u64),
    Unknown,
    Later,
    Done,
    Leased(Option<Grant>, Modrev, Option<Content>),
    Content(Content),
    /// The attributes from the server, or from the holder of a write lease.
    Attributes(Option<Told>),
    /// The modrevs of the object before and after the change; none where other callers may have
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

/// A message on a link.
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
