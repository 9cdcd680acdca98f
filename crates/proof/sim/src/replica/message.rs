//! The messages between metaservers, as in `spec/replica.x`.

use leasehold_base::units::FileId;
use leasehold_core::replica::home::Refusal;
use leasehold_core::replica::moves::Move;
use leasehold_core::replica::names::Stands;
use leasehold_core::replica::peers::Known;
use leasehold_core::replica::yields::Yield;
use leasehold_core::replica::{Peer, Place, Stamp};

use super::node::ROOT;

/// The metadata of an object. In these worlds each object has one name, and its data is one number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Metafile {
    pub(super) object: FileId,
    pub(super) version: Stamp,
    pub(super) is_directory: bool,
    /// The name of the object: a directory and a name in it; `None` for the root.
    pub(super) place: Option<Place>,
    pub(super) content: u64,
}

impl Metafile {
    /// Returns the root's metafile, before the first change.
    pub(super) const fn root() -> Self {
        Self { object: ROOT, version: Stamp(0), is_directory: true, place: None, content: 0 }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Ask {
    Hello,
    Fetch(FileId, Option<Stamp>),
    Search(Place, Vec<Peer>),
    Named(Place),
    /// Claims a name for an object. The last field is the object that the claim replaces.
    Claim(Place, FileId, Option<FileId>),
    /// Asks if an object has the name in `Place`. The last field is the object that has claimed the
    /// name and now has it.
    Stands(Place, FileId, Option<FileId>),
    Yield(Yield),
    /// Reports the result of a replacement to the home of the replaced object. The version belongs
    /// to the object that has the name; `None` if the replacement failed.
    Replaced(Yield, Option<Stamp>),
    Change(FileId, u64),
    Place {
        object: FileId,
        from: Option<Place>,
        to: Option<Place>,
        over: Option<FileId>,
    },
    Move(Move),
    Moving(u64),
    List(FileId),
    Evict(FileId),
    Announce {
        object: FileId,
        version: Stamp,
        places: Vec<Place>,
        left: Place,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The reply to a start: the known state of the starting peer, and the objects of that peer
    /// that are being replaced by objects of the sender.
    Known(Known, Vec<Yield>),
    Metafile(Metafile),
    Same,
    Nowhere,
    Named(Option<FileId>),
    Is(bool),
    Listed(Vec<(Place, FileId)>),
    Version(Stamp),
    Done,
    Epoch(u64),
    Later,
    Gone,
    Exists,
    Full,
    Loop,
}

impl Answer {
    /// Converts an answer to the question whether an object has a name.
    pub(super) fn stands(&self) -> Stands {
        if *self == Self::Is(true) {
            Stands::Yes
        } else if *self == Self::Is(false) {
            Stands::No
        } else {
            Stands::Unknown
        }
    }

    /// Converts an answer to a request that only succeeds or is refused.
    pub(super) const fn had(&self) -> Result<(), Refusal> {
        match self {
            Self::Done => Ok(()),
            Self::Gone => Err(Refusal::Gone),
            Self::Exists => Err(Refusal::Exists),
            Self::Full => Err(Refusal::Full),
            Self::Loop => Err(Refusal::Loop),
            Self::Known(..)
            | Self::Metafile(_)
            | Self::Same
            | Self::Nowhere
            | Self::Named(_)
            | Self::Is(_)
            | Self::Listed(_)
            | Self::Version(_)
            | Self::Epoch(_)
            | Self::Later => Err(Refusal::Later),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Body {
    Ask(Ask),
    /// An answer, with the last version number of the metaserver that sends it.
    Answer(Stamp, Answer),
}

#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) from: Peer,
    pub(super) to: Peer,
    /// The epoch of the sender.
    pub(super) epoch: u64,
    /// The epoch of the receiver, as last known to the sender.
    pub(super) callee_epoch: u64,
    pub(super) call: u64,
    pub(super) body: Body,
}
