//! The versions of NFS that a server offers.

use leasehold_wire::rpc::Versions;

/// A set of versions of NFS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NfsVersions {
    /// Version 2.
    pub v2: bool,
    /// Version 3.
    pub v3: bool,
    /// Version 4, minor version 1.
    pub v4_1: bool,
    /// Version 4, minor version 2.
    pub v4_2: bool,
}

impl Default for NfsVersions {
    /// Returns versions 2 and 3.
    fn default() -> Self {
        Self { v2: true, v3: true, v4_1: false, v4_2: false }
    }
}

impl NfsVersions {
    /// Returns true if the set has a minor version of version 4.
    #[must_use]
    pub const fn has_v4(self) -> bool {
        self.v4_1 || self.v4_2
    }

    /// Returns true if the set has a version.
    pub(crate) const fn has(self, version: u32) -> bool {
        match version {
            2 => self.v2,
            3 => self.v3,
            4 => self.has_v4(),
            _ => false,
        }
    }

    /// Returns true if the set has a minor version of version 4.
    pub(crate) const fn has_minor(self, minor: u32) -> bool {
        match minor {
            1 => self.v4_1,
            2 => self.v4_2,
            _ => false,
        }
    }

    /// Returns the lowest and the highest version, for a call of another version.
    pub(crate) fn range(self) -> Versions {
        let served = || (2..=4).filter(|version| self.has(*version));
        Versions { low: served().next().unwrap_or(0), high: served().next_back().unwrap_or(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_has_the_lowest_and_the_highest_version() {
        let range = |v2, v3, v4_1, v4_2| {
            let Versions { low, high } = NfsVersions { v2, v3, v4_1, v4_2 }.range();
            (low, high)
        };
        assert_eq!(range(true, true, false, false), (2, 3));
        assert_eq!(range(false, true, false, true), (3, 4));
        assert_eq!(range(false, false, true, false), (4, 4));
    }
}
