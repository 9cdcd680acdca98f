//! Exact solutions of open, closed and mixed product-form networks.
//!
//! Open customers are first included in the rates that closed customers see (`rates`); the result
//! is a closed network. Mean Value Analysis solves single servers and delays, and normalising
//! constants solve all other centres. One pass solves every population up to the full one.

use crate::convolution::{Station, constants};
use crate::lattice::{Lattice, vectors};
use crate::mva::{Queues, total_queues};
use crate::rates::{EffectiveRates, beside_open, rate_at};
use crate::wide::Wide;
use crate::{ClassKind, Network, Solution, SolveError};

/// The largest number of stored numbers with 8 bytes for one solution: 1 GiB.
const NUMBERS_LIMIT: u128 = 1 << 27;

/// Returns the lattice up to `population` if `per_point` numbers for each of its points fit in
/// memory.
pub(crate) fn lattice_within_memory(
    population: &[usize],
    per_point: usize,
) -> Result<Lattice, SolveError> {
    let points =
        population.iter().fold(1_u128, |product, &count| product.saturating_mul(count as u128 + 1));
    let numbers = points.saturating_mul(per_point.max(1) as u128);
    let lattice = if numbers <= NUMBERS_LIMIT { Lattice::new(population) } else { None };
    lattice.ok_or(SolveError::TooLarge { numbers, limit: NUMBERS_LIMIT })
}

/// The exact solutions of a network for every population of its closed classes.
#[derive(Clone, Debug)]
pub struct Surface {
    network: Network,
    /// Positions of the closed classes.
    closed: Vec<usize>,
    lattice: Lattice,
    queues: Queues,
    /// The centres of the queues.
    queue_centres: Vec<usize>,
    /// The capacity of each centre that remains beside open customers; `None` for a delay.
    effective: Vec<Option<EffectiveRates>>,
    totals: Vec<f64>,
    constants: Option<Constants>,
}

/// The additional data of load-dependent centres.
#[derive(Clone, Debug)]
struct Constants {
    /// The constants of the whole network.
    whole: Vec<Wide>,
    stations: Vec<Solved>,
}

/// A load-dependent centre within a network.
#[derive(Clone, Debug)]
struct Solved {
    /// Its position.
    centre: usize,
    rates: Vec<f64>,
    /// The weight of each of its states.
    weights: Vec<Wide>,
    /// The constants of the network without this centre.
    without: Vec<Wide>,
}

/// Solves a network for its full population.
///
/// # Errors
/// See [`SolveError`].
pub fn solve(network: &Network) -> Result<Solution, SolveError> {
    Ok(surface(network)?.at(&network.population()))
}

/// Solves a network for every population of its closed classes at once.
///
/// # Errors
/// See [`SolveError`].
pub fn surface(network: &Network) -> Result<Surface, SolveError> {
    network.check()?;
    let effective = effective_rates(network)?;
    let closed: Vec<usize> = (0..network.classes.len())
        .filter(|&class| matches!(network.classes[class].kind, ClassKind::Closed { .. }))
        .collect();
    let mut fixed: Vec<f64> = closed.iter().map(|&class| network.think_times()[class]).collect();
    let mut demands = vec![Vec::new(); closed.len()];
    let mut queue_centres = Vec::new();
    let mut stations = Vec::new();
    for (centre, left) in effective.iter().enumerate() {
        let here = closed.iter().map(|&class| network.centres[centre].demands[class]);
        match left.as_ref().map(|left| left.rates.as_slice()) {
            None => fixed.iter_mut().zip(here).for_each(|(sum, demand)| *sum += demand),
            Some([rate]) => {
                queue_centres.push(centre);
                demands.iter_mut().zip(here).for_each(|(row, demand)| row.push(demand / rate));
            }
            Some(rates) => {
                stations.push((centre, Station { demands: here.collect(), rates: rates.to_vec() }));
            }
        }
    }
    let population: Vec<usize> = closed.iter().map(|&class| network.population()[class]).collect();
    // A double counts one, a wide number two.
    let wide = if stations.is_empty() { 0 } else { 2 * (2 * stations.len() + 3) };
    let lattice = lattice_within_memory(&population, queue_centres.len() + wide)?;
    let queues = Queues { fixed, demands, count: queue_centres.len() };
    let (totals, constants) = if stations.is_empty() {
        (total_queues(&lattice, &queues), None)
    } else {
        let constants = Constants::new(&lattice, &queues, stations);
        (constants.total_queues(&lattice, &queues), Some(constants))
    };
    let network = network.clone();
    Ok(Surface { network, closed, lattice, queues, queue_centres, effective, totals, constants })
}

fn effective_rates(network: &Network) -> Result<Vec<Option<EffectiveRates>>, SolveError> {
    let arrivals = network.arrival_rates();
    let closed = network.population().iter().sum();
    let mut all = Vec::new();
    for centre in &network.centres {
        let load: f64 = arrivals.iter().zip(&centre.demands).map(|(rate, d)| rate * d).sum();
        all.push(match centre.rates() {
            None => None,
            Some(rates) => {
                Some(beside_open(&rates, load, closed).ok_or_else(|| SolveError::Saturated {
                    centre: centre.name.clone(),
                    utilisation: load / centre.top_rate(),
                })?)
            }
        });
    }
    Ok(all)
}

impl Constants {
    fn new(lattice: &Lattice, queues: &Queues, stations: Vec<(usize, Station)>) -> Self {
        let queue_stations: Vec<Station> = (0..queues.count)
            .map(|queue| Station {
                demands: queues.demands.iter().map(|row| row[queue]).collect(),
                rates: vec![1.0],
            })
            .collect();
        let without: Vec<Vec<Wide>> = (0..stations.len())
            .map(|left_out| {
                let others = stations.iter().enumerate().filter(|(index, _)| *index != left_out);
                let others = others.map(|(_, (_, station))| station);
                constants(lattice, &queues.fixed, queue_stations.iter().chain(others))
            })
            .collect();
        let mut whole = without[0].clone();
        stations[0].1.convolve(lattice, &mut whole);
        let stations = stations
            .into_iter()
            .zip(without)
            .map(|((centre, station), without)| Solved {
                centre,
                weights: station.weights(lattice, usize::MAX),
                rates: station.rates,
                without,
            })
            .collect();
        Self { whole, stations }
    }

    /// Returns the throughput of a class at the population with position `index`.
    fn throughput(&self, lattice: &Lattice, index: usize, class: usize) -> f64 {
        self.whole[index - lattice.stride(class)].ratio(self.whole[index])
    }

    /// Runs the recursion of Mean Value Analysis for single servers, with known throughput.
    fn total_queues(&self, lattice: &Lattice, queues: &Queues) -> Vec<f64> {
        let width = queues.count;
        let mut totals = vec![0.0; lattice.points() * width];
        for (index, vector) in vectors(lattice.population()).enumerate() {
            let (before, here) = totals.split_at_mut(index * width);
            for (class, demands) in queues.demands.iter().enumerate() {
                if vector[class] == 0 {
                    continue;
                }
                let throughput = self.throughput(lattice, index, class);
                let seen = &before[(index - lattice.stride(class)) * width..];
                for (queue, demand) in demands.iter().enumerate() {
                    here[queue] += throughput * demand * (1.0 + seen[queue]);
                }
            }
        }
        totals
    }

    /// Returns the probability of each state of a station at `population`, with the state.
    fn marginal(
        &self,
        lattice: &Lattice,
        station: &Solved,
        population: &[usize],
    ) -> Vec<(Vec<usize>, f64)> {
        let top = lattice.index(population);
        vectors(population)
            .map(|state| {
                let here = lattice.index(&state);
                let weight = station.weights[here] * station.without[top - here];
                (state, weight.ratio(self.whole[top]))
            })
            .collect()
    }
}

impl Surface {
    /// Returns the largest population, by class; zero for open classes.
    #[must_use]
    pub fn population(&self) -> Vec<usize> {
        self.network.population()
    }

    /// Returns the solution for a population, by class; entries of open classes are ignored.
    ///
    /// # Panics
    /// Panics if the population of a closed class exceeds the solved population.
    #[must_use]
    pub fn at(&self, population: &[usize]) -> Solution {
        let population: Vec<usize> = self.closed.iter().map(|&class| population[class]).collect();
        let most = self.lattice.population();
        assert!(population.iter().zip(most).all(|(n, most)| n <= most), "not solved so far");
        let index = self.lattice.index(&population);
        let (centres, classes) = (self.network.centres.len(), self.network.classes.len());
        let mut solution = Solution {
            throughput: self.network.arrival_rates(),
            response: vec![0.0; classes],
            queue: vec![vec![0.0; classes]; centres],
            utilisation: vec![vec![0.0; classes]; centres],
            busy: vec![None; centres],
        };
        self.closed_at_queues(&mut solution, &population, index);
        let seen_by_open = self.closed_at_stations(&mut solution, &population);
        self.open_everywhere(&mut solution, &seen_by_open);
        self.derive(&mut solution);
        solution
    }

    /// Sets the throughput of the closed classes, and their queues at single servers and delays.
    fn closed_at_queues(&self, solution: &mut Solution, population: &[usize], index: usize) {
        for (closed, &class) in self.closed.iter().enumerate() {
            if population[closed] == 0 {
                continue;
            }
            let before = index - self.lattice.stride(closed);
            let seen = &self.totals[before * self.queues.count..][..self.queues.count];
            let residence: Vec<f64> = self.queues.demands[closed]
                .iter()
                .zip(seen)
                .map(|(demand, queue)| demand * (1.0 + queue))
                .collect();
            let throughput = match &self.constants {
                Some(constants) => constants.throughput(&self.lattice, index, closed),
                None => {
                    let cycle = residence.iter().fold(self.queues.fixed[closed], |a, b| a + b);
                    population[closed] as f64 / cycle
                }
            };
            solution.throughput[class] = throughput;
            for (&centre, residence) in self.queue_centres.iter().zip(&residence) {
                solution.queue[centre][class] = throughput * residence;
            }
        }
    }

    /// Sets the queues of closed classes at load-dependent centres. Returns, by centre, the factor
    /// for an arriving open customer's demand: the mean of (closed present + 1) / effective rate.
    fn closed_at_stations(&self, solution: &mut Solution, population: &[usize]) -> Vec<f64> {
        let mut slowdown = vec![1.0; self.network.centres.len()];
        for (&centre, queue) in self.queue_centres.iter().zip(0..) {
            let here: f64 = self.totals[self.lattice.index(population) * self.queues.count + queue];
            if let Some(left) = &self.effective[centre] {
                slowdown[centre] = (1.0 + here) / left.rates[0];
                let used: f64 = self.queue_centres_use(solution, centre) / left.rates[0];
                solution.busy[centre] = Some(1.0 - (1.0 - used) * left.idle);
            }
        }
        let Some(constants) = &self.constants else { return slowdown };
        for station in &constants.stations {
            let (centre, mut idle) = (station.centre, 0.0);
            slowdown[centre] = 0.0;
            for (state, probability) in constants.marginal(&self.lattice, station, population) {
                let present: usize = state.iter().sum();
                if present == 0 {
                    idle = probability;
                }
                for (closed, &class) in self.closed.iter().enumerate() {
                    solution.queue[centre][class] += state[closed] as f64 * probability;
                }
                let rate = rate_at(&station.rates, present + 1);
                slowdown[centre] += probability * (present + 1) as f64 / rate;
            }
            if let Some(left) = &self.effective[centre] {
                solution.busy[centre] = Some(1.0 - idle * left.idle);
            }
        }
        slowdown
    }

    /// Returns the throughput times demand of the closed classes at a centre.
    fn queue_centres_use(&self, solution: &Solution, centre: usize) -> f64 {
        self.closed
            .iter()
            .map(|&class| solution.throughput[class] * self.network.centres[centre].demands[class])
            .sum()
    }

    fn open_everywhere(&self, solution: &mut Solution, slowdown: &[f64]) {
        for (class, rate) in self.network.arrival_rates().into_iter().enumerate() {
            if matches!(self.network.classes[class].kind, ClassKind::Open { .. }) {
                for (centre, factor) in slowdown.iter().enumerate() {
                    let demand = self.network.centres[centre].demands[class];
                    solution.queue[centre][class] = rate * demand * factor;
                    solution.response[class] += demand * factor;
                }
            }
        }
    }

    /// Derives delays, utilisation and response from throughput and queues (Little's law).
    fn derive(&self, solution: &mut Solution) {
        for (index, centre) in self.network.centres.iter().enumerate() {
            for (class, demand) in centre.demands.iter().enumerate() {
                let used = solution.throughput[class] * demand;
                solution.utilisation[index][class] = used / centre.server_count();
                if self.effective[index].is_none() {
                    solution.queue[index][class] = used;
                }
            }
        }
        for &class in &self.closed {
            let present: f64 = solution.queue.iter().map(|row| row[class]).sum();
            if solution.throughput[class] > 0.0 {
                solution.response[class] = present / solution.throughput[class];
            }
        }
    }
}
