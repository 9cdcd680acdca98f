//! Distribution of times in buckets of equal ratio, for percentiles.

/// Buckets for each doubling: a bucket is 1.1 % wide, and values are uniform within it.
const PER_DOUBLING_BITS: u32 = 6;

/// The exponents of 2^-40 (a picosecond) to 2^24 (half a year) in seconds.
const LEAST_BITS: u64 = (1023 - 40) << PER_DOUBLING_BITS;
const BUCKETS: usize = 64 << PER_DOUBLING_BITS;

/// Counts of times by size.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0 }
    }

    #[inline]
    pub(crate) fn add(&mut self, time: f64) {
        let bucket = (time.to_bits() >> (52 - PER_DOUBLING_BITS)).saturating_sub(LEAST_BITS);
        let bucket = usize::try_from(bucket).unwrap_or(BUCKETS).min(BUCKETS - 1);
        self.counts[bucket] += 1;
        self.total += 1;
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.total += other.total;
    }

    /// Returns the time that a share of all times does not exceed; `NaN` if there are none.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        let wanted = share * self.total as f64;
        let mut below = 0.0;
        for (bucket, &count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = count as f64;
            if below + count >= wanted {
                let (low, high) = (edge(bucket), edge(bucket + 1));
                return low + (high - low) * ((wanted - below) / count).clamp(0.0, 1.0);
            }
            below += count;
        }
        f64::NAN
    }
}

fn edge(bucket: usize) -> f64 {
    f64::from_bits((LEAST_BITS + bucket as u64) << (52 - PER_DOUBLING_BITS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::law::exponential;
    use leasehold_base::random::Random;

    #[test]
    fn quantiles_of_an_exponential_law() {
        let mut histogram = Histogram::new();
        let mut random = Random::from_seed(2);
        for _ in 0..1_000_000 {
            histogram.add(5.0 * exponential(&mut random));
        }
        for (share, quantile) in [(0.5, 3.4657), (0.95, 14.9787), (0.99, 23.0259)] {
            assert!((histogram.quantile(share) / quantile - 1.0).abs() < 0.01);
        }
        assert!(Histogram::new().quantile(0.5).is_nan());
    }
}
