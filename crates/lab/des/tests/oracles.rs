//! Systems with a known answer that are not product form, and agreement where they are.

mod common;

use common::{closed, model, number, of, open, run, seconds};
use leasehold_lab_des::Quantity::{Queue, Renewals, Response, Throughput, Unanswered};
use leasehold_lab_des::{Interval, Quantity};
use leasehold_lab_network::model::Model;
use leasehold_lab_network::solve;
use leasehold_lab_oracles::{non_product_form, numbers};
use serde_json::Value;

const QUEUE: &str = r#"{ "name": "s", "kind": "queue" }"#;
const POISSON: &str = r#""poisson""#;

fn outputs(id: &str) -> Value {
    non_product_form(id).expect("a reference case")["outputs"].clone()
}

fn value(id: &str, name: &str) -> f64 {
    outputs(id)[name].as_f64().expect("a number")
}

/// Whether a reference lies within four standard errors, or within one per cent.
fn agrees(interval: Interval, reference: f64) -> bool {
    // The half width of a 90 % interval is 1.75 standard errors for 16 replications.
    let distance = (interval.mean - reference).abs();
    distance <= 4.0 * interval.half_width / 1.75 || distance <= 0.01 * reference.abs()
}

fn assert_agrees(what: &str, interval: Interval, reference: f64) {
    assert!(agrees(interval, reference), "{what}: {interval:?} against {reference}");
    // An interval that says nothing would agree with everything.
    assert!(interval.relative() < 0.05, "{what}: {interval:?}");
}

fn response(model: &Model, services: u64, class: &str) -> Interval {
    of(&run(model, 1, services), Response, class, None)
}

#[test]
fn n01_constant_service() {
    let service = seconds(1.0, r#", "law": "constant""#);
    let model = model(QUEUE, &[open("j", 0.8, POISSON, &service, "")]);
    assert_agrees("n01", response(&model, 1_500_000, "j"), value("n01-md1", "R"));
}

#[test]
fn n02_hyperexponential_service() {
    let service = seconds(1.0, r#", "law": { "hyperexponential": { "scv": 4.0 } }"#);
    let fcfs = model(QUEUE, &[open("j", 0.7, POISSON, &service, "")]);
    assert_agrees("n02", response(&fcfs, 2_000_000, "j"), value("n02-mh2", "R"));
    let sharing = r#"{ "name": "s", "kind": "queue", "discipline": "processor-sharing" }"#;
    let shared = model(sharing, &[open("j", 0.7, POISSON, &service, "")]);
    assert_agrees("n02 shared", response(&shared, 1_500_000, "j"), value("n02-mh2", "R_if_PS"));
}

#[test]
fn n04_priority() {
    let centre = r#"{ "name": "s", "kind": "queue", "discipline": "priority" }"#;
    let high = open("high", 0.3, POISSON, &seconds(1.0, ""), r#", "priority": 1"#);
    let low = open("low", 0.4, POISSON, &seconds(1.0, ""), "");
    let outcomes = run(&model(centre, &[high, low]), 1, 2_000_000);
    let references = numbers(&outputs("n04-hol")["R"]);
    assert_agrees("n04 high", of(&outcomes, Response, "high", None), references[0]);
    assert_agrees("n04 low", of(&outcomes, Response, "low", None), references[1]);
}

#[test]
fn n05_preemptive_priority() {
    let centre = r#"{ "name": "s", "kind": "queue", "discipline": "preemptive-priority" }"#;
    let high = open("high", 0.3, POISSON, &seconds(0.5, ""), r#", "priority": 1"#);
    let low = open("low", 0.4, POISSON, &seconds(1.2, ""), "");
    let outcomes = run(&model(centre, &[high, low]), 1, 2_000_000);
    let references = numbers(&outputs("n05-preempt")["R"]);
    assert_agrees("n05 high", of(&outcomes, Response, "high", None), references[0]);
    assert_agrees("n05 low", of(&outcomes, Response, "low", None), references[1]);
}

#[test]
fn n06_finite_queue() {
    let capacity = number(5.0);
    let centre = format!(r#"{{ "name": "s", "kind": "queue", "capacity": {capacity} }}"#);
    let outcomes =
        run(&model(&centre, &[open("j", 0.9, POISSON, &seconds(1.0, ""), "")]), 1, 1_500_000);
    assert_agrees("loss", of(&outcomes, Unanswered, "j", None), value("n06-mm1k", "loss"));
    assert_agrees("X", of(&outcomes, Throughput, "j", None), value("n06-mm1k", "X"));
    assert_agrees("L", of(&outcomes, Queue, "j", Some("s")), value("n06-mm1k", "L"));
    assert_agrees("R", of(&outcomes, Response, "j", None), value("n06-mm1k", "R"));
}

#[test]
fn n07_regular_arrivals() {
    let model = model(QUEUE, &[open("j", 0.8, r#""regular""#, &seconds(1.0, ""), "")]);
    assert_agrees("n07", response(&model, 1_500_000, "j"), value("n07-dm1", "R"));
}

#[test]
fn n09_try_again_later() {
    let capacity = number(1.0);
    let centre = format!(r#"{{ "name": "s", "kind": "queue", "capacity": {capacity} }}"#);
    let again = format!(r#", "try_again": {}"#, seconds(2.0, ""));
    let class = open("j", 0.6, POISSON, &seconds(1.0, ""), &again);
    let model = model(&centre, &[class]);
    assert_agrees("n09", response(&model, 1_500_000, "j"), value("n09-retrial", "R"));
}

#[test]
fn n10_bursts() {
    let stay = seconds(20.0, "");
    let bursts = format!(
        r#"{{ "bursts": {{ "phases": [{{ "rate": 1.6, "stay": {stay} }},
        {{ "rate": 0.2, "stay": {stay} }}] }} }}"#
    );
    let model = model(QUEUE, &[open("j", 0.9, &bursts, &seconds(1.0, ""), "")]);
    assert_agrees("n10", response(&model, 15_000_000, "j"), value("n10-mmpp", "R"));
}

#[test]
fn n12_percentiles() {
    let model = model(QUEUE, &[open("j", 0.8, POISSON, &seconds(1.0, ""), "")]);
    let outcomes = run(&model, 1, 2_000_000);
    for (quantity, name) in [
        (Quantity::ResponseP50, "p50"),
        (Quantity::ResponseP95, "p95"),
        (Quantity::ResponseP99, "p99"),
    ] {
        assert_agrees(name, of(&outcomes, quantity, "j", None), value("n12-percentile", name));
    }
}

#[test]
fn n13_lease_renewals() {
    let rows = outputs("n13-lease")["rows"].as_array().expect("rows").clone();
    assert_eq!(rows.len(), 15);
    for row in rows {
        let number_of = |name: &str| row[name].as_f64().expect("a number");
        let (reads, term) = (number_of("reads_per_s"), number_of("term_s"));
        let (one, term_text) = (number(1.0), seconds(term, ""));
        let cache = format!(
            r#", "cache": {{ "scope": "client", "blocks": {one}, "objects": {one}, "skips": ["s"],
            "lease": {{ "term": {term_text}, "renewal": ["s"] }} }}"#
        );
        let class = open("reader", reads, POISSON, &seconds(1e-6, ""), &cache);
        let centre = r#"{ "name": "s", "kind": "delay" }"#;
        let outcomes = run(&model(centre, &[class]), 1, 100_000);
        let renewals = of(&outcomes, Renewals, "reader", None);
        assert_agrees(&row.to_string(), renewals, number_of("fraction_of_reads"));
    }
}

#[test]
fn n15_first_come_first_served_with_unequal_means() {
    let classes = [
        closed("a", 3, &seconds(1.0, ""), &format!(r#""s": {}"#, seconds(0.2, "")), ""),
        closed("b", 3, &seconds(4.0, ""), &format!(r#""s": {}"#, seconds(1.0, "")), ""),
    ];
    let outcomes = run(&model(QUEUE, &classes), 1, 2_000_000);
    for (index, class) in ["a", "b"].into_iter().enumerate() {
        for (quantity, name, centre) in
            [(Throughput, "X", None), (Response, "R", None), (Queue, "Q", Some("s"))]
        {
            let reference = numbers(&outputs("n15-fcfs-classdep")[name])[index];
            assert_agrees(name, of(&outcomes, quantity, class, centre), reference);
        }
    }
}

#[test]
fn n16_sharing_does_not_care_for_the_law() {
    let centre = r#"{ "name": "s", "kind": "queue", "discipline": "processor-sharing" }"#;
    for law in [r#""constant""#, r#""exponential""#, r#"{ "hyperexponential": { "scv": 4.0 } }"#] {
        let demand = seconds(1.0, &format!(r#", "law": {law}"#));
        let class = closed("j", 10, &seconds(5.0, ""), &format!(r#""s": {demand}"#), "");
        let outcomes = run(&model(centre, &[class]), 1, 1_000_000);
        let reference = value("n16-insensitive", "X_any_distribution");
        assert_agrees(law, of(&outcomes, Throughput, "j", None), reference);
    }
}

#[test]
fn solver_and_simulator_agree_on_product_form() {
    let servers = number(3.0);
    let centres = format!(
        r#"{{ "name": "line", "kind": "delay" }},
        {{ "name": "cpu", "kind": {{ "servers": {{ "count": {servers} }} }} }},
        {{ "name": "ether", "kind": {{ "load-dependent": {{ "rates": [1.0, 0.9, 0.8],
            "from": "assumed" }} }} }},
        {{ "name": "disk", "kind": "queue", "discipline": "processor-sharing" }}"#
    );
    let demands = |line: f64, cpu: f64, ether: f64, disk: f64| {
        let part = |name: &str, value: f64| format!(r#""{name}": {}"#, seconds(value, ""));
        [part("line", line), part("cpu", cpu), part("ether", ether), part("disk", disk)].join(", ")
    };
    // Equal means at the centres that serve in order, unequal ones where service is shared.
    let classes = [
        closed("a", 6, &seconds(2.0, ""), &demands(0.3, 0.9, 0.2, 0.1), ""),
        closed("b", 4, &seconds(1.0, ""), &demands(0.1, 0.9, 0.2, 0.4), ""),
    ];
    let model = model(&centres, &classes);
    assert!(model.left_out().is_empty());
    let exact = solve(&model.network()).expect("solved");
    let outcomes = run(&model, 1, 2_000_000);
    for (class, name) in ["a", "b"].into_iter().enumerate() {
        assert_agrees("X", of(&outcomes, Throughput, name, None), exact.throughput[class]);
        assert_agrees("R", of(&outcomes, Response, name, None), exact.response[class]);
        for (centre, centre_name) in ["line", "cpu", "ether", "disk"].into_iter().enumerate() {
            let queue = of(&outcomes, Queue, name, Some(centre_name));
            assert_agrees(centre_name, queue, exact.queue[centre][class]);
        }
    }
}
