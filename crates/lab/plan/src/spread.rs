//! Percentiles of a response time from the mean times at centres: an estimate.
//!
//! A request takes one of several routes, each a sum of steps; a step with several parts ends with
//! its last part. Steps are assumed to be independent, and the sum of a route to have a gamma
//! distribution with the right mean and variance. For one exponential server this is exact;
//! elsewhere the simulator shows the error.

/// The time of one part of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// The mean, waiting included.
    pub mean: f64,
    /// The variance.
    pub variance: f64,
}

/// One route of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    /// The share of requests that take it.
    pub share: f64,
    /// Its steps, each with its concurrent parts.
    pub steps: Vec<Vec<Part>>,
}

impl Way {
    /// Returns mean and variance of the sum.
    fn moments(&self) -> (f64, f64) {
        self.steps
            .iter()
            .map(|step| last_of(step))
            .fold((0.0, 0.0), |sum, part| (sum.0 + part.mean, sum.1 + part.variance))
    }
}

/// Returns the last of concurrent parts: their average mean, plus a multiple of their average
/// spread that is exact for exponential parts.
#[must_use]
pub fn last_of(parts: &[Part]) -> Part {
    if let [part] = parts {
        return *part;
    }
    let count = parts.len().max(1) as f64;
    let average = |of: fn(&Part) -> f64| parts.iter().map(of).sum::<f64>() / count;
    let (mean, variance) = (average(|part| part.mean), average(|part| part.variance));
    let (mut above, mut spread) = (0.0, 1.0);
    for index in 2..=parts.len() {
        let share = 1.0 / index as f64;
        above += share;
        spread += share * share;
    }
    Part { mean: mean + above * libm::sqrt(variance), variance: variance * spread }
}

/// Returns the mean over all routes.
#[must_use]
pub fn mean(ways: &[Way]) -> f64 {
    ways.iter().map(|way| way.share * way.moments().0).sum()
}

/// The number of bisections for a percentile, enough for all relevant digits.
const HALVINGS: usize = 40;

/// Returns the time that a share of all requests does not exceed.
#[must_use]
pub fn quantile(ways: &[Way], share: f64) -> f64 {
    let laws: Vec<(f64, f64, f64)> = ways
        .iter()
        .map(|way| {
            let (mean, variance) = way.moments();
            (way.share, mean, variance)
        })
        .collect();
    let largest = laws.iter().map(|(_, mean, variance)| mean + libm::sqrt(*variance));
    let mut high = largest.fold(0.0, f64::max);
    if !high.is_finite() {
        return high;
    }
    let below = |time: f64| -> f64 {
        laws.iter().map(|(share, mean, variance)| share * gamma(*mean, *variance, time)).sum()
    };
    while below(high) < share && high > 0.0 && high < 1e12 {
        high *= 2.0;
    }
    let mut low = 0.0;
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        if below(middle) < share {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// Returns the probability that a gamma variable with this mean and variance is at most `time`.
fn gamma(mean: f64, variance: f64, time: f64) -> f64 {
    if variance <= 1e-12 * mean * mean {
        return if time >= mean { 1.0 } else { 0.0 };
    }
    regularised(mean * mean / variance, time * mean / variance)
}

/// The regularised lower incomplete gamma function: its series below the mean, its continued
/// fraction above (Abramowitz, Stegun 6.5.29 and 6.5.31).
fn regularised(shape: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let front = libm::exp(shape * libm::log(x) - x - libm::lgamma(shape));
    if x < shape + 1.0 {
        let (mut term, mut sum, mut n) = (1.0 / shape, 1.0 / shape, shape);
        while term > sum * 1e-13 {
            n += 1.0;
            term *= x / n;
            sum += term;
        }
        return front * sum;
    }
    // Lentz's method.
    let mut b = x + 1.0 - shape;
    let (mut c, mut d) = (1e300, 1.0 / b);
    let mut fraction = d;
    for index in 1..500 {
        let i = f64::from(index);
        let a = -i * (i - shape);
        b += 2.0;
        d = 1.0 / (a * d + b);
        c = b + a / c;
        fraction *= d * c;
        if (d * c - 1.0).abs() < 1e-13 {
            break;
        }
    }
    1.0 - front * fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exponential(mean: f64) -> Part {
        Part { mean, variance: mean * mean }
    }

    #[test]
    fn one_exponential_server_is_exact() {
        let ways = [Way { share: 1.0, steps: vec![vec![exponential(2.0)]] }];
        for share in [0.5, 0.95, 0.99] {
            let exact = -2.0 * libm::log(1.0 - share);
            assert!((quantile(&ways, share) / exact - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn equal_stages_are_exact_and_constants_are_steps() {
        let stages = vec![vec![exponential(1.0)]; 3];
        // P(Erlang(3, 1) <= 6.2958) = 0.95.
        let three = quantile(&[Way { share: 1.0, steps: stages }], 0.95);
        assert!((three - 6.295_794).abs() < 1e-5, "{three}");
        let fixed = Part { mean: 3.0, variance: 0.0 };
        let ways = [
            Way { share: 0.96, steps: vec![vec![fixed]] },
            Way { share: 0.04, steps: vec![vec![exponential(50.0)]] },
        ];
        assert!((quantile(&ways, 0.9) - 3.0).abs() < 1e-6);
        assert!(quantile(&ways, 0.99) > 50.0);
        assert!((mean(&ways) - (0.96 * 3.0 + 0.04 * 50.0)).abs() < 1e-12);
    }

    #[test]
    fn a_fork_ends_with_its_last_part() {
        let last = last_of(&[exponential(1.0); 3]);
        assert!((last.mean - 11.0 / 6.0).abs() < 1e-12);
        assert!((last.variance - (1.0 + 0.25 + 1.0 / 9.0)).abs() < 1e-12);
    }
}
