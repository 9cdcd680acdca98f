//! The properties of operations that follow from the RFCs: their effects, and the replies that a
//! client should have cached.

use leasehold_wire::nfs4::{Operation, Status};

use super::operations::{Position, Row};
use super::statuses;

/// The effect of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// The operation changes nothing.
    Nothing,
    /// The operation changes something, and a repetition has the same result.
    Repeatable,
    /// The operation changes something, and a repetition has another result.
    Once,
}

impl Row {
    /// Returns the effect of the operation.
    pub(super) fn effect(&self) -> Effect {
        effect(self.operation)
    }

    /// Returns true if the operation changes something.
    pub(super) fn changes(&self) -> bool {
        !matches!(self.effect(), Effect::Nothing)
    }

    /// Returns true if a client should have the reply cached (`sa_cachethis`, RFC 8881 2.10.6.1.3):
    /// a repetition would have another result. An operation outside sessions has no such flag.
    #[cfg(test)]
    pub(super) fn needs_cached_reply(&self) -> bool {
        matches!((self.position, self.effect()), (Position::InSession, Effect::Once))
    }

    /// Returns true if the RFCs permit a status for the operation.
    pub(super) fn permits(&self, status: Status) -> bool {
        let by_position = match self.position {
            Position::First => &[Status::SequencePosition, Status::NotSupported][..],
            Position::Alone => &[Status::NotOnlyOperation, Status::NotSupported][..],
            Position::InSession => &[][..],
        };
        [statuses::OF_ANY, statuses::of(self.operation), by_position].concat().contains(&status)
    }
}

fn effect(operation: Operation) -> Effect {
    if CHANGE_NOTHING.contains(&operation) {
        Effect::Nothing
    } else if REPEATABLE.contains(&operation) {
        Effect::Repeatable
    } else {
        Effect::Once
    }
}

/// The operations without an effect.
const CHANGE_NOTHING: &[Operation] = &[
    Operation::Access,
    Operation::CopyNotify,
    Operation::GetAttributes,
    Operation::GetDeviceInfo,
    Operation::GetDeviceList,
    Operation::GetHandle,
    Operation::GetXattr,
    Operation::IoAdvise,
    Operation::LayoutError,
    Operation::LayoutStats,
    Operation::ListXattrs,
    Operation::LockTest,
    Operation::Lookup,
    Operation::LookupParent,
    Operation::NotVerify,
    Operation::OffloadStatus,
    Operation::OpenAttributes,
    Operation::PutHandle,
    Operation::PutPublicHandle,
    Operation::PutRootHandle,
    Operation::Read,
    Operation::ReadDirectory,
    Operation::ReadLink,
    Operation::ReadPlus,
    Operation::Renew,
    Operation::RestoreHandle,
    Operation::SaveHandle,
    Operation::SecurityInfo,
    Operation::SecurityInfoNoName,
    Operation::Seek,
    Operation::Sequence,
    Operation::TestStateid,
    Operation::Verify,
];

/// The operations with an effect whose repetition has the same result. Each operation outside this
/// table and the former has another result.
const REPEATABLE: &[Operation] = &[
    Operation::Allocate,
    Operation::BackChannelControl,
    Operation::BindConnection,
    Operation::Commit,
    Operation::Deallocate,
    Operation::ExchangeId,
    Operation::LayoutCommit,
    Operation::SetSsv,
    Operation::Write,
    Operation::WriteSame,
];
