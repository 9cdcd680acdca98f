//! Every message in one table, for tests and fuzzing, which treat all messages alike.

use bytes::{Bytes, BytesMut};
use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer, decode_all};

use crate::lease::callback;
use crate::nfs4::callback::for_every_callback;
use crate::nfs4::compound::for_every_operation;
use crate::portmap::rpcbind;
use crate::record::{Next, Splitter};
use crate::{binding, lease, mount, nfs2, nfs3, nfs4, nqnfs, portmap, replica, rpc};

/// Decodes a whole message and encodes the value again.
///
/// # Errors
/// Returns an error if the bytes are not a valid message of this type.
pub type Recode = fn(&Bytes) -> Result<Bytes, Error>;

/// Decodes a whole message and returns its value as text.
///
/// # Errors
/// Returns an error if the bytes are not a valid message of this type.
pub type Describe = fn(&Bytes) -> Result<String, Error>;

/// A procedure and its messages.
#[derive(Clone, Copy, Debug)]
pub struct Procedure {
    /// The program.
    pub program: u32,
    /// The version of the program.
    pub version: u32,
    /// The procedure's number.
    pub number: u32,
    /// The name of the procedure in the standard, without prefix.
    pub name: &'static str,
    /// The function that decodes and encodes the arguments.
    pub args: Recode,
    /// The function that decodes and encodes the results.
    pub reply: Recode,
    /// The function that returns the arguments as text.
    pub describe_args: Describe,
    /// The function that returns the results as text.
    pub describe_reply: Describe,
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

macro_rules! describe {
    ($message:ty) => {
        |bytes| decode_all::<$message>(&mut Reader::new(bytes)).map(|value| format!("{value:?}"))
    };
}

/// Passes the table to a macro: each line is a procedure with its name, its module, and its
/// arguments and results in that module.
macro_rules! for_every_procedure {
    ($use:ident) => {
        $use! {
            portmap::PROGRAM, portmap::VERSION {
                NULL rpc::null: Args => Reply;
                SET portmap::set: Args => Reply;
                UNSET portmap::unset: Args => Reply;
                GETPORT portmap::getport: Args => Reply;
                DUMP portmap::dump: Args => Reply;
                CALLIT portmap::callit: Args<'_> => Reply<'_>;
            }
            portmap::PROGRAM, rpcbind::VERSION_3 {
                NULL rpc::null: Args => Reply;
                SET rpcbind::set: Args<'_> => Reply;
                UNSET rpcbind::unset: Args<'_> => Reply;
                GETADDR rpcbind::getaddr: Args<'_> => Reply<'_>;
                DUMP rpcbind::dump: Args => Reply<'_>;
                CALLIT rpcbind::callit: Args<'_> => Reply<'_>;
                GETTIME rpcbind::gettime: Args => Reply;
                UADDR2TADDR rpcbind::uaddr2taddr: Args<'_> => Reply<'_>;
                TADDR2UADDR rpcbind::taddr2uaddr: Args<'_> => Reply<'_>;
            }
            portmap::PROGRAM, rpcbind::VERSION_4 {
                NULL rpc::null: Args => Reply;
                SET rpcbind::set: Args<'_> => Reply;
                UNSET rpcbind::unset: Args<'_> => Reply;
                GETADDR rpcbind::getaddr: Args<'_> => Reply<'_>;
                DUMP rpcbind::dump: Args => Reply<'_>;
                BCAST rpcbind::callit: Args<'_> => Reply<'_>;
                GETTIME rpcbind::gettime: Args => Reply;
                UADDR2TADDR rpcbind::uaddr2taddr: Args<'_> => Reply<'_>;
                TADDR2UADDR rpcbind::taddr2uaddr: Args<'_> => Reply<'_>;
                GETVERSADDR rpcbind::getversaddr: Args<'_> => Reply<'_>;
                INDIRECT rpcbind::indirect: Args<'_> => Reply<'_>;
                GETADDRLIST rpcbind::getaddrlist: Args<'_> => Reply<'_>;
                GETSTAT rpcbind::getstat: Args => Reply<'_>;
            }
            nfs2::PROGRAM, nfs2::VERSION {
                NULL rpc::null: Args => Reply;
                GETATTR nfs2::getattr: Args => Reply;
                SETATTR nfs2::setattr: Args => Reply;
                ROOT nfs2::root: Args => Reply;
                LOOKUP nfs2::lookup: Args<'_> => Reply;
                READLINK nfs2::readlink: Args => Reply<'_>;
                READ nfs2::read: Args => Reply;
                WRITECACHE nfs2::writecache: Args => Reply;
                WRITE nfs2::write: Args => Reply;
                CREATE nfs2::create: Args<'_> => Reply;
                REMOVE nfs2::remove: Args<'_> => Reply;
                RENAME nfs2::rename: Args<'_> => Reply;
                LINK nfs2::link: Args<'_> => Reply;
                SYMLINK nfs2::symlink: Args<'_> => Reply;
                MKDIR nfs2::mkdir: Args<'_> => Reply;
                RMDIR nfs2::rmdir: Args<'_> => Reply;
                READDIR nfs2::readdir: Args => Listing<'_>;
                STATFS nfs2::statfs: Args => Reply;
            }
            nfs3::PROGRAM, nfs3::VERSION {
                NULL rpc::null: Args => Reply;
                GETATTR nfs3::getattr: Args => Reply;
                SETATTR nfs3::setattr: Args => Reply;
                LOOKUP nfs3::lookup: Args<'_> => Reply;
                ACCESS nfs3::access: Args => Reply;
                READLINK nfs3::readlink: Args => Reply<'_>;
                READ nfs3::read: Args => Reply;
                WRITE nfs3::write: Args => Reply;
                CREATE nfs3::create: Args<'_> => Reply;
                MKDIR nfs3::mkdir: Args<'_> => Reply;
                SYMLINK nfs3::symlink: Args<'_> => Reply;
                MKNOD nfs3::mknod: Args<'_> => Reply;
                REMOVE nfs3::remove: Args<'_> => Reply;
                RMDIR nfs3::rmdir: Args<'_> => Reply;
                RENAME nfs3::rename: Args<'_> => Reply;
                LINK nfs3::link: Args<'_> => Reply;
                READDIR nfs3::readdir: Args => Listing<'_>;
                READDIRPLUS nfs3::readdirplus: Args => Listing<'_>;
                FSSTAT nfs3::fsstat: Args => Reply;
                FSINFO nfs3::fsinfo: Args => Reply;
                PATHCONF nfs3::pathconf: Args => Reply;
                COMMIT nfs3::commit: Args => Reply;
            }
            mount::PROGRAM, mount::VERSION_1 {
                NULL rpc::null: Args => Reply;
                MNT mount::mnt: Args<'_> => OldReply;
                DUMP mount::dump: Args => Reply<'_>;
                UMNT mount::umnt: Args<'_> => Reply;
                UMNTALL mount::umntall: Args => Reply;
                EXPORT mount::export: Args => Reply<'_>;
                EXPORTALL mount::exportall: Args => Reply<'_>;
            }
            mount::PROGRAM, mount::VERSION_2 {
                NULL rpc::null: Args => Reply;
                MNT mount::mnt: Args<'_> => OldReply;
                DUMP mount::dump: Args => Reply<'_>;
                UMNT mount::umnt: Args<'_> => Reply;
                UMNTALL mount::umntall: Args => Reply;
                EXPORT mount::export: Args => Reply<'_>;
                EXPORTALL mount::exportall: Args => Reply<'_>;
                PATHCONF mount::pathconf: Args<'_> => Reply;
            }
            mount::PROGRAM, mount::VERSION_3 {
                NULL rpc::null: Args => Reply;
                MNT mount::mnt: Args<'_> => Reply;
                DUMP mount::dump: Args => Reply<'_>;
                UMNT mount::umnt: Args<'_> => Reply;
                UMNTALL mount::umntall: Args => Reply;
                EXPORT mount::export: Args => Reply<'_>;
            }
            nqnfs::PROGRAM, nqnfs::VERSION {
                NULL rpc::null: Args => Reply;
                GETATTR nqnfs::getattr: Args => Reply;
                SETATTR nqnfs::setattr: Args => Reply;
                LOOKUP nqnfs::lookup: Args<'_> => Reply;
                ACCESS nqnfs::access: Args => Reply;
                READLINK nqnfs::readlink: Args => Reply<'_>;
                READ nqnfs::read: Args => Reply;
                WRITE nqnfs::write: Args => Reply;
                CREATE nqnfs::create: Args<'_> => Reply;
                MKDIR nqnfs::mkdir: Args<'_> => Reply;
                SYMLINK nqnfs::symlink: Args<'_> => Reply;
                MKNOD nqnfs::mknod: Args<'_> => Reply;
                REMOVE nqnfs::remove: Args<'_> => Reply;
                RMDIR nqnfs::rmdir: Args<'_> => Reply;
                RENAME nqnfs::rename: Args<'_> => Reply;
                LINK nqnfs::link: Args<'_> => Reply;
                READDIR nqnfs::readdir: Args => Listing<'_>;
                READDIRPLUS nqnfs::readdirplus: Args => Listing<'_>;
                FSSTAT nqnfs::fsstat: Args => Reply;
                FSINFO nqnfs::fsinfo: Args => Reply;
                PATHCONF nqnfs::pathconf: Args => Reply;
                COMMIT nqnfs::commit: Args => Reply;
                GETLEASE nqnfs::getlease: Args => Reply;
                VACATED nqnfs::vacated: Args => Reply;
                EVICTED nqnfs::evicted: Args => Reply;
            }
            lease::PROGRAM, lease::VERSION {
                NULL rpc::null: Args => Reply;
                GETATTR lease::getattr: Args => Reply;
                SETATTR lease::setattr: Args => Reply;
                LOOKUP lease::lookup: Args<'_> => Reply;
                ACCESS lease::access: Args => Reply;
                READLINK lease::readlink: Args => Reply<'_>;
                READ lease::read: Args => Reply;
                WRITE lease::write: Args => Reply;
                CREATE lease::create: Args<'_> => Reply;
                MKDIR lease::mkdir: Args<'_> => Reply;
                SYMLINK lease::symlink: Args<'_> => Reply;
                MKNOD lease::mknod: Args<'_> => Reply;
                REMOVE lease::remove: Args<'_> => Reply;
                RMDIR lease::rmdir: Args<'_> => Reply;
                RENAME lease::rename: Args<'_> => Reply;
                LINK lease::link: Args<'_> => Reply;
                READDIR lease::readdir: Args => Listing<'_>;
                READDIRPLUS lease::readdirplus: Args => Listing<'_>;
                FSSTAT lease::fsstat: Args => Reply;
                FSINFO lease::fsinfo: Args => Reply;
                PATHCONF lease::pathconf: Args => Reply;
                COMMIT lease::commit: Args => Reply;
                APPEND lease::append: Args => Reply;
                HELLO lease::hello: Args<'_> => Reply;
                LEASE lease::leases: Args => Reply;
                GOODBYE lease::goodbye: Args => Reply;
                LAYOUT lease::layout: Args => Reply;
                OBJECTS lease::objects: Args => Reply;
            }
            callback::PROGRAM, callback::VERSION {
                NULL rpc::null: Args => Reply;
                EVICT callback::evict: Args => Reply;
                REPORT callback::report: Args => Reply;
            }
            replica::PROGRAM, replica::VERSION {
                NULL rpc::null: Args => Reply;
                HELLO replica::hello: Args => Reply<'_>;
                FETCH replica::fetch: Args => Reply<'_>;
                SEARCH replica::search: Args<'_> => Reply<'_>;
                NAMED replica::named: Args<'_> => Reply;
                CLAIM replica::claim: Args<'_> => Reply;
                STANDS replica::stands: Args<'_> => Reply;
                CHANGE replica::change: Args<'_> => Reply;
                PLACE replica::place: Args<'_> => Reply;
                MOVE replica::r#move: Args => Reply;
                MOVING replica::moving: Args => Reply;
                ANNOUNCE replica::announce: Args<'_> => Reply;
                LIST replica::list: Args => Reply<'_>;
                EVICT replica::evict: Args => Reply;
                COVER replica::cover: Args => Reply;
                UNCOVER replica::uncover: Args => Reply;
                LOAD replica::load: Args => Reply;
                BEGIN replica::begin: Args => Reply;
                END replica::end: Args => Reply;
                YIELD replica::r#yield: Args<'_> => Reply;
                REPLACED replica::replaced: Args<'_> => Reply;
            }
            binding::PROGRAM, binding::VERSION {
                NULL rpc::null: Args => Reply;
                REGISTER binding::register: Args<'_> => Reply;
                WITHDRAW binding::withdraw: Args<'_> => Reply;
                LOOKUP binding::lookup: Args<'_> => Reply<'_>;
                LIST binding::list: Args => Reply<'_>;
            }
        }
    };
}

macro_rules! procedures {
    ($($program:path, $version:path {
        $($name:ident $($module:ident)::+:
            $args:ident $(<$args_life:lifetime>)? => $reply:ident $(<$reply_life:lifetime>)?;)*
    })*) => {
        &[$($(
            Procedure {
                program: $program,
                version: $version,
                number: $($module)::+::NUMBER,
                name: stringify!($name),
                args: recode!($($module)::+::$args $(<$args_life>)?),
                reply: recode!($($module)::+::$reply $(<$reply_life>)?),
                describe_args: describe!($($module)::+::$args $(<$args_life>)?),
                describe_reply: describe!($($module)::+::$reply $(<$reply_life>)?),
            },
        )*)*]
    };
}

/// Every procedure of every program.
pub const PROCEDURES: &[Procedure] = for_every_procedure!(procedures);

/// Decodes all bytes by a function, and returns the encoding of the value without its first word,
/// the number of an operation.
fn body_of<'a, T: Encode>(
    bytes: &'a Bytes,
    decode: impl FnOnce(&mut Reader<'a>) -> Result<T, Error>,
) -> Result<Bytes, Error> {
    let mut reader = Reader::new(bytes);
    let value = decode(&mut reader)?;
    reader.finish()?;
    Ok(encoded(&value).slice(4..))
}

/// Decodes all bytes by a function, and returns the value as text.
fn text_of<'a, T: core::fmt::Debug>(
    bytes: &'a Bytes,
    decode: impl FnOnce(&mut Reader<'a>) -> Result<T, Error>,
) -> Result<String, Error> {
    let mut reader = Reader::new(bytes);
    let value = decode(&mut reader)?;
    reader.finish()?;
    Ok(format!("{value:?}"))
}

/// Declares a row for each operation of a table of operations.
macro_rules! rows {
    ($program:expr, $version:expr, $($module:ident)::+, $operation:path; $($variant:ident)*) => {{
        use $operation as Operation;
        use $($module)::+::{Args, Results};
        &[$(
            Procedure {
                program: $program,
                version: $version,
                number: Operation::$variant as u32,
                name: Operation::$variant.name(),
                args: |b| body_of(b, |reader| Args::decode_of(Operation::$variant, reader)),
                reply: |b| body_of(b, |reader| Results::decode_of(Operation::$variant, reader)),
                describe_args: |b| {
                    text_of(b, |reader| Args::decode_of(Operation::$variant, reader))
                },
                describe_reply: |b| {
                    text_of(b, |reader| Results::decode_of(Operation::$variant, reader))
                },
            },
        )*]
    }};
}

macro_rules! operations {
    (untyped: $untyped:pat, $($variant:ident $module:ident:
        $args:ident $(<$args_life:lifetime>)? => $reply:ident $(<$reply_life:lifetime>)?;)*
    ) => {
        rows!(nfs4::PROGRAM, nfs4::VERSION, nfs4::compound, nfs4::Operation; $($variant)*)
    };
}

/// The operations of NFS version 4 with their arguments and results; the number is the number of
/// the operation.
pub const OPERATIONS: &[Procedure] = for_every_operation!(operations);

macro_rules! callbacks {
    (untyped: $untyped:pat, $($variant:ident $module:ident:
        $args:ident $(<$args_life:lifetime>)? => $reply:ident $(<$reply_life:lifetime>)?;)*
    ) => {
        rows!(
            nfs4::callback::PROGRAM, nfs4::callback::VERSION,
            nfs4::callback, nfs4::callback::Operation; $($variant)*
        )
    };
}

/// The callback operations of NFS version 4, like [`OPERATIONS`].
pub const CALLBACKS: &[Procedure] = for_every_callback!(callbacks);

/// Decodes a whole call of COMPOUND, and encodes the call again.
fn recode_compound(bytes: &Bytes) -> Result<Bytes, Error> {
    use nfs4::compound::{Args, CallWriter, Header, Operations};
    let mut reader = Reader::new(bytes);
    let header = Header::decode(&mut reader)?;
    let mut writer = CallWriter::new(Writer::new(), header.tag, header.minor_version);
    let mut operations = Operations::<Args<'_>>::new(reader, header.count);
    for args in &mut operations {
        writer.append(&args?);
    }
    operations.rest().finish()?;
    Ok(writer.finish().finish().into_bytes())
}

/// Decodes a whole reply of COMPOUND, and encodes the reply again.
fn recode_compound_reply(bytes: &Bytes) -> Result<Bytes, Error> {
    use nfs4::compound::{Operations, ReplyHeader, ReplyWriter, Results};
    let mut reader = Reader::new(bytes);
    let header = ReplyHeader::decode(&mut reader)?;
    let mut writer = ReplyWriter::new(Writer::new(), header.tag);
    let mut operations = Operations::<Results<'_>>::new(reader, header.count);
    for results in &mut operations {
        writer.append_results(&results?);
    }
    operations.rest().finish()?;
    Ok(writer.finish(header.status).finish().into_bytes())
}

/// Decodes attributes with their values, and encodes the values again.
fn recode_attributes(bytes: &Bytes) -> Result<Bytes, Error> {
    let attributes = decode_all::<nfs4::EncodedAttributes<'_>>(&mut Reader::new(bytes))?;
    let typed = nfs4::Attributes::typed();
    match nfs4::Attributes::decode(&attributes, &typed) {
        Ok(attributes) => Ok(encoded(&attributes.to_encoded().borrow())),
        Err(nfs4::AttributeError::BadXdr(error)) => Err(error),
        Err(nfs4::AttributeError::NotSupported(_)) => Err(Error::BadValue),
    }
}

/// The heads of calls and replies, the bodies of credentials, and the compounds and attributes of
/// version 4.
pub const HEADS: &[Recode] = &[
    |bytes| {
        rpc::Call::decode(&mut Reader::new(bytes))
            .map(|call| encoded(&call))
            .map_err(|_| Error::BadValue)
    },
    |bytes| rpc::Reply::decode(&mut Reader::new(bytes)).map(|reply| encoded(&reply)),
    recode!(rpc::AuthSys<'_>),
    recode!(nfs4::callback::Header<'_>),
    recode_compound,
    recode_compound_reply,
    recode_attributes,
];

/// Decodes the bytes as each known message, and as a stream of records.
///
/// # Panics
/// Panics if a decoded value does not survive encoding and decoding. Decoding never panics.
pub fn decode_every(bytes: &Bytes) {
    let procedures = [PROCEDURES, OPERATIONS, CALLBACKS].into_iter().flatten();
    for recode in procedures.flat_map(|p| [&p.args, &p.reply]).chain(HEADS) {
        if let Ok(written) = recode(bytes) {
            assert_eq!(
                recode(&written).as_ref(),
                Ok(&written),
                "a decoded message must encode to bytes that decode to the same message"
            );
        }
    }
    let (mut splitter, mut received) = (Splitter::default(), BytesMut::from(&bytes[..]));
    while let Ok(Next::Record(_)) = splitter.next(&mut received) {}
}

#[cfg(test)]
mod sample;
#[cfg(test)]
mod tests;
