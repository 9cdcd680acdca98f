//! The errors of calls.

use core::fmt;
use std::sync::Arc;

use leasehold_base::xdr;
use leasehold_wire::nfs3::Status;
use leasehold_wire::rpc::{AuthStatus, ReplyStatus};

/// The reason for the failure of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The session has the maximum number of calls.
    Busy,
    /// The session is closed.
    Closed,
    /// The server did not run the procedure.
    Denied(ReplyStatus),
    /// The received bytes are not valid results of the procedure.
    Garbled(xdr::Error),
    /// The procedure ran and failed. Calls report such a failure inside their reply; this variant
    /// exists so that `reply?.done()?` works.
    Failed(Status),
    /// A soft call timed out.
    TimedOut,
    /// The first connection to the server failed; the text has the reason.
    Unreachable(Arc<str>),
}

impl Error {
    /// Returns true if the server has fenced the caller because a successor exists.
    #[must_use]
    pub const fn is_of_one_who_is_over(&self) -> bool {
        matches!(self, Self::Denied(ReplyStatus::AuthError(AuthStatus::RejectedCredential)))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => f.write_str("too many calls are waiting"),
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
        ReplyStatus::Success => "the server sent an unexpected reply",
        ReplyStatus::ProgramUnavailable => "the server does not serve this program there",
        ReplyStatus::ProgramMismatch(_) => "the server does not serve this version of the program",
        ReplyStatus::ProcedureUnavailable => "the server does not have this procedure",
        ReplyStatus::GarbageArguments => "the server cannot read the call",
        ReplyStatus::SystemError => "the server failed",
        ReplyStatus::RpcMismatch => "the server speaks another version of RPC",
        ReplyStatus::AuthError(AuthStatus::TooWeak) => {
            "the server rejects the caller's credential: it may require a port below 1024, or other \
             authentication"
        }
        ReplyStatus::AuthError(_) => "the server does not take the caller's credential",
    }
}

/// Returns the usual text of a status.
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
        Status::BadCookie => "the directory has changed: restart the listing",
        Status::NotSupported => "not supported by the server",
        Status::TooSmall => "the buffer is too small for the reply",
        Status::ServerFault => "the server failed",
        Status::BadType => "the server cannot make this kind of file",
        Status::Jukebox => "the server is busy: retry later",
    }
}
