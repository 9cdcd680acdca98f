//! Non-negative numbers of double precision with an exponent that never overflows.
//!
//! Normalising constants of a thousand customers span thousands of decimal orders. Logarithms would
//! lose digits; a second exponent loses none.

use core::ops::{Add, AddAssign, Mul};

/// `mantissa` times 2^(512 * `exponent`), with the mantissa in [2^-256, 2^256) or zero.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Wide {
    mantissa: f64,
    exponent: i32,
}

const fn power_of_two(exponent: u64) -> f64 {
    f64::from_bits(exponent << 52)
}

/// 2^256 and related powers, given by their exponent fields (bias 1023).
const UPPER: f64 = power_of_two(1023 + 256);
const LOWER: f64 = power_of_two(1023 - 256);
const STEP_UP: f64 = power_of_two(1023 + 512);
const STEP_DOWN: f64 = power_of_two(1023 - 512);

impl Wide {
    pub(crate) const ZERO: Self = Self { mantissa: 0.0, exponent: 0 };
    pub(crate) const ONE: Self = Self { mantissa: 1.0, exponent: 0 };

    #[inline]
    fn normalised(mantissa: f64, exponent: i32) -> Self {
        if mantissa >= UPPER {
            Self { mantissa: mantissa * STEP_DOWN, exponent: exponent + 1 }
        } else if mantissa < LOWER {
            if mantissa == 0.0 {
                return Self::ZERO;
            }
            Self { mantissa: mantissa * STEP_UP, exponent: exponent - 1 }
        } else {
            Self { mantissa, exponent }
        }
    }

    /// Returns this number divided by another number that is not zero, if the ratio fits a double.
    pub(crate) fn ratio(self, other: Self) -> f64 {
        let quotient = self.mantissa / other.mantissa;
        match self.exponent - other.exponent {
            0 => quotient,
            1 => quotient * STEP_UP,
            -1 => quotient * STEP_DOWN,
            difference if difference > 0 => f64::INFINITY,
            _ => 0.0,
        }
    }

    pub(crate) fn is_zero(self) -> bool {
        self.mantissa == 0.0
    }
}

impl Mul<f64> for Wide {
    type Output = Self;

    /// The magnitude of the factor must lie within 2^-256 and 2^256, or be zero.
    #[inline]
    fn mul(self, factor: f64) -> Self {
        Self::normalised(self.mantissa * factor, self.exponent)
    }
}

impl Mul for Wide {
    type Output = Self;

    #[inline]
    fn mul(self, other: Self) -> Self {
        Self::normalised(self.mantissa * other.mantissa, self.exponent + other.exponent)
    }
}

impl Add for Wide {
    type Output = Self;

    #[inline]
    fn add(self, other: Self) -> Self {
        if self.exponent == other.exponent {
            return Self::normalised(self.mantissa + other.mantissa, self.exponent);
        }
        if self.is_zero() {
            return other;
        }
        if other.is_zero() {
            return self;
        }
        let (large, small) =
            if self.exponent > other.exponent { (self, other) } else { (other, self) };
        if large.exponent - small.exponent > 1 {
            return large;
        }
        Self::normalised(large.mantissa + small.mantissa * STEP_DOWN, large.exponent)
    }
}

impl AddAssign for Wide {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_leave_the_range_of_doubles_and_come_back() {
        let mut product = Wide::ONE;
        for _ in 0..10_000 {
            product = product * 1e30;
        }
        let mut back = product;
        for _ in 0..10_000 {
            back = back * 1e-30;
        }
        assert!((back.ratio(Wide::ONE) - 1.0).abs() < 1e-11);
        assert_eq!(product.ratio(Wide::ONE), f64::INFINITY);
        assert_eq!(Wide::ONE.ratio(product), 0.0);
    }

    #[test]
    fn sums_across_a_step_keep_their_digits() {
        let large = Wide::ONE * LOWER * 0.25;
        let small = Wide::ONE * LOWER * 2.0;
        assert_ne!(large.exponent, small.exponent);
        assert_eq!((large + small).ratio(small), 1.125);
        assert_eq!((small + large).ratio(small), 1.125);
        assert_eq!(Wide::ZERO + large, large);
    }
}
