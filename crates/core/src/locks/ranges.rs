//! Ranges of bytes, and the locks that one file has on them.

use core::mem;

use super::{Kind, Under};
use crate::owners::OwnerNumber;

/// A range of bytes of a file, with at least one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Range {
    first: u64,
    last: u64,
}

/// A range is invalid: NFS4ERR_INVAL, or NFS4ERR_BAD_RANGE from a 32-bit server, and nlm4_failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidRange;

impl Range {
    /// Returns the range of an offset and a length as NFSv4 encodes it (RFC 8881 section 18.10.3).
    ///
    /// # Errors
    /// Returns an error if the length is zero, or the range ends behind 2^64 - 1.
    // Rule 1
    pub const fn new(offset: u64, length: u64) -> Result<Self, InvalidRange> {
        match (length, offset.checked_add(length)) {
            (0, _) => Err(InvalidRange),
            (u64::MAX, _) => Ok(Self::to_end(offset)),
            (_, None) => Err(InvalidRange),
            (_, Some(end)) => Ok(Self { first: offset, last: end - 1 }),
        }
    }

    /// Returns the range from an offset to the end of the file, however long the file is.
    #[must_use]
    pub const fn to_end(offset: u64) -> Self {
        Self { first: offset, last: u64::MAX }
    }

    /// Returns the offset of the first byte.
    #[must_use]
    pub const fn offset(self) -> u64 {
        self.first
    }

    /// Returns the offset of the last byte; `None` if the range extends to the end of the file.
    #[must_use]
    pub const fn last(self) -> Option<u64> {
        if self.last == u64::MAX { None } else { Some(self.last) }
    }

    /// Returns the length as NFSv4 encodes it: 2^64 - 1 if the range extends to the end of the
    /// file.
    #[must_use]
    pub const fn length(self) -> u64 {
        match self.last() {
            Some(last) => last - self.first + 1,
            None => u64::MAX,
        }
    }

    pub(super) const fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// Returns true if the two ranges overlap or are adjacent.
    const fn touches(self, other: Self) -> bool {
        self.first <= other.last.saturating_add(1) && other.first <= self.last.saturating_add(1)
    }

    fn union(self, other: Self) -> Self {
        Self { first: self.first.min(other.first), last: self.last.max(other.last) }
    }

    /// Returns the parts of this range before and behind a range that overlaps it.
    fn without(self, hole: Self) -> [Option<Self>; 2] {
        let before =
            (self.first < hole.first).then(|| Self { first: self.first, last: hole.first - 1 });
        let behind =
            (self.last > hole.last).then(|| Self { first: hole.last + 1, last: self.last });
        [before, behind]
    }
}

/// A lock that an owner has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) range: Range,
    pub(super) under: Under,
    pub(super) owner: OwnerNumber,
    pub(super) kind: Kind,
}

impl Held {
    /// Rule 3: returns true if the lock conflicts with a request.
    pub(super) fn conflicts(&self, owner: Option<OwnerNumber>, range: Range, kind: Kind) -> bool {
        Some(self.owner) != owner
            && (self.kind == Kind::Write || kind == Kind::Write)
            && self.range.overlaps(range)
    }
}

/// The locks of one file in the order of their first bytes. Locks of one owner do not overlap. Most
/// files have one lock, so the list has no spare room.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges(Box<[Held]>);

impl Ranges {
    pub(super) fn iter(&self) -> impl Iterator<Item = &Held> {
        self.0.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Lists the locks that conflict with a request, the lowest first. `None` is an owner without
    /// locks.
    pub(super) fn conflicts(
        &self,
        owner: Option<OwnerNumber>,
        range: Range,
        kind: Kind,
    ) -> impl Iterator<Item = &Held> {
        let below = self.0.iter().take_while(move |held| held.range.first <= range.last);
        below.filter(move |held| held.conflicts(owner, range, kind))
    }

    /// Returns the number of locks that the file would have after [`Self::set`].
    pub(super) fn len_after(
        &self,
        owner: OwnerNumber,
        range: Range,
        new: Option<(Kind, Under)>,
    ) -> usize {
        let kept = self.0.iter().map(|held| match held.fate(owner, range, new) {
            Fate::Stays => 1,
            Fate::Joins => 0,
            Fate::IsCut => held.range.without(range).iter().flatten().count(),
        });
        kept.sum::<usize>() + usize::from(new.is_some())
    }

    /// Rule 2: replaces the owner's locks in a range by a new lock or by none.
    pub(super) fn set(&mut self, owner: OwnerNumber, range: Range, new: Option<(Kind, Under)>) {
        let mut whole = range;
        let mut pieces = Vec::new();
        let mut locks = mem::take(&mut self.0).into_vec();
        locks.retain(|held| match held.fate(owner, range, new) {
            Fate::Stays => true,
            Fate::Joins => {
                whole = whole.union(held.range);
                false
            }
            Fate::IsCut => {
                let parts = held.range.without(range);
                pieces.extend(parts.into_iter().flatten().map(|range| Held { range, ..*held }));
                false
            }
        });
        pieces.extend(new.map(|(kind, under)| Held { range: whole, under, owner, kind }));
        locks.reserve_exact(pieces.len());
        for piece in pieces {
            let key = (piece.range, piece.owner);
            let at = locks.partition_point(|held| (held.range, held.owner) < key);
            locks.insert(at, piece);
        }
        self.0 = locks.into_boxed_slice();
    }

    /// Removes the locks that fulfil a condition, and returns their number.
    pub(super) fn remove(&mut self, goes: impl Fn(&Held) -> bool) -> usize {
        let mut locks = mem::take(&mut self.0).into_vec();
        let before = locks.len();
        locks.retain(|held| !goes(held));
        self.0 = locks.into_boxed_slice();
        before - self.0.len()
    }

    /// Audits the locks.
    pub(super) fn check(&self) {
        for (at, one) in self.0.iter().enumerate() {
            assert!(one.range.first <= one.range.last, "a range is not empty");
            for other in &self.0[at + 1..] {
                assert!(one.range.first <= other.range.first, "locks are in order");
                assert!(!other.conflicts(Some(one.owner), one.range, one.kind), "conflict");
                let alike =
                    (one.owner, one.kind, one.under) == (other.owner, other.kind, other.under);
                assert!(!(alike && one.range.touches(other.range)), "adjacent locks are joined");
                let is_own = one.owner == other.owner;
                assert!(!(is_own && one.range.overlaps(other.range)), "an owner's locks overlap");
            }
        }
    }
}

/// The effect of a change on an earlier lock.
enum Fate {
    Stays,
    /// The lock becomes a part of the new lock.
    Joins,
    /// The lock loses the bytes of the change.
    IsCut,
}

impl Held {
    fn fate(&self, owner: OwnerNumber, range: Range, new: Option<(Kind, Under)>) -> Fate {
        if self.owner != owner || !self.range.touches(range) {
            Fate::Stays
        } else if new == Some((self.kind, self.under)) {
            Fate::Joins
        } else if self.range.overlaps(range) {
            Fate::IsCut
        } else {
            Fate::Stays
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_end_at_most_with_the_greatest_offset() {
        assert_eq!(Range::new(5, 0), Err(InvalidRange));
        assert_eq!(Range::new(5, 1), Ok(Range { first: 5, last: 5 }));
        assert_eq!(Range::new(5, u64::MAX), Ok(Range::to_end(5)));
        assert_eq!(Range::new(u64::MAX, u64::MAX), Ok(Range::to_end(u64::MAX)));
        assert_eq!(Range::new(u64::MAX, 1), Err(InvalidRange));
        assert_eq!(Range::new(2, u64::MAX - 1), Err(InvalidRange));
        assert_eq!(Range::new(1, u64::MAX - 1), Ok(Range { first: 1, last: u64::MAX - 1 }));
    }

    #[test]
    fn a_range_keeps_its_offset_and_length() {
        for (offset, length) in [(0, 1), (7, 3), (0, u64::MAX), (9, u64::MAX), (1, u64::MAX - 1)] {
            let range = Range::new(offset, length).expect("a valid range");
            assert_eq!((range.offset(), range.length()), (offset, length));
        }
    }

    #[test]
    fn ranges_at_the_end_of_the_file_are_adjacent() {
        let last_byte = Range::to_end(u64::MAX);
        let before = Range { first: 0, last: u64::MAX - 1 };
        assert!(last_byte.touches(before) && before.touches(last_byte));
        assert!(!last_byte.overlaps(before));
        assert_eq!(before.union(last_byte), Range::to_end(0));
        assert_eq!(Range::to_end(0).without(last_byte), [Some(before), None]);
    }
}
