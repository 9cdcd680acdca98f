//! Who asks.

use leasehold_base::groups::Groups;

/// The user that an operation is done for, after all mapping.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Caller {
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Groups,
}

/// The user who may do almost all.
pub const SUPERUSER: u32 = 0;

/// The user, and the group, that stand for nobody in particular.
pub const NOBODY: u32 = 65_534;

/// The number of no user and no group: to a kernel it says that an owner stays, or that a number
/// cannot be mapped (chown(2)). No object belongs to it, and no caller has it.
pub const NO_USER: u32 = u32::MAX;

/// The number that a client is shown as the owner of an object. A directory that this server did not
/// fill may hold objects of [`NO_USER`], and a Linux client that meets such an object lists the
/// directory again and again.
#[must_use]
pub const fn shown_owner(number: u32) -> u32 {
    if number == NO_USER { NOBODY } else { number }
}

impl Caller {
    /// The caller without a credential (AUTH_NONE).
    #[must_use]
    pub fn nobody() -> Self {
        Self { uid: NOBODY, gid: NOBODY, groups: Groups::default() }
    }

    /// Whether the caller is in a group.
    #[must_use]
    pub fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.as_slice().contains(&gid)
    }
}
