//! Confidence intervals from independent replications.

use serde::Serialize;

/// A mean with the half width of its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The mean over the replications.
    pub mean: f64,
    /// Half the width of the interval around it.
    pub half_width: f64,
}

impl Interval {
    /// Returns the interval with a confidence level over equally long replications, by Student's t
    /// distribution.
    #[must_use]
    pub fn of(values: &[f64], confidence: f64) -> Self {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        if values.len() < 2 {
            return Self { mean, half_width: f64::INFINITY };
        }
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        let error = libm::sqrt(squares / (count - 1.0) / count);
        let quantile = student_quantile(0.5 + 0.5 * confidence, count - 1.0);
        Self { mean, half_width: quantile * error }
    }

    /// Returns true if the interval contains the value.
    #[must_use]
    pub fn holds(&self, value: f64) -> bool {
        (value - self.mean).abs() <= self.half_width
    }

    /// Returns half width over mean; zero if both are zero.
    #[must_use]
    pub fn relative(&self) -> f64 {
        if self.half_width == 0.0 { 0.0 } else { self.half_width / self.mean.abs() }
    }
}

/// Returns the point that Student's t distribution with `freedom` degrees exceeds with probability
/// `1 - share`, for a share of one half or more (Hill 1970, Algorithm 396 of the ACM, with its
/// normal quantile).
#[must_use]
pub fn student_quantile(share: f64, freedom: f64) -> f64 {
    let two_sided = 2.0 * (1.0 - share);
    if freedom < 1.5 {
        let angle = two_sided * core::f64::consts::FRAC_PI_2;
        return libm::cos(angle) / libm::sin(angle);
    }
    if freedom < 2.5 {
        return libm::sqrt(2.0 / (two_sided * (2.0 - two_sided)) - 2.0);
    }
    let a = 1.0 / (freedom - 0.5);
    let b = 48.0 / (a * a);
    let mut c = ((20_700.0 * a / b - 98.0) * a - 16.0) * a + 96.36;
    let d =
        ((94.5 / (b + c) - 3.0) / b + 1.0) * libm::sqrt(a * core::f64::consts::FRAC_PI_2) * freedom;
    let mut y = libm::pow(d * two_sided, 2.0 / freedom);
    if y > 0.05 + a {
        let x = normal_quantile(share);
        y = x * x;
        if freedom < 5.0 {
            c += 0.3 * (freedom - 4.5) * (x + 0.6);
        }
        c += (((0.05 * d * x - 5.0) * x - 7.0) * x - 2.0) * x + b;
        y = (((((0.4 * y + 6.3) * y + 36.0) * y + 94.5) / c - y - 3.0) / b + 1.0) * x;
        y = libm::expm1(a * y * y);
    } else {
        y = ((1.0
            / (((freedom + 6.0) / (freedom * y) - 0.089 * d - 0.822) * (freedom + 2.0) * 3.0)
            + 0.5 / (freedom + 4.0))
            * y
            - 1.0)
            * (freedom + 1.0)
            / (freedom + 2.0)
            + 1.0 / y;
    }
    libm::sqrt(freedom * y)
}

/// Returns the normal quantile for a share of one half or more: bisection of the error function,
/// exact to the last digits; a run calls it a few times.
fn normal_quantile(share: f64) -> f64 {
    let (mut low, mut high) = (0.0, 40.0);
    for _ in 0..80 {
        let middle = 0.5 * (low + high);
        if 0.5 * libm::erfc(-middle * core::f64::consts::FRAC_1_SQRT_2) < share {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn student_quantiles_equal_the_tables() {
        for (share, freedom, table) in [
            (0.95, 1.0, 6.313_75),
            (0.95, 2.0, 2.919_99),
            (0.95, 4.0, 2.131_85),
            (0.95, 9.0, 1.833_11),
            (0.975, 15.0, 2.131_45),
            (0.95, 31.0, 1.695_52),
            (0.95, 1e6, 1.644_85),
        ] {
            let ours = student_quantile(share, freedom);
            assert!((ours / table - 1.0).abs() < 5e-4, "{share} {freedom}: {ours} {table}");
        }
    }

    #[test]
    fn an_interval_is_as_wide_as_the_values_spread() {
        let interval = Interval::of(&[9.0, 11.0], 0.9);
        assert!((interval.mean - 10.0).abs() < 1e-12);
        assert!((interval.half_width - 6.313_75).abs() < 1e-3);
        assert!(interval.holds(16.0) && !interval.holds(17.0));
    }
}
