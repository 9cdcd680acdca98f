//! Every message in one table, for what has to treat them all alike: tests and fuzzing.

use bytes::{Bytes, BytesMut};
use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer, decode_all};

use crate::list::List;
use crate::portmap::rpcbind;
use crate::record::{Next, Splitter};
use crate::{mount, nfs2, nfs3, portmap, rpc};

/// Reads a whole message and writes what was read.
///
/// # Errors
/// When the bytes are no such message.
pub type Recode = fn(&Bytes) -> Result<Bytes, Error>;

/// A procedure and its messages.
#[derive(Clone, Copy, Debug)]
pub struct Procedure {
    /// The program.
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// The procedure's number.
    pub number: u32,
    /// Its name in the standard, without prefix.
    pub name: &'static str,
    /// Its arguments.
    pub args: Recode,
    /// Its results.
    pub reply: Recode,
}

fn encoded(value: &impl Encode) -> Bytes {
    let mut writer = Writer::new();
    value.encode(&mut writer);
    writer.finish().into_bytes()
}

macro_rules! recode {
    ($message:ty) => {
        |bytes| decode_all::<$message>(&mut Reader::new(bytes)).map(|value| encoded(&value))
    };
}

/// Each line is a procedure: its name, its number, its arguments and its results.
macro_rules! procedures {
    ($($program:path, $version:path {
        $($name:ident $number:path: $args:ty => $reply:ty;)*
    })*) => {
        &[$($(
            Procedure {
                program: $program,
                version: $version,
                number: $number,
                name: stringify!($name),
                args: recode!($args),
                reply: recode!($reply),
            },
        )*)*]
    };
}

/// Every procedure of every program.
pub const PROCEDURES: &[Procedure] = procedures! {
    portmap::PROGRAM, portmap::VERSION {
        NULL rpc::NULL: () => ();
        SET portmap::set::NUMBER: portmap::set::Args => portmap::set::Reply;
        UNSET portmap::unset::NUMBER: portmap::unset::Args => portmap::unset::Reply;
        GETPORT portmap::getport::NUMBER: portmap::getport::Args => portmap::getport::Reply;
        DUMP portmap::dump::NUMBER: portmap::dump::Args => portmap::dump::Reply;
        CALLIT portmap::callit::NUMBER: portmap::callit::Args<'_> => portmap::callit::Reply<'_>;
    }
    portmap::PROGRAM, rpcbind::VERSION_3 {
        NULL rpc::NULL: () => ();
        SET rpcbind::set::NUMBER: rpcbind::set::Args<'_> => rpcbind::set::Reply;
        UNSET rpcbind::unset::NUMBER: rpcbind::unset::Args<'_> => rpcbind::unset::Reply;
        GETADDR rpcbind::getaddr::NUMBER: rpcbind::getaddr::Args<'_> => rpcbind::getaddr::Reply<'_>;
        DUMP rpcbind::dump::NUMBER: rpcbind::dump::Args => rpcbind::dump::Reply<'_>;
        CALLIT rpcbind::callit::NUMBER: rpcbind::callit::Args<'_> => rpcbind::callit::Reply<'_>;
        GETTIME rpcbind::gettime::NUMBER: rpcbind::gettime::Args => rpcbind::gettime::Reply;
        UADDR2TADDR rpcbind::uaddr2taddr::NUMBER: rpcbind::uaddr2taddr::Args<'_> => rpcbind::uaddr2taddr::Reply<'_>;
        TADDR2UADDR rpcbind::taddr2uaddr::NUMBER: rpcbind::taddr2uaddr::Args<'_> => rpcbind::taddr2uaddr::Reply<'_>;
    }
    portmap::PROGRAM, rpcbind::VERSION_4 {
        NULL rpc::NULL: () => ();
        SET rpcbind::set::NUMBER: rpcbind::set::Args<'_> => rpcbind::set::Reply;
        UNSET rpcbind::unset::NUMBER: rpcbind::unset::Args<'_> => rpcbind::unset::Reply;
        GETADDR rpcbind::getaddr::NUMBER: rpcbind::getaddr::Args<'_> => rpcbind::getaddr::Reply<'_>;
        DUMP rpcbind::dump::NUMBER: rpcbind::dump::Args => rpcbind::dump::Reply<'_>;
        BCAST rpcbind::callit::NUMBER: rpcbind::callit::Args<'_> => rpcbind::callit::Reply<'_>;
        GETTIME rpcbind::gettime::NUMBER: rpcbind::gettime::Args => rpcbind::gettime::Reply;
        UADDR2TADDR rpcbind::uaddr2taddr::NUMBER: rpcbind::uaddr2taddr::Args<'_> => rpcbind::uaddr2taddr::Reply<'_>;
        TADDR2UADDR rpcbind::taddr2uaddr::NUMBER: rpcbind::taddr2uaddr::Args<'_> => rpcbind::taddr2uaddr::Reply<'_>;
        GETVERSADDR rpcbind::getversaddr::NUMBER: rpcbind::getversaddr::Args<'_> => rpcbind::getversaddr::Reply<'_>;
        INDIRECT rpcbind::indirect::NUMBER: rpcbind::indirect::Args<'_> => rpcbind::indirect::Reply<'_>;
        GETADDRLIST rpcbind::getaddrlist::NUMBER: rpcbind::getaddrlist::Args<'_> => rpcbind::getaddrlist::Reply<'_>;
        GETSTAT rpcbind::getstat::NUMBER: rpcbind::getstat::Args => rpcbind::getstat::Reply<'_>;
    }
    nfs2::PROGRAM, nfs2::VERSION {
        NULL rpc::NULL: () => ();
        GETATTR nfs2::getattr::NUMBER: nfs2::getattr::Args => nfs2::getattr::Reply;
        SETATTR nfs2::setattr::NUMBER: nfs2::setattr::Args => nfs2::setattr::Reply;
        ROOT nfs2::ROOT: () => ();
        LOOKUP nfs2::lookup::NUMBER: nfs2::lookup::Args<'_> => nfs2::lookup::Reply;
        READLINK nfs2::readlink::NUMBER: nfs2::readlink::Args => nfs2::readlink::Reply<'_>;
        READ nfs2::read::NUMBER: nfs2::read::Args => nfs2::read::Reply;
        WRITECACHE nfs2::WRITECACHE: () => ();
        WRITE nfs2::write::NUMBER: nfs2::write::Args => nfs2::write::Reply;
        CREATE nfs2::create::NUMBER: nfs2::create::Args<'_> => nfs2::create::Reply;
        REMOVE nfs2::remove::NUMBER: nfs2::remove::Args<'_> => nfs2::remove::Reply;
        RENAME nfs2::rename::NUMBER: nfs2::rename::Args<'_> => nfs2::rename::Reply;
        LINK nfs2::link::NUMBER: nfs2::link::Args<'_> => nfs2::link::Reply;
        SYMLINK nfs2::symlink::NUMBER: nfs2::symlink::Args<'_> => nfs2::symlink::Reply;
        MKDIR nfs2::mkdir::NUMBER: nfs2::mkdir::Args<'_> => nfs2::mkdir::Reply;
        RMDIR nfs2::rmdir::NUMBER: nfs2::rmdir::Args<'_> => nfs2::rmdir::Reply;
        READDIR nfs2::readdir::NUMBER: nfs2::readdir::Args
            => nfs2::readdir::Reply<List<nfs2::readdir::Entry<'_>>>;
        STATFS nfs2::statfs::NUMBER: nfs2::statfs::Args => nfs2::statfs::Reply;
    }
    nfs3::PROGRAM, nfs3::VERSION {
        NULL rpc::NULL: () => ();
        GETATTR nfs3::getattr::NUMBER: nfs3::getattr::Args => nfs3::getattr::Reply;
        SETATTR nfs3::setattr::NUMBER: nfs3::setattr::Args => nfs3::setattr::Reply;
        LOOKUP nfs3::lookup::NUMBER: nfs3::lookup::Args<'_> => nfs3::lookup::Reply;
        ACCESS nfs3::access::NUMBER: nfs3::access::Args => nfs3::access::Reply;
        READLINK nfs3::readlink::NUMBER: nfs3::readlink::Args => nfs3::readlink::Reply<'_>;
        READ nfs3::read::NUMBER: nfs3::read::Args => nfs3::read::Reply;
        WRITE nfs3::write::NUMBER: nfs3::write::Args => nfs3::write::Reply;
        CREATE nfs3::create::NUMBER: nfs3::create::Args<'_> => nfs3::create::Reply;
        MKDIR nfs3::mkdir::NUMBER: nfs3::mkdir::Args<'_> => nfs3::mkdir::Reply;
        SYMLINK nfs3::symlink::NUMBER: nfs3::symlink::Args<'_> => nfs3::symlink::Reply;
        MKNOD nfs3::mknod::NUMBER: nfs3::mknod::Args<'_> => nfs3::mknod::Reply;
        REMOVE nfs3::remove::NUMBER: nfs3::remove::Args<'_> => nfs3::remove::Reply;
        RMDIR nfs3::rmdir::NUMBER: nfs3::rmdir::Args<'_> => nfs3::rmdir::Reply;
        RENAME nfs3::rename::NUMBER: nfs3::rename::Args<'_> => nfs3::rename::Reply;
        LINK nfs3::link::NUMBER: nfs3::link::Args<'_> => nfs3::link::Reply;
        READDIR nfs3::readdir::NUMBER: nfs3::readdir::Args
            => nfs3::readdir::Reply<List<nfs3::readdir::Entry<'_>>>;
        READDIRPLUS nfs3::readdirplus::NUMBER: nfs3::readdirplus::Args
            => nfs3::readdirplus::Reply<List<nfs3::readdirplus::Entry<'_>>>;
        FSSTAT nfs3::fsstat::NUMBER: nfs3::fsstat::Args => nfs3::fsstat::Reply;
        FSINFO nfs3::fsinfo::NUMBER: nfs3::fsinfo::Args => nfs3::fsinfo::Reply;
        PATHCONF nfs3::pathconf::NUMBER: nfs3::pathconf::Args => nfs3::pathconf::Reply;
        COMMIT nfs3::commit::NUMBER: nfs3::commit::Args => nfs3::commit::Reply;
    }
    mount::PROGRAM, mount::VERSION_1 {
        NULL rpc::NULL: () => ();
        MNT mount::mnt::NUMBER: mount::mnt::Args<'_> => mount::mnt::OldReply;
        DUMP mount::dump::NUMBER: mount::dump::Args => mount::dump::Reply<'_>;
        UMNT mount::umnt::NUMBER: mount::umnt::Args<'_> => mount::umnt::Reply;
        UMNTALL mount::umntall::NUMBER: mount::umntall::Args => mount::umntall::Reply;
        EXPORT mount::export::NUMBER: mount::export::Args => mount::export::Reply<'_>;
        EXPORTALL mount::exportall::NUMBER: mount::exportall::Args => mount::exportall::Reply<'_>;
    }
    mount::PROGRAM, mount::VERSION_2 {
        NULL rpc::NULL: () => ();
        MNT mount::mnt::NUMBER: mount::mnt::Args<'_> => mount::mnt::OldReply;
        DUMP mount::dump::NUMBER: mount::dump::Args => mount::dump::Reply<'_>;
        UMNT mount::umnt::NUMBER: mount::umnt::Args<'_> => mount::umnt::Reply;
        UMNTALL mount::umntall::NUMBER: mount::umntall::Args => mount::umntall::Reply;
        EXPORT mount::export::NUMBER: mount::export::Args => mount::export::Reply<'_>;
        EXPORTALL mount::exportall::NUMBER: mount::exportall::Args => mount::exportall::Reply<'_>;
        PATHCONF mount::pathconf::NUMBER: mount::pathconf::Args<'_> => mount::pathconf::Reply;
    }
    mount::PROGRAM, mount::VERSION_3 {
        NULL rpc::NULL: () => ();
        MNT mount::mnt::NUMBER: mount::mnt::Args<'_> => mount::mnt::Reply;
        DUMP mount::dump::NUMBER: mount::dump::Args => mount::dump::Reply<'_>;
        UMNT mount::umnt::NUMBER: mount::umnt::Args<'_> => mount::umnt::Reply;
        UMNTALL mount::umntall::NUMBER: mount::umntall::Args => mount::umntall::Reply;
        EXPORT mount::export::NUMBER: mount::export::Args => mount::export::Reply<'_>;
    }
};

/// The heads of calls and replies, and what is in a credential.
pub const HEADS: &[Recode] = &[
    |bytes| {
        rpc::Call::decode(&mut Reader::new(bytes))
            .map(|call| encoded(&call))
            .map_err(|_| Error::BadValue)
    },
    |bytes| rpc::Reply::decode(&mut Reader::new(bytes)).map(|reply| encoded(&reply)),
    recode!(rpc::AuthSys<'_>),
];

/// Reads the bytes as every message that there is, and as a stream of records.
///
/// # Panics
/// When what was read is written in a way that reads differently. Reading itself never panics.
pub fn decode_every(bytes: &Bytes) {
    for recode in PROCEDURES.iter().flat_map(|p| [&p.args, &p.reply]).chain(HEADS) {
        if let Ok(written) = recode(bytes) {
            assert_eq!(recode(&written).as_ref(), Ok(&written), "what was written reads the same");
        }
    }
    let (mut splitter, mut received) = (Splitter::default(), BytesMut::from(&bytes[..]));
    while let Ok(Next::Record(_)) = splitter.next(&mut received) {}
}

#[cfg(test)]
mod tests;
