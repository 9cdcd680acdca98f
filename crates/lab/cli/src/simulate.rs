//! `lab simulate`: simulates with confidence intervals on all processors.

use crate::output::{self, Cell, Format, Table};
use crate::progress::Progress;
use crate::{Failure, input};
use clap::Args;
use leasehold_lab_des::{Interval, Options, Outcome, Quantity, Replication, Study};
use leasehold_lab_network::model::Model;
use std::io::Write;
use std::path::PathBuf;

/// Simulate a model, with confidence intervals
///
/// Runs until the intervals of throughput and response time have the requested width, or until the
/// limit of services. The same seed gives the same results on any number of processors.
#[derive(Debug, Args)]
pub struct Simulate {
    /// A model file
    file: PathBuf,
    #[command(flatten)]
    run: Run,
    #[command(flatten)]
    format: Format,
}

/// The length and the number of replications.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Run {
    /// Seed of all random streams
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Independent replications
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(2..))]
    replications: u16,
    /// Probability that a confidence interval contains the true value
    #[arg(long, default_value_t = 0.9, value_parser = share)]
    confidence: f64,
    /// Requested half width of an interval, relative to its mean
    #[arg(long, default_value_t = 0.01, value_parser = share)]
    width: f64,
    /// Services, or replies where a cache gives more of them, after which to stop in any case
    #[arg(long, default_value_t = 30_000_000)]
    services_max: u64,
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number < 1.0 => Ok(number),
        _ => Err("must lie between 0 and 1".into()),
    }
}

impl Run {
    pub(crate) fn options(self) -> Options {
        Options {
            seed: self.seed,
            replications: usize::from(self.replications),
            confidence: self.confidence,
            width: self.width,
            services_max: self.services_max,
        }
    }
}

/// Advances replications with one thread for each processor.
fn on_all_processors(replications: &mut [Replication], until: f64) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = replications.len().div_ceil(threads);
    std::thread::scope(|scope| {
        for part in replications.chunks_mut(share) {
            scope.spawn(move || part.iter_mut().for_each(|one| one.advance(until)));
        }
    });
}

/// A finished study.
pub(crate) struct Answer {
    pub(crate) study: Study,
    pub(crate) outcomes: Vec<Outcome>,
}

impl Answer {
    /// Returns the interval of a quantity of a class as a whole.
    pub(crate) fn of(&self, quantity: Quantity, class: &str) -> Option<Interval> {
        let own = |outcome: &&Outcome| {
            let metric = &outcome.metric;
            metric.quantity == quantity && metric.class == class && metric.centre.is_none()
        };
        self.outcomes.iter().find(own).map(|outcome| outcome.interval)
    }

    /// Returns the utilisation of a centre by all classes together.
    pub(crate) fn utilisation(&self, centre: &str) -> f64 {
        let here = |outcome: &&Outcome| {
            outcome.metric.quantity == Quantity::Utilisation
                && outcome.metric.centre.as_deref() == Some(centre)
        };
        self.outcomes.iter().filter(here).map(|outcome| outcome.interval.mean).sum()
    }
}

/// Simulates a model; shows `what` in the progress line.
pub(crate) fn simulate(
    model: &Model,
    options: Options,
    progress: &Progress,
    what: &str,
) -> Result<Answer, Failure> {
    let advance = |replications: &mut [Replication], until: f64| {
        let services: u64 = replications.iter().map(Replication::services).sum();
        let done = services as f64 / 1e6;
        progress.say(&format!("{what}: {done:.1} million services, on to {until:.3e} s"));
        on_all_processors(replications, until);
    };
    let mut study = Study::new(model, options).map_err(Failure::input)?;
    let outcomes = study.run(&advance).map_err(Failure::input)?;
    Ok(Answer { study, outcomes })
}

pub(crate) fn run(options: &Simulate, out: &mut dyn Write) -> Result<(), Failure> {
    let model = input::model(&options.file)?;
    let progress = Progress::new();
    let Answer { study, outcomes } =
        simulate(&model, options.run.options(), &progress, "simulating")?;
    drop(progress);
    let shortfall = study.shortfall().map(|shortfall| shortfall.to_string());
    if options.format.json {
        return output::json(
            out,
            &serde_json::json!({
                "title": model.title,
                "seed": options.run.seed,
                "confidence": options.run.confidence,
                "services": study.services(),
                "shortfall": shortfall,
                "results": outcomes,
            }),
        );
    }
    table(&outcomes).print(options.format, out)?;
    match shortfall {
        Some(shortfall) if !options.format.csv => {
            output::line(out, &format!("\nnote: stopped at --services-max: {shortfall}"))
        }
        Some(_) | None => Ok(()),
    }
}

fn table(outcomes: &[Outcome]) -> Table {
    let mut table = Table::new(&["class", "centre", "what", "mean", "plus_minus"]);
    // A quantity that never occurred would fill the table with zeros.
    let rare = |quantity: Quantity| {
        matches!(quantity, Quantity::Unanswered | Quantity::Retransmitted | Quantity::Wasted)
    };
    for Outcome { metric, interval } in outcomes {
        if !(rare(metric.quantity) && interval.mean == 0.0) {
            table.row([
                metric.class.as_str().into(),
                metric.centre.as_deref().unwrap_or("").into(),
                Cell::Text(name(metric.quantity).into()),
                interval.mean.into(),
                interval.half_width.into(),
            ]);
        }
    }
    table
}

/// Returns the name of a quantity in tables, with its unit.
pub(crate) const fn name(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Throughput => "throughput 1/s",
        Quantity::Response => "response s",
        Quantity::ResponseP50 => "response p50 s",
        Quantity::ResponseP95 => "response p95 s",
        Quantity::ResponseP99 => "response p99 s",
        Quantity::Unanswered => "unanswered share",
        Quantity::Retransmitted => "retransmitted share",
        Quantity::Wasted => "wasted share",
        Quantity::Hits => "cache hits share",
        Quantity::Renewals => "lease renewals share",
        Quantity::Queue => "present",
        Quantity::Utilisation => "utilisation",
        Quantity::CentreThroughput => "services 1/s",
    }
}
