//! A caller's supplementary groups.

use crate::limits::GROUPS_MAX;

/// At most 16 group numbers, kept in place (RFC 5531 appendix A allows no more).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Groups {
    count: u8,
    groups: [u32; GROUPS_MAX],
}

impl Groups {
    /// Takes up to 16 groups; none when there are more.
    #[must_use]
    pub fn new(list: &[u32]) -> Option<Self> {
        let mut groups = [0; GROUPS_MAX];
        groups.get_mut(..list.len())?.copy_from_slice(list);
        Some(Self { count: u8::try_from(list.len()).ok()?, groups })
    }

    /// The groups.
    #[must_use]
    pub fn as_slice(&self) -> &[u32] {
        &self.groups[..usize::from(self.count)]
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u32 {
        u32::from(self.count)
    }
}
