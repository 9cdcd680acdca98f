//! A model compiled for the engine: names become positions, demands become samplers, the routes of
//! requests become lists of steps.

use crate::law::Sampler;
use crate::zipf::Zipf;
use leasehold_base::random::Random;
use leasehold_lab_network::CentreKind;
use leasehold_lab_network::model::{
    Arrivals, Cache, Centre, Class, ClassKind, Demand, Discipline, Kind, Law, Model, Quantity,
    Scope, Step,
};

/// The service discipline of a centre.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Serving {
    /// All customers at once.
    Delay,
    /// A number of servers, each with one customer until its service ends.
    Servers { count: usize, preemptive: bool },
    /// All present customers share a rate that depends on their number.
    Shared { rates: Vec<f64> },
    /// One customer at a time, at a rate that depends on the number present.
    Paced { rates: Vec<f64> },
}

/// A centre's rules.
#[derive(Clone, Debug)]
pub(crate) struct CentreRules {
    pub(crate) serving: Serving,
    pub(crate) by_priority: bool,
    pub(crate) capacity: usize,
    pub(crate) loss: f64,
    /// Mean time until a crash, and the time until the restart.
    pub(crate) crashes: Option<(f64, f64)>,
    pub(crate) chance: Random,
}

/// One step of a route.
#[derive(Clone, Debug)]
pub(crate) enum Leg {
    /// Service at a centre.
    Visit { centre: u32, service: Sampler, chance: Random },
    /// A part starts at each of the next `parts` legs, all visits; the route continues after them.
    Fork { parts: u32 },
    /// The reply arrives.
    End,
}

/// The arrivals of customers from outside.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Closed { population: u32, think: Sampler },
    Poisson { mean_gap: f64 },
    Regular { gap: f64 },
    Bursts { phases: Vec<Burst> },
    Trace { seconds: Vec<f64> },
}

/// A phase of bursty arrivals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Burst {
    /// Mean interarrival time; infinite without arrivals.
    pub(crate) mean_gap: f64,
    pub(crate) mean_stay: f64,
}

/// A class' rules.
#[derive(Clone, Debug)]
pub(crate) struct ClassRules {
    pub(crate) source: Source,
    pub(crate) priority: u8,
    /// The first timeout, the backoff factor, and the largest number of retransmissions.
    pub(crate) timeout: Option<(f64, f64, u32)>,
    pub(crate) try_again: Option<f64>,
    /// The first leg of a whole request.
    pub(crate) whole: u32,
    pub(crate) cache: Option<CacheRules>,
    pub(crate) chance: Random,
}

/// A cache's rules.
#[derive(Clone, Debug)]
pub(crate) struct CacheRules {
    pub(crate) each_client: bool,
    pub(crate) blocks: usize,
    pub(crate) objects: usize,
    pub(crate) popularity: Zipf,
    /// The exponent of the popularity.
    pub(crate) zipf: f64,
    pub(crate) writes: f64,
    /// The lease term; infinite without leases.
    pub(crate) term: f64,
    /// The first leg of a hit and of a renewal.
    pub(crate) hit: u32,
    pub(crate) renewal: u32,
    /// Requests per second to one cache if no customer ever waited.
    pub(crate) rate: f64,
    /// The random stream for the initial contents of the cache.
    pub(crate) filling: Random,
}

/// The whole model, compiled.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) centres: Vec<CentreRules>,
    pub(crate) classes: Vec<ClassRules>,
    pub(crate) legs: Vec<Leg>,
}

/// Creates a separate random stream for each use, so that a change of one part of a model leaves
/// the random numbers of the others unchanged.
struct Streams {
    seed: u64,
}

impl Streams {
    fn named(&self, parts: &[&str]) -> Random {
        // FNV-1a, 64 bits: any fixed mixing function suffices.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ self.seed;
        for byte in parts.iter().flat_map(|part| part.bytes().chain([0])) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Random::from_seed(hash).fork()
    }
}

pub(crate) fn position(index: usize) -> u32 {
    u32::try_from(index).expect("a model has fewer than 2^32 parts")
}

impl Program {
    /// Compiles a model that has passed its check.
    pub(crate) fn new(model: &Model, seed: u64) -> Self {
        let streams = Streams { seed };
        let network = model.network();
        let centres = model
            .centres
            .iter()
            .zip(&network.centres)
            .map(|(centre, solver)| CentreRules {
                serving: serving(centre, &solver.kind),
                by_priority: matches!(
                    centre.discipline,
                    Discipline::Priority | Discipline::PreemptivePriority
                ),
                capacity: centre.capacity.as_ref().map_or(usize::MAX, Quantity::count),
                loss: centre.loss.as_ref().map_or(0.0, Quantity::base),
                crashes: centre.crashes.as_ref().map(|c| (c.up.base(), c.down.base())),
                chance: streams.named(&["centre", &centre.name]),
            })
            .collect();
        let mut program = Self { centres, classes: Vec::new(), legs: Vec::new() };
        for class in &model.classes {
            let rules = program.class_rules(model, class, &streams);
            program.classes.push(rules);
        }
        program
    }

    fn class_rules(&mut self, model: &Model, class: &Class, streams: &Streams) -> ClassRules {
        let whole = self.way(model, class, streams, "whole", |_| true);
        let cache =
            class.cache.as_ref().map(|cache| self.cache_rules(model, class, cache, streams));
        ClassRules {
            source: source(class),
            priority: class.priority,
            timeout: class.timeout.as_ref().map(|t| (t.after.base(), t.backoff, t.retries)),
            try_again: class.try_again.as_ref().map(Quantity::base),
            whole,
            cache,
            chance: streams.named(&["class", &class.name]),
        }
    }

    fn cache_rules(
        &mut self,
        model: &Model,
        class: &Class,
        cache: &Cache,
        streams: &Streams,
    ) -> CacheRules {
        let hit = self.way(model, class, streams, "hit", |name| {
            !cache.skips.iter().any(|skipped| skipped == name)
        });
        let renewal = match &cache.lease {
            Some(lease) => self.way(model, class, streams, "renewal", |name| {
                lease.renewal.iter().any(|visited| visited == name)
            }),
            None => hit,
        };
        CacheRules {
            each_client: cache.scope == Scope::Client,
            blocks: cache.blocks.count(),
            objects: cache.objects.count(),
            popularity: Zipf::new(position(cache.objects.count()), cache.zipf),
            zipf: cache.zipf,
            writes: cache.writes,
            term: cache.lease.as_ref().map_or(f64::INFINITY, |lease| lease.term.base()),
            hit,
            renewal,
            rate: unhindered(class, cache),
            filling: streams.named(&["filling", &class.name]),
        }
    }

    /// Appends the legs of a route over the centres that `wanted` admits; returns the first.
    fn way(
        &mut self,
        model: &Model,
        class: &Class,
        streams: &Streams,
        purpose: &str,
        wanted: impl Fn(&str) -> bool,
    ) -> u32 {
        let first = position(self.legs.len());
        let route = if class.route.is_empty() {
            let served = |name: &str| class.demands.get(name).is_some_and(|d| d.value > 0.0);
            let centres = model.centres.iter().filter(|centre| served(&centre.name));
            centres.map(|centre| Step::Visit(centre.name.clone())).collect()
        } else {
            class.route.clone()
        };
        let visits = |name: &str| -> f64 {
            let of_step = |step: &Step| match step {
                Step::Visit(visited) => usize::from(visited == name),
                Step::Fork { fork } => fork.iter().filter(|visited| *visited == name).count(),
            };
            route.iter().map(of_step).sum::<usize>() as f64
        };
        let mut number = 0_usize;
        let mut leg = |name: &str| {
            number += 1;
            let demand = class.demands.get(name);
            let mean = demand.map_or(0.0, Demand::seconds) / visits(name);
            let law = demand.map_or(Law::Constant, |demand| demand.law);
            let parts = ["leg", &class.name, purpose, name, &number.to_string()];
            Leg::Visit {
                centre: position(model.centre(name).expect("the check knows every name")),
                service: Sampler::new(law, mean),
                chance: streams.named(&parts),
            }
        };
        for step in &route {
            match step {
                Step::Visit(name) => {
                    if wanted(name) {
                        self.legs.push(leg(name));
                    }
                }
                Step::Fork { fork } => {
                    let parts: Vec<Leg> =
                        fork.iter().filter(|name| wanted(name)).map(|name| leg(name)).collect();
                    if !parts.is_empty() {
                        self.legs.push(Leg::Fork { parts: position(parts.len()) });
                        self.legs.extend(parts);
                    }
                }
            }
        }
        self.legs.push(Leg::End);
        first
    }
}

/// Returns the requests per second to one of a class' caches if no customer ever waited.
fn unhindered(class: &Class, cache: &Cache) -> f64 {
    match &class.kind {
        ClassKind::Open { rate, .. } => rate.base(),
        ClassKind::Closed { population, think } => {
            let busy: f64 = class.demands.values().map(Demand::seconds).sum();
            let customers = match cache.scope {
                Scope::Client => 1.0,
                Scope::Server => population.base(),
            };
            // A customer without think time and demand sends requests continuously, but not
            // infinitely fast.
            customers / (think.seconds() + busy).max(1e-9)
        }
    }
}

fn serving(centre: &Centre, solver: &CentreKind) -> Serving {
    let shared = centre.discipline == Discipline::ProcessorSharing;
    let preemptive = centre.discipline == Discipline::PreemptivePriority;
    match solver {
        CentreKind::Delay => Serving::Delay,
        CentreKind::Queue if shared => Serving::Shared { rates: vec![1.0] },
        CentreKind::Queue => Serving::Servers { count: 1, preemptive },
        CentreKind::Servers(count) if shared => {
            Serving::Shared { rates: (1..=*count).map(|n| n as f64).collect() }
        }
        CentreKind::Servers(count) => Serving::Servers { count: *count, preemptive },
        CentreKind::LoadDependent(rates) if shared || matches!(centre.kind, Kind::Delay) => {
            Serving::Shared { rates: rates.clone() }
        }
        CentreKind::LoadDependent(rates) => Serving::Paced { rates: rates.clone() },
    }
}

fn source(class: &Class) -> Source {
    match &class.kind {
        ClassKind::Closed { population, think } => Source::Closed {
            population: position(population.count()),
            think: Sampler::new(think.law, think.seconds()),
        },
        ClassKind::Open { rate, arrivals } => {
            let gap = 1.0 / rate.base();
            match arrivals {
                Arrivals::Poisson => Source::Poisson { mean_gap: gap },
                Arrivals::Regular => Source::Regular { gap },
                Arrivals::Trace { seconds } => Source::Trace { seconds: seconds.clone() },
                Arrivals::Bursts { phases } => {
                    let time: f64 = phases.iter().map(|phase| phase.stay.base()).sum();
                    let arrivals: f64 = phases.iter().map(|p| p.rate * p.stay.base()).sum();
                    let scale = gap * arrivals / time;
                    let burst = |phase: &leasehold_lab_network::model::Phase| Burst {
                        mean_gap: scale / phase.rate,
                        mean_stay: phase.stay.base(),
                    };
                    Source::Bursts { phases: phases.iter().map(burst).collect() }
                }
            }
        }
    }
}
