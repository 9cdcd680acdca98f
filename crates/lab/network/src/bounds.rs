//! Bounds for one closed class over single servers and delays, without solving.
//!
//! Asymptotic bounds (Denning, Buzen 1978) need only the two ends of the curve. Balanced job bounds
//! (Zahorjan, Sevcik, Eager, Galler 1982; with think time as in Lazowska et al. 1984) compare with
//! networks of equal demands that are slower and faster.

use serde::Serialize;

use crate::{CentreKind, ClassKind, Network, SolveError};

/// The lower and the upper bound of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Range {
    /// The lower bound.
    pub least: f64,
    /// The upper bound.
    pub most: f64,
}

/// Bounds of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bounds {
    /// Requests per second.
    pub throughput: Range,
    /// Seconds.
    pub response: Range,
}

/// Both kinds of bounds, and the population where the asymptotes cross.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct AllBounds {
    /// Asymptotic bounds.
    pub asymptotic: Bounds,
    /// Balanced job bounds.
    pub balanced: Bounds,
    /// The population beyond which some customers must wait: (demand + think) / largest demand.
    pub knee: f64,
}

/// The inputs of the bounds.
struct Demands {
    population: f64,
    think: f64,
    total: f64,
    largest: f64,
    mean: f64,
}

/// Returns the bounds of a network with one closed class.
///
/// # Errors
/// Several classes, an open class, several servers or load-dependent rates: not supported.
pub fn bounds(network: &Network) -> Result<AllBounds, SolveError> {
    let demands = Demands::of(network)?;
    let knee = (demands.total + demands.think) / demands.largest;
    Ok(AllBounds { asymptotic: demands.asymptotic(), balanced: demands.balanced(), knee })
}

impl Demands {
    fn of(network: &Network) -> Result<Self, SolveError> {
        network.check()?;
        let [class] = network.classes.as_slice() else {
            return Err(SolveError::NotCovered("bounds are for one class".into()));
        };
        let ClassKind::Closed { population, think } = class.kind else {
            return Err(SolveError::NotCovered("bounds are for a closed class".into()));
        };
        let mut queues = Vec::new();
        let mut think = think;
        for centre in &network.centres {
            match centre.kind {
                CentreKind::Queue => queues.push(centre.demands[0]),
                CentreKind::Delay => think += centre.demands[0],
                CentreKind::Servers(_) | CentreKind::LoadDependent(_) => {
                    return Err(SolveError::NotCovered("bounds are for single servers".into()));
                }
            }
        }
        let total: f64 = queues.iter().sum();
        if total <= 0.0 || population == 0 {
            return Err(SolveError::NotCovered("bounds need a customer and a demand".into()));
        }
        let largest = queues.iter().copied().fold(0.0, f64::max);
        let mean = total / queues.len() as f64;
        Ok(Self { population: population as f64, think, total, largest, mean })
    }

    /// Returns throughput and response time by Little's law: each bounds the other.
    fn by_throughput(&self, least: f64, most: f64) -> Bounds {
        let response = |throughput: f64| self.population / throughput - self.think;
        Bounds {
            throughput: Range { least, most },
            response: Range { least: response(most), most: response(least) },
        }
    }

    fn asymptotic(&self) -> Bounds {
        let Self { population: n, think, total, largest, .. } = self;
        self.by_throughput(n / (n * total + think), (n / (total + think)).min(1.0 / largest))
    }

    fn balanced(&self) -> Bounds {
        let Self { population: n, think, total, largest, mean } = self;
        let cycle = total + think;
        let slow = cycle + (n - 1.0) * largest / (1.0 + think / (n * total));
        let fast = cycle + (n - 1.0) * mean / (1.0 + think / total);
        self.by_throughput(n / slow, (n / fast).min(1.0 / largest))
    }
}
