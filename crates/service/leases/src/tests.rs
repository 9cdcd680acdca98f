//! The cost of leases in a server.

use core::task::{Context, Waker};
use core::time::Duration;
use std::sync::mpsc;
use std::task::Wake;

use leasehold_base::units::{FileId, FileSystemId};
use leasehold_core::leases::table::{Access, Ask};
use leasehold_fs::suite::block_on;
use leasehold_wire::lease::Caller;

use super::operation_guard::{Turn, Under, Wanted};
use super::*;

const HOST: IpAddr = IpAddr::V4(core::net::Ipv4Addr::LOCALHOST);

/// Acquires read leases on `count` objects, by calls that have ended.
fn hold(leases: &Arc<Leases>, client: Client, count: u64) {
    for number in 0..count {
        let id = ObjectId::new(&number.to_be_bytes()).expect("eight bytes fit");
        let ask = Ask {
            kind: Kind::Read,
            term: Duration::ZERO,
            opportune: false,
            space: 0,
            reclaim: false,
            reports: true,
        };
        let wanted = Wanted {
            object: Object { file_system: FileSystemId(1), file: FileId(number) },
            export: ExportId(1),
            identity: id,
            named: id,
            access: Access::Read,
            client: Some(client),
            under: Under::Named(None),
            ask: Some(ask),
            beside: None,
        };
        let mut turn = Turn::ask(leases, &wanted).expect("few wait");
        let run = block_on(turn.begin()).expect("there is no conflict");
        assert!(run.grant.is_some_and(|grant| grant.cachable));
    }
}

/// Measures the memory of leases for `figures leases`.
#[test]
#[allow(clippy::print_stdout, reason = "the test prints a measured figure")]
fn a_lease_costs_memory_and_no_work() {
    const LEASES: u64 = 100_000;
    let leases = Arc::new(Leases::without_past(HandleKey([1; 16])));
    let way = Way::Connection(ConnectionId::default());
    leases
        .hello(Time::ZERO, (way, HOST), ([1; 16], 1), Protocol::Lease, "client")
        .expect("it is new");
    let caller = Caller { client: [1; 16], instance: 1, epoch: 1 };
    let client = leases.admit(Time::ZERO, way, &caller).expect("it is known");
    assert_eq!(block_on(leases.may_ask(client)), list::Admission::Allowed);
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

/// The end of a write wakes the next writer only after it has released the mutex.
#[test]
#[expect(clippy::disallowed_methods, reason = "a deadlock must fail instead of hanging")]
fn next_writer_may_run_inside_its_waker() {
    let (done, ends) = mpsc::channel();
    std::thread::spawn(move || {
        let leases = Arc::new(Leases::without_past(HandleKey([1; 16])));
        let object = Object { file_system: FileSystemId(1), file: FileId(1) };
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
        done.send(()).expect("it is waited for");
    });
    assert_eq!(ends.recv_timeout(Duration::from_secs(20)), Ok(()));
}
