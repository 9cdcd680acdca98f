//! The user list of this machine.

use leasehold_fs::{Caller, MaybeReady};

/// The user list of this machine.
pub trait Users: Send + Sync {
    /// Returns a caller with its groups from the list; unchanged if the list does not contain its
    /// user.
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
