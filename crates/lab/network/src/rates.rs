//! Rates of load-dependent centres, and the capacity that open customers leave to closed ones.
//!
//! With `j` closed customers present and open customers at load `r` (arrival rate times demand),
//! the weight of a centre's state, summed over the open customers, is `h(j) = sum over o of C(j +
//! o, o) r^o / (a(1) .. a(j + o))`. The closed customers see a centre of rates `h(j - 1) / h(j)`,
//! and the mean number of open customers beside `j` closed ones is `(j + 1) r h(j + 1) / h(j)`
//! (Bruell, Balbo, Afshari 1984, for mixed networks). Without closed customers this is the open
//! centre itself, so one function serves open and mixed networks.
//!
//! `h(j)` is the coefficient of `x^j` in `G(x + r)`, where `G(z)` sums `z^n / (a(1) .. a(n))`. The
//! last rate `a` applies from the `m`-th customer on, so `G` is a polynomial of `m` terms and `z^m
//! / (a(1) .. a(m)) / (1 - z / a)`: both are shifted by `r` with sums of positive terms alone, even
//! near saturation of the centre.

use crate::wide::Wide;

/// Rates by number present, the last rate for larger numbers, and the probability of being empty.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectiveRates {
    /// `h(j - 1) / h(j)` for `j` from 1; the last one applies to all larger `j`.
    pub rates: Vec<f64>,
    /// `1 / h(0)`: the probability that no open customer is present when no closed one is.
    pub idle: f64,
}

/// Returns the rate with `present` customers, at least one.
#[must_use]
pub fn rate_at(rates: &[f64], present: usize) -> f64 {
    rates[present.min(rates.len()) - 1]
}

/// A load below this share of the last rate has no effect on the digits.
const LOAD_LEAST: f64 = 1e-60;

/// Returns the rates that open customers of load `load` leave of `rates` to at most `closed_max`
/// closed customers, or `None` if they saturate the centre.
#[must_use]
pub fn beside_open(rates: &[f64], load: f64, closed_max: usize) -> Option<EffectiveRates> {
    let last = rates[rates.len() - 1];
    if load >= last {
        return None;
    }
    if load < LOAD_LEAST * last {
        return Some(EffectiveRates { rates: rates.to_vec(), idle: 1.0 });
    }
    // One more than can be present: an arriving open customer finds all closed ones.
    let weights = weights(rates, load, (closed_max + 1).min(rates.len() - 1));
    let mut effective: Vec<f64> = weights.windows(2).map(|pair| pair[0].ratio(pair[1])).collect();
    if weights.len() == rates.len() {
        effective.push(last - load);
    }
    Some(EffectiveRates { rates: effective, idle: Wide::ONE.ratio(weights[0]) })
}

/// Returns `h(0)` to `h(most)`, with `most` below the number of rates.
fn weights(rates: &[f64], load: f64, most: usize) -> Vec<Wide> {
    let mut inverse = vec![Wide::ONE];
    for rate in rates {
        let before = inverse[inverse.len() - 1];
        inverse.push(before * (1.0 / rate));
    }
    let (listed, last) = (rates.len(), rates[rates.len() - 1]);
    // The polynomial, shifted by Horner's rule.
    let mut weights = vec![Wide::ZERO; most + 1];
    for term in inverse[..listed].iter().rev() {
        for power in (1..=most).rev() {
            weights[power] = weights[power] * load + weights[power - 1];
        }
        weights[0] = weights[0] * load + *term;
    }
    // The rest: (x + r)^m times the geometric series of x / (a - r).
    let mut binomial = inverse[listed] * (last / (last - load));
    for _ in 0..listed {
        binomial = binomial * load;
    }
    let mut tail = Wide::ZERO;
    for (power, weight) in weights.iter_mut().enumerate() {
        tail = tail * (1.0 / (last - load)) + binomial;
        *weight += tail;
        binomial = binomial * ((listed - power) as f64 / ((power + 1) as f64 * load));
    }
    weights
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_customers_reduce_the_rate_of_one_server() {
        let left = beside_open(&[1.0], 0.8, 5).expect("not saturated");
        assert!((left.rates[0] - 0.2).abs() < 1e-15);
        assert!((left.idle - 0.2).abs() < 1e-15);
        assert_eq!(beside_open(&[1.0], 1.0, 5), None);
    }

    #[test]
    fn four_servers_follow_erlang_c() {
        let rates = [1.0, 2.0, 3.0, 4.0];
        let left = beside_open(&rates, 3.2, 5).expect("not saturated");
        let mean_present = 3.2 / left.rates[0];
        assert!((mean_present - 5.585_729_887_149_617_5).abs() < 1e-12);
        assert_eq!(left.rates.len(), 4);
        assert!(left.rates.windows(2).all(|pair| pair[0] <= pair[1]));
    }

    /// Returns the same sums term by term from their definition.
    fn series(rates: &[f64], load: f64, closed: usize) -> f64 {
        let mut term = 1.0;
        (1..=closed).for_each(|present| term /= rate_at(rates, present));
        let mut sum = term;
        for open in 1..20_000 {
            let present = closed + open;
            term *= load * present as f64 / (open as f64 * rate_at(rates, present));
            sum += term;
        }
        sum
    }

    #[test]
    fn weights_equal_the_series_that_defines_them() {
        for rates in [&[1.0][..], &[1.0, 2.0, 3.0], &[1.0, 1.8, 0.7, 0.9], &[1.0, 0.95, 0.9]] {
            for share in [1e-9, 0.3, 0.9, 0.99] {
                let load = share * rates[rates.len() - 1];
                let left = beside_open(rates, load, 10).expect("not saturated");
                for present in 1..=10 {
                    let (before, here) =
                        (series(rates, load, present - 1), series(rates, load, present));
                    let ours = rate_at(&left.rates, present);
                    assert!((ours * here / before - 1.0).abs() < 1e-11, "{rates:?} {share}");
                }
            }
        }
    }

    #[test]
    fn neither_many_servers_nor_a_full_one_take_long_or_lose_digits() {
        let many: Vec<f64> = (1..=10_000).map(|n| n as f64).collect();
        let left = beside_open(&many, 0.5, 100).expect("not saturated");
        // No customer waits: the n-th closed customer finds a free server.
        for present in 1..=100 {
            assert!((rate_at(&left.rates, present) / present as f64 - 1.0).abs() < 1e-12);
        }
        let load = 1.0 - 1e-12;
        let full = beside_open(&[1.0, 1.0], load, 10).expect("not quite saturated");
        assert!((full.rates[0] / (1.0 - load) - 1.0).abs() < 1e-12, "{full:?}");
    }
}
