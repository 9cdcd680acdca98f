//! Share reservations: the access that opens have, and the access that they deny.

/// A set of the two forms of access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Modes {
    /// READ.
    pub read: bool,
    /// WRITE.
    pub write: bool,
}

impl Modes {
    /// Neither form.
    pub const NONE: Self = Self { read: false, write: false };
    /// READ alone.
    pub const READ: Self = Self { read: true, write: false };
    /// WRITE alone.
    pub const WRITE: Self = Self { read: false, write: true };
    /// Both forms.
    pub const BOTH: Self = Self { read: true, write: true };

    /// Returns the set of a protocol value (bit 0 is READ, bit 1 is WRITE); `None` if other bits
    /// are set.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Option<Self> {
        if bits > 3 { None } else { Some(Self { read: bits & 1 != 0, write: bits & 2 != 0 }) }
    }

    /// Returns the protocol value of the set.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.read as u32 | (self.write as u32) << 1
    }

    /// Returns true if no form is in the set.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        !self.read && !self.write
    }

    /// Returns true if a form is in both sets.
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        (self.read && other.read) || (self.write && other.write)
    }

    /// Returns true if each form of the other set is in this set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        (self.read || !other.read) && (self.write || !other.write)
    }

    /// Returns the forms that are in one of the sets.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self { read: self.read || other.read, write: self.write || other.write }
    }
}

/// A share reservation: `share_access` and `share_deny` of OPEN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Share {
    /// The access of the opener.
    pub access: Modes,
    /// The access that the opener denies.
    pub deny: Modes,
}

impl Share {
    /// Rule 3: returns true if two reservations conflict.
    #[must_use]
    pub const fn conflicts(self, other: Self) -> bool {
        self.access.intersects(other.deny) || self.deny.intersects(other.access)
    }
}

/// The values of `share_access` and `share_deny` of the OPENs that one open unites, each as a set
/// of values: bit 2 stands for the value 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Opened {
    accesses: Values,
    denies: Values,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Values(u8);

impl Values {
    const ALL: [Modes; 4] = [Modes::NONE, Modes::READ, Modes::WRITE, Modes::BOTH];

    const fn one(modes: Modes) -> Self {
        Self(1 << modes.bits())
    }

    fn iter(self) -> impl Iterator<Item = Modes> {
        Self::ALL.into_iter().filter(move |modes| self.0 & Self::one(*modes).0 != 0)
    }

    fn union(self) -> Modes {
        self.iter().fold(Modes::NONE, Modes::union)
    }

    /// Returns the values that are subsets of a set.
    fn within(self, whole: Modes) -> Self {
        let values = self.iter().filter(|modes| whole.contains(*modes));
        Self(values.fold(0, |bits, modes| bits | Self::one(modes).0))
    }
}

impl Opened {
    pub(super) const fn new(share: Share) -> Self {
        Self { accesses: Values::one(share.access), denies: Values::one(share.deny) }
    }

    /// Adds an OPEN.
    pub(super) const fn add(&mut self, share: Share) {
        self.accesses.0 |= Values::one(share.access).0;
        self.denies.0 |= Values::one(share.deny).0;
    }

    /// Returns the union of all OPENs.
    pub(super) fn share(self) -> Share {
        Share { access: self.accesses.union(), deny: self.denies.union() }
    }

    /// Rule 4: returns the OPENs that remain after a downgrade; `None` if no subset of the OPENs
    /// has this access or this denied access.
    pub(super) fn downgraded(self, to: Share) -> Option<Self> {
        let left =
            Self { accesses: self.accesses.within(to.access), denies: self.denies.within(to.deny) };
        (left.share() == to).then_some(left)
    }
}

/// The numbers of opens of a file with each form of access and of denied access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    access: [u32; 2],
    deny: [u32; 2],
}

impl Counts {
    pub(super) fn add(&mut self, share: Share) {
        self.change(share, |count| *count += 1);
    }

    pub(super) fn subtract(&mut self, share: Share) {
        self.change(share, |count| *count -= 1);
    }

    /// Returns the union of all opens.
    pub(super) fn share(&self) -> Share {
        let modes = |counts: [u32; 2]| Modes { read: counts[0] > 0, write: counts[1] > 0 };
        Share { access: modes(self.access), deny: modes(self.deny) }
    }

    fn change(&mut self, share: Share, change: impl Fn(&mut u32)) {
        let forms = [(share.access, &mut self.access), (share.deny, &mut self.deny)];
        for (modes, counts) in forms {
            if modes.read {
                change(&mut counts[0]);
            }
            if modes.write {
                change(&mut counts[1]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_have_the_values_of_the_protocol() {
        for bits in 0..4 {
            assert_eq!(Modes::from_bits(bits).map(Modes::bits), Some(bits));
        }
        assert_eq!(Modes::from_bits(4), None);
    }

    #[test]
    fn a_downgrade_needs_a_subset_of_the_opens_with_its_union() {
        let share = |access, deny| Share { access, deny };
        let mut opened = Opened::new(share(Modes::READ, Modes::NONE));
        opened.add(share(Modes::BOTH, Modes::WRITE));
        assert_eq!(opened.share(), share(Modes::BOTH, Modes::WRITE));
        assert_eq!(opened.downgraded(share(Modes::WRITE, Modes::NONE)), None);
        assert_eq!(opened.downgraded(share(Modes::BOTH, Modes::READ)), None);
        let read = opened.downgraded(share(Modes::READ, Modes::NONE)).expect("it was opened");
        assert_eq!(read, Opened::new(share(Modes::READ, Modes::NONE)));
        assert_eq!(read.downgraded(share(Modes::BOTH, Modes::NONE)), None);
        opened.add(share(Modes::WRITE, Modes::NONE));
        assert!(opened.downgraded(share(Modes::WRITE, Modes::WRITE)).is_some());
    }
}
