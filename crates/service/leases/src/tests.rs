//! The cost of leases in a server.

use core::net::IpAddr;
use core::task::{Context, Waker};
use core::time::Duration;
use std::sync::{Arc, mpsc};
use std::task::Wake;

use leasehold_base::units::{ConnectionId, FileId, FileSystemId, Time};
use leasehold_core::leases::clients::Refusal;
use leasehold_core::leases::table::{Access, Ask, Grant};
use leasehold_core::leases::{Client, Kind, Object};
use leasehold_fs::suite::block_on;
use leasehold_fs::{ExportId, ObjectId};
use leasehold_wire::lease::Caller;

use super::operation_guard::{ChangeLease, GuardRequest, OperationGuard};
use super::shard::shard_of;
use super::*;

const HOST: IpAddr = IpAddr::V4(core::net::Ipv4Addr::LOCALHOST);

/// Returns the access of a call to an object.
fn wanted(number: u64, client: Option<Client>, access: Access, ask: Option<Ask>) -> GuardRequest {
    let id = ObjectId::new(&number.to_be_bytes()).expect("eight bytes fit");
    GuardRequest {
        object: object(number),
        export: ExportId(1),
        identity: id,
        named: id,
        access,
        client,
        under: ChangeLease::Named(None),
        ask,
        beside: None,
    }
}

fn object(number: u64) -> Object {
    Object { file_system: FileSystemId(1), file: FileId(number) }
}

fn ask(kind: Kind, space: u64) -> Ask {
    let (opportune, reclaim, reports) = (false, false, true);
    Ask { kind, term: Duration::ZERO, opportune, space, reclaim, reports }
}

/// Acquires read leases on `count` objects, by calls that have ended.
fn hold(leases: &Arc<Leases>, client: Client, count: u64) {
    for number in 0..count {
        let wanted = wanted(number, Some(client), Access::Read, Some(ask(Kind::Read, 0)));
        let grant = granted(leases, &wanted);
        assert!(grant.is_some_and(|grant| grant.cachable));
    }
}

/// Runs a call that need not wait, and returns the granted lease.
fn granted(leases: &Arc<Leases>, wanted: &GuardRequest) -> Option<Grant> {
    let mut turn = OperationGuard::ask(leases, wanted).expect("few wait");
    block_on(turn.begin()).expect("there is no conflict").grant
}

const ID: [u8; 16] = [1; 16];
const CALLER: Caller = Caller { client: ID, instance: 1, epoch: 1 };

fn way(slot: u32) -> ReturnPath {
    ReturnPath::Connection(ConnectionId { slot, ..ConnectionId::default() })
}

/// Returns leases with one client that may request leases.
fn with_client() -> (Arc<Leases>, Client) {
    let leases = Arc::new(Leases::without_past(HandleKey([1; 16])));
    leases
        .hello(Time::ZERO, (way(0), HOST), (ID, 1), Protocol::Lease, "client")
        .expect("it is new");
    let client = leases.admit(Time::ZERO, way(0), &CALLER).expect("it is known");
    assert_eq!(block_on(leases.may_ask(client)), Admission::Allowed);
    (leases, client)
}

/// A client of another protocol may reclaim: the server has one grace period.
#[test]
fn no_lease_is_granted_while_others_reclaim() {
    let (leases, client) = with_client();
    leases.share_grace(true);
    assert_eq!(block_on(leases.may_ask(client)), Admission::Declined);
    assert!(!leases.is_recovering(), "calls without leases do not wait");
    leases.share_grace(false);
    assert_eq!(block_on(leases.may_ask(client)), Admission::Allowed);
}

fn at(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

/// Measures the memory of leases for `figures leases`.
#[test]
#[allow(clippy::print_stdout, reason = "the test prints a measured figure")]
fn a_lease_costs_memory_and_no_work() {
    const LEASES: u64 = 100_000;
    let (leases, client) = with_client();
    let info = allocation_counter::measure(|| hold(&leases, client, LEASES));
    assert_eq!(leases.in_numbers().held, usize::try_from(LEASES).expect("it is small"));
    let bytes_each = info.bytes_current / i64::try_from(LEASES).expect("it is small");
    println!("bytes for a lease: {bytes_each}");
    assert!(bytes_each <= 256, "{bytes_each} bytes for a lease");
    // The next wake is not before the time at which the first lease may end.
    let next = leases.wake(Time::ZERO + Duration::from_secs(29));
    assert!(next >= Some(Time::ZERO + Duration::from_secs(30)), "{next:?}");
}

/// A task that runs inside its waker and requests leases there.
struct Inline(Arc<Leases>);

impl Wake for Inline {
    fn wake(self: Arc<Self>) {
        let _ = self.0.is_idle();
    }
}

/// Runs a test in a thread. A deadlock fails instead of hanging.
#[expect(clippy::disallowed_methods, reason = "a deadlock must fail instead of hanging")]
fn without_deadlock(test: impl FnOnce() + Send + 'static) {
    let (done, ends) = mpsc::channel();
    std::thread::spawn(move || {
        test();
        done.send(()).expect("it is waited for");
    });
    assert_eq!(ends.recv_timeout(Duration::from_secs(20)), Ok(()));
}

/// The end of a write wakes the next writer only after it has released the mutex.
#[test]
fn next_writer_may_run_inside_its_waker() {
    without_deadlock(|| {
        let leases = Arc::new(Leases::without_past(HandleKey([1; 16])));
        let object = object(1);
        let first = block_on(leases.alone(object));
        let (mut second, mut third) =
            (Box::pin(leases.alone(object)), Box::pin(leases.alone(object)));
        let waker = Waker::from(Arc::new(Inline(Arc::clone(&leases))));
        let mut context = Context::from_waker(&waker);
        assert!(second.as_mut().poll(&mut context).is_pending());
        assert!(third.as_mut().poll(&mut context).is_pending());
        drop(first);
        // A writer that has received the exclusive right, but was dropped before a poll, passes the
        // right to the next writer.
        drop(second);
        assert!(third.as_mut().poll(&mut context).is_ready());
    });
}

/// The other threads may hold every other mutex: the registry, the reserved bytes and all other
/// shards.
#[test]
fn operation_without_a_conflict_uses_only_the_shard_of_its_object() {
    without_deadlock(|| {
        let (leases, client) = with_client();
        hold(&leases, client, 1);
        let (registry, shares) = (leases.registry(), leases.common.shares());
        let others = leases.shards().enumerate().filter(|(at, _)| *at != shard_of(object(0)));
        let others: Vec<_> = others.collect();
        assert_eq!(leases.admit(at(1), way(0), &CALLER), Ok(client));
        assert_eq!(block_on(leases.may_ask(client)), Admission::Allowed);
        hold(&leases, client, 1);
        let reads = wanted(0, None, Access::Read, None);
        assert_eq!(granted(&leases, &reads), None);
        drop((others, shares, registry));
    });
}

/// The registry does not see the calls of an admitted client, and forgets a silent client.
#[test]
fn client_that_calls_is_not_forgotten() {
    let (leases, client) = with_client();
    for seconds in (0..=2000).step_by(50) {
        assert_eq!(leases.admit(at(seconds), way(0), &CALLER), Ok(client));
        leases.wake(at(seconds));
    }
    leases.connection_closed(ConnectionId::default());
    leases.wake(at(2230));
    assert_eq!(leases.admit(at(2230), way(1), &CALLER), Ok(client), "it called at 2000 s");
    leases.wake(at(2480));
    assert_eq!(leases.admit(at(2480), way(1), &CALLER), Err(Refusal::Unknown));
    leases.wake(at(2600));
    assert!(leases.is_idle());
}

/// Rule 22 of the lease table: a client that delays callers at one shard is granted no lease at any.
#[test]
fn delaying_client_is_granted_no_lease_at_any_shard() {
    let (leases, client) = with_client();
    hold(&leases, client, 100);
    let mut writes =
        OperationGuard::ask(&leases, &wanted(0, None, Access::Write, None)).expect("few wait");
    let mut begun = Box::pin(writes.begin());
    let mut context = Context::from_waker(Waker::noop());
    assert!(begun.as_mut().poll(&mut context).is_pending());
    // The caller gives up, and the lease expires.
    leases.wake(at(31));
    assert!(begun.as_mut().poll(&mut context).is_ready());
    let asks = |number| wanted(number, Some(client), Access::Read, Some(ask(Kind::Read, 0)));
    for number in 1..100 {
        assert_eq!(granted(&leases, &asks(number)), None, "object {number}");
    }
    assert_eq!(leases.in_numbers().counts.barred, 99);
}

/// Rule 13 of the lease table: one lease may reserve an eighth of the free bytes, the leases of one
/// origin a quarter, whichever shards contain them.
#[test]
fn shards_bound_reserved_space_together() {
    let (leases, client) = with_client();
    leases.has_space(FileSystemId(1), 8000);
    let space = |number| {
        let asks = wanted(number, Some(client), Access::Write, Some(ask(Kind::Write, 1000)));
        granted(&leases, &asks).map(|grant| grant.space)
    };
    let granted: Vec<_> = (0..10).map(space).collect();
    assert_eq!(granted[..3], [Some(1000), Some(1000), Some(0)]);
    assert!(granted[2..].iter().all(|space| *space == Some(0)));
    assert_eq!(leases.reserved(object(0), Some(client)).elsewhere, 1000);
    leases.goodbye(ID);
    leases.wake(at(200));
    assert_eq!(leases.common.reserved(FileSystemId(1)), 0);
    let reserved: Vec<_> =
        leases.shards().flat_map(|shard| shard.table.reservations().collect::<Vec<_>>()).collect();
    leases.common.shares().check(reserved.into_iter());
}
