//! The conformance suite of stores on a volume in memory.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use leasehold_fs::suite::{Subject, block_on, run_all, run_model};
use leasehold_fs::{Caller, Mode, SetAttributes, Store};

use super::volume::{Volume, superuser};

fn subject() -> Subject {
    let groups = leasehold_base::groups::Groups::new(&[1500]).expect("one group fits");
    let mut volume = Volume::new();
    let seconds = Cell::new(1_700_000_000);
    volume.set_now(seconds.get());
    let store = Arc::new(volume.start());
    let all = SetAttributes { mode: Some(Mode::from_bits(0o777)), ..SetAttributes::default() };
    let opened = block_on(store.setattr(&superuser(), &store.root(), &all, None));
    opened.result.expect("the superuser may");
    let volume = Rc::new(RefCell::new(volume));
    let restarted = Rc::clone(&volume);
    Subject {
        store,
        owner: Caller { uid: 1000, gid: 1000, groups },
        other: Some(Caller { uid: 2000, gid: 2000, ..Caller::nobody() }),
        superuser: Some(superuser()),
        acts_as_caller: true,
        files_are_its_own: false,
        pass_time: Box::new(move || {
            seconds.set(seconds.get() + 1);
            volume.borrow().set_now(seconds.get());
        }),
        restart: Some(Box::new(move || {
            let mut volume = restarted.borrow_mut();
            volume.crash();
            Arc::new(volume.start()) as Arc<dyn Store>
        })),
    }
}

#[test]
fn a_volume_conforms() {
    assert_eq!(run_all(subject), [""; 0], "nothing is skipped");
}

#[test]
fn a_volume_does_as_the_model() {
    for seed in 0..200 {
        run_model(subject, seed, 120);
    }
}
