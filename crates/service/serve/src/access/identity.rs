//! Who a caller is here: squashing and maps.

use leasehold_base::groups;
use leasehold_fs::{Caller, NO_USER, NOBODY, SUPERUSER};

/// Who the clients of a rule are here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Who becomes anonymous.
    pub squash: Squash,
    /// Who that is.
    pub anonymous: User,
    /// From users over there to users here.
    pub users: IdMap,
    /// From groups over there to groups here.
    pub groups_map: IdMap,
    /// Whose word counts about groups.
    pub groups: Groups,
}

impl Identity {
    /// Whether everybody is here who he says he is.
    pub(crate) fn believes_all(&self) -> bool {
        let maps_nobody = self.users.0.is_empty() && self.groups_map.0.is_empty();
        self.squash == Squash::None && maps_nobody
    }
}

/// Who becomes anonymous.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Squash {
    /// Everybody.
    All,
    /// Nobody.
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
    /// Nobody in particular.
    fn default() -> Self {
        Self { uid: NOBODY, gid: NOBODY }
    }
}

/// Whose word counts about a caller's groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Groups {
    /// The client's, which can name 16 beside the main one.
    #[default]
    Client,
    /// This machine's list, of any length.
    Server,
}

/// From numbers over there to numbers here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdMap(Vec<Range>);

/// Numbers over there that become others here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first over there.
    pub first: u32,
    /// The last over there.
    pub last: u32,
    /// What the first becomes.
    pub to: u32,
    /// Whether all become that one; otherwise each keeps its distance from the first.
    pub to_one: bool,
}

impl IdMap {
    /// A map of these ranges.
    ///
    /// # Errors
    /// Two that overlap.
    pub fn new(mut ranges: Vec<Range>) -> Result<Self, (Range, Range)> {
        ranges.sort_unstable_by_key(|range| range.first);
        match ranges.windows(2).find(|pair| pair[0].last >= pair[1].first) {
            Some(pair) => Err((pair[0], pair[1])),
            None => Ok(Self(ranges)),
        }
    }

    /// The ranges, lowest first.
    #[must_use]
    pub fn ranges(&self) -> &[Range] {
        &self.0
    }

    /// What a number becomes.
    #[must_use]
    pub fn of(&self, number: u32) -> u32 {
        let after = self.0.partition_point(|range| range.first <= number);
        match after.checked_sub(1).map(|at| self.0[at]) {
            Some(range) if number <= range.last && range.to_one => range.to,
            // The number itself where the distance leads beyond the last that there is.
            Some(range) if number <= range.last => {
                range.to.checked_add(number - range.first).unwrap_or(number)
            }
            Some(_) | None => number,
        }
    }
}

/// Who a caller is here, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// Who it is, but for groups that this machine's own list has.
    pub caller: Caller,
    /// Why.
    pub because: Because,
}

/// Why a caller is whom it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Because {
    /// It said so, and maps left it so.
    Claimed,
    /// It said so, and maps made it another.
    Mapped,
    /// It gave no credential, so it is anonymous.
    NoCredential,
    /// Its word about itself is not believed, so it is anonymous.
    NotBelieved,
    /// The kernel of this machine says so.
    Pinned,
    /// Everybody is anonymous.
    SquashedAll,
    /// It is the superuser over there, who is anonymous here.
    SquashedRoot,
}

impl Identity {
    /// Who somebody is that said this of itself.
    pub(super) fn of(&self, claimed: Option<&Caller>) -> Decided {
        let Some(claimed) = claimed else { return self.anonymous(Because::NoCredential) };
        match self.squash {
            Squash::All => self.anonymous(Because::SquashedAll),
            Squash::Root if claimed.uid == SUPERUSER => self.anonymous(Because::SquashedRoot),
            Squash::None | Squash::Root => self.mapped(claimed, Because::Claimed),
        }
    }

    /// Who a user of this machine is.
    pub(super) fn of_local(&self, uid: u32, gid: u32) -> Decided {
        let caller = Caller { uid, gid, groups: groups::Groups::default() };
        match self.of(Some(&caller)) {
            Decided { caller, because: Because::Claimed } => {
                Decided { caller, because: Because::Pinned }
            }
            decided => decided,
        }
    }

    /// Whoever is nobody in particular.
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
        // A client sends the number of no user for a user that it cannot name.
        let named = |number, anonymous| if number == NO_USER { anonymous } else { number };
        let User { uid, gid } = self.anonymous;
        let uid = named(self.users.of(claimed.uid), uid);
        let gid = named(group(claimed.gid), gid);
        let caller = Caller { uid, gid, groups };
        let because = if caller == *claimed { because } else { Because::Mapped };
        Decided { caller, because }
    }
}
