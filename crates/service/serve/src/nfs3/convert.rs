//! Conversions between version 3 and the types of `fs`.

use core::time::Duration;

use leasehold_fs::{self as fs, Changed, FsError, Mode, ObjectId, SetTime, Stability};
use leasehold_wire::nfs3;

use crate::context::{Context, Target};
use crate::procedure::Refusal;

/// Returns the status of an error (RFC 1813 2.6). Version 3 has no operation that returns the
/// errors of extended attributes and of objects of a wrong type, so these become the nearest
/// status.
pub(crate) const fn status(error: FsError) -> nfs3::Status {
    use nfs3::Status;
    match error {
        FsError::Access => Status::Access,
        FsError::AlreadyExists => Status::AlreadyExists,
        FsError::AttributeTooBig => Status::FileTooBig,
        FsError::BadCookie => Status::BadCookie,
        FsError::BadHandle => Status::BadHandle,
        FsError::BadType => Status::BadType,
        FsError::CrossDevice => Status::CrossDevice,
        FsError::FileTooBig => Status::FileTooBig,
        FsError::Invalid | FsError::NoAttribute | FsError::WrongType => Status::Invalid,
        FsError::Io => Status::Io,
        FsError::IsDirectory => Status::IsDirectory,
        FsError::Delay => Status::Jukebox,
        FsError::NameTooLong => Status::NameTooLong,
        FsError::NoSpace => Status::NoSpace,
        FsError::NoSuchDevice => Status::NoSuchAddress,
        FsError::NotEmpty => Status::NotEmpty,
        FsError::NotDirectory => Status::NotDirectory,
        FsError::NotFound => Status::NotFound,
        FsError::NotOwner => Status::NotOwner,
        FsError::NotSupported => Status::NotSupported,
        FsError::NotSynchronized => Status::NotSynchronized,
        FsError::QuotaExceeded => Status::QuotaExceeded,
        FsError::ReadOnly => Status::ReadOnly,
        FsError::ServerFault => Status::ServerFault,
        FsError::Stale => Status::Stale,
        FsError::TooSmall => Status::TooSmall,
        FsError::TooManyLinks => Status::TooManyLinks,
    }
}

/// Converts attributes to version 3.
pub(crate) fn attributes(attributes: &fs::Attributes) -> nfs3::Attributes {
    nfs3::Attributes {
        file_type: file_type(attributes.file_type),
        mode: attributes.mode.bits(),
        link_count: attributes.link_count,
        uid: fs::shown_owner(attributes.uid),
        gid: fs::shown_owner(attributes.gid),
        size: attributes.size,
        used: attributes.used,
        device: nfs3::Device { major: attributes.device.major, minor: attributes.device.minor },
        file_system: attributes.file_system,
        file_id: attributes.file_id,
        accessed: attributes.accessed.into(),
        modified: attributes.modified.into(),
        changed: attributes.changed.into(),
    }
}

const fn file_type(file_type: fs::FileType) -> nfs3::FileType {
    match file_type {
        fs::FileType::Regular => nfs3::FileType::Regular,
        fs::FileType::Directory => nfs3::FileType::Directory,
        fs::FileType::BlockDevice => nfs3::FileType::BlockDevice,
        fs::FileType::CharacterDevice => nfs3::FileType::CharacterDevice,
        fs::FileType::Symlink => nfs3::FileType::Symlink,
        fs::FileType::Socket => nfs3::FileType::Socket,
        fs::FileType::Fifo => nfs3::FileType::Fifo,
    }
}

/// Converts the attributes before and after a change to version 3.
pub(super) fn wcc(wcc: &fs::Wcc) -> nfs3::Wcc {
    nfs3::Wcc {
        before: wcc.before.map(|before| nfs3::Before {
            size: before.size,
            modified: before.modified.into(),
            changed: before.changed.into(),
        }),
        after: wcc.after.as_ref().map(attributes),
    }
}

/// Converts a failure with the attributes of its object.
impl From<fs::ops::Failed> for Refusal<Option<nfs3::Attributes>> {
    fn from(failed: fs::ops::Failed) -> Self {
        Self { error: failed.error, results: failed.attributes.as_ref().map(attributes) }
    }
}

/// Returns the result of a change. Success and failure both contain the attributes before and after
/// the change.
pub(super) fn settled<T>(changed: Changed<T>) -> Result<(T, nfs3::Wcc), Refusal<nfs3::Wcc>> {
    let results = wcc(&changed.wcc);
    match changed.result {
        Ok(value) => Ok((value, results)),
        Err(error) => Err(Refusal { error, results }),
    }
}

/// Converts the durability that a WRITE of version 3 or 4 requests.
pub(crate) const fn stability(requested: nfs3::write::Stability) -> Stability {
    match requested {
        nfs3::write::Stability::Unstable => Stability::Unstable,
        nfs3::write::Stability::DataSync => Stability::DataSync,
        nfs3::write::Stability::FileSync => Stability::FileSync,
    }
}

/// Converts the durability that a WRITE of version 3 or 4 has reached.
pub(crate) const fn wire_stability(reached: Stability) -> nfs3::write::Stability {
    match reached {
        Stability::Unstable => nfs3::write::Stability::Unstable,
        Stability::DataSync => nfs3::write::Stability::DataSync,
        Stability::FileSync => nfs3::write::Stability::FileSync,
    }
}

/// Converts the requested attribute changes.
pub(super) fn set_attributes(wanted: &nfs3::SetAttributes) -> fs::SetAttributes {
    fs::SetAttributes {
        mode: wanted.mode.map(Mode::from_bits),
        uid: wanted.uid,
        gid: wanted.gid,
        size: wanted.size,
        accessed: set_time(wanted.accessed),
        modified: set_time(wanted.modified),
    }
}

fn set_time(wanted: nfs3::SetTime) -> SetTime {
    match wanted {
        nfs3::SetTime::Keep => SetTime::Keep,
        nfs3::SetTime::Now => SetTime::Now,
        nfs3::SetTime::To(time) => SetTime::To(time.into()),
    }
}

/// Returns the handle of an object in the same export as `near`.
pub(super) fn handle(context: &Context, near: &Target<'_>, object: &ObjectId) -> nfs3::Handle {
    context.service.handles.seal(near.request.export.id, object).into()
}

/// Converts a time resolution to version 3.
pub(super) fn time_step(step: Duration) -> nfs3::Time {
    nfs3::Time {
        seconds: u32::try_from(step.as_secs()).unwrap_or(u32::MAX),
        nanoseconds: step.subsec_nanos(),
    }
}
