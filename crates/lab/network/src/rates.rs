//! Rates of load-dependent centres, and what open customers leave of them to closed ones.
//!
//! With `j` closed customers present and open ones coming at load `r` (arrival rate times
//! demand), the weight of a centre's state, summed over the open customers, is
//! `h(j) = sum over o of C(j + o, o) r^o / (a(1) .. a(j + o))`. The closed customers see a centre
//! of rates `h(j - 1) / h(j)`, and the mean number of open customers beside `j` closed ones is
//! `(j + 1) r h(j + 1) / h(j)` (Bruell, Balbo, Afshari 1984, for mixed networks). With no closed
//! customer that is the open centre itself, so one function serves open and mixed networks.

/// Rates by number present, the last one holding from there on, and the weight of being empty.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectiveRates {
    /// `h(j - 1) / h(j)` for `j` from 1; the last one holds for all larger `j`.
    pub rates: Vec<f64>,
    /// `1 / h(0)`: the probability that no open customer is present when no closed one is.
    pub idle: f64,
}

/// The rate with `present` customers, of which there is at least one.
#[must_use]
pub fn rate_at(rates: &[f64], present: usize) -> f64 {
    rates[present.min(rates.len()) - 1]
}

/// What open customers of load `load` leave of `rates` to closed ones; `None` when they saturate
/// the centre.
#[must_use]
pub fn beside_open(rates: &[f64], load: f64) -> Option<EffectiveRates> {
    let last = rates[rates.len() - 1];
    if load >= last {
        return None;
    }
    if load == 0.0 {
        return Some(EffectiveRates { rates: rates.to_vec(), idle: 1.0 });
    }
    // Beyond the listed rates the weights are geometric and their ratio is known.
    let weights: Vec<f64> = (0..rates.len()).map(|closed| weight(rates, load, closed)).collect();
    let mut effective: Vec<f64> = weights.windows(2).map(|pair| pair[0] / pair[1]).collect();
    effective.push(last - load);
    Some(EffectiveRates { rates: effective, idle: 1.0 / weights[0] })
}

/// `h(closed)`: a series of positive terms whose ratio tends to `load / last rate`, below one.
fn weight(rates: &[f64], load: f64, closed: usize) -> f64 {
    let mut term = 1.0;
    for present in 1..=closed {
        term /= rate_at(rates, present);
    }
    let mut sum = term;
    for open in 1_usize.. {
        let total = closed + open;
        let ratio = load * total as f64 / (open as f64 * rate_at(rates, total));
        term *= ratio;
        sum += term;
        // The rest is below a geometric series once past the listed rates and the rising part.
        if total > rates.len() && ratio < 1.0 && term * ratio <= sum * 1e-17 * (1.0 - ratio) {
            break;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_server_loses_what_open_customers_use() {
        let left = beside_open(&[1.0], 0.8).expect("not saturated");
        assert!((left.rates[0] - 0.2).abs() < 1e-15);
        assert!((left.idle - 0.2).abs() < 1e-15);
        assert_eq!(beside_open(&[1.0], 1.0), None);
    }

    #[test]
    fn four_servers_follow_erlang_c() {
        let rates = [1.0, 2.0, 3.0, 4.0];
        let left = beside_open(&rates, 3.2).expect("not saturated");
        let mean_present = 3.2 / left.rates[0];
        assert!((mean_present - 5.585_729_887_149_617_5).abs() < 1e-12);
        assert_eq!(left.rates.len(), 4);
        assert!(left.rates.windows(2).all(|pair| pair[0] <= pair[1]));
    }
}
