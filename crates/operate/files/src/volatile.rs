//! The unstable ranges of a file on a server: written data that a restart of the server may lose.
//! The memory for the ranges is bounded for a file of any size.

use std::collections::BTreeMap;
use std::ops::Range;

/// The maximum number of ranges. A server that returns another verifier for each WRITE would cause
/// a range for each WRITE. Above the limit all ranges are merged into one range, which is later
/// written again as a whole.
const RANGES_MAX: usize = 4096;

/// The write verifier of the WRITEs of a range; `None` if the server restarted between them.
type Verifier = Option<[u8; 8]>;

/// Written ranges, by their starts. Ranges do not overlap; adjacent ranges with the same verifier
/// are merged.
#[derive(Debug, Default)]
pub(crate) struct Volatile(BTreeMap<u64, (u64, Verifier)>);

impl Volatile {
    /// Adds a range that the server has accepted, but not yet stored on stable storage.
    pub(crate) fn add(&mut self, range: Range<u64>, verifier: Verifier) {
        let Range { mut start, mut end } = range;
        if start >= end {
            return;
        }
        if let Some((&left, &(left_end, of_left))) = self.0.range(..start).next_back()
            && left_end == start
            && of_left == verifier
        {
            start = left;
        }
        if let Some(&(right_end, of_right)) = self.0.get(&end)
            && of_right == verifier
        {
            self.0.remove(&end);
            end = right_end;
        }
        self.0.insert(start, (end, verifier));
        if self.0.len() > RANGES_MAX
            && let (Some((&first, _)), Some((_, &(last, _)))) =
                (self.0.first_key_value(), self.0.last_key_value())
        {
            self.0 = BTreeMap::from([(first, (last, None))]);
        }
    }

    /// Returns true if all written data is on stable storage.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the ranges that the server has lost, given the verifier that COMMIT returned.
    pub(crate) fn lost(self, committed: [u8; 8]) -> Vec<Range<u64>> {
        let lost = self.0.into_iter().filter(|(_, (_, verifier))| *verifier != Some(committed));
        lost.map(|(start, (end, _))| start..end).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_pieces_in_any_order_are_merged() {
        let mut volatile = Volatile::default();
        for piece in [3, 0, 2, 1, 7, 5, 6, 4] {
            volatile.add(piece * 10..(piece + 1) * 10, Some([1; 8]));
        }
        assert_eq!(volatile.0.len(), 1);
        assert_eq!(volatile.lost([2; 8]), vec![0..80]);
    }

    #[test]
    fn ranges_of_another_verifier_are_lost() {
        let mut volatile = Volatile::default();
        volatile.add(0..10, Some([1; 8]));
        volatile.add(10..20, Some([2; 8]));
        volatile.add(20..30, None);
        volatile.add(30..30, Some([3; 8]));
        assert_eq!(volatile.lost([1; 8]), vec![10..20, 20..30]);
    }

    #[test]
    fn many_verifiers_use_bounded_memory() {
        let mut volatile = Volatile::default();
        for piece in 0..100_000_u64 {
            volatile.add(piece * 10..(piece + 1) * 10, Some(piece.to_be_bytes()));
            assert!(volatile.0.len() <= RANGES_MAX);
        }
        let lost = volatile.lost([0xff; 8]);
        let bytes: u64 = lost.iter().map(|range| range.end - range.start).sum();
        assert_eq!(bytes, 1_000_000, "every byte is written again");
    }
}
