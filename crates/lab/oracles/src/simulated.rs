//! Systems with a closed form but without product form, as models for the simulator.

use crate::build::{closed, model, number, open, seconds};
use crate::{non_product_form, numbers};
use leasehold_lab_network::model::Model;
use serde_json::Value;

/// A number that a simulation must reproduce.
#[derive(Clone, Debug)]
pub struct Check {
    /// The quantity, by its name in the results of simulations.
    pub quantity: &'static str,
    /// The class.
    pub class: &'static str,
    /// The centre, if the quantity belongs to a centre.
    pub centre: Option<&'static str>,
    /// The exact value.
    pub reference: f64,
}

/// A model, and the numbers that a simulation of it must reproduce.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// The short name of the reference case, with the variant.
    pub id: String,
    /// The model.
    pub model: Model,
    /// The expected numbers.
    pub checks: Vec<Check>,
    /// The number of services that gives narrow intervals.
    pub services: u64,
}

const QUEUE: &str = r#"{ "name": "s", "kind": "queue" }"#;
const SHARED: &str = r#"{ "name": "s", "kind": "queue", "discipline": "processor-sharing" }"#;
const POISSON: &str = r#""poisson""#;

fn outputs(id: &str) -> Value {
    non_product_form(id).map_or(Value::Null, |case| case["outputs"].clone())
}

fn value(id: &str, name: &str) -> f64 {
    outputs(id)[name].as_f64().unwrap_or(f64::NAN)
}

fn check(quantity: &'static str, class: &'static str, reference: f64) -> Check {
    let centre = (quantity == "queue").then_some("s");
    Check { quantity, class, centre, reference }
}

fn case(id: impl Into<String>, model: Model, checks: Vec<Check>, services: u64) -> Simulated {
    Simulated { id: id.into(), model, checks, services }
}

/// Returns a service with mean one and a distribution.
fn service(law: &str) -> String {
    seconds(1.0, &format!(r#", "law": {law}"#))
}

/// Returns every case.
#[must_use]
pub fn simulated() -> Vec<Simulated> {
    let mut all = single_servers();
    all.extend(priorities());
    all.extend(refusals());
    all.extend(arrivals());
    all.extend(leases());
    all.extend(closed_systems());
    all
}

fn single_servers() -> Vec<Simulated> {
    let one = |centre: &str, rate: f64, law: &str| {
        model(centre, &[open("j", rate, POISSON, &service(law), "")])
    };
    let response = |reference: f64| vec![check("response", "j", reference)];
    let h2 = r#"{ "hyperexponential": { "scv": 4.0 } }"#;
    let percentiles = [("response_p50", "p50"), ("response_p95", "p95"), ("response_p99", "p99")]
        .map(|(quantity, name)| check(quantity, "j", value("n12-percentile", name)));
    let constant = response(value("n01-md1", "R"));
    let first_come = response(value("n02-mh2", "R"));
    let sharing = response(value("n02-mh2", "R_if_PS"));
    let exponential = r#""exponential""#;
    vec![
        case("n01", one(QUEUE, 0.8, r#""constant""#), constant, 1_500_000),
        case("n02 first come first served", one(QUEUE, 0.7, h2), first_come, 2_000_000),
        case("n02 shared", one(SHARED, 0.7, h2), sharing, 1_500_000),
        case("n12", one(QUEUE, 0.8, exponential), percentiles.to_vec(), 2_000_000),
    ]
}

fn priorities() -> Vec<Simulated> {
    let two = |discipline: &str, high: f64, low: f64| {
        let centre = format!(r#"{{ "name": "s", "kind": "queue", "discipline": "{discipline}" }}"#);
        let high = open("high", 0.3, POISSON, &seconds(high, ""), r#", "priority": 1"#);
        model(&centre, &[high, open("low", 0.4, POISSON, &seconds(low, ""), "")])
    };
    let checks = |id: &str| {
        let references = numbers(&outputs(id)["R"]);
        let pairs = ["high", "low"].into_iter().zip(references);
        pairs.map(|(class, reference)| check("response", class, reference)).collect()
    };
    vec![
        case("n04", two("priority", 1.0, 1.0), checks("n04-hol"), 2_000_000),
        case("n05", two("preemptive-priority", 0.5, 1.2), checks("n05-preempt"), 2_000_000),
    ]
}

fn refusals() -> Vec<Simulated> {
    let limited = |capacity: f64| {
        let capacity = number(capacity);
        format!(r#"{{ "name": "s", "kind": "queue", "capacity": {capacity} }}"#)
    };
    let lossy = open("j", 0.9, POISSON, &seconds(1.0, ""), "");
    let again = format!(r#", "try_again": {}"#, seconds(2.0, ""));
    let patient = open("j", 0.6, POISSON, &seconds(1.0, ""), &again);
    let checks = [("unanswered", "loss"), ("throughput", "X"), ("queue", "L"), ("response", "R")]
        .map(|(quantity, name)| check(quantity, "j", value("n06-mm1k", name)));
    let retried = vec![check("response", "j", value("n09-retrial", "R"))];
    vec![
        case("n06", model(&limited(5.0), &[lossy]), checks.to_vec(), 1_500_000),
        case("n09", model(&limited(1.0), &[patient]), retried, 1_500_000),
    ]
}

fn arrivals() -> Vec<Simulated> {
    let stay = seconds(20.0, "");
    let bursts = format!(
        r#"{{ "bursts": {{ "phases": [{{ "rate": 1.6, "stay": {stay} }},
        {{ "rate": 0.2, "stay": {stay} }}] }} }}"#
    );
    let one = |rate: f64, arrivals: &str| {
        model(QUEUE, &[open("j", rate, arrivals, &seconds(1.0, ""), "")])
    };
    let response = |id: &str| vec![check("response", "j", value(id, "R"))];
    vec![
        case("n07", one(0.8, r#""regular""#), response("n07-dm1"), 1_500_000),
        case("n10", one(0.9, &bursts), response("n10-mmpp"), 15_000_000),
    ]
}

fn leases() -> Vec<Simulated> {
    let rows = outputs("n13-lease")["rows"].as_array().cloned().unwrap_or_default();
    let one = |row: &Value| {
        let of = |name: &str| row[name].as_f64().unwrap_or(f64::NAN);
        let (reads, term) = (of("reads_per_s"), of("term_s"));
        let (one, term_text) = (number(1.0), seconds(term, ""));
        let cache = format!(
            r#", "cache": {{ "scope": "client", "blocks": {one}, "objects": {one}, "skips": ["s"],
            "lease": {{ "term": {term_text}, "renewal": ["s"] }} }}"#
        );
        let reader = open("reader", reads, POISSON, &seconds(1e-6, ""), &cache);
        let share = check("renewals", "reader", of("fraction_of_reads"));
        let centre = r#"{ "name": "s", "kind": "delay" }"#;
        case(
            format!("n13 {reads} reads a second, {term} s"),
            model(centre, &[reader]),
            vec![share],
            2_000_000,
        )
    };
    rows.iter().map(one).collect()
}

fn closed_systems() -> Vec<Simulated> {
    let class = |name: &str, population: usize, think: f64, demand: &str| {
        closed(name, population, &seconds(think, ""), &format!(r#""s": {demand}"#), "")
    };
    let classes = [class("a", 3, 1.0, &seconds(0.2, "")), class("b", 3, 4.0, &seconds(1.0, ""))];
    let outputs = outputs("n15-fcfs-classdep");
    let mut checks = Vec::new();
    for (index, name) in ["a", "b"].into_iter().enumerate() {
        for (quantity, key) in [("throughput", "X"), ("response", "R"), ("queue", "Q")] {
            checks.push(check(quantity, name, numbers(&outputs[key])[index]));
        }
    }
    let mut all = vec![case("n15", model(QUEUE, &classes), checks, 2_000_000)];
    for law in [r#""constant""#, r#""exponential""#, r#"{ "hyperexponential": { "scv": 4.0 } }"#] {
        let model = model(SHARED, &[class("j", 10, 5.0, &service(law))]);
        let reference = value("n16-insensitive", "X_any_distribution");
        let checks = vec![check("throughput", "j", reference)];
        all.push(case(format!("n16 {law}"), model, checks, 1_000_000));
    }
    all
}
