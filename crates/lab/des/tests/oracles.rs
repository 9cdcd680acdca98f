//! Systems that have a known solution without product form, and agreement with product form.

mod common;

use common::{of, run};
use leasehold_lab_des::Interval;
use leasehold_lab_des::Quantity::{Queue, Response, Throughput};
use leasehold_lab_network::solve;
use leasehold_lab_oracles::build::{closed, model, number, seconds};
use leasehold_lab_oracles::simulated;

/// Asserts that a reference lies within four standard errors, or within one per cent.
fn assert_agrees(what: &str, interval: Interval, reference: f64) {
    // The half width of a 90 % interval is 1.75 standard errors for 16 replications.
    let distance = (interval.mean - reference).abs();
    let near = distance <= 4.0 * interval.half_width / 1.75 || distance <= 0.01 * reference.abs();
    assert!(near, "{what}: {interval:?} against {reference}");
    // A very wide interval would agree with any value.
    assert!(interval.relative() < 0.05, "{what}: {interval:?}");
}

/// Simulates the cases whose name begins with one of `beginnings`, and compares.
fn agree(beginnings: &[&str]) {
    let cases = simulated();
    let chosen: Vec<_> = cases
        .iter()
        .filter(|case| beginnings.iter().any(|beginning| case.id.starts_with(beginning)))
        .collect();
    assert!(chosen.len() >= beginnings.len());
    for case in chosen {
        // Half of the services that the figures use, for speed.
        let outcomes = run(&case.model, 1, case.services / 2);
        for check in &case.checks {
            let outcome = outcomes.iter().find(|outcome| {
                let metric = &outcome.metric;
                serde_json::json!(metric.quantity) == check.quantity
                    && metric.class == check.class
                    && metric.centre.as_deref() == check.centre
            });
            let interval = outcome.expect("every reference has its metric").interval;
            assert_agrees(&case.id, interval, check.reference);
        }
    }
}

#[test]
fn single_servers_agree() {
    agree(&["n01", "n02", "n12"]);
}

#[test]
fn priorities_agree() {
    agree(&["n04", "n05"]);
}

#[test]
fn full_queues_agree() {
    agree(&["n06", "n09"]);
}

#[test]
fn regular_and_bursty_arrivals_agree() {
    agree(&["n07", "n10"]);
}

#[test]
fn lease_renewals_agree() {
    agree(&["n13"]);
}

#[test]
fn closed_systems_agree() {
    agree(&["n15", "n16"]);
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
    // Equal means at the FCFS centres, unequal means at the sharing centres.
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
