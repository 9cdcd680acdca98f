//! Several replications with the warm-up removed, run until the intervals are narrow enough.
//!
//! Each replication runs in spans that double: after round r it has covered 2^r times the first
//! span. Counts are stored by span; the first eighth is dropped as warm-up and the rest gives one
//! value of each metric. Values of different replications are independent, so their interval needs
//! no estimate of correlations (method of independent replications with deletion; Law and Kelton,
//! Simulation Modeling and Analysis, chapter 9).

use crate::ending::{Shortfall, StudyError};
use crate::engine::{Engine, Runaway};
use crate::interval::Interval;
use crate::metric::{Metric, Outcome, decides, metrics};
use crate::tally::Tally;
use leasehold_lab_network::CentreKind;
use leasehold_lab_network::model::{Arrivals, ClassKind, Model};

/// The options of a study.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// The seed of all random streams.
    pub seed: u64,
    /// Independent replications; at least two.
    pub replications: usize,
    /// The probability that an interval contains the true value.
    pub confidence: f64,
    /// The half width over the mean that throughput and response time must reach.
    pub width: f64,
    /// The limit of services in all replications together, or of replies where caches give more of
    /// them.
    pub services_max: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { seed: 1, replications: 16, confidence: 0.9, width: 0.01, services_max: 200_000_000 }
    }
}

/// One replication: an engine and its counts, by span.
#[derive(Clone, Debug)]
pub struct Replication {
    engine: Engine,
    spans: Vec<Tally>,
    services: u64,
    /// The number of events that a span may have in addition to the number predicted from its
    /// history.
    events_max: u64,
    runaway: Option<Runaway>,
}

impl Replication {
    /// Returns the services done so far, or replies where a cache gives more of them.
    #[must_use]
    pub const fn services(&self) -> u64 {
        self.services
    }

    /// Runs until a time and stores the counts of this span.
    pub fn advance(&mut self, until: f64) {
        // A span is as long as all spans before it and has about as many events.
        let foretold = self.services.saturating_mul(EVENTS_PER_SERVICE);
        let events_max = self.events_max.saturating_add(foretold);
        self.runaway = self.engine.run_until(until, events_max).err();
        let tally = self.engine.take_tally();
        self.services += tally.services().max(tally.answers());
        self.spans.push(tally);
    }

    /// Returns the counts without the first eighth of the time.
    fn counted(&self) -> Tally {
        // Span i covers half of all time up to its end, so the last three cover seven eighths.
        merged(&self.spans[self.spans.len().saturating_sub(3)..])
    }

    /// Returns the counts of the last span.
    fn last(&self) -> Tally {
        self.spans[self.spans.len() - 1].clone()
    }

    /// Returns the counts of the last half of the time, and of the three eighths before.
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

/// A model, its replications and their progress.
#[derive(Clone, Debug)]
pub struct Study {
    options: Options,
    replications: Vec<Replication>,
    until: f64,
    metrics: Vec<Metric>,
    /// The divisors that convert the service of a centre into utilisation.
    servers: Vec<f64>,
    caches: Vec<bool>,
    /// The longest time constant of the model: a lease, a phase, a crash.
    memory: f64,
}

/// The last span is half of all time, and seven eighths are counted.
const LAST_OF_COUNTED: f64 = 4.0 / 7.0;

/// The smallest number of these times that a study covers, so that the warm-up is one of them.
const MEMORIES_MIN: f64 = 8.0;

/// The number of services and replies after which the first span ends: small enough for the
/// warm-up, large enough to give counts.
const PILOT_COMPLETIONS: u64 = 500;

/// The largest memory of all replications of a study: 2 GiB.
const BYTES_MAX: u128 = 1 << 31;

/// The number of events for each service, done or remaining, that a span may have, and the number
/// that any span may have.
const EVENTS_PER_SERVICE: u64 = 16;
const EVENTS_MAX_LEAST: u64 = 1 << 22;

/// The number of spans before the first check of the widths.
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
            // Any two seeds give unrelated streams; the multiplier separates studies.
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

    /// Runs to the end of the study. `advance` brings all replications to a time, with any number
    /// of threads: the result is the same.
    ///
    /// A study that stopped at the first narrow check would prefer spreads that are too small by
    /// chance. Therefore, when the intervals are narrow, one more round runs, and the study reports
    /// the spread of that round.
    ///
    /// # Errors
    /// See [`StudyError`].
    pub fn run(
        &mut self,
        advance: &dyn Fn(&mut [Replication], f64),
    ) -> Result<Vec<Outcome>, StudyError> {
        self.run_watched(advance, &mut |_| {})
    }

    /// Like [`Study::run`], and calls `watch` after each check of the widths, so that it can show
    /// intermediate results.
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
        // A system without further events does not become narrower.
        while !self.is_done() && (before + 1..self.options.services_max).contains(&self.services())
        {
            before = self.services();
            self.round(advance)?;
            watch(self);
        }
        self.round(advance)?;
        Ok(self.outcomes())
    }

    /// Returns the shortfall of the study: its own time constants, steadiness, or narrow intervals.
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

    /// Returns the `services_max` with which the study would probably have no shortfall: intervals
    /// narrow with the square root of the number of services; an unsteady study may need any time
    /// and gets four times the number.
    #[must_use]
    pub fn services_wanted(&self) -> f64 {
        let own_times = MEMORIES_MIN * self.memory / self.until;
        let steady = if self.is_steady() { 1.0 } else { 4.0 };
        let narrow = self.widest() / self.options.width;
        let times = own_times.max(steady).max(narrow * narrow);
        self.services() as f64 * times
    }

    /// Returns true if the study has no shortfall.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.shortfall().is_none()
    }

    /// Returns true if the last half of the time resembles the part before: caches fill slowly, and
    /// the model does not determine how slowly. A difference of less than half the requested width
    /// is ignored; a steady system passes the test 99 times in a hundred.
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

    /// Returns the services done in all replications, or replies where caches give more of them.
    #[must_use]
    pub fn services(&self) -> u64 {
        self.replications.iter().map(|replication| replication.services).sum()
    }

    /// Returns true if the metrics that determine the width have reached it.
    fn is_narrow(&self) -> bool {
        self.widest() <= self.options.width
    }

    /// Returns the widest relative interval of the metrics that determine the width.
    fn widest(&self) -> f64 {
        self.metrics
            .iter()
            .zip(self.intervals(Replication::counted))
            .filter(|(metric, _)| decides(metric.quantity))
            // A metric that never occurred has no mean and does not delay the end: the maximum
            // ignores it.
            .map(|(_, interval)| interval.relative())
            .fold(0.0, f64::max)
    }

    /// Returns the interval of each metric over a part of every replication, in the order of
    /// `metrics`.
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

    /// Returns the metrics with their intervals so far.
    ///
    /// The mean is over all counted time. The error is estimated from the last span alone, which
    /// no check has used: over half of the time it spreads as much as the mean would with the
    /// square root of the share of time.
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

    /// Returns one value for each metric, in the order of `metrics`.
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
