//! Approximate Mean Value Analysis for closed networks too large for an exact answer.
//!
//! Bard-Schweitzer (Bard 1979; Schweitzer 1979) assumes that a class' queue shrinks in proportion
//! to its population when one customer leaves. Linearizer (Chandy, Neuse 1982) estimates the error
//! of this assumption and needs about twelve times the work. Compared with exact solutions the
//! error is usually below 5 % for the first and below 0.5 % for the second; `error_against`
//! computes it for a network.
//!
//! A centre with several servers becomes a queue with demand over servers and a delay for the rest
//! (Seidmann, Schweitzer, Shalev-Oren 1987), which adds another error.

mod linearizer;

use crate::{CentreKind, ClassKind, Network, Solution, SolveError};

pub use linearizer::linearizer;

/// The fixed point is reached if no queue changes by more than this share of its class.
const TOLERANCE: f64 = 1e-11;

/// A bound far above the rounds that any network needs to reach the tolerance.
const ROUNDS_MAX: usize = 100_000;

/// The closed network for the iterations: single servers and a fixed delay by class.
struct Iteration {
    population: Vec<f64>,
    fixed: Vec<f64>,
    /// By centre, then class.
    demands: Vec<Vec<f64>>,
}

/// A number for each centre and class, for example a queue or a residence time.
type Table = Vec<Vec<f64>>;

/// Solves a closed network by Bard-Schweitzer.
///
/// # Errors
/// Open classes or load-dependent centres, which the method does not support.
pub fn bard_schweitzer(network: &Network) -> Result<Solution, SolveError> {
    let iteration = Iteration::new(network)?;
    let shift = iteration.zeros();
    let mut queues = iteration.even_spread(&iteration.population);
    iteration.settle(&iteration.population, &shift, &mut queues, TOLERANCE);
    Ok(iteration.solution(network, &shift, &queues))
}

/// Returns the largest relative difference in throughput of a class between an approximation and
/// the exact solution.
#[must_use]
pub fn error_against(exact: &Solution, approximate: &Solution) -> f64 {
    exact
        .throughput
        .iter()
        .zip(&approximate.throughput)
        .filter(|(exact, _)| **exact > 0.0)
        .map(|(exact, approximate)| (approximate / exact - 1.0).abs())
        .fold(0.0, f64::max)
}

impl Iteration {
    fn new(network: &Network) -> Result<Self, SolveError> {
        network.check()?;
        if network.classes.iter().any(|class| matches!(class.kind, ClassKind::Open { .. })) {
            return Err(SolveError::NotCovered("approximations cover closed classes only".into()));
        }
        let mut fixed = network.think_times();
        let mut demands = Vec::new();
        for centre in &network.centres {
            let servers = match centre.kind {
                CentreKind::Delay => f64::INFINITY,
                CentreKind::Queue => 1.0,
                CentreKind::Servers(servers) => servers as f64,
                CentreKind::LoadDependent(_) => {
                    return Err(SolveError::NotCovered(format!(
                        "approximations do not cover the load-dependent centre \"{}\"",
                        centre.name
                    )));
                }
            };
            for (sum, demand) in fixed.iter_mut().zip(&centre.demands) {
                *sum += demand * (1.0 - 1.0 / servers);
            }
            demands.push(centre.demands.iter().map(|demand| demand / servers).collect());
        }
        let population = network.population().into_iter().map(|count| count as f64).collect();
        Ok(Self { population, fixed, demands })
    }

    fn zeros(&self) -> Table {
        vec![vec![0.0; self.population.len()]; self.demands.len()]
    }

    /// Distributes customers evenly over the centres of their class.
    fn even_spread(&self, population: &[f64]) -> Table {
        let mut queues = self.zeros();
        for (class, &count) in population.iter().enumerate() {
            let visited = self.demands.iter().filter(|row| row[class] > 0.0).count();
            for (row, demands) in queues.iter_mut().zip(&self.demands) {
                row[class] = if demands[class] > 0.0 { count / visited as f64 } else { 0.0 };
            }
        }
        queues
    }

    /// Computes the time at each centre with waiting: an arriving customer finds all customers
    /// there except its own share of its class, corrected by `shift` (zero for Bard-Schweitzer).
    fn residence(&self, population: &[f64], shift: &Table, queues: &Table, residence: &mut Table) {
        for (((row, queues), shift), demands) in
            residence.iter_mut().zip(queues).zip(shift).zip(&self.demands)
        {
            let present: f64 = queues.iter().sum();
            let here = row.iter_mut().zip(queues).zip(shift).zip(demands).zip(population);
            for ((((cell, queue), shift), demand), &count) in here {
                if count > 0.0 {
                    let met = present - queue / count + shift;
                    *cell = demand * (1.0 + met.max(0.0));
                }
            }
        }
    }

    /// Iterates until the queues converge.
    fn settle(&self, population: &[f64], shift: &Table, queues: &mut Table, tolerance: f64) {
        let mut residence = self.zeros();
        for _ in 0..ROUNDS_MAX {
            self.residence(population, shift, queues, &mut residence);
            let mut moved = 0.0_f64;
            for (class, &count) in population.iter().enumerate().filter(|(_, n)| **n > 0.0) {
                let cycle = residence.iter().fold(self.fixed[class], |sum, row| sum + row[class]);
                let throughput = count / cycle;
                for (queue, residence) in queues.iter_mut().zip(&residence) {
                    let new = throughput * residence[class];
                    moved = moved.max((new - queue[class]).abs() / count);
                    queue[class] = new;
                }
            }
            if moved < tolerance {
                return;
            }
        }
    }

    fn solution(&self, network: &Network, shift: &Table, queues: &Table) -> Solution {
        let classes = network.classes.len();
        let mut solution = Solution {
            throughput: vec![0.0; classes],
            response: vec![0.0; classes],
            queue: self.zeros(),
            utilisation: self.zeros(),
            busy: vec![None; network.centres.len()],
        };
        let mut residence = self.zeros();
        self.residence(&self.population, shift, queues, &mut residence);
        let think = network.think_times();
        for (class, &count) in self.population.iter().enumerate().filter(|(_, n)| **n > 0.0) {
            let cycle = residence.iter().fold(self.fixed[class], |sum, row| sum + row[class]);
            let throughput = count / cycle;
            solution.throughput[class] = throughput;
            solution.response[class] = cycle - think[class];
            for (index, centre) in network.centres.iter().enumerate() {
                let fixed = centre.demands[class] - self.demands[index][class];
                solution.queue[index][class] = throughput * (residence[index][class] + fixed);
                solution.utilisation[index][class] =
                    throughput * centre.demands[class] / centre.server_count();
            }
        }
        for (index, centre) in network.centres.iter().enumerate() {
            let used = solution.utilisation[index].iter().sum();
            solution.busy[index] = (centre.kind == CentreKind::Queue).then_some(used);
        }
        solution
    }
}
