//! The lease program: NFS version 3 with leases, and the program that the server calls on its
//! clients. `spec/lease.x` has the rules by number.
//!
//! Every procedure of NFS version 3 exists under the same procedure number, with `Args` wrapped in
//! [`Call`] and `Reply` wrapped in [`Answer`]; WRITE also sets attributes. Additional procedures
//! have modules of their own; [`callback`] has the procedures that the server calls.

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

/// The longest name of a client, in bytes.
const CLIENT_NAME_BYTES_MAX: u32 = 255;

mirrored!(Call, Answer);

opaques! {
    /// The client's display name.
    ClientName <= CLIENT_NAME_BYTES_MAX;
}

xdr_enum! {
    /// The kind of caching that a lease permits.
    #[doc(alias = "lease_kind")]
    pub enum Kind {
        /// The client may cache data that it has read.
        Read = 1,
        /// The client may also delay writes.
        Write = 2,
    }

    /// The client's opens of an object.
    #[doc(alias = "lease_open")]
    pub enum Open {
        /// No program of the client has the object open.
        No = 0,
        /// Programs have the object open for reading only.
        Read = 1,
        /// Programs have the object open for writing.
        Write = 2,
    }
}

xdr_struct! {
    /// The caller of a procedure.
    #[doc(alias = "lease_caller")]
    #[derive(Copy)]
    pub struct Caller {
        /// The client.
        pub client: [u8; 16],
        /// The incarnation of the client, which grows whenever the client loses its memory.
        pub instance: u64,
        /// The last server epoch that the client has received.
        pub epoch: u64,
    }

    /// The type and the duration of a requested lease.
    #[doc(alias = "lease_terms")]
    #[derive(Copy)]
    pub struct Terms {
        /// The kind of lease.
        pub kind: Kind,
        /// The term in milliseconds; zero lets the server choose.
        pub term_ms: u32,
        /// True if the server must not recall other leases for this request.
        pub opportune: bool,
        /// The number of bytes to reserve for writing.
        pub space: u64,
    }

    /// A lease.
    #[doc(alias = "lease_grant")]
    #[derive(Copy)]
    pub struct Grant {
        /// The kind of lease.
        pub kind: Kind,
        /// True if the holder may cache; otherwise the client sends every operation to the server.
        pub cachable: bool,
        /// The term in milliseconds.
        pub term_ms: u32,
        /// The sequence number of the lease.
        pub serial: u64,
        /// The modification revision of the object, which each change increments.
        pub modrev: u64,
        /// The number of bytes reserved for writing.
        pub space: u64,
    }

    /// A lease request that is part of another call.
    #[doc(alias = "lease_ask")]
    #[derive(Copy)]
    pub struct Ask {
        /// The number of the object within the call, see [`place`].
        pub place: u32,
        /// The requested terms.
        pub terms: Terms,
    }

    /// A lease that is granted with a reply.
    #[doc(alias = "lease_granted")]
    #[derive(Copy)]
    pub struct Granted {
        /// The number of the object within the call, see [`place`].
        pub place: u32,
        /// The lease.
        pub grant: Grant,
    }

    /// The revisions of an object before and after a change.
    #[doc(alias = "lease_change")]
    #[derive(Copy)]
    pub struct Change {
        /// The number of the object within the call, see [`place`].
        pub place: u32,
        /// The modrev of the object before the change.
        pub before: u64,
        /// The modrev of the object after the change.
        pub after: u64,
    }

    /// The state on which a client based a change.
    #[doc(alias = "lease_base")]
    #[derive(Copy)]
    pub struct Base {
        /// The lease under which the client made the change.
        pub serial: u64,
        /// The modification revision of the object at that time.
        pub modrev: u64,
    }

    /// The lease header that precedes the arguments.
    #[doc(alias = "lease_call")]
    pub struct Head {
        /// The caller.
        pub caller: Caller,
        /// The requested leases.
        pub asks: List<Ask>,
        /// The state on which the change is based.
        pub base: Option<Base>,
    }
}

/// The numbers of the objects within a call.
pub mod place {
    /// The first handle of the arguments.
    pub const FIRST: u32 = 0;

    /// The second handle of the arguments or, if the arguments have only one handle, the object
    /// that the results name.
    pub const SECOND: u32 = 1;

    /// The first entry of a listing; the next numbers denote the following entries. In a lease
    /// request this number denotes all entries.
    pub const ENTRIES: u32 = 2;

    /// The object that RENAME moved.
    pub const MOVED: u32 = 2;

    /// The object that RENAME replaced.
    pub const REPLACED: u32 = 3;
}

/// Arguments preceded by the lease header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call<Args> {
    /// The lease header.
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

/// The reply to a call by a client with leases: results, or the reason why the call had no effect.
#[doc(alias("lease_answer", "lease_status"))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<Results> {
    /// The server ran the call; the results contain its status.
    Done(Done<Results>),
    /// The call names another epoch. The value is the current epoch.
    #[doc(alias = "LEASE_EPOCH")]
    Epoch(u64),
    /// The call names a superseded client incarnation. The value is the current incarnation.
    #[doc(alias = "LEASE_INSTANCE")]
    Instance(u64),
    /// The client has not sent HELLO.
    #[doc(alias = "LEASE_CLIENT")]
    Unknown,
    /// The object has changed since the base of the change. The value is the current modrev of the
    /// object.
    #[doc(alias = "LEASE_LATE")]
    Late(u64),
    /// The client must retry the call later.
    #[doc(alias = "LEASE_LATER")]
    Later,
}

/// Results preceded by the lease part of the reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done<Results> {
    /// The granted leases.
    pub granted: List<Granted>,
    /// The changed objects.
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
