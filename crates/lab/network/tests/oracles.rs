//! Every product-form case of the reference answers, to its tolerance.

use leasehold_lab_network::{
    Centre, CentreKind, Class, ClassKind, Network, approximate, bounds, solve,
};
use leasehold_lab_oracles as oracles;

fn close(ours: f64, reference: f64, tolerance: f64) -> bool {
    (ours - reference).abs() <= tolerance * reference.abs().max(1e-12)
}

fn all_close(ours: &[f64], reference: &[f64], tolerance: f64) -> bool {
    ours.len() == reference.len()
        && ours.iter().zip(reference).all(|(o, r)| close(*o, *r, tolerance))
}

#[test]
fn every_product_form_case_is_exact() {
    let cases = oracles::product_form();
    assert_eq!(cases.len(), 22);
    for case in cases {
        let ours = solve(&case.model.network()).expect("a case can be solved");
        let error = case.error(&ours);
        assert!(error <= case.tolerance_rel, "{}: {error}", case.id);
    }
}

#[test]
fn bard_schweitzer_reaches_the_same_fixed_point() {
    let mut compared = 0;
    for case in oracles::product_form() {
        if let Some(reference) = &case.bard_schweitzer {
            let ours = approximate::bard_schweitzer(&case.model.network()).expect("closed queues");
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
        let network = case.model.network();
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
