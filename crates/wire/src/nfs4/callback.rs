//! The client's program for callbacks: CB_COMPOUND, procedure 1 (RFC 8881 20, RFC 7862 16).
//!
//! The client chooses the program number in CREATE_SESSION, and the server calls the program on a
//! connection that the client has opened.

use leasehold_base::limits::{NOTIFICATIONS_MAX, OPAQUE_V4_BYTES_MAX, REFERRING_CALLS_MAX};
use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};
use leasehold_base::xdr_struct;

use super::answers::{Answer, operations};
use super::{
    Bitmap, Completion, Delegation, DeviceId, EncodedAttributes, FileSystemId, Handle, IoMode,
    LayoutType, Number, Reply as ReplyOf, SequenceId, SessionId, SlotId, StateOwner, Stateid,
    Status, Tag, WriteResponse, compound,
};
use crate::list::Array;

/// The program's number that Linux chooses, the first of the numbers without owner (RFC 5531 8.5).
pub const PROGRAM: u32 = 0x4000_0000;

/// The program's version.
pub const VERSION: u32 = 1;

/// The number of the procedure CB_COMPOUND; procedure 0 is NULL.
#[doc(alias = "CB_COMPOUND")]
pub const COMPOUND: u32 = 1;

named! {
    /// The operations (RFC 8881 20, RFC 7862 16).
    #[doc(alias = "nfs_cb_opnum4")]
    Operation {
        /// Returns attributes of a delegated file.
        GetAttributes "CB_GETATTR" = 3,
        /// Recalls a delegation.
        Recall "CB_RECALL" = 4,
        /// Recalls layouts.
        LayoutRecall "CB_LAYOUTRECALL" = 5,
        /// Notifies the client of changes of a delegated directory.
        Notify "CB_NOTIFY" = 6,
        /// Grants a delegation.
        PushDelegation "CB_PUSH_DELEG" = 7,
        /// Recalls any delegations or layouts.
        RecallAny "CB_RECALL_ANY" = 8,
        /// Announces that delegations or layouts are available.
        ObjectAvailable "CB_RECALLABLE_OBJ_AVAIL" = 9,
        /// Reduces the slots of a session.
        RecallSlot "CB_RECALL_SLOT" = 10,
        /// Begins each compound.
        Sequence "CB_SEQUENCE" = 11,
        /// Ends wishes for delegations.
        WantsCancelled "CB_WANTS_CANCELLED" = 12,
        /// Announces that a lock may be available.
        NotifyLock "CB_NOTIFY_LOCK" = 13,
        /// Notifies the client of changes of devices.
        NotifyDevice "CB_NOTIFY_DEVICEID" = 14,
        /// Announces the end of a copy.
        Offload "CB_OFFLOAD" = 15,
    }
}

impl From<Operation> for Number {
    fn from(operation: Operation) -> Self {
        Self(operation as u32)
    }
}

/// Passes the table of callback operations to a macro.
macro_rules! for_every_callback {
    ($use:ident) => {
        $use! {
            untyped: Operation::Notify,
            GetAttributes getattr: Args => Reply<'a>;
            Recall recall: Args => Reply;
            LayoutRecall layoutrecall: Args => Reply;
            PushDelegation push_deleg: Args<'a> => Reply;
            RecallAny recall_any: Args => Reply;
            ObjectAvailable recallable_obj_avail: Args => Reply;
            RecallSlot recall_slot: Args => Reply;
            Sequence sequence: Args => Reply;
            WantsCancelled wants_cancelled: Args => Reply;
            NotifyLock notify_lock: Args<'a> => Reply;
            NotifyDevice notify_deviceid: Args<'a> => Reply;
            Offload offload: Args => Reply;
        }
    };
}

pub(crate) use for_every_callback;

for_every_callback!(operations);

xdr_struct! {
    /// The fields of a call before its operations.
    #[doc(alias = "CB_COMPOUND4args")]
    #[derive(Copy)]
    pub struct Header<'a> {
        /// The tag.
        pub tag: Tag<'a>,
        /// The minor version.
        pub minor_version: u32,
        /// Ignored in minor versions 1 and 2.
        pub identifier: u32,
        /// The number of operations, as the server states it: memory must not depend on it.
        pub count: u32,
    }
}

/// The encoder of a call of CB_COMPOUND. [`compound::ReplyWriter`] encodes replies.
#[derive(Debug)]
pub struct CallWriter(compound::CallWriter);

impl CallWriter {
    /// Starts the arguments behind the head of the call.
    #[must_use]
    pub fn new(mut writer: Writer, tag: Tag<'_>, minor_version: u32) -> Self {
        tag.encode(&mut writer);
        minor_version.encode(&mut writer);
        writer.u32(0);
        Self(compound::CallWriter::of_head(writer))
    }

    /// Appends an operation.
    pub fn append(&mut self, args: &Args<'_>) {
        self.0.append_any(args);
    }

    /// Returns the length of the message so far, in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if the call has no operations.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Completes the call.
    #[must_use]
    pub fn finish(self) -> Writer {
        self.0.finish()
    }
}

/// CB_GETATTR, operation 3: returns attributes of a file under a write delegation (RFC 8881 20.1).
pub mod getattr {
    use super::{Bitmap, EncodedAttributes, Handle, ReplyOf, xdr_struct};

    xdr_struct! {
        /// The file, and the requested attributes.
        #[doc(alias = "CB_GETATTR4args")]
        #[derive(Copy)]
        pub struct Args {
            /// The file.
            pub file: Handle,
            /// The requested attributes.
            pub requested: Bitmap,
        }
    }

    /// The attributes.
    #[doc(alias("CB_GETATTR4res", "CB_GETATTR4resok"))]
    pub type Reply<'a> = ReplyOf<EncodedAttributes<'a>>;
}

/// CB_RECALL, operation 4: recalls a delegation (RFC 8881 20.2).
pub mod recall {
    use super::{Completion, Handle, Stateid, xdr_struct};

    xdr_struct! {
        /// The delegation.
        #[doc(alias = "CB_RECALL4args")]
        #[derive(Copy)]
        pub struct Args {
            /// The delegation.
            pub stateid: Stateid,
            /// True if the client need not write data back, because the file becomes empty.
            pub truncate: bool,
            /// The object.
            pub object: Handle,
        }
    }

    /// The status.
    #[doc(alias = "CB_RECALL4res")]
    pub type Reply = Completion;
}

/// CB_LAYOUTRECALL, operation 5: recalls layouts (RFC 8881 20.3).
pub mod layoutrecall {
    use super::{Completion, FileSystemId, Handle, IoMode, LayoutType, Stateid, xdr_struct};

    xdr_struct! {
        /// The layouts.
        #[doc(alias = "CB_LAYOUTRECALL4args")]
        #[derive(Copy)]
        pub struct Args {
            /// The layout type.
            pub kind: LayoutType,
            /// The access.
            pub mode: IoMode,
            /// True if the client must not write data back under the layouts.
            pub changed: bool,
            /// The layouts.
            pub recalled: Recalled,
        }

        /// Layouts of a range of a file.
        #[doc(alias = "layoutrecall_file4")]
        #[derive(Copy)]
        pub struct Range {
            /// The file.
            pub file: Handle,
            /// The offset, in bytes.
            pub offset: u64,
            /// The length, in bytes.
            pub length: u64,
            /// The layout state.
            pub stateid: Stateid,
        }
    }

    unions! {
        /// Layouts.
        #[doc(alias("layoutrecall4", "layoutrecall_type4"))]
        #[derive(Copy)]
        Recalled {
            /// The layouts of a range of a file.
            #[doc(alias = "LAYOUTRECALL4_FILE")]
            File(Range) = 1,
            /// All layouts in a file system.
            #[doc(alias = "LAYOUTRECALL4_FSID")]
            FileSystem(FileSystemId) = 2,
            /// All layouts of the client.
            #[doc(alias = "LAYOUTRECALL4_ALL")]
            All = 3,
        }
    }

    /// The status.
    #[doc(alias = "CB_LAYOUTRECALL4res")]
    pub type Reply = Completion;
}

/// CB_PUSH_DELEG, operation 7: grants a delegation that the client wished (RFC 8881 20.5).
pub mod push_deleg {
    use super::{Completion, Delegation, Handle, xdr_struct};

    xdr_struct! {
        /// The delegation.
        #[doc(alias = "CB_PUSH_DELEG4args")]
        #[derive(Copy)]
        pub struct Args<'a> {
            /// The object.
            pub object: Handle,
            /// The delegation.
            pub delegation: Delegation<'a>,
        }
    }

    /// The status.
    #[doc(alias = "CB_PUSH_DELEG4res")]
    pub type Reply = Completion;
}

/// CB_RECALL_ANY, operation 8: recalls any delegations or layouts of some kinds (RFC 8881 20.6).
pub mod recall_any {
    use super::{Bitmap, Completion, xdr_struct};

    xdr_struct! {
        /// The number that the client may keep.
        #[doc(alias("CB_RECALL_ANY4args", "CB_RECALLABLE_OBJ_AVAIL4args"))]
        #[derive(Copy)]
        pub struct Args {
            /// The number of delegations and layouts that the client may keep.
            pub keep: u32,
            /// The kinds.
            pub kinds: Bitmap,
        }
    }

    /// The kind of read delegations.
    #[doc(alias = "RCA4_TYPE_MASK_RDATA_DLG")]
    pub const READ_DELEGATIONS: u32 = 0;

    /// The kind of write delegations.
    #[doc(alias = "RCA4_TYPE_MASK_WDATA_DLG")]
    pub const WRITE_DELEGATIONS: u32 = 1;

    /// The kind of delegations of directories.
    #[doc(alias = "RCA4_TYPE_MASK_DIR_DLG")]
    pub const DIRECTORY_DELEGATIONS: u32 = 2;

    /// The kind of layouts of type [`FILES`](super::LayoutType::FILES).
    #[doc(alias = "RCA4_TYPE_MASK_FILE_LAYOUT")]
    pub const FILE_LAYOUTS: u32 = 3;

    /// The kind of layouts of type [`FLEX_FILES`](super::LayoutType::FLEX_FILES) to read (RFC 8435
    /// 12).
    #[doc(alias = "RCA4_TYPE_MASK_FF_LAYOUT_READ")]
    pub const FLEX_FILE_READ_LAYOUTS: u32 = 16;

    /// The kind of layouts of type [`FLEX_FILES`](super::LayoutType::FLEX_FILES) to write.
    #[doc(alias = "RCA4_TYPE_MASK_FF_LAYOUT_RW")]
    pub const FLEX_FILE_WRITE_LAYOUTS: u32 = 17;

    /// The status.
    #[doc(alias = "CB_RECALL_ANY4res")]
    pub type Reply = Completion;
}

/// CB_RECALLABLE_OBJ_AVAIL, operation 9: announces that delegations or layouts are available (RFC
/// 8881 20.7).
pub mod recallable_obj_avail {
    /// The number that the client may request, and the kinds.
    pub type Args = super::recall_any::Args;

    /// The status.
    #[doc(alias = "CB_RECALLABLE_OBJ_AVAIL4res")]
    pub type Reply = super::Completion;
}

/// CB_RECALL_SLOT, operation 10: reduces the slots of the session (RFC 8881 20.8).
pub mod recall_slot {
    /// The highest slot that the client should use.
    #[doc(alias = "CB_RECALL_SLOT4args")]
    pub type Args = super::SlotId;

    /// The status.
    #[doc(alias = "CB_RECALL_SLOT4res")]
    pub type Reply = super::Completion;
}

/// CB_SEQUENCE, operation 11: begins each compound (RFC 8881 20.9).
pub mod sequence {
    use super::{Array, REFERRING_CALLS_MAX, ReplyOf, SequenceId, SessionId, SlotId, xdr_struct};

    xdr_struct! {
        /// The callback's place in the session.
        #[doc(alias = "CB_SEQUENCE4args")]
        pub struct Args {
            /// The session.
            pub session: SessionId,
            /// The number of the callback in its slot.
            pub sequence: SequenceId,
            /// The slot.
            pub slot: SlotId,
            /// The highest slot in use.
            pub highest_slot: SlotId,
            /// True if the client must cache the whole reply.
            pub cache: bool,
            /// The calls whose replies the client must have before it handles the callback.
            pub referring: Array<ReferringCalls, REFERRING_CALLS_MAX>,
        }

        /// Calls of a session.
        #[doc(alias = "referring_call_list4")]
        pub struct ReferringCalls {
            /// The session.
            pub session: SessionId,
            /// The calls.
            pub calls: Array<ReferringCall, REFERRING_CALLS_MAX>,
        }

        /// A call.
        #[doc(alias = "referring_call4")]
        #[derive(Copy)]
        pub struct ReferringCall {
            /// The number of the call in its slot.
            pub sequence: SequenceId,
            /// The slot.
            pub slot: SlotId,
        }

        /// The state of the session.
        #[doc(alias = "CB_SEQUENCE4resok")]
        #[derive(Copy)]
        pub struct Done {
            /// The session.
            pub session: SessionId,
            /// The number of the callback in its slot.
            pub sequence: SequenceId,
            /// The slot.
            pub slot: SlotId,
            /// The highest slot that the client accepts.
            pub highest_slot: SlotId,
            /// The highest slot that the server should use.
            pub target_highest_slot: SlotId,
        }
    }

    /// The results.
    #[doc(alias = "CB_SEQUENCE4res")]
    pub type Reply = ReplyOf<Done>;
}

/// CB_WANTS_CANCELLED, operation 12: ends wishes for delegations (RFC 8881 20.10).
pub mod wants_cancelled {
    use super::{Completion, xdr_struct};

    xdr_struct! {
        /// The wishes.
        #[doc(alias = "CB_WANTS_CANCELLED4args")]
        #[derive(Copy)]
        pub struct Args {
            /// True for wishes that wait for other clients.
            pub contended: bool,
            /// True for wishes that wait for resources.
            pub resourced: bool,
        }
    }

    /// The status.
    #[doc(alias = "CB_WANTS_CANCELLED4res")]
    pub type Reply = Completion;
}

/// CB_NOTIFY_LOCK, operation 13: announces that a lock may be available (RFC 8881 20.11).
pub mod notify_lock {
    use super::{Completion, Handle, StateOwner, xdr_struct};

    xdr_struct! {
        /// The lock.
        #[doc(alias = "CB_NOTIFY_LOCK4args")]
        #[derive(Copy)]
        pub struct Args<'a> {
            /// The file.
            pub file: Handle,
            /// The owner that requested the lock.
            pub owner: StateOwner<'a>,
        }
    }

    /// The status.
    #[doc(alias = "CB_NOTIFY_LOCK4res")]
    pub type Reply = Completion;
}

/// CB_NOTIFY_DEVICEID, operation 14: notifies the client of changes of devices (RFC 8881 20.12).
pub mod notify_deviceid {
    use super::{
        Array, Bitmap, Completion, DeviceId, LayoutType, NOTIFICATIONS_MAX, OPAQUE_V4_BYTES_MAX,
        xdr_struct,
    };

    /// The changes.
    #[doc(alias = "CB_NOTIFY_DEVICEID4args")]
    pub type Args<'a> = Array<Notification<'a>, NOTIFICATIONS_MAX>;

    opaques! {
        /// The encoded changes: a [`Changed`] or [`Deleted`] for each number of the mask.
        #[doc(alias = "notifylist4")]
        Values <= OPAQUE_V4_BYTES_MAX;
    }

    xdr_struct! {
        /// Changes.
        #[doc(alias = "notify4")]
        #[derive(Copy)]
        pub struct Notification<'a> {
            /// The kinds of changes: [`CHANGED`] and [`DELETED`].
            pub mask: Bitmap,
            /// The changes.
            pub values: Values<'a>,
        }

        /// The address of a device has changed.
        #[doc(alias = "notify_deviceid_change4")]
        #[derive(Copy)]
        pub struct Changed {
            /// The layout type.
            pub kind: LayoutType,
            /// The device.
            pub device: DeviceId,
            /// True if the old address is invalid already.
            pub immediate: bool,
        }

        /// A device is gone.
        #[doc(alias = "notify_deviceid_delete4")]
        #[derive(Copy)]
        pub struct Deleted {
            /// The layout type.
            pub kind: LayoutType,
            /// The device.
            pub device: DeviceId,
        }
    }

    /// The number of [`Changed`] in the mask.
    #[doc(alias = "NOTIFY_DEVICEID4_CHANGE")]
    pub const CHANGED: u32 = 1;

    /// The number of [`Deleted`] in the mask.
    #[doc(alias = "NOTIFY_DEVICEID4_DELETE")]
    pub const DELETED: u32 = 2;

    /// The status.
    #[doc(alias = "CB_NOTIFY_DEVICEID4res")]
    pub type Reply = Completion;
}

/// CB_OFFLOAD, operation 15: announces the end of a copy (RFC 7862 16.1).
pub mod offload {
    use super::{
        Completion, Decode, Encode, Error, Handle, Reader, Stateid, Status, WriteResponse, Writer,
        xdr_struct,
    };

    xdr_struct! {
        /// The copy.
        #[doc(alias = "CB_OFFLOAD4args")]
        #[derive(Copy)]
        pub struct Args {
            /// The file.
            pub file: Handle,
            /// The copy.
            pub stateid: Stateid,
            /// The result.
            pub result: Copied,
        }
    }

    /// The result of a copy.
    #[doc(alias = "offload_info4")]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Copied {
        /// The copy is complete.
        Done(WriteResponse),
        /// The copy failed after this number of bytes.
        Failed(Status, u64),
    }

    impl<'a> Decode<'a> for Copied {
        fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
            Ok(match Completion::decode(reader)? {
                Completion::Done(()) => Self::Done(Decode::decode(reader)?),
                Completion::Failed(status) => Self::Failed(status, reader.u64()?),
            })
        }
    }

    impl Encode for Copied {
        fn encode(&self, writer: &mut Writer) {
            match self {
                Self::Done(response) => {
                    Completion::Done(()).encode(writer);
                    response.encode(writer);
                }
                Self::Failed(status, bytes) => {
                    status.encode(writer);
                    bytes.encode(writer);
                }
            }
        }
    }

    /// The status.
    #[doc(alias = "CB_OFFLOAD4res")]
    pub type Reply = Completion;
}
