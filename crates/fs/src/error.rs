//! What can go wrong with a file operation.

use core::fmt;

/// Why an operation failed; each protocol version has a table from here to its status numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FsError {
    /// The caller lacks the permission (EACCES).
    Access,
    /// The name is already there (EEXIST).
    AlreadyExists,
    /// A directory position is not one that was given out.
    BadCookie,
    /// A handle was never given out, or was changed.
    BadHandle,
    /// The kind of object cannot be made here.
    BadType,
    /// Names of one operation lie in different file systems (EXDEV).
    CrossDevice,
    /// The operation would make the file larger than it can be (EFBIG).
    FileTooBig,
    /// An argument makes no sense for the object, such as READLINK of a file (EINVAL).
    Invalid,
    /// The disk failed (EIO).
    Io,
    /// A directory is there where there must be none (EISDIR).
    IsDirectory,
    /// The operation was begun and will take long: to be asked again later.
    Later,
    /// The name is longer than the store takes (ENAMETOOLONG).
    NameTooLong,
    /// The disk is full (ENOSPC).
    NoSpace,
    /// The device does not exist (ENXIO, ENODEV).
    NoSuchDevice,
    /// The directory still has names in it (ENOTEMPTY).
    NotEmpty,
    /// What must be a directory is none (ENOTDIR).
    NotDirectory,
    /// There is no such name (ENOENT).
    NotFound,
    /// The caller must be the owner or be privileged (EPERM).
    NotOwner,
    /// The store cannot do that at all (EOPNOTSUPP).
    NotSupported,
    /// The object changed since the caller last looked (SETATTR's guard).
    NotSynchronized,
    /// The owner's share of the disk is used up (EDQUOT).
    QuotaExceeded,
    /// The file system or the export cannot be written (EROFS).
    ReadOnly,
    /// The server failed in a way that has no other name.
    ServerFault,
    /// The object is gone (ESTALE).
    Stale,
    /// The caller's buffer holds not even one entry.
    TooSmall,
    /// The object has as many names as it can (EMLINK).
    TooManyLinks,
}

/// Whether it is any use to ask again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The same request would fail again.
    Never,
    /// The same request may succeed after a while.
    Later,
    /// It may succeed once somebody made room or mended something.
    AfterRecovery,
}

impl FsError {
    /// Every error, in the order of declaration.
    pub const ALL: &[Self] = &[
        Self::Access,
        Self::AlreadyExists,
        Self::BadCookie,
        Self::BadHandle,
        Self::BadType,
        Self::CrossDevice,
        Self::FileTooBig,
        Self::Invalid,
        Self::Io,
        Self::IsDirectory,
        Self::Later,
        Self::NameTooLong,
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
    ];

    /// Whether it is any use to ask again.
    #[must_use]
    pub const fn retry(self) -> Retry {
        match self {
            Self::Later => Retry::Later,
            Self::Io | Self::NoSpace | Self::QuotaExceeded | Self::ReadOnly | Self::ServerFault => {
                Retry::AfterRecovery
            }
            Self::Access
            | Self::AlreadyExists
            | Self::BadCookie
            | Self::BadHandle
            | Self::BadType
            | Self::CrossDevice
            | Self::FileTooBig
            | Self::Invalid
            | Self::IsDirectory
            | Self::NameTooLong
            | Self::NoSuchDevice
            | Self::NotEmpty
            | Self::NotDirectory
            | Self::NotFound
            | Self::NotOwner
            | Self::NotSupported
            | Self::NotSynchronized
            | Self::Stale
            | Self::TooSmall
            | Self::TooManyLinks => Retry::Never,
        }
    }
}

impl fmt::Display for FsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl core::error::Error for FsError {}
