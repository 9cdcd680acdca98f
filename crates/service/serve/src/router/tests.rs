use core::pin::pin;
use core::task::{Context, Poll, Waker};

use leasehold_base::units::Xid;
use leasehold_wire::rpc::OpaqueAuth;
use leasehold_wire::{lease, mount, nfs3};

use super::*;
use crate::{Deaf, HandleKey, Trust};

/// A program of the tests, which the procedure table does not have.
const FURTHER: u32 = 400_001;

/// A program that replies with a word, and wakes at a time.
struct Echo(u32, Option<Time>);

impl Program for Echo {
    fn answer(&self, _: Arrival, _: Bytes, mut writer: Writer) -> Response {
        writer.u32(self.0);
        MaybeReady::now(Some(writer.finish())).into()
    }

    fn wake(&self, _: Time) -> Option<Time> {
        self.1
    }
}

fn row(number: u32, versions: RangeInclusive<u32>, says: u32) -> Row {
    let handler = Arc::new(Echo(says, None));
    Row { number, versions, transports: Transports::Streams, handler }
}

fn router(rows: Vec<Row>) -> Router {
    let service = Service::new(Vec::new(), HandleKey([1; 16]), Box::new(Deaf));
    Router::new(Arc::new(service), rows)
}

/// Returns the bytes of the reply to a call of NULL, as 32-bit words.
fn replied(router: &Router, program: u32, version: u32, transport: Transport) -> Vec<u32> {
    let (credential, verifier) = (OpaqueAuth::NONE, OpaqueAuth::NONE);
    let call = Call { xid: Xid(7), program, version, procedure: 0, credential, verifier };
    let mut writer = Writer::new();
    call.encode(&mut writer);
    sent(router, writer.finish().into_bytes(), transport).expect("each call has a reply")
}

fn sent(router: &Router, message: Bytes, transport: Transport) -> Option<Vec<u32>> {
    let arrival = Arrival {
        from: "192.0.2.1:700".parse().expect("an address"),
        to: "192.0.2.9".parse().expect("an address"),
        connection: (transport == Transport::Stream).then(ConnectionId::default),
        trust: Trust::Claimed,
        now: Time::ZERO,
    };
    let reply = pin!(router.answer(arrival, message, Writer::new()).reply);
    let Poll::Ready(reply) = reply.poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("NULL waits for nothing");
    };
    let bytes = reply?.into_bytes();
    Some(bytes.chunks_exact(4).map(|it| u32::from_be_bytes([it[0], it[1], it[2], it[3]])).collect())
}

/// The words of a reply without results, after its xid (RFC 5531 section 9): an accepted reply
/// without a verifier, and the status.
const SUCCESS: &[u32] = &[7, 1, 0, 0, 0, 0];
const UNAVAILABLE: &[u32] = &[7, 1, 0, 0, 0, 1];

fn mismatch(low: u32, high: u32) -> Vec<u32> {
    vec![7, 1, 0, 0, 0, 2, low, high]
}

#[test]
fn a_row_answers_its_program_and_the_service_all_others() {
    let router = router(vec![row(FURTHER, 2..=3, 42)]);
    let over_stream = |program, version| replied(&router, program, version, Transport::Stream);
    assert_eq!(over_stream(FURTHER, 2), [42]);
    assert_eq!(over_stream(FURTHER, 3), [42]);
    assert_eq!(over_stream(nfs3::PROGRAM, 3), SUCCESS);
    assert_eq!(over_stream(FURTHER + 1, 1), UNAVAILABLE);
}

#[test]
fn a_program_of_streams_is_unavailable_over_datagrams() {
    let router = router(vec![row(FURTHER, 2..=3, 42)]);
    assert_eq!(replied(&router, FURTHER, 2, Transport::Datagram), UNAVAILABLE);
}

#[test]
fn a_mismatch_has_the_lowest_and_the_highest_version_of_all_rows() {
    let rows = vec![row(FURTHER, 2..=3, 42), row(FURTHER, 5..=5, 43), row(nfs3::PROGRAM, 4..=4, 4)];
    let router = router(rows);
    let over_stream = |program, version| replied(&router, program, version, Transport::Stream);
    assert_eq!(over_stream(FURTHER, 5), [43]);
    assert_eq!(over_stream(FURTHER, 4), mismatch(2, 5));
    // A further version of a program of the table is one more row.
    assert_eq!(over_stream(nfs3::PROGRAM, 4), [4]);
    assert_eq!(over_stream(nfs3::PROGRAM, 3), SUCCESS);
    assert_eq!(over_stream(nfs3::PROGRAM, 5), mismatch(2, 4));
    assert_eq!(replied(&router, nfs3::PROGRAM, 4, Transport::Datagram), mismatch(2, 3));
}

#[test]
fn a_row_can_make_a_program_of_the_table_unavailable() {
    let router = router(vec![Row::unavailable(lease::PROGRAM)]);
    for transport in [Transport::Stream, Transport::Datagram] {
        for version in [0, lease::VERSION, u32::MAX] {
            assert_eq!(replied(&router, lease::PROGRAM, version, transport), UNAVAILABLE);
        }
    }
    assert_eq!(replied(&router, mount::PROGRAM, 3, Transport::Stream), SUCCESS);
}

#[test]
fn a_message_without_a_head_goes_to_the_service() {
    let router = router(vec![row(FURTHER, 2..=3, 42)]);
    assert_eq!(sent(&router, Bytes::from_static(&[0; 3]), Transport::Stream), None);
}

#[test]
fn the_earliest_work_of_all_programs_determines_the_wake() {
    let [soon, late] = [1, 2].map(|seconds| Time::ZERO + core::time::Duration::from_secs(seconds));
    let rows = [Some(late), Some(soon), None]
        .map(|wake| Row { handler: Arc::new(Echo(0, wake)), ..row(FURTHER, 1..=1, 0) });
    assert_eq!(router(rows.into()).wake(Time::ZERO), Some(soon));
}
