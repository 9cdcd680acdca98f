//! A caller's supplementary groups.

use std::sync::Arc;

use crate::limits::GROUPS_MAX;

/// Group numbers: as many as a credential holds are kept in place (RFC 5531 appendix A: 16), and
/// more, as a server's own list may have them, are shared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Groups(Kept);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Kept {
    /// At most [`GROUPS_MAX`]; the places beyond `count` are zero.
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
    /// Takes up to 16 groups, as many as a credential holds; none when there are more.
    #[must_use]
    pub fn new(list: &[u32]) -> Option<Self> {
        let mut groups = [0; GROUPS_MAX];
        groups.get_mut(..list.len())?.copy_from_slice(list);
        Some(Self(Kept::Few { count: u8::try_from(list.len()).ok()?, groups }))
    }

    /// Takes any number of groups, as a list of this machine has them.
    #[must_use]
    pub fn of_server(list: &[u32]) -> Self {
        Self::new(list).unwrap_or_else(|| Self(Kept::Many(list.into())))
    }

    /// The groups.
    #[must_use]
    pub fn as_slice(&self) -> &[u32] {
        match &self.0 {
            Kept::Few { count, groups } => &groups[..usize::from(*count)],
            Kept::Many(groups) => groups,
        }
    }

    /// How many there are.
    ///
    /// # Panics
    /// With more than 2^32.
    #[must_use]
    pub fn count(&self) -> u32 {
        u32::try_from(self.as_slice().len()).expect("no machine has so many groups")
    }
}
