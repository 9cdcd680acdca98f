//! Conversions between version 4 and the types of `fs` and of the state machines.

use core::time::Duration;

use leasehold_core::sessions;
use leasehold_fs::{self as fs, FsError, Mode};
use leasehold_wire::nfs4::{self as wire, Status};

/// Returns the status of an error of a store (RFC 8881 15.1).
pub(super) const fn status(error: FsError) -> Status {
    match error {
        FsError::Access => Status::Access,
        FsError::AlreadyExists => Status::AlreadyExists,
        FsError::AttributeTooBig => Status::XattrTooBig,
        FsError::BadCookie => Status::BadCookie,
        FsError::BadHandle => Status::BadHandle,
        FsError::BadType => Status::BadType,
        FsError::CrossDevice => Status::CrossDevice,
        FsError::FileTooBig => Status::FileTooBig,
        FsError::Invalid => Status::Invalid,
        FsError::Io => Status::Io,
        FsError::IsDirectory => Status::IsDirectory,
        FsError::Delay | FsError::NotSynchronized => Status::Delay,
        FsError::NameTooLong => Status::NameTooLong,
        FsError::NoSpace => Status::NoSpace,
        FsError::NoSuchDevice => Status::NoSuchAddress,
        FsError::NotEmpty => Status::NotEmpty,
        FsError::NotDirectory => Status::NotDirectory,
        FsError::NotFound => Status::NotFound,
        FsError::NoAttribute => Status::NoXattr,
        FsError::NotOwner => Status::NotOwner,
        FsError::NotSupported => Status::NotSupported,
        FsError::QuotaExceeded => Status::QuotaExceeded,
        FsError::ReadOnly => Status::ReadOnly,
        FsError::ServerFault => Status::ServerFault,
        FsError::Stale => Status::Stale,
        FsError::TooSmall => Status::TooSmall,
        FsError::TooManyLinks => Status::TooManyLinks,
        FsError::WrongType => Status::WrongType,
    }
}

/// Returns the status of an error of the sessions.
pub(super) const fn session_status(error: sessions::Error) -> Status {
    use sessions::Error;
    match error {
        Error::BadHighSlot => Status::BadHighSlot,
        Error::BadSession => Status::BadSession,
        Error::BadSlot => Status::BadSlot,
        Error::ClientIdBusy => Status::ClientIdBusy,
        Error::ClientIdInUse => Status::ClientIdInUse,
        Error::CompleteAlready => Status::CompleteAlready,
        Error::ConnectionNotBound => Status::ConnectionNotBound,
        Error::Delay => Status::Delay,
        Error::Grace => Status::Grace,
        Error::Invalid => Status::Invalid,
        Error::NoEntry => Status::NotFound,
        Error::NoGrace => Status::NoGrace,
        Error::NoSpace => Status::NoSpace,
        Error::NotSame => Status::NotSame,
        Error::Permission => Status::NotOwner,
        Error::ReplyTooBigToCache => Status::ReplyTooBigToCache,
        Error::RequestTooBig => Status::RequestTooBig,
        Error::SequenceFalseRetry => Status::SequenceFalseRetry,
        Error::SequenceMisordered => Status::SequenceMisordered,
        Error::StaleClientId => Status::StaleClientId,
        Error::TooSmall => Status::TooSmall,
        Error::TooManyOperations => Status::TooManyOperations,
        Error::WrongCredential => Status::WrongCredential,
    }
}

pub(super) const fn file_type(file_type: fs::FileType) -> wire::FileType {
    match file_type {
        fs::FileType::Regular => wire::FileType::Regular,
        fs::FileType::Directory => wire::FileType::Directory,
        fs::FileType::BlockDevice => wire::FileType::BlockDevice,
        fs::FileType::CharacterDevice => wire::FileType::CharacterDevice,
        fs::FileType::Symlink => wire::FileType::Symlink,
        fs::FileType::Socket => wire::FileType::Socket,
        fs::FileType::Fifo => wire::FileType::Fifo,
    }
}

/// Converts a time resolution.
pub(super) fn time_step(step: Duration) -> wire::Time {
    let seconds = i64::try_from(step.as_secs()).unwrap_or(i64::MAX);
    wire::Time { seconds, nanoseconds: step.subsec_nanos() }
}

/// Returns the name of a user or group as a decimal number, for which no client needs a list of
/// users (RFC 8881 5.9).
pub(super) fn owner_name(id: u32) -> String {
    fs::shown_owner(id).to_string()
}

/// Returns the user or group of a name: a decimal number without leading zeros, with or without a
/// domain.
///
/// # Errors
/// [`Status::BadOwner`] for any other name.
pub(super) fn owner_of(name: &[u8]) -> Result<u32, Status> {
    let number = name.split(|byte| *byte == b'@').next().unwrap_or_default();
    let is_plain =
        number.iter().all(u8::is_ascii_digit) && (number.len() == 1 || !number.starts_with(b"0"));
    let text = core::str::from_utf8(number).ok().filter(|_| is_plain);
    text.and_then(|text| text.parse().ok()).ok_or(Status::BadOwner)
}

/// Converts the requested attribute changes.
///
/// # Errors
/// [`Status::BadOwner`], or [`Status::Invalid`] for a time with too many nanoseconds.
pub(super) fn set_attributes(wanted: &wire::Attributes<'_>) -> Result<fs::SetAttributes, Status> {
    let owner = |name: Option<wire::OwnerName<'_>>| name.map(|name| owner_of(name.0)).transpose();
    let mode = wanted.mode.or(wanted.mode_umask.map(|mode| mode.mode & !mode.umask));
    Ok(fs::SetAttributes {
        mode: mode.map(Mode::from_bits),
        uid: owner(wanted.owner)?,
        gid: owner(wanted.owner_group)?,
        size: wanted.size,
        accessed: set_time(wanted.set_accessed)?,
        modified: set_time(wanted.set_modified)?,
    })
}

fn set_time(wanted: Option<wire::SetTime>) -> Result<fs::SetTime, Status> {
    match wanted {
        None => Ok(fs::SetTime::Keep),
        Some(wire::SetTime::Now) => Ok(fs::SetTime::Now),
        Some(wire::SetTime::To(time)) if time.is_valid() => Ok(fs::SetTime::To(time.into())),
        Some(wire::SetTime::To(_)) => Err(Status::Invalid),
    }
}
