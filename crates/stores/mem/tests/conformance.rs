//! The conformance suite of stores on the store in memory.

use std::cell::Cell;
use std::sync::Arc;

use leasehold_base::units::{FileSystemId, FileTime};
use leasehold_fs::suite::{Subject, block_on, run_all, run_model};
use leasehold_fs::{Caller, Mode, SetAttributes, Store};
use leasehold_store_mem::{Config, MemStore};

fn subject() -> Subject {
    let superuser = Caller { uid: 0, gid: 0, ..Caller::nobody() };
    let groups = leasehold_base::groups::Groups::new(&[1500]).expect("one group fits");
    let store =
        Arc::new(MemStore::new(Config { file_system: FileSystemId(7), ..Config::default() }));
    let all = SetAttributes { mode: Some(Mode::from_bits(0o777)), ..SetAttributes::default() };
    let opened = block_on(store.setattr(&superuser, &store.root(), &all, None));
    opened.result.expect("the superuser may");
    let (clock, restarted) = (Arc::clone(&store), Arc::clone(&store));
    let seconds = Cell::new(1_700_000_000);
    store.set_now(FileTime { seconds: seconds.get(), nanoseconds: 0 });
    Subject {
        store,
        owner: Caller { uid: 1000, gid: 1000, groups },
        other: Some(Caller { uid: 2000, gid: 2000, ..Caller::nobody() }),
        superuser: Some(superuser),
        acts_as_caller: true,
        files_are_its_own: true,
        pass_time: Box::new(move || {
            seconds.set(seconds.get() + 1);
            clock.set_now(FileTime { seconds: seconds.get(), nanoseconds: 0 });
        }),
        restart: Some(Box::new(move || {
            restarted.crash();
            restarted.check();
            Arc::clone(&restarted) as Arc<dyn Store>
        })),
    }
}

#[test]
fn the_store_in_memory_conforms() {
    assert_eq!(run_all(subject), [""; 0], "nothing is skipped");
}

#[test]
fn the_store_in_memory_does_as_the_model() {
    for seed in 0..500 {
        run_model(subject, seed, 120);
    }
}
