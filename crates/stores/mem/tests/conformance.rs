//! The conformance suite of stores on the store in memory.

use std::sync::Arc;

use leasehold_base::units::FileSystemId;
use leasehold_fs::suite::{Subject, run_all, run_model};
use leasehold_fs::{Capability, Store};
use leasehold_store_mem::{Config, MemStore};

fn subject() -> Subject {
    let store =
        Arc::new(MemStore::new(Config { file_system: FileSystemId(7), ..Config::default() }));
    let (clock, restarted) = (Arc::clone(&store), Arc::clone(&store));
    Subject {
        capabilities: vec![
            Capability::Coherence,
            Capability::LayoutPolicies,
            Capability::OpenFiles,
            Capability::ExtendedAttributes,
            Capability::Ranges,
        ],
        restart: Some(Box::new(move || {
            restarted.crash();
            restarted.check();
            Arc::clone(&restarted) as Arc<dyn Store>
        })),
        ..Subject::of_every_user(store, move |now| clock.set_now(now))
    }
}

#[test]
fn the_store_in_memory_conforms() {
    assert_eq!(run_all(subject), [""; 0], "nothing is skipped");
}

#[test]
fn the_store_in_memory_matches_the_model() {
    for seed in 0..500 {
        run_model(subject, seed, 120);
    }
}
