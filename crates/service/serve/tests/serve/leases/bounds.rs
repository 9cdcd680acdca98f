//! Limits on the effects of clients with leases on other clients: the number of clients from one
//! machine, the number of leases in one call, and the delay that a silent holder causes.

use super::*;

fn hello_by_number(number: u64) -> hello::Args<'static> {
    let mut client = [7; 16];
    client[..8].copy_from_slice(&number.to_be_bytes());
    hello::Args { client, instance: 1, name: ClientName(b"flood") }
}

impl World {
    /// Sends HELLO from new clients; returns the number of clients that the server registered.
    fn welcomed(&mut self, numbers: core::ops::Range<u64>) -> usize {
        let welcomed = |number| {
            let answer: hello::Reply = self.lease(1, hello::NUMBER, &hello_by_number(number));
            assert!(matches!(answer, Answer::Done(_) | Answer::Later), "{answer:?}");
            matches!(answer, Answer::Done(_))
        };
        numbers.map(welcomed).filter(|is_welcome| *is_welcome).count()
    }

    fn come_from(&mut self, address: &str) {
        self.server.arrival.from = address.parse().expect("an address");
    }

    fn set_mode(&mut self, object: Handle, mode: u32) {
        let attributes = SetAttributes { mode: Some(mode), ..Default::default() };
        let set = nfs3::setattr::Args { object, attributes, guard: None };
        let mut reply = self.nfs(nfs3::setattr::NUMBER, &set);
        assert!(reply.results::<nfs3::setattr::Reply>().done().is_ok());
    }

    /// Returns the number of granted leases of a request for one lease that does not wait.
    fn grants(&mut self, client: u32, object: Handle, kind: Kind) -> usize {
        let mut args = self.asking(client, object, kind);
        args.wanted.0[0].terms.opportune = true;
        let answer: leases::Reply = self.lease(client, leases::NUMBER, &args);
        let Answer::Done(done) = answer else { panic!("{answer:?}") };
        done.results.held.0.len()
    }
}

#[test]
fn number_of_clients_of_one_machine_is_bounded() {
    let mut world = World::new();
    assert_eq!(world.welcomed(0..600), 512);
    assert_eq!(world.welcomed(0..512), 512, "a client that has its place keeps it");
    assert_eq!(world.server.service.lease_counts().refused_clients, 88);
    world.come_from("192.0.2.2:700");
    assert_eq!(world.welcomed(1000..1010), 10);
    // A machine may own every address of an IPv6 network.
    for number in 0..600 {
        world.come_from(&format!("[2001:db8::{number:x}]:700"));
        world.welcomed(2000 + number..2001 + number);
    }
    assert_eq!(world.server.service.lease_counts().clients, 512 + 10 + 512);
    world.come_from("[2001:db8:0:1::1]:700");
    assert_eq!(world.welcomed(3000..3001), 1);
    // After a client has left, the server registers another client.
    world.come_from("192.0.2.1:700");
    let client = hello_by_number(3).client;
    let caller = Caller { client, instance: 1, epoch: 1 };
    let answer: goodbye::Reply = world.lease(1, goodbye::NUMBER, &caller);
    assert!(matches!(answer, Answer::Done(_)));
    assert_eq!(world.welcomed(4000..4002), 1);
}

#[test]
fn only_machines_of_a_rule_become_clients() {
    let mut world = World::new();
    world.server.allow(&["192.0.2.0/24"]);
    world.come_from("198.51.100.1:700");
    assert_eq!(world.welcomed(0..10), 0);
    let file = Handle::new(&[9; 20]).expect("a handle fits");
    let call =
        leasehold_wire::nqnfs::Call { ask: None, args: nfs3::getattr::Args { object: file } };
    let nqnfs = (leasehold_wire::nqnfs::PROGRAM, leasehold_wire::nqnfs::VERSION, 1);
    drop(world.send(1, nqnfs, &call));
    assert_eq!(world.server.service.lease_counts().clients, 0);
    world.come_from("192.0.2.7:700");
    assert_eq!(world.welcomed(0..10), 10);
}

/// Without a bound, sixteen thousand lease requests in one call would delay all other callers by 39
/// ms.
#[test]
fn call_with_too_many_lease_requests_is_refused() {
    let mut world = World::new();
    let file = world.file(b"file");
    world.hello(1);
    let one = leases::Wanted { object: file, terms: terms(Kind::Read), reclaim: false };
    for (count, status) in [
        (leases::AT_ONCE_MAX, rpc::ReplyStatus::Success),
        (leases::AT_ONCE_MAX + 1, rpc::ReplyStatus::GarbageArguments),
    ] {
        let mut args = world.asking(1, file, Kind::Read);
        args.wanted.0 = vec![one; count];
        let procedure = (lease::PROGRAM, lease::VERSION, leases::NUMBER);
        let reply = world.send(1, procedure, &args).poll().flatten().expect("it is answered");
        let head = rpc::Reply::decode(&mut Reader::new(&reply)).expect("a reply");
        assert_eq!(head.status, status, "{count} leases");
    }
}

#[test]
fn a_client_that_has_gone_is_shown_with_no_lease() {
    let mut world = World::new();
    let file = world.file(b"file");
    world.hello(1);
    world.granted(1, file, Kind::Read);
    world.hello(2);
    world.granted(2, file, Kind::Read);
    assert_eq!(world.server.service.lease_view(10).leases.len(), 2);
    let caller = world.caller(1);
    let answer: goodbye::Reply = world.lease(1, goodbye::NUMBER, &caller);
    assert!(matches!(answer, Answer::Done(_)));
    let view = world.server.service.lease_view(10);
    let shown: Vec<[u8; 16]> = view.leases.iter().map(|lease| lease.client).collect();
    assert_eq!(shown, [id(2)], "the lease of the client that has gone is void");
}

/// Otherwise the lease of a user without permission could prevent the owner from writing a private
/// file or changing a private directory.
#[test]
fn user_without_read_permission_gets_no_lease() {
    let mut world = World::new();
    let file = world.file(b"file");
    world.hello(1);
    let root = world.root();
    for (object, mode, granted) in
        [(file, 0o600, 0), (file, 0o604, 1), (root, 0o700, 0), (root, 0o711, 1), (root, 0o755, 1)]
    {
        world.server.uid = 0;
        world.set_mode(object, mode);
        world.server.uid = 77;
        assert_eq!(world.grants(1, object, Kind::Read), granted, "mode {mode:o}");
        // The change of the mode recalls the lease.
        world.server.uid = 0;
        let held = world.server.service.lease_view(10).leases;
        if !held.is_empty() {
            let answer: goodbye::Reply = world.lease(1, goodbye::NUMBER, &world.caller(1));
            assert!(matches!(answer, Answer::Done(_)));
            world.hello(1);
        }
    }
}

/// Several clients take read leases in turn and never return them. Without this rule an owner
/// without leases could never write: each of its calls would wait for two seconds, and the server
/// would grant another lease before the next call.
#[test]
fn silent_readers_keep_a_plain_writer_waiting_for_one_term() {
    let mut world = World::new();
    let file = world.file(b"file");
    let readers = 1..=6;
    for client in readers.clone() {
        world.hello(client);
    }
    world.granted(1, file, Kind::Read);
    let mut waited = Duration::ZERO;
    loop {
        let mut write = world.nfs(write::NUMBER, &written(file, 0, b"new"));
        if write.poll().is_some() {
            break;
        }
        for client in readers.clone() {
            assert_eq!(world.grants(client, file, Kind::Read), 0, "the owner waits");
        }
        world.pass(Duration::from_secs(2));
        assert!(write.poll().is_some(), "a plain call is answered after two seconds");
        for client in readers.clone() {
            assert_eq!(world.grants(client, file, Kind::Read), 0, "the owner keeps its place");
        }
        world.pass(Duration::from_secs(5));
        waited += Duration::from_secs(7);
        assert!(waited < Duration::from_secs(70), "the owner is kept waiting");
    }
    assert!(waited >= Duration::from_secs(30), "the first reader has its term");
    // The client that let its lease expire gets no lease for a while; other clients do.
    world.pass(Duration::from_secs(16));
    assert_eq!(world.grants(1, file, Kind::Read), 0);
    assert_eq!(world.grants(2, file, Kind::Read), 1);
}
