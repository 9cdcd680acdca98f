//! Background simulations behind the immediate results.

use crate::Wrong;
use leasehold_lab_des::{Options, Outcome, Quantity, Study, in_turn};
use leasehold_lab_network::model::{ClassKind, Model};
use leasehold_lab_plan::knob::Knob;
use leasehold_lab_plan::slo::Slo;
use leasehold_lab_plan::verdict::most;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The simulations that the page requests.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Order {
    text: String,
    slo: String,
    class: usize,
    seed: u64,
    /// Services for the model's own load.
    effort: u64,
    /// Other loads, for the curve; a tenth of the effort each.
    loads: Vec<f64>,
}

/// A simulated point of the curve: means with half widths.
#[derive(Clone, Debug, Serialize)]
struct Point {
    load: f64,
    mean: Option<(f64, f64)>,
    p50: Option<(f64, f64)>,
    p95: Option<(f64, f64)>,
    p99: Option<(f64, f64)>,
    throughput: Option<(f64, f64)>,
}

/// All simulation results.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Simulated {
    outcomes: Vec<Outcome>,
    points: Vec<Point>,
    /// The largest load under which the service level holds.
    clients: u32,
    /// The shortfall of the study of the model's own load.
    shortfall: Option<String>,
}

/// The largest load that the search considers.
const MOST: u32 = 100_000;

pub(crate) fn run(order: &Order, tell: &mut dyn FnMut(&str)) -> Result<Simulated, Wrong> {
    let model = Model::parse(&order.text)?;
    let slo = Slo::parse(&order.slo)?;
    let Some(class) = model.classes.get(order.class) else {
        return Err(Wrong::from(format!("there is no class {}", order.class)));
    };
    let options = Options {
        seed: order.seed,
        replications: 8,
        width: 0.01,
        services_max: order.effort,
        ..Options::default()
    };
    let all = order.effort as f64;
    let mut own = study(&model, options)?;
    let outcomes = own
        .run_watched(&in_turn, &mut |study| {
            // A third of the progress is the model's own load, a third the curve, a third the
            // limit.
            let done = (study.services() as f64 / all).min(1.0) / 3.0;
            let outcomes = study.outcomes();
            tell(&json!({ "done": done, "outcomes": outcomes }).to_string());
        })
        .map_err(|error| Wrong::from(error.to_string()))?;
    let at = |load: f64, share: u64| -> Result<Point, Wrong> {
        let name = class.name.clone();
        let knob = match class.kind {
            ClassKind::Closed { .. } => Knob::Population(name),
            ClassKind::Open { .. } => Knob::Rate(name),
        };
        let options = Options { services_max: order.effort / share, width: 0.02, ..options };
        let outcomes = study(&knob.turn(&model, load)?, options)?.run(&in_turn);
        Ok(point(&outcomes.map_err(|error| Wrong::from(error.to_string()))?, &class.name, load))
    };
    let mut points = Vec::new();
    for (index, load) in order.loads.iter().enumerate() {
        points.push(at(*load, 10)?);
        let done = 1.0 / 3.0 + (index + 1) as f64 / order.loads.len() as f64 / 3.0;
        tell(&json!({ "done": done, "outcomes": outcomes, "points": points }).to_string());
    }
    let clients = most(0, MOST, &mut |count| -> Result<bool, Wrong> {
        let found = at(f64::from(count), 10)?;
        let bounded = match slo.name() {
            "p50" => found.p50,
            "p95" => found.p95,
            "p99" => found.p99,
            _ => found.mean,
        };
        Ok(bounded.is_some_and(|(mean, _)| mean < slo.bound))
    })?;
    let shortfall = own.shortfall().map(|shortfall| shortfall.to_string());
    Ok(Simulated { outcomes, points, clients, shortfall })
}

fn study(model: &Model, options: Options) -> Result<Study, Wrong> {
    Study::new(model, options).map_err(|error| Wrong::from(error.to_string()))
}

fn point(outcomes: &[Outcome], class: &str, load: f64) -> Point {
    let of = |quantity: Quantity| {
        let found = outcomes.iter().find(|outcome| {
            let metric = &outcome.metric;
            metric.quantity == quantity && metric.class == class && metric.centre.is_none()
        });
        let interval = found?.interval;
        interval.mean.is_finite().then_some((interval.mean, interval.half_width))
    };
    Point {
        load,
        mean: of(Quantity::Response),
        p50: of(Quantity::ResponseP50),
        p95: of(Quantity::ResponseP95),
        p99: of(Quantity::ResponseP99),
        throughput: of(Quantity::Throughput),
    }
}
