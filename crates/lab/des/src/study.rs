//! Several replications with warm-up removed, run until the intervals are narrow enough.
//!
//! Each replication runs in spans that double: after round r it has covered 2^r times the first
//! span. Counts are kept by span; those of the first eighth are dropped as warm-up and the rest
//! give one value of each metric. Values of different replications are independent, so their
//! interval needs no guess at correlations (method of independent replications with deletion;
//! Law and Kelton, Simulation Modeling and Analysis, chapter 9).

use crate::ending::{Shortfall, StudyError};
use crate::engine::{Engine, Runaway};
use crate::interval::Interval;
use crate::metric::{Metric, Outcome, decides, metrics};
use crate::tally::Tally;
use leasehold_lab_network::CentreKind;
use leasehold_lab_network::model::{Arrivals, ClassKind, Model};

/// How a study is run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// All luck comes from this number.
    pub seed: u64,
    /// Independent replications; at least two.
    pub replications: usize,
    /// How often an interval should hold the true value.
    pub confidence: f64,
    /// The half width over the mean that throughput and response time must reach.
    pub width: f64,
    /// Services in all replications together, or answers where caches give more of them, after
    /// which the study does not go on.
    pub services_max: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { seed: 1, replications: 16, confidence: 0.9, width: 0.01, services_max: 200_000_000 }
    }
}

/// One replication: an engine and what it counted, by span.
#[derive(Clone, Debug)]
pub struct Replication {
    engine: Engine,
    spans: Vec<Tally>,
    services: u64,
    /// Events that a span may have beside those that its history foretells.
    events_max: u64,
    runaway: Option<Runaway>,
}

impl Replication {
    /// Services done so far, or answers where a cache gives more of them.
    #[must_use]
    pub const fn services(&self) -> u64 {
        self.services
    }

    /// Runs on to a moment and keeps the counts of this span.
    pub fn advance(&mut self, until: f64) {
        // A span is as long as all before it and has about as many events.
        let foretold = self.services.saturating_mul(EVENTS_PER_SERVICE);
        let events_max = self.events_max.saturating_add(foretold);
        self.runaway = self.engine.run_until(until, events_max).err();
        let tally = self.engine.take_tally();
        self.services += tally.services().max(tally.answers());
        self.spans.push(tally);
    }

    /// The counts without the first eighth of the time.
    fn counted(&self) -> Tally {
        // Span i covers half of all time up to its end, so the last three cover seven eighths.
        merged(&self.spans[self.spans.len().saturating_sub(3)..])
    }

    /// The counts of the last span.
    fn last(&self) -> Tally {
        self.spans[self.spans.len() - 1].clone()
    }

    /// The counts of the last half of the time, and of the three eighths before.
    fn halves(&self) -> (Tally, Tally) {
        let (last, before) = self.spans.split_at(self.spans.len() - 1);
        (merged(before), merged(&last[last.len().saturating_sub(2)..]))
    }
}

fn merged(spans: &[Tally]) -> Tally {
    let mut sum = spans[0].clone();
    for tally in &spans[1..] {
        sum.merge(tally);
    }
    sum
}

/// Advances replications one after the other, for callers without threads.
pub fn in_turn(replications: &mut [Replication], until: f64) {
    for replication in replications {
        replication.advance(until);
    }
}

/// A model, its replications and how far they have run.
#[derive(Clone, Debug)]
pub struct Study {
    options: Options,
    replications: Vec<Replication>,
    until: f64,
    metrics: Vec<Metric>,
    /// What the services of a centre are divided by to give utilisation.
    servers: Vec<f64>,
    caches: Vec<bool>,
    /// The longest time that the model itself names: a lease, a phase, a crash.
    memory: f64,
}

/// The last span is half of all time, and seven eighths are counted.
const LAST_OF_COUNTED: f64 = 4.0 / 7.0;

/// How many of those times a study covers at least, so that the warm-up is one of them.
const MEMORIES_MIN: f64 = 8.0;

/// Services and answers after which the first span ends: short enough to be dropped, long enough
/// to count.
const PILOT_COMPLETIONS: u64 = 500;

/// Bytes that all replications of a study may take together: 2 GiB.
const BYTES_MAX: u128 = 1 << 31;

/// Events for each service, done or still allowed, that a span may have, and what it may have in
/// any case.
const EVENTS_PER_SERVICE: u64 = 16;
const EVENTS_MAX_LEAST: u64 = 1 << 22;

/// Spans before the first look at the widths.
const ROUNDS_MIN: usize = 4;

impl Study {
    /// Prepares the replications of a checked model.
    ///
    /// # Errors
    /// See [`StudyError`].
    pub fn new(model: &Model, options: Options) -> Result<Self, StudyError> {
        let count = options.replications.max(2);
        let bytes = Engine::bytes(model);
        if bytes.saturating_mul(count as u128) > BYTES_MAX {
            return Err(StudyError::TooLarge { bytes, limit: BYTES_MAX });
        }
        let mut pilot = Engine::new(model, options.seed);
        pilot.run_completions(PILOT_COMPLETIONS).map_err(StudyError::Runaway)?;
        let share = options.services_max / count as u64;
        let replication = |index: usize| Replication {
            // Any two seeds give unrelated streams; the multiplier keeps studies apart.
            engine: Engine::new(model, options.seed.wrapping_mul(1_000_003) + index as u64),
            spans: Vec::new(),
            services: 0,
            events_max: EVENTS_MAX_LEAST.saturating_add(share.saturating_mul(EVENTS_PER_SERVICE)),
            runaway: None,
        };
        let network = model.network();
        Ok(Self {
            options,
            replications: (0..count).map(replication).collect(),
            until: if pilot.now() > 0.0 { pilot.now() } else { 1.0 },
            metrics: metrics(model),
            servers: network
                .centres
                .iter()
                .map(|centre| match &centre.kind {
                    CentreKind::Servers(count) => *count as f64,
                    CentreKind::Delay | CentreKind::Queue | CentreKind::LoadDependent(_) => 1.0,
                })
                .collect(),
            caches: model.classes.iter().map(|class| class.cache.is_some()).collect(),
            memory: memory(model),
        })
    }

    /// Runs to the end of the study. `advance` brings all replications to a moment, with as many
    /// threads as the caller likes: the result is the same.
    ///
    /// Stopping at the first look that happens to be narrow would favour spreads that came out
    /// too small. So when the intervals are narrow one more round runs, and its spread is the one
    /// that is told.
    ///
    /// # Errors
    /// See [`StudyError`].
    pub fn run(
        &mut self,
        advance: &dyn Fn(&mut [Replication], f64),
    ) -> Result<Vec<Outcome>, StudyError> {
        self.run_watched(advance, &mut |_| {})
    }

    /// The same, and `watch` sees the study after each look at its widths, so that it can show
    /// what is known so far.
    ///
    /// # Errors
    /// See [`StudyError`].
    pub fn run_watched(
        &mut self,
        advance: &dyn Fn(&mut [Replication], f64),
        watch: &mut dyn FnMut(&Self),
    ) -> Result<Vec<Outcome>, StudyError> {
        for _ in 0..ROUNDS_MIN {
            self.round(advance)?;
        }
        watch(self);
        let mut before = 0;
        // A system in which nothing happens any more will not get narrower.
        while !self.is_done() && (before + 1..self.options.services_max).contains(&self.services())
        {
            before = self.services();
            self.round(advance)?;
            watch(self);
        }
        self.round(advance)?;
        Ok(self.outcomes())
    }

    /// What the study lacks: time for what the model itself names, steadiness, narrow intervals.
    #[must_use]
    pub fn shortfall(&self) -> Option<Shortfall> {
        if self.until < MEMORIES_MIN * self.memory {
            Some(Shortfall::OwnTimes)
        } else if !self.is_steady() {
            Some(Shortfall::Unsteady)
        } else if !self.is_narrow() {
            Some(Shortfall::Wide)
        } else {
            None
        }
    }

    /// The `services_max` with which the study would likely lack nothing: intervals narrow with the
    /// square root of what they rest on; what is unsteady may need any time and gets four times.
    #[must_use]
    pub fn services_wanted(&self) -> f64 {
        let own_times = MEMORIES_MIN * self.memory / self.until;
        let steady = if self.is_steady() { 1.0 } else { 4.0 };
        let narrow = self.widest() / self.options.width;
        let times = own_times.max(steady).max(narrow * narrow);
        self.services() as f64 * times
    }

    /// Whether the study lacks nothing.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.shortfall().is_none()
    }

    /// Whether the last half of the time is like the one before: caches fill slowly, and no model
    /// says how slowly. A move of less than half the wanted width does not matter; the test is
    /// passed 99 times in a hundred when all is steady.
    fn is_steady(&self) -> bool {
        let pairs: Vec<(Vec<f64>, Vec<f64>)> = self
            .replications
            .iter()
            .map(|replication| {
                let (last, before) = replication.halves();
                (self.values(&last), self.values(&before))
            })
            .collect();
        self.metrics.iter().enumerate().filter(|(_, metric)| decides(metric.quantity)).all(
            |(index, _)| {
                let moved: Vec<f64> = pairs.iter().map(|(a, b)| a[index] - b[index]).collect();
                let interval = Interval::of(&moved, 0.99);
                let base: f64 = pairs.iter().map(|(a, _)| a[index]).sum::<f64>();
                let small = 0.5 * self.options.width * base / pairs.len() as f64;
                let is_known = interval.mean.is_finite();
                !is_known || interval.holds(0.0) || interval.mean.abs() <= small
            },
        )
    }

    fn round(&mut self, advance: &dyn Fn(&mut [Replication], f64)) -> Result<(), StudyError> {
        advance(&mut self.replications, self.until);
        self.until *= 2.0;
        let runaway = self.replications.iter().find_map(|replication| replication.runaway);
        runaway.map_or(Ok(()), |runaway| Err(StudyError::Runaway(runaway)))
    }

    /// Services done in all replications, or answers where caches give more of them.
    #[must_use]
    pub fn services(&self) -> u64 {
        self.replications.iter().map(|replication| replication.services).sum()
    }

    /// Whether the metrics that the width is asked for have reached it.
    fn is_narrow(&self) -> bool {
        self.widest() <= self.options.width
    }

    /// The widest interval of the metrics that a width is asked for, over its mean.
    fn widest(&self) -> f64 {
        self.metrics
            .iter()
            .zip(self.intervals(Replication::counted))
            .filter(|(metric, _)| decides(metric.quantity))
            // What never happened has no mean and keeps nobody waiting: a maximum passes over it.
            .map(|(_, interval)| interval.relative())
            .fold(0.0, f64::max)
    }

    /// The interval of each metric over a part of every replication, in the order of `metrics`.
    fn intervals(&self, part: impl Fn(&Replication) -> Tally) -> Vec<Interval> {
        let values: Vec<Vec<f64>> =
            self.replications.iter().map(|replication| self.values(&part(replication))).collect();
        (0..self.metrics.len())
            .map(|index| {
                let column: Vec<f64> =
                    values.iter().map(|row| row[index]).filter(|value| value.is_finite()).collect();
                Interval::of(&column, self.options.confidence)
            })
            .collect()
    }

    /// The metrics with their intervals so far.
    ///
    /// The mean is that of all counted time. How far it can be off is judged by the last span
    /// alone, which no look has seen: it spreads as much over half of the time as the mean would
    /// with the square root of the share of time.
    #[must_use]
    pub fn outcomes(&self) -> Vec<Outcome> {
        let counted = self.intervals(Replication::counted);
        let last = self.intervals(Replication::last);
        let outcome = |((metric, all), last): ((&Metric, Interval), Interval)| {
            let half_width = last.half_width * libm::sqrt(LAST_OF_COUNTED);
            let interval =
                if half_width.is_finite() { Interval { half_width, ..all } } else { all };
            Outcome { metric: metric.clone(), interval }
        };
        self.metrics.iter().zip(counted).zip(last).map(outcome).collect()
    }

    /// One value for each metric, in the order of `metrics`.
    fn values(&self, tally: &Tally) -> Vec<f64> {
        let mut values = Vec::with_capacity(self.metrics.len());
        for (class, has_cache) in tally.classes.iter().zip(&self.caches) {
            let per_request = |count: u64| count as f64 / class.offered.max(1) as f64;
            values.extend([
                class.answered as f64 / tally.span,
                class.response_sum / class.answered as f64,
                class.responses.quantile(0.5),
                class.responses.quantile(0.95),
                class.responses.quantile(0.99),
                per_request(class.unanswered),
                per_request(class.retransmitted),
                per_request(class.wasted),
            ]);
            if *has_cache {
                values.extend([per_request(class.hits), per_request(class.renewals)]);
            }
        }
        for (index, cell) in tally.cells.iter().enumerate() {
            let servers = self.servers[index / tally.classes.len()];
            values.extend([
                cell.area / tally.span,
                cell.busy / tally.span / servers,
                cell.served as f64 / tally.span,
            ]);
        }
        values
    }
}

fn memory(model: &Model) -> f64 {
    let leases = model.classes.iter().filter_map(|class| class.cache.as_ref()?.lease.as_ref());
    let crashes = model.centres.iter().filter_map(|centre| centre.crashes.as_ref());
    let phases = model.classes.iter().flat_map(|class| match &class.kind {
        ClassKind::Open { arrivals: Arrivals::Bursts { phases }, .. } => phases.as_slice(),
        ClassKind::Open { .. } | ClassKind::Closed { .. } => &[],
    });
    leases
        .map(|lease| lease.term.base())
        .chain(crashes.map(|crashes| crashes.up.base() + crashes.down.base()))
        .chain(phases.map(|phase| phase.stay.base()))
        .fold(0.0, f64::max)
}
