//! SEQUENCE, operation 53: begins each compound of a session (RFC 8881 18.46).

use leasehold_base::xdr_struct;

use super::{SequenceId, SessionId, SlotId};

bits! {
    /// Events that the client must handle.
    StatusFlags {
        /// The server has no connection for callbacks to the client.
        #[doc(alias = "SEQ4_STATUS_CB_PATH_DOWN")]
        CALLBACK_PATH_DOWN = 0x1,
        /// The contexts of callbacks expire soon.
        #[doc(alias = "SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRING")]
        CALLBACK_CONTEXTS_EXPIRING = 0x2,
        /// The contexts of callbacks have expired.
        #[doc(alias = "SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRED")]
        CALLBACK_CONTEXTS_EXPIRED = 0x4,
        /// The lease expired, and the server revoked all state.
        #[doc(alias = "SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED")]
        ALL_STATE_REVOKED = 0x8,
        /// The lease expired, and the server revoked some state.
        #[doc(alias = "SEQ4_STATUS_EXPIRED_SOME_STATE_REVOKED")]
        SOME_STATE_REVOKED = 0x10,
        /// An administrator revoked state.
        #[doc(alias = "SEQ4_STATUS_ADMIN_STATE_REVOKED")]
        ADMIN_STATE_REVOKED = 0x20,
        /// The server revoked delegations or layouts.
        #[doc(alias = "SEQ4_STATUS_RECALLABLE_STATE_REVOKED")]
        RECALLABLE_STATE_REVOKED = 0x40,
        /// The responsibility for a lease has moved to another server.
        #[doc(alias = "SEQ4_STATUS_LEASE_MOVED")]
        LEASE_MOVED = 0x80,
        /// The server has restarted, and the client must reclaim its state.
        #[doc(alias = "SEQ4_STATUS_RESTART_RECLAIM_NEEDED")]
        RECLAIM_NEEDED = 0x100,
        /// The session has no connection for callbacks.
        #[doc(alias = "SEQ4_STATUS_CB_PATH_DOWN_SESSION")]
        SESSION_CALLBACK_PATH_DOWN = 0x200,
        /// The server met an error in the callbacks of the session.
        #[doc(alias = "SEQ4_STATUS_BACKCHANNEL_FAULT")]
        BACK_CHANNEL_FAULT = 0x400,
        /// A device of layouts has changed.
        #[doc(alias = "SEQ4_STATUS_DEVID_CHANGED")]
        DEVICE_CHANGED = 0x800,
        /// A device of layouts is gone.
        #[doc(alias = "SEQ4_STATUS_DEVID_DELETED")]
        DEVICE_DELETED = 0x1000,
    }
}

xdr_struct! {
    /// The request's place in the session.
    #[doc(alias = "SEQUENCE4args")]
    #[derive(Copy)]
    pub struct Args {
        /// The session.
        pub session: SessionId,
        /// The number of the request in its slot.
        pub sequence: SequenceId,
        /// The slot.
        pub slot: SlotId,
        /// The highest slot in use.
        pub highest_slot: SlotId,
        /// True if the server must cache the whole reply.
        pub cache: bool,
    }

    /// The state of the session.
    #[doc(alias = "SEQUENCE4resok")]
    #[derive(Copy)]
    pub struct Done {
        /// The session.
        pub session: SessionId,
        /// The number of the request in its slot.
        pub sequence: SequenceId,
        /// The slot.
        pub slot: SlotId,
        /// The highest slot that the server accepts.
        pub highest_slot: SlotId,
        /// The highest slot that the client should use.
        pub target_highest_slot: SlotId,
        /// The events.
        pub status: StatusFlags,
    }
}

/// The results.
#[doc(alias = "SEQUENCE4res")]
pub type Reply = super::Reply<Done>;
