//! The program of metaservers, called by a peer that has the group's shared secret.
//!
//! An input is a sequence of calls: the number of a procedure, a byte; the length of the arguments,
//! two bytes; the arguments. The peer has sent HELLO, and answers no calls itself.

use core::pin::pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures_channel::oneshot;
use leasehold_base::units::{FileTime, Time, Xid};
use leasehold_base::xdr::{Decode as _, Encode, Message, Reader, Writer};
use leasehold_core::replica::{Bounds, Peer};
use leasehold_fs::Verifier;
use leasehold_store_replica::{
    Later, Metaserver, NoResults, Notice, Options, Order, Outside, Owner, Traffic, Urgency,
    compacted,
};
use leasehold_wire::list::List;
use leasehold_wire::nfs3::{self, Name, SetAttributes};
use leasehold_wire::replica::{
    Caller, Content, PROGRAM, Place, VERSION, Yielded, announce, begin, change, claim, cover, end,
    evict, fetch, hello, list, load, r#move, moving, named, place, replaced, search, stands,
    uncover, r#yield,
};
use leasehold_wire::rpc::{AuthSys, Call, OpaqueAuth, Reply, flavor};

/// The shared secret of a group's peers.
const WORD: &str = "a word";

/// The calling peer, and the epoch of both.
const CALLER: Caller = Caller { peer: 1, epoch: 1, callee_epoch: 1 };

/// The largest number of calls of an input.
const CALLS_MAX: usize = 64;

/// The root, and an object of the peer.
const ROOT: u64 = 1 << 48 | 1;
const THEIRS: u64 = 2 << 48 | 9;

/// A world in which no other peer answers, no time passes between calls, and a disk is a list.
#[derive(Default)]
struct Alone {
    now: AtomicU64,
    disk: std::sync::Mutex<Vec<Bytes>>,
}

impl Outside for Alone {
    fn now(&self) -> Time {
        Time::from_nanoseconds(self.now.load(Ordering::Relaxed))
    }

    fn wall(&self) -> FileTime {
        FileTime { seconds: 1_700_000_000, nanoseconds: 0 }
    }

    fn sleep(&self, _: Duration) -> Later<()> {
        Box::pin(core::future::pending())
    }

    fn call(&self, _: u32, _: u32, _: Bytes) -> Later<Result<Bytes, NoResults>> {
        Box::pin(async { Err(NoResults::Silence) })
    }

    fn traffic(&self, _: u32) -> Traffic {
        Traffic::default()
    }

    fn append(&self, records: Vec<Vec<u8>>, _: Urgency) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        let mut disk = self.disk.lock().expect("no other thread has the lock");
        disk.extend(records.into_iter().map(Bytes::from));
        sender.send(()).expect("the receiver exists");
        receiver
    }

    fn notice(&self, _: &Notice) {}
}

fn metaserver(world: Arc<Alone>) -> Metaserver {
    let options = Options {
        me: Peer(0),
        count: 2,
        without: vec![Peer(1)],
        order: Order::Constant,
        strict: false,
        lends: false,
        bounds: Bounds { most: 16, ..Bounds::DEFAULT },
        give_up: Duration::from_mins(1),
        owner: Owner { uid: 0, gid: 0, mode: 0o777, file_system: 9 },
        verifier: Verifier([7; 8]),
        content: Box::new(|| Bytes::from_static(b"head")),
        word: WORD.to_owned(),
    };
    Metaserver::open(options, &[], world, 0).expect("the disk is empty")
}

fn message(xid: u32, procedure: u32, args: &[u8]) -> Bytes {
    let credential = written(&AuthSys { machine_name: WORD.as_bytes(), ..AuthSys::default() });
    let credential = OpaqueAuth { flavor: flavor::SYS, body: &credential };
    let (program, version, verifier) = (PROGRAM, VERSION, OpaqueAuth::NONE);
    let mut call = Writer::new();
    Call { xid: Xid(xid), program, version, procedure, credential, verifier }.encode(&mut call);
    call.fixed(args);
    call.finish().into_bytes()
}

/// Sends a call, and checks the reply if it is ready at once.
fn ask(metaserver: &Metaserver, message: &Bytes) {
    let answer = pin!(metaserver.answer(message, Writer::new()));
    if let Poll::Ready(reply) = answer.poll(&mut Context::from_waker(Waker::noop())) {
        check(reply);
    }
}

fn check(reply: Option<Message>) {
    if let Some(reply) = reply {
        Reply::decode(&mut Reader::new(&reply.into_bytes())).expect("a reply is well-formed");
    }
}

/// Makes the calls of the input, and then reads the resulting records on the disk; also sends the
/// raw input.
///
/// # Panics
/// Panics if a reply is invalid, or the disk cannot be read.
pub fn run(input: &[u8]) {
    let world = Arc::new(Alone::default());
    let metaserver = metaserver(Arc::<Alone>::clone(&world));
    ask(&metaserver, &Bytes::copy_from_slice(input));
    let hello = hello::Args { peer: 1, epoch: 1, stored_epoch: 0, stored_stamp: 0, strict: false };
    ask(&metaserver, &message(0, hello::NUMBER, &written(&hello)));
    let mut rest = input;
    for xid in 1..=u32::try_from(CALLS_MAX).expect("calls are few") {
        let Some((&[procedure, high, low], behind)) = rest.split_first_chunk() else { break };
        let length = usize::from(u16::from_be_bytes([high, low])).min(behind.len());
        let (args, behind) = behind.split_at(length);
        ask(&metaserver, &message(xid, procedure.into(), args));
        world.now.fetch_add(1_000_000, Ordering::Relaxed);
        rest = behind;
    }
    let disk = world.disk.lock().expect("no other thread has the lock").clone();
    compacted(&disk).expect("the written records can be read");
}

fn written(value: &impl Encode) -> Vec<u8> {
    let mut writer = Writer::new();
    value.encode(&mut writer);
    writer.finish().into_bytes().to_vec()
}

/// The calls by which an object of the peer takes a name from one of our objects.
fn replaces_ours(place: Place<'_>) -> [(u32, Vec<u8>); 2] {
    let (caller, change, by) = (CALLER, 1, Some(1));
    let yielded = Yielded { place, object: THEIRS, over: ROOT };
    let version = Some(9);
    [
        (r#yield::NUMBER, written(&r#yield::Args { caller, change, yielded, by })),
        (replaced::NUMBER, written(&replaced::Args { caller, change, yielded, by, version })),
    ]
}

/// A separate call of each procedure, and all of them together.
#[must_use]
pub fn starters() -> Vec<Vec<u8>> {
    let caller = CALLER;
    let here = Place { directory: ROOT, name: Name(b"name") };
    let (object, other) = (ROOT, THEIRS);
    let modified = nfs3::Time { seconds: 1_700_000_001, nanoseconds: 0 };
    let wrote = change::Wrote { offset: 3, data: Content(b"what was written"), modified };
    let attributes = SetAttributes { mode: Some(0o755), ..SetAttributes::default() };
    let claims = claim::Args { caller, place: here, object: other, over: Some(other) };
    let stands = stands::Args { caller, place: here, object, claimant: Some(other) };
    let (from, to) = (Some(here), Some(Place { name: Name(b"other"), ..here }));
    let (number, over) = (7, Some(object));
    let replaces = place::Args { caller, number, object: other, from: None, to, over };
    let moves = r#move::Args { caller, number: 5, object: other, parent: ROOT };
    let places = || List(vec![here]);
    let hello = hello::Args { peer: 1, epoch: 2, stored_epoch: 1, stored_stamp: 7, strict: false };
    let (set, clear_set_ids) = (attributes, true);
    let changes = |wrote| change::Args { caller, object, attributes: set, clear_set_ids, wrote };
    let calls = [
        (fetch::NUMBER, written(&fetch::Args { caller, object, known: None })),
        (search::NUMBER, written(&search::Args { caller, place: here, behind: List(vec![0, 1]) })),
        (claim::NUMBER, written(&claims)),
        (named::NUMBER, written(&named::Args { caller, place: here })),
        (stands::NUMBER, written(&stands)),
        (change::NUMBER, written(&changes(None))),
        (change::NUMBER, written(&changes(Some(wrote)))),
        (place::NUMBER, written(&place::Args { caller, number: 6, object, from, to, over: None })),
        (place::NUMBER, written(&replaces)),
        (r#move::NUMBER, written(&moves)),
        (moving::NUMBER, written(&moves)),
        (
            announce::NUMBER,
            written(&announce::Args {
                caller,
                object: other,
                version: 9,
                places: places(),
                left: Some(here),
            }),
        ),
        (list::NUMBER, written(&list::Args { caller, directory: ROOT, behind: 0, count: 64 })),
        (evict::NUMBER, written(&evict::Args { caller, object: other })),
        (
            cover::NUMBER,
            written(&cover::Args {
                caller,
                object,
                writes: true,
                lends: true,
                reclaims: true,
                given: Some(4),
            }),
        ),
        (uncover::NUMBER, written(&uncover::Args { caller, object: other, serial: 4 })),
        (load::NUMBER, written(&load::Args { caller })),
        (begin::NUMBER, written(&begin::Args { caller, directory: 9, change: 1, by: Some(1) })),
        (end::NUMBER, written(&end::Args { caller, directory: 9, change: 1, done: true })),
        (hello::NUMBER, written(&hello)),
    ];
    let script = |(procedure, args): &(u32, Vec<u8>)| {
        let procedure = u8::try_from(*procedure).expect("procedures are few");
        let length = u16::try_from(args.len()).expect("the arguments are short");
        [&[procedure][..], &length.to_be_bytes(), args].concat()
    };
    let mut starters: Vec<Vec<u8>> = calls.iter().chain(&replaces_ours(here)).map(script).collect();
    starters.push(starters.concat());
    starters
}
