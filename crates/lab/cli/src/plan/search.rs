//! The largest load that keeps a service level, and the cheapest upgrade for a wanted one.
//!
//! Response times rise with the load and fall with every upgrade; both searches rest on that.

use crate::Failure;
use crate::knob::{self, Knob};
use crate::simulate;
use crate::slo::Slo;
use leasehold_lab_des::{Options, Quantity};
use leasehold_lab_network::model::{ClassKind, Model};
use leasehold_lab_network::solve;
use std::collections::BTreeSet;

/// What is looked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search {
    pub(super) class: usize,
    pub(super) slo: Slo,
    pub(super) most: u32,
    pub(super) effort: u64,
}

/// The system at one load.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub(super) response: f64,
    pub(super) throughput: f64,
    /// By centre, of one server.
    pub(super) utilisation: Vec<f64>,
}

/// An upgrade.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) more: Vec<(String, usize)>,
    pub(super) cost: f64,
    pub(super) response: f64,
}

/// Upgrades to look at before giving up.
const UPGRADES_MAX: usize = 2_000;

impl Search {
    /// Means of product-form models are solved; all else is simulated.
    fn is_solved(&self, model: &Model) -> bool {
        self.slo.quantity == Quantity::Response && model.left_out().is_empty()
    }

    /// How points are found, in words.
    pub(super) fn method(&self, model: &Model) -> &'static str {
        if self.is_solved(model) {
            "solved exactly"
        } else {
            "simulated, the same luck for every variant"
        }
    }

    /// The model with `count` customers, or arrivals a second.
    fn loaded(&self, model: &Model, count: u32) -> Result<Model, Failure> {
        let class = &model.classes[self.class];
        let knob = match class.kind {
            ClassKind::Closed { .. } => Knob::Population(class.name.clone()),
            ClassKind::Open { .. } => Knob::Rate(class.name.clone()),
        };
        knob.turn(model, f64::from(count))
    }

    /// The system under a load.
    pub(super) fn at(&self, model: &Model, count: u32) -> Result<Point, Failure> {
        let model = self.loaded(model, count)?;
        let network = model.network();
        if self.is_solved(&model) {
            return match solve(&network) {
                Ok(solution) => Ok(Point {
                    response: solution.response[self.class],
                    throughput: solution.throughput[self.class],
                    utilisation: solution.utilisation.iter().map(|row| row.iter().sum()).collect(),
                }),
                // An open class beyond what a centre can give waits for ever.
                Err(leasehold_lab_network::SolveError::Saturated { .. }) => Ok(Point {
                    response: f64::INFINITY,
                    throughput: f64::NAN,
                    utilisation: vec![1.0; model.centres.len()],
                }),
                Err(error) => Err(Failure::input(error)),
            };
        }
        // Few replications, each of them long: caches fill and leases run out within the effort.
        let options = Options {
            replications: 4,
            width: 0.02,
            services_max: self.effort,
            ..Options::default()
        };
        let outcomes = simulate::outcomes(&model, options);
        let class = &model.classes[self.class].name;
        let of_class = |quantity: Quantity| {
            let own = outcomes.iter().find(|outcome| {
                let metric = &outcome.metric;
                metric.quantity == quantity && metric.class == *class && metric.centre.is_none()
            });
            own.map_or(f64::NAN, |outcome| outcome.interval.mean)
        };
        let used = |centre: &str| {
            let here = outcomes.iter().filter(|outcome| {
                outcome.metric.quantity == Quantity::Utilisation
                    && outcome.metric.centre.as_deref() == Some(centre)
            });
            here.map(|outcome| outcome.interval.mean).sum()
        };
        Ok(Point {
            response: of_class(self.slo.quantity),
            throughput: of_class(Quantity::Throughput),
            utilisation: model.centres.iter().map(|centre| used(&centre.name)).collect(),
        })
    }

    fn holds(&self, model: &Model, count: u32) -> Result<bool, Failure> {
        Ok(self.at(model, count)?.response < self.slo.bound)
    }

    /// The largest load under which the service level holds: doubling, then halving.
    pub(super) fn most_clients(&self, model: &Model) -> Result<u32, Failure> {
        let (mut good, mut bad) = (0, 1);
        while bad <= self.most && self.holds(model, bad)? {
            good = bad;
            bad = bad.saturating_mul(2);
        }
        bad = bad.min(self.most + 1);
        while bad - good > 1 {
            let middle = good + (bad - good) / 2;
            if self.holds(model, middle)? {
                good = middle;
            } else {
                bad = middle;
            }
        }
        Ok(good)
    }

    /// The cheapest upgrade under which the service level holds for `clients`: all upgrades in
    /// the order of their cost, until one holds.
    pub(super) fn cheapest(
        &self,
        model: &Model,
        clients: u32,
        prices: &[(String, f64)],
    ) -> Result<Option<Found>, Failure> {
        // Costs in thousandths, so that they have an order.
        let cost_of = |more: &[usize]| -> f64 {
            more.iter().zip(prices).map(|(count, (_, price))| *count as f64 * price).sum()
        };
        let key = |more: &[usize]| ((cost_of(more) * 1e3).to_bits(), more.to_vec());
        let none = vec![0; prices.len()];
        let mut open = BTreeSet::from([key(&none)]);
        for _ in 0..UPGRADES_MAX {
            let Some((_, more)) = open.pop_first() else { break };
            let upgraded = upgrade(model, prices, &more)?;
            let point = self.at(&upgraded, clients)?;
            if point.response < self.slo.bound {
                let names = prices.iter().map(|(name, _)| name.clone());
                return Ok(Some(Found {
                    more: names.zip(more.iter().copied()).collect(),
                    cost: cost_of(&more),
                    response: point.response,
                }));
            }
            for index in 0..prices.len() {
                let mut next = more.clone();
                next[index] += 1;
                open.insert(key(&next));
            }
        }
        Ok(None)
    }
}

fn upgrade(model: &Model, prices: &[(String, f64)], more: &[usize]) -> Result<Model, Failure> {
    let mut upgraded = model.clone();
    for ((name, _), count) in prices.iter().zip(more) {
        let centre = model.centres.iter().find(|centre| centre.name == *name);
        let servers = centre.and_then(|centre| knob::servers(&centre.kind)).ok_or_else(|| {
            Failure::input(format!("\"{name}\" is no centre that one can buy more of"))
        })?;
        if *count > 0 {
            upgraded = Knob::Servers(name.clone()).turn(&upgraded, (servers + count) as f64)?;
        }
    }
    Ok(upgraded)
}
