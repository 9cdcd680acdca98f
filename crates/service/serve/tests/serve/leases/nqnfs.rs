//! NQNFS: the diagrams of the paper, together with clients without leases and clients of the lease
//! program.

use leasehold_wire::nqnfs::{self, Grant, evicted, getlease, vacated};
use leasehold_wire::rpc::{AuthSys, flavor};

use super::*;

/// Returns a lease request.
fn ask(kind: nqnfs::Kind) -> Option<nqnfs::Ask> {
    Some(nqnfs::Ask { kind, seconds: 30 })
}

const READ: nqnfs::Kind = nqnfs::Kind::Read;
const WRITE: nqnfs::Kind = nqnfs::Kind::Write;

fn address(host: u32) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 10 + u8::try_from(host).expect("there are few")], 1023))
}

impl World {
    /// Sends a call of a host, on its own connection or by datagram.
    fn of_host(
        &mut self,
        host: u32,
        way: Option<ConnectionId>,
        procedure: u32,
        args: &impl Encode,
    ) -> Waiting {
        let message = self.server.message((nqnfs::PROGRAM, nqnfs::VERSION, procedure), args);
        let arrival = leasehold_serve::Arrival {
            from: address(host),
            connection: way,
            ..self.server.arrival
        };
        Waiting(self.server.service.answer(arrival, message, Writer::new()))
    }

    fn host(&mut self, host: u32, procedure: u32, args: &impl Encode) -> Waiting {
        self.of_host(host, Some(connection(10 + host)), procedure, args)
    }

    fn reads(&mut self, host: u32, file: Handle, asked: Option<nqnfs::Ask>) -> Waiting {
        self.host(host, read::NUMBER, &nqnfs::Call { ask: asked, args: reading(file) })
    }

    fn writes(
        &mut self,
        host: u32,
        file: Handle,
        asked: Option<nqnfs::Ask>,
        data: &'static [u8],
    ) -> Waiting {
        let args = written(file, 0, data);
        self.host(host, write::NUMBER, &nqnfs::Call { ask: asked, args })
    }

    fn leased(&mut self, host: u32, object: Handle, kind: nqnfs::Kind) -> nqnfs::Terms {
        let args = getlease::Wanted { object, kind, seconds: 30 };
        let call = nqnfs::Call { ask: None, args };
        done(&mut self.host(host, getlease::NUMBER, &call)).1
    }

    fn vacates(&mut self, host: u32, object: Handle) {
        let call = nqnfs::Call { ask: None, args: getattr::Args { object } };
        let reply = self.host(host, vacated::NUMBER, &call).poll();
        assert_eq!(reply, Some(None), "it has no reply");
    }

    /// Returns the handles that the server recalled from a host.
    fn evicted(&self, host: u32) -> Vec<Handle> {
        let mut posted = self.posted.0.lock().expect("no test panics");
        let to = connection(10 + host);
        let (mine, others) = posted.drain(..).partition(|(at, _)| *at == to);
        *posted = others;
        let mine: Vec<(ConnectionId, Bytes)> = mine;
        mine.iter().map(|(_, message)| eviction(message)).collect()
    }
}

/// Returns the object of an EVICTED message, whose credential must be acceptable to 4.4BSD.
fn eviction(message: &Bytes) -> Handle {
    let mut reader = Reader::new(message);
    let call = rpc::Call::decode(&mut reader).expect("a call");
    assert_eq!((call.program, call.version, call.procedure), (300_105, 3, evicted::NUMBER));
    assert_eq!(call.credential.flavor, flavor::SYS);
    let body = Bytes::copy_from_slice(call.credential.body);
    let who: AuthSys<'_> = decode_all(&mut Reader::new(&body)).expect("a user");
    assert_eq!((who.stamp, who.machine_name, who.uid, who.gid), (0, &b""[..], 0, 0));
    let args: evicted::Args = decode_all(&mut reader).expect("a handle behind its length");
    args.object
}

/// Returns the results of GETLEASE.
fn done(waiting: &mut Waiting) -> (Option<Grant>, nqnfs::Terms) {
    match waiting.results::<getlease::Reply>() {
        nqnfs::Reply::Done(grant, done) => (grant, done.terms),
        failed @ nqnfs::Reply::Failed(..) => panic!("{failed:?}"),
    }
}

/// Returns the lease and the data in the reply to a READ.
fn data(waiting: &mut Waiting) -> (Option<Grant>, Bytes) {
    match waiting.results::<nqnfs::read::Reply>() {
        nqnfs::Reply::Done(grant, done) => (grant, done.data),
        failed @ nqnfs::Reply::Failed(..) => panic!("{failed:?}"),
    }
}

/// Returns the lease in the reply to a WRITE.
fn wrote(waiting: &mut Waiting) -> Option<Grant> {
    match waiting.results::<nqnfs::write::Reply>() {
        nqnfs::Reply::Done(grant, _) => grant,
        failed @ nqnfs::Reply::Failed(..) => panic!("{failed:?}"),
    }
}

/// Returns true if the server requests a retry of a READ or WRITE.
fn is_put_off(waiting: &mut Waiting) -> bool {
    let reply = waiting.poll().expect("it is answered").expect("with a reply");
    reply[24..28] == [0, 0, 0x27, 0x18]
}

#[test]
fn leases_are_piggybacked_or_requested_alone() {
    let mut world = World::new();
    let file = world.file(b"file");
    let (grant, _) = data(&mut world.reads(1, file, ask(READ)));
    let Grant { kind, terms } = grant.expect("it is granted");
    assert!(kind == READ && terms.cachable && terms.seconds == 30 && terms.modrev > 0);
    let (none, _) = data(&mut world.reads(1, file, None));
    assert_eq!(none, None, "nothing was asked for");
    assert_eq!(world.leased(1, file, READ), terms, "it is the same lease, and nothing changed");
    // The longest term of this server includes the clock skew.
    let args = getlease::Wanted { object: file, kind: READ, seconds: 3600 };
    let longest = done(&mut world.host(1, getlease::NUMBER, &nqnfs::Call { ask: None, args }));
    assert_eq!((longest.0, longest.1.seconds), (None, 57));
    let holders = world.server.service.lease_view(10).holders;
    assert_eq!(holders[0].name, "NQNFS 192.0.2.11");
}

#[test]
fn host_without_lease_requests_is_no_client() {
    let mut world = World::new();
    let file = world.file(b"file");
    data(&mut world.reads(1, file, None));
    let view = world.server.service.lease_view(10);
    assert_eq!((view.holders.len(), view.count), (0, 0));
}

#[test]
fn host_with_a_forged_handle_is_no_client() {
    let mut world = World::new();
    let forged = Handle::new(&[7; 24]).expect("short enough");
    let reply = world.reads(1, forged, ask(WRITE)).poll().expect("it is answered");
    assert_ne!(reply.expect("with a reply")[24..28], [0; 4]);
    let args = getlease::Wanted { object: forged, kind: WRITE, seconds: 30 };
    let reply = world.host(1, getlease::NUMBER, &nqnfs::Call { ask: None, args }).poll();
    assert_ne!(reply.expect("it is answered").expect("with a reply")[24..28], [0; 4]);
    assert_eq!(world.server.service.lease_view(10).holders.len(), 0);
}

/// The paper's first diagram.
#[test]
fn readers_share_and_caches_stay_valid_after_a_lapse() {
    let mut world = World::new();
    let file = world.file(b"file");
    let before = data(&mut world.reads(1, file, ask(READ))).0.expect("it is granted").terms;
    world.pass(Duration::from_secs(40));
    assert_eq!(world.leased(1, file, READ), before, "the modrev is the same");
    let other = data(&mut world.reads(2, file, ask(READ))).0.expect("it is granted").terms;
    assert_eq!(other, before);
    assert_eq!((world.evicted(1), world.evicted(2)), (vec![], vec![]));
}

/// The paper's third diagram.
#[test]
fn writing_is_shared_as_in_the_paper() {
    let mut world = World::new();
    let file = world.file(b"file");
    let (a, b) = (1, 2);
    assert!(world.leased(b, file, WRITE).cachable);
    let mut read = world.reads(a, file, ask(READ));
    assert_eq!(read.poll(), None);
    assert_eq!(world.evicted(b), [file]);
    assert_eq!(wrote(&mut world.writes(b, file, None, b"delayed")), None);
    assert_eq!(read.poll(), None, "there may be more");
    world.vacates(b, file);
    let (grant, data) = data(&mut read);
    assert_eq!(
        (&data[..], grant.map(|grant| grant.terms.cachable)),
        (&b"delayed"[..], Some(false))
    );
    let next = wrote(&mut world.writes(b, file, ask(WRITE), b"through")).expect("it is granted");
    assert!(!next.terms.cachable && world.evicted(a).is_empty());
    // When the shared leases are no longer renewed, the file becomes cachable again.
    world.pass(Duration::from_secs(40));
    assert!(world.leased(b, file, WRITE).cachable);
}

/// The servers of all BSD systems have this fault: a sole reader that requests a write lease counts
/// as a reader of the file.
#[test]
fn sole_reader_becomes_a_writer() {
    let mut world = World::new();
    let file = world.file(b"file");
    world.leased(1, file, READ);
    assert!(world.leased(1, file, WRITE).cachable);
    let mut read = world.reads(2, file, ask(READ));
    assert_eq!((read.poll(), world.evicted(1)), (None, vec![file]));
}

#[test]
fn plain_getattr_recalls_a_writer_that_cannot_report() {
    let mut world = World::new();
    let file = world.file(b"file");
    world.leased(1, file, WRITE);
    let mut look = world.attributes(file);
    assert_eq!((look.poll(), world.evicted(1)), (None, vec![file]));
    wrote(&mut world.writes(1, file, None, b"12345"));
    world.vacates(1, file);
    assert_eq!(look.results::<getattr::Reply>().done().expect("it is there").attributes.size, 5);
}

#[test]
fn clients_of_both_programs_recall_each_others_leases() {
    let mut world = World::new();
    let file = world.file(b"file");
    world.leased(1, file, WRITE);
    world.hello(5);
    let wanted = leases::Wanted { object: file, terms: terms(Kind::Write), reclaim: false };
    let args = leases::Args {
        caller: world.caller(5),
        wanted: UpTo(vec![wanted]),
        returned: UpTo(Vec::new()),
        progress: leases::Progress::Recovered,
    };
    let mut asked = world.send(5, (lease::PROGRAM, lease::VERSION, leases::NUMBER), &args);
    assert_eq!((asked.poll(), world.evicted(1)), (None, vec![file]));
    world.vacates(1, file);
    let Answer::Done(done) = asked.results::<leases::Reply>() else { panic!("it is answered") };
    assert!(!done.results.held.0[0].grant.cachable, "the host may still write");
    world.pass(Duration::from_secs(80));
    let own = world.granted(5, file, Kind::Write);
    assert!(own.cachable);
    let mut write = world.writes(1, file, None, b"data");
    assert_eq!(write.poll(), None);
    assert_eq!(world.evictions(5), [evict::Lease { object: file, serial: own.serial }]);
    world.give_back(5, file, own.serial);
    assert_eq!(wrote(&mut write), None);
}

#[test]
fn names_and_listings_are_leased_with_their_directory() {
    let mut world = World::new();
    let (root, file) = (world.root(), world.file(b"file"));
    let args = DirectoryArgs { directory: root, name: Name(b"file") };
    let mut found = world.host(1, lookup::NUMBER, &nqnfs::Call { ask: ask(READ), args });
    let nqnfs::Reply::Done(Some(grant), found) = found.results::<nqnfs::lookup::Reply>() else {
        panic!("it is found")
    };
    assert!(grant.terms.cachable && found.object == file);
    let args = readdirplus::Args {
        directory: root,
        cookie: leasehold_base::units::Cookie(0),
        verifier: [0; 8],
        names_count: 4096,
        count: 4096,
    };
    let call = nqnfs::Call { ask: ask(READ), args };
    let reply = world.host(1, readdirplus::NUMBER, &call).poll().expect("at once").expect("one");
    let mut reader = Reader::new(&reply);
    rpc::Reply::decode(&mut reader).expect("a reply");
    let listed: nqnfs::Reply<
        readdirplus::Done<List<readdirplus::Entry<'_>>>,
        Option<nfs3::Attributes>,
    > = decode_all(&mut reader).expect("a listing");
    let nqnfs::Reply::Done(Some(again), listed) = listed else { panic!("{listed:?}") };
    assert_eq!((again, listed.entries.0.len()), (grant, 3));
    let at = DirectoryArgs { directory: root, name: Name(b"new") };
    let how = create::How::Guarded(SetAttributes::default());
    let mut made = world.nfs(create::NUMBER, &create::Args { place: at, how });
    assert_eq!((made.poll(), world.evicted(1)), (None, vec![root]));
    world.vacates(1, root);
    assert!(made.results::<create::Reply>().done().is_ok());
}

#[test]
fn host_is_notified_on_each_return_path() {
    let mut world = World::new();
    let file = world.file(b"file");
    let (one, two) = (Some(connection(11)), Some(connection(12)));
    for way in [one, None, two] {
        let call = nqnfs::Call { ask: ask(READ), args: reading(file) };
        data(&mut world.of_host(1, way, read::NUMBER, &call));
    }
    let mut write = world.nfs(write::NUMBER, &written(file, 0, b"new"));
    assert_eq!(write.poll(), None);
    assert_eq!((world.evicted(1), world.evicted(2)), (vec![file], vec![file]));
    let datagrams = core::mem::take(&mut *world.posted.1.lock().expect("no test panics"));
    let [(to, from, message)] = &datagrams[..] else { panic!("{datagrams:?}") };
    assert_eq!((*to, *from), (address(1), world.server.arrival.to));
    assert_eq!(eviction(message), file);
    // The server repeats the message until the host returns the lease, but not on a closed
    // connection.
    world.server.service.connection_closed(address(1), connection(11));
    world.pass(Duration::from_millis(600));
    assert_eq!((world.evicted(1), world.evicted(2)), (vec![], vec![file]));
    let call = nqnfs::Call { ask: None, args: getattr::Args { object: file } };
    assert_eq!(world.of_host(1, None, vacated::NUMBER, &call).poll(), Some(None));
    assert!(write.results::<write::Reply>().done().is_ok());
}

#[test]
fn lease_without_recall_cannot_be_vacated() {
    let mut world = World::new();
    let file = world.file(b"file");
    world.leased(1, file, WRITE);
    world.vacates(1, file);
    world.vacates(2, file);
    let mut read = world.reads(2, file, None);
    assert_eq!((read.poll(), world.evicted(1)), (None, vec![file]));
    world.vacates(2, file);
    assert_eq!(read.poll(), None, "no host returns the lease of another");
    world.pass(Duration::from_secs(40));
    data(&mut read);
}

#[test]
fn flags_of_other_kernels_are_garbage_and_other_versions_a_mismatch() {
    let mut world = World::new();
    let file = world.file(b"file");
    let handle = file.as_bytes();
    for word in [3_u32, 4, 5, u32::MAX] {
        let mut args = Writer::new();
        args.u32(word);
        args.u32(30);
        args.opaque(handle);
        let args = args.finish().into_bytes();
        let procedure = (nqnfs::PROGRAM, nqnfs::VERSION, getattr::NUMBER);
        assert_eq!(world.server.status(procedure, &Raw(&args)), rpc::ReplyStatus::GarbageArguments);
    }
    let versions = rpc::Versions { low: 3, high: 3 };
    let status = world.server.status((nqnfs::PROGRAM, 1, 0), &());
    assert_eq!(status, rpc::ReplyStatus::ProgramMismatch(versions));
}

struct Raw<'a>(&'a [u8]);

impl Encode for Raw<'_> {
    fn encode(&self, writer: &mut Writer) {
        writer.fixed(self.0);
    }
}

#[test]
fn caller_without_write_permission_gets_no_write_lease() {
    let mut world = World::new();
    let (root, file) = (world.root(), world.file(b"file"));
    assert!(!world.leased(1, root, WRITE).cachable, "directories are changed by calls");
    let mode = SetAttributes { mode: Some(0o644), ..Default::default() };
    let set = nfs3::setattr::Args { object: file, attributes: mode, guard: None };
    assert!(world.nfs(nfs3::setattr::NUMBER, &set).poll().is_some());
    world.server.uid = 77;
    assert!(!world.leased(1, file, WRITE).cachable);
    assert!(world.leased(1, file, READ).cachable);
}

#[test]
fn grace_period_accepts_only_writes_of_lease_holders() {
    let mut world = World::new();
    let file = world.file(b"file");
    world.leased(1, file, WRITE);
    world.start();
    assert_eq!(world.server.service.lease_view(10).waited_for.len(), 1);
    wrote(&mut world.writes(1, file, ask(WRITE), b"delayed"));
    assert!(is_put_off(&mut world.reads(1, file, ask(READ))));
    assert!(is_put_off(&mut world.writes(2, file, ask(WRITE), b"other")));
    assert!(is_put_off(&mut world.nfs(read::NUMBER, &reading(file))));
    // The longest lease from before the restart has expired, and the write slack since the last
    // WRITE has passed.
    world.pass(Duration::from_secs(62));
    wrote(&mut world.writes(1, file, None, b"DELAYED"));
    world.pass(Duration::from_secs(4));
    assert!(is_put_off(&mut world.writes(2, file, ask(WRITE), b"other")));
    world.pass(Duration::from_secs(2));
    let (_, read) = data(&mut world.reads(2, file, ask(READ)));
    assert_eq!(&read[..], b"DELAYED");
}

#[test]
fn restarted_server_refuses_writes_before_reclaims() {
    let mut world = World::new();
    let (file, other) = (world.file(b"file"), world.file(b"other"));
    world.leased(1, file, WRITE);
    world.hello(5);
    world.granted(5, other, Kind::Read);
    world.start();
    assert!(is_put_off(&mut world.writes(1, file, None, b"delayed")));
    world.hello(5);
    let wanted = leases::Wanted { object: other, terms: terms(Kind::Read), reclaim: true };
    let args = leases::Args {
        caller: world.caller(5),
        wanted: UpTo(vec![wanted]),
        returned: UpTo(Vec::new()),
        progress: leases::Progress::Recovered,
    };
    let answer: leases::Reply = world.lease(5, leases::NUMBER, &args);
    assert!(matches!(answer, Answer::Done(_)), "{answer:?}");
    wrote(&mut world.writes(1, file, None, b"delayed"));
    assert!(is_put_off(&mut world.writes(1, other, None, b"late")), "another client holds it");
}
