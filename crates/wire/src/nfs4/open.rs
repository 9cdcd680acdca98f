//! OPEN, operation 18: opens a regular file, and makes the file if required (RFC 8881 18.16).

use leasehold_base::{xdr_enum, xdr_struct};

use super::{
    Bitmap, ChangeInfo, CreateVerifier, Delegation, DelegationKind, EncodedAttributes, Name,
    OwnerSequence, StateOwner, Stateid,
};

bits! {
    /// The access of an open and the wished delegation. [`ShareAccess::want`] returns a part that
    /// is a number and not a set.
    ShareAccess {
        /// The right to read.
        #[doc(alias = "OPEN4_SHARE_ACCESS_READ")]
        READ = 0x1,
        /// The right to write.
        #[doc(alias = "OPEN4_SHARE_ACCESS_WRITE")]
        WRITE = 0x2,
        /// The server notifies the client when it can grant the delegation.
        #[doc(alias = "OPEN4_SHARE_ACCESS_WANT_SIGNAL_DELEG_WHEN_RESRC_AVAIL")]
        WANT_SIGNAL = 0x1_0000,
        /// The server grants the delegation by callback when no conflict remains.
        #[doc(alias = "OPEN4_SHARE_ACCESS_WANT_PUSH_DELEG_WHEN_UNCONTENDED")]
        WANT_PUSH = 0x2_0000,
        /// The delegation covers the times of the file (RFC 9754).
        #[doc(alias = "OPEN4_SHARE_ACCESS_WANT_DELEG_TIMESTAMPS")]
        WANT_TIMES = 0x10_0000,
        /// A delegation may replace the open (RFC 9754).
        #[doc(alias = "OPEN4_SHARE_ACCESS_WANT_OPEN_XOR_DELEGATION")]
        WANT_ONLY_DELEGATION = 0x20_0000,
    }

    /// The access that an open denies to others.
    ShareDeny {
        /// Others cannot open the file to read.
        #[doc(alias = "OPEN4_SHARE_DENY_READ")]
        READ = 0x1,
        /// Others cannot open the file to write.
        #[doc(alias = "OPEN4_SHARE_DENY_WRITE")]
        WRITE = 0x2,
    }

    /// Properties of an open.
    ResultFlags {
        /// Minor version 0: the client must confirm the open.
        #[doc(alias = "OPEN4_RESULT_CONFIRM")]
        CONFIRM = 0x02,
        /// Locks follow the rules of POSIX.
        #[doc(alias = "OPEN4_RESULT_LOCKTYPE_POSIX")]
        POSIX_LOCKS = 0x04,
        /// The server preserves the file while it is open, even without names.
        #[doc(alias = "OPEN4_RESULT_PRESERVE_UNLINKED")]
        PRESERVES_UNLINKED = 0x08,
        /// The delegation replaces the open, and the state id of the open is meaningless (RFC
        /// 9754).
        #[doc(alias = "OPEN4_RESULT_NO_OPEN_STATEID")]
        NO_OPEN_STATEID = 0x10,
        /// The server may call back when a lock becomes available.
        #[doc(alias = "OPEN4_RESULT_MAY_NOTIFY_LOCK")]
        MAY_NOTIFY_LOCK = 0x20,
    }
}

xdr_enum! {
    /// The wished delegation.
    pub enum Want {
        /// The server decides.
        #[doc(alias = "OPEN4_SHARE_ACCESS_WANT_NO_PREFERENCE")]
        NoPreference = 0x000,
        /// A read delegation.
        #[doc(alias = "OPEN4_SHARE_ACCESS_WANT_READ_DELEG")]
        Read = 0x100,
        /// A write delegation.
        #[doc(alias = "OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG")]
        Write = 0x200,
        /// Any delegation.
        #[doc(alias = "OPEN4_SHARE_ACCESS_WANT_ANY_DELEG")]
        Any = 0x300,
        /// No delegation.
        #[doc(alias = "OPEN4_SHARE_ACCESS_WANT_NO_DELEG")]
        None = 0x400,
        /// The client no longer waits for a delegation.
        #[doc(alias = "OPEN4_SHARE_ACCESS_WANT_CANCEL")]
        Cancel = 0x500,
    }
}

impl ShareAccess {
    /// The bits of [`ShareAccess::want`].
    #[doc(alias = "OPEN4_SHARE_ACCESS_WANT_DELEG_MASK")]
    const WANT_MASK: u32 = 0xff00;

    /// The rights to read and to write.
    #[doc(alias = "OPEN4_SHARE_ACCESS_BOTH")]
    pub const BOTH: Self = Self::READ.with(Self::WRITE);

    /// Returns the wished delegation, or `None` for an unknown value.
    #[must_use]
    pub fn want(self) -> Option<Want> {
        Want::ALL.iter().copied().find(|want| *want as u32 == self.0 & Self::WANT_MASK)
    }

    /// Returns the access with another wished delegation.
    #[must_use]
    pub const fn wanting(self, want: Want) -> Self {
        Self(self.0 & !Self::WANT_MASK | want as u32)
    }

    /// Returns the bits that belong neither to a name nor to [`ShareAccess::want`].
    #[must_use]
    pub const fn unknown(self) -> u32 {
        self.unnamed() & !Self::WANT_MASK
    }
}

impl ShareDeny {
    /// Nothing is denied.
    #[doc(alias = "OPEN4_SHARE_DENY_NONE")]
    pub const NONE: Self = Self(0);

    /// Others can neither read nor write.
    #[doc(alias = "OPEN4_SHARE_DENY_BOTH")]
    pub const BOTH: Self = Self::READ.with(Self::WRITE);
}

xdr_struct! {
    /// The file, and the access.
    #[doc(alias = "OPEN4args")]
    pub struct Args<'a> {
        /// Ignored.
        pub sequence: OwnerSequence,
        /// The access.
        pub access: ShareAccess,
        /// The denied access of others.
        pub deny: ShareDeny,
        /// The owner of the open.
        pub owner: StateOwner<'a>,
        /// The action if the file does not exist.
        pub how: How<'a>,
        /// The file, and the right to it.
        pub claim: Claim<'a>,
    }

    /// An exclusive creation with attributes.
    #[doc(alias = "creatverfattr")]
    #[derive(Copy)]
    pub struct ExclusiveAttributes<'a> {
        /// The verifier.
        pub verifier: CreateVerifier,
        /// The attributes.
        pub attributes: EncodedAttributes<'a>,
    }

    /// A name, and a delegation of the file.
    #[doc(alias = "open_claim_delegate_cur4")]
    #[derive(Copy)]
    pub struct DelegatedName<'a> {
        /// The delegation.
        pub stateid: Stateid,
        /// The name in the current directory.
        pub name: Name<'a>,
    }

    /// The open.
    #[doc(alias = "OPEN4resok")]
    pub struct Done<'a> {
        /// The open.
        pub stateid: Stateid,
        /// The change of the directory.
        pub directory: ChangeInfo,
        /// The properties.
        pub flags: ResultFlags,
        /// The attributes that the creation has set.
        pub set: Bitmap,
        /// The delegation.
        pub delegation: Delegation<'a>,
    }
}

unions! {
    /// The action if the file does not exist.
    #[doc(alias("openflag4", "opentype4"))]
    #[derive(Copy)]
    How<'a> {
        /// The operation fails.
        #[doc(alias = "OPEN4_NOCREATE")]
        Existing = 0,
        /// The server makes the file.
        #[doc(alias = "OPEN4_CREATE")]
        Create(CreateHow<'a>) = 1,
    }

    /// The action if the name exists.
    #[doc(alias("createhow4", "createmode4"))]
    #[derive(Copy)]
    CreateHow<'a> {
        /// The server opens the existing file.
        #[doc(alias = "UNCHECKED4")]
        Unchecked(EncodedAttributes<'a>) = 0,
        /// The operation fails.
        #[doc(alias = "GUARDED4")]
        Guarded(EncodedAttributes<'a>) = 1,
        /// The operation fails unless an earlier call with the same verifier made the file.
        #[doc(alias = "EXCLUSIVE4")]
        Exclusive(CreateVerifier) = 2,
        /// The same, with attributes.
        #[doc(alias = "EXCLUSIVE4_1")]
        ExclusiveAttributes(ExclusiveAttributes<'a>) = 3,
    }

    /// The file, and the right to it.
    #[doc(alias("open_claim4", "open_claim_type4"))]
    #[derive(Copy)]
    Claim<'a> {
        /// The name in the current directory.
        #[doc(alias = "CLAIM_NULL")]
        Name(Name<'a>) = 0,
        /// The current file, which the client reclaims with this delegation after a restart of the
        /// server.
        #[doc(alias = "CLAIM_PREVIOUS")]
        Previous(DelegationKind) = 1,
        /// The name in the current directory of a file that is delegated to the client.
        #[doc(alias = "CLAIM_DELEGATE_CUR")]
        DelegatedName(DelegatedName<'a>) = 2,
        /// The name in the current directory of a file that was delegated to the client before its
        /// restart.
        #[doc(alias = "CLAIM_DELEGATE_PREV")]
        PreviouslyDelegatedName(Name<'a>) = 3,
        /// The current file.
        #[doc(alias = "CLAIM_FH")]
        Current = 4,
        /// The current file, which is delegated to the client.
        #[doc(alias = "CLAIM_DELEG_CUR_FH")]
        DelegatedCurrent(Stateid) = 5,
        /// The current file, which was delegated to the client before its restart.
        #[doc(alias = "CLAIM_DELEG_PREV_FH")]
        PreviouslyDelegatedCurrent = 6,
    }
}

/// The results.
#[doc(alias = "OPEN4res")]
pub type Reply<'a> = super::Reply<Done<'a>>;
