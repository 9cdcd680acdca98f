//! The identity of a caller: squashing and id maps.

use leasehold_base::groups;
use leasehold_fs::{Caller, NO_USER, NOBODY, SUPERUSER};

/// The mapping of the credentials of a rule's clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The callers that become anonymous.
    pub squash: Squash,
    /// The anonymous user.
    pub anonymous: User,
    /// The map from users at the client to users of this server.
    pub users: IdMap,
    /// The map from groups at the client to groups of this server.
    pub groups_map: IdMap,
    /// The source of group lists.
    pub groups: Groups,
}

impl Identity {
    /// Returns true if the rule changes no caller's identity.
    pub(crate) fn believes_all(&self) -> bool {
        let maps_nobody = self.users.0.is_empty() && self.groups_map.0.is_empty();
        self.squash == Squash::None && maps_nobody
    }
}

/// The callers that become anonymous.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Squash {
    /// All callers.
    All,
    /// No caller.
    #[default]
    None,
    /// The superuser.
    Root,
}

/// A user and its main group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

impl Default for User {
    /// Returns the unprivileged user.
    fn default() -> Self {
        Self { uid: NOBODY, gid: NOBODY }
    }
}

/// The source of a caller's group list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Groups {
    /// The client's credential, which can contain 16 groups besides the main group.
    #[default]
    Client,
    /// This machine's list of the user's groups, which can have any length.
    Server,
}

/// A map from user or group ids at the client to ids of this server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdMap(Vec<Range>);

/// A range of ids at the client, with the ids of this server to which it maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first id at the client.
    pub first: u32,
    /// The last id at the client.
    pub last: u32,
    /// The id of this server to which the first id maps.
    pub to: u32,
    /// True if all ids of the range map to the id `to`. Otherwise the id `first + n` maps to `to +
    /// n`.
    pub to_one: bool,
}

impl IdMap {
    /// Creates a map of these ranges.
    ///
    /// # Errors
    /// Two ranges that overlap.
    pub fn new(mut ranges: Vec<Range>) -> Result<Self, (Range, Range)> {
        ranges.sort_unstable_by_key(|range| range.first);
        match ranges.windows(2).find(|pair| pair[0].last >= pair[1].first) {
            Some(pair) => Err((pair[0], pair[1])),
            None => Ok(Self(ranges)),
        }
    }

    /// Returns the ranges, lowest first.
    #[must_use]
    pub fn ranges(&self) -> &[Range] {
        &self.0
    }

    /// Maps an id at the client to an id of this server.
    #[must_use]
    pub fn of(&self, number: u32) -> u32 {
        let after = self.0.partition_point(|range| range.first <= number);
        match after.checked_sub(1).map(|at| self.0[at]) {
            Some(range) if number <= range.last && range.to_one => range.to,
            // If the result would exceed the greatest id, the id is unchanged.
            Some(range) if number <= range.last => {
                range.to.checked_add(number - range.first).unwrap_or(number)
            }
            Some(_) | None => number,
        }
    }
}

/// The identity under which a call of a caller runs, with the reason for this identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// The user and the groups, before this machine's own list replaces the groups.
    pub caller: Caller,
    /// The reason for the identity.
    pub because: Because,
}

/// The reason for a caller's identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Because {
    /// The claimed credential; maps did not change it.
    Claimed,
    /// The claimed credential after a change by maps.
    Mapped,
    /// Anonymous, because the call has no credential.
    NoCredential,
    /// Anonymous, because the credential is not trusted.
    NotBelieved,
    /// The kernel of this machine reported the user.
    Pinned,
    /// Anonymous, because the rule makes all callers anonymous.
    SquashedAll,
    /// Anonymous, because the caller is the superuser at the client.
    SquashedRoot,
}

impl Identity {
    /// Returns the identity of a caller with a claimed credential.
    pub(super) fn of(&self, claimed: Option<&Caller>) -> Decided {
        let Some(claimed) = claimed else { return self.anonymous(Because::NoCredential) };
        match self.squash {
            Squash::All => self.anonymous(Because::SquashedAll),
            Squash::Root if claimed.uid == SUPERUSER => self.anonymous(Because::SquashedRoot),
            Squash::None | Squash::Root => self.mapped(claimed, Because::Claimed),
        }
    }

    /// Returns the identity of a user of this machine.
    pub(super) fn of_local(&self, uid: u32, gid: u32) -> Decided {
        let caller = Caller { uid, gid, groups: groups::Groups::default() };
        match self.of(Some(&caller)) {
            Decided { caller, because: Because::Claimed } => {
                Decided { caller, because: Because::Pinned }
            }
            decided => decided,
        }
    }

    /// Returns the anonymous user.
    pub(crate) fn anonymous(&self, because: Because) -> Decided {
        let User { uid, gid } = self.anonymous;
        Decided { caller: Caller { uid, gid, groups: groups::Groups::default() }, because }
    }

    fn mapped(&self, claimed: &Caller, because: Because) -> Decided {
        let is_root_group = |gid| self.squash == Squash::Root && gid == SUPERUSER;
        let keeps_groups = self.groups_map.0.is_empty()
            && !claimed.groups.as_slice().iter().copied().any(is_root_group);
        let group = |gid| {
            if is_root_group(gid) { self.anonymous.gid } else { self.groups_map.of(gid) }
        };
        let groups = if keeps_groups {
            claimed.groups.clone()
        } else {
            let list: Vec<u32> = claimed.groups.as_slice().iter().copied().map(group).collect();
            groups::Groups::of_server(&list)
        };
        // A client sends [`NO_USER`] for a user that has no id, and that user becomes anonymous.
        let named = |number, anonymous| if number == NO_USER { anonymous } else { number };
        let User { uid, gid } = self.anonymous;
        let uid = named(self.users.of(claimed.uid), uid);
        let gid = named(group(claimed.gid), gid);
        let caller = Caller { uid, gid, groups };
        let because = if caller == *claimed { because } else { Because::Mapped };
        Decided { caller, because }
    }
}
