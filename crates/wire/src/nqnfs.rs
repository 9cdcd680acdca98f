//! Not Quite NFS over version 3 of NFS (Macklem 1994, as implemented by 4.4BSD-Lite2): program
//! 300105, version 3.
//!
//! Every procedure of NFS version 3 exists under its number, with a lease request before its
//! arguments and a granted lease between the success status and its results. An error reply has no
//! lease, and EVICTED, which the server calls on the client, has neither.

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
    /// The kind of caching that a lease permits.
    pub enum Kind {
        /// The client may cache data that it has read.
        Read = 1,
        /// The client may also delay writes.
        Write = 2,
    }
}

/// A requested lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The kind of lease.
    pub kind: Kind,
    /// The duration in seconds.
    pub seconds: u32,
}

/// Arguments preceded by an optional lease request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<Args> {
    /// The lease request.
    pub ask: Option<Ask>,
    /// The arguments.
    pub args: Args,
}

/// Decodes the kind of a requested or granted lease; zero means no lease. Other values are
/// rejected, because 4.4BSD uses them for flags of its own.
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
    /// The terms of a granted lease.
    #[derive(Copy)]
    pub struct Terms {
        /// True if the holder may cache; otherwise the client sends every operation to the server.
        pub cachable: bool,
        /// The duration in seconds from the time of the server's reply.
        pub seconds: u32,
        /// The modification revision of the object, which each change increments.
        pub modrev: u64,
    }
}

/// A lease that is granted with a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The requested kind of lease.
    pub kind: Kind,
    /// The granted terms.
    pub terms: Terms,
}

/// The reply of a procedure: as in version 3, with a lease after the success status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply<Done, Failed> {
    /// Status zero.
    Done(Option<Grant>, Done),
    /// Any other status.
    Failed(Status, Failed),
}

/// Converts the results of a procedure of version 3 to the results of this program.
pub trait Mirrored {
    /// The results with a lease.
    type Reply;
}

impl<Done, Failed> Mirrored for nfs3::Reply<Done, Failed> {
    type Reply = Reply<Done, Failed>;
}

/// The results of a procedure of version 3, with a lease.
pub type Mirror<Results> = <Results as Mirrored>::Reply;

/// The error codes of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// An error code of version 3.
    Nfs(nfs3::Status),
    /// The lease expired before it arrived; clients use this code internally.
    #[doc(alias = "NQNFS_EXPIRED")]
    Expired,
    /// The client must retry later: servers of 4.4BSD send this code, but their clients understand
    /// only JUKEBOX.
    #[doc(alias = "NQNFS_TRYLATER")]
    TryLater,
}

impl Status {
    const EXPIRED: u32 = 500;
    const TRY_LATER: u32 = 501;

    /// Returns true if the client must retry the call later.
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

/// The status value of success.
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

/// GETLEASE, procedure 22: requests a lease.
pub mod getlease {
    use leasehold_base::xdr_struct;

    use super::{Call, Kind, Terms};
    use crate::nfs3::{Attributes, Handle};

    /// The procedure's number.
    pub const NUMBER: u32 = 22;

    xdr_struct! {
        /// The requested lease.
        #[derive(Copy)]
        pub struct Wanted {
            /// The object.
            pub object: Handle,
            /// The kind of lease.
            pub kind: Kind,
            /// The duration in seconds.
            pub seconds: u32,
        }

        /// The lease, and the object's attributes.
        #[derive(Copy)]
        pub struct Done {
            /// The granted terms.
            pub terms: Terms,
            /// The object's attributes.
            pub attributes: Attributes,
        }
    }

    /// The arguments; no lease request precedes them.
    pub type Args = Call<Wanted>;

    /// The lease; in case of an error only the status.
    pub type Reply = super::Reply<Done, ()>;
}

/// VACATED, procedure 23: the client has written back its changes. The procedure has no reply.
pub mod vacated {
    use super::Call;
    use crate::nfs3;

    /// The procedure's number.
    pub const NUMBER: u32 = 23;

    /// The object; no lease request precedes it.
    pub type Args = Call<nfs3::getattr::Args>;

    /// The procedure has no results, because the server sends no reply.
    pub type Reply = ();
}

/// EVICTED, procedure 24: the server recalls a lease. The procedure has no reply and no lease
/// request.
pub mod evicted {
    use crate::nfs3;

    /// The procedure's number.
    pub const NUMBER: u32 = 24;

    /// The object.
    pub type Args = nfs3::getattr::Args;

    /// The procedure has no results, because the client sends no reply.
    pub type Reply = ();
}

#[cfg(test)]
mod tests;
