//! Product-form networks of the reference file, and their comparison with solutions.

use crate::BardSchweitzer;
use leasehold_lab_network::{self as solver, CentreKind, ClassKind, Network, Solution};
use serde::Deserialize;

/// A product-form network and its exact answer.
#[derive(Clone, Debug, Deserialize)]
pub struct ProductForm {
    /// Its short name.
    pub id: String,
    /// The network.
    pub model: Model,
    /// The exact solution.
    pub expect: Expect,
    /// The largest permitted relative error.
    pub tolerance_rel: f64,
    /// The result of Bard-Schweitzer, if the method applies.
    pub bard_schweitzer: Option<BardSchweitzer>,
}

/// A network in the form of the reference file.
#[derive(Clone, Debug, Deserialize)]
pub struct Model {
    /// Closed classes have `n` and `z`, open ones `lambda`.
    pub classes: Vec<Class>,
    /// The centres.
    pub stations: Vec<Station>,
}

/// A class of the reference file.
#[derive(Clone, Debug, Deserialize)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// Population.
    #[serde(rename = "N")]
    pub population: Option<usize>,
    /// Think time in seconds.
    #[serde(rename = "Z")]
    pub think: Option<f64>,
    /// Arrivals per second.
    pub lambda: Option<f64>,
}

/// A centre of the reference file.
#[derive(Clone, Debug, Deserialize)]
pub struct Station {
    /// Its name.
    pub name: String,
    /// `queue`, `delay`, `multiserver` or `loaddep`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Servers of a `multiserver`.
    pub m: Option<usize>,
    /// Relative rates of a `loaddep`.
    pub alpha: Option<Vec<f64>>,
    /// Seconds by class.
    #[serde(rename = "D")]
    pub demands: Vec<f64>,
}

/// Exact results.
#[derive(Clone, Debug, Deserialize)]
pub struct Expect {
    /// Throughput by class.
    #[serde(rename = "X")]
    pub throughput: Vec<f64>,
    /// Response time by class, without think time.
    #[serde(rename = "R")]
    pub response: Vec<f64>,
    /// Mean number present by centre and class.
    #[serde(rename = "Q")]
    pub queue: Vec<Vec<f64>>,
    /// Utilisation of one server by centre and class.
    #[serde(rename = "U")]
    pub utilisation: Vec<Vec<f64>>,
    /// Probability that a customer is at a centre.
    #[serde(rename = "P_busy")]
    pub busy: Vec<Option<f64>>,
}

impl Model {
    /// Returns the network that the solvers read.
    ///
    /// # Panics
    /// Panics if the reference file is damaged.
    #[must_use]
    pub fn network(&self) -> Network {
        let class = |class: &Class| solver::Class {
            name: class.name.clone(),
            kind: match (class.lambda, class.population) {
                (Some(rate), _) => ClassKind::Open { rate },
                (None, Some(population)) => {
                    ClassKind::Closed { population, think: class.think.unwrap_or(0.0) }
                }
                (None, None) => panic!("{} is neither open nor closed", class.name),
            },
        };
        let centre = |station: &Station| solver::Centre {
            name: station.name.clone(),
            kind: match (station.kind.as_str(), station.m, &station.alpha) {
                ("delay", ..) => CentreKind::Delay,
                ("queue", ..) => CentreKind::Queue,
                ("multiserver", Some(servers), _) => CentreKind::Servers(servers),
                ("loaddep", _, Some(rates)) => CentreKind::LoadDependent(rates.clone()),
                (other, ..) => panic!("unknown kind {other}"),
            },
            demands: station.demands.clone(),
        };
        Network {
            classes: self.classes.iter().map(class).collect(),
            centres: self.stations.iter().map(centre).collect(),
        }
    }
}

impl ProductForm {
    /// Returns the largest difference between a solution and the reference, relative to the
    /// reference.
    #[must_use]
    pub fn error(&self, ours: &Solution) -> f64 {
        let rows = |ours: &[Vec<f64>], reference: &[Vec<f64>]| -> f64 {
            let pairs = ours.iter().zip(reference);
            pairs.map(|(ours, reference)| row(ours, reference)).fold(0.0, f64::max)
        };
        row(&ours.throughput, &self.expect.throughput)
            .max(row(&ours.response, &self.expect.response))
            .max(rows(&ours.queue, &self.expect.queue))
            .max(rows(&ours.utilisation, &self.expect.utilisation))
            .max(self.busy_error(ours))
    }

    /// Returns the same difference for the probabilities that a customer is at a centre. A solution
    /// does not contain the probabilities of delays; they are computed individually.
    fn busy_error(&self, ours: &Solution) -> f64 {
        let mut largest = 0.0_f64;
        for (centre, reference) in self.expect.busy.iter().enumerate() {
            if let Some(reference) = reference {
                let asked = || {
                    let idle = solver::idle_probability(&self.model.network(), centre);
                    idle.map_or(f64::NAN, |idle| 1.0 - idle)
                };
                let busy = ours.busy[centre].unwrap_or_else(asked);
                largest = largest.max(row(&[busy], &[*reference]));
            }
        }
        largest
    }
}

/// Returns the largest relative difference in a list; infinite if the lists differ in length.
fn row(ours: &[f64], reference: &[f64]) -> f64 {
    if ours.len() != reference.len() {
        return f64::INFINITY;
    }
    let error = |(ours, reference): (&f64, &f64)| {
        let error = (ours - reference).abs() / reference.abs().max(1e-12);
        if error.is_nan() { f64::INFINITY } else { error }
    };
    ours.iter().zip(reference).map(error).fold(0.0, f64::max)
}
