//! Properties of the simulator besides correct means: coverage of intervals, repeatable random
//! streams, and invariants of the features without a closed form.

mod common;

use common::{of, run, studied};
use leasehold_lab_des::Quantity::{
    CentreThroughput, Hits, Renewals, Response, Retransmitted, Throughput, Unanswered, Utilisation,
    Wasted,
};
use leasehold_lab_des::{Engine, Options, Replication, Shortfall, Study, in_turn};
use leasehold_lab_network::model::Model;
use leasehold_lab_network::solve;
use leasehold_lab_oracles::build::{closed, diskless, model, number, open, seconds};

const POISSON: &str = r#""poisson""#;
const QUEUE: &str = r#"{ "name": "s", "kind": "queue" }"#;

/// Returns how often the 90 % interval of throughput and response time contains the exact value.
fn coverage(model: &Model, studies: u64) -> f64 {
    let exact = solve(&model.network()).expect("solved");
    let name = &model.classes[0].name;
    let mut held = 0;
    for seed in 1..=studies {
        let options = Options { seed, width: 0.03, replications: 10, ..Options::default() };
        let outcomes = studied(model, options);
        held += u64::from(of(&outcomes, Response, name, None).holds(exact.response[0]));
    }
    held as f64 / studies as f64
}

#[test]
fn intervals_cover_as_often_as_stated() {
    let mm1 = model(QUEUE, &[open("j", 0.5, POISSON, &seconds(1.0, ""), "")]);
    for (what, model) in [("M/M/1", mm1), ("diskless", diskless(20))] {
        let held = coverage(&model, 200);
        assert!((0.85..=0.95).contains(&held), "{what}: {held}");
    }
}

#[test]
fn one_seed_gives_the_same_bits_in_any_order_of_replications() {
    let model = diskless(10);
    let options = Options { replications: 4, width: 0.05, ..Options::default() };
    let forwards = studied(&model, options);
    let backwards = |replications: &mut [Replication], until: f64| {
        replications.iter_mut().rev().for_each(|replication| replication.advance(until));
    };
    let mut study = Study::new(&model, options).expect("small");
    assert_eq!(study.run(&backwards).expect("moves on"), forwards);
    let other = Options { seed: 2, ..options };
    assert_ne!(studied(&model, other), forwards);
}

#[test]
fn variants_use_common_random_numbers() {
    // A faster disk with the same arrivals: the difference varies far less than either value.
    let at = |disk: f64, seed: u64| {
        let class = open("j", 0.5, POISSON, &seconds(disk, ""), "");
        let mut engine = Engine::new(&model(QUEUE, &[class]), seed);
        engine.run_until(2_000.0, u64::MAX).expect("moves on");
        engine.take_tally().answers() as f64
    };
    let difference: Vec<f64> = (1..20).map(|seed| at(0.5, seed) - at(0.45, seed)).collect();
    let spread = |values: &[f64]| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>()
    };
    let alone: Vec<f64> = (1..20).map(|seed| at(0.5, seed)).collect();
    assert!(spread(&difference) < 0.02 * spread(&alone));
}

#[test]
fn lost_requests_are_retransmitted_and_then_abandoned() {
    let loss = number(0.2);
    let centre = format!(r#"{{ "name": "s", "kind": "delay", "loss": {loss} }}"#);
    let after = seconds(1.0, "");
    let timeout = |retries: u32| {
        let timeout = format!(r#", "timeout": {{ "after": {after}, "retries": {retries} }}"#);
        let class = open("j", 1.0, POISSON, &seconds(0.001, ""), &timeout);
        run(&model(&centre, &[class]), 1, 400_000)
    };
    let two = timeout(2);
    // Lost three times in a row: 0.2^3. Retransmissions: 0.2 + 0.2^2.
    let unanswered = of(&two, Unanswered, "j", None);
    assert!((unanswered.mean - 0.008).abs() < 0.001, "{unanswered:?}");
    let sent_again = of(&two, Retransmitted, "j", None);
    assert!((sent_again.mean - 0.24).abs() < 0.005, "{sent_again:?}");
    // A reply after one loss takes 1 s more, after two 3 s: the timeout doubles.
    let response = of(&two, Response, "j", None).mean;
    let wanted = 0.001 + (0.8 * 0.2 * 1.0 + 0.8 * 0.04 * 3.0) / 0.992;
    assert!((response / wanted - 1.0).abs() < 0.03, "{response} {wanted}");
    assert!(of(&timeout(0), Retransmitted, "j", None).mean == 0.0);
}

#[test]
fn short_timeouts_waste_replies() {
    let timeout = |after: f64| {
        let after = seconds(after, "");
        format!(r#", "timeout": {{ "after": {after}, "retries": 3 }}"#)
    };
    let wasted = |after: f64| {
        let class = open("j", 0.3, POISSON, &seconds(1.0, ""), &timeout(after));
        of(&run(&model(QUEUE, &[class]), 1, 400_000), Wasted, "j", None).mean
    };
    let (hasty, patient) = (wasted(2.0), wasted(30.0));
    assert!(hasty > 0.1 && patient < 0.001, "{hasty} {patient}");
}

#[test]
fn a_fork_ends_with_its_last_part() {
    let centres = r#"{ "name": "a", "kind": "delay" }, { "name": "b", "kind": "delay" }"#;
    let demands = format!(r#""a": {}, "b": {}"#, seconds(1.0, ""), seconds(1.0, ""));
    let route = r#", "route": [{ "fork": ["a", "b"] }]"#;
    let class = closed("j", 1, &seconds(1.0, ""), &demands, route);
    let response = of(&run(&model(centres, &[class]), 1, 400_000), Response, "j", None);
    // The larger of two exponential times of mean one.
    assert!((response.mean - 1.5).abs() < 0.01, "{response:?}");
}

#[test]
fn a_crash_loses_present_requests_and_clients_recover() {
    let (up, down) = (seconds(50.0, ""), seconds(5.0, ""));
    let centre = format!(
        r#"{{ "name": "s", "kind": "queue", "crashes": {{ "up": {up}, "down": {down} }} }}"#
    );
    let after = seconds(2.0, "");
    let timeout =
        format!(r#", "timeout": {{ "after": {after}, "backoff": 1.0, "retries": 1000 }}"#);
    let class = open("j", 0.5, POISSON, &seconds(0.2, ""), &timeout);
    let outcomes = run(&model(&centre, &[class]), 1, 400_000);
    assert_eq!(of(&outcomes, Unanswered, "j", None).mean, 0.0);
    assert!((of(&outcomes, Throughput, "j", None).mean - 0.5).abs() < 0.01);
    // One request in eleven arrives while the server is down and waits some seconds.
    let response = of(&outcomes, Response, "j", None).mean;
    assert!((0.35..1.0).contains(&response), "{response}");
    assert!(of(&outcomes, Retransmitted, "j", None).mean > 0.1);
}

#[test]
fn a_cache_of_everything_misses_each_block_once() {
    let blocks = |capacity: f64| {
        let (capacity, objects) = (number(capacity), number(100.0));
        let cache = format!(
            r#", "cache": {{ "scope": "server", "blocks": {capacity}, "objects": {objects},
            "skips": ["disk"] }}"#
        );
        let centres = r#"{ "name": "cpu", "kind": "delay" }, { "name": "disk", "kind": "queue" }"#;
        let demands = format!(r#""cpu": {}, "disk": {}"#, seconds(0.1, ""), seconds(0.1, ""));
        let outcomes = run(
            &model(centres, &[closed("j", 3, &seconds(1.0, ""), &demands, &cache)]),
            1,
            200_000,
        );
        (
            of(&outcomes, Hits, "j", None).mean,
            of(&outcomes, CentreThroughput, "j", Some("disk")).mean,
        )
    };
    assert_eq!(blocks(100.0), (1.0, 0.0));
    // With uniform popularity an LRU cache of a quarter has a hit ratio of a quarter.
    assert!((blocks(25.0).0 - 0.25).abs() < 0.01);
}

#[test]
fn writes_evict_blocks_from_other_caches_and_leases_expire() {
    let (one, term) = (number(1.0), seconds(10.0, ""));
    let cache = |writes: f64| {
        format!(
            r#", "cache": {{ "scope": "client", "blocks": {one}, "objects": {one},
            "writes": {writes:?}, "skips": ["s"],
            "lease": {{ "term": {term}, "renewal": ["s"] }} }}"#
        )
    };
    let hits = |writes: f64| {
        let demand = format!(r#""s": {}"#, seconds(0.001, ""));
        let class = closed("j", 4, &seconds(1.0, ""), &demand, &cache(writes));
        let outcomes = run(&model(QUEUE, &[class]), 1, 100_000);
        (of(&outcomes, Hits, "j", None).mean, of(&outcomes, Renewals, "j", None).mean)
    };
    let (never, renewals) = hits(0.0);
    // One read per second and a term of ten seconds: one request in eleven renews, the others hit.
    assert!((never - 10.0 / 11.0).abs() < 0.01 && (renewals - 1.0 / 11.0).abs() < 0.01);
    let (often, _) = hits(0.2);
    assert!(often < 0.6, "{often}");
}

#[test]
fn a_trace_is_replayed() {
    let trace = r#"{ "trace": { "seconds": [0.5, 0.5, 3.0, 10.0] } }"#;
    let class = open("j", 0.4, trace, &seconds(1.0, r#", "law": "constant""#), "");
    let outcomes = run(&model(QUEUE, &[class]), 1, 10_000);
    assert!((of(&outcomes, Throughput, "j", None).mean - 0.4).abs() < 0.001);
    // The last customer of a round is still in service when the two of the next round arrive.
    assert!((of(&outcomes, Response, "j", None).mean - 1.5).abs() < 0.001);
    assert!((of(&outcomes, Utilisation, "j", Some("s")).mean - 0.4).abs() < 0.001);
}

#[test]
fn a_system_without_events_ends() {
    let demand = format!(r#""s": {}"#, seconds(1.0, ""));
    let empty = closed("nobody", 0, &seconds(1.0, ""), &demand, "");
    let outcomes = run(&model(QUEUE, &[empty]), 1, 100_000);
    assert_eq!(of(&outcomes, Throughput, "nobody", None).mean, 0.0);
    assert!(of(&outcomes, Response, "nobody", None).mean.is_nan());
}

/// Models that a user can write and that would never end: each is rejected with a reason.
#[test]
fn endless_models_are_rejected_with_a_reason() {
    let study = |model: &Model| {
        let study = Study::new(model, Options { services_max: 100_000, ..Options::default() });
        let end = study.and_then(|mut study| study.run(&in_turn));
        end.expect_err("no end").to_string()
    };
    let demand = format!(r#""s": {}"#, seconds(0.1, ""));
    let busy = |more: &str| closed("j", 3, &seconds(0.0, ""), &demand, more);
    let hour = seconds(3600.0, "");
    let crashing = format!(
        r#"{{ "name": "s", "kind": "queue", "crashes": {{ "up": {hour}, "down": {hour} }} }}"#
    );
    let one = number(1.0);
    let full = format!(r#"{{ "name": "s", "kind": "queue", "capacity": {one} }}"#);
    let cached = format!(
        r#", "cache": {{ "scope": "client", "blocks": {one}, "objects": {one}, "skips": ["s"] }}"#
    );
    for standing in
        [model(&crashing, &[busy("")]), model(&full, &[busy("")]), model(QUEUE, &[busy(&cached)])]
    {
        assert!(study(&standing).starts_with("time stands still"), "{}", study(&standing));
    }
    let (nano, milli) = (seconds(1e-12, ""), seconds(0.001, ""));
    let hasty = format!(r#", "try_again": {nano}"#);
    let flapping = format!(
        r#"{{ "name": "s", "kind": "queue", "crashes": {{ "up": {nano}, "down": {nano} }} }}"#
    );
    for hectic in [
        model(&full, &[busy(&hasty)]),
        model(&flapping, &[closed("j", 3, &milli, &demand, "")]),
        model(QUEUE, &[open("j", 1e12, POISSON, &seconds(1.0, ""), "")]),
    ] {
        assert!(study(&hectic).contains("events led no further"), "{}", study(&hectic));
    }
    let huge = closed("j", 1_000_000_000, &seconds(1.0, ""), &demand, "");
    assert!(study(&model(QUEUE, &[huge])).contains("MiB"));
}

#[test]
fn a_study_reports_its_shortfall() {
    let shortfall = |model: &Model, options: Options| {
        let mut study = Study::new(model, options).expect("small");
        study.run(&in_turn).expect("moves on");
        study.shortfall()
    };
    let options = Options { services_max: 50_000, width: 0.02, ..Options::default() };
    let at = |rate: f64| model(QUEUE, &[open("j", rate, POISSON, &seconds(1.0, ""), "")]);
    assert_eq!(shortfall(&at(1.5), options), Some(Shortfall::Unsteady));
    assert_eq!(shortfall(&at(0.7), Options { width: 1e-6, ..options }), Some(Shortfall::Wide));
    assert_eq!(shortfall(&at(0.2), options), None);
}
