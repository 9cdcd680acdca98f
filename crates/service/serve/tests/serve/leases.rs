//! Leases at the byte level: clients with leases and clients without.

mod bounds;
mod datagrams;
mod list;
mod nqnfs;
mod room;

use core::net::{IpAddr, SocketAddr};
use core::pin::Pin;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use leasehold_base::limits::REPLY_AGE_MAX;
use leasehold_base::units::{ConnectionId, Time, Xid};
use leasehold_base::xdr::{Decode, Encode, Message, Reader, Writer, decode_all};
use leasehold_serve::{LeaseWaiter, Ledger, Post, Remembered, Response};
use leasehold_store_mem::{Config, MemStore};
use leasehold_wire::lease::callback::{self, evict, report};
use leasehold_wire::lease::{
    self, Answer, Ask, Base, Call as LeaseCall, Caller, ClientName, Grant, Head, Kind, Open,
    append, goodbye, hello, leases, place, write as merged,
};
use leasehold_wire::list::{List, UpTo};
use leasehold_wire::nfs3::{
    self, DirectoryArgs, Handle, Name, Reply, SetAttributes, Status, access, create, getattr,
    lookup, read, readdirplus, remove, write,
};
use leasehold_wire::{nfs2, rpc};

use crate::support::{NAME, Server};

/// The messages that the server sent to clients on its own.
#[derive(Default)]
struct Posted(Mutex<Vec<(ConnectionId, Bytes)>>, Mutex<Vec<(SocketAddr, IpAddr, Bytes)>>);

impl Post for Posted {
    fn send(&self, to: ConnectionId, message: Message) {
        self.0.lock().expect("no test panics").push((to, message.into_bytes()));
    }

    fn send_datagram(&self, to: SocketAddr, from: IpAddr, message: Message) {
        let sent = (to, from, message.into_bytes());
        self.1.lock().expect("no test panics").push(sent);
    }

    fn hurry(&self) {}
}

/// The callback of a write of the list.
type Done = Box<dyn FnOnce(bool) + Send>;

/// A stable list in memory.
#[derive(Default)]
struct Written {
    list: Mutex<Vec<([u8; 16], u64)>>,
    /// The outcome of the next writes.
    disk: Mutex<Disk>,
    /// Writes on a slow disk that have not ended yet.
    pending: Mutex<Vec<Done>>,
    writes: AtomicUsize,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Disk {
    #[default]
    Good,
    Full,
    Slow,
}

impl Ledger for Written {
    fn write(&self, _: u64, list: &[([u8; 16], u64)], done: Done) {
        self.writes.fetch_add(1, Ordering::Relaxed);
        let disk = *self.disk.lock().expect("no test panics");
        match disk {
            Disk::Good => {
                *self.list.lock().expect("no test panics") = list.to_vec();
                done(true);
            }
            Disk::Full => done(false),
            Disk::Slow => self.pending.lock().expect("no test panics").push(done),
        }
    }
}

struct World {
    server: Server,
    posted: Arc<Posted>,
    ledger: Arc<Written>,
    epoch: u64,
}

/// A pending or finished reply.
struct Waiting(Response);

impl Waiting {
    fn poll(&mut self) -> Option<Option<Bytes>> {
        match Pin::new(&mut self.0.reply).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(reply) => Some(reply.map(Message::into_bytes)),
            Poll::Pending => None,
        }
    }

    fn results<T: for<'a> Decode<'a>>(&mut self) -> T {
        results(&self.poll().expect("it is answered").expect("with a reply"))
    }
}

fn results<T: for<'a> Decode<'a>>(reply: &Bytes) -> T {
    let mut reader = Reader::new(reply);
    let head = rpc::Reply::decode(&mut reader).expect("a reply");
    assert_eq!(head.status, rpc::ReplyStatus::Success);
    decode_all(&mut reader).expect("results of that kind")
}

const PLAIN: u32 = 0;

fn connection(client: u32) -> ConnectionId {
    ConnectionId { slot: client, ..ConnectionId::default() }
}

fn id(client: u32) -> [u8; 16] {
    [u8::try_from(client).expect("there are few"); 16]
}

fn hello_of(client: u32) -> hello::Args<'static> {
    hello::Args { client: id(client), instance: 1, name: ClientName(b"laptop") }
}

fn grant_of(answer: leases::Reply) -> Grant {
    let Answer::Done(done) = answer else { panic!("{answer:?}") };
    done.results.held.0.first().expect("it is granted").grant
}

impl World {
    fn new() -> Self {
        Self::over(Server::new())
    }

    fn over(server: Server) -> Self {
        let mut world = Self { server, posted: Arc::default(), ledger: Arc::default(), epoch: 0 };
        world.start();
        world
    }

    /// Starts or restarts the server in the next epoch.
    fn start(&mut self) {
        self.epoch += 1;
        let list = self.ledger.list.lock().expect("no test panics").clone();
        let remembered = Remembered { epoch: self.epoch, list };
        let (ledger, now) = (Arc::<Written>::clone(&self.ledger), self.server.arrival.now);
        self.server.restart(|service| service.with_leases(remembered, ledger, now));
        let posted = Arc::<Posted>::clone(&self.posted);
        self.server.service.call_clients_by(posted);
    }

    fn root(&self) -> Handle {
        self.server.service.root_handle(NAME).expect("the export is there").into()
    }

    fn pass(&mut self, time: Duration) {
        self.server.arrival.now = self.server.arrival.now + time;
        let _ = self.server.service.wake(self.server.arrival.now);
    }

    /// Sends a call on a client's connection.
    fn send(&mut self, client: u32, procedure: (u32, u32, u32), args: &impl Encode) -> Waiting {
        let message = self.server.message(procedure, args);
        self.server.arrival.connection = Some(connection(client));
        let arrival = self.server.arrival;
        Waiting(self.server.service.answer(arrival, message, Writer::new()))
    }

    fn nfs(&mut self, procedure: u32, args: &impl Encode) -> Waiting {
        let mut waiting = self.send(PLAIN, (nfs3::PROGRAM, nfs3::VERSION, procedure), args);
        if let Some(reply) = waiting.poll() {
            waiting.0 = leasehold_fs::MaybeReady::now(reply.map(Into::into)).into();
        }
        waiting
    }

    fn lease<T: for<'a> Decode<'a>>(
        &mut self,
        client: u32,
        procedure: u32,
        args: &impl Encode,
    ) -> T {
        self.send(client, (lease::PROGRAM, lease::VERSION, procedure), args).results()
    }

    fn hello(&mut self, client: u32) -> hello::Welcome {
        let answer: hello::Reply = self.lease(client, hello::NUMBER, &hello_of(client));
        let Answer::Done(done) = answer else { panic!("{answer:?}") };
        done.results
    }

    fn caller(&self, client: u32) -> Caller {
        Caller { client: id(client), instance: 1, epoch: self.epoch }
    }

    /// Returns the arguments that request one lease.
    fn asking(&self, client: u32, object: Handle, kind: Kind) -> leases::Args {
        leases::Args {
            caller: self.caller(client),
            wanted: UpTo(vec![leases::Wanted { object, terms: terms(kind), reclaim: false }]),
            returned: UpTo(Vec::new()),
            progress: leases::Progress::Recovered,
        }
    }

    /// Returns the arguments that return one lease.
    fn returning(&self, client: u32, object: Handle, serial: u64) -> leases::Args {
        leases::Args {
            caller: self.caller(client),
            wanted: UpTo(Vec::new()),
            returned: UpTo(vec![leases::Returned { object, serial, open: Open::No }]),
            progress: leases::Progress::Recovered,
        }
    }

    fn wanted(&mut self, client: u32, object: Handle, kind: Kind) -> leases::Reply {
        let args = self.asking(client, object, kind);
        self.lease(client, leases::NUMBER, &args)
    }

    fn granted(&mut self, client: u32, object: Handle, kind: Kind) -> Grant {
        grant_of(self.wanted(client, object, kind))
    }

    fn give_back(&mut self, client: u32, object: Handle, serial: u64) {
        let args = self.returning(client, object, serial);
        let answer: leases::Reply = self.lease(client, leases::NUMBER, &args);
        assert!(matches!(answer, Answer::Done(_)), "{answer:?}");
    }

    /// Returns the calls that a client received.
    fn came(&self, client: u32) -> Vec<(Xid, u32, Bytes)> {
        let mut posted = self.posted.0.lock().expect("no test panics");
        let to = connection(client);
        let (mine, others) = posted.drain(..).partition(|(at, _)| *at == to);
        *posted = others;
        let call = |(_, message): (ConnectionId, Bytes)| {
            let mut reader = Reader::new(&message);
            let call = rpc::Call::decode(&mut reader).expect("a call");
            assert_eq!((call.program, call.version), (callback::PROGRAM, callback::VERSION));
            (call.xid, call.procedure, reader.rest_shared())
        };
        let mine: Vec<(ConnectionId, Bytes)> = mine;
        mine.into_iter().map(call).collect()
    }

    fn evictions(&self, client: u32) -> Vec<evict::Lease> {
        let leases = |(_, procedure, args): (Xid, u32, Bytes)| {
            assert_eq!(procedure, evict::NUMBER);
            let args: evict::Args = decode_all(&mut Reader::new(&args)).expect("arguments");
            args.leases.0
        };
        self.came(client).into_iter().flat_map(leases).collect()
    }

    fn file(&mut self, name: &[u8]) -> Handle {
        let place = DirectoryArgs { directory: self.root(), name: Name(name) };
        let how = create::How::Guarded(SetAttributes { mode: Some(0o666), ..Default::default() });
        let reply: create::Reply = self.nfs(create::NUMBER, &create::Args { place, how }).results();
        reply.done().expect("it is made").object.expect("a handle")
    }

    fn attributes(&mut self, object: Handle) -> Waiting {
        self.nfs(getattr::NUMBER, &getattr::Args { object })
    }
}

fn terms(kind: Kind) -> lease::Terms {
    lease::Terms { kind, term_ms: 0, opportune: false, space: 0 }
}

fn written(file: Handle, offset: u64, data: &'static [u8]) -> write::Args {
    let count = u32::try_from(data.len()).expect("it is short");
    let stability = write::Stability::FileSync;
    write::Args { file, offset, count, stability, data: Bytes::from_static(data) }
}

fn reading(file: Handle) -> read::Args {
    read::Args { file, offset: 0, count: 100 }
}

#[test]
fn client_gets_leases_after_hello() {
    let mut world = World::new();
    let file = world.file(b"file");
    assert_eq!(world.wanted(1, file, Kind::Read), Answer::Unknown);
    let welcome = world.hello(1);
    assert_eq!((welcome.epoch, welcome.recovering, welcome.default_term_ms), (1, false, 30_000));
    assert!(welcome.leases_names);
    let grant = world.granted(1, file, Kind::Read);
    assert!(grant.cachable && grant.kind == Kind::Read && grant.term_ms == 30_000);
    assert_eq!(
        *world.ledger.list.lock().expect("no test panics"),
        [(id(1), 1)],
        "it was listed first"
    );
    world.epoch = 7;
    assert_eq!(world.wanted(1, file, Kind::Read), Answer::Epoch(1));
    world.epoch = 1;
    // The same request again is a renewal; a request by a greater instance gets another lease.
    assert_eq!(world.granted(1, file, Kind::Read).serial, grant.serial);
}

/// A store like the store of one of several metaservers: the server leases regular files only.
#[test]
fn hello_reports_a_server_that_leases_only_files() {
    let mut world = World::new();
    let config = Config { leases_names: false, ..Config::default() };
    world.server.store = Arc::new(MemStore::new(config));
    world.start();
    let file = world.file(b"file");
    assert!(!world.hello(1).leases_names);
    assert!(world.granted(1, file, Kind::Read).cachable);
    let root = world.root();
    assert!(!world.granted(1, root, Kind::Read).cachable);
}

#[test]
fn nothing_is_granted_before_calls_without_leases_have_ended() {
    let mut world = World::new();
    let file = world.file(b"file");
    let plain = (nfs3::PROGRAM, nfs3::VERSION, write::NUMBER);
    let mut running = world.send(PLAIN, plain, &written(file, 0, b"slow"));
    world.hello(1);
    assert_eq!(world.wanted(1, file, Kind::Read), Answer::Later);
    let reply: write::Reply = running.results();
    assert!(reply.done().is_ok());
    drop(running);
    world.granted(1, file, Kind::Read);
}

#[test]
fn plain_write_waits_for_the_readers_return() {
    let mut world = World::new();
    let file = world.file(b"file");
    world.hello(1);
    let grant = world.granted(1, file, Kind::Read);
    let mut reply = world.nfs(read::NUMBER, &reading(file));
    assert!(reply.results::<read::Reply>().done().is_ok(), "readers share");
    let mut write = world.nfs(write::NUMBER, &written(file, 0, b"new"));
    assert_eq!(write.poll(), None);
    assert_eq!(world.evictions(1), [evict::Lease { object: file, serial: grant.serial }]);
    world.give_back(1, file, grant.serial);
    assert!(write.results::<write::Reply>().done().is_ok());
    let next = world.granted(1, file, Kind::Read);
    assert!(next.modrev > grant.modrev && next.serial > grant.serial);
}

/// If the requests ran one after the other and each waited some seconds, for example for an
/// unreachable iod, the terms of all leases of the call would be over before the reply: a term
/// counts from the request.
#[test]
fn lease_requests_of_one_call_do_not_wait_for_each_other() {
    let mut world = World::new();
    let files = [world.file(b"one"), world.file(b"two"), world.file(b"three")];
    world.hello(1);
    world.hello(2);
    let serials = [0, 1].map(|file| world.granted(1, files[file], Kind::Write).serial);
    let mut args = world.asking(2, files[0], Kind::Read);
    let first = args.wanted.0[0];
    args.wanted.0.extend(files[1..].iter().map(|file| leases::Wanted { object: *file, ..first }));
    let mut asked = world.send(2, (lease::PROGRAM, lease::VERSION, leases::NUMBER), &args);
    assert_eq!(asked.poll(), None);
    let evicted: Vec<_> = world.evictions(1).iter().map(|it| it.serial).collect();
    assert_eq!(evicted, serials, "both are asked for at once");
    for (file, serial) in files.into_iter().zip(serials).rev() {
        world.give_back(1, file, serial);
    }
    let Answer::Done(done) = asked.results::<leases::Reply>() else { panic!("it is granted") };
    let held = done.results.held.0.iter().map(|held| (held.place, held.grant.cachable));
    assert!(held.eq([(0, true), (1, true), (2, true)]));
}

#[test]
fn recall_is_repeated_until_received() {
    let mut world = World::new();
    let file = world.file(b"file");
    world.hello(1);
    world.granted(1, file, Kind::Read);
    let _write = world.nfs(write::NUMBER, &written(file, 0, b"new"));
    let first = world.came(1);
    assert_eq!(first.len(), 1);
    world.pass(Duration::from_millis(600));
    let second = world.came(1);
    assert_eq!(second.len(), 1);
    let mut reply = Writer::new();
    rpc::Reply { xid: second[0].0, status: rpc::ReplyStatus::Success }.encode(&mut reply);
    let mut arrival = world.server.arrival;
    arrival.connection = Some(connection(1));
    let reply = reply.finish().into_bytes();
    drop(world.server.service.answer(arrival, reply, Writer::new()));
    world.pass(Duration::from_secs(1));
    world.pass(Duration::from_secs(1));
    assert_eq!(world.came(1).len(), 0, "the recall takes time");
}

#[test]
fn plain_read_sees_cached_writes_of_a_lease_holder() {
    let mut world = World::new();
    let file = world.file(b"file");
    world.hello(1);
    let grant = world.granted(1, file, Kind::Write);
    let mut read = world.nfs(read::NUMBER, &reading(file));
    assert_eq!(read.poll(), None);
    assert_eq!(world.evictions(1).len(), 1);
    // The holder writes its changes back during the recall, and returns the lease.
    let base = Some(Base { serial: grant.serial, modrev: grant.modrev });
    let head = Head { caller: world.caller(1), asks: List(Vec::new()), base };
    let attributes = SetAttributes { mode: Some(0o600), ..Default::default() };
    let args = merged::Merged { attributes, write: written(file, 0, b"dirty") };
    let answer: merged::Reply = world.lease(1, merged::NUMBER, &LeaseCall { head, args });
    let Answer::Done(done) = answer else { panic!("{answer:?}") };
    let [change] = &done.changes.0[..] else { panic!("{:?}", done.changes) };
    assert!(change.before == grant.modrev && change.after > change.before);
    let after = done.results.done().expect("it is written").file.after.expect("attributes");
    assert_eq!((after.size, after.mode), (5, 0o600), "both were done");
    assert_eq!(read.poll(), None);
    world.give_back(1, file, grant.serial);
    let done = read.results::<read::Reply>().done().expect("it is read");
    assert_eq!(&done.data[..], b"dirty");
}

#[test]
fn plain_call_must_retry_while_a_holder_is_silent() {
    let mut world = World::new();
    let file = world.file(b"file");
    world.hello(1);
    world.granted(1, file, Kind::Write);
    let mut read = world.nfs(read::NUMBER, &reading(file));
    let two = nfs2::read::Args { file: nfs2_handle(file), offset: 0, count: 10, total_count: 0 };
    let mut older = world.send(PLAIN, (nfs2::PROGRAM, nfs2::VERSION, nfs2::read::NUMBER), &two);
    assert_eq!((read.poll(), older.poll()), (None, None));
    world.pass(Duration::from_secs(2));
    let Reply::Failed(status, _) = read.results::<read::Reply>() else { panic!("it failed") };
    assert_eq!(status, Status::Jukebox);
    assert_eq!(older.poll(), Some(None), "version 2 has no status for it");
    // The holder's lease ends by itself, at most the write slack after the holder's last write.
    world.pass(Duration::from_secs(40));
    let mut read = world.nfs(read::NUMBER, &reading(file));
    assert!(read.results::<read::Reply>().done().is_ok());
}

fn nfs2_handle(handle: Handle) -> nfs2::Handle {
    nfs2::Handle(handle.as_bytes().try_into().expect("handles are of that length"))
}

#[test]
fn server_queries_size_and_time_from_the_holder() {
    let mut world = World::new();
    let file = world.file(b"file");
    world.hello(1);
    let grant = world.granted(1, file, Kind::Write);
    let mut look = world.attributes(file);
    assert_eq!(look.poll(), None);
    let came = world.came(1);
    let [(xid, report::NUMBER, args)] = &came[..] else { panic!("{came:?}") };
    let args: report::Args = decode_all(&mut Reader::new(args)).expect("arguments");
    assert_eq!(args.lease, evict::Lease { object: file, serial: grant.serial });
    let time = nfs3::Time { seconds: 77, nanoseconds: 7 };
    let mut reply = Writer::new();
    rpc::Reply { xid: *xid, status: rpc::ReplyStatus::Success }.encode(&mut reply);
    Some(report::Now { size: 1234, modified: time, changed: time, set: None }).encode(&mut reply);
    let reply = reply.finish().into_bytes();
    let mut arrival = world.server.arrival;
    // The server ignores a reply that another client sends.
    arrival.connection = Some(connection(2));
    drop(world.server.service.answer(arrival, reply.clone(), Writer::new()));
    assert_eq!(look.poll(), None);
    arrival.connection = Some(connection(1));
    drop(world.server.service.answer(arrival, reply, Writer::new()));
    let done = look.results::<getattr::Reply>().done().expect("it is known");
    assert_eq!((done.attributes.size, done.attributes.modified), (1234, time));
    assert_eq!(world.granted(1, file, Kind::Write).serial, grant.serial);
}

/// The server reports a mode that only the holder knows, but only the store can check permissions:
/// the holder must first write the mode back.
#[test]
fn mode_set_by_a_holder_is_shown_and_written_back_for_access() {
    let mut world = World::new();
    let file = world.file(b"file");
    world.hello(1);
    world.granted(1, file, Kind::Write);
    let reported = |world: &mut World| {
        let came = world.came(1);
        let [(xid, report::NUMBER, _)] = &came[..] else { panic!("{came:?}") };
        let time = nfs3::Time { seconds: 77, nanoseconds: 7 };
        let mut reply = Writer::new();
        rpc::Reply { xid: *xid, status: rpc::ReplyStatus::Success }.encode(&mut reply);
        let set = Some(report::Set { mode: 0o604, accessed: time });
        Some(report::Now { size: 4, modified: time, changed: time, set }).encode(&mut reply);
        let mut arrival = world.server.arrival;
        arrival.connection = Some(connection(1));
        let reply = reply.finish().into_bytes();
        drop(world.server.service.answer(arrival, reply, Writer::new()));
    };
    let mut look = world.attributes(file);
    assert_eq!(look.poll(), None);
    reported(&mut world);
    let done = look.results::<getattr::Reply>().done().expect("it is known");
    assert_eq!((done.attributes.mode, done.attributes.accessed.seconds), (0o604, 77));
    let args = access::Args { object: file, access: access::Access::default() };
    let mut asks = world.nfs(access::NUMBER, &args);
    assert_eq!(asks.poll(), None);
    reported(&mut world);
    assert_eq!(asks.poll(), None, "the mode is not here");
    let came = world.came(1);
    assert!(matches!(came[..], [(_, evict::NUMBER, _)]), "{came:?}");
}

#[test]
fn late_data_is_refused_only_if_the_object_changed() {
    let mut world = World::new();
    let file = world.file(b"file");
    world.hello(1);
    let grant = world.granted(1, file, Kind::Write);
    world.pass(Duration::from_secs(40));
    let push = |world: &mut World, data| {
        let base = Some(Base { serial: grant.serial, modrev: grant.modrev });
        let head = Head { caller: world.caller(1), asks: List(Vec::new()), base };
        let attributes = SetAttributes { mode: Some(0o604), ..SetAttributes::default() };
        let args = merged::Merged { attributes, write: written(file, 0, data) };
        world.lease::<merged::Reply>(1, merged::NUMBER, &LeaseCall { head, args })
    };
    let Answer::Done(done) = push(&mut world, b"late") else { panic!("no client had changed it") };
    // The client sends data and then attributes with the same base. The server does not refuse the
    // attributes as late because of the data, and reports both as one change.
    let after =
        done.results.done().expect("it is written").file.after.expect("the reply contains it");
    assert_eq!(after.mode, 0o604);
    assert!(matches!(done.changes.0[..], [change] if change.before == grant.modrev));
    let mut write = world.nfs(write::NUMBER, &written(file, 0, b"other"));
    assert!(write.results::<write::Reply>().done().is_ok());
    assert!(matches!(push(&mut world, b"LATE"), Answer::Late(now) if now > grant.modrev));
    let mut read = world.nfs(read::NUMBER, &reading(file));
    assert_eq!(&read.results::<read::Reply>().done().expect("it is read").data[..], b"other");
}

#[test]
fn new_name_recalls_names_but_not_attributes_of_siblings() {
    let mut world = World::new();
    let (root, file) = (world.root(), world.file(b"file"));
    world.hello(1);
    let names = world.granted(1, root, Kind::Read);
    world.granted(1, file, Kind::Read);
    let at = DirectoryArgs { directory: root, name: Name(b"other") };
    let how = create::How::Guarded(SetAttributes::default());
    let mut made = world.nfs(create::NUMBER, &create::Args { place: at, how });
    assert_eq!(made.poll(), None);
    assert_eq!(world.evictions(1), [evict::Lease { object: root, serial: names.serial }]);
    world.give_back(1, root, names.serial);
    assert!(made.results::<create::Reply>().done().is_ok());
    // The removal of a name also recalls the leases on the object of that name.
    let at = DirectoryArgs { directory: root, name: Name(b"file") };
    let mut removed = world.nfs(remove::NUMBER, &at);
    assert_eq!(removed.poll(), None);
    let evicted = world.evictions(1);
    let [evict::Lease { object, serial }] = evicted[..] else { panic!("{evicted:?}") };
    assert_eq!(object, file);
    world.give_back(1, file, serial);
    assert!(removed.results::<remove::Reply>().done().is_ok());
    assert_eq!(world.server.service.lease_view(10).count, 0);
}

#[test]
fn leases_come_with_names_and_listings() {
    let mut world = World::new();
    let (root, file) = (world.root(), world.file(b"file"));
    world.hello(1);
    let asks = |places: &[u32]| {
        let ask = |&place: &u32| Ask { place, terms: terms(Kind::Read) };
        List(places.iter().map(ask).collect())
    };
    let head =
        Head { caller: world.caller(1), asks: asks(&[place::FIRST, place::SECOND]), base: None };
    let args = LeaseCall { head, args: DirectoryArgs { directory: root, name: Name(b"file") } };
    let answer: Answer<lookup::Reply> = world.lease(1, lookup::NUMBER, &args);
    let Answer::Done(done) = answer else { panic!("{answer:?}") };
    let places: Vec<u32> = done.granted.0.iter().map(|one| one.place).collect();
    assert_eq!(places, [place::FIRST, place::SECOND]);
    assert_eq!(done.results.done().expect("it is there").object, file);
    let head = Head { caller: world.caller(1), asks: asks(&[place::ENTRIES]), base: None };
    let args = readdirplus::Args {
        directory: root,
        cookie: leasehold_base::units::Cookie(0),
        verifier: [0; 8],
        names_count: 4096,
        count: 4096,
    };
    let procedure = (lease::PROGRAM, lease::VERSION, readdirplus::NUMBER);
    let mut waiting = world.send(1, procedure, &LeaseCall { head, args });
    let reply = waiting.poll().expect("it is answered").expect("with a reply");
    let mut reader = Reader::new(&reply);
    rpc::Reply::decode(&mut reader).expect("a reply");
    let answer: Answer<readdirplus::Reply<List<readdirplus::Entry<'_>>>> =
        decode_all(&mut reader).expect("a listing");
    let Answer::Done(done) = answer else { panic!("{answer:?}") };
    assert_eq!(done.granted.0.len(), 3, "of the directory, the one above and the file");
    assert_eq!(world.server.service.lease_view(10).count, 2);
}

#[test]
fn append_writes_at_the_end_of_the_file() {
    let mut world = World::new();
    let file = world.file(b"file");
    for client in [1, 2] {
        world.hello(client);
    }
    for (client, text) in [(1, &b"one"[..]), (2, b"two"), (1, b"three")] {
        let head = Head { caller: world.caller(client), asks: List(Vec::new()), base: None };
        let stability = write::Stability::FileSync;
        let args = append::Data { file, stability, data: Bytes::copy_from_slice(text) };
        let answer: append::Reply = world.lease(client, append::NUMBER, &LeaseCall { head, args });
        let Answer::Done(done) = answer else { panic!("{answer:?}") };
        assert!(done.results.done().is_ok());
    }
    let mut read = world.nfs(read::NUMBER, &reading(file));
    let done = read.results::<read::Reply>().done().expect("it is read");
    assert_eq!(&done.data[..], b"onetwothree");
}

#[test]
fn grace_period_waits_for_listed_clients_only() {
    let mut world = World::new();
    let file = world.file(b"file");
    world.start();
    let mut write = world.nfs(write::NUMBER, &written(file, 0, b"a"));
    assert!(write.results::<write::Reply>().done().is_ok(), "no lease was ever granted");
    world.hello(1);
    world.granted(1, file, Kind::Write);
    world.start();
    let mut write = world.nfs(write::NUMBER, &written(file, 0, b"b"));
    let Reply::Failed(status, _) = write.results::<write::Reply>() else { panic!("it failed") };
    assert_eq!(status, Status::Jukebox);
    assert_eq!(world.server.service.lease_view(10).waited_for, [id(1)]);
    assert!(world.hello(1).recovering);
    let wanted = leases::Wanted { object: file, terms: terms(Kind::Write), reclaim: true };
    let args = leases::Args {
        caller: world.caller(1),
        wanted: UpTo(vec![wanted]),
        returned: UpTo(Vec::new()),
        progress: leases::Progress::Recovered,
    };
    let answer: leases::Reply = world.lease(1, leases::NUMBER, &args);
    let Answer::Done(done) = answer else { panic!("{answer:?}") };
    let serial = done.results.held.0[0].grant.serial;
    let mut write = world.nfs(write::NUMBER, &written(file, 0, b"c"));
    assert_eq!(write.poll(), None, "it was reclaimed");
    assert_eq!(world.evictions(1).len(), 1);
    world.give_back(1, file, serial);
    assert!(write.results::<write::Reply>().done().is_ok());
}

#[test]
fn a_client_that_will_not_return_can_be_forgotten() {
    let mut world = World::new();
    let file = world.file(b"file");
    world.hello(1);
    world.granted(1, file, Kind::Write);
    let mut read = world.nfs(read::NUMBER, &reading(file));
    assert_eq!(read.poll(), None);
    let view = world.server.service.lease_view(10);
    let [lease] = &view.leases[..] else { panic!("{view:?}") };
    assert!(lease.writes && lease.evicted && lease.client == id(1));
    assert_eq!(lease.path.as_deref(), Some(&b"file"[..]));
    assert_eq!(lease.waiting, [(LeaseWaiter::Plain, 1)].into());
    assert_eq!(view.holders[0].name, "laptop");
    world.hello(2);
    let head = Head { caller: world.caller(2), asks: List(Vec::new()), base: None };
    let call = LeaseCall { head, args: reading(file) };
    let mut other = world.send(2, (lease::PROGRAM, lease::VERSION, read::NUMBER), &call);
    assert_eq!(other.poll(), None);
    let waiting = world.server.service.lease_view(10).leases[0].waiting.clone();
    assert_eq!(waiting, [(LeaseWaiter::Client(id(2)), 1), (LeaseWaiter::Plain, 1)].into());
    assert!(!world.server.service.forget_lease_holder(id(3)));
    assert!(world.server.service.forget_lease_holder(id(1)));
    assert!(read.results::<read::Reply>().done().is_ok());
    assert_eq!(*world.ledger.list.lock().expect("no test panics"), []);
}

#[test]
fn departed_client_has_no_leases_to_recall() {
    let mut world = World::new();
    let file = world.file(b"file");
    world.hello(1);
    world.granted(1, file, Kind::Write);
    let caller = world.caller(1);
    let answer: goodbye::Reply = world.lease(1, goodbye::NUMBER, &caller);
    assert!(matches!(answer, Answer::Done(_)));
    let mut write = world.nfs(write::NUMBER, &written(file, 0, b"a"));
    assert!(write.results::<write::Reply>().done().is_ok());
    assert_eq!(world.wanted(1, file, Kind::Read), Answer::Unknown);
    world.pass(Duration::from_secs(1));
    let wake = world.server.service.wake(Time::ZERO);
    assert_eq!(wake, Some(Time::ZERO + REPLY_AGE_MAX), "for kept replies alone");
}

#[test]
fn caller_without_write_permission_gets_no_write_lease() {
    let mut world = World::new();
    let file = world.file(b"file");
    let mode = SetAttributes { mode: Some(0o644), ..Default::default() };
    let set = nfs3::setattr::Args { object: file, attributes: mode, guard: None };
    assert!(
        world.nfs(nfs3::setattr::NUMBER, &set).results::<nfs3::setattr::Reply>().done().is_ok()
    );
    world.server.uid = 77;
    world.hello(1);
    let Answer::Done(done) = world.wanted(1, file, Kind::Write) else { panic!("it is answered") };
    assert_eq!(done.results.held.0.len(), 0);
    world.granted(1, file, Kind::Read);
}
