//! The user list of this machine.

use leasehold_fs::{Caller, MaybeReady};

/// The user list of this machine.
pub trait Users: Send + Sync {
    /// Returns a caller with the groups that the list contains for its user. Returns the caller
    /// unchanged if the list does not contain the user.
    fn with_groups(&self, caller: Caller) -> MaybeReady<'_, Caller>;
}

/// A list without users.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unknown;

impl Users for Unknown {
    fn with_groups(&self, caller: Caller) -> MaybeReady<'_, Caller> {
        MaybeReady::now(caller)
    }
}
