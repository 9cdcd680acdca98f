//! A histogram of durations, with buckets whose width grows with the duration.

use core::time::Duration;

/// All durations below 2^10 nanoseconds share one bucket.
const FIRST_BITS: u32 = 10;

/// All durations from 2^36 nanoseconds (over a minute) share one bucket.
const LAST_BITS: u32 = 36;

/// The number of buckets for each doubling, so the end of a bucket is at most a quarter above its
/// beginning.
const PARTS: usize = 4;

/// The number of buckets.
pub const BUCKETS: usize = 2 + (LAST_BITS - FIRST_BITS) as usize * PARTS;

/// A histogram of durations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; BUCKETS],
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: [0; BUCKETS] }
    }
}

impl Histogram {
    /// Counts a duration.
    pub fn add(&mut self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket(nanoseconds)] += 1;
    }

    /// Adds the counts of another histogram.
    pub fn fold(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
    }

    /// Returns the number of counted durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the counts of the buckets. Bucket 0 begins at zero, and each bucket ends at the
    /// beginning of the next bucket.
    #[must_use]
    pub const fn counts(&self) -> &[u64; BUCKETS] {
        &self.counts
    }

    /// Returns a histogram with these counts.
    #[must_use]
    pub const fn of(counts: [u64; BUCKETS]) -> Self {
        Self { counts }
    }

    /// Returns the end of a bucket in nanoseconds; None for the last bucket.
    #[must_use]
    pub fn end_of(bucket: usize) -> Option<u64> {
        if bucket >= BUCKETS - 1 {
            return None;
        }
        let octave = 1 << (FIRST_BITS as usize + bucket / PARTS);
        Some(octave + octave / PARTS as u64 * (bucket % PARTS) as u64)
    }

    /// Returns the duration below which this share of all durations lies: 0.99 for the 99th
    /// percentile. The result is exact to within one bucket; None if the histogram is empty.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        #[allow(clippy::cast_precision_loss, reason = "a share of a count need not be exact")]
        let rank = share * self.count() as f64;
        let mut below = 0.0;
        let mut begin = 0;
        for (bucket, &count) in self.counts.iter().enumerate() {
            #[allow(clippy::cast_precision_loss, reason = "as above")]
            let count = count as f64;
            let end = Self::end_of(bucket).unwrap_or(begin);
            if count > 0.0 && below + count >= rank {
                let within = Duration::from_nanos(end - begin).mul_f64((rank - below) / count);
                return Some(Duration::from_nanos(begin) + within);
            }
            below += count;
            begin = end;
        }
        None
    }
}

/// Returns the bucket of a duration.
fn bucket(nanoseconds: u64) -> usize {
    let Some(bits) = nanoseconds.checked_ilog2().filter(|bits| *bits >= FIRST_BITS) else {
        return 0;
    };
    if bits >= LAST_BITS {
        return BUCKETS - 1;
    }
    // The two bits below the highest bit select the quarter of the doubling.
    let parts = (nanoseconds >> (bits - PARTS.ilog2())) & (PARTS as u64 - 1);
    #[allow(clippy::cast_possible_truncation, reason = "it is below the number of parts")]
    let part = parts as usize;
    1 + (bits - FIRST_BITS) as usize * PARTS + part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_ends_where_the_next_begins() {
        for at in 0..BUCKETS - 1 {
            let end = Histogram::end_of(at).expect("only the last has none");
            assert_eq!((bucket(end - 1), bucket(end)), (at, at + 1), "{end}");
        }
        assert_eq!(Histogram::end_of(0), Some(1 << FIRST_BITS));
        assert_eq!(Histogram::end_of(BUCKETS - 2), Some(1 << LAST_BITS));
        assert_eq!((bucket(0), bucket(u64::MAX)), (0, BUCKETS - 1));
    }

    #[test]
    fn quantiles_are_right_to_within_a_bucket() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        for microseconds in 1..=10_000 {
            histogram.add(Duration::from_micros(microseconds));
        }
        assert_eq!(histogram.count(), 10_000);
        for (share, expected) in [(0.5, 5_000.0), (0.95, 9_500.0), (0.99, 9_900.0)] {
            let found = histogram.quantile(share).expect("some were counted").as_secs_f64() * 1e6;
            assert!((found / expected - 1.0).abs() < 0.13, "{share}: {found}");
        }
        let mut doubled = histogram.clone();
        doubled.fold(&histogram);
        assert_eq!(doubled.quantile(0.9), histogram.quantile(0.9));
        let mut late = Histogram::default();
        late.add(Duration::from_secs(1000));
        assert_eq!(late.quantile(0.5), Some(Duration::from_nanos(1 << LAST_BITS)));
    }
}
