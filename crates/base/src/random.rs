//! A seeded generator of random numbers, equal on every machine for one seed.

/// SplitMix64: small, fast, good enough for simulation and load, and no good for secrets.
///
/// A core that needs chance is given one when it is made, so that a run repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Random(u64);

impl Random {
    /// The generator of a seed.
    #[must_use]
    pub const fn from_seed(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number, uniform over all 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        // Constants and shifts are those of SplitMix64 as published by its author.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; zero when `bound` is zero.
    pub const fn below(&mut self, bound: u64) -> u64 {
        // The high half of a product is uniform to within 2^-64 times the bound.
        ((self.next_u64() as u128 * bound as u128) >> 64) as u64
    }

    /// True once in `of` times on average; never when `of` is zero.
    pub const fn one_in(&mut self, of: u64) -> bool {
        of != 0 && self.below(of) == 0
    }

    /// A generator of its own, whose numbers do not depend on how often this one is used later.
    #[must_use]
    pub const fn fork(&mut self) -> Self {
        Self(self.next_u64())
    }
}
