//! The largest load that keeps a service level, and the cheapest upgrade for a required load.
//!
//! Response times rise with the load and fall with every upgrade; both searches depend on this.

use crate::Failure;
use crate::knob::{self, Knob};
use crate::progress::Progress;
use crate::simulate;
use crate::slo::Slo;
use leasehold_lab_des::{Options, Quantity, Shortfall};
use leasehold_lab_network::model::{ClassKind, Model};
use leasehold_lab_network::{SolveError, solve};
use leasehold_lab_plan::verdict::most;
use std::collections::{BTreeMap, BTreeSet};

/// The parameters of a search.
#[derive(Debug)]
pub(super) struct Search {
    pub(super) class: usize,
    pub(super) slo: Slo,
    pub(super) most: u32,
    pub(super) effort: u64,
    pub(super) progress: Progress,
}

/// The system at one load.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub(super) response: f64,
    /// Half of the width of its confidence interval; zero for an exact value.
    pub(super) plus_minus: f64,
    pub(super) throughput: f64,
    /// By centre, for one server.
    pub(super) utilisation: Vec<f64>,
    pub(super) lack: Option<Lack>,
}

/// The shortfall of a simulated point at its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lack {
    pub(super) shortfall: Shortfall,
    /// The effort that would probably suffice.
    pub(super) effort: f64,
}

impl Lack {
    /// Returns the warning for a sentence that depends on points with a shortfall.
    pub(super) fn warning(lacks: &[Self], effort: u64) -> String {
        let Some(worst) = lacks.iter().max_by(|a, b| a.effort.total_cmp(&b.effort)) else {
            return String::new();
        };
        let count = lacks.len();
        let (points, they) = if count == 1 { ("a point", "it") } else { ("points", "they") };
        let which = if count == 1 { points.into() } else { format!("{count} {points}") };
        let digit = 10_f64.powf(worst.effort.log10().floor());
        let wanted = (worst.effort / digit).ceil() * digit;
        let advice = if wanted < 1e15 {
            format!("--effort {wanted} should suffice")
        } else {
            "a far larger --effort is necessary".into()
        };
        format!(
            "; this is unsure: {which} behind it ended at --effort {effort} before {they} \
             were finished ({}): {advice}",
            worst.shortfall
        )
    }
}

/// A system, and its known points by load.
#[derive(Debug)]
pub(super) struct System {
    model: Model,
    name: String,
    points: BTreeMap<u32, Point>,
}

/// An upgrade.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) more: Vec<(String, usize)>,
    pub(super) cost: f64,
    pub(super) response: f64,
    pub(super) lack: Option<Lack>,
}

/// The number of upgrades to try before the search fails.
const UPGRADES_MAX: usize = 500;

/// The largest number of servers to add at one centre.
const MORE_MAX: usize = 63;

impl System {
    pub(super) fn new(model: Model, name: impl Into<String>) -> Self {
        Self { model, name: name.into(), points: BTreeMap::new() }
    }

    /// Returns the shortfalls of the points that determine the largest load.
    pub(super) fn lacks(&self, most: u32) -> impl Iterator<Item = Lack> {
        [most, most + 1].into_iter().filter_map(|count| self.points.get(&count)?.lack)
    }
}

impl Search {
    /// Returns true for means of product-form models, which are solved; all others are simulated.
    pub(super) fn is_solved(&self, model: &Model) -> bool {
        self.slo.quantity == Quantity::Response && model.left_out().is_empty()
    }

    /// Returns the model with `count` customers, or arrivals per second.
    fn loaded(&self, model: &Model, count: u32) -> Result<Model, Failure> {
        let class = &model.classes[self.class];
        let knob = match class.kind {
            ClassKind::Closed { .. } => Knob::Population(class.name.clone()),
            ClassKind::Open { .. } => Knob::Rate(class.name.clone()),
        };
        Ok(knob.turn(model, f64::from(count))?)
    }

    /// Returns the point of the system under a load.
    pub(super) fn at(&self, system: &mut System, count: u32) -> Result<Point, Failure> {
        if let Some(known) = system.points.get(&count) {
            return Ok(known.clone());
        }
        let model = self.loaded(&system.model, count)?;
        let point = if self.is_solved(&model) {
            self.solved(&model)
        } else {
            self.simulated(&model, &format!("{} under a load of {count}", system.name))
        };
        let point = point
            .map_err(|failure| Failure::input(format!("{} at {count}: {failure}", system.name)))?;
        system.points.insert(count, point.clone());
        Ok(point)
    }

    fn solved(&self, model: &Model) -> Result<Point, Failure> {
        match solve(&model.network()) {
            Ok(solution) => Ok(Point {
                response: solution.response[self.class],
                plus_minus: 0.0,
                throughput: solution.throughput[self.class],
                utilisation: solution.utilisation.iter().map(|row| row.iter().sum()).collect(),
                lack: None,
            }),
            // An open class beyond the capacity of a centre has an infinite response time.
            Err(SolveError::Saturated { .. }) => Ok(Point {
                response: f64::INFINITY,
                plus_minus: 0.0,
                throughput: f64::NAN,
                utilisation: vec![1.0; model.centres.len()],
                lack: None,
            }),
            Err(error) => Err(Failure::input(error)),
        }
    }

    fn simulated(&self, model: &Model, what: &str) -> Result<Point, Failure> {
        // Few and long replications, so that leases expire often enough within the effort.
        let options = Options {
            replications: 4,
            width: 0.02,
            services_max: self.effort,
            ..Options::default()
        };
        let answer = simulate::simulate(model, options, &self.progress, what)?;
        let class = &model.classes[self.class].name;
        let of_class = |quantity: Quantity| answer.of(quantity, class);
        let response = of_class(self.slo.quantity);
        Ok(Point {
            response: response.map_or(f64::NAN, |interval| interval.mean),
            plus_minus: response.map_or(f64::NAN, |interval| interval.half_width),
            throughput: of_class(Quantity::Throughput).map_or(f64::NAN, |interval| interval.mean),
            utilisation: model.centres.iter().map(|c| answer.utilisation(&c.name)).collect(),
            lack: answer
                .study
                .shortfall()
                .map(|shortfall| Lack { shortfall, effort: answer.study.services_wanted() }),
        })
    }

    fn holds(&self, system: &mut System, count: u32) -> Result<bool, Failure> {
        Ok(self.at(system, count)?.response < self.slo.bound)
    }

    /// Returns the largest load that keeps the service level, which `good` is known to keep:
    /// doubles the step, then bisects.
    pub(super) fn most_clients(&self, system: &mut System, good: u32) -> Result<u32, Failure> {
        most(good, self.most, &mut |count| self.holds(system, count))
    }

    /// Returns the cheapest upgrade that keeps the service level for `clients`: tries upgrades in
    /// the order of their cost. Each has at least as many servers at a centre as are necessary with
    /// unlimited servers at all other centres.
    pub(super) fn cheapest(
        &self,
        model: &Model,
        clients: u32,
        prices: &[(String, f64)],
    ) -> Result<Found, Failure> {
        let point = |more: &[usize]| -> Result<Point, Failure> {
            let mut system = System::new(upgrade(model, prices, more)?, format!("plus {more:?}"));
            self.at(&mut system, clients)
        };
        let plenty = vec![MORE_MAX; prices.len()];
        let best = point(&plenty)?.response;
        if best >= self.slo.bound {
            let best = crate::slo::time(best);
            return Err(Failure::input(format!(
                "no upgrade at these prices carries {clients}: with {MORE_MAX} more of each it \
                 would still take {best}"
            )));
        }
        let mut least = vec![0; prices.len()];
        for index in 0..prices.len() {
            least[index] = (0..=MORE_MAX).collect::<Vec<_>>().partition_point(|count| {
                let mut more = plenty.clone();
                more[index] = *count;
                point(&more).is_ok_and(|point| point.response >= self.slo.bound)
            });
        }
        let cost_of = |more: &[usize]| -> f64 {
            more.iter().zip(prices).map(|(count, (_, price))| *count as f64 * price).sum()
        };
        // The bits of positive numbers have the order of the numbers.
        let key = |more: &[usize]| (cost_of(more).to_bits(), more.to_vec());
        let mut open = BTreeSet::from([key(&least)]);
        for _ in 0..UPGRADES_MAX {
            let Some((_, more)) = open.pop_first() else { break };
            let Point { response, lack, .. } = point(&more)?;
            if response < self.slo.bound {
                let names = prices.iter().map(|(name, _)| name.clone());
                let cost = cost_of(&more);
                return Ok(Found { more: names.zip(more).collect(), cost, response, lack });
            }
            for index in 0..prices.len() {
                let mut next = more.clone();
                next[index] += 1;
                open.insert(key(&next));
            }
        }
        let reached = open.first().map_or(f64::NAN, |(cost, _)| f64::from_bits(*cost));
        Err(Failure::input(format!(
            "none of the {UPGRADES_MAX} cheapest upgrades carries {clients}; the others cost \
             {reached} and more"
        )))
    }
}

fn upgrade(model: &Model, prices: &[(String, f64)], more: &[usize]) -> Result<Model, Failure> {
    let mut upgraded = model.clone();
    for ((name, _), count) in prices.iter().zip(more) {
        let centre = model.centres.iter().find(|centre| centre.name == *name);
        let servers = centre.and_then(|centre| knob::servers(&centre.kind)).ok_or_else(|| {
            Failure::input(format!("\"{name}\" is not a centre with servers to add"))
        })?;
        if *count > 0 {
            upgraded = Knob::Servers(name.clone()).turn(&upgraded, (servers + count) as f64)?;
        }
    }
    Ok(upgraded)
}
