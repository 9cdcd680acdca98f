//! Why a call came to nothing.

use core::fmt;
use std::sync::Arc;

use leasehold_base::xdr;
use leasehold_wire::nfs3::Status;
use leasehold_wire::rpc::{AuthStatus, ReplyStatus};

/// Why a call came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// There are as many calls as there may be.
    Busy,
    /// The session was closed.
    Closed,
    /// The server did not run the procedure.
    Denied(ReplyStatus),
    /// What came cannot be read as results of the procedure.
    Garbled(xdr::Error),
    /// The procedure ran and failed. Calls answer this inside their reply; it stands here so that
    /// `reply?.done()?` works.
    Failed(Status),
    /// A soft call's time was over.
    TimedOut,
    /// There was no server at the address from the start; why, in words.
    Unreachable(Arc<str>),
}

impl Error {
    /// Whether the server takes no session of the caller's any more: another has its place.
    #[must_use]
    pub const fn is_of_one_who_is_over(&self) -> bool {
        matches!(self, Self::Denied(ReplyStatus::AuthError(AuthStatus::RejectedCredential)))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => f.write_str("too many calls wait already"),
            Self::Closed => f.write_str("the session was closed"),
            Self::Denied(status) => f.write_str(denied(status)),
            Self::Garbled(error) => write!(f, "the server's reply cannot be read: {error}"),
            Self::Failed(status) => f.write_str(failed(*status)),
            Self::TimedOut => f.write_str("the server does not answer"),
            Self::Unreachable(why) => write!(f, "the server cannot be reached: {why}"),
        }
    }
}

impl core::error::Error for Error {}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        Self::Failed(status)
    }
}

const fn denied(status: &ReplyStatus) -> &'static str {
    match status {
        ReplyStatus::Success => "the server answered something else",
        ReplyStatus::ProgramUnavailable => "the server does not serve this program there",
        ReplyStatus::ProgramMismatch(_) => "the server does not serve this version of the program",
        ReplyStatus::ProcedureUnavailable => "the server does not have this procedure",
        ReplyStatus::GarbageArguments => "the server cannot read the call",
        ReplyStatus::SystemError => "the server failed",
        ReplyStatus::RpcMismatch => "the server speaks another version of RPC",
        ReplyStatus::AuthError(AuthStatus::TooWeak) => {
            "the server does not believe who asks: it may want a port below 1024, or other \
             authentication"
        }
        ReplyStatus::AuthError(_) => "the server does not take the caller's credential",
    }
}

/// A status as people know it.
const fn failed(status: Status) -> &'static str {
    match status {
        Status::NotOwner => "operation not permitted",
        Status::NotFound => "no such file or directory",
        Status::Io => "I/O error on the server",
        Status::NoSuchAddress => "no such device or address",
        Status::Access => "permission denied",
        Status::AlreadyExists => "file exists",
        Status::CrossDevice => "names in different file systems",
        Status::NoSuchDevice => "no such device",
        Status::NotDirectory => "not a directory",
        Status::IsDirectory => "is a directory",
        Status::Invalid => "invalid argument",
        Status::FileTooBig => "file too large",
        Status::NoSpace => "no space left on the server",
        Status::ReadOnly => "read-only file system",
        Status::TooManyLinks => "too many links",
        Status::NameTooLong => "name too long",
        Status::NotEmpty => "directory not empty",
        Status::QuotaExceeded => "quota exceeded",
        Status::Stale => "the file is gone (stale file handle)",
        Status::Remote => "too many levels of remote in path",
        Status::BadHandle => "the server does not know the file handle",
        Status::NotSynchronized => "the file has changed in between",
        Status::BadCookie => "the directory has changed: the listing must begin anew",
        Status::NotSupported => "not supported by the server",
        Status::TooSmall => "too little room for the answer",
        Status::ServerFault => "the server failed",
        Status::BadType => "the server cannot make this kind of file",
        Status::Jukebox => "the server asks for patience",
    }
}
