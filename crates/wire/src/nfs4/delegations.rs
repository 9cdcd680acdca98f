//! Delegations, and operations on them.

use leasehold_base::{xdr_enum, xdr_struct};

use super::{Ace, Bitmap, ClientId, Completion, CookieVerifier, Reply as ReplyOf, Stateid, Time};

xdr_enum! {
    /// The kinds of delegations (RFC 8881 18.16.1, RFC 9754).
    #[doc(alias = "open_delegation_type4")]
    pub enum DelegationKind {
        /// No delegation.
        None = 0,
        /// Others do not write.
        Read = 1,
        /// Others do not open the file.
        Write = 2,
        /// No delegation, with the reason.
        NoneBecause = 3,
        /// A read delegation that covers the times.
        ReadTimes = 4,
        /// A write delegation that covers the times.
        WriteTimes = 5,
    }
}

xdr_struct! {
    /// A read delegation.
    #[doc(alias = "open_read_delegation4")]
    #[derive(Copy)]
    pub struct ReadDelegation<'a> {
        /// The delegation.
        pub stateid: Stateid,
        /// True if the server recalls the delegation at once, after a reclaim.
        pub recalled: bool,
        /// The users that may open the file to read without a call.
        pub permissions: Ace<'a>,
    }

    /// A write delegation.
    #[doc(alias = "open_write_delegation4")]
    #[derive(Copy)]
    pub struct WriteDelegation<'a> {
        /// The delegation.
        pub stateid: Stateid,
        /// True if the server recalls the delegation at once, after a reclaim.
        pub recalled: bool,
        /// The size up to which the client may delay writes after a close.
        pub limit: SpaceLimit,
        /// The users that may open the file without a call.
        pub permissions: Ace<'a>,
    }

    /// A number of blocks.
    #[doc(alias = "nfs_modified_limit4")]
    #[derive(Copy)]
    pub struct WrittenBlocks {
        /// The number of blocks.
        pub count: u32,
        /// The size of a block, in bytes.
        pub bytes: u32,
    }
}

unions! {
    /// The limit of delayed writes.
    #[doc(alias("nfs_space_limit4", "limit_by4"))]
    #[derive(Copy)]
    SpaceLimit {
        /// The size of the file, in bytes.
        #[doc(alias = "NFS_LIMIT_SIZE")]
        Size(u64) = 1,
        /// The number of changed blocks.
        #[doc(alias = "NFS_LIMIT_BLOCKS")]
        Blocks(WrittenBlocks) = 2,
    }

    /// The reason for which the server grants no delegation.
    #[doc(alias("open_none_delegation4", "why_no_delegation4"))]
    #[derive(Copy)]
    WhyNone {
        /// The client wished none.
        #[doc(alias = "WND4_NOT_WANTED")]
        NotWanted = 0,
        /// Another client uses the file; true if the server grants the delegation later.
        #[doc(alias = "WND4_CONTENTION")]
        Contention(bool) = 1,
        /// The server lacks resources; true if the server notifies the client later.
        #[doc(alias = "WND4_RESOURCE")]
        Resource(bool) = 2,
        /// The server does not delegate such objects.
        #[doc(alias = "WND4_NOT_SUPP_FTYPE")]
        TypeNotSupported = 3,
        /// The server grants no write delegation of such objects.
        #[doc(alias = "WND4_WRITE_DELEG_NOT_SUPP_FTYPE")]
        WriteNotSupported = 4,
        /// The client holds a read delegation, which the server cannot change.
        #[doc(alias = "WND4_NOT_SUPP_UPGRADE")]
        UpgradeNotSupported = 5,
        /// The client holds a write delegation, which the server cannot change.
        #[doc(alias = "WND4_NOT_SUPP_DOWNGRADE")]
        DowngradeNotSupported = 6,
        /// The client cancelled its wish.
        #[doc(alias = "WND4_CANCELLED")]
        Cancelled = 7,
        /// The object is a directory.
        #[doc(alias = "WND4_IS_DIR")]
        IsDirectory = 8,
    }

    /// A delegation, or none.
    #[doc(alias = "open_delegation4")]
    #[derive(Copy)]
    Delegation<'a> {
        /// No delegation.
        #[doc(alias = "OPEN_DELEGATE_NONE")]
        None = 0,
        /// A read delegation.
        #[doc(alias = "OPEN_DELEGATE_READ")]
        Read(ReadDelegation<'a>) = 1,
        /// A write delegation.
        #[doc(alias = "OPEN_DELEGATE_WRITE")]
        Write(WriteDelegation<'a>) = 2,
        /// No delegation, for this reason; only for a client that wished one.
        #[doc(alias = "OPEN_DELEGATE_NONE_EXT")]
        NoneBecause(WhyNone) = 3,
        /// A read delegation that covers the times (RFC 9754).
        #[doc(alias = "OPEN_DELEGATE_READ_ATTRS_DELEG")]
        ReadTimes(ReadDelegation<'a>) = 4,
        /// A write delegation that covers the times (RFC 9754).
        #[doc(alias = "OPEN_DELEGATE_WRITE_ATTRS_DELEG")]
        WriteTimes(WriteDelegation<'a>) = 5,
    }
}

/// DELEGPURGE, operation 7: abandons delegations from before a restart of the client (RFC 8881
/// 18.5).
pub mod delegpurge {
    /// The client; ignored.
    #[doc(alias = "DELEGPURGE4args")]
    pub type Args = super::ClientId;

    /// The status.
    #[doc(alias = "DELEGPURGE4res")]
    pub type Reply = super::Completion;
}

/// DELEGRETURN, operation 8: returns a delegation of the current object (RFC 8881 18.6).
pub mod delegreturn {
    /// The delegation.
    #[doc(alias = "DELEGRETURN4args")]
    pub type Args = super::Stateid;

    /// The status.
    #[doc(alias = "DELEGRETURN4res")]
    pub type Reply = super::Completion;
}

/// WANT_DELEGATION, operation 56: requests a delegation of the current file without an open (RFC
/// 8881 18.49).
pub mod want_delegation {
    use super::super::open::ShareAccess;
    use super::{Delegation, DelegationKind, ReplyOf, xdr_struct};

    xdr_struct! {
        /// The wish.
        #[doc(alias = "WANT_DELEGATION4args")]
        #[derive(Copy)]
        pub struct Args {
            /// The wished delegation; bits of access are invalid here.
            pub want: ShareAccess,
            /// The right to the delegation.
            pub claim: Claim,
        }
    }

    unions! {
        /// The right to a delegation of the current file.
        #[doc(alias = "deleg_claim4")]
        #[derive(Copy)]
        Claim {
            /// The client held the delegation before a restart of the server.
            #[doc(alias = "CLAIM_PREVIOUS")]
            Previous(DelegationKind) = 1,
            /// The client has no earlier right.
            #[doc(alias = "CLAIM_FH")]
            Current = 4,
            /// The client held the delegation before its restart.
            #[doc(alias = "CLAIM_DELEG_PREV_FH")]
            PreviouslyDelegated = 6,
        }
    }

    /// The delegation.
    #[doc(alias = "WANT_DELEGATION4res")]
    pub type Reply<'a> = ReplyOf<Delegation<'a>>;
}

/// GET_DIR_DELEGATION, operation 46: requests a delegation of the current directory (RFC 8881
/// 18.39).
pub mod get_dir_delegation {
    use super::{Bitmap, CookieVerifier, ReplyOf, Stateid, Time, xdr_struct};

    xdr_struct! {
        /// The wished delegation.
        #[doc(alias = "GET_DIR_DELEGATION4args")]
        #[derive(Copy)]
        pub struct Args {
            /// True if the server is to notify the client when a delegation becomes available.
            pub signal: bool,
            /// The wished kinds of notifications.
            pub notifications: Bitmap,
            /// The longest delay of notifications of attributes of children.
            pub child_delay: Time,
            /// The longest delay of notifications of attributes of the directory.
            pub directory_delay: Time,
            /// The attributes of children with notifications.
            pub child_attributes: Bitmap,
            /// The attributes of the directory with notifications.
            pub directory_attributes: Bitmap,
        }

        /// A delegation.
        #[doc(alias = "GET_DIR_DELEGATION4resok")]
        #[derive(Copy)]
        pub struct Granted {
            /// The verifier of the cookies in notifications.
            pub verifier: CookieVerifier,
            /// The delegation.
            pub stateid: Stateid,
            /// The kinds of notifications that the server sends.
            pub notifications: Bitmap,
            /// The attributes of children with notifications.
            pub child_attributes: Bitmap,
            /// The attributes of the directory with notifications.
            pub directory_attributes: Bitmap,
        }
    }

    unions! {
        /// The delegation, or none.
        #[doc(alias("GET_DIR_DELEGATION4res_non_fatal", "gddrnf4_status"))]
        #[derive(Copy)]
        Done {
            /// A delegation.
            #[doc(alias = "GDD4_OK")]
            Granted(Granted) = 0,
            /// No delegation; true if the server notifies the client when one is available.
            #[doc(alias = "GDD4_UNAVAIL")]
            Unavailable(bool) = 1,
        }
    }

    /// The results.
    #[doc(alias = "GET_DIR_DELEGATION4res")]
    pub type Reply = ReplyOf<Done>;
}
