//! The errors that each procedure may return. RFC 1094 has no list of errors for each procedure.
//! The lists are therefore the lists of RFC 1813, reduced to the statuses of version 2 with their
//! meanings in RFC 1094 2.3.1.

use leasehold_fs::FsError::{
    Access, AlreadyExists, Delay, FileTooBig, Io, IsDirectory, NameTooLong, NoSpace, NoSuchDevice,
    NotDirectory, NotEmpty, NotFound, NotOwner, QuotaExceeded, ReadOnly, Stale,
};

use crate::errors::Errors;

/// The errors of every procedure with a handle. For [`Delay`] the server sends no reply.
const OBJECT: Errors = Errors::of(&[Io, Delay, Stale]);
const NAME: Errors = OBJECT.with(&[Access, NameTooLong, NotDirectory]);
const NEW_NAME: Errors = NAME.with(&[AlreadyExists, NoSpace, QuotaExceeded, ReadOnly]);
const CHANGE: Errors =
    OBJECT.with(&[Access, FileTooBig, IsDirectory, NoSpace, QuotaExceeded, ReadOnly]);

pub(super) const GETATTR: Errors = OBJECT;
pub(super) const SETATTR: Errors = CHANGE.with(&[NotOwner]);
pub(super) const LOOKUP: Errors = NAME.with(&[NotFound]);
/// READLINK may return NAMETOOLONG, because a target may be longer than the longest path of version
/// 2.
pub(super) const READLINK: Errors = OBJECT.with(&[Access, NameTooLong]);
pub(super) const READ: Errors =
    OBJECT.with(&[Access, IsDirectory, NoSuchDevice]).beyond(&[FileTooBig]);
pub(super) const WRITE: Errors = CHANGE;
pub(super) const CREATE: Errors = NEW_NAME.with(&[FileTooBig]);
pub(super) const REMOVE: Errors = NAME.with(&[IsDirectory, NotFound, ReadOnly]);
pub(super) const RENAME: Errors = NEW_NAME.with(&[IsDirectory, NotEmpty, NotFound]);
pub(super) const LINK: Errors = NEW_NAME;
pub(super) const SYMLINK: Errors = NEW_NAME;
pub(super) const MKDIR: Errors = NEW_NAME;
pub(super) const RMDIR: Errors = NAME.with(&[AlreadyExists, NotEmpty, NotFound, ReadOnly]);
pub(super) const READDIR: Errors = OBJECT.with(&[Access, NotDirectory]);
pub(super) const STATFS: Errors = OBJECT;
