//! A gate is as good a store as the one behind it.

use core::time::Duration;
use std::sync::Arc;

use leasehold_base::units::{ConnectionId, FileId, FileSystemId, Time};
use leasehold_core::leases::Object;
use leasehold_core::leases::table::{self, Access};
use leasehold_fs::suite::{Subject, block_on, run_all, run_model};
use leasehold_fs::{Answer, Caller, ExportId, FsError, ObjectId, SUPERUSER, Store};
use leasehold_store_mem::MemStore;
use leasehold_wire::lease::{self, Kind, Terms, place};

use super::{Asked, Asks, By, Gate, MadeFrom, Turn, Under, Wanted, covered};
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

/// A cover that is asked for takes a while, in which all that clients had may be over.
#[test]
fn what_is_over_before_it_is_covered_is_not_granted() {
    let leases = Arc::new(Leases::without_past(HandleKey([1; 16])));
    let (who, way) = (([1; 16], 1), Way::Connection(ConnectionId::default()));
    leases.hello(Time::ZERO, way, who, Protocol::Lease, "").expect("it is new");
    let caller = lease::Caller { client: who.0, instance: who.1, epoch: 1 };
    let client = leases.admit(Time::ZERO, way, &caller).expect("it is known");
    let (export, identity) = (ExportId(1), ObjectId::new(b"file").expect("it is short"));
    let ask = table::Ask {
        kind: leasehold_core::leases::Kind::Write,
        term: Duration::from_secs(30),
        space: 0,
        opportune: false,
        reclaim: false,
        reports: false,
    };
    let wanted = Wanted {
        object: Object { file_system: FileSystemId(1), file: FileId(2) },
        export,
        identity,
        named: identity,
        access: Access::Read,
        client: Some(client),
        under: Under::Named(None),
        ask: Some(ask),
    };
    for is_lost in [false, true] {
        let mut turn = Turn::ask(&leases, &wanted).expect("there is room");
        let run = block_on(turn.begin()).expect("nobody is in its way");
        let grant = run.grant.expect("it was asked for");
        assert!(grant.cachable);
        let covering = async {
            if is_lost {
                leases.end(export, identity);
            }
            Ok(())
        };
        let expected = if is_lost { Err(FsError::Later) } else { Ok(()) };
        assert_eq!(block_on(covered(&turn, grant, Answer::later(covering))), expected);
    }
}
