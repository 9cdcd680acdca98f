//! The credentials of calls.

use bytes::Bytes;
use leasehold_base::groups::Groups;
use leasehold_base::xdr::{Encode as _, Writer};
use leasehold_wire::rpc::{AuthSys, OpaqueAuth, flavor};

/// The credential of a user. It is encoded once, and cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    uid: u32,
    gid: u32,
    groups: Groups,
    /// The body of AUTH_SYS; None for AUTH_NONE.
    body: Option<Bytes>,
}

impl Credential {
    /// Returns the credential without a user, which suffices for finding a server.
    #[must_use]
    pub fn none() -> Self {
        Self { uid: u32::MAX, gid: u32::MAX, groups: Groups::default(), body: None }
    }

    /// Returns an AUTH_SYS credential of a user on the named machine. AUTH_SYS carries only the
    /// first 16 groups of a longer list.
    #[must_use]
    pub fn system(machine: &str, uid: u32, gid: u32, groups: &[u32]) -> Self {
        let said = &groups[..groups.len().min(leasehold_base::limits::GROUPS_MAX)];
        let groups = Groups::new(said).unwrap_or_default();
        // A server accepts a machine name of at most 255 bytes with arbitrary contents, so a longer
        // name is truncated.
        let machine_name = &machine.as_bytes()[..machine.len().min(255)];
        let mut writer = Writer::new();
        AuthSys { stamp: 0, machine_name, uid, gid, groups: groups.clone() }.encode(&mut writer);
        Self { uid, gid, groups, body: Some(writer.finish().into_bytes()) }
    }

    /// Returns the user.
    #[must_use]
    pub const fn uid(&self) -> u32 {
        self.uid
    }

    /// Returns the user's main group.
    #[must_use]
    pub const fn gid(&self) -> u32 {
        self.gid
    }

    /// Returns the supplementary groups.
    #[must_use]
    pub fn groups(&self) -> &[u32] {
        self.groups.as_slice()
    }

    /// Returns true if the user is in a group.
    #[must_use]
    pub fn is_in(&self, group: u32) -> bool {
        self.gid == group || self.groups.as_slice().contains(&group)
    }

    pub(crate) fn as_auth(&self) -> OpaqueAuth<'_> {
        match &self.body {
            Some(body) => OpaqueAuth { flavor: flavor::SYS, body },
            None => OpaqueAuth::NONE,
        }
    }
}
