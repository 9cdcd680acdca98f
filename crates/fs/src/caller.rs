//! The user on whose behalf an operation runs.

use leasehold_base::groups::Groups;

/// The credential of an operation, after identity mapping and squashing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Caller {
    /// The effective user id.
    pub uid: u32,
    /// The effective group id.
    pub gid: u32,
    /// The supplementary group ids.
    pub groups: Groups,
}

/// The user id of the superuser.
pub const SUPERUSER: u32 = 0;

/// The user id and the group id of an unknown or unprivileged user.
pub const NOBODY: u32 = 65_534;

/// The id that is neither a user nor a group: in a chown(2) call it means that the owner stays, and
/// in attributes it marks an id that cannot be mapped. No object belongs to this id, and no caller
/// has it.
pub const NO_USER: u32 = u32::MAX;

/// Returns the owner id that the server reports to clients: `NOBODY` in place of [`NO_USER`]. A
/// directory that other programs filled may contain objects of [`NO_USER`], and a Linux client that
/// meets such an object lists the directory again and again.
#[must_use]
pub const fn shown_owner(number: u32) -> u32 {
    if number == NO_USER { NOBODY } else { number }
}

impl Caller {
    /// Returns the caller without a credential (AUTH_NONE).
    #[must_use]
    pub fn nobody() -> Self {
        Self { uid: NOBODY, gid: NOBODY, groups: Groups::default() }
    }

    /// Returns true if the caller is in a group.
    #[must_use]
    pub fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.as_slice().contains(&gid)
    }
}
