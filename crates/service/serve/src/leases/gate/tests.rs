//! A gate is as good a store as the one behind it.

use std::sync::Arc;

use leasehold_base::units::{ConnectionId, Time};
use leasehold_fs::suite::{Subject, run_all, run_model};
use leasehold_fs::{Caller, ExportId, SUPERUSER, Store};
use leasehold_store_mem::MemStore;
use leasehold_wire::lease::{self, Kind, Terms, place};

use super::{Asked, Asks, By, Gate, MadeFrom};
use crate::HandleKey;
use crate::leases::{Leases, Protocol, Way};

/// A store in memory behind a gate of a plain client, or of one that asks for leases with all that
/// it does.
fn subject(with_leases: bool) -> Subject {
    let leases = Arc::new(Leases::without_past(HandleKey([1; 16])));
    let by = with_leases.then(|| {
        let who = ([1; 16], 1);
        let way = Way::Connection(ConnectionId::default());
        leases.hello(Time::ZERO, way, who, Protocol::Lease, "").expect("it is new");
        let caller = lease::Caller { client: who.0, instance: who.1, epoch: 1 };
        let client = leases.admit(Time::ZERO, way, &caller);
        let terms = Terms { kind: Kind::Write, term_ms: 0, opportune: false, space: 0 };
        let asks = [place::FIRST, place::SECOND, place::ENTRIES];
        let asks = asks.map(|place| lease::Ask { place, terms });
        By {
            asked: Arc::new(Asked::new(
                client.expect("it is known"),
                Asks::new(&asks),
                MadeFrom::Named(None),
            )),
            caller: Caller { uid: SUPERUSER, gid: 0, ..Caller::nobody() },
            read_only: false,
        }
    });
    let store = Arc::new(MemStore::default());
    let behind = Arc::<MemStore>::clone(&store);
    let gate: Arc<dyn Store> = Arc::new(Gate::new(behind, ExportId(1), leases, by));
    Subject::of_every_user(gate, move |now| store.set_now(now))
}

#[test]
fn it_keeps_every_promise_of_a_store() {
    let itself = || {
        let store = Arc::new(MemStore::default());
        let behind = Arc::<MemStore>::clone(&store);
        Subject::of_every_user(behind, move |now| store.set_now(now))
    };
    for with_leases in [false, true] {
        assert_eq!(run_all(|| subject(with_leases)), run_all(itself));
    }
}

#[test]
fn it_does_what_the_model_does() {
    for with_leases in [false, true] {
        for seed in 0..20 {
            run_model(|| subject(with_leases), seed, 120);
        }
    }
}
