//! The conformance suite of stores on a volume in memory.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use leasehold_fs::Store;
use leasehold_fs::suite::{Subject, run_all, run_model};

use super::volume::Volume;

fn subject(copies: u16) -> Subject {
    let mut volume = Volume::new();
    volume.copies = copies;
    let store = Arc::new(volume.start());
    let volume = Rc::new(RefCell::new(volume));
    let clock = Rc::clone(&volume);
    Subject {
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
