//! The conformance suite of stores on a volume in memory.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use leasehold_fs::suite::{Subject, check_wrapper, run_all, run_model};
use leasehold_fs::{Capability, Store};

use super::volume::Volume;

fn subject(copies: u16) -> Subject {
    let mut volume = Volume::new();
    volume.copies = copies;
    let store = Arc::new(volume.start());
    let volume = Rc::new(RefCell::new(volume));
    let clock = Rc::clone(&volume);
    Subject {
        capabilities: vec![
            Capability::Coherence,
            Capability::DirectLayouts,
            Capability::LocalMetadata,
            Capability::Reservations,
            Capability::OpenFiles,
            Capability::ExtendedAttributes,
            Capability::Ranges,
        ],
        files_are_its_own: false,
        restart: Some(Box::new(move || {
            let mut volume = volume.borrow_mut();
            volume.crash();
            Arc::new(volume.start()) as Arc<dyn Store>
        })),
        ..Subject::of_every_user(store, move |now| clock.borrow().set_now(now))
    }
}

#[test]
fn a_volume_conforms() {
    for copies in [1, 2] {
        assert_eq!(run_all(|| subject(copies)), [""; 0], "nothing is skipped");
    }
}

#[test]
fn a_volume_does_as_the_model() {
    for seed in 0..200 {
        run_model(|| subject(1 + u16::try_from(seed % 2).expect("it is a bit")), seed, 120);
    }
}

#[test]
fn a_volume_passes_on_the_coherence_of_its_names() {
    let mut volume = Volume::new();
    let names = Arc::clone(&volume.names);
    let own = [
        Capability::DirectLayouts,
        Capability::LocalMetadata,
        Capability::Reservations,
        Capability::Ranges,
    ];
    // The volume itself encodes and uses the layout policies of its names.
    check_wrapper(&*names, &volume.start(), &[Capability::LayoutPolicies], &own);
}
