//! The versions of NFS that a server offers.

use leasehold_wire::rpc::{ReplyStatus, Versions};
use leasehold_wire::{mount, nfs3};

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

    /// Returns true if the server answers calls of a program in a version. MOUNT 1 and 2 belong to
    /// version 2 of NFS, and MOUNT 3 to version 3.
    #[must_use]
    pub const fn serves(self, program: u32, version: u32) -> bool {
        match (program, version) {
            (nfs3::PROGRAM, _) => self.has(version),
            (mount::PROGRAM, 1 | 2) => self.v2,
            (mount::PROGRAM, 3) => self.v3,
            (mount::PROGRAM, _) => false,
            _ => true,
        }
    }

    /// Checks the program and the version of a call.
    ///
    /// # Errors
    /// The status of the reply.
    pub(crate) fn admit(self, program: u32, version: u32) -> Result<(), ReplyStatus> {
        if self.serves(program, version) {
            return Ok(());
        }
        let served = || (1..=4).filter(|version| self.serves(program, *version));
        Err(match (served().next(), served().next_back()) {
            (Some(low), Some(high)) => ReplyStatus::ProgramMismatch(Versions { low, high }),
            _ => ReplyStatus::ProgramUnavailable,
        })
    }

    /// Returns true if the set has a minor version of version 4.
    pub(crate) const fn has_minor(self, minor: u32) -> bool {
        match minor {
            1 => self.v4_1,
            2 => self.v4_2,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_has_the_lowest_and_the_highest_version() {
        let range = |v2, v3, v4_1, v4_2| {
            let versions = NfsVersions { v2, v3, v4_1, v4_2 };
            match versions.admit(nfs3::PROGRAM, 9) {
                Err(ReplyStatus::ProgramMismatch(Versions { low, high })) => (low, high),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(range(true, true, false, false), (2, 3));
        assert_eq!(range(false, true, false, true), (3, 4));
        assert_eq!(range(false, false, true, false), (4, 4));
    }

    #[test]
    fn versions_of_mount_follow_the_versions_of_nfs() {
        let admit = |v2, v3, version| {
            let versions = NfsVersions { v2, v3, v4_1: false, v4_2: true };
            versions.admit(mount::PROGRAM, version)
        };
        let mismatch = |low, high| Err(ReplyStatus::ProgramMismatch(Versions { low, high }));
        assert_eq!((admit(true, true, 1), admit(true, true, 3)), (Ok(()), Ok(())));
        assert_eq!((admit(false, true, 1), admit(false, true, 3)), (mismatch(3, 3), Ok(())));
        assert_eq!((admit(true, false, 2), admit(true, false, 3)), (Ok(()), mismatch(1, 2)));
        assert_eq!((admit(true, true, 9), admit(true, false, 9)), (mismatch(1, 3), mismatch(1, 2)));
        assert_eq!(admit(false, false, 3), Err(ReplyStatus::ProgramUnavailable));
    }
}
