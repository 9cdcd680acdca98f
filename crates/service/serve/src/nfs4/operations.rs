//! The operation table, with one row for every operation that the server supports.

use core::future::Future;
use core::pin::Pin;

use bytes::Bytes;
use leasehold_base::xdr::{Decode, Encode, Reader, Writer};
use leasehold_wire::nfs4::{
    self as wire, Bitmap, OK, Operation, Status, access, close, commit, create, create_session,
    exchange_id, free_stateid, getattr, getfh, link, lock, lockt, locku, lookup, nverify, open,
    open_downgrade, putfh, read, readdir, reclaim_complete, remove, rename, secinfo,
    secinfo_no_name, sequence, setattr, test_stateid, verify, write,
};

use super::compound::{self, Compound};
use super::{attribute_ops, data, handles, locks, names, objects, opens, ranges, sessions, xattrs};

/// The position of an operation in a compound (RFC 8881 2.10.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// SEQUENCE: the first operation.
    First,
    /// The only operation of a compound, or, except for BIND_CONN_TO_SESSION, an operation after
    /// SEQUENCE.
    Alone,
    /// An operation after SEQUENCE.
    InSession,
}

/// A running operation: encodes its result and returns the status of a failure.
pub(super) type Running<'c> = Pin<Box<dyn Future<Output = Option<Status>> + Send + 'c>>;

/// A function that decodes the arguments of an operation, runs it, and encodes its result.
pub(super) type Handler =
    for<'c, 'm> fn(&'c mut Compound, &'c mut Reader<'m>, &'c mut Writer) -> Running<'c>;

/// A row of the operation table.
pub(super) struct Row {
    /// The operation.
    pub(super) operation: Operation,
    pub(super) position: Position,
    pub(super) handler: Handler,
}

/// A failed operation: its status, and the results that some operations have on failure.
pub(super) enum Failed {
    /// The status alone.
    Plain(Status),
    /// LOCK or LOCKT: the conflicting lock.
    Denied(locks::Conflict),
    /// SETATTR: the attributes that have been set.
    Set(Status, Bitmap),
}

impl From<Status> for Failed {
    fn from(status: Status) -> Self {
        Self::Plain(status)
    }
}

impl Failed {
    const fn status(&self) -> Status {
        match self {
            Self::Plain(status) | Self::Set(status, _) => *status,
            Self::Denied(_) => Status::Denied,
        }
    }
}

impl Encode for Failed {
    fn encode(&self, writer: &mut Writer) {
        self.status().encode(writer);
        match self {
            Self::Plain(_) => {}
            Self::Denied(conflict) => conflict.encode(writer),
            Self::Set(_, set) => set.encode(writer),
        }
    }
}

/// The results of an operation as their bytes: the operation encodes them while it can still fail.
#[derive(PartialEq, Eq)]
pub(super) struct Encoded(Bytes);

impl Encoded {
    pub(super) fn of(results: &impl Encode) -> Self {
        let mut writer = Writer::new();
        results.encode(&mut writer);
        Self::from(writer)
    }
}

impl From<Writer> for Encoded {
    fn from(writer: Writer) -> Self {
        Self(writer.finish().into_bytes())
    }
}

impl Encode for Encoded {
    fn encode(&self, writer: &mut Writer) {
        writer.raw(&self.0);
    }
}

/// An operation: its arguments, its results and its function.
pub(super) trait Run: 'static {
    type Args<'a>: Decode<'a> + Send;
    type Done: Encode + Send;
    /// The result if the arguments cannot be decoded.
    const GARBAGE: Failed = Failed::Plain(Status::BadXdr);

    fn run(
        compound: &mut Compound,
        args: Self::Args<'_>,
    ) -> impl Future<Output = Result<Self::Done, Failed>> + Send;
}

fn handler<'c, R: Run>(
    compound: &'c mut Compound,
    reader: &'c mut Reader<'_>,
    writer: &'c mut Writer,
) -> Running<'c> {
    Box::pin(async move {
        let result = match R::Args::decode(reader) {
            Ok(args) => R::run(compound, args).await,
            Err(_) => Err(R::GARBAGE),
        };
        match result {
            Ok(done) => {
                OK.encode(writer);
                done.encode(writer);
                None
            }
            Err(failed) => {
                failed.encode(writer);
                Some(failed.status())
            }
        }
    })
}

/// Defines the row of an operation from its position, name, function, arguments and result.
macro_rules! row {
    ($position:ident, $operation:ident, $run:path, $args:ty => $done:ty) => {{
        struct This;

        impl Run for This {
            type Args<'a> = $args;
            type Done = $done;
            const GARBAGE: Failed = garbage(Operation::$operation);

            async fn run(
                compound: &mut Compound,
                args: Self::Args<'_>,
            ) -> Result<Self::Done, Failed> {
                $run(compound, args).await.map_err(Failed::from)
            }
        }

        Row {
            operation: Operation::$operation,
            position: Position::$position,
            handler: handler::<This>,
        }
    }};
}

const fn garbage(operation: Operation) -> Failed {
    if matches!(operation, Operation::SetAttributes) {
        Failed::Set(Status::BadXdr, Bitmap::EMPTY)
    } else {
        Failed::Plain(Status::BadXdr)
    }
}

/// The supported operations.
pub(super) const ROWS: &[Row] = &[
    row!(InSession, Access, objects::access, access::Args => access::Done),
    row!(InSession, Close, opens::close, close::Args => wire::Stateid),
    row!(InSession, Commit, data::commit, commit::Args => wire::WriteVerifier),
    row!(InSession, Create, names::create, create::Args<'a> => create::Done),
    row!(InSession, GetAttributes, attribute_ops::getattr, getattr::Args => Encoded),
    row!(InSession, GetHandle, handles::getfh, getfh::Args => wire::Handle),
    row!(InSession, Link, names::link, link::Args<'a> => wire::ChangeInfo),
    row!(InSession, Lock, locks::lock, lock::Args<'a> => wire::Stateid),
    row!(InSession, LockTest, locks::lockt, lockt::Args<'a> => ()),
    row!(InSession, Unlock, locks::locku, locku::Args => wire::Stateid),
    row!(InSession, Lookup, handles::lookup, lookup::Args<'a> => ()),
    row!(InSession, LookupParent, handles::lookupp, () => ()),
    row!(InSession, NotVerify, attribute_ops::nverify, nverify::Args<'a> => ()),
    row!(InSession, Open, opens::open, open::Args<'a> => open::Done<'static>),
    row!(InSession, OpenDowngrade, opens::downgrade, open_downgrade::Args => wire::Stateid),
    row!(InSession, PutHandle, handles::putfh, putfh::Args => ()),
    row!(InSession, PutPublicHandle, handles::putrootfh, () => ()),
    row!(InSession, PutRootHandle, handles::putrootfh, () => ()),
    row!(InSession, Read, data::read, read::Args => read::Done),
    row!(InSession, ReadDirectory, objects::readdir, readdir::Args => Encoded),
    row!(InSession, ReadLink, objects::readlink, () => objects::Target),
    row!(InSession, Remove, names::remove, remove::Args<'a> => wire::ChangeInfo),
    row!(InSession, Rename, names::rename, rename::Args<'a> => rename::Done),
    row!(InSession, RestoreHandle, handles::restorefh, () => ()),
    row!(InSession, SaveHandle, handles::savefh, () => ()),
    row!(InSession, SecurityInfo, handles::secinfo, secinfo::Args<'a> => handles::Flavors),
    row!(InSession, SetAttributes, attribute_ops::setattr, setattr::Args<'a> => Bitmap),
    row!(InSession, Verify, attribute_ops::verify, verify::Args<'a> => ()),
    row!(InSession, Write, data::write, write::Args => write::Done),
    row!(InSession, BackChannelControl, sessions::backchannel_ctl, wire::backchannel_ctl::Args<'a> => ()),
    row!(Alone, BindConnection, sessions::bind_conn_to_session, wire::bind_conn_to_session::Args => wire::bind_conn_to_session::Done),
    row!(Alone, ExchangeId, sessions::exchange_id, exchange_id::Args<'a> => sessions::Server),
    row!(Alone, CreateSession, sessions::create_session, create_session::Args<'a> => create_session::Done),
    row!(Alone, DestroySession, sessions::destroy_session, wire::destroy_session::Args => ()),
    row!(InSession, FreeStateid, opens::free_stateid, free_stateid::Args => ()),
    row!(InSession, SecurityInfoNoName, handles::secinfo_no_name, secinfo_no_name::Args => handles::Flavors),
    row!(First, Sequence, compound::sequence, sequence::Args => sequence::Done),
    row!(InSession, TestStateid, opens::test_stateid, test_stateid::Args => opens::Tested),
    row!(Alone, DestroyClientId, sessions::destroy_clientid, wire::destroy_clientid::Args => ()),
    row!(InSession, ReclaimComplete, sessions::reclaim_complete, reclaim_complete::Args => ()),
    row!(InSession, Allocate, ranges::allocate, wire::allocate::Args => ()),
    row!(InSession, Copy, ranges::copy, wire::copy::Args<'a> => wire::copy::Done),
    row!(InSession, Deallocate, ranges::deallocate, wire::deallocate::Args => ()),
    row!(InSession, IoAdvise, ranges::io_advise, wire::io_advise::Args => Bitmap),
    row!(InSession, ReadPlus, ranges::read_plus, wire::read_plus::Args => wire::read_plus::Done),
    row!(InSession, Seek, ranges::seek, wire::seek::Args => wire::seek::Done),
    row!(InSession, Clone, ranges::clone, wire::clone::Args => ()),
    row!(InSession, GetXattr, xattrs::get, wire::getxattr::Args<'a> => xattrs::Value),
    row!(InSession, SetXattr, xattrs::set, wire::setxattr::Args<'a> => wire::ChangeInfo),
    row!(InSession, ListXattrs, xattrs::list, wire::listxattrs::Args => xattrs::Listed),
    row!(InSession, RemoveXattr, xattrs::remove, wire::removexattr::Args<'a> => wire::ChangeInfo),
];

/// Returns the row of an operation; None for an operation that the server does not support.
pub(super) fn row(operation: Operation) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.operation == operation)
}
