//! The conformance suite of stores, on volumes of several metaservers.

use core::time::Duration;
use std::sync::Arc;

use leasehold_fs::suite::{Subject, run_all, run_model};
use leasehold_fs::{Capability, Store};

use super::data::{Iods, new_file};
use super::lan::Lan;
use crate::Order;

/// Returns the store of one metaserver of a network.
fn subject(lan: Lan, at: usize) -> Subject {
    lan.hurry();
    let iods = Iods::new();
    let store = iods.open(&lan, at);
    let network = lan.clone();
    Subject {
        capabilities: vec![
            Capability::Coherence,
            Capability::DirectLayouts,
            Capability::LocalMetadata,
            Capability::Reservations,
            Capability::Ranges,
        ],
        files_are_its_own: false,
        names_are_its_own: false,
        restart: Some(Box::new(move || {
            network.kill(at, None);
            network.start(at);
            network.pass(Duration::from_secs(2));
            iods.open(&network, at) as Arc<dyn Store>
        })),
        ..Subject::of_every_user(store, move |_| lan.pass(Duration::from_secs(1)))
    }
}

fn lazy(count: usize, at: usize) -> Subject {
    subject(Lan::with(count, Order::Constant, new_file), at)
}

fn strict(count: usize, at: usize) -> Subject {
    subject(Lan::strict(count, new_file), at)
}

fn conforms(make_subject: impl Fn() -> Subject) {
    assert_eq!(run_all(make_subject), [""; 0], "nothing is skipped");
}

#[test]
fn a_metaserver_alone_conforms() {
    conforms(|| lazy(1, 0));
}

#[test]
fn a_metaserver_among_others_conforms() {
    for at in [0, 1] {
        conforms(|| lazy(3, at));
    }
}

#[test]
fn a_metaserver_with_leases_conforms() {
    for at in [0, 1] {
        conforms(|| strict(3, at));
    }
}

#[test]
fn a_metaserver_among_others_matches_the_model() {
    for seed in 0..20 {
        let at = usize::try_from(seed % 2).expect("it is a bit");
        run_model(|| lazy(2, at), seed, 120);
        run_model(|| strict(2, at), seed, 120);
    }
}
