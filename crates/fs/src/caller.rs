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
