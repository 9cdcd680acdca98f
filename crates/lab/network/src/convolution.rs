//! Normalising constants by convolution (Buzen 1973; Reiser, Kobayashi 1975).
//!
//! Used if a centre's rate depends on the number present: there the marginal probabilities of Mean
//! Value Analysis lose all digits, and sums of positive terms lose none. The constants are `Wide`
//! numbers, whose exponent cannot overflow.
//!
//! A centre whose rate never exceeds its last rate `a` (several servers) is the product of a queue
//! with demand `d / a` and a polynomial with few, positive coefficients: the exact solution for 16
//! servers and N customers takes 16 N steps, not N^2.

use crate::lattice::{Lattice, vectors};
use crate::rates::rate_at;
use crate::wide::Wide;
use crate::{ClassKind, Network, SolveError};

/// A centre of a closed network: demands by closed class and rates by number present.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Station {
    pub(crate) demands: Vec<f64>,
    pub(crate) rates: Vec<f64>,
}

impl Station {
    /// Returns the weight of each state of at most `most` customers: the multinomial coefficient
    /// times demands over rates.
    pub(crate) fn weights(&self, lattice: &Lattice, most: usize) -> Vec<Wide> {
        let mut weights = vec![Wide::ZERO; lattice.points()];
        weights[0] = Wide::ONE;
        let mut vector = vec![0; self.demands.len()];
        for index in 1..lattice.points() {
            lattice.advance(&mut vector);
            let present = vector.iter().sum();
            if present > most {
                continue;
            }
            let mut sum = Wide::ZERO;
            for (class, &demand) in self.demands.iter().enumerate() {
                if vector[class] > 0 {
                    sum += weights[index - lattice.stride(class)] * demand;
                }
            }
            weights[index] = sum * (1.0 / rate_at(&self.rates, present));
        }
        weights
    }

    /// Returns the last rate if no other rate exceeds it.
    fn top_rate(&self) -> Option<f64> {
        let last = self.rates[self.rates.len() - 1];
        self.rates.iter().all(|rate| *rate <= last).then_some(last)
    }

    /// Multiplies the constants of a network by this centre.
    pub(crate) fn convolve(&self, lattice: &Lattice, constants: &mut Vec<Wide>) {
        let Some(top) = self.top_rate() else {
            *constants =
                product(lattice, constants, &self.weights(lattice, usize::MAX), usize::MAX);
            return;
        };
        let degree = self.rates.len() - 1;
        if degree > 0 {
            let polynomial = self.polynomial(lattice, top, degree);
            *constants = product(lattice, constants, &polynomial, degree);
        }
        let demands: Vec<f64> = self.demands.iter().map(|demand| demand / top).collect();
        convolve_queue(lattice, &demands, constants);
    }

    /// Returns the quotient of the centre's weights and the weights of a queue with demand over
    /// `top`.
    fn polynomial(&self, lattice: &Lattice, top: f64, degree: usize) -> Vec<Wide> {
        let mut polynomial = self.weights(lattice, degree);
        // weight(n) = sum of demand * weight(n - 1) / rate(n); the queue takes the same sum over
        // `top`. Their difference is the share 1 - rate(n) / top of the weight, never negative.
        for (index, vector) in vectors(lattice.population()).enumerate().skip(1) {
            let present: usize = vector.iter().sum();
            if present <= degree {
                let share = 1.0 - rate_at(&self.rates, present) / top;
                polynomial[index] = polynomial[index] * share;
            }
        }
        polynomial
    }
}

/// Returns the constants of delays alone: `fixed` to the power of the number, over its factorial.
pub(crate) fn delay_constants(lattice: &Lattice, fixed: &[f64]) -> Vec<Wide> {
    let mut constants = vec![Wide::ONE; lattice.points()];
    let mut vector = vec![0; fixed.len()];
    for index in 1..lattice.points() {
        lattice.advance(&mut vector);
        let class = vector.iter().position(|count| *count > 0).unwrap_or(0);
        let factor = fixed[class] / vector[class] as f64;
        constants[index] = constants[index - lattice.stride(class)] * factor;
    }
    constants
}

/// Multiplies by a queue with one server, in place.
fn convolve_queue(lattice: &Lattice, demands: &[f64], constants: &mut [Wide]) {
    let mut vector = vec![0; demands.len()];
    for index in 1..lattice.points() {
        lattice.advance(&mut vector);
        for (class, &demand) in demands.iter().enumerate() {
            if vector[class] > 0 && demand > 0.0 {
                let before = constants[index - lattice.stride(class)];
                constants[index] += before * demand;
            }
        }
    }
}

/// Returns the product of two generating functions, the second of which has no term above `degree`.
fn product(lattice: &Lattice, left: &[Wide], right: &[Wide], degree: usize) -> Vec<Wide> {
    let terms: Vec<(usize, Vec<usize>, Wide)> = vectors(lattice.population())
        .enumerate()
        .filter(|(index, vector)| {
            vector.iter().sum::<usize>() <= degree && !right[*index].is_zero()
        })
        .map(|(index, vector)| (index, vector, right[index]))
        .collect();
    let mut result = vec![Wide::ZERO; lattice.points()];
    for (index, vector) in vectors(lattice.population()).enumerate() {
        let mut sum = Wide::ZERO;
        for (offset, term, weight) in &terms {
            if *offset > index {
                break;
            }
            if term.iter().zip(&vector).all(|(part, whole)| part <= whole) {
                sum += left[index - offset] * *weight;
            }
        }
        result[index] = sum;
    }
    result
}

/// Returns the constants of delays and stations together, for every population of the lattice.
pub(crate) fn constants<'a>(
    lattice: &Lattice,
    fixed: &[f64],
    stations: impl IntoIterator<Item = &'a Station>,
) -> Vec<Wide> {
    let mut constants = delay_constants(lattice, fixed);
    for station in stations {
        station.convolve(lattice, &mut constants);
    }
    constants
}

/// Returns the probability that no customer is at a centre of a closed network, delays included.
///
/// # Errors
/// A network with open classes, or a network that exceeds the memory limit.
pub fn idle_probability(network: &Network, centre: usize) -> Result<f64, SolveError> {
    network.check()?;
    if network.classes.iter().any(|class| matches!(class.kind, ClassKind::Open { .. })) {
        return Err(SolveError::NotCovered("idle probability with open classes".into()));
    }
    let population = network.population();
    let lattice = crate::exact::lattice_within_memory(&population, 1)?;
    let constant_without = |left_out: Option<usize>| {
        let mut fixed = network.think_times();
        let mut stations = Vec::new();
        for (index, other) in network.centres.iter().enumerate() {
            if Some(index) == left_out {
                continue;
            }
            match other.rates() {
                Some(rates) => stations.push(Station { demands: other.demands.clone(), rates }),
                None => fixed.iter_mut().zip(&other.demands).for_each(|(sum, d)| *sum += d),
            }
        }
        constants(&lattice, &fixed, &stations)[lattice.points() - 1]
    };
    Ok(constant_without(Some(centre)).ratio(constant_without(None)))
}
