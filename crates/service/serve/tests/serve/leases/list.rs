//! Clients that request leases while the server cannot write the stable list of clients: their
//! operations run without a lease, the server repeats the write with pauses, and grants leases
//! after it succeeds.

use super::*;

impl World {
    fn disk(&self, disk: Disk) {
        *self.ledger.disk.lock().expect("no test panics") = disk;
    }

    fn list_writes(&self) -> usize {
        self.ledger.writes.load(Ordering::Relaxed)
    }

    /// Sends a LOOKUP that requests a lease on the directory; [`leases_of`] counts the leases in
    /// the reply.
    fn lookup_with_ask(&mut self, client: u32, name: &'static [u8]) -> Waiting {
        let ask = Ask { place: place::FIRST, terms: terms(Kind::Read) };
        let head = Head { caller: self.caller(client), asks: List(vec![ask]), base: None };
        let args = DirectoryArgs { directory: self.root(), name: Name(name) };
        let procedure = (lease::PROGRAM, lease::VERSION, lookup::NUMBER);
        self.send(client, procedure, &LeaseCall { head, args })
    }
}

/// Returns the number of leases in the reply to a successful LOOKUP.
fn leases_of(waiting: &mut Waiting) -> usize {
    let reply = waiting.poll().expect("the call is answered").expect("with a reply");
    let mut reader = Reader::new(&reply);
    let head = rpc::Reply::decode(&mut reader).expect("a reply");
    assert_eq!(head.status, rpc::ReplyStatus::Success);
    let answer = Answer::<()>::decode(&mut reader).expect("an answer");
    let Answer::Done(lease::Done { granted, .. }) = answer else { panic!("{answer:?}") };
    assert_eq!(u32::decode(&mut reader), Ok(0), "the operation succeeded");
    granted.0.len()
}

/// A mount must not hang in its first operation: the server does not answer each call with a retry
/// status, and repeats the write of the list until space is available again.
#[test]
fn an_operation_runs_without_a_lease_while_the_list_cannot_be_written() {
    let mut world = World::new();
    world.file(b"file");
    world.disk(Disk::Full);
    world.hello(1);
    for _ in 0..50 {
        assert_eq!(leases_of(&mut world.lookup_with_ask(1, b"file")), 0);
    }
    let root = world.root();
    let Answer::Done(done) = world.wanted(1, root, Kind::Read) else { panic!("not answered") };
    assert_eq!(done.results.held.0.len(), 0);
    assert_eq!(world.list_writes(), 1, "calls do not write the list again");
    let counts = world.server.service.lease_counts();
    assert_eq!((counts.waiting, counts.unlisted, counts.held), (0, 1, 0));
    // The pauses between the writes double: 1 s, 2 s, 4 s, 8 s, 16 s, 16 s.
    for _ in 0..60 {
        world.pass(Duration::from_secs(1));
        assert_eq!(leases_of(&mut world.lookup_with_ask(1, b"file")), 0);
    }
    assert_eq!(world.list_writes(), 1 + 6);
    world.disk(Disk::Good);
    world.pass(Duration::from_secs(16));
    assert_eq!(world.server.service.lease_counts().unlisted, 0);
    assert_eq!(leases_of(&mut world.lookup_with_ask(1, b"file")), 1, "leases are granted again");
    assert_eq!(*world.ledger.list.lock().expect("no test panics"), [(id(1), 1)]);
}

#[test]
fn one_write_serves_all_clients_that_wait_for_the_list() {
    let mut world = World::new();
    world.file(b"file");
    world.disk(Disk::Full);
    for client in 1..=5 {
        world.hello(client);
        assert_eq!(leases_of(&mut world.lookup_with_ask(client, b"file")), 0);
    }
    assert_eq!(world.list_writes(), 1, "clients that come later wait for the next attempt");
    world.disk(Disk::Good);
    world.pass(Duration::from_secs(1));
    assert_eq!(world.list_writes(), 2);
    for client in 1..=5 {
        assert_eq!(leases_of(&mut world.lookup_with_ask(client, b"file")), 1);
    }
}

#[test]
fn an_operation_waits_once_for_a_slow_write_of_the_list() {
    let mut world = World::new();
    world.file(b"file");
    world.disk(Disk::Slow);
    world.hello(1);
    let mut first = world.lookup_with_ask(1, b"file");
    assert!(first.poll().is_none(), "the list is being written");
    world.pass(Duration::from_secs(3));
    assert_eq!(leases_of(&mut first), 0);
    for _ in 0..10 {
        assert_eq!(leases_of(&mut world.lookup_with_ask(1, b"file")), 0);
    }
    assert_eq!(world.server.service.lease_counts().waiting, 0, "no call waits");
    let pending = core::mem::take(&mut *world.ledger.pending.lock().expect("no test panics"));
    pending.into_iter().for_each(|done| done(true));
    assert_eq!(leases_of(&mut world.lookup_with_ask(1, b"file")), 1);
}

/// Calls that started before the first HELLO run without lease enforcement. The server grants no
/// lease while such a call runs, and a call that hangs on a disk must not delay every mount.
#[test]
fn an_operation_runs_without_a_lease_while_an_older_call_hangs() {
    let mut world = World::new();
    world.file(b"file");
    let file = world.file(b"other");
    let plain = (nfs3::PROGRAM, nfs3::VERSION, write::NUMBER);
    let older = world.send(PLAIN, plain, &written(file, 0, b"slow"));
    world.hello(1);
    let mut early = world.lookup_with_ask(1, b"file");
    let answer: Answer<()> = early.results();
    assert!(matches!(answer, Answer::Later), "{answer:?}");
    world.pass(Duration::from_secs(2));
    assert_eq!(leases_of(&mut world.lookup_with_ask(1, b"file")), 0);
    drop(older);
    assert_eq!(leases_of(&mut world.lookup_with_ask(1, b"file")), 1);
}

/// Otherwise a peer without a credential that sends HELLO and GOODBYE in a loop could fill the
/// queue of writes, and the event loops would wait for space in the queue.
#[test]
fn one_list_write_runs_at_a_time() {
    let mut world = World::new();
    world.file(b"file");
    world.disk(Disk::Slow);
    for client in 1..=5 {
        world.hello(client);
        let mut asking = world.lookup_with_ask(client, b"file");
        assert!(asking.poll().is_none(), "the list is being written");
    }
    assert_eq!(world.list_writes(), 1);
    let pending = core::mem::take(&mut *world.ledger.pending.lock().expect("no test panics"));
    pending.into_iter().for_each(|done| done(true));
    world.pass(Duration::from_millis(1));
    assert_eq!(world.list_writes(), 2, "one write has all that came meanwhile");
    let pending = core::mem::take(&mut *world.ledger.pending.lock().expect("no test panics"));
    pending.into_iter().for_each(|done| done(true));
    for client in 1..=5 {
        assert_eq!(leases_of(&mut world.lookup_with_ask(client, b"file")), 1);
    }
}
