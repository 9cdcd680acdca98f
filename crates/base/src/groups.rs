//! A caller's supplementary groups.

use std::sync::Arc;

use crate::limits::GROUPS_MAX;

/// Group numbers: up to 16, the limit of a credential (RFC 5531 appendix A), are stored inline; a
/// longer list, such as a server's own, is shared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Groups(Kept);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Kept {
    /// At most [`GROUPS_MAX`]; the elements from `count` on are zero.
    Few { count: u8, groups: [u32; GROUPS_MAX] },
    /// More than [`GROUPS_MAX`].
    Many(Arc<[u32]>),
}

impl Default for Groups {
    fn default() -> Self {
        Self(Kept::Few { count: 0, groups: [0; GROUPS_MAX] })
    }
}

impl Groups {
    /// Returns up to 16 groups, the limit of a credential, or `None` if `list` is longer.
    #[must_use]
    pub fn new(list: &[u32]) -> Option<Self> {
        let mut groups = [0; GROUPS_MAX];
        groups.get_mut(..list.len())?.copy_from_slice(list);
        Some(Self(Kept::Few { count: u8::try_from(list.len()).ok()?, groups }))
    }

    /// Returns any number of groups, for a list from the group database of this machine.
    #[must_use]
    pub fn of_server(list: &[u32]) -> Self {
        Self::new(list).unwrap_or_else(|| Self(Kept::Many(list.into())))
    }

    /// Returns the groups.
    #[must_use]
    pub fn as_slice(&self) -> &[u32] {
        match &self.0 {
            Kept::Few { count, groups } => &groups[..usize::from(*count)],
            Kept::Many(groups) => groups,
        }
    }

    /// Returns the number of groups.
    ///
    /// # Panics
    /// Panics if there are more than 2^32 groups.
    #[must_use]
    pub fn count(&self) -> u32 {
        u32::try_from(self.as_slice().len()).expect("no machine has so many groups")
    }
}
