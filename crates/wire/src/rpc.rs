//! ONC RPC version 2: the head of every call and reply (RFC 5531).

use leasehold_base::groups::Groups;
use leasehold_base::limits::{AUTH_BYTES_MAX, GROUPS_MAX, MACHINE_NAME_BYTES_MAX};
use leasehold_base::units::Xid;
use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};
use leasehold_base::{xdr_enum, xdr_struct};

/// The version of the RPC protocol itself.
pub const RPC_VERSION: u32 = 2;

/// NULL, procedure 0 of every program: has no effect, and accepts every credential.
pub mod null {
    /// The procedure's number.
    pub const NUMBER: u32 = 0;

    /// The procedure has no arguments.
    pub type Args = ();

    /// The procedure has no results.
    pub type Reply = ();
}

/// Message types (RFC 5531 section 9, `msg_type`).
const CALL: u32 = 0;
const REPLY: u32 = 1;

/// Flavours of authentication (RFC 5531 section 8.2).
pub mod flavor {
    /// No authentication.
    pub const NONE: u32 = 0;
    /// The caller's uid, gid and groups, unauthenticated.
    pub const SYS: u32 = 1;
    /// A shorthand for an earlier AUTH_SYS credential.
    pub const SHORT: u32 = 2;
}

/// A credential or verifier with a body that is not decoded yet (RFC 5531 section 8.2,
/// `opaque_auth`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpaqueAuth<'a> {
    /// The flavour: one of [`flavor`], or another value.
    pub flavor: u32,
    /// The body that the flavour defines, at most 400 bytes.
    pub body: &'a [u8],
}

impl OpaqueAuth<'_> {
    /// No authentication.
    pub const NONE: Self = Self { flavor: flavor::NONE, body: &[] };
}

impl<'a> Decode<'a> for OpaqueAuth<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(Self { flavor: reader.u32()?, body: reader.opaque(AUTH_BYTES_MAX)? })
    }
}

impl Encode for OpaqueAuth<'_> {
    fn encode(&self, writer: &mut Writer) {
        writer.u32(self.flavor);
        writer.opaque(self.body);
    }
}

/// The body of an AUTH_SYS credential (RFC 5531 appendix A, `authsys_parms`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthSys<'a> {
    /// An arbitrary value that the caller chooses.
    pub stamp: u32,
    /// The caller's machine.
    pub machine_name: &'a [u8],
    /// The caller's effective user.
    pub uid: u32,
    /// The caller's effective group.
    pub gid: u32,
    /// The caller's supplementary groups.
    pub groups: Groups,
}

impl<'a> Decode<'a> for AuthSys<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        let stamp = reader.u32()?;
        let machine_name = reader.opaque(MACHINE_NAME_BYTES_MAX)?;
        let (uid, gid) = (reader.u32()?, reader.u32()?);
        let count = reader.u32()? as usize;
        let mut groups = [0; GROUPS_MAX];
        for group in groups.get_mut(..count).ok_or(Error::TooLong)? {
            *group = reader.u32()?;
        }
        let groups = Groups::new(&groups[..count]).ok_or(Error::TooLong)?;
        Ok(Self { stamp, machine_name, uid, gid, groups })
    }
}

impl Encode for AuthSys<'_> {
    fn encode(&self, writer: &mut Writer) {
        writer.u32(self.stamp);
        writer.opaque(self.machine_name);
        writer.u32(self.uid);
        writer.u32(self.gid);
        writer.u32(self.groups.count());
        for group in self.groups.as_slice() {
            writer.u32(*group);
        }
    }
}

/// The head of a call; its arguments follow (RFC 5531 section 9, `call_body`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// The transaction id, which the reply repeats.
    pub xid: Xid,
    /// The program, such as 100003 for NFS.
    pub program: u32,
    /// The program's version.
    pub version: u32,
    /// The procedure within program and version.
    pub procedure: u32,
    /// The identity of the caller.
    pub credential: OpaqueAuth<'a>,
    /// The proof of the identity.
    pub verifier: OpaqueAuth<'a>,
}

/// The reasons for which the head of a call is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallError {
    /// The message is not a call, or too short for a reply.
    NotACall,
    /// The call has another version of RPC; the server replies with this status.
    RpcMismatch(Xid),
    /// The credential or the verifier is invalid; the server replies with the contained status.
    BadAuth(Xid, AuthStatus),
}

impl CallError {
    /// Returns the reply to the invalid call, or `None` if the server must not reply.
    #[must_use]
    pub const fn reply(self) -> Option<Reply> {
        match self {
            Self::NotACall => None,
            Self::RpcMismatch(xid) => Some(Reply { xid, status: ReplyStatus::RpcMismatch }),
            Self::BadAuth(xid, status) => {
                Some(Reply { xid, status: ReplyStatus::AuthError(status) })
            }
        }
    }
}

impl<'a> Call<'a> {
    /// Decodes the head of a call; the reader is then at its arguments.
    ///
    /// # Errors
    /// See [`CallError`].
    pub fn decode(reader: &mut Reader<'a>) -> Result<Self, CallError> {
        let (xid, rpc_version) = Self::decode_kind(reader).map_err(|_| CallError::NotACall)?;
        if rpc_version != RPC_VERSION {
            return Err(CallError::RpcMismatch(xid));
        }
        let mut word = || reader.u32().map_err(|_| CallError::NotACall);
        let (program, version, procedure) = (word()?, word()?, word()?);
        let credential = OpaqueAuth::decode(reader)
            .map_err(|_| CallError::BadAuth(xid, AuthStatus::BadCredential))?;
        let verifier = OpaqueAuth::decode(reader)
            .map_err(|_| CallError::BadAuth(xid, AuthStatus::BadVerifier))?;
        Ok(Self { xid, program, version, procedure, credential, verifier })
    }

    fn decode_kind(reader: &mut Reader<'a>) -> Result<(Xid, u32), Error> {
        let xid = Xid(reader.u32()?);
        if reader.u32()? != CALL {
            return Err(Error::BadValue);
        }
        Ok((xid, reader.u32()?))
    }
}

impl Encode for Call<'_> {
    fn encode(&self, writer: &mut Writer) {
        writer.words(&[self.xid.0, CALL, RPC_VERSION, self.program, self.version, self.procedure]);
        self.credential.encode(writer);
        self.verifier.encode(writer);
    }
}

xdr_enum! {
    /// The reasons for which authentication failed (RFC 5531 section 9, `auth_stat`).
    pub enum AuthStatus {
        /// The credential is malformed.
        #[doc(alias = "AUTH_BADCRED")]
        BadCredential = 1,
        /// The client must begin a new session.
        #[doc(alias = "AUTH_REJECTEDCRED")]
        RejectedCredential = 2,
        /// The verifier is malformed.
        #[doc(alias = "AUTH_BADVERF")]
        BadVerifier = 3,
        /// The verifier is out of date or was replayed.
        #[doc(alias = "AUTH_REJECTEDVERF")]
        RejectedVerifier = 4,
        /// The flavour is too weak for the request.
        #[doc(alias = "AUTH_TOOWEAK")]
        TooWeak = 5,
        /// The server's own verifier is invalid; clients use this status internally.
        #[doc(alias = "AUTH_INVALIDRESP")]
        InvalidResponse = 6,
        /// Authentication failed for an unknown reason.
        #[doc(alias = "AUTH_FAILED")]
        Failed = 7,
        /// RPCSEC_GSS: the credential does not exist.
        #[doc(alias = "RPCSEC_GSS_CREDPROBLEM")]
        GssCredential = 13,
        /// RPCSEC_GSS: the context does not exist.
        #[doc(alias = "RPCSEC_GSS_CTXPROBLEM")]
        GssContext = 14,
    }
}

xdr_struct! {
    /// The lowest and the highest supported version.
    pub struct Versions {
        /// The lowest supported version.
        pub low: u32,
        /// The highest supported version.
        pub high: u32,
    }
}

/// The status of a call in the head of its reply (RFC 5531 section 9, `reply_body`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyStatus {
    /// The procedure ran; its results follow.
    Success,
    /// The server does not serve the program.
    ProgramUnavailable,
    /// The server serves the program, but not this version.
    ProgramMismatch(Versions),
    /// The program's version has no such procedure.
    ProcedureUnavailable,
    /// The arguments are malformed.
    GarbageArguments,
    /// The server failed, for instance because memory was exhausted.
    SystemError,
    /// Denied: the version of RPC is not 2.
    RpcMismatch,
    /// Denied: the credential does not authenticate the caller.
    AuthError(AuthStatus),
}

/// The head of a reply; results follow when its status is [`ReplyStatus::Success`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The transaction id of the call.
    pub xid: Xid,
    /// The status of the call.
    pub status: ReplyStatus,
}

/// `reply_stat` and `accept_stat` and `reject_stat` of RFC 5531 section 9.
const ACCEPTED: u32 = 0;
const DENIED: u32 = 1;

impl Encode for Reply {
    fn encode(&self, writer: &mut Writer) {
        writer.u32(self.xid.0);
        writer.u32(REPLY);
        let accepted = |writer: &mut Writer, status: u32| {
            writer.u32(ACCEPTED);
            OpaqueAuth::NONE.encode(writer);
            writer.u32(status);
        };
        match &self.status {
            ReplyStatus::Success => accepted(writer, 0),
            ReplyStatus::ProgramUnavailable => accepted(writer, 1),
            ReplyStatus::ProgramMismatch(versions) => {
                accepted(writer, 2);
                versions.encode(writer);
            }
            ReplyStatus::ProcedureUnavailable => accepted(writer, 3),
            ReplyStatus::GarbageArguments => accepted(writer, 4),
            ReplyStatus::SystemError => accepted(writer, 5),
            ReplyStatus::RpcMismatch => {
                writer.words(&[DENIED, 0, RPC_VERSION, RPC_VERSION]);
            }
            ReplyStatus::AuthError(status) => {
                writer.u32(DENIED);
                writer.u32(1);
                status.encode(writer);
            }
        }
    }
}

impl<'a> Decode<'a> for Reply {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        let xid = Xid(reader.u32()?);
        if reader.u32()? != REPLY {
            return Err(Error::BadValue);
        }
        let status = match reader.u32()? {
            ACCEPTED => {
                OpaqueAuth::decode(reader)?;
                match reader.u32()? {
                    0 => ReplyStatus::Success,
                    1 => ReplyStatus::ProgramUnavailable,
                    2 => ReplyStatus::ProgramMismatch(Versions::decode(reader)?),
                    3 => ReplyStatus::ProcedureUnavailable,
                    4 => ReplyStatus::GarbageArguments,
                    5 => ReplyStatus::SystemError,
                    _ => return Err(Error::BadValue),
                }
            }
            DENIED => match reader.u32()? {
                0 => {
                    Versions::decode(reader)?;
                    ReplyStatus::RpcMismatch
                }
                1 => ReplyStatus::AuthError(AuthStatus::decode(reader)?),
                _ => return Err(Error::BadValue),
            },
            _ => return Err(Error::BadValue),
        };
        Ok(Self { xid, status })
    }
}

#[cfg(test)]
mod tests;
