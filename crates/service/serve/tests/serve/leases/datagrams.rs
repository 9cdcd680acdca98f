//! Clients of the lease program over datagrams.

use super::*;

fn address(client: u32) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 30 + u8::try_from(client).expect("there are few")], 700))
}

impl World {
    fn by_datagram(&mut self, client: u32, procedure: u32, args: &impl Encode) -> Waiting {
        let message = self.server.message((lease::PROGRAM, lease::VERSION, procedure), args);
        self.datagram(client, message)
    }

    fn datagram(&self, client: u32, message: Bytes) -> Waiting {
        let (from, connection) = (address(client), None);
        let arrival = leasehold_serve::Arrival { from, connection, ..self.server.arrival };
        Waiting(self.server.service.answer(arrival, message, Writer::new()))
    }

    fn leases_by_datagram(&mut self, client: u32, object: Handle, kind: Kind) -> Waiting {
        let args = self.asking(client, object, kind);
        self.by_datagram(client, leases::NUMBER, &args)
    }

    fn holds_by_datagram(&mut self, client: u32, object: Handle, kind: Kind) -> Grant {
        let args = hello_of(client);
        let answer: hello::Reply = self.by_datagram(client, hello::NUMBER, &args).results();
        assert!(matches!(answer, Answer::Done(_)), "{answer:?}");
        grant_of(self.leases_by_datagram(client, object, kind).results())
    }

    fn gives_back_by_datagram(&mut self, client: u32, lease: evict::Lease) {
        let args = self.returning(client, lease.object, lease.serial);
        let answer: leases::Reply = self.by_datagram(client, leases::NUMBER, &args).results();
        assert!(matches!(answer, Answer::Done(_)), "{answer:?}");
    }

    /// Returns the calls that the server sent to a client, each with its xid.
    fn datagrams_to(&self, client: u32) -> Vec<(Xid, evict::Args)> {
        let datagrams = core::mem::take(&mut *self.posted.1.lock().expect("no test panics"));
        let evict = |(to, from, message): (SocketAddr, IpAddr, Bytes)| {
            assert_eq!((to, from), (address(client), self.server.arrival.to));
            let mut reader = Reader::new(&message);
            let call = rpc::Call::decode(&mut reader).expect("a call");
            let called = (call.program, call.version, call.procedure);
            assert_eq!(called, (callback::PROGRAM, callback::VERSION, evict::NUMBER));
            (call.xid, decode_all(&mut reader).expect("arguments"))
        };
        datagrams.into_iter().map(evict).collect()
    }
}

/// The server sends a recall to the address of the client's calls, and repeats it until the client
/// replies.
#[test]
fn recall_uses_the_clients_return_path() {
    let mut world = World::new();
    let file = world.file(b"file");
    let grant = world.holds_by_datagram(1, file, Kind::Read);
    assert!(grant.cachable);
    // The wait of a client on a connection has no limit.
    world.hello(3);
    let head = Head { caller: world.caller(3), asks: List(Vec::new()), base: None };
    let attributes = SetAttributes::default();
    let args = merged::Merged { attributes, write: written(file, 0, b"new") };
    let procedure = (lease::PROGRAM, lease::VERSION, merged::NUMBER);
    let mut write = world.send(3, procedure, &LeaseCall { head, args });
    assert_eq!(write.poll(), None);
    let lease = evict::Lease { object: file, serial: grant.serial };
    let evicted = |came: &[(Xid, evict::Args)]| {
        came.iter().flat_map(|(_, args)| args.leases.0.clone()).collect::<Vec<_>>()
    };
    assert_eq!(evicted(&world.datagrams_to(1)), [lease]);
    world.pass(Duration::from_millis(600));
    let again = world.datagrams_to(1);
    assert_eq!(evicted(&again), [lease], "the first may be lost");
    let mut reply = Writer::new();
    rpc::Reply { xid: again[0].0, status: rpc::ReplyStatus::Success }.encode(&mut reply);
    let reply = reply.finish().into_bytes();
    // The server ignores a reply that another client sends.
    drop(world.datagram(2, reply.clone()));
    world.pass(Duration::from_secs(1));
    assert_eq!(evicted(&world.datagrams_to(1)), [lease]);
    drop(world.datagram(1, reply));
    world.pass(Duration::from_secs(3));
    assert_eq!(world.datagrams_to(1), []);
    world.gives_back_by_datagram(1, lease);
    let answer: merged::Reply = write.results();
    let Answer::Done(done) = answer else { panic!("{answer:?}") };
    assert!(done.results.done().is_ok());
}

/// A client over datagrams retransmits its calls, and each copy of a call would wait.
#[test]
fn long_wait_ends_with_a_retry_only_over_datagrams() {
    let mut world = World::new();
    let (file, other) = (world.file(b"file"), world.file(b"other"));
    world.hello(1);
    world.granted(1, file, Kind::Write);
    world.holds_by_datagram(2, other, Kind::Read);
    world.hello(3);
    let read = |world: &World, client| {
        let head = Head { caller: world.caller(client), asks: List(Vec::new()), base: None };
        LeaseCall { head, args: reading(file) }
    };
    let (by_datagram, by_stream) = (read(&world, 2), read(&world, 3));
    let mut by_datagram = world.by_datagram(2, read::NUMBER, &by_datagram);
    let procedure = (lease::PROGRAM, lease::VERSION, read::NUMBER);
    let mut by_stream = world.send(3, procedure, &by_stream);
    let mut asked = world.leases_by_datagram(2, file, Kind::Read);
    assert_eq!((by_datagram.poll(), by_stream.poll(), asked.poll()), (None, None, None));
    world.pass(Duration::from_secs(2));
    assert_eq!(by_datagram.results::<Answer<read::Reply>>(), Answer::Later);
    let answer: leases::Reply = asked.results();
    let Answer::Done(done) = answer else { panic!("{answer:?}") };
    assert_eq!(done.results.held.0, [], "the client works without a lease");
    assert_eq!(by_stream.poll(), None);
    // The holder does not reply until its lease has expired.
    world.pass(Duration::from_secs(40));
    let answer: Answer<read::Reply> = by_stream.results();
    assert!(matches!(answer, Answer::Done(_)), "{answer:?}");
}

/// The server splits a recall of many leases so that each call fits into a datagram.
#[test]
fn many_recalls_are_several_calls() {
    const FILES: usize = 600;
    let mut world = World::new();
    let files: Vec<Handle> =
        (0..FILES).map(|number| world.file(format!("file {number}").as_bytes())).collect();
    let first = world.holds_by_datagram(1, files[0], Kind::Read);
    for file in &files[1..] {
        world.holds_by_datagram(1, *file, Kind::Read);
    }
    let mut writes: Vec<Waiting> =
        files.iter().map(|file| world.nfs(write::NUMBER, &written(*file, 0, b"new"))).collect();
    assert!(writes.iter_mut().all(|write| write.poll().is_none()));
    assert_eq!(world.datagrams_to(1).len(), FILES, "each lease is recalled separately");
    // The server sends all recalls together to a client that returns.
    let args = hello::Args { client: id(1), instance: 1, name: ClientName(b"laptop") };
    let answer: hello::Reply = world.by_datagram(1, hello::NUMBER, &args).results();
    assert!(matches!(answer, Answer::Done(_)), "{answer:?}");
    let again = world.datagrams_to(1);
    let counts: Vec<usize> = again.iter().map(|(_, args)| args.leases.0.len()).collect();
    assert_eq!(counts, [256, 256, 88]);
    assert!(again[0].1.leases.0.iter().any(|lease| lease.serial == first.serial));
}
