//! Measures the figures of the laboratory's core and prints them, one JSON object a line.
//!
//! Times are processor times of this thread, so that other load changes them little.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints")]

mod bits;
mod speed;

use leasehold_lab_des::{Options, Outcome, Study, in_turn};
use leasehold_lab_network::model::Model;
use leasehold_lab_network::solve;
use leasehold_lab_oracles::{Check, product_form, simulated};
use serde_json::json;

/// One measured figure.
struct Figure {
    name: &'static str,
    ours: f64,
    target: &'static str,
    unit: &'static str,
    holds: bool,
}

impl Figure {
    fn print(&self) {
        println!(
            "{}",
            json!({ "figure": self.name, "ours": self.ours, "target": self.target,
                "unit": self.unit, "tier": "memory", "holds": self.holds })
        );
    }

    /// Returns a share of cases, all of which must pass.
    fn all(name: &'static str, good: usize, of: usize) -> Self {
        let ours = good as f64 / of.max(1) as f64;
        Self { name, ours, target: "all", unit: "share of cases", holds: good == of && of > 0 }
    }
}

fn main() {
    let measures: [fn() -> Vec<Figure>; 5] =
        [solved_oracles, simulated_oracles, speed::figures, coverage, bits::figures];
    for measure in measures {
        measure().iter().for_each(Figure::print);
    }
}

/// Measures product-form cases within their tolerance, and the case where other tools fail.
fn solved_oracles() -> Vec<Figure> {
    let cases = product_form();
    let mut good = 0;
    let mut big = f64::INFINITY;
    for case in &cases {
        let error = solve(&case.model.network()).map_or(f64::INFINITY, |ours| case.error(&ours));
        good += usize::from(error <= case.tolerance_rel);
        if case.id == "m18-big" {
            big = error;
        }
    }
    let m18 = Figure {
        name: "m18.error",
        ours: big,
        target: "<=1e-8",
        unit: "relative",
        holds: big <= 1e-8,
    };
    vec![Figure::all("oracles.product-form", good, cases.len()), m18]
}

/// Measures other cases: within four standard errors, or one per cent.
fn simulated_oracles() -> Vec<Figure> {
    let cases = simulated();
    let good = cases.iter().filter(|case| {
        let options = Options { width: 0.005, services_max: case.services, ..Options::default() };
        let outcomes = outcomes(&case.model, options);
        case.checks.iter().all(|check| agrees(&outcomes, check))
    });
    vec![Figure::all("oracles.other", good.count(), cases.len())]
}

/// Simulates a model.
fn outcomes(model: &Model, options: Options) -> Vec<Outcome> {
    let study = Study::new(model, options);
    study.and_then(|mut study| study.run(&in_turn)).expect("sound models come to their end")
}

fn agrees(outcomes: &[Outcome], check: &Check) -> bool {
    outcomes
        .iter()
        .filter(|outcome| {
            json!(outcome.metric.quantity) == check.quantity
                && outcome.metric.class == check.class
                && outcome.metric.centre.as_deref() == check.centre
        })
        .any(|outcome| {
            let distance = (outcome.interval.mean - check.reference).abs();
            // The half width of a 90 % interval is 1.75 standard errors for 16 replications.
            distance <= 4.0 * outcome.interval.half_width / 1.75
                || distance <= 0.01 * check.reference.abs()
        })
}

/// Measures how often a 90 % interval of the response time contains the exact value.
fn coverage() -> Vec<Figure> {
    let model = leasehold_lab_oracles::build::diskless(20);
    let exact = solve(&model.network()).map_or(f64::NAN, |solution| solution.response[0]);
    let studies = 400;
    let held = (1..=studies).filter(|&seed| {
        let options = Options { seed, width: 0.02, replications: 10, ..Options::default() };
        let outcomes = outcomes(&model, options);
        // The second metric of a class is its mean response time.
        outcomes[1].interval.holds(exact)
    });
    let ours = held.count() as f64 / studies as f64;
    vec![Figure {
        name: "interval.coverage",
        ours,
        target: "0.85 to 0.95",
        unit: "share of intervals",
        holds: (0.85..=0.95).contains(&ours),
    }]
}
