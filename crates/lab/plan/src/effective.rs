//! Caches, leases and forks converted to a network that the solvers support: a fast approximation,
//! which the simulator verifies afterwards.
//!
//! - A cache with least recently used blocks: the hit ratio by Che's approximation (Che, Tung, Wang
//!   2002); a write by another client removes a block.
//! - A lease of term T on a block used at rate r: one use in 1 + rT renews it.
//! - A fork: its parts overlap, so that a cycle is shorter than the sum by the overlap. The solver
//!   receives a think time that is shorter by the overlap.
//!
//! Rates and overlaps depend on the solution, so the network is solved several times.

use crate::spread::{self, Part};
use leasehold_lab_network::model::{Cache, Class, ClassKind, Demand, Law, Model, Scope, Step};
use leasehold_lab_network::{self as solver, Network, Solution};

/// The number of iterations for rates and overlaps; each gains about one decimal digit.
const ROUNDS: usize = 6;

/// The iteration has converged if no value changes by more than this share.
const SETTLED: f64 = 1e-4;

/// A route through the centres: each step names centres and the share of the demand there.
#[derive(Clone, Debug)]
struct Way {
    share: f64,
    steps: Vec<Vec<(usize, f64)>>,
}

/// The solution of a model.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The network that was solved.
    pub network: Network,
    /// Its solution.
    pub solution: Solution,
    /// By class, the routes of a request with their times.
    pub ways: Vec<Vec<spread::Way>>,
    /// By class, seconds that the parts of forks overlap.
    pub overlap: Vec<f64>,
}

/// Returns sentences on the estimates in this model before it is solved.
#[must_use]
pub fn notes(model: &Model) -> Vec<String> {
    let mut notes = Vec::new();
    for class in &model.classes {
        let name = &class.name;
        if class.cache.is_some() {
            notes.push(format!("class \"{name}\": hits of the cache are estimated"));
        }
        if has_fork(class) {
            notes.push(format!("class \"{name}\": the overlap of a fork's parts is estimated"));
        }
    }
    let kept = |note: &String| !note.contains("the cache is left out") && !note.contains("a fork");
    notes.extend(model.left_out().into_iter().filter(kept));
    notes
}

/// Solves a model with `solve`.
///
/// # Errors
/// The error of `solve`.
pub fn answer<E>(
    model: &Model,
    solve: &dyn Fn(&Network) -> Result<Solution, E>,
) -> Result<Answer, E> {
    let settles = model.classes.iter().any(|class| class.cache.is_some() || has_fork(class));
    let mut rates: Vec<f64> = model.classes.iter().map(idle_rate).collect();
    let mut overlap = vec![0.0; model.classes.len()];
    let base = model.network();
    let popular: Vec<Option<Popularity>> =
        model.classes.iter().map(|class| class.cache.as_ref().map(Popularity::of)).collect();
    let mut round = 0;
    loop {
        let ways: Vec<Vec<Way>> = (0..popular.len())
            .map(|class| ways(model, &model.classes[class], popular[class].as_ref(), rates[class]))
            .collect();
        let network = thinned(&base, &ways, &overlap);
        let solution = solve(&network)?;
        let timed: Vec<Vec<spread::Way>> = (0..ways.len())
            .map(|class| timed(model, &ways[class], class, &network, &solution))
            .collect();
        round += 1;
        if !settles || round == ROUNDS {
            return Ok(Answer { network, solution, ways: timed, overlap });
        }
        let mut moved = 0.0_f64;
        for (class, times) in timed.iter().enumerate() {
            let parts = |way: &spread::Way| way.steps.iter().flatten().map(|p| p.mean).sum::<f64>();
            let sum: f64 = times.iter().map(|way| way.share * parts(way)).sum();
            // Without a fork the sum is the mean, and the overlap is zero.
            let wanted = 0.5 * (overlap[class] + sum - spread::mean(times));
            let rate = solution.throughput[class];
            moved = moved.max((wanted - overlap[class]).abs() / sum.max(1e-12));
            moved = moved.max((rate - rates[class]).abs() / rate.max(1e-12));
            (overlap[class], rates[class]) = (wanted, rate);
        }
        if moved < SETTLED {
            return Ok(Answer { network, solution, ways: timed, overlap });
        }
    }
}

fn has_fork(class: &Class) -> bool {
    class.route.iter().any(|step| matches!(step, Step::Fork { fork } if fork.len() > 1))
}

/// Returns the requests per second of a class without waiting.
fn idle_rate(class: &Class) -> f64 {
    let demand: f64 = class.demands.values().map(Demand::seconds).sum();
    match &class.kind {
        ClassKind::Closed { population, think } => {
            population.base() / (think.seconds() + demand).max(1e-9)
        }
        ClassKind::Open { rate, .. } => rate.base(),
    }
}

/// Returns the routes of a class at `rate` requests per second of all its customers together.
fn ways(model: &Model, class: &Class, popular: Option<&Popularity>, rate: f64) -> Vec<Way> {
    let whole = whole_way(model, class);
    let (Some(cache), Some(popular)) = (&class.cache, popular) else {
        return vec![Way { share: 1.0, steps: whole }];
    };
    let customers = match &class.kind {
        ClassKind::Closed { population, .. } => population.base().max(1.0),
        ClassKind::Open { .. } => 1.0,
    };
    let (hits, renewed) = cached(cache, popular, rate, customers);
    let only = |wanted: &dyn Fn(&str) -> bool| -> Vec<Vec<(usize, f64)>> {
        let kept = |step: &Vec<(usize, f64)>| -> Vec<(usize, f64)> {
            let named = |part: &&(usize, f64)| wanted(&model.centres[part.0].name);
            step.iter().filter(named).copied().collect()
        };
        whole.iter().map(kept).filter(|step| !step.is_empty()).collect()
    };
    let hit = only(&|name| !cache.skips.iter().any(|skipped| skipped == name));
    let renewal = cache.lease.as_ref().map_or_else(Vec::new, |lease| {
        only(&|name| lease.renewal.iter().any(|visited| visited == name))
    });
    vec![
        Way { share: hits * (1.0 - renewed), steps: hit },
        Way { share: hits * renewed, steps: renewal },
        Way { share: 1.0 - hits, steps: whole },
    ]
}

fn whole_way(model: &Model, class: &Class) -> Vec<Vec<(usize, f64)>> {
    let position = |name: &String| model.centre(name);
    let steps: Vec<Vec<usize>> = if class.route.is_empty() {
        let visited = |name: &String| class.demands.get(name).is_some_and(|d| d.value > 0.0);
        let named = model.centres.iter().map(|centre| &centre.name).filter(|name| visited(name));
        named.filter_map(position).map(|centre| vec![centre]).collect()
    } else {
        let of = |step: &Step| match step {
            Step::Visit(name) => position(name).into_iter().collect(),
            Step::Fork { fork } => fork.iter().filter_map(position).collect(),
        };
        class.route.iter().map(of).collect()
    };
    let visits =
        |centre: usize| steps.iter().flatten().filter(|other| **other == centre).count() as f64;
    let parts = |step: &Vec<usize>| step.iter().map(|at| (*at, 1.0 / visits(*at))).collect();
    steps.iter().map(parts).collect()
}

/// Returns the share of requests that hit, and the share of requests that renew a lease.
fn cached(cache: &Cache, popular: &Popularity, rate: f64, customers: f64) -> (f64, f64) {
    let (sharers, caches) = match cache.scope {
        Scope::Client => (customers, customers),
        Scope::Server => (1.0, 1.0),
    };
    let rate = rate / caches;
    // A write by another client removes the block before the next use.
    let kept = 1.0 / (1.0 + (sharers - 1.0) * cache.writes);
    let term = cache.lease.as_ref().map(|lease| lease.term.base());
    let (mut hits, mut renewals) = (0.0, 0.0);
    for (share, count) in &popular.buckets {
        let found = count * share * (1.0 - libm::exp(-share * popular.reach)) * kept;
        hits += found;
        renewals += term.map_or(0.0, |term| found / (1.0 + rate * share * term));
    }
    let renewed = if hits > 0.0 { renewals / hits } else { 0.0 };
    ((hits * (1.0 - cache.writes)).min(1.0), renewed)
}

/// The request rate of each block, in buckets of blocks with similar popularity.
struct Popularity {
    /// The share of one block, and the number of similar blocks.
    buckets: Vec<(f64, f64)>,
    /// The number of requests until an unused block leaves the cache.
    reach: f64,
}

impl Popularity {
    fn of(cache: &Cache) -> Self {
        let objects = cache.objects.base();
        let mut popularity = Self { buckets: Vec::new(), reach: f64::INFINITY };
        let (mut first, mut sum) = (1.0, 0.0);
        while first < objects + 1.0 {
            let alike =
                if cache.zipf == 0.0 { objects } else { libm::floor(first * 0.05).max(1.0) };
            let count = alike.min(objects + 1.0 - first);
            let weight = libm::pow(first + 0.5 * (count - 1.0), -cache.zipf);
            popularity.buckets.push((weight, count));
            sum += weight * count;
            first += count;
        }
        popularity.buckets.iter_mut().for_each(|(weight, _)| *weight /= sum);
        let blocks = cache.blocks.base();
        if blocks < objects {
            popularity.reach = popularity.characteristic(blocks);
        }
        popularity
    }

    /// Returns the expected number of requests for this number of different blocks.
    fn characteristic(&self, blocks: f64) -> f64 {
        let different = |reach: f64| -> f64 {
            self.buckets.iter().map(|(share, n)| n * (1.0 - libm::exp(-share * reach))).sum()
        };
        let (mut low, mut high) = (0.0, blocks.max(1.0));
        while different(high) < blocks && high < 1e15 {
            high *= 2.0;
        }
        for _ in 0..50 {
            let middle = 0.5 * (low + high);
            if different(middle) < blocks {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    }
}

/// Returns the network with demands weighted by the actual frequency of visits.
fn thinned(base: &Network, ways: &[Vec<Way>], overlap: &[f64]) -> Network {
    let mut network = base.clone();
    for (class, ways) in ways.iter().enumerate() {
        for (index, centre) in network.centres.iter_mut().enumerate() {
            centre.demands[class] *= visits(ways, index);
        }
        if let solver::ClassKind::Closed { think, .. } = &mut network.classes[class].kind {
            *think = (*think - overlap[class]).max(0.0);
        }
    }
    network
}

/// Returns the mean share of its demand at a centre that a request uses.
fn visits(ways: &[Way], centre: usize) -> f64 {
    let of = |way: &Way| -> f64 {
        let parts = way.steps.iter().flatten().filter(|part| part.0 == centre);
        way.share * parts.map(|part| part.1).sum::<f64>()
    };
    ways.iter().map(of).sum()
}

/// Returns the routes of a class with their times.
fn timed(
    model: &Model,
    ways: &[Way],
    class: usize,
    network: &Network,
    solution: &Solution,
) -> Vec<spread::Way> {
    let part = |&(centre, share): &(usize, f64)| {
        let visits = visits(ways, centre);
        let throughput = solution.throughput[class];
        let name = &model.centres[centre].name;
        let Some(demand) = model.classes[class].demands.get(name) else {
            return Part { mean: 0.0, variance: 0.0 };
        };
        let service = demand.seconds() * share;
        let mean = if throughput > 0.0 && visits > 0.0 {
            (solution.queue[centre][class] / throughput / visits * share).max(service)
        } else {
            service
        };
        let own = spread_of(demand.law);
        // Customers ahead, each of which takes one server's share of a service.
        let each = service / network.centres[centre].server_count();
        let ahead = if each > 0.0 { (mean - service) / each } else { 0.0 };
        let varies = ahead_variance(network, solution, centre, ahead);
        Part { mean, variance: own * service * service + each * each * (own * ahead + varies) }
    };
    ways.iter()
        .map(|way| spread::Way {
            share: way.share,
            steps: way.steps.iter().map(|step| step.iter().map(part).collect()).collect(),
        })
        .collect()
}

/// Returns the variance of the number ahead. For an unlimited number of customers it is the
/// variance of a geometric distribution. For few customers it is at most the variance of the number
/// elsewhere: Poisson for thinking customers, geometric for customers in other queues. Between both
/// cases the function uses half of their harmonic mean.
fn ahead_variance(network: &Network, solution: &Solution, centre: usize, ahead: f64) -> f64 {
    let geometric = |mean: f64| mean * (1.0 + mean);
    let customers = network.population().iter().sum::<usize>() as f64;
    if customers == 0.0 || network.arrival_rates().iter().any(|rate| *rate > 0.0) {
        return geometric(ahead);
    }
    let queued = |at: usize| -> f64 { solution.queue[at].iter().sum() };
    let others: f64 = (0..network.centres.len())
        .filter(|at| *at != centre && network.centres[*at].top_rate().is_finite())
        .map(queued)
        .sum();
    let thinking = (customers - queued(centre) - others).max(0.0);
    let (here, elsewhere) = (geometric(ahead), thinking + geometric(others));
    if here + elsewhere > 0.0 { here * elsewhere / (here + elsewhere) } else { 0.0 }
}

/// Returns variance over squared mean of a distribution, or ten for a tail without finite variance.
fn spread_of(law: Law) -> f64 {
    match law {
        Law::Exponential => 1.0,
        Law::Constant => 0.0,
        Law::Uniform => 1.0 / 3.0,
        Law::Erlang { stages } => 1.0 / f64::from(stages),
        Law::Hyperexponential { scv } | Law::Lognormal { scv } => scv,
        Law::Pareto { tail } if tail > 2.1 => 1.0 / (tail * (tail - 2.0)),
        Law::Pareto { .. } => 10.0,
    }
}
