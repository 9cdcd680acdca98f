//! Not Quite NFS over version 3 of NFS (Macklem 1994, as 4.4BSD-Lite2 has it): program 300105,
//! version 3.
//!
//! Every procedure of NFS version 3 is there under its number, with an asked-for lease before its
//! arguments and a granted one between the status of success and its results. It has neither with
//! an error, nor in EVICTED, which the server calls on the client.

use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};
use leasehold_base::{xdr_enum, xdr_struct};

use crate::nfs3;

/// The program's number.
pub const PROGRAM: u32 = 300_105;

/// The program's version.
pub const VERSION: u32 = 3;

mirrored!(Call, Mirror);
mirrored! { Call, Mirror; "WRITE" write => Reply; }

xdr_enum! {
    /// What a lease allows to be cached.
    pub enum Kind {
        /// What was read.
        Read = 1,
        /// What was written, too.
        Write = 2,
    }
}

/// A lease that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Which kind.
    pub kind: Kind,
    /// For how long, in seconds.
    pub seconds: u32,
}

/// Arguments behind the lease that is asked for with them, if one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<Args> {
    /// The lease.
    pub ask: Option<Ask>,
    /// The arguments.
    pub args: Args,
}

/// A word before what is asked for or granted; zero when nothing is, and any but these is refused,
/// because 4.4BSD takes flags of its own from there.
fn kind(reader: &mut Reader<'_>) -> Result<Option<Kind>, Error> {
    if reader.clone().u32()? == 0 {
        reader.u32()?;
        return Ok(None);
    }
    Kind::decode(reader).map(Some)
}

impl<'a, Args: Decode<'a>> Decode<'a> for Call<Args> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        let ask = match kind(reader)? {
            Some(kind) => Some(Ask { kind, seconds: reader.u32()? }),
            None => None,
        };
        Ok(Self { ask, args: Args::decode(reader)? })
    }
}

impl<Args: Encode> Encode for Call<Args> {
    fn encode(&self, writer: &mut Writer) {
        match self.ask {
            Some(Ask { kind, seconds }) => {
                kind.encode(writer);
                writer.u32(seconds);
            }
            None => writer.u32(0),
        }
        self.args.encode(writer);
    }
}

xdr_struct! {
    /// What was granted.
    #[derive(Copy)]
    pub struct Terms {
        /// Whether its holder may cache; if not, all is done by calls.
        pub cachable: bool,
        /// For how long, in seconds from when the server answered.
        pub seconds: u32,
        /// The modrev of the object: its revision, which every change moves.
        pub modrev: u64,
    }
}

/// A lease that was granted with a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Which kind was asked for.
    pub kind: Kind,
    /// What was granted.
    pub terms: Terms,
}

/// What a procedure answers: as in version 3, with a lease behind the status of success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply<Done, Failed> {
    /// Status zero.
    Done(Option<Grant>, Done),
    /// Any other status.
    Failed(Status, Failed),
}

/// What this program makes of a procedure's results in version 3.
pub trait Mirrored {
    /// The results with a lease.
    type Reply;
}

impl<Done, Failed> Mirrored for nfs3::Reply<Done, Failed> {
    type Reply = Reply<Done, Failed>;
}

/// The results of a procedure of version 3, with a lease.
pub type Mirror<Results> = <Results as Mirrored>::Reply;

/// Why a procedure failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// As version 3 has it.
    Nfs(nfs3::Status),
    /// The lease ran out before it came; clients say it to themselves.
    #[doc(alias = "NQNFS_EXPIRED")]
    Expired,
    /// To be asked again later: what servers of 4.4BSD say, whose clients understand JUKEBOX only.
    #[doc(alias = "NQNFS_TRYLATER")]
    TryLater,
}

impl Status {
    const EXPIRED: u32 = 500;
    const TRY_LATER: u32 = 501;

    /// Whether the call is to be made again later.
    #[must_use]
    pub const fn is_later(self) -> bool {
        matches!(self, Self::TryLater | Self::Nfs(nfs3::Status::Jukebox))
    }
}

impl<'a> Decode<'a> for Status {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        let status = match reader.clone().u32()? {
            Self::EXPIRED => Self::Expired,
            Self::TRY_LATER => Self::TryLater,
            _ => return nfs3::Status::decode(reader).map(Self::Nfs),
        };
        reader.u32()?;
        Ok(status)
    }
}

impl Encode for Status {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Nfs(status) => status.encode(writer),
            Self::Expired => writer.u32(Self::EXPIRED),
            Self::TryLater => writer.u32(Self::TRY_LATER),
        }
    }
}

/// The word of success.
const OK: u32 = 0;

impl<'a, Done: Decode<'a>, Failed: Decode<'a>> Decode<'a> for Reply<Done, Failed> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        if reader.clone().u32()? != OK {
            return Ok(Self::Failed(Status::decode(reader)?, Failed::decode(reader)?));
        }
        reader.u32()?;
        let grant = match kind(reader)? {
            Some(kind) => Some(Grant { kind, terms: Terms::decode(reader)? }),
            None => None,
        };
        Ok(Self::Done(grant, Done::decode(reader)?))
    }
}

impl<Done: Encode, Failed: Encode> Encode for Reply<Done, Failed> {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Done(grant, done) => {
                writer.u32(OK);
                match grant {
                    Some(Grant { kind, terms }) => {
                        kind.encode(writer);
                        terms.encode(writer);
                    }
                    None => writer.u32(0),
                }
                done.encode(writer);
            }
            Self::Failed(status, failed) => {
                status.encode(writer);
                failed.encode(writer);
            }
        }
    }
}

/// GETLEASE, procedure 22: a lease and nothing else.
pub mod getlease {
    use leasehold_base::xdr_struct;

    use super::{Call, Kind, Terms};
    use crate::nfs3::{Attributes, Handle};

    /// The procedure's number.
    pub const NUMBER: u32 = 22;

    xdr_struct! {
        /// Which lease.
        #[derive(Copy)]
        pub struct Wanted {
            /// The object.
            pub object: Handle,
            /// Which kind.
            pub kind: Kind,
            /// For how long, in seconds.
            pub seconds: u32,
        }

        /// The lease, and the object's attributes.
        #[derive(Copy)]
        pub struct Done {
            /// What was granted.
            pub terms: Terms,
            /// The object's attributes.
            pub attributes: Attributes,
        }
    }

    /// The arguments; no lease is asked for before them.
    pub type Args = Call<Wanted>;

    /// The lease, or the status alone.
    pub type Reply = super::Reply<Done, ()>;
}

/// VACATED, procedure 23: the client has brought back what it changed. It has no reply.
pub mod vacated {
    use super::Call;
    use crate::nfs3;

    /// The procedure's number.
    pub const NUMBER: u32 = 23;

    /// The object; no lease is asked for before it.
    pub type Args = Call<nfs3::getattr::Args>;

    /// Nothing; it is not even sent.
    pub type Reply = ();
}

/// EVICTED, procedure 24: the server wants a lease back. It has no reply, and no lease words.
pub mod evicted {
    use crate::nfs3;

    /// The procedure's number.
    pub const NUMBER: u32 = 24;

    /// The object.
    pub type Args = nfs3::getattr::Args;

    /// Nothing; it is not even sent.
    pub type Reply = ();
}

#[cfg(test)]
mod tests;
