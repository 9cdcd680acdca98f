//! The conformance suite of stores, on a store in memory with a log.

use std::cell::Cell;
use std::sync::Arc;

use leasehold_fs::suite::{Subject, Verdict, all_cases, check_wrapper, run_model};
use leasehold_fs::{Capability, Inline, Store};
use leasehold_store_mem::MemStore;

use super::device::Device;
use crate::{Event, Logged, Options, SIZE_MIN, Standing};

/// Opens a store with its log on this device, in this boot of the machine.
fn open(store: &Arc<MemStore>, device: &Device, boot: u128) -> Logged {
    let synced = Arc::clone(store);
    let options = Options {
        store: Arc::clone(store) as Arc<dyn Store>,
        media: Box::new(device.clone()),
        size: SIZE_MIN,
        boot,
        random: *b"sixteen letters.",
        blocking: Arc::new(Inline),
        sync_all: Box::new(move || {
            synced.sync();
            Ok(())
        }),
        make_void: Box::new(|| unreachable!("the device does not fail")),
        volume: None,
        standing: Standing::Unknown,
        commits_names: true,
        report: Box::new(|event| {
            let Event::Replayed(done) = event else { panic!("unexpected event: {event:?}") };
            assert_eq!(
                (done.failed, done.taken, done.damaged, done.made),
                (0, 0, 0, 0),
                "{done:?}"
            );
        }),
    };
    Logged::open(options).expect("the log can be used")
}

/// The way in which the server ends between two parts of the suite.
#[derive(Clone, Copy, PartialEq)]
enum End {
    /// The server process is killed.
    Kill,
    /// The machine loses power, and all data that only the log keeps.
    PowerCut,
}

fn subject(end: End) -> Subject {
    let store = Arc::new(MemStore::default());
    let (clock, restarted) = (Arc::clone(&store), Arc::clone(&store));
    let device = Device::new(usize::try_from(SIZE_MIN).expect("small"));
    let boots = Cell::new(1);
    let logged = Arc::new(open(&store, &device, boots.get()));
    Subject {
        restart: Some(Box::new(move || {
            if end == End::PowerCut {
                restarted.crash();
                device.cut(|| false);
                boots.set(boots.get() + 1);
            }
            Arc::new(open(&restarted, &device, boots.get())) as Arc<dyn Store>
        })),
        ..Subject::of_every_user(logged, move |now| clock.set_now(now))
    }
}

/// The name of a case of the suite that compares change times. After a power cut it cannot succeed,
/// because a replay recreates files with new change times.
const COMPARES_CHANGE_TIMES: &str = "ids_live_on";

#[test]
fn a_store_with_a_log_conforms_after_a_power_cut() {
    for case in all_cases().filter(|case| case.name != COMPARES_CHANGE_TIMES) {
        assert_eq!(case.run(&subject(End::PowerCut)), Verdict::Kept);
    }
}

#[test]
fn a_killed_server_restarts_with_the_same_state() {
    let mut cases = all_cases().filter(|case| case.name == COMPARES_CHANGE_TIMES);
    let case = cases.next().expect("there is one");
    assert_eq!(case.run(&subject(End::Kill)), Verdict::Kept);
}

#[test]
fn a_store_with_a_log_matches_the_model() {
    for seed in 0..100 {
        run_model(|| subject(End::PowerCut), seed, 120);
    }
}

#[test]
fn a_log_passes_on_the_guard_and_the_reservations_of_a_store() {
    let store = Arc::new(MemStore::default());
    let device = Device::new(usize::try_from(SIZE_MIN).expect("small"));
    let logged = open(&store, &device, 1);
    // A volume of stripes, which alone uses the first two capabilities, keeps its names without a
    // log. A log withholds the changes that it cannot record.
    let withheld = [
        Capability::Coherence,
        Capability::LayoutPolicies,
        Capability::OpenFiles,
        Capability::ExtendedAttributes,
        Capability::Ranges,
    ];
    check_wrapper(&*store, &logged, &withheld, &[]);
}
