//! The front end of version 2 (RFC 1094).

mod convert;
mod cookies;
mod creation;
mod data;
mod errors;
mod listing;
mod names;
mod objects;
mod system;

pub(crate) use cookies::Cookies;

use leasehold_base::xdr::{Encode as _, Writer};
use leasehold_fs::FsError;
use leasehold_wire::nfs2::{
    create, getattr, link, lookup, mkdir, read, readdir, readlink, remove, rename, rmdir, setattr,
    statfs, symlink, write,
};

use crate::procedure::{Dialect, Plain, null};
use crate::table::{Around, Keep, Row, row};
#[cfg(test)]
pub(crate) use convert::status;

/// The procedures in the order of their numbers. ROOT and WRITECACHE are part of the standard and
/// have no function.
pub(crate) const ROWS: &[Row] = &[
    row!(Plain, "NULL", null, () => (), ()),
    row!(Nfs2, "GETATTR", objects::getattr, getattr::Args => getattr::Done, ())
        .fails(errors::GETATTR)
        .reads(),
    row!(Nfs2, "SETATTR", objects::setattr, setattr::Args => setattr::Done, ())
        .fails(errors::SETATTR)
        .writes()
        .around(Around::After),
    row!(Plain, "ROOT", null, () => (), ()),
    row!(Nfs2, "LOOKUP", objects::lookup, lookup::Args<'a> => lookup::Done, ())
        .fails(errors::LOOKUP)
        .reads(),
    row!(Nfs2, "READLINK", objects::readlink, readlink::Args => objects::Target, ())
        .fails(errors::READLINK)
        .reads()
        .around(Around::Without),
    row!(Nfs2, "READ", data::read, read::Args => read::Done, ()).fails(errors::READ).reads(),
    row!(Plain, "WRITECACHE", null, () => (), ()),
    row!(Nfs2, "WRITE", data::write, write::Args => write::Done, ())
        .fails(errors::WRITE)
        .writes()
        .around(Around::After)
        .keep(Keep::Late),
    row!(Nfs2, "CREATE", creation::create, create::Args<'a> => create::Done, ())
        .fails(errors::CREATE)
        .writes()
        .around(Around::After),
    row!(Nfs2, "REMOVE", names::remove, remove::Args<'a> => remove::Done, ())
        .fails(errors::REMOVE)
        .writes()
        .around(Around::Without),
    row!(Nfs2, "RENAME", names::rename, rename::Args<'a> => rename::Done, ())
        .fails(errors::RENAME)
        .writes()
        .around(Around::Without),
    row!(Nfs2, "LINK", names::link, link::Args<'a> => link::Done, ())
        .fails(errors::LINK)
        .writes()
        .around(Around::Without),
    row!(Nfs2, "SYMLINK", creation::symlink, symlink::Args<'a> => symlink::Done, ())
        .fails(errors::SYMLINK)
        .writes()
        .around(Around::Without),
    row!(Nfs2, "MKDIR", creation::mkdir, mkdir::Args<'a> => mkdir::Done, ())
        .fails(errors::MKDIR)
        .writes()
        .around(Around::After),
    row!(Nfs2, "RMDIR", names::rmdir, rmdir::Args<'a> => rmdir::Done, ())
        .fails(errors::RMDIR)
        .writes()
        .around(Around::Without),
    row!(Nfs2, "READDIR", listing::readdir, readdir::Args => listing::NamePage, ())
        .fails(errors::READDIR)
        .reads()
        .around(Around::Without),
    row!(Nfs2, "STATFS", system::statfs, statfs::Args => statfs::Done, ()).fails(errors::STATFS),
];

/// The dialect of version 2: every reply begins with a status, and no status requests a retry.
struct Nfs2;

impl Dialect for Nfs2 {
    const SAYS_LATER: bool = false;

    fn done(writer: &mut Writer) {
        writer.u32(0);
    }

    fn failed(error: FsError, writer: &mut Writer) {
        convert::status(error).encode(writer);
    }
}
