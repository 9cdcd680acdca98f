//! The statuses that the RFCs permit for each operation (RFC 8881 15.2, RFC 7862 11.2, RFC 8276
//! 8.4.5).

use leasehold_wire::nfs4::{Operation, Status};

/// The statuses of an invalid or oversized message, of a retry, and of a failed server, which the
/// RFCs permit for nearly all operations.
pub(super) const OF_ANY: &[Status] = &[
    Status::ServerFault,
    Status::Delay,
    Status::BadXdr,
    Status::RequestTooBig,
    Status::ReplyTooBig,
    Status::ReplyTooBigToCache,
    Status::RetryUncachedReply,
    Status::TooManyOperations,
    Status::OperationNotInSession,
    Status::DeadSession,
];

/// Returns the further statuses of a supported operation.
pub(super) fn of(operation: Operation) -> &'static [Status] {
    TABLE.iter().find(|(of, _)| *of == operation).map_or(&[], |(_, statuses)| statuses)
}

/// Builds the table of operations and their statuses from rows of names.
macro_rules! rows {
    ($($operation:ident: $($status:ident)*;)*) => {
        &[$((Operation::$operation, &[$(Status::$status),*])),*]
    };
}

const TABLE: &[(Operation, &[Status])] = rows! {
    Access: Io Access Invalid Stale HandleExpired Moved NoFileHandle;
    Close: Stale Expired HandleExpired Moved NoFileHandle OldStateid BadStateid LocksHeld
        AdminRevoked WrongCredential;
    Commit: Io Access IsDirectory Stale HandleExpired Moved NoFileHandle Symlink WrongType;
    Create: NotOwner Io Access AlreadyExists NotDirectory Invalid NoSpace ReadOnly TooManyLinks
        NameTooLong QuotaExceeded Stale BadType HandleExpired Moved NoFileHandle
        AttributeNotSupported BadOwner BadCharacter BadName UnsafeCompound;
    GetAttributes: Io Access Invalid Stale Grace HandleExpired Moved NoFileHandle WrongType;
    GetHandle: Stale HandleExpired Moved NoFileHandle;
    SaveHandle: Stale HandleExpired Moved NoFileHandle;
    Link: Io Access AlreadyExists CrossDevice NotDirectory IsDirectory Invalid NoSpace ReadOnly
        TooManyLinks NameTooLong QuotaExceeded Stale NotSupported Grace HandleExpired
        WrongSecurity Moved NoFileHandle Symlink BadCharacter BadName FileOpen WrongType;
    Lock: Access IsDirectory Invalid ReadOnly Stale Denied Expired Grace HandleExpired Moved
        NoFileHandle OldStateid BadStateid LockRange Symlink NoGrace ReclaimBad ReclaimConflict
        OpenMode BadRange LockNotSupported Deadlock AdminRevoked WrongCredential WrongType;
    LockTest: Access IsDirectory Invalid ReadOnly Stale Denied Grace HandleExpired Moved
        NoFileHandle LockRange Symlink BadRange WrongCredential WrongType;
    Unlock: Access Invalid Stale Expired HandleExpired Moved NoFileHandle OldStateid BadStateid
        LockRange BadRange AdminRevoked WrongCredential;
    Lookup: NotFound Io Access NotDirectory Invalid NameTooLong Stale HandleExpired
        WrongSecurity Moved NoFileHandle Symlink BadCharacter BadName;
    LookupParent: NotFound Io Access NotDirectory Stale HandleExpired WrongSecurity Moved
        NoFileHandle Symlink;
    NotVerify: Io Access Invalid Stale Same Grace HandleExpired Moved NoFileHandle
        AttributeNotSupported BadCharacter UnknownLayoutType WrongType;
    Open: NotOwner NotFound Io Access AlreadyExists NotDirectory IsDirectory Invalid FileTooBig
        NoSpace ReadOnly NameTooLong QuotaExceeded Stale Expired Grace HandleExpired ShareDenied
        WrongSecurity Moved NoFileHandle OldStateid BadStateid Symlink AttributeNotSupported
        NoGrace ReclaimBad ReclaimConflict BadOwner BadCharacter BadName AdminRevoked
        DelegationAlreadyWanted UnsafeCompound WrongType DelegationRevoked;
    OpenDowngrade: Invalid ReadOnly Stale Expired HandleExpired Moved NoFileHandle OldStateid
        BadStateid AdminRevoked WrongCredential;
    PutHandle: Stale BadHandle WrongSecurity Moved;
    PutPublicHandle: WrongSecurity;
    PutRootHandle: WrongSecurity;
    Read: Io Access IsDirectory Invalid Stale Expired Locked Grace HandleExpired Moved
        NoFileHandle OldStateid BadStateid Symlink OpenMode AdminRevoked PnfsIoHole PnfsNoLayout
        WrongType DelegationRevoked;
    ReadDirectory: Io Access NotDirectory Invalid Stale BadCookie TooSmall HandleExpired Moved
        NoFileHandle NotSame;
    ReadLink: Io Access Invalid Stale HandleExpired Moved NoFileHandle WrongType;
    Remove: NotFound Io Access NotDirectory Invalid ReadOnly NameTooLong NotEmpty Stale Grace
        HandleExpired Moved NoFileHandle BadCharacter BadName FileOpen;
    Rename: NotFound Io Access AlreadyExists CrossDevice NotDirectory Invalid NoSpace ReadOnly
        TooManyLinks NameTooLong NotEmpty QuotaExceeded Stale Grace HandleExpired WrongSecurity
        Moved NoFileHandle BadCharacter BadName FileOpen;
    RestoreHandle: Stale HandleExpired WrongSecurity Moved NoFileHandle;
    SecurityInfo: NotFound Access NotDirectory Invalid NameTooLong Stale HandleExpired Moved
        NoFileHandle BadCharacter BadName;
    SetAttributes: NotOwner Io Access Invalid FileTooBig NoSpace ReadOnly QuotaExceeded Stale
        Expired Locked Grace HandleExpired Moved NoFileHandle OldStateid BadStateid
        AttributeNotSupported OpenMode BadOwner BadCharacter AdminRevoked UnknownLayoutType
        WrongType DelegationRevoked;
    Verify: Io Access Invalid Stale Grace HandleExpired Moved NoFileHandle NotSame
        AttributeNotSupported BadCharacter UnknownLayoutType WrongType;
    Write: Io Access IsDirectory Invalid FileTooBig NoSpace ReadOnly QuotaExceeded Stale Expired
        Locked Grace HandleExpired Moved NoFileHandle OldStateid BadStateid Symlink OpenMode
        AdminRevoked PnfsIoHole PnfsNoLayout WrongType DelegationRevoked;
    BackChannelControl: NotFound Invalid;
    BindConnection: Invalid BadSessionDigest BadSession NotOnlyOperation;
    ExchangeId: NotFound Invalid ClientIdInUse NotSame BadCharacter HashUnsupported
        EncryptionUnsupported NotOnlyOperation;
    CreateSession: NotFound Invalid NoSpace TooSmall ClientIdInUse StaleClientId
        SequenceMisordered NotOnlyOperation WrongCredential;
    DestroySession: StaleClientId CallbackPathDown BadSession ConnectionNotBound BackChannelBusy
        NotOnlyOperation WrongCredential;
    FreeStateid: OldStateid BadStateid LocksHeld WrongCredential;
    SecurityInfoNoName: NotFound Access NotDirectory Invalid Stale NotSupported HandleExpired
        Moved NoFileHandle;
    Sequence: BadSession BadSlot ConnectionNotBound SequenceMisordered SequencePosition
        SequenceFalseRetry BadHighSlot;
    TestStateid: ;
    DestroyClientId: StaleClientId ClientIdBusy NotOnlyOperation WrongCredential;
    ReclaimComplete: Invalid Stale HandleExpired Moved NoFileHandle CompleteAlready
        WrongCredential WrongType;
    Allocate: Io Access IsDirectory Invalid FileTooBig NoSpace ReadOnly QuotaExceeded Stale
        NotSupported Expired Grace HandleExpired Moved NoFileHandle OldStateid BadStateid
        Symlink OpenMode AdminRevoked WrongType DelegationRevoked;
    Copy: Io Access IsDirectory Invalid FileTooBig NoSpace ReadOnly QuotaExceeded Stale Expired
        Locked Grace HandleExpired Moved NoFileHandle OldStateid BadStateid Symlink OpenMode
        AdminRevoked PnfsIoHole PnfsNoLayout WrongType DelegationRevoked PartnerNotSupported
        PartnerNoAuthorization OffloadDenied;
    Deallocate: Io Access IsDirectory Invalid FileTooBig ReadOnly Stale NotSupported Expired
        Grace HandleExpired Moved NoFileHandle OldStateid BadStateid Symlink OpenMode
        AdminRevoked WrongType DelegationRevoked;
    IoAdvise: Io Access IsDirectory Invalid FileTooBig Stale NotSupported Expired Grace
        HandleExpired Moved NoFileHandle OldStateid BadStateid Symlink AdminRevoked WrongType
        DelegationRevoked;
    ReadPlus: Io Access IsDirectory Invalid Stale NotSupported Expired Locked Grace
        HandleExpired Moved NoFileHandle OldStateid BadStateid Symlink OpenMode AdminRevoked
        PnfsIoHole PnfsNoLayout WrongType DelegationRevoked PartnerNoAuthorization;
    Seek: Io Access IsDirectory Invalid Stale NotSupported Expired Locked Grace HandleExpired
        Moved NoFileHandle OldStateid BadStateid Symlink OpenMode AdminRevoked PnfsIoHole
        PnfsNoLayout WrongType DelegationRevoked UnionNotSupported;
    Clone: Io Access CrossDevice IsDirectory Invalid FileTooBig NoSpace ReadOnly QuotaExceeded
        Stale NotSupported Expired Grace HandleExpired Moved NoFileHandle OldStateid BadStateid
        Symlink OpenMode AdminRevoked WrongType DelegationRevoked;
    GetXattr: NotOwner Io Access Invalid NameTooLong Stale NotSupported HandleExpired Moved
        NoFileHandle WrongType NoXattr;
    SetXattr: NotOwner Io Access AlreadyExists Invalid NoSpace ReadOnly NameTooLong
        QuotaExceeded Stale HandleExpired Moved NoFileHandle BadCharacter WrongType NoXattr
        XattrTooBig;
    ListXattrs: NotOwner Io Access Invalid NameTooLong Stale NotSupported Moved NoFileHandle
        WrongType NoXattr;
    RemoveXattr: NotOwner Io Access AlreadyExists Invalid NoSpace ReadOnly NameTooLong
        QuotaExceeded Stale Locked Moved NoFileHandle OldStateid OpenMode BadCharacter WrongType
        NoXattr;
};
