//! ONC RPC version 2: the head of every call and reply (RFC 5531).

use leasehold_base::groups::Groups;
use leasehold_base::limits::{AUTH_BYTES_MAX, GROUPS_MAX, MACHINE_NAME_BYTES_MAX};
use leasehold_base::units::Xid;
use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};
use leasehold_base::{xdr_enum, xdr_struct};

/// The version of the RPC protocol itself.
pub const RPC_VERSION: u32 = 2;

/// NULL, procedure 0 of every program: does nothing, for whoever asks.
pub mod null {
    /// The procedure's number.
    pub const NUMBER: u32 = 0;

    /// Nothing.
    pub type Args = ();

    /// Nothing.
    pub type Reply = ();
}

/// Message types (RFC 5531 section 9, `msg_type`).
const CALL: u32 = 0;
const REPLY: u32 = 1;

/// Flavours of authentication (RFC 5531 section 8.2).
pub mod flavor {
    /// No authentication.
    pub const NONE: u32 = 0;
    /// The caller's uid, gid and groups, as it says.
    pub const SYS: u32 = 1;
    /// A shorthand for an earlier AUTH_SYS credential.
    pub const SHORT: u32 = 2;
}

/// A credential or verifier before its body is looked at (RFC 5531 section 8.2, `opaque_auth`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpaqueAuth<'a> {
    /// One of [`flavor`], or another number.
    pub flavor: u32,
    /// What the flavour defines, at most 400 bytes.
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
    /// An arbitrary number of the caller's.
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
    /// The number that the reply will carry.
    pub xid: Xid,
    /// The program, such as 100003 for NFS.
    pub program: u32,
    /// The program's version.
    pub version: u32,
    /// The procedure within program and version.
    pub procedure: u32,
    /// Who calls.
    pub credential: OpaqueAuth<'a>,
    /// What proves it.
    pub verifier: OpaqueAuth<'a>,
}

/// Why a message is not a call that can be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallError {
    /// It is no call, or too short to be answered.
    NotACall,
    /// It is a call of another version of RPC, which is answered.
    RpcMismatch(Xid),
    /// Credential or verifier cannot be read, which is answered with the status.
    BadAuth(Xid, AuthStatus),
}

impl CallError {
    /// What is answered to it, if anything is.
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
    /// Reads the head of a call; the reader is then at its arguments.
    ///
    /// # Errors
    /// As [`CallError`] says.
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
        for word in [self.xid.0, CALL, RPC_VERSION, self.program, self.version, self.procedure] {
            writer.u32(word);
        }
        self.credential.encode(writer);
        self.verifier.encode(writer);
    }
}

xdr_enum! {
    /// Why authentication failed (RFC 5531 section 9, `auth_stat`).
    pub enum AuthStatus {
        /// The credential cannot be read.
        #[doc(alias = "AUTH_BADCRED")]
        BadCredential = 1,
        /// The client has to begin a new session.
        #[doc(alias = "AUTH_REJECTEDCRED")]
        RejectedCredential = 2,
        /// The verifier cannot be read.
        #[doc(alias = "AUTH_BADVERF")]
        BadVerifier = 3,
        /// The verifier is out of date or was replayed.
        #[doc(alias = "AUTH_REJECTEDVERF")]
        RejectedVerifier = 4,
        /// The flavour is not enough for what is asked.
        #[doc(alias = "AUTH_TOOWEAK")]
        TooWeak = 5,
        /// The server's own verifier cannot be right; said by clients to themselves.
        #[doc(alias = "AUTH_INVALIDRESP")]
        InvalidResponse = 6,
        /// For a reason that is not known.
        #[doc(alias = "AUTH_FAILED")]
        Failed = 7,
        /// RPCSEC_GSS: there is no such credential.
        #[doc(alias = "RPCSEC_GSS_CREDPROBLEM")]
        GssCredential = 13,
        /// RPCSEC_GSS: there is no such context.
        #[doc(alias = "RPCSEC_GSS_CTXPROBLEM")]
        GssContext = 14,
    }
}

xdr_struct! {
    /// The lowest and the highest version that is there.
    pub struct Versions {
        /// The lowest.
        pub low: u32,
        /// The highest.
        pub high: u32,
    }
}

/// How a call was received, in the head of its reply (RFC 5531 section 9, `reply_body`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyStatus {
    /// The procedure ran; its results follow.
    Success,
    /// The program is not served here.
    ProgramUnavailable,
    /// The program is served, but not this version of it.
    ProgramMismatch(Versions),
    /// The program's version has no such procedure.
    ProcedureUnavailable,
    /// The arguments cannot be read.
    GarbageArguments,
    /// The server failed, for instance for want of memory.
    SystemError,
    /// Denied: the version of RPC is not 2.
    RpcMismatch,
    /// Denied: the caller did not prove who it is.
    AuthError(AuthStatus),
}

/// The head of a reply; results follow when its status is [`ReplyStatus::Success`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The number of the call that is answered.
    pub xid: Xid,
    /// How the call was received.
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
                for word in [DENIED, 0, RPC_VERSION, RPC_VERSION] {
                    writer.u32(word);
                }
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
