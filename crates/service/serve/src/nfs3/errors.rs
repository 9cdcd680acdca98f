//! The errors that each procedure may return: the lists of RFC 1813, with few additions.

use leasehold_fs::FsError::{
    Access, AlreadyExists, BadCookie, BadHandle, BadType, CrossDevice, Delay, FileTooBig, Invalid,
    Io, IsDirectory, NameTooLong, NoSpace, NoSuchDevice, NotDirectory, NotEmpty, NotFound,
    NotOwner, NotSupported, NotSynchronized, QuotaExceeded, ReadOnly, ServerFault, Stale,
    TooManyLinks, TooSmall,
};

use crate::errors::Errors;

/// The errors of every procedure with a handle, including the retry status (RFC 1813 2.6,
/// NFS3ERR_JUKEBOX).
const OBJECT: Errors = Errors::of(&[BadHandle, Delay, ServerFault, Stale]);
const DISK: Errors = OBJECT.with(&[Io]);
const NAME: Errors = DISK.with(&[Access, NameTooLong, NotDirectory]);
const NEW_NAME: Errors = NAME.with(&[AlreadyExists, NoSpace, QuotaExceeded, ReadOnly]);

pub(super) const GETATTR: Errors = DISK;
/// The errors of GETLEASE in NQNFS.
pub(crate) const GETLEASE: Errors = DISK.with(&[ReadOnly]);
pub(super) const SETATTR: Errors =
    DISK.with(&[Access, Invalid, NoSpace, NotOwner, NotSynchronized, QuotaExceeded, ReadOnly]);
pub(super) const LOOKUP: Errors = NAME.with(&[NotFound]);
pub(super) const ACCESS: Errors = DISK;
pub(super) const READLINK: Errors = DISK.with(&[Access, Invalid, NotSupported]);
pub(super) const READ: Errors = DISK.with(&[Access, Invalid, NoSuchDevice]);
pub(crate) const WRITE: Errors =
    DISK.with(&[Access, FileTooBig, Invalid, NoSpace, QuotaExceeded, ReadOnly]);
pub(super) const CREATE: Errors = NEW_NAME.with(&[NotSupported]);
pub(super) const MKDIR: Errors = CREATE;
pub(super) const SYMLINK: Errors = CREATE;
pub(super) const MKNOD: Errors = CREATE.with(&[BadType]);
pub(super) const REMOVE: Errors = NAME.with(&[NotFound, ReadOnly]).beyond(&[IsDirectory]);
pub(super) const RMDIR: Errors =
    NAME.with(&[AlreadyExists, Invalid, NotEmpty, NotFound, NotSupported, ReadOnly]);
pub(super) const RENAME: Errors = LINK.with(&[IsDirectory, NotEmpty, NotFound]);
pub(super) const LINK: Errors = NEW_NAME.with(&[CrossDevice, Invalid, NotSupported, TooManyLinks]);
pub(super) const READDIR: Errors = DISK.with(&[Access, BadCookie, NotDirectory, TooSmall]);
pub(super) const READDIRPLUS: Errors = READDIR.with(&[NotSupported]);
pub(super) const FSSTAT: Errors = DISK;
pub(super) const FSINFO: Errors = OBJECT;
pub(super) const PATHCONF: Errors = OBJECT;
pub(super) const COMMIT: Errors = DISK.beyond(&[Invalid]);
