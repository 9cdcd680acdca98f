//! The front end of MOUNT (RFC 1094 appendix A, RFC 1813 appendix I), from which a client gets its
//! first handle.

mod lists;
mod mounting;
mod table;

pub(crate) use table::MountTable;

use leasehold_base::xdr::{Encode as _, Writer};
use leasehold_fs::FsError;
use leasehold_wire::mount::{Path, mnt, pathconf};

use crate::errors::Errors;
use crate::procedure::{Dialect, Plain, null};
use crate::table::{Row, Use, row};

const NULL: Row = row!(Plain, "NULL", null, () => (), ());
const DUMP: Row = row!(Plain, "DUMP", lists::dump, () => lists::Mounts, ());
const UMNT: Row = row!(Plain, "UMNT", mounting::umnt, Path<'a> => (), ());
const UMNTALL: Row = row!(Plain, "UMNTALL", mounting::umntall, () => (), ());
const EXPORT: Row = row!(Plain, "EXPORT", lists::export, () => lists::Exports, ());
const EXPORTALL: Row = row!(Plain, "EXPORTALL", lists::export, () => lists::Exports, ());
const PATHCONF: Row = row!(Plain, "PATHCONF", mounting::pathconf, Path<'a> => pathconf::Reply, ());
const OLD_MNT: Row =
    row!(Old, "MNT", mounting::old_mnt, Path<'a> => leasehold_wire::nfs2::Handle, ())
        .fails(MOUNT)
        .by_client(Use::Refused);

/// The errors of MNT according to RFC 1813 5.2.1. For [`FsError::Delay`] the server sends no reply.
const MOUNT: Errors = Errors::of(&[
    FsError::Access,
    FsError::Io,
    FsError::Delay,
    FsError::NameTooLong,
    FsError::NotDirectory,
    FsError::NotFound,
]);

/// Version 1, in the order of the procedures' numbers.
pub(crate) const ROWS_1: &[Row] = &[NULL, OLD_MNT, DUMP, UMNT, UMNTALL, EXPORT, EXPORTALL];

/// Version 2: version 1 with PATHCONF.
pub(crate) const ROWS_2: &[Row] =
    &[NULL, OLD_MNT, DUMP, UMNT, UMNTALL, EXPORT, EXPORTALL, PATHCONF];

/// Version 3: handles of version 3 of NFS, and the accepted authentication flavours.
pub(crate) const ROWS_3: &[Row] = &[
    NULL,
    row!(Mount3, "MNT", mounting::mnt, Path<'a> => mnt::Done, ())
        .fails(MOUNT)
        .by_client(Use::Refused),
    DUMP,
    UMNT,
    UMNTALL,
    EXPORT,
];

/// Returns the status of an error in version 3 (RFC 1813 5.1.5).
const fn status(error: FsError) -> mnt::Status {
    use mnt::Status;
    match error {
        FsError::Access => Status::Access,
        FsError::Invalid => Status::Invalid,
        FsError::NameTooLong => Status::NameTooLong,
        FsError::NotDirectory => Status::NotDirectory,
        FsError::NotFound | FsError::Stale => Status::NotFound,
        FsError::NotOwner => Status::NotOwner,
        FsError::NotSupported => Status::NotSupported,
        FsError::ServerFault => Status::ServerFault,
        FsError::AlreadyExists
        | FsError::AttributeTooBig
        | FsError::BadCookie
        | FsError::BadHandle
        | FsError::BadType
        | FsError::CrossDevice
        | FsError::FileTooBig
        | FsError::Io
        | FsError::IsDirectory
        | FsError::Delay
        | FsError::NoAttribute
        | FsError::NoSpace
        | FsError::NoSuchDevice
        | FsError::NotEmpty
        | FsError::NotSynchronized
        | FsError::QuotaExceeded
        | FsError::ReadOnly
        | FsError::TooSmall
        | FsError::TooManyLinks
        | FsError::WrongType => Status::Io,
    }
}

/// The dialect of versions 1 and 2, whose status is a Unix error number.
struct Old;

impl Dialect for Old {
    const SAYS_LATER: bool = false;

    fn done(writer: &mut Writer) {
        writer.u32(0);
    }

    fn failed(error: FsError, writer: &mut Writer) {
        mnt::ErrorNumber::from(status(error)).encode(writer);
    }
}

/// The dialect of version 3, whose status has numbers of its own.
struct Mount3;

impl Dialect for Mount3 {
    const SAYS_LATER: bool = false;

    fn done(writer: &mut Writer) {
        writer.u32(0);
    }

    fn failed(error: FsError, writer: &mut Writer) {
        status(error).encode(writer);
    }
}
