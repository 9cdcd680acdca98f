//! The messages between metaservers, as in `spec/replica.x`.

use leasehold_base::units::FileId;
use leasehold_core::replica::home::Refusal;
use leasehold_core::replica::moves::Move;
use leasehold_core::replica::names::Stands;
use leasehold_core::replica::peers::Known;
use leasehold_core::replica::yields::Yield;
use leasehold_core::replica::{Peer, Place, Stamp};

use super::node::ROOT;

/// The metadata of an object. In these worlds an object has one name, and its data is a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Metafile {
    pub(super) object: FileId,
    pub(super) version: Stamp,
    pub(super) is_directory: bool,
    /// `None` for the root.
    pub(super) place: Option<Place>,
    pub(super) content: u64,
}

impl Metafile {
    /// The root's metafile, before the first change.
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
    /// A claim of the name, with the object that loses the name to it.
    Claim(Place, FileId, Option<FileId>),
    /// A question about the object at a place, with the object that claims the name and has it.
    Stands(Place, FileId, Option<FileId>),
    Yield(Yield),
    /// The result of a replacement, with the version of the object that has the name, if it has.
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
    /// The reply also lists objects, with their home at the requester, that are about to lose a
    /// name.
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
    /// Returns the answer to a question if an object stands at a place.
    pub(super) fn stands(&self) -> Stands {
        if *self == Self::Is(true) {
            Stands::Yes
        } else if *self == Self::Is(false) {
            Stands::No
        } else {
            Stands::Unknown
        }
    }

    /// Returns the result of a request that has no other result than success or refusal.
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
    /// The last stamp of the answering metaserver, and the answer.
    Answer(Stamp, Answer),
}

#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) from: Peer,
    pub(super) to: Peer,
    /// The sender's epoch.
    pub(super) epoch: u64,
    /// The receiver's epoch, as far as the sender knows it.
    pub(super) callee_epoch: u64,
    pub(super) call: u64,
    pub(super) body: Body,
}
