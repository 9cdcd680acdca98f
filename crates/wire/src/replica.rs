//! The replica program: the messages between the metaservers of one file system. `spec/replica.x`
//! has the numbered rules.

use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};
use leasehold_base::{limits, xdr_struct};

use crate::list::List;
use crate::nfs3::{self, Attributes, SetAttributes};

/// The program's number, from the range that RFC 5531 leaves to sites.
pub const PROGRAM: u32 = 0x2001_ea60;

/// The program's version.
pub const VERSION: u32 = 8;

opaques! {
    /// The layout of a file, or the target of a symbolic link.
    Content <= limits::PATH_BYTES_MAX;
}

xdr_struct! {
    /// The calling metaserver and its view of the epochs.
    #[doc(alias = "replica_caller")]
    #[derive(Copy)]
    pub struct Caller {
        /// The peer number of the caller.
        pub peer: u32,
        /// The epoch of the caller.
        pub epoch: u64,
        /// The last epoch of the callee that the caller has received.
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

    /// An object that is about to lose a name to an object with another home.
    #[doc(alias = "replica_yielded")]
    #[derive(Copy)]
    pub struct Yielded<'a> {
        /// The name.
        pub place: Place<'a>,
        /// The object that receives the name.
        pub object: u64,
        /// The object that loses the name.
        pub over: u64,
    }

    /// The metadata of an object.
    #[doc(alias = "replica_metafile")]
    pub struct Metafile<'a> {
        /// The object.
        pub object: u64,
        /// The version number that the home assigned to the last change of the object.
        pub version: u64,
        /// The names of the object.
        pub places: List<Place<'a>>,
        /// The attributes of the object.
        pub attributes: Attributes,
        /// The layout of the object's data, or the target of a symbolic link.
        pub content: Content<'a>,
    }
}

/// The reply to a call: results, or the reason why the call had no effect.
#[doc(alias("replica_answer", "replica_status"))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<Results> {
    /// The callee ran the call.
    Done {
        /// The last version number that the callee has assigned.
        stamp: u64,
        /// The results of the call.
        results: Results,
    },
    /// The call names another epoch. The value is the current epoch.
    #[doc(alias = "REPLICA_EPOCH")]
    Epoch(u64),
    /// A change is in progress or a metaserver is unreachable; the caller must retry later.
    #[doc(alias = "REPLICA_LATER")]
    Later,
    /// The object does not exist, or does not have the name.
    #[doc(alias = "REPLICA_GONE")]
    Gone,
    /// Another object has the name.
    #[doc(alias = "REPLICA_EXISTS")]
    Exists,
    /// The directory is not empty.
    #[doc(alias = "REPLICA_FULL")]
    Full,
    /// The directory would become its own descendant.
    #[doc(alias = "REPLICA_LOOP")]
    Loop,
    /// One metaserver is in strict mode and the other is not.
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

/// HELLO, procedure 1: announces that the caller has started.
pub mod hello {
    use super::{Answer, Yielded, xdr_struct};
    use crate::list::List;

    /// The procedure's number.
    pub const NUMBER: u32 = 1;

    xdr_struct! {
        /// The identity of a started metaserver, and the state in its storage.
        #[doc(alias = "replica_hello_args")]
        #[derive(Copy)]
        pub struct Args {
            /// The peer number of the caller.
            pub peer: u32,
            /// The epoch that the caller begins.
            pub epoch: u64,
            /// The last epoch in the caller's storage.
            pub stored_epoch: u64,
            /// The last version number in the caller's storage.
            pub stored_stamp: u64,
            /// True if the caller is in strict mode.
            pub strict: bool,
        }

        /// An object for which the callee holds a delegable lease.
        #[doc(alias = "replica_covered")]
        #[derive(Copy)]
        pub struct Covered {
            /// The object.
            pub object: u64,
            /// True if the lease permits writes.
            pub writes: bool,
        }

        /// The callee's record of the caller.
        #[doc(alias = "replica_hello_ok")]
        pub struct Known<'a> {
            /// The callee's own epoch.
            pub epoch: u64,
            /// The last epoch of the caller that the callee has recorded.
            pub known_epoch: u64,
            /// The last version number of the caller that the callee has recorded.
            pub known_stamp: u64,
            /// True if the callee's clients may hold earlier leases that the callee has not
            /// recovered yet.
            pub recovers: bool,
            /// The delegable leases that the caller granted and the callee holds.
            pub covered: List<Covered>,
            /// The objects homed at the caller that are about to lose, or have just lost, a name to
            /// an object homed at the callee.
            pub replaced: List<Yielded<'a>>,
        }
    }

    /// The results.
    pub type Reply<'a> = Answer<Known<'a>>;
}

/// FETCH, procedure 2: returns a metafile if the metafile is newer than the caller's copy.
pub mod fetch {
    use super::{Answer, Caller, Metafile, xdr_struct};

    /// The procedure's number.
    pub const NUMBER: u32 = 2;

    xdr_struct! {
        /// The metafile to fetch.
        #[doc(alias = "replica_fetch_args")]
        #[derive(Copy)]
        pub struct Args {
            /// The caller.
            pub caller: Caller,
            /// The object.
            pub object: u64,
            /// The version of the cached copy, if one exists.
            pub known: Option<u64>,
        }
    }

    /// The results; `None` if the copy is current.
    #[doc(alias = "replica_fetch_ok")]
    pub type Reply<'a> = Answer<Option<Metafile<'a>>>;
}

/// SEARCH, procedure 3: searches some peers for an object by its name.
pub mod search {
    use super::{Answer, Caller, List, Metafile, Place, xdr_struct};

    /// The procedure's number.
    pub const NUMBER: u32 = 3;

    xdr_struct! {
        /// The name, and the peers to search.
        #[doc(alias = "replica_search_args")]
        pub struct Args<'a> {
            /// The caller.
            pub caller: Caller,
            /// The name.
            pub place: Place<'a>,
            /// The peers that the callee must query in addition to its own objects.
            pub behind: List<u32>,
        }
    }

    /// The results; `None` if no searched peer has the object.
    #[doc(alias = "replica_search_ok")]
    pub type Reply<'a> = Answer<Option<Metafile<'a>>>;
}

/// NAMED, procedure 4: returns the object that has claimed a name.
pub mod named {
    use super::{Answer, Caller, Place, xdr_struct};

    /// The procedure's number.
    pub const NUMBER: u32 = 4;

    xdr_struct! {
        /// The name.
        #[doc(alias = "replica_named_args")]
        #[derive(Copy)]
        pub struct Args<'a> {
            /// The caller.
            pub caller: Caller,
            /// The name.
            pub place: Place<'a>,
        }
    }

    /// The object, if any.
    #[doc(alias = "replica_named_ok")]
    pub type Reply = Answer<Option<u64>>;
}

/// CLAIM, procedure 5: reserves a name for an object.
pub mod claim {
    use super::{Answer, Caller, Place, xdr_struct};

    /// The procedure's number.
    pub const NUMBER: u32 = 5;

    xdr_struct! {
        /// The name, and the objects.
        #[doc(alias = "replica_claim_args")]
        #[derive(Copy)]
        pub struct Args<'a> {
            /// The caller.
            pub caller: Caller,
            /// The name.
            pub place: Place<'a>,
            /// The object.
            pub object: u64,
            /// The object that loses the name to `object`.
            pub over: Option<u64>,
        }
    }

    /// Confirms the reservation.
    pub type Reply = Answer<()>;
}

/// STANDS, procedure 6: returns true if an object has a name or is about to have it.
pub mod stands {
    use super::{Answer, Caller, Place, xdr_struct};

    /// The procedure's number.
    pub const NUMBER: u32 = 6;

    xdr_struct! {
        /// The object and the name.
        #[doc(alias = "replica_stands_args")]
        #[derive(Copy)]
        pub struct Args<'a> {
            /// The caller.
            pub caller: Caller,
            /// The name.
            pub place: Place<'a>,
            /// The object.
            pub object: u64,
            /// The claimant, if it already has the name because `object` has yielded the name to
            /// it.
            pub claimant: Option<u64>,
        }
    }

    /// True if the object has the name.
    #[doc(alias = "replica_stands_ok")]
    pub type Reply = Answer<bool>;
}

/// CHANGE, procedure 7: releases a change that was made at another peer to the home.
pub mod change {
    use super::{Answer, Caller, Content, SetAttributes, nfs3, xdr_struct};

    /// The procedure's number.
    pub const NUMBER: u32 = 7;

    xdr_struct! {
        /// The data that WRITEs left in inline content.
        #[doc(alias = "replica_wrote")]
        #[derive(Copy)]
        pub struct Wrote<'a> {
            /// The offset.
            pub offset: u64,
            /// The bytes.
            pub data: Content<'a>,
            /// The time of the last WRITE.
            pub modified: nfs3::Time,
        }

        /// The change.
        #[doc(alias = "replica_change_args")]
        #[derive(Copy)]
        pub struct Args<'a> {
            /// The peer that made the change.
            pub caller: Caller,
            /// The object.
            pub object: u64,
            /// The attributes to set.
            pub attributes: SetAttributes,
            /// True if the home must clear set-id bits unless the change sets a mode.
            pub clear_set_ids: bool,
            /// The effect of WRITEs.
            pub wrote: Option<Wrote<'a>>,
        }
    }

    /// The new version of the object.
    #[doc(alias = "replica_version_ok")]
    pub type Reply = Answer<u64>;
}

/// PLACE, procedure 8: adds, changes or removes a name of an object.
pub mod place {
    use super::{Answer, Caller, Place, xdr_struct};

    /// The procedure's number.
    pub const NUMBER: u32 = 8;

    xdr_struct! {
        /// The change of names: a rename has both `from` and `to`, a link only `to`, a removal only
        /// `from`.
        #[doc(alias = "replica_place_args")]
        #[derive(Copy)]
        pub struct Args<'a> {
            /// The caller.
            pub caller: Caller,
            /// The number that the caller assigns to this change; a retry has the same number.
            pub number: u64,
            /// The object.
            pub object: u64,
            /// The name to remove.
            pub from: Option<Place<'a>>,
            /// The name to add.
            pub to: Option<Place<'a>>,
            /// The object with the same home that loses the name `to` to `object`.
            pub over: Option<u64>,
        }
    }

    /// The new version of the object.
    #[doc(alias = "replica_version_ok")]
    pub type Reply = Answer<u64>;
}

/// MOVE, procedure 9: requests permission for a new parent of a directory.
pub mod r#move {
    use super::{Answer, Caller, xdr_struct};

    /// The procedure's number.
    pub const NUMBER: u32 = 9;

    xdr_struct! {
        /// The directory, and its new parent.
        #[doc(alias = "replica_move_args")]
        #[derive(Copy)]
        pub struct Args {
            /// The caller.
            pub caller: Caller,
            /// The number that the directory's home assigned to the move.
            pub number: u64,
            /// The directory.
            pub object: u64,
            /// The new parent.
            pub parent: u64,
        }
    }

    /// Grants the permission.
    pub type Reply = Answer<()>;
}

/// MOVING, procedure 10: returns true if a permitted move is still in progress.
pub mod moving {
    use super::Answer;

    pub use super::r#move::Args;

    /// The procedure's number.
    pub const NUMBER: u32 = 10;

    /// True if the move is in progress.
    #[doc(alias = "replica_moving_ok")]
    pub type Reply = Answer<bool>;
}

/// ANNOUNCE, procedure 11: announces that an object has lost a name.
pub mod announce {
    use super::{Answer, Caller, List, Place, xdr_struct};

    /// The procedure's number.
    pub const NUMBER: u32 = 11;

    xdr_struct! {
        /// The object, and its remaining names.
        #[doc(alias = "replica_announce_args")]
        pub struct Args<'a> {
            /// The peer that removed the name.
            pub caller: Caller,
            /// The object.
            pub object: u64,
            /// The version after the removal.
            pub version: u64,
            /// The current names of the object; empty if the object is removed.
            pub places: List<Place<'a>>,
            /// The lost name.
            pub left: Option<Place<'a>>,
        }
    }

    /// Acknowledges the receipt.
    pub type Reply = Answer<()>;
}

/// LIST, procedure 12: returns names in a directory, and the objects that claimed them.
pub mod list {
    use super::{Answer, Caller, List, nfs3, xdr_struct};

    /// The procedure's number.
    pub const NUMBER: u32 = 12;

    xdr_struct! {
        /// The directory, and the position of the listing.
        #[doc(alias = "replica_list_args")]
        #[derive(Copy)]
        pub struct Args {
            /// The caller.
            pub caller: Caller,
            /// The directory.
            pub directory: u64,
            /// The cookie after which the reply begins; zero for the first entry.
            pub behind: u64,
            /// The maximum number of names in the reply.
            pub count: u32,
        }

        /// A name.
        #[doc(alias = "replica_entry")]
        #[derive(Copy)]
        pub struct Entry<'a> {
            /// The cookie with which the caller continues the listing after this entry.
            pub cookie: u64,
            /// The name.
            pub name: nfs3::Name<'a>,
            /// The object that has claimed the name.
            pub object: u64,
        }

        /// Some names.
        #[doc(alias = "replica_list_ok")]
        pub struct Names<'a> {
            /// The names, in the order of their cookies.
            pub entries: List<Entry<'a>>,
            /// True if the listing is complete.
            pub end: bool,
        }
    }

    /// The results.
    pub type Reply<'a> = Answer<Names<'a>>;
}

/// EVICT, procedure 13: recalls a lease.
pub mod evict {
    use super::{Answer, Caller, xdr_struct};

    /// The procedure's number.
    pub const NUMBER: u32 = 13;

    xdr_struct! {
        /// The lease to return.
        #[doc(alias = "replica_evict_args")]
        #[derive(Copy)]
        pub struct Args {
            /// The home that granted the lease.
            pub caller: Caller,
            /// The object.
            pub object: u64,
        }
    }

    /// Confirms that the callee has dropped its copy.
    pub type Reply = Answer<()>;
}

/// COVER, procedure 14: requests a delegable lease, so that clients may cache an object or the
/// caller may change it.
pub mod cover {
    use super::{Answer, Caller, xdr_struct};

    /// The procedure's number.
    pub const NUMBER: u32 = 14;

    xdr_struct! {
        /// The requested lease.
        #[doc(alias = "replica_cover_args")]
        #[derive(Copy)]
        pub struct Args {
            /// The metaserver that is to hold the lease.
            pub caller: Caller,
            /// The object.
            pub object: u64,
            /// True if the lease must permit writes.
            pub writes: bool,
            /// True if the caller delegates the lease to its clients.
            pub lends: bool,
            /// True if clients held delegated leases before the caller started.
            pub reclaims: bool,
            /// The sequence number of the lease that the caller returns in exchange.
            pub given: Option<u64>,
        }

        /// The granted lease.
        #[doc(alias = "replica_cover_ok")]
        #[derive(Copy)]
        pub struct Granted {
            /// The sequence number of the lease.
            pub serial: u64,
            /// True if the lease permits writes.
            pub writes: bool,
            /// The term in milliseconds, from the time when the caller sent the call.
            pub term_ms: u32,
        }
    }

    /// The results.
    pub type Reply = Answer<Granted>;
}

/// UNCOVER, procedure 15: recalls a delegable lease.
pub mod uncover {
    use super::{Answer, Caller, xdr_struct};

    /// The procedure's number.
    pub const NUMBER: u32 = 15;

    xdr_struct! {
        /// The lease to return.
        #[doc(alias = "replica_uncover_args")]
        #[derive(Copy)]
        pub struct Args {
            /// The home that granted the lease.
            pub caller: Caller,
            /// The object.
            pub object: u64,
            /// The sequence number of the lease.
            pub serial: u64,
        }
    }

    /// Confirms that no client holds a delegated lease under the recalled lease.
    pub type Reply = Answer<()>;
}

/// LOAD, procedure 16: returns the load of a metaserver.
pub mod load {
    use super::{Answer, Caller, xdr_struct};

    /// The procedure's number.
    pub const NUMBER: u32 = 16;

    xdr_struct! {
        /// The arguments.
        #[doc(alias = "replica_load_args")]
        #[derive(Copy)]
        pub struct Args {
            /// The caller.
            pub caller: Caller,
        }

        /// The load of the metaserver.
        #[doc(alias = "replica_load_ok")]
        #[derive(Copy)]
        pub struct Load {
            /// The share of recent time in which the metaserver was busy, in tenths.
            pub busy_tenths: u32,
            /// The number of open connections of the metaserver.
            pub connections: u32,
        }
    }

    /// The results.
    pub type Reply = Answer<Load>;
}

/// BEGIN, procedure 17: announces that an object's home is about to change a name in a directory.
pub mod begin {
    use super::{Answer, Caller, xdr_struct};

    /// The procedure's number.
    pub const NUMBER: u32 = 17;

    xdr_struct! {
        /// The change, and the peer that waits for it.
        #[doc(alias = "replica_begin_args")]
        #[derive(Copy)]
        pub struct Args {
            /// The home that changes the name.
            pub caller: Caller,
            /// The directory.
            pub directory: u64,
            /// The number that the home assigns to this change.
            pub change: u64,
            /// The peer whose client waits for the reply, if any.
            pub by: Option<u32>,
        }
    }

    /// Confirms that the clients of all other peers have returned their delegated leases on the
    /// directory.
    pub type Reply = Answer<()>;
}

/// END, procedure 18: announces that the name was changed, or that the change was abandoned.
pub mod end {
    use super::{Answer, Caller, xdr_struct};

    /// The procedure's number.
    pub const NUMBER: u32 = 18;

    xdr_struct! {
        /// The finished change.
        #[doc(alias = "replica_end_args")]
        #[derive(Copy)]
        pub struct Args {
            /// The home of the object, which changed the name.
            pub caller: Caller,
            /// The directory.
            pub directory: u64,
            /// The number of the change.
            pub change: u64,
            /// True if the change was made.
            pub done: bool,
        }
    }

    /// Confirms that the directory has the times of the change.
    pub type Reply = Answer<()>;
}

/// YIELD, procedure 19: prepares the removal of a name that an object with another home replaces.
pub mod r#yield {
    use super::{Answer, Caller, Yielded, xdr_struct};

    /// The procedure's number.
    pub const NUMBER: u32 = 19;

    xdr_struct! {
        /// The name, and the objects.
        #[doc(alias = "replica_yield_args")]
        #[derive(Copy)]
        pub struct Args<'a> {
            /// The home of the object that receives the name.
            pub caller: Caller,
            /// The number that the home assigns to this change.
            pub change: u64,
            /// The objects, and the name.
            pub yielded: Yielded<'a>,
            /// The peer whose client waits for the change.
            pub by: Option<u32>,
        }
    }

    /// Confirms that the object that loses the name is now hidden from lookups.
    pub type Reply = Answer<()>;
}

/// REPLACED, procedure 20: announces that the object has lost the name, or that the change was
/// abandoned.
pub mod replaced {
    use super::{Answer, Caller, Yielded, xdr_struct};

    /// The procedure's number.
    pub const NUMBER: u32 = 20;

    xdr_struct! {
        /// The outcome of the change.
        #[doc(alias = "replica_replaced_args")]
        #[derive(Copy)]
        pub struct Args<'a> {
            /// The home of the object that receives the name.
            pub caller: Caller,
            /// The number of the change.
            pub change: u64,
            /// The objects, and the name.
            pub yielded: Yielded<'a>,
            /// The peer whose client waits for the change.
            pub by: Option<u32>,
            /// The version of the object that now has the name; `None` if the change was abandoned.
            pub version: Option<u64>,
        }
    }

    /// Confirms that the outcome is on stable storage.
    pub type Reply = Answer<()>;
}

#[cfg(test)]
mod tests;
