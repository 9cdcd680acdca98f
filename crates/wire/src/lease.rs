//! The lease program: NFS version 3 with leases, and the program that the server calls on its
//! clients. `spec/lease.x` has the rules by number.
//!
//! Every procedure of NFS version 3 is there under its number, as `Args` behind [`Call`] and
//! `Reply` behind [`Answer`]; WRITE also sets attributes. Procedures of its own are in modules of
//! their own; what the server calls is in [`callback`].

pub mod append;
pub mod callback;
pub mod goodbye;
pub mod hello;
pub mod layout;
pub mod leases;
pub mod objects;
pub mod write;

use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};
use leasehold_base::{xdr_enum, xdr_struct};

use crate::list::List;

/// The program's number, from the range that RFC 5531 leaves to sites.
pub const PROGRAM: u32 = 0x2001_ea5e;

/// The program's version.
pub const VERSION: u32 = 1;

/// The longest name that a client gives itself, in bytes.
const CLIENT_NAME_BYTES_MAX: u32 = 255;

mirrored!(Call, Answer);

opaques! {
    /// What a client calls itself, for people to read.
    ClientName <= CLIENT_NAME_BYTES_MAX;
}

xdr_enum! {
    /// What a lease allows to be cached.
    #[doc(alias = "lease_kind")]
    pub enum Kind {
        /// What was read.
        Read = 1,
        /// What was written, too.
        Write = 2,
    }

    /// How programs of a client have an object open.
    #[doc(alias = "lease_open")]
    pub enum Open {
        /// Not at all.
        No = 0,
        /// For reading only.
        Read = 1,
        /// For writing.
        Write = 2,
    }
}

xdr_struct! {
    /// Who calls.
    #[doc(alias = "lease_caller")]
    #[derive(Copy)]
    pub struct Caller {
        /// The client.
        pub client: [u8; 16],
        /// Its instance, which grows whenever what it had in memory is gone.
        pub instance: u64,
        /// The epoch of the server that it last heard of.
        pub epoch: u64,
    }

    /// What is asked for.
    #[doc(alias = "lease_terms")]
    #[derive(Copy)]
    pub struct Terms {
        /// Which kind of lease.
        pub kind: Kind,
        /// For how long, in milliseconds; zero for as long as the server likes.
        pub term_ms: u32,
        /// Whether nobody is to be evicted for it.
        pub opportune: bool,
        /// How many bytes are to be reserved for writing.
        pub space: u64,
    }

    /// A lease.
    #[doc(alias = "lease_grant")]
    #[derive(Copy)]
    pub struct Grant {
        /// Which kind.
        pub kind: Kind,
        /// Whether its holder may cache; if not, all is done by calls.
        pub cachable: bool,
        /// For how long, in milliseconds.
        pub term_ms: u32,
        /// Its number among the leases on the object.
        pub serial: u64,
        /// The modrev of the object: its revision, which every change moves.
        pub modrev: u64,
        /// How many bytes are reserved for writing.
        pub space: u64,
    }

    /// A lease that is asked for with a call.
    #[doc(alias = "lease_ask")]
    #[derive(Copy)]
    pub struct Ask {
        /// Which object of the call, see [`place`].
        pub place: u32,
        /// What is asked for.
        pub terms: Terms,
    }

    /// A lease that was granted with an answer.
    #[doc(alias = "lease_granted")]
    #[derive(Copy)]
    pub struct Granted {
        /// Which object of the call, see [`place`].
        pub place: u32,
        /// The lease.
        pub grant: Grant,
    }

    /// An object that was changed.
    #[doc(alias = "lease_change")]
    #[derive(Copy)]
    pub struct Change {
        /// Which object of the call, see [`place`].
        pub place: u32,
        /// Its modrev before.
        pub before: u64,
        /// Its modrev after.
        pub after: u64,
    }

    /// What a change was made from.
    #[doc(alias = "lease_base")]
    #[derive(Copy)]
    pub struct Base {
        /// The lease that it was made under.
        pub serial: u64,
        /// The modrev that the object had.
        pub modrev: u64,
    }

    /// Arguments behind what they have to do with leases.
    #[doc(alias = "lease_call")]
    pub struct Head {
        /// Who calls.
        pub caller: Caller,
        /// The leases that are asked for.
        pub asks: List<Ask>,
        /// What a change was made from.
        pub base: Option<Base>,
    }
}

/// The objects of a call, by number.
pub mod place {
    /// The first handle of the arguments.
    pub const FIRST: u32 = 0;

    /// The second handle of the arguments or, where there is one alone, the object that the
    /// results name.
    pub const SECOND: u32 = 1;

    /// The first entry of a listing; the others follow. In an ask it stands for all of them.
    pub const ENTRIES: u32 = 2;

    /// What RENAME moved.
    pub const MOVED: u32 = 2;

    /// What it took the place of.
    pub const REPLACED: u32 = 3;
}

/// Arguments behind what they have to do with leases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call<Args> {
    /// What they have to do with leases.
    pub head: Head,
    /// The arguments.
    pub args: Args,
}

impl<'a, Args: Decode<'a>> Decode<'a> for Call<Args> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(Self { head: Decode::decode(reader)?, args: Decode::decode(reader)? })
    }
}

impl<Args: Encode> Encode for Call<Args> {
    fn encode(&self, writer: &mut Writer) {
        self.head.encode(writer);
        self.args.encode(writer);
    }
}

/// What a call is answered whose caller may have leases: results, or why it had no effect.
#[doc(alias("lease_answer", "lease_status"))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<Results> {
    /// The call was done, if the results say so.
    Done(Done<Results>),
    /// It is of another epoch than this, which is.
    #[doc(alias = "LEASE_EPOCH")]
    Epoch(u64),
    /// It is of an instance that is over; this is the one that is.
    #[doc(alias = "LEASE_INSTANCE")]
    Instance(u64),
    /// Its client did not say HELLO.
    #[doc(alias = "LEASE_CLIENT")]
    Unknown,
    /// The object changed since; this is its modrev.
    #[doc(alias = "LEASE_LATE")]
    Late(u64),
    /// It is to be made again later.
    #[doc(alias = "LEASE_LATER")]
    Later,
}

/// Results behind what they have to do with leases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done<Results> {
    /// The leases that were granted.
    pub granted: List<Granted>,
    /// The objects that were changed.
    pub changes: List<Change>,
    /// The results.
    pub results: Results,
}

impl<'a, Results: Decode<'a>> Decode<'a> for Answer<Results> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(match reader.u32()? {
            0 => Self::Done(Done {
                granted: Decode::decode(reader)?,
                changes: Decode::decode(reader)?,
                results: Decode::decode(reader)?,
            }),
            1 => Self::Epoch(reader.u64()?),
            2 => Self::Instance(reader.u64()?),
            3 => Self::Unknown,
            4 => Self::Late(reader.u64()?),
            5 => Self::Later,
            _ => return Err(Error::BadValue),
        })
    }
}

impl<Results: Encode> Encode for Answer<Results> {
    fn encode(&self, writer: &mut Writer) {
        let mut with = |status, now| {
            writer.u32(status);
            writer.u64(now);
        };
        match self {
            Self::Done(Done { granted, changes, results }) => {
                writer.u32(0);
                granted.encode(writer);
                changes.encode(writer);
                results.encode(writer);
            }
            Self::Epoch(now) => with(1, *now),
            Self::Instance(now) => with(2, *now),
            Self::Unknown => writer.u32(3),
            Self::Late(now) => with(4, *now),
            Self::Later => writer.u32(5),
        }
    }
}

#[cfg(test)]
mod tests;
