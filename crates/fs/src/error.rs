//! The errors of file operations.

use core::fmt;

/// The cause of a failure; each protocol version has a table that maps it to a status number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FsError {
    /// The caller lacks the permission (EACCES).
    Access,
    /// The name exists (EEXIST).
    AlreadyExists,
    /// The value of an extended attribute, or all extended attributes of an object together, would
    /// exceed the limit of the store (E2BIG).
    AttributeTooBig,
    /// The server did not issue this directory cookie.
    BadCookie,
    /// The server did not issue this handle, or the handle is corrupt.
    BadHandle,
    /// This store cannot create this kind of object.
    BadType,
    /// The names of one operation are in different file systems (EXDEV).
    CrossDevice,
    /// The operation has started and takes long; the client must retry (NFS3ERR_JUKEBOX).
    Delay,
    /// The operation would exceed the largest file size (EFBIG).
    FileTooBig,
    /// An argument does not fit the object, for example READLINK of a file (EINVAL).
    Invalid,
    /// The disk failed (EIO).
    Io,
    /// The object is a directory, and the operation needs an object of another kind (EISDIR).
    IsDirectory,
    /// The name is longer than the store permits (ENAMETOOLONG).
    NameTooLong,
    /// The object has no extended attribute of this name (ENODATA).
    NoAttribute,
    /// The disk is full (ENOSPC).
    NoSpace,
    /// The device does not exist, or the offset of a SEEK is not inside the file (ENXIO, ENODEV).
    NoSuchDevice,
    /// The directory contains names (ENOTEMPTY).
    NotEmpty,
    /// The object is not a directory, and the operation needs a directory (ENOTDIR).
    NotDirectory,
    /// The name does not exist (ENOENT).
    NotFound,
    /// The caller is neither the owner nor the superuser (EPERM).
    NotOwner,
    /// The store does not support the operation (EOPNOTSUPP).
    NotSupported,
    /// The object changed since the caller last read its attributes (guard of SETATTR).
    NotSynchronized,
    /// The owner's quota is exhausted (EDQUOT).
    QuotaExceeded,
    /// The file system or the export is read-only (EROFS).
    ReadOnly,
    /// The server failed for another reason.
    ServerFault,
    /// The object no longer exists (ESTALE).
    Stale,
    /// The caller's buffer is too small for one entry.
    TooSmall,
    /// The object has the largest possible number of names (EMLINK).
    TooManyLinks,
    /// The operation applies to objects of another type only (NFS4ERR_WRONG_TYPE).
    WrongType,
}

/// The advice on retrying a failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// A retry fails again.
    Never,
    /// A retry may succeed after a delay.
    Later,
    /// A retry may succeed after an administrator frees space or repairs the server.
    AfterRecovery,
}

impl FsError {
    /// Every error, in the order of declaration.
    pub const ALL: &[Self] = &[
        Self::Access,
        Self::AlreadyExists,
        Self::AttributeTooBig,
        Self::BadCookie,
        Self::BadHandle,
        Self::BadType,
        Self::CrossDevice,
        Self::Delay,
        Self::FileTooBig,
        Self::Invalid,
        Self::Io,
        Self::IsDirectory,
        Self::NameTooLong,
        Self::NoAttribute,
        Self::NoSpace,
        Self::NoSuchDevice,
        Self::NotEmpty,
        Self::NotDirectory,
        Self::NotFound,
        Self::NotOwner,
        Self::NotSupported,
        Self::NotSynchronized,
        Self::QuotaExceeded,
        Self::ReadOnly,
        Self::ServerFault,
        Self::Stale,
        Self::TooSmall,
        Self::TooManyLinks,
        Self::WrongType,
    ];

    /// Returns the advice on retrying the request.
    #[must_use]
    pub const fn retry(self) -> Retry {
        match self {
            Self::Delay => Retry::Later,
            Self::Io | Self::NoSpace | Self::QuotaExceeded | Self::ReadOnly | Self::ServerFault => {
                Retry::AfterRecovery
            }
            Self::Access
            | Self::AlreadyExists
            | Self::AttributeTooBig
            | Self::BadCookie
            | Self::BadHandle
            | Self::BadType
            | Self::CrossDevice
            | Self::FileTooBig
            | Self::Invalid
            | Self::IsDirectory
            | Self::NameTooLong
            | Self::NoAttribute
            | Self::NoSuchDevice
            | Self::NotEmpty
            | Self::NotDirectory
            | Self::NotFound
            | Self::NotOwner
            | Self::NotSupported
            | Self::NotSynchronized
            | Self::Stale
            | Self::TooSmall
            | Self::TooManyLinks
            | Self::WrongType => Retry::Never,
        }
    }
}

impl fmt::Display for FsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl core::error::Error for FsError {}
