//! The replica program: what metaservers of one file system say to each other.
//! `spec/replica.x` has the rules by number.

use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};
use leasehold_base::{limits, xdr_struct};

use crate::list::List;
use crate::nfs3::{self, Attributes, SetAttributes};

/// The program's number, from the range that RFC 5531 leaves to sites.
pub const PROGRAM: u32 = 0x2001_ea60;

/// The program's version.
pub const VERSION: u32 = 8;

opaques! {
    /// Where a file's data lies, or what a symbolic link holds.
    Content <= limits::PATH_BYTES_MAX;
}

xdr_struct! {
    /// Who calls, and whom.
    #[doc(alias = "replica_caller")]
    #[derive(Copy)]
    pub struct Caller {
        /// The number of who calls.
        pub peer: u32,
        /// Its epoch.
        pub epoch: u64,
        /// The epoch that it last heard of from whom it calls.
        pub callee_epoch: u64,
    }

    /// A directory and a name in it.
    #[doc(alias = "replica_place")]
    #[derive(Copy)]
    pub struct Place<'a> {
        /// The directory.
        pub directory: u64,
        /// The name.
        pub name: nfs3::Name<'a>,
    }

    /// An object that is to lose a name to another, which has another home.
    #[doc(alias = "replica_yielded")]
    #[derive(Copy)]
    pub struct Yielded<'a> {
        /// The name.
        pub place: Place<'a>,
        /// The object that gets it.
        pub object: u64,
        /// The object that loses it.
        pub over: u64,
    }

    /// All that is known of an object but its data.
    #[doc(alias = "replica_metafile")]
    pub struct Metafile<'a> {
        /// The object.
        pub object: u64,
        /// The stamp that its home gave its last change.
        pub version: u64,
        /// Its names.
        pub places: List<Place<'a>>,
        /// Its attributes.
        pub attributes: Attributes,
        /// Where its data lies, or what it holds.
        pub content: Content<'a>,
    }
}

/// What a call is answered: results, or why it had no effect.
#[doc(alias("replica_answer", "replica_status"))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<Results> {
    /// It was done.
    Done {
        /// The last stamp that the callee gave.
        stamp: u64,
        /// What came of it.
        results: Results,
    },
    /// It is of another epoch than this, which is.
    #[doc(alias = "REPLICA_EPOCH")]
    Epoch(u64),
    /// Something is under way, or somebody away: it is to be made again later.
    #[doc(alias = "REPLICA_LATER")]
    Later,
    /// The object is not there, or not at that place.
    #[doc(alias = "REPLICA_GONE")]
    Gone,
    /// The name is another object's.
    #[doc(alias = "REPLICA_EXISTS")]
    Exists,
    /// The directory is not empty.
    #[doc(alias = "REPLICA_FULL")]
    Full,
    /// The directory would be below itself.
    #[doc(alias = "REPLICA_LOOP")]
    Loop,
    /// One of both is strict and the other is not.
    #[doc(alias = "REPLICA_MODE")]
    Mode,
}

impl<'a, Results: Decode<'a>> Decode<'a> for Answer<Results> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(match reader.u32()? {
            0 => Self::Done { stamp: reader.u64()?, results: Decode::decode(reader)? },
            1 => Self::Epoch(reader.u64()?),
            2 => Self::Later,
            3 => Self::Gone,
            4 => Self::Exists,
            5 => Self::Full,
            6 => Self::Loop,
            7 => Self::Mode,
            _ => return Err(Error::BadValue),
        })
    }
}

impl<Results: Encode> Encode for Answer<Results> {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Done { stamp, results } => {
                writer.u32(0);
                writer.u64(*stamp);
                results.encode(writer);
            }
            Self::Epoch(now) => {
                writer.u32(1);
                writer.u64(*now);
            }
            Self::Later => writer.u32(2),
            Self::Gone => writer.u32(3),
            Self::Exists => writer.u32(4),
            Self::Full => writer.u32(5),
            Self::Loop => writer.u32(6),
            Self::Mode => writer.u32(7),
        }
    }
}

/// HELLO, procedure 1: a peer has started.
pub mod hello {
    use super::{Answer, Yielded, xdr_struct};
    use crate::list::List;

    /// The procedure's number.
    pub const NUMBER: u32 = 1;

    xdr_struct! {
        /// Who it is, and what it finds in its storage.
        #[doc(alias = "replica_hello_args")]
        #[derive(Copy)]
        pub struct Args {
            /// Its number.
            pub peer: u32,
            /// The epoch that it begins.
            pub epoch: u64,
            /// The epoch that it finds in its storage.
            pub stored_epoch: u64,
            /// The last stamp that it finds there.
            pub stored_stamp: u64,
            /// Whether it is strict.
            pub strict: bool,
        }

        /// An object that the other has a cover on.
        #[doc(alias = "replica_covered")]
        #[derive(Copy)]
        pub struct Covered {
            /// Which.
            pub object: u64,
            /// Whether it may write.
            pub writes: bool,
        }

        /// What the other knew of it.
        #[doc(alias = "replica_hello_ok")]
        pub struct Known<'a> {
            /// The other's own epoch.
            pub epoch: u64,
            /// The last epoch that it knew of the caller.
            pub known_epoch: u64,
            /// The last stamp that it knew of the caller.
            pub known_stamp: u64,
            /// Whether its clients may have leases of before that it does not know of yet.
            pub recovers: bool,
            /// What it has covers on that the caller granted.
            pub covered: List<Covered>,
            /// What has its home at the caller and is to lose names to objects of the other's, or has just now.
            pub replaced: List<Yielded<'a>>,
        }
    }

    /// The results.
    pub type Reply<'a> = Answer<Known<'a>>;
}

/// FETCH, procedure 2: a metafile, if it is newer than the copy.
pub mod fetch {
    use super::{Answer, Caller, Metafile, xdr_struct};

    /// The procedure's number.
    pub const NUMBER: u32 = 2;

    xdr_struct! {
        /// Which.
        #[doc(alias = "replica_fetch_args")]
        #[derive(Copy)]
        pub struct Args {
            /// Who asks.
            pub caller: Caller,
            /// The object.
            pub object: u64,
            /// The version of the copy, if there is one.
            pub known: Option<u64>,
        }
    }

    /// The results; nothing when that is the version.
    #[doc(alias = "replica_fetch_ok")]
    pub type Reply<'a> = Answer<Option<Metafile<'a>>>;
}

/// SEARCH, procedure 3: who of some peers has an object by a name.
pub mod search {
    use super::{Answer, Caller, List, Metafile, Place, xdr_struct};

    /// The procedure's number.
    pub const NUMBER: u32 = 3;

    xdr_struct! {
        /// What is searched, and by whom.
        #[doc(alias = "replica_search_args")]
        pub struct Args<'a> {
            /// Who asks.
            pub caller: Caller,
            /// The name.
            pub place: Place<'a>,
            /// The peers that who is asked asks in its turn.
            pub behind: List<u32>,
        }
    }

    /// The results; nothing when none of them has it.
    #[doc(alias = "replica_search_ok")]
    pub type Reply<'a> = Answer<Option<Metafile<'a>>>;
}

/// NAMED, procedure 4: the object that has claimed a name.
pub mod named {
    use super::{Answer, Caller, Place, xdr_struct};

    /// The procedure's number.
    pub const NUMBER: u32 = 4;

    xdr_struct! {
        /// Which.
        #[doc(alias = "replica_named_args")]
        #[derive(Copy)]
        pub struct Args<'a> {
            /// Who asks.
            pub caller: Caller,
            /// The name.
            pub place: Place<'a>,
        }
    }

    /// The object, if any.
    #[doc(alias = "replica_named_ok")]
    pub type Reply = Answer<Option<u64>>;
}

/// CLAIM, procedure 5: an object is to have a name.
pub mod claim {
    use super::{Answer, Caller, Place, xdr_struct};

    /// The procedure's number.
    pub const NUMBER: u32 = 5;

    xdr_struct! {
        /// Which.
        #[doc(alias = "replica_claim_args")]
        #[derive(Copy)]
        pub struct Args<'a> {
            /// Who asks.
            pub caller: Caller,
            /// The name.
            pub place: Place<'a>,
            /// The object.
            pub object: u64,
            /// What loses the name to it.
            pub over: Option<u64>,
        }
    }

    /// That it may.
    pub type Reply = Answer<()>;
}

/// STANDS, procedure 6: whether an object has a name, or is about to.
pub mod stands {
    use super::{Answer, Caller, Place, xdr_struct};

    /// The procedure's number.
    pub const NUMBER: u32 = 6;

    xdr_struct! {
        /// Which.
        #[doc(alias = "replica_stands_args")]
        #[derive(Copy)]
        pub struct Args<'a> {
            /// Who asks.
            pub caller: Caller,
            /// The name.
            pub place: Place<'a>,
            /// The object.
            pub object: u64,
            /// Who claims the name and has it, if what may stand there has yielded it.
            pub claimant: Option<u64>,
        }
    }

    /// Whether.
    #[doc(alias = "replica_stands_ok")]
    pub type Reply = Answer<bool>;
}

/// CHANGE, procedure 7: what was changed at another peer is released to the home.
pub mod change {
    use super::{Answer, Caller, Content, SetAttributes, nfs3, xdr_struct};

    /// The procedure's number.
    pub const NUMBER: u32 = 7;

    xdr_struct! {
        /// What WRITEs left in the content.
        #[doc(alias = "replica_wrote")]
        #[derive(Copy)]
        pub struct Wrote<'a> {
            /// Where.
            pub offset: u64,
            /// What.
            pub data: Content<'a>,
            /// When the last of them was.
            pub modified: nfs3::Time,
        }

        /// What.
        #[doc(alias = "replica_change_args")]
        #[derive(Copy)]
        pub struct Args<'a> {
            /// Who changed it.
            pub caller: Caller,
            /// The object.
            pub object: u64,
            /// What is set.
            pub attributes: SetAttributes,
            /// Whether set-id bits are cleared, unless a mode is set.
            pub clear_set_ids: bool,
            /// What WRITEs did.
            pub wrote: Option<Wrote<'a>>,
        }
    }

    /// The version that it has now.
    #[doc(alias = "replica_version_ok")]
    pub type Reply = Answer<u64>;
}

/// PLACE, procedure 8: an object gets a name, gets another, or loses one.
pub mod place {
    use super::{Answer, Caller, Place, xdr_struct};

    /// The procedure's number.
    pub const NUMBER: u32 = 8;

    xdr_struct! {
        /// A rename has both names, a link has no `from`, a removal no `to`.
        #[doc(alias = "replica_place_args")]
        #[derive(Copy)]
        pub struct Args<'a> {
            /// Who asks.
            pub caller: Caller,
            /// The number that it gives this change, also where it asks for it again.
            pub number: u64,
            /// The object.
            pub object: u64,
            /// The name that it loses.
            pub from: Option<Place<'a>>,
            /// The name that it gets.
            pub to: Option<Place<'a>>,
            /// What has the same home and loses that name to it.
            pub over: Option<u64>,
        }
    }

    /// The version that it has now.
    #[doc(alias = "replica_version_ok")]
    pub type Reply = Answer<u64>;
}

/// MOVE, procedure 9: a directory asks for leave to get another parent.
pub mod r#move {
    use super::{Answer, Caller, xdr_struct};

    /// The procedure's number.
    pub const NUMBER: u32 = 9;

    xdr_struct! {
        /// Which, and to where.
        #[doc(alias = "replica_move_args")]
        #[derive(Copy)]
        pub struct Args {
            /// Who asks.
            pub caller: Caller,
            /// The number that the directory's home gave it.
            pub number: u64,
            /// The directory.
            pub object: u64,
            /// The parent that it is to get.
            pub parent: u64,
        }
    }

    /// The leave.
    pub type Reply = Answer<()>;
}

/// MOVING, procedure 10: whether a move that had leave is still under way.
pub mod moving {
    use super::Answer;

    pub use super::r#move::Args;

    /// The procedure's number.
    pub const NUMBER: u32 = 10;

    /// Whether.
    #[doc(alias = "replica_moving_ok")]
    pub type Reply = Answer<bool>;
}

/// ANNOUNCE, procedure 11: an object has lost a name.
pub mod announce {
    use super::{Answer, Caller, List, Place, xdr_struct};

    /// The procedure's number.
    pub const NUMBER: u32 = 11;

    xdr_struct! {
        /// Which, and what it has now.
        #[doc(alias = "replica_announce_args")]
        pub struct Args<'a> {
            /// Who changed it.
            pub caller: Caller,
            /// The object.
            pub object: u64,
            /// Its version since.
            pub version: u64,
            /// Its names now; none when it is gone.
            pub places: List<Place<'a>>,
            /// The name that it lost.
            pub left: Option<Place<'a>>,
        }
    }

    /// That it was heard.
    pub type Reply = Answer<()>;
}

/// LIST, procedure 12: names in a directory, and who has claimed them.
pub mod list {
    use super::{Answer, Caller, List, nfs3, xdr_struct};

    /// The procedure's number.
    pub const NUMBER: u32 = 12;

    xdr_struct! {
        /// Of which directory, and from where.
        #[doc(alias = "replica_list_args")]
        #[derive(Copy)]
        pub struct Args {
            /// Who asks.
            pub caller: Caller,
            /// The directory.
            pub directory: u64,
            /// The cookie behind which they begin; zero for the first.
            pub behind: u64,
            /// How many at most.
            pub count: u32,
        }

        /// A name.
        #[doc(alias = "replica_entry")]
        #[derive(Copy)]
        pub struct Entry<'a> {
            /// Where a listing goes on behind it.
            pub cookie: u64,
            /// The name.
            pub name: nfs3::Name<'a>,
            /// The object that has claimed it.
            pub object: u64,
        }

        /// Some names.
        #[doc(alias = "replica_list_ok")]
        pub struct Names<'a> {
            /// The names, in the order of their cookies.
            pub entries: List<Entry<'a>>,
            /// Whether there are no more.
            pub end: bool,
        }
    }

    /// The results.
    pub type Reply<'a> = Answer<Names<'a>>;
}

/// EVICT, procedure 13: a lease is taken back.
pub mod evict {
    use super::{Answer, Caller, xdr_struct};

    /// The procedure's number.
    pub const NUMBER: u32 = 13;

    xdr_struct! {
        /// Which.
        #[doc(alias = "replica_evict_args")]
        #[derive(Copy)]
        pub struct Args {
            /// Who granted it.
            pub caller: Caller,
            /// The directory or the other object.
            pub object: u64,
        }
    }

    /// That what was had is dropped.
    pub type Reply = Answer<()>;
}

/// COVER, procedure 14: what clients may cache of an object, or what is about to be changed.
pub mod cover {
    use super::{Answer, Caller, xdr_struct};

    /// The procedure's number.
    pub const NUMBER: u32 = 14;

    xdr_struct! {
        /// Which.
        #[doc(alias = "replica_cover_args")]
        #[derive(Copy)]
        pub struct Args {
            /// Who is to have it.
            pub caller: Caller,
            /// The object.
            pub object: u64,
            /// Whether to write.
            pub writes: bool,
            /// Whether clients are to be let cache by it.
            pub lends: bool,
            /// Whether clients had leases by it before its metaserver started.
            pub reclaims: bool,
            /// The number of the cover that is given for it.
            pub given: Option<u64>,
        }

        /// What is granted.
        #[doc(alias = "replica_cover_ok")]
        #[derive(Copy)]
        pub struct Granted {
            /// The number of the lease.
            pub serial: u64,
            /// Whether to write.
            pub writes: bool,
            /// For how long, from when the call was sent.
            pub term_ms: u32,
        }
    }

    /// The results.
    pub type Reply = Answer<Granted>;
}

/// UNCOVER, procedure 15: a cover is taken back.
pub mod uncover {
    use super::{Answer, Caller, xdr_struct};

    /// The procedure's number.
    pub const NUMBER: u32 = 15;

    xdr_struct! {
        /// Which.
        #[doc(alias = "replica_uncover_args")]
        #[derive(Copy)]
        pub struct Args {
            /// Who granted it.
            pub caller: Caller,
            /// The object.
            pub object: u64,
            /// The number of the lease.
            pub serial: u64,
        }
    }

    /// That nobody has anything by it any more.
    pub type Reply = Answer<()>;
}

/// LOAD, procedure 16: how busy a metaserver is.
pub mod load {
    use super::{Answer, Caller, xdr_struct};

    /// The procedure's number.
    pub const NUMBER: u32 = 16;

    xdr_struct! {
        /// Who asks.
        #[doc(alias = "replica_load_args")]
        #[derive(Copy)]
        pub struct Args {
            /// Who asks.
            pub caller: Caller,
        }

        /// How busy it is.
        #[doc(alias = "replica_load_ok")]
        #[derive(Copy)]
        pub struct Load {
            /// How much of its time it had something to do lately, in tenths.
            pub busy_tenths: u32,
            /// Its open connections.
            pub connections: u32,
        }
    }

    /// The results.
    pub type Reply = Answer<Load>;
}

/// BEGIN, procedure 17: a name in a directory is about to be changed by its object's home.
pub mod begin {
    use super::{Answer, Caller, xdr_struct};

    /// The procedure's number.
    pub const NUMBER: u32 = 17;

    xdr_struct! {
        /// Which change, and for whom.
        #[doc(alias = "replica_begin_args")]
        #[derive(Copy)]
        pub struct Args {
            /// Who changes the name.
            pub caller: Caller,
            /// The directory.
            pub directory: u64,
            /// The number that it gives this change.
            pub change: u64,
            /// The peer whose client is to be answered, if there still is one.
            pub by: Option<u32>,
        }
    }

    /// That clients of no other peer have anything by a cover on the directory.
    pub type Reply = Answer<()>;
}

/// END, procedure 18: it was changed, or will not be.
pub mod end {
    use super::{Answer, Caller, xdr_struct};

    /// The procedure's number.
    pub const NUMBER: u32 = 18;

    xdr_struct! {
        /// Which change.
        #[doc(alias = "replica_end_args")]
        #[derive(Copy)]
        pub struct Args {
            /// Who changed the name.
            pub caller: Caller,
            /// The directory.
            pub directory: u64,
            /// The number of the change.
            pub change: u64,
            /// Whether it was done.
            pub done: bool,
        }
    }

    /// That the times of the directory are those of the change.
    pub type Reply = Answer<()>;
}

/// YIELD, procedure 19: an object is about to lose a name to one of another home.
pub mod r#yield {
    use super::{Answer, Caller, Yielded, xdr_struct};

    /// The procedure's number.
    pub const NUMBER: u32 = 19;

    xdr_struct! {
        /// Which.
        #[doc(alias = "replica_yield_args")]
        #[derive(Copy)]
        pub struct Args<'a> {
            /// The home of what gets the name.
            pub caller: Caller,
            /// The number that it gives this change.
            pub change: u64,
            /// The objects, and the name.
            pub yielded: Yielded<'a>,
            /// The peer whose client waits for it.
            pub by: Option<u32>,
        }
    }

    /// That nothing is shown any more of what loses the name.
    pub type Reply = Answer<()>;
}

/// REPLACED, procedure 20: it has lost the name, or will not.
pub mod replaced {
    use super::{Answer, Caller, Yielded, xdr_struct};

    /// The procedure's number.
    pub const NUMBER: u32 = 20;

    xdr_struct! {
        /// Which.
        #[doc(alias = "replica_replaced_args")]
        #[derive(Copy)]
        pub struct Args<'a> {
            /// The home of what gets the name.
            pub caller: Caller,
            /// The number of the change.
            pub change: u64,
            /// The objects, and the name.
            pub yielded: Yielded<'a>,
            /// The peer whose client waits for it.
            pub by: Option<u32>,
            /// The version of what has the name by now; none if it will not get it.
            pub version: Option<u64>,
        }
    }

    /// That this is on stable storage.
    pub type Reply = Answer<()>;
}

#[cfg(test)]
mod tests;
