//! Locks of byte ranges.

use leasehold_base::{xdr_enum, xdr_struct};

use super::{Detail, DetailedReply, OwnerSequence, StateOwner, Stateid, Status};

xdr_enum! {
    /// The kinds of locks (RFC 8881 3.3.11).
    #[doc(alias = "nfs_lock_type4")]
    pub enum LockKind {
        /// A shared lock.
        #[doc(alias = "READ_LT")]
        Read = 1,
        /// An exclusive lock.
        #[doc(alias = "WRITE_LT")]
        Write = 2,
        /// A shared lock; the client repeats the request until it has the lock.
        #[doc(alias = "READW_LT")]
        ReadWaiting = 3,
        /// An exclusive lock; the client repeats the request until it has the lock.
        #[doc(alias = "WRITEW_LT")]
        WriteWaiting = 4,
    }
}

xdr_struct! {
    /// The lock that prevents the requested lock.
    #[doc(alias = "LOCK4denied")]
    #[derive(Copy)]
    pub struct Denied<'a> {
        /// The offset, in bytes.
        pub offset: u64,
        /// The length in bytes; 2^64-1 stands for all bytes to the largest offset.
        pub length: u64,
        /// The kind.
        pub kind: LockKind,
        /// The owner.
        pub owner: StateOwner<'a>,
    }
}

impl Detail for Denied<'_> {
    const STATUS: Status = Status::Denied;
}

/// LOCK, operation 12: locks a range of the current file (RFC 8881 18.10).
pub mod lock {
    use super::{Denied, DetailedReply, LockKind, OwnerSequence, StateOwner, Stateid, xdr_struct};

    xdr_struct! {
        /// The lock.
        #[doc(alias = "LOCK4args")]
        #[derive(Copy)]
        pub struct Args<'a> {
            /// The kind.
            pub kind: LockKind,
            /// True if the client held the lock before a restart of the server.
            pub reclaim: bool,
            /// The offset, in bytes.
            pub offset: u64,
            /// The length in bytes; 2^64-1 stands for all bytes to the largest offset.
            pub length: u64,
            /// The owner.
            pub locker: Locker<'a>,
        }

        /// An owner that has no lock state of the file yet.
        #[doc(alias = "open_to_lock_owner4")]
        #[derive(Copy)]
        pub struct NewOwner<'a> {
            /// Ignored.
            pub open_sequence: OwnerSequence,
            /// The open of the file.
            pub open: Stateid,
            /// Ignored.
            pub lock_sequence: OwnerSequence,
            /// The owner.
            pub owner: StateOwner<'a>,
        }

        /// An owner that has a lock state of the file.
        #[doc(alias = "exist_lock_owner4")]
        #[derive(Copy)]
        pub struct KnownOwner {
            /// The lock state.
            pub stateid: Stateid,
            /// Ignored.
            pub sequence: OwnerSequence,
        }
    }

    unions! {
        /// The owner of a lock.
        #[doc(alias = "locker4")]
        #[derive(Copy)]
        Locker<'a> {
            /// An owner that has a lock state of the file.
            Known(KnownOwner) = 0,
            /// An owner that has no lock state of the file yet.
            New(NewOwner<'a>) = 1,
        }
    }

    /// The lock state, or the lock that prevents the requested lock.
    #[doc(alias("LOCK4res", "LOCK4resok"))]
    pub type Reply<'a> = DetailedReply<Stateid, Denied<'a>>;
}

/// LOCKT, operation 13: tests whether a lock of the current file is possible (RFC 8881 18.11).
pub mod lockt {
    use super::{Denied, DetailedReply, LockKind, StateOwner, xdr_struct};

    xdr_struct! {
        /// The lock.
        #[doc(alias = "LOCKT4args")]
        #[derive(Copy)]
        pub struct Args<'a> {
            /// The kind.
            pub kind: LockKind,
            /// The offset, in bytes.
            pub offset: u64,
            /// The length in bytes; 2^64-1 stands for all bytes to the largest offset.
            pub length: u64,
            /// The owner.
            pub owner: StateOwner<'a>,
        }
    }

    /// Success, or the lock that prevents the requested lock.
    #[doc(alias = "LOCKT4res")]
    pub type Reply<'a> = DetailedReply<(), Denied<'a>>;
}

/// LOCKU, operation 14: unlocks a range of the current file (RFC 8881 18.12).
pub mod locku {
    use super::{LockKind, OwnerSequence, Stateid, xdr_struct};

    xdr_struct! {
        /// The range.
        #[doc(alias = "LOCKU4args")]
        #[derive(Copy)]
        pub struct Args {
            /// Ignored.
            pub kind: LockKind,
            /// Ignored.
            pub sequence: OwnerSequence,
            /// The lock state.
            pub stateid: Stateid,
            /// The offset, in bytes.
            pub offset: u64,
            /// The length in bytes; 2^64-1 stands for all bytes to the largest offset.
            pub length: u64,
        }
    }

    /// The lock state.
    #[doc(alias = "LOCKU4res")]
    pub type Reply = super::super::Reply<Stateid>;
}
