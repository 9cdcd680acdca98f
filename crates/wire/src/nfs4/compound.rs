//! COMPOUND, procedure 1: runs operations in order until one fails (RFC 8881 16.2).
//!
//! A server decodes the [`Header`], then a [`Number`] and the arguments of each operation in turn,
//! and appends each result to a [`ReplyWriter`]. A client encodes a call with a [`CallWriter`], and
//! decodes a [`ReplyHeader`] and then its [`Results`]. [`Operations`] iterates over either.

use core::marker::PhantomData;

use leasehold_base::xdr::{Decode, Encode, Error, Hole, Mark, Reader, Writer};
use leasehold_base::xdr_struct;

use super::answers::{Answer, operations};
use super::{
    Bitmap, Completion, Number, Operation, Status, Tag, access, allocate, backchannel_ctl,
    bind_conn_to_session, clone, close, commit, copy, copy_notify, create, create_session,
    deallocate, delegpurge, delegreturn, destroy_clientid, destroy_session, exchange_id,
    free_stateid, get_dir_delegation, getattr, getdeviceinfo, getdevicelist, getfh, getxattr,
    io_advise, layoutcommit, layouterror, layoutget, layoutreturn, layoutstats, link, listxattrs,
    lock, lockt, locku, lookup, lookupp, nverify, offload_cancel, offload_status, open,
    open_downgrade, openattr, putfh, putpubfh, putrootfh, read, read_plus, readdir, readlink,
    reclaim_complete, remove, removexattr, rename, restorefh, savefh, secinfo, secinfo_no_name,
    seek, sequence, set_ssv, setattr, setxattr, test_stateid, verify, want_delegation, write,
    write_same,
};

/// Passes the table of operations to a macro.
macro_rules! for_every_operation {
    ($use:ident) => {
        $use! {
            untyped: Operation::OpenConfirm
                | Operation::Renew
                | Operation::SetClientId
                | Operation::SetClientIdConfirm
                | Operation::ReleaseLockOwner,
            Access access: Args => Reply;
            Close close: Args => Reply;
            Commit commit: Args => Reply;
            Create create: Args<'a> => Reply;
            DelegationPurge delegpurge: Args => Reply;
            DelegationReturn delegreturn: Args => Reply;
            GetAttributes getattr: Args => Reply<'a>;
            GetHandle getfh: Args => Reply;
            Link link: Args<'a> => Reply;
            Lock lock: Args<'a> => Reply<'a>;
            LockTest lockt: Args<'a> => Reply<'a>;
            Unlock locku: Args => Reply;
            Lookup lookup: Args<'a> => Reply;
            LookupParent lookupp: Args => Reply;
            NotVerify nverify: Args<'a> => Reply;
            Open open: Args<'a> => Reply<'a>;
            OpenAttributes openattr: Args => Reply;
            OpenDowngrade open_downgrade: Args => Reply;
            PutHandle putfh: Args => Reply;
            PutPublicHandle putpubfh: Args => Reply;
            PutRootHandle putrootfh: Args => Reply;
            Read read: Args => Reply;
            ReadDirectory readdir: Args => Reply<'a>;
            ReadLink readlink: Args => Reply<'a>;
            Remove remove: Args<'a> => Reply;
            Rename rename: Args<'a> => Reply;
            RestoreHandle restorefh: Args => Reply;
            SaveHandle savefh: Args => Reply;
            SecurityInfo secinfo: Args<'a> => Reply<'a>;
            SetAttributes setattr: Args<'a> => Reply;
            Verify verify: Args<'a> => Reply;
            Write write: Args => Reply;
            BackChannelControl backchannel_ctl: Args<'a> => Reply;
            BindConnection bind_conn_to_session: Args => Reply;
            ExchangeId exchange_id: Args<'a> => Reply<'a>;
            CreateSession create_session: Args<'a> => Reply;
            DestroySession destroy_session: Args => Reply;
            FreeStateid free_stateid: Args => Reply;
            GetDirectoryDelegation get_dir_delegation: Args => Reply;
            GetDeviceInfo getdeviceinfo: Args => Reply<'a>;
            GetDeviceList getdevicelist: Args => Reply;
            LayoutCommit layoutcommit: Args<'a> => Reply;
            LayoutGet layoutget: Args => Reply<'a>;
            LayoutReturn layoutreturn: Args<'a> => Reply;
            SecurityInfoNoName secinfo_no_name: Args => Reply<'a>;
            Sequence sequence: Args => Reply;
            SetSsv set_ssv: Args<'a> => Reply<'a>;
            TestStateid test_stateid: Args => Reply;
            WantDelegation want_delegation: Args => Reply<'a>;
            DestroyClientId destroy_clientid: Args => Reply;
            ReclaimComplete reclaim_complete: Args => Reply;
            Allocate allocate: Args => Reply;
            Copy copy: Args<'a> => Reply;
            CopyNotify copy_notify: Args<'a> => Reply<'a>;
            Deallocate deallocate: Args => Reply;
            IoAdvise io_advise: Args => Reply;
            LayoutError layouterror: Args => Reply;
            LayoutStats layoutstats: Args<'a> => Reply;
            OffloadCancel offload_cancel: Args => Reply;
            OffloadStatus offload_status: Args => Reply;
            ReadPlus read_plus: Args => Reply;
            Seek seek: Args => Reply;
            WriteSame write_same: Args<'a> => Reply;
            Clone clone: Args => Reply;
            GetXattr getxattr: Args<'a> => Reply<'a>;
            SetXattr setxattr: Args<'a> => Reply;
            ListXattrs listxattrs: Args => Reply<'a>;
            RemoveXattr removexattr: Args<'a> => Reply;
        }
    };
}

pub(crate) use for_every_operation;

for_every_operation!(operations);

xdr_struct! {
    /// The fields of a call before its operations.
    #[doc(alias = "COMPOUND4args")]
    #[derive(Copy)]
    pub struct Header<'a> {
        /// The tag.
        pub tag: Tag<'a>,
        /// The minor version.
        pub minor_version: u32,
        /// The number of operations, as the client states it: memory must not depend on it.
        pub count: u32,
    }

    /// The fields of a reply before its results.
    #[doc(alias("COMPOUND4res", "CB_COMPOUND4res"))]
    pub struct ReplyHeader<'a> {
        /// The status of the last result.
        pub status: Completion,
        /// The tag of the call.
        pub tag: Tag<'a>,
        /// The number of results, as the server states it: memory must not depend on it.
        pub count: u32,
    }
}

/// The operations or results of a compound; the iterator ends after an error.
#[derive(Clone, Debug)]
pub struct Operations<'a, T> {
    reader: Reader<'a>,
    left: u32,
    item: PhantomData<T>,
}

impl<'a, T> Operations<'a, T> {
    /// Returns an iterator over `count` items, as a header states it.
    #[must_use]
    pub const fn new(reader: Reader<'a>, count: u32) -> Self {
        Self { reader, left: count, item: PhantomData }
    }

    /// Returns the position after the last item.
    #[must_use]
    pub const fn rest(&self) -> &Reader<'a> {
        &self.reader
    }
}

impl<'a, T: Decode<'a>> Iterator for Operations<'a, T> {
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let item = T::decode(&mut self.reader);
        if item.is_err() {
            self.left = 0;
        }
        Some(item)
    }
}

/// The encoder of a call.
#[derive(Debug)]
pub struct CallWriter {
    writer: Writer,
    count: u32,
    hole: Hole,
}

impl CallWriter {
    /// Starts the arguments of COMPOUND behind the head of the call.
    #[must_use]
    pub fn new(mut writer: Writer, tag: Tag<'_>, minor_version: u32) -> Self {
        tag.encode(&mut writer);
        minor_version.encode(&mut writer);
        Self::of_head(writer)
    }

    /// Starts the operations behind the fields before their count.
    pub(super) fn of_head(mut writer: Writer) -> Self {
        let hole = writer.hole();
        Self { writer, count: 0, hole }
    }

    /// Appends an operation.
    pub fn append(&mut self, args: &Args<'_>) {
        self.append_any(args);
    }

    /// Appends an operation as its number and its arguments, of which the number need not be known.
    pub fn append_raw(&mut self, number: Number, args: &impl Encode) {
        number.encode(&mut self.writer);
        self.append_any(args);
    }

    pub(super) fn append_any(&mut self, args: &impl Encode) {
        self.count += 1;
        args.encode(&mut self.writer);
    }

    /// Returns the length of the message so far, in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.writer.len()
    }

    /// Returns true if the call has no operations.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Completes the call.
    #[must_use]
    pub fn finish(mut self) -> Writer {
        self.writer.fill(&self.hole, self.count);
        self.writer
    }
}

/// The encoder of a reply.
#[derive(Debug)]
pub struct ReplyWriter {
    writer: Writer,
    status: Hole,
    hole: Hole,
    count: u32,
}

/// A position between two results of a [`ReplyWriter`].
#[derive(Debug)]
pub struct ReplyMark {
    mark: Mark,
    count: u32,
}

impl ReplyWriter {
    /// Starts the results of COMPOUND or CB_COMPOUND behind the head of the reply.
    #[must_use]
    pub fn new(mut writer: Writer, tag: Tag<'_>) -> Self {
        let status = writer.hole();
        tag.encode(&mut writer);
        let hole = writer.hole();
        Self { writer, status, hole, count: 0 }
    }

    /// Returns the length of the message so far, in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.writer.len()
    }

    /// Returns true if the reply has no results.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the number of results.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Returns the position before the next result.
    #[must_use]
    pub const fn mark(&self) -> ReplyMark {
        ReplyMark { mark: self.writer.mark(), count: self.count }
    }

    /// Removes the results after the mark.
    pub fn rewind(&mut self, mark: &ReplyMark) {
        self.writer.rewind(&mark.mark);
        self.count = mark.count;
    }

    /// Appends the number of an operation, and returns the encoder for the `Reply` of its module.
    pub fn begin(&mut self, number: impl Into<Number>) -> &mut Writer {
        self.count += 1;
        number.into().encode(&mut self.writer);
        &mut self.writer
    }

    /// Appends the result of an operation: the `Reply` of its module or a value with the same
    /// encoding.
    pub fn append(&mut self, number: impl Into<Number>, reply: &impl Encode) {
        reply.encode(self.begin(number));
    }

    /// Appends the result of an operation behind its number.
    pub fn append_results(&mut self, results: &Results<'_>) {
        self.count += 1;
        results.encode(&mut self.writer);
    }

    /// Appends the result of a failed operation: the status, and for those operations that have
    /// more fields in a failure, fields without information.
    pub fn append_failure(&mut self, number: impl Into<Number>, status: Status) {
        let number = number.into();
        let writer = self.begin(number);
        status.encode(writer);
        match (number.operation(), status) {
            (Some(Operation::SetAttributes), _) => Bitmap::EMPTY.encode(writer),
            (Some(Operation::Lock | Operation::LockTest), Status::Denied) => {
                UNKNOWN_LOCK.encode(writer);
            }
            (Some(Operation::LayoutGet), Status::LayoutTryLater) => false.encode(writer),
            (Some(Operation::GetDeviceInfo), Status::TooSmall) => 0_u32.encode(writer),
            (Some(Operation::Copy), Status::OffloadRequirements) => {
                super::Requirements { consecutive: true, synchronous: true }.encode(writer);
            }
            _ => {}
        }
    }

    /// Completes the reply with the status of the last result, or with the error of a compound
    /// without results.
    #[must_use]
    pub fn finish(mut self, status: Completion) -> Writer {
        let word = if let Completion::Failed(status) = status { status as u32 } else { 0 };
        self.writer.fill(&self.status, word);
        self.writer.fill(&self.hole, self.count);
        self.writer
    }
}

/// A lock of unknown owner and range, for a result that must describe a lock.
const UNKNOWN_LOCK: super::Denied<'static> = super::Denied {
    offset: 0,
    length: u64::MAX,
    kind: super::LockKind::Write,
    owner: super::StateOwner { client: super::ClientId(0), owner: super::Identifier(&[]) },
};
