//! Which pages of a file the kernel may have.

use std::iter;
use std::ops::Range;

use rustix::param::page_size;

/// How many parts of a file are told apart.
const PARTS_MAX: usize = 8;

/// All pages of a file that the kernel may have, and maybe more of them.
#[derive(Debug)]
pub(crate) struct Pages {
    /// The parts of the file that they make up: in order, with gaps between them.
    parts: Vec<Range<u64>>,
    /// Whether it is never known which the kernel has.
    is_unknown: bool,
}

/// The whole pages around so many bytes.
pub(crate) fn around(offset: u64, count: u64) -> Range<u64> {
    let page = page_size() as u64;
    let end = offset.saturating_add(count);
    offset - offset % page..end.checked_next_multiple_of(page).unwrap_or(u64::MAX)
}

/// The whole pages within so many bytes; there may be none.
pub(crate) fn within(offset: u64, count: u64) -> Range<u64> {
    let page = page_size() as u64;
    let end = offset.saturating_add(count);
    offset.checked_next_multiple_of(page).unwrap_or(u64::MAX)..end - end % page
}

impl Pages {
    pub(crate) const fn none() -> Self {
        Self { parts: Vec::new(), is_unknown: false }
    }

    /// Any, and at all times.
    pub(crate) const fn all() -> Self {
        Self { parts: Vec::new(), is_unknown: true }
    }

    pub(crate) const fn is_none(&self) -> bool {
        self.parts.is_empty() && !self.is_unknown
    }

    /// These come; where that makes too many parts, so does what lies in the smallest gap.
    pub(crate) fn add(&mut self, new: &Range<u64>) {
        if new.is_empty() || self.is_unknown {
            return;
        }
        let first = self.parts.partition_point(|part| part.end < new.start);
        let last = self.parts.partition_point(|part| part.start <= new.end);
        let touched = &self.parts[first..last];
        let start = touched.first().map_or(new.start, |part| part.start.min(new.start));
        let end = touched.last().map_or(new.end, |part| part.end.max(new.end));
        self.parts.splice(first..last, iter::once(start..end));
        if self.parts.len() > PARTS_MAX {
            let gap = |at: &usize| self.parts[at + 1].start - self.parts[*at].end;
            let least = (0..PARTS_MAX).min_by_key(gap).expect("there are several");
            let end = self.parts.remove(least + 1).end;
            self.parts[least].end = end;
        }
    }

    /// All of them; there are none from now on.
    pub(crate) fn take(&mut self) -> Vec<Range<u64>> {
        match self.is_unknown {
            true => iter::once(0..u64::MAX).collect(),
            false => std::mem::take(&mut self.parts),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_page_counts_as_read_in_part_and_as_written_whole() {
        let page = page_size() as u64;
        assert_eq!(around(page + 1, 1), page..2 * page);
        assert_eq!(around(page, page), page..2 * page);
        assert_eq!(around(u64::MAX - 1, 9), u64::MAX - (page - 1)..u64::MAX);
        assert_eq!(within(page, page), page..2 * page);
        for (offset, count) in [(page + 1, page), (0, page - 1), (1, 1), (u64::MAX, 1)] {
            assert!(within(offset, count).is_empty(), "{offset} {count}");
        }
        assert_eq!(within(1, 3 * page), page..3 * page);
    }

    #[test]
    fn what_is_not_known_is_dropped_whole_each_time() {
        let mut pages = Pages::all();
        pages.add(&(0..10));
        for _ in 0..2 {
            assert!(pages.take().into_iter().eq(iter::once(0..u64::MAX)));
            assert!(!pages.is_none());
        }
    }

    proptest! {
        #[test]
        fn nothing_that_came_is_left_out(
            added in prop::collection::vec((0_u64..200, 0_u64..12), 0..40),
        ) {
            let (mut pages, mut model) = (Pages::none(), BTreeSet::new());
            let mut had_too_many = false;
            for (start, count) in added {
                pages.add(&(start..start + count));
                model.extend(start..start + count);
                let parts = &pages.parts;
                prop_assert!(parts.len() <= PARTS_MAX);
                prop_assert!(parts.iter().all(|part| !part.is_empty()));
                prop_assert!(parts.windows(2).all(|two| two[0].end < two[1].start), "{parts:?}");
                let has: BTreeSet<_> = parts.iter().cloned().flatten().collect();
                prop_assert!(has.is_superset(&model));
                let begins = |at: &&u64| !at.checked_sub(1).is_some_and(|at| model.contains(&at));
                had_too_many |= model.iter().filter(begins).count() > PARTS_MAX;
                prop_assert!(had_too_many || has == model);
            }
            prop_assert_eq!(pages.is_none(), model.is_empty());
            pages.take();
            prop_assert!(pages.is_none());
        }
    }
}
