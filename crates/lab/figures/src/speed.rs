//! The speed of solvers and simulator: processor time, the best of several runs.

use crate::Figure;
use leasehold_lab_des::Engine;
use leasehold_lab_network::model::Model;
use leasehold_lab_network::{Centre, CentreKind, Class, ClassKind, Network, approximate, surface};
use leasehold_lab_oracles::build::{closed, diskless, model, number, seconds};
use rustix::time::{ClockId, clock_gettime};

/// Returns the processor time of this thread so far, in seconds.
fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Returns the shortest processor time of several runs.
fn best(runs: usize, mut work: impl FnMut()) -> f64 {
    let run = |_| {
        let start = processor_seconds();
        work();
        processor_seconds() - start
    };
    (0..runs).map(run).fold(f64::INFINITY, f64::min)
}

pub(crate) fn figures() -> Vec<Figure> {
    let network = four_classes();
    let exact = best(3, || {
        let surface = surface(&network);
        assert!(surface.is_ok(), "the surface fits");
        drop(core::hint::black_box(surface));
    });
    let approximation = best(50, || {
        let solution = approximate::bard_schweitzer(core::hint::black_box(&network));
        drop(core::hint::black_box(solution));
    });
    let better = best(50, || {
        let solution = approximate::linearizer(core::hint::black_box(&network));
        drop(core::hint::black_box(solution));
    });
    let slower = approximation.max(better);
    let plain = services_per_second(&diskless(30), 20_000_000);
    let leased = services_per_second(&leased(), 10_000_000);
    vec![
        at_most("mva.4x50x6.seconds", exact, 0.5, "<=0.5", "s"),
        at_most("approx.4x50x6.us", slower * 1e6, 100.0, "<=100", "us"),
        at_least("des.plain.per-cpu-second", plain, 10e6, ">=10000000"),
        at_least("des.leases.per-cpu-second", leased, 2e6, ">=2000000"),
    ]
}

fn at_most(
    name: &'static str,
    ours: f64,
    limit: f64,
    target: &'static str,
    unit: &'static str,
) -> Figure {
    Figure { name, ours, target, unit, holds: ours <= limit }
}

fn at_least(name: &'static str, ours: f64, limit: f64, target: &'static str) -> Figure {
    Figure { name, ours, target, unit: "services/s", holds: ours >= limit }
}

/// Returns the services completed at centres per second of processor time.
fn services_per_second(model: &Model, services: u64) -> f64 {
    let mut done = 0;
    let time = best(3, || {
        let mut engine = Engine::new(model, 1);
        let end = engine.run_completions(services);
        assert!(end.is_ok(), "the model moves on");
        done = engine.take_tally().services();
    });
    done as f64 / time
}

/// Returns a network of four classes of fifty customers over six centres.
fn four_classes() -> Network {
    let demand = |class: usize, centre: usize| 0.001 * (1 + (class * 7 + centre * 3) % 5) as f64;
    let class = |class: usize| Class {
        name: format!("class {class}"),
        kind: ClassKind::Closed { population: 50, think: 0.05 * class as f64 },
    };
    let centre = |centre: usize| Centre {
        name: format!("centre {centre}"),
        kind: CentreKind::Queue,
        demands: (0..4).map(|class| demand(class, centre)).collect(),
    };
    Network { classes: (0..4).map(class).collect(), centres: (0..6).map(centre).collect() }
}

/// Returns a model of a hundred clients with caches under leases; one message in a hundred is lost
/// and retransmitted.
fn leased() -> Model {
    let loss = number(0.01);
    let centres = format!(
        r#"{{ "name": "client", "kind": "delay" }},
        {{ "name": "net", "kind": "queue", "loss": {loss} }},
        {{ "name": "cpu", "kind": "queue" }}, {{ "name": "disk", "kind": "queue" }}"#
    );
    let demands = format!(
        r#""client": {}, "net": {}, "cpu": {}, "disk": {}"#,
        seconds(0.0002, ""),
        seconds(0.00036, ""),
        seconds(0.0004, ""),
        seconds(0.00188, "")
    );
    let (after, term) = (seconds(1.0, ""), seconds(30.0, ""));
    let (blocks, objects) = (number(200.0), number(2_000.0));
    let more = format!(
        r#", "timeout": {{ "after": {after}, "retries": 5 }},
        "cache": {{ "scope": "client", "blocks": {blocks}, "objects": {objects}, "zipf": 0.9,
            "writes": 0.05, "skips": ["net", "cpu", "disk"],
            "lease": {{ "term": {term}, "renewal": ["net", "cpu"] }} }}"#
    );
    model(&centres, &[closed("client", 100, &seconds(0.1, ""), &demands, &more)])
}
