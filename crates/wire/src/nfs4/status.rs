//! The statuses of operations.

use super::{Outcome, Reply};

named! {
    /// The error codes of minor versions 1 and 2, with those for extended attributes (RFC 8881 15,
    /// RFC 7862 11, RFC 8276 8.4). Zero, NFS4_OK, is not an error: see [`Completion`].
    #[doc(alias = "nfsstat4")]
    Status {
        /// The caller is not the owner or not privileged.
        NotOwner "NFS4ERR_PERM" = 1,
        /// No such file or directory.
        NotFound "NFS4ERR_NOENT" = 2,
        /// I/O error.
        Io "NFS4ERR_IO" = 5,
        /// No such device or address.
        NoSuchAddress "NFS4ERR_NXIO" = 6,
        /// Permission denied.
        Access "NFS4ERR_ACCESS" = 13,
        /// File exists.
        AlreadyExists "NFS4ERR_EXIST" = 17,
        /// The names are in different file systems.
        CrossDevice "NFS4ERR_XDEV" = 18,
        /// Not a directory.
        NotDirectory "NFS4ERR_NOTDIR" = 20,
        /// Is a directory.
        IsDirectory "NFS4ERR_ISDIR" = 21,
        /// Invalid argument.
        Invalid "NFS4ERR_INVAL" = 22,
        /// File too large.
        FileTooBig "NFS4ERR_FBIG" = 27,
        /// No space left.
        NoSpace "NFS4ERR_NOSPC" = 28,
        /// Read-only file system.
        ReadOnly "NFS4ERR_ROFS" = 30,
        /// Too many hard links.
        TooManyLinks "NFS4ERR_MLINK" = 31,
        /// Name too long.
        NameTooLong "NFS4ERR_NAMETOOLONG" = 63,
        /// Directory not empty.
        NotEmpty "NFS4ERR_NOTEMPTY" = 66,
        /// Quota exceeded.
        QuotaExceeded "NFS4ERR_DQUOT" = 69,
        /// The object is gone.
        Stale "NFS4ERR_STALE" = 70,
        /// The server did not issue the handle.
        BadHandle "NFS4ERR_BADHANDLE" = 10001,
        /// The directory position is stale.
        BadCookie "NFS4ERR_BAD_COOKIE" = 10003,
        /// The operation is not supported.
        NotSupported "NFS4ERR_NOTSUPP" = 10004,
        /// The caller's limit is too small for any result.
        TooSmall "NFS4ERR_TOOSMALL" = 10005,
        /// The server failed.
        ServerFault "NFS4ERR_SERVERFAULT" = 10006,
        /// The server cannot make an object of this kind.
        BadType "NFS4ERR_BADTYPE" = 10007,
        /// The client must retry the call later.
        Delay "NFS4ERR_DELAY" = 10008,
        /// NVERIFY: the attributes are equal.
        Same "NFS4ERR_SAME" = 10009,
        /// Another owner holds a conflicting lock.
        Denied "NFS4ERR_DENIED" = 10010,
        /// The lease of the state has expired.
        Expired "NFS4ERR_EXPIRED" = 10011,
        /// A mandatory lock forbids the I/O.
        Locked "NFS4ERR_LOCKED" = 10012,
        /// The server is in its grace period.
        Grace "NFS4ERR_GRACE" = 10013,
        /// The volatile handle has expired.
        HandleExpired "NFS4ERR_FHEXPIRED" = 10014,
        /// Another open denies the access.
        ShareDenied "NFS4ERR_SHARE_DENIED" = 10015,
        /// The security flavour of the call is not permitted here.
        WrongSecurity "NFS4ERR_WRONGSEC" = 10016,
        /// Another principal uses the client id.
        ClientIdInUse "NFS4ERR_CLID_INUSE" = 10017,
        /// The server lacks resources; minor version 0 only.
        Resource "NFS4ERR_RESOURCE" = 10018,
        /// The file system is at another server.
        Moved "NFS4ERR_MOVED" = 10019,
        /// The compound has no current file handle.
        NoFileHandle "NFS4ERR_NOFILEHANDLE" = 10020,
        /// The server does not support the minor version.
        MinorVersionMismatch "NFS4ERR_MINOR_VERS_MISMATCH" = 10021,
        /// The client id is from before a restart.
        StaleClientId "NFS4ERR_STALE_CLIENTID" = 10022,
        /// The state id is from before a restart.
        StaleStateid "NFS4ERR_STALE_STATEID" = 10023,
        /// The sequence number of the state id is not the latest.
        OldStateid "NFS4ERR_OLD_STATEID" = 10024,
        /// The state id is unknown or does not fit the operation.
        BadStateid "NFS4ERR_BAD_STATEID" = 10025,
        /// The sequence number of an owner is wrong; minor version 0 only.
        BadSequenceId "NFS4ERR_BAD_SEQID" = 10026,
        /// VERIFY: the attributes differ; or EXCHANGE_ID: the verifier differs.
        NotSame "NFS4ERR_NOT_SAME" = 10027,
        /// The range overlaps a lock that the server cannot split.
        LockRange "NFS4ERR_LOCK_RANGE" = 10028,
        /// The object is a symbolic link.
        Symlink "NFS4ERR_SYMLINK" = 10029,
        /// The compound has no saved file handle.
        NoSavedHandle "NFS4ERR_RESTOREFH" = 10030,
        /// A lease is at another server; minor version 0 only.
        LeaseMoved "NFS4ERR_LEASE_MOVED" = 10031,
        /// The server does not support an attribute.
        AttributeNotSupported "NFS4ERR_ATTRNOTSUPP" = 10032,
        /// The client cannot reclaim state now.
        NoGrace "NFS4ERR_NO_GRACE" = 10033,
        /// The server rejects the reclaim.
        ReclaimBad "NFS4ERR_RECLAIM_BAD" = 10034,
        /// The reclaim conflicts with another client's state.
        ReclaimConflict "NFS4ERR_RECLAIM_CONFLICT" = 10035,
        /// The arguments are invalid XDR.
        BadXdr "NFS4ERR_BADXDR" = 10036,
        /// Locks exist on the state id.
        LocksHeld "NFS4ERR_LOCKS_HELD" = 10037,
        /// The open of the state id does not permit the access.
        OpenMode "NFS4ERR_OPENMODE" = 10038,
        /// The server does not know the owner's name.
        BadOwner "NFS4ERR_BADOWNER" = 10039,
        /// The server does not support a character of the name.
        BadCharacter "NFS4ERR_BADCHAR" = 10040,
        /// The server does not support the name.
        BadName "NFS4ERR_BADNAME" = 10041,
        /// The server does not support the range.
        BadRange "NFS4ERR_BAD_RANGE" = 10042,
        /// The server cannot change the kind of a lock atomically.
        LockNotSupported "NFS4ERR_LOCK_NOTSUPP" = 10043,
        /// The minor version has no such operation.
        IllegalOperation "NFS4ERR_OP_ILLEGAL" = 10044,
        /// The lock would cause a deadlock.
        Deadlock "NFS4ERR_DEADLOCK" = 10045,
        /// The object is open.
        FileOpen "NFS4ERR_FILE_OPEN" = 10046,
        /// An administrator revoked the state.
        AdminRevoked "NFS4ERR_ADMIN_REVOKED" = 10047,
        /// The server cannot call the client back; minor version 0 only.
        CallbackPathDown "NFS4ERR_CB_PATH_DOWN" = 10048,
        /// The I/O mode does not fit.
        BadIoMode "NFS4ERR_BADIOMODE" = 10049,
        /// The layout is invalid.
        BadLayout "NFS4ERR_BADLAYOUT" = 10050,
        /// The digest of SET_SSV is wrong.
        BadSessionDigest "NFS4ERR_BAD_SESSION_DIGEST" = 10051,
        /// The session is unknown.
        BadSession "NFS4ERR_BADSESSION" = 10052,
        /// The session has no such slot.
        BadSlot "NFS4ERR_BADSLOT" = 10053,
        /// The client has sent RECLAIM_COMPLETE before.
        CompleteAlready "NFS4ERR_COMPLETE_ALREADY" = 10054,
        /// The connection is not bound to the session.
        ConnectionNotBound "NFS4ERR_CONN_NOT_BOUND_TO_SESSION" = 10055,
        /// The client wants the delegation already.
        DelegationAlreadyWanted "NFS4ERR_DELEG_ALREADY_WANTED" = 10056,
        /// Callbacks of the session are in progress.
        BackChannelBusy "NFS4ERR_BACK_CHAN_BUSY" = 10057,
        /// The layout is not available now.
        LayoutTryLater "NFS4ERR_LAYOUTTRYLATER" = 10058,
        /// The file has no layout.
        LayoutUnavailable "NFS4ERR_LAYOUTUNAVAILABLE" = 10059,
        /// The client holds no such layout.
        NoMatchingLayout "NFS4ERR_NOMATCHING_LAYOUT" = 10060,
        /// The layout is recalled.
        RecallConflict "NFS4ERR_RECALLCONFLICT" = 10061,
        /// The layout type is unknown.
        UnknownLayoutType "NFS4ERR_UNKNOWN_LAYOUTTYPE" = 10062,
        /// The sequence number of a slot is wrong.
        SequenceMisordered "NFS4ERR_SEQ_MISORDERED" = 10063,
        /// SEQUENCE is not the first operation.
        SequencePosition "NFS4ERR_SEQUENCE_POS" = 10064,
        /// The request is larger than the session permits.
        RequestTooBig "NFS4ERR_REQ_TOO_BIG" = 10065,
        /// The reply would be larger than the session permits.
        ReplyTooBig "NFS4ERR_REP_TOO_BIG" = 10066,
        /// The reply would be larger than the slot's cache.
        ReplyTooBigToCache "NFS4ERR_REP_TOO_BIG_TO_CACHE" = 10067,
        /// The reply of the repeated request is not cached.
        RetryUncachedReply "NFS4ERR_RETRY_UNCACHED_REP" = 10068,
        /// The client could not recover from a lost reply.
        UnsafeCompound "NFS4ERR_UNSAFE_COMPOUND" = 10069,
        /// The compound has more operations than the session permits.
        TooManyOperations "NFS4ERR_TOO_MANY_OPS" = 10070,
        /// The operation requires SEQUENCE before it.
        OperationNotInSession "NFS4ERR_OP_NOT_IN_SESSION" = 10071,
        /// The server supports none of the hash algorithms.
        HashUnsupported "NFS4ERR_HASH_ALG_UNSUPP" = 10072,
        /// The client has sessions or state.
        ClientIdBusy "NFS4ERR_CLIENTID_BUSY" = 10074,
        /// The I/O is in a hole of a sparse layout.
        PnfsIoHole "NFS4ERR_PNFS_IO_HOLE" = 10075,
        /// The repeated request differs from the original.
        SequenceFalseRetry "NFS4ERR_SEQ_FALSE_RETRY" = 10076,
        /// The highest slot of the request is wrong.
        BadHighSlot "NFS4ERR_BAD_HIGH_SLOT" = 10077,
        /// The session accepts no new requests.
        DeadSession "NFS4ERR_DEADSESSION" = 10078,
        /// The server supports none of the encryption algorithms.
        EncryptionUnsupported "NFS4ERR_ENCR_ALG_UNSUPP" = 10079,
        /// The client holds no layout for the I/O.
        PnfsNoLayout "NFS4ERR_PNFS_NO_LAYOUT" = 10080,
        /// The operation must be alone in its compound.
        NotOnlyOperation "NFS4ERR_NOT_ONLY_OP" = 10081,
        /// Another principal must send the operation.
        WrongCredential "NFS4ERR_WRONG_CRED" = 10082,
        /// The object has the wrong type.
        WrongType "NFS4ERR_WRONG_TYPE" = 10083,
        /// The server cannot delegate the directory.
        DirectoryDelegationUnavailable "NFS4ERR_DIRDELEG_UNAVAIL" = 10084,
        /// The client rejects the delegation.
        RejectDelegation "NFS4ERR_REJECT_DELEG" = 10085,
        /// The client must return layouts first.
        ReturnConflict "NFS4ERR_RETURNCONFLICT" = 10086,
        /// The server revoked the delegation or layout.
        DelegationRevoked "NFS4ERR_DELEG_REVOKED" = 10087,
        /// The server does not copy between servers.
        PartnerNotSupported "NFS4ERR_PARTNER_NOTSUPP" = 10088,
        /// The other server does not authorize the copy.
        PartnerNoAuthorization "NFS4ERR_PARTNER_NO_AUTH" = 10089,
        /// The server does not support the arm of a union.
        UnionNotSupported "NFS4ERR_UNION_NOTSUPP" = 10090,
        /// The server does not permit the copy.
        OffloadDenied "NFS4ERR_OFFLOAD_DENIED" = 10091,
        /// The server does not support the format of the label.
        WrongLabelFormat "NFS4ERR_WRONG_LFS" = 10092,
        /// The security label is invalid.
        BadLabel "NFS4ERR_BADLABEL" = 10093,
        /// The server cannot meet the requirements of the copy.
        OffloadRequirements "NFS4ERR_OFFLOAD_NO_REQS" = 10094,
        /// The extended attribute does not exist.
        NoXattr "NFS4ERR_NOXATTR" = 10095,
        /// The value of the extended attribute is too large.
        XattrTooBig "NFS4ERR_XATTR2BIG" = 10096,
    }
}

/// The status of a compound or operation without other results: success, or an error.
pub type Completion = Reply<()>;

/// Success.
pub const OK: Completion = Outcome::Done(());
