//! The front end of version 3 (RFC 1813).

pub(crate) mod convert;
mod creation;
pub(crate) mod data;
pub(crate) mod errors;
mod listing;
mod names;
pub(crate) mod objects;
mod system;

use leasehold_base::xdr::{Encode as _, Writer};
use leasehold_fs::FsError;
use leasehold_wire::nfs3::{
    Attributes, Wcc, access, commit, create, fsinfo, fsstat, getattr, link, lookup, mkdir, mknod,
    pathconf, read, readdir, readdirplus, readlink, remove, rename, rmdir, setattr, symlink, write,
};

use crate::procedure::{Dialect, Plain, null};
use crate::table::{Around, Keep, Lease, Row, Use, row};
#[cfg(test)]
pub(crate) use convert::status;

/// The attributes of the object in the reply of a failure (RFC 1813 2.6, `post_op_attr`).
type After = Option<Attributes>;

/// The procedures in the order of their numbers.
pub(crate) const ROWS: &[Row] = &[
    row!(Plain, "NULL", null, () => (), ()).counterpart(0),
    row!(Nfs3, "GETATTR", objects::getattr, getattr::Args => getattr::Done, ()).fails(errors::GETATTR)
        .reads()
        .counterpart(1),
    row!(Nfs3, "SETATTR", objects::setattr, setattr::Args => setattr::Done, Wcc).fails(errors::SETATTR)
        .writes()
        .counterpart(2),
    row!(Nfs3, "LOOKUP", objects::lookup, lookup::Args<'a> => lookup::Done, After).fails(errors::LOOKUP)
        .reads()
        .counterpart(4),
    row!(Nfs3, "ACCESS", objects::access, access::Args => access::Done, After).fails(errors::ACCESS)
        .reads()
        .lease(Lease::Without)
        .by_client(Use::Asks),
    row!(Nfs3, "READLINK", objects::readlink, readlink::Args => objects::Target, After).fails(errors::READLINK)
        .reads()
        .counterpart(5),
    row!(Nfs3, "READ", data::read, read::Args => read::Done, After).fails(errors::READ)
        .reads()
        .counterpart(6)
        .by_client(Use::Reads),
    row!(Nfs3, "WRITE", data::write, write::Args => write::Done, Wcc).fails(errors::WRITE)
        .writes()
        .keep(Keep::Late)
        .counterpart(8)
        .by_client(Use::Writes),
    row!(Nfs3, "CREATE", creation::create, create::Args<'a> => create::Done, Wcc).fails(errors::CREATE)
        .writes()
        .counterpart(9),
    row!(Nfs3, "MKDIR", creation::mkdir, mkdir::Args<'a> => mkdir::Done, Wcc).fails(errors::MKDIR)
        .writes()
        .counterpart(14),
    row!(Nfs3, "SYMLINK", creation::symlink, symlink::Args<'a> => symlink::Done, Wcc).fails(errors::SYMLINK)
        .writes()
        .counterpart(13),
    row!(Nfs3, "MKNOD", creation::mknod, mknod::Args<'a> => mknod::Done, Wcc).fails(errors::MKNOD).writes(),
    row!(Nfs3, "REMOVE", names::remove, remove::Args<'a> => remove::Done, Wcc).fails(errors::REMOVE)
        .writes()
        .counterpart(10),
    row!(Nfs3, "RMDIR", names::rmdir, rmdir::Args<'a> => rmdir::Done, Wcc).fails(errors::RMDIR)
        .writes()
        .counterpart(15),
    row!(Nfs3, "RENAME", names::rename, rename::Args<'a> => rename::Done, rename::Done).fails(errors::RENAME)
        .writes()
        .counterpart(11),
    row!(Nfs3, "LINK", names::link, link::Args<'a> => link::Done, link::Done).fails(errors::LINK)
        .writes()
        .counterpart(12),
    row!(Nfs3, "READDIR", listing::readdir, readdir::Args => listing::NamePage, After).fails(errors::READDIR)
        .reads()
        .counterpart(16),
    row!(Nfs3, "READDIRPLUS", listing::readdirplus, readdirplus::Args => listing::Everything, After).fails(errors::READDIRPLUS)
        .reads(),
    row!(Nfs3, "FSSTAT", system::fsstat, fsstat::Args => fsstat::Done, After).fails(errors::FSSTAT)
        .around(Around::After)
        .counterpart(17),
    row!(Nfs3, "FSINFO", system::fsinfo, fsinfo::Args => fsinfo::Done, After).fails(errors::FSINFO)
        .around(Around::After),
    row!(Nfs3, "PATHCONF", system::pathconf, pathconf::Args => pathconf::Done, After).fails(errors::PATHCONF)
        .around(Around::After),
    row!(Nfs3, "COMMIT", data::commit, commit::Args => commit::Done, Wcc).fails(errors::COMMIT)
        .around(Around::Both)
        .by_client(Use::Writes),
];

/// The dialect of version 3: every reply begins with a status.
pub(crate) struct Nfs3;

impl Dialect for Nfs3 {
    fn done(writer: &mut Writer) {
        writer.u32(0);
    }

    fn failed(error: FsError, writer: &mut Writer) {
        convert::status(error).encode(writer);
    }
}
