//! Every product-form case of the reference answers, to its tolerance.

use leasehold_lab_network::{
    Centre, CentreKind, Class, ClassKind, Network, Solution, approximate, bounds, idle_probability,
    solve,
};
use leasehold_lab_oracles as oracles;

fn network(model: &oracles::Model) -> Network {
    let classes = model
        .classes
        .iter()
        .map(|class| Class {
            name: class.name.clone(),
            kind: match class.lambda {
                Some(rate) => ClassKind::Open { rate },
                None => ClassKind::Closed {
                    population: class.population.expect("closed"),
                    think: class.think.expect("closed"),
                },
            },
        })
        .collect();
    let centres = model
        .stations
        .iter()
        .map(|station| Centre {
            name: station.name.clone(),
            kind: match station.kind.as_str() {
                "delay" => CentreKind::Delay,
                "queue" => CentreKind::Queue,
                "multiserver" => CentreKind::Servers(station.m.expect("servers")),
                "loaddep" => CentreKind::LoadDependent(station.alpha.clone().expect("rates")),
                other => panic!("unknown kind {other}"),
            },
            demands: station.demands.clone(),
        })
        .collect();
    Network { classes, centres }
}

fn close(ours: f64, reference: f64, tolerance: f64) -> bool {
    (ours - reference).abs() <= tolerance * reference.abs().max(1e-12)
}

fn all_close(ours: &[f64], reference: &[f64], tolerance: f64) -> bool {
    ours.len() == reference.len()
        && ours.iter().zip(reference).all(|(o, r)| close(*o, *r, tolerance))
}

fn agrees(ours: &Solution, case: &oracles::ProductForm) -> bool {
    let tolerance = case.tolerance_rel;
    let tables = |ours: &[Vec<f64>], reference: &[Vec<f64>]| {
        ours.iter().zip(reference).all(|(ours, reference)| all_close(ours, reference, tolerance))
    };
    all_close(&ours.throughput, &case.expect.throughput, tolerance)
        && all_close(&ours.response, &case.expect.response, tolerance)
        && tables(&ours.queue, &case.expect.queue)
        && tables(&ours.utilisation, &case.expect.utilisation)
}

#[test]
fn every_product_form_case_is_exact() {
    let cases = oracles::product_form();
    assert_eq!(cases.len(), 22);
    for case in cases {
        let network = network(&case.model);
        let ours = solve(&network).expect("a case can be solved");
        assert!(agrees(&ours, &case), "{}: {ours:?} against {:?}", case.id, case.expect);
        for (centre, reference) in case.expect.busy.iter().enumerate() {
            if let Some(reference) = reference {
                let busy = ours.busy[centre].unwrap_or_else(|| {
                    1.0 - idle_probability(&network, centre).expect("a closed network")
                });
                assert!(close(busy, *reference, case.tolerance_rel), "{} centre {centre}", case.id);
            }
        }
    }
}

#[test]
fn bard_schweitzer_reaches_the_same_fixed_point() {
    let mut compared = 0;
    for case in oracles::product_form() {
        if let Some(reference) = &case.bard_schweitzer {
            let ours = approximate::bard_schweitzer(&network(&case.model)).expect("closed queues");
            let same = all_close(&ours.throughput, &reference.throughput, reference.tolerance_rel);
            assert!(same, "{}: {:?} {:?}", case.id, ours.throughput, reference.throughput);
            compared += 1;
        }
    }
    assert!(compared >= 10, "{compared}");
}

#[test]
fn linearizer_is_nearer_than_bard_schweitzer() {
    for case in oracles::product_form().iter().filter(|case| case.bard_schweitzer.is_some()) {
        let network = network(&case.model);
        let exact = solve(&network).expect("solved");
        let plain = approximate::bard_schweitzer(&network).expect("covered");
        let better = approximate::linearizer(&network).expect("covered");
        let (plain, better) = (
            approximate::error_against(&exact, &plain),
            approximate::error_against(&exact, &better),
        );
        assert!(better <= plain + 1e-9, "{}: {better} > {plain}", case.id);
        assert!(better < 0.01, "{}: {better}", case.id);
    }
}

#[test]
fn bounds_equal_the_reference() {
    for case in oracles::bounds() {
        let network = Network {
            classes: vec![Class {
                name: "c".into(),
                kind: ClassKind::Closed { population: case.population, think: case.think },
            }],
            centres: case
                .demands
                .iter()
                .map(|demand| Centre {
                    name: "q".into(),
                    kind: CentreKind::Queue,
                    demands: vec![*demand],
                })
                .collect(),
        };
        let ours = bounds::bounds(&network).expect("one closed class");
        let pair = |range: bounds::Range| [range.least, range.most];
        for (ours, reference) in [
            (pair(ours.asymptotic.throughput), case.asymptotic_throughput),
            (pair(ours.asymptotic.response), case.asymptotic_response),
            (pair(ours.balanced.throughput), case.balanced_throughput),
            (pair(ours.balanced.response), case.balanced_response),
        ] {
            assert!(all_close(&ours, &reference, 1e-12), "{} {}", case.model, case.population);
        }
        assert!(close(ours.knee, case.knee, 1e-12));
    }
}
