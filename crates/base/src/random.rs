//! A seeded generator of random numbers; a seed gives the same numbers on every machine.

/// SplitMix64: small and fast; adequate for simulation and load, but not for secrets.
///
/// A core receives its generator at construction, so that a run is reproducible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Random(u64);

impl Random {
    /// Returns the generator for a seed.
    #[must_use]
    pub const fn from_seed(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number, uniform over all 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        // Constants and shifts are from the published source of SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`, or zero if `bound` is zero.
    pub const fn below(&mut self, bound: u64) -> u64 {
        // The high half of a product is uniform to within 2^-64 times the bound.
        ((self.next_u64() as u128 * bound as u128) >> 64) as u64
    }

    /// Returns true once in `of` calls on average, and never if `of` is zero.
    pub const fn one_in(&mut self, of: u64) -> bool {
        of != 0 && self.below(of) == 0
    }

    /// Returns a new generator, whose numbers do not depend on later use of this one.
    #[must_use]
    pub const fn fork(&mut self) -> Self {
        Self(self.next_u64())
    }
}
