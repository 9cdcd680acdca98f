//! All results for one model at once: the curve with bounds and knee, the utilisation of each
//! centre, the effect of a change of each demand, and the verdict in one sentence.
//!
//! A quick computation takes less than the time of a screen frame: small models are solved exactly,
//! others by Bard-Schweitzer. A thorough computation is exact if memory permits.

use crate::effective::{self, Answer};
use crate::knob::{self, Knob};
use crate::slo::Slo;
use crate::spread;
use crate::verdict::{Upgrade, Verdict, most, unit};
use leasehold_lab_network::model::{ClassKind, Model};
use leasehold_lab_network::{
    CentreKind, Network, Solution, SolveError, approximate, bounds, solve,
};
use serde::Serialize;
use std::collections::BTreeMap;

/// The permitted work for a computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Within a frame.
    Quick,
    /// Seconds.
    Thorough,
}

/// The input of a computation.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// The class whose customers are counted and timed; the first closed class when absent.
    pub class: Option<usize>,
    /// The service level.
    pub slo: Slo,
    /// The permitted work.
    pub effort: Effort,
}

/// The results.
#[derive(Clone, Debug, Serialize)]
pub struct View {
    /// The verdict.
    pub verdict: String,
    /// The largest load that keeps the service level.
    pub clients: u32,
    /// The method, in words.
    pub method: &'static str,
    /// Notes on estimates and omissions.
    pub notes: Vec<String>,
    /// The counted class.
    pub class: usize,
    /// The name of its customers.
    pub unit: &'static str,
    /// Its load in the model.
    pub load: f64,
    /// The centre that limits the system.
    pub bottleneck: Option<String>,
    /// The classes.
    pub classes: Vec<ClassView>,
    /// The centres.
    pub centres: Vec<CentreView>,
    /// The curve over the load.
    pub curve: Vec<CurvePoint>,
    /// The load beyond which some customers must wait.
    pub knee: Option<f64>,
    /// The effect of a halved demand and of one more of each centre; busiest first.
    pub sensitivity: Vec<Slope>,
}

/// One class under the model's load.
#[derive(Clone, Debug, Serialize)]
pub struct ClassView {
    /// Its name.
    pub name: String,
    /// Requests a second.
    pub throughput: f64,
    /// Seconds.
    #[serde(flatten)]
    pub times: Times,
}

/// Response times, in seconds; percentiles are estimates.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Times {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// 95 of 100 requests take at most this time.
    pub p95: f64,
    /// 99 of 100 requests take at most this time.
    pub p99: f64,
}

/// One centre under the model's load.
#[derive(Clone, Debug, Serialize)]
pub struct CentreView {
    /// Its name.
    pub name: String,
    /// Busy share of one server, by class; none for a delay.
    pub utilisation: Option<Vec<f64>>,
    /// Customers present, by class.
    pub queue: Vec<f64>,
}

/// The results for one load.
#[derive(Clone, Debug, Serialize)]
pub struct CurvePoint {
    /// Customers, or arrivals a second.
    pub load: f64,
    /// Requests a second.
    pub throughput: f64,
    /// Seconds.
    #[serde(flatten)]
    pub times: Times,
    /// The lower bound of the mean response time, if known.
    pub response_least: Option<f64>,
    /// The upper bound of the mean response time, if known.
    pub response_most: Option<f64>,
    /// The upper bound of the throughput.
    pub throughput_most: f64,
    /// The lower bound of the throughput, if known.
    pub throughput_least: Option<f64>,
}

/// The effect of a change of one centre, or of all centres of one kind.
#[derive(Clone, Debug, Serialize)]
pub struct Slope {
    /// The centre, or the common part of the names of several.
    pub name: String,
    /// The number of centres.
    pub centres: usize,
    /// The utilisation.
    pub utilisation: f64,
    /// The utilisation under the largest load that keeps the service level.
    pub utilisation_then: f64,
    /// The bounded time with half of its demand.
    pub halved_response: f64,
    /// The throughput with half of its demand.
    pub halved_throughput: f64,
    /// The largest load with half of its demand.
    pub halved_clients: u32,
    /// The largest load with one more of it; none for a delay.
    pub more_clients: Option<u32>,
}

/// The largest number of loads in a curve.
const POINTS: usize = 48;

/// The largest load that a verdict considers.
const MOST: u32 = 100_000;

/// The largest number of steps of one quick solution: with the two hundred solutions of a view, a
/// few milliseconds.
const QUICK_STEPS: f64 = 60_000.0;

/// The largest number of steps of a thorough solution.
const THOROUGH_STEPS: f64 = 2e8;

/// Computes the results.
///
/// # Errors
/// The model has no solution: open classes beyond the capacity, or a class without demand.
pub fn view(model: &Model, question: &Question) -> Result<View, String> {
    let closed = |class: &leasehold_lab_network::model::Class| {
        matches!(class.kind, ClassKind::Closed { .. })
    };
    let first = || model.classes.iter().position(closed).unwrap_or(0);
    let class = question.class.unwrap_or_else(first);
    let viewer = Viewer { model, class, slo: question.slo, effort: question.effort };
    viewer.view().map_err(|error| error.to_string())
}

struct Viewer<'a> {
    model: &'a Model,
    class: usize,
    slo: Slo,
    effort: Effort,
}

impl Viewer<'_> {
    fn view(&self) -> Result<View, SolveError> {
        let model = self.model;
        let load = self.load();
        let here = self.answer(model)?;
        let limits = Limits::of(&here, self.class);
        let clients = self.most_clients(model, 0)?;
        let then = self.answer(&self.loaded(model, f64::from(clients.max(1))))?;
        let sensitivity = self.sensitivity(&here, &then, clients)?;
        let mut upgrades: Vec<Upgrade> = sensitivity
            .iter()
            .filter_map(|slope| {
                let centre = slope.name.clone();
                let utilisation = slope.utilisation_then;
                slope.more_clients.map(|clients| Upgrade { centre, utilisation, clients })
            })
            .collect();
        upgrades.sort_by(|a, b| b.utilisation.total_cmp(&a.utilisation));
        let class = &model.classes[self.class];
        let verdict = Verdict {
            class,
            slo: self.slo,
            most: MOST,
            clients,
            reached: self.bounded(&self.loaded(model, f64::from(clients.max(1))))?,
            beyond: self.bounded(&self.loaded(model, f64::from(clients) + 1.0))?,
            upgrades: upgrades.get(..4).unwrap_or(&upgrades),
        };
        Ok(View {
            verdict: verdict.sentence(),
            clients,
            method: self.method(&here.network),
            notes: effective::notes(model),
            class: self.class,
            unit: unit(class).1,
            load,
            bottleneck: here
                .solution
                .bottleneck(&here.network)
                .map(|at| here.network.centres[at].name.clone()),
            classes: classes(&here),
            centres: centres(&here),
            curve: self.curve(load, clients, &limits)?,
            knee: limits.knee(),
            sensitivity,
        })
    }

    fn load(&self) -> f64 {
        match &self.model.classes[self.class].kind {
            ClassKind::Closed { population, .. } => population.base(),
            ClassKind::Open { rate, .. } => rate.base(),
        }
    }

    fn loaded(&self, model: &Model, load: f64) -> Model {
        let mut model = model.clone();
        match &mut model.classes[self.class].kind {
            ClassKind::Closed { population, .. } => population.value = load,
            ClassKind::Open { rate, .. } => rate.value = load,
        }
        model
    }

    fn is_exact(&self, network: &Network) -> bool {
        let limit = match self.effort {
            Effort::Quick => QUICK_STEPS,
            Effort::Thorough => THOROUGH_STEPS,
        };
        steps(network) <= limit
    }

    fn method(&self, network: &Network) -> &'static str {
        if self.is_exact(network) { "exact" } else { "Bard-Schweitzer" }
    }

    fn answer(&self, model: &Model) -> Result<Answer, SolveError> {
        effective::answer(model, &|network: &Network| -> Result<Solution, SolveError> {
            if self.is_exact(network) {
                return solve(network);
            }
            let closed = network.population().iter().any(|count| *count > 0);
            let open = network.arrival_rates().iter().any(|rate| *rate > 0.0);
            if open || !closed {
                solve(network)
            } else {
                approximate::bard_schweitzer(&plain(network))
            }
        })
    }

    fn times(&self, answer: &Answer, class: usize) -> Times {
        times(&answer.ways[class])
    }

    /// Returns the time that the service level bounds; infinite if open classes exceed the
    /// capacity.
    fn bounded(&self, model: &Model) -> Result<f64, SolveError> {
        let answer = match self.answer(model) {
            Ok(answer) => answer,
            Err(SolveError::Saturated { .. }) => return Ok(f64::INFINITY),
            Err(error) => return Err(error),
        };
        let ways = &answer.ways[self.class];
        Ok(self
            .slo
            .share()
            .map_or_else(|| spread::mean(ways), |share| spread::quantile(ways, share)))
    }

    /// Returns the largest load that keeps the service level, at least `known`.
    fn most_clients(&self, model: &Model, known: u32) -> Result<u32, SolveError> {
        most(known, MOST, &mut |count| {
            Ok(self.bounded(&self.loaded(model, f64::from(count)))? < self.slo.bound)
        })
    }

    fn curve(
        &self,
        load: f64,
        clients: u32,
        limits: &Limits,
    ) -> Result<Vec<CurvePoint>, SolveError> {
        let is_closed = limits.cycle.is_some();
        let loads = if is_closed {
            let knee = limits.knee().unwrap_or(0.0);
            let near = f64::from(clients).min(8.0 * load.max(knee).max(5.0)) * 1.2;
            whole_loads(nice(near.max(load * 1.2).max(knee * 1.8).max(8.0)), load)
        } else {
            let most = limits.cap.min(1e12);
            (1..=POINTS).map(|step| 0.985 * most * step as f64 / POINTS as f64).collect()
        };
        let mut points = Vec::new();
        for load in loads {
            let model = self.loaded(self.model, load);
            match self.answer(&model) {
                Ok(answer) => {
                    // The textbook bounds do not cover parts that overlap.
                    let is_plain = answer.overlap[self.class] == 0.0;
                    let balanced = bounds::bounds(&answer.network).ok().filter(|_| is_plain);
                    points.push(CurvePoint {
                        load,
                        throughput: answer.solution.throughput[self.class],
                        times: self.times(&answer, self.class),
                        response_least: limits.response_least(load),
                        response_most: balanced.map(|all| all.balanced.response.most),
                        throughput_most: limits.throughput_most(load),
                        throughput_least: balanced.map(|all| all.balanced.throughput.least),
                    });
                }
                Err(SolveError::Saturated { .. }) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(points)
    }

    /// Varies centres together whose names differ only by a number.
    fn sensitivity(
        &self,
        here: &Answer,
        then: &Answer,
        known: u32,
    ) -> Result<Vec<Slope>, SolveError> {
        let mut kinds: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (index, centre) in self.model.centres.iter().enumerate() {
            if here.network.centres[index].demands.iter().any(|demand| *demand > 0.0) {
                kinds.entry(stem(&centre.name)).or_default().push(index);
            }
        }
        let mut slopes = Vec::new();
        for (name, members) in kinds {
            let used = |answer: &Answer| {
                let of = |at: &usize| answer.solution.utilisation[*at].iter().sum::<f64>();
                let queues = members
                    .iter()
                    .filter(|at| here.network.centres[**at].kind != CentreKind::Delay);
                queues.map(of).fold(0.0, f64::max)
            };
            let count = members.len() as f64;
            let halved = self.turned(&members, 0.5);
            let answer = self.answer(&halved)?;
            let first = &self.model.centres[members[0]];
            let more = match (members.len(), knob::servers(&first.kind)) {
                (_, None) => None,
                (1, Some(servers)) => {
                    let knob = Knob::Servers(first.name.clone());
                    knob.turn(self.model, (servers + 1) as f64).ok()
                }
                _ => Some(self.turned(&members, count / (count + 1.0))),
            };
            let clients = more.map(|more| self.most_clients(&more, known)).transpose()?;
            slopes.push(Slope {
                name: if members.len() > 1 { name.into() } else { first.name.clone() },
                centres: members.len(),
                utilisation: used(here),
                utilisation_then: used(then),
                halved_response: self.bounded(&halved)?,
                halved_throughput: answer.solution.throughput[self.class],
                halved_clients: self.most_clients(&halved, known)?,
                more_clients: clients,
            });
        }
        slopes.sort_by(|a, b| b.utilisation.total_cmp(&a.utilisation));
        Ok(slopes)
    }

    /// Returns the model with all demands at some centres multiplied by a factor.
    fn turned(&self, members: &[usize], factor: f64) -> Model {
        let mut model = self.model.clone();
        for member in members {
            for class in &mut model.classes {
                if let Some(demand) = class.demands.get_mut(&self.model.centres[*member].name) {
                    demand.value *= factor;
                }
            }
        }
        model
    }
}

/// Returns the name without the number at its end.
fn stem(name: &str) -> &str {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end();
    if stem.is_empty() { name } else { stem }
}

fn times(ways: &[spread::Way]) -> Times {
    Times {
        mean: spread::mean(ways),
        p50: spread::quantile(ways, 0.5),
        p95: spread::quantile(ways, 0.95),
        p99: spread::quantile(ways, 0.99),
    }
}

fn classes(here: &Answer) -> Vec<ClassView> {
    let all = here.network.classes.iter().enumerate();
    all.map(|(index, class)| ClassView {
        name: class.name.clone(),
        throughput: here.solution.throughput[index],
        times: times(&here.ways[index]),
    })
    .collect()
}

fn centres(here: &Answer) -> Vec<CentreView> {
    let all = here.network.centres.iter().enumerate();
    all.map(|(index, centre)| CentreView {
        name: centre.name.clone(),
        utilisation: (centre.kind != CentreKind::Delay)
            .then(|| here.solution.utilisation[index].clone()),
        queue: here.solution.queue[index].clone(),
    })
    .collect()
}

/// Returns the approximate number of steps of an exact solution.
fn steps(network: &Network) -> f64 {
    let classes = network.classes.len() as f64;
    let points: f64 = network.population().iter().map(|count| *count as f64 + 1.0).product();
    let of = |centre: &leasehold_lab_network::Centre| match &centre.kind {
        CentreKind::Delay | CentreKind::Queue => points * classes,
        CentreKind::Servers(servers) => {
            let states = libm::pow(*servers as f64, classes).min(points);
            points * (states + classes)
        }
        CentreKind::LoadDependent(_) => points * points,
    };
    network.centres.iter().map(of).sum()
}

/// Returns the same network with load-dependent centres at their full rate, for approximations.
fn plain(network: &Network) -> Network {
    let mut network = network.clone();
    for centre in &mut network.centres {
        if let CentreKind::LoadDependent(rates) = &centre.kind {
            let top = rates.last().copied().unwrap_or(1.0);
            centre.demands.iter_mut().for_each(|demand| *demand /= top);
            centre.kind = CentreKind::Queue;
        }
    }
    network
}

/// The bounds of one class, independent of the other classes.
struct Limits {
    /// Demand of a request without waiting.
    total: f64,
    /// Think time and demand of a closed class.
    cycle: Option<f64>,
    /// Requests per second at the capacity of the tightest centre.
    cap: f64,
    /// True if the parts of a request do not overlap.
    is_plain: bool,
}

impl Limits {
    fn of(answer: &Answer, class: usize) -> Self {
        let mut limits = Self {
            total: 0.0,
            cycle: None,
            cap: f64::INFINITY,
            is_plain: answer.overlap[class] == 0.0,
        };
        for centre in &answer.network.centres {
            let demand = centre.demands[class];
            limits.total += demand;
            let rates = centre.rates().unwrap_or_default();
            let top = rates.iter().copied().fold(0.0, f64::max);
            if demand > 0.0 && top > 0.0 {
                limits.cap = limits.cap.min(top / demand);
            }
        }
        if let leasehold_lab_network::ClassKind::Closed { think, .. } =
            answer.network.classes[class].kind
        {
            limits.cycle = Some(think + answer.overlap[class] + limits.total);
        }
        limits
    }

    fn knee(&self) -> Option<f64> {
        let knee = self.cycle? * self.cap;
        knee.is_finite().then_some(knee)
    }

    fn throughput_most(&self, load: f64) -> f64 {
        match self.cycle {
            Some(cycle) if self.is_plain => (load / cycle).min(self.cap),
            Some(_) => self.cap,
            None => load,
        }
    }

    fn response_least(&self, load: f64) -> Option<f64> {
        let crowded = self.cycle.map_or(0.0, |cycle| load / self.cap - (cycle - self.total));
        let least = if self.is_plain { crowded.max(self.total) } else { crowded };
        (least > 0.0).then_some(least)
    }
}

/// Returns the next round number for the end of an axis.
fn nice(value: f64) -> f64 {
    let mut decade = 1.0;
    while decade * 10.0 < value && decade < 1e9 {
        decade *= 10.0;
    }
    [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0]
        .into_iter()
        .map(|step| step * decade)
        .find(|step| *step >= value)
        .unwrap_or(value)
}

/// Returns whole loads up to `most`, including the model's own load.
fn whole_loads(most: f64, own: f64) -> Vec<f64> {
    let most = libm::floor(most);
    let count = most.min(POINTS as f64);
    let mut loads: Vec<f64> = Vec::new();
    let mut index = 1.0;
    while index <= count {
        loads.push(libm::floor(most * index / count));
        index += 1.0;
    }
    loads.extend([1.0, own.max(1.0)]);
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    loads
}
