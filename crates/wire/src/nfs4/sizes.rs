//! The largest results of operations, with which a server decides before an operation that changes
//! state whether its result fits the reply.

use leasehold_base::limits::{
    BITMAP_WORDS_USED_MAX, HANDLE_V4_BYTES_MAX, OPAQUE_V4_BYTES_MAX, OWNER_BYTES_MAX,
};

use super::Operation;

/// The number of the operation, and the status.
const STATUS: u32 = 4 + 4;

const BITMAP: u32 = 4 + 4 * BITMAP_WORDS_USED_MAX;
const CHANGE_INFO: u32 = 4 + 8 + 8;
const STATEID: u32 = 16;
const SESSION_ID: u32 = 16;
const VERIFIER: u32 = 8;
const CHANNEL: u32 = 6 * 4 + 4 + 4;
const ACE: u32 = 3 * 4 + 4 + OWNER_BYTES_MAX.next_multiple_of(4);
const SPACE_LIMIT: u32 = 4 + 8;
const DELEGATION: u32 = 4 + STATEID + 4 + SPACE_LIMIT + ACE;
const DENIED: u32 = 8 + 8 + 4 + 8 + 4 + OPAQUE_V4_BYTES_MAX;
const WRITE_RESPONSE: u32 = 4 + STATEID + 8 + 4 + VERIFIER;

impl Operation {
    /// Returns a bound of the size of the result with its number, in bytes, or `None` if the size
    /// depends on the arguments, on configuration or on the object. Operations of the second kind
    /// change no state, except [`Operation::ExchangeId`], [`Operation::SetSsv`],
    /// [`Operation::LayoutGet`] and [`Operation::CopyNotify`].
    #[must_use]
    pub const fn result_bytes_max(self) -> Option<u32> {
        let body = match self {
            Self::DelegationPurge
            | Self::DelegationReturn
            | Self::Lookup
            | Self::LookupParent
            | Self::NotVerify
            | Self::OpenAttributes
            | Self::OpenConfirm
            | Self::PutHandle
            | Self::PutPublicHandle
            | Self::PutRootHandle
            | Self::Renew
            | Self::RestoreHandle
            | Self::SaveHandle
            | Self::SetClientId
            | Self::SetClientIdConfirm
            | Self::Verify
            | Self::ReleaseLockOwner
            | Self::BackChannelControl
            | Self::DestroySession
            | Self::FreeStateid
            | Self::DestroyClientId
            | Self::ReclaimComplete
            | Self::Allocate
            | Self::Deallocate
            | Self::LayoutError
            | Self::LayoutStats
            | Self::OffloadCancel
            | Self::Clone => 0,
            Self::Access => 4 + 4,
            Self::Commit => VERIFIER,
            Self::Close | Self::OpenDowngrade | Self::Unlock | Self::LayoutReturn => 4 + STATEID,
            Self::Create => CHANGE_INFO + BITMAP,
            Self::GetHandle => 4 + HANDLE_V4_BYTES_MAX,
            Self::Link | Self::Remove | Self::SetXattr | Self::RemoveXattr => CHANGE_INFO,
            Self::Rename => 2 * CHANGE_INFO,
            Self::Lock | Self::LockTest => DENIED,
            Self::Open => STATEID + CHANGE_INFO + 4 + BITMAP + DELEGATION,
            Self::WantDelegation => DELEGATION,
            Self::SetAttributes | Self::IoAdvise => BITMAP,
            Self::Write => 4 + 4 + VERIFIER,
            Self::BindConnection => SESSION_ID + 4 + 4,
            Self::CreateSession => SESSION_ID + 4 + 4 + 2 * CHANNEL,
            Self::GetDirectoryDelegation => 4 + VERIFIER + STATEID + 3 * BITMAP,
            Self::Sequence => SESSION_ID + 5 * 4,
            Self::Copy | Self::WriteSame => WRITE_RESPONSE + 4 + 4,
            Self::OffloadStatus => 8 + 4 + 4,
            Self::LayoutCommit | Self::Seek => 4 + 8,
            Self::GetAttributes
            | Self::Read
            | Self::ReadDirectory
            | Self::ReadLink
            | Self::SecurityInfo
            | Self::ExchangeId
            | Self::GetDeviceInfo
            | Self::GetDeviceList
            | Self::LayoutGet
            | Self::SecurityInfoNoName
            | Self::SetSsv
            | Self::TestStateid
            | Self::CopyNotify
            | Self::ReadPlus
            | Self::GetXattr
            | Self::ListXattrs => return None,
        };
        Some(STATUS + body)
    }
}
