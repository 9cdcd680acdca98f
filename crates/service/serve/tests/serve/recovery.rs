//! Restarts of a server with clients of version 4: the stable client records, the grace period, and
//! reclaims.

mod changes;
mod client;

use core::time::Duration;
use std::sync::{Arc, Mutex};

use leasehold_base::limits::sessions::{GRACE, GRACE_POLL, RECORD_RETRY_FIRST};
use leasehold_base::units::Time;
use leasehold_serve::{
    ClientLedger, ClientRecords, Event, HandleKey, Ledger, Nfs4, NfsVersions, Observer,
    Program as _, Remembered, Service,
};
use leasehold_wire::nfs4::compound::Args;
use leasehold_wire::nfs4::{Name, Status};

use crate::support::{Server, export};
use client::{Client, complete, to};

/// The callback of a write of the records.
type Done = Box<dyn FnOnce(bool) + Send>;

/// The state directory of a server, in memory.
#[derive(Default)]
struct Kept {
    stored: Mutex<Option<Vec<u8>>>,
    /// The outcome of the next writes.
    disk: Mutex<Disk>,
    /// Writes on a slow disk that have not ended yet.
    pending: Mutex<Vec<(Vec<u8>, Done)>>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Disk {
    #[default]
    Good,
    Full,
    Slow,
}

impl ClientLedger for Kept {
    fn write(&self, _: u64, stored: Vec<u8>, done: Done) {
        let disk = *self.disk.lock().expect("no test panics");
        match disk {
            Disk::Good => {
                *self.stored.lock().expect("no test panics") = Some(stored);
                done(true);
            }
            Disk::Full => done(false),
            Disk::Slow => {
                self.pending.lock().expect("no test panics").push((stored, done));
            }
        }
    }
}

impl Kept {
    fn set(&self, disk: Disk) {
        *self.disk.lock().expect("no test panics") = disk;
    }

    /// Ends the writes on a slow disk.
    fn end_writes(&self) {
        let pending = core::mem::take(&mut *self.pending.lock().expect("no test panics"));
        for (stored, done) in pending {
            *self.stored.lock().expect("no test panics") = Some(stored);
            done(true);
        }
    }

    fn read(&self) -> ClientRecords {
        let stored = self.stored.lock().expect("no test panics");
        let parsed = stored.as_deref().map(ClientRecords::parse);
        parsed.transpose().expect("the server writes valid records").unwrap_or_default()
    }
}

/// A list of leases that is not written.
struct NoLedger;

impl Ledger for NoLedger {
    fn write(&self, _: u64, _: &[([u8; 16], u64)], done: Done) {
        done(true);
    }
}

/// The events of the grace period.
#[derive(Clone, Default)]
struct Noticed(Arc<Mutex<Vec<String>>>);

impl Observer for Noticed {
    fn event(&self, event: &Event<'_>) {
        let line = match event {
            Event::GraceBegan { clients } => format!("began for {clients}"),
            Event::GraceEnded { missing } => format!("ended without {missing}"),
            Event::Mounted { .. }
            | Event::MountRefused { .. }
            | Event::HandleRefused { .. }
            | Event::EpochOver { .. }
            | Event::Stranger { .. }
            | Event::NotBelieved { .. } => return,
        };
        self.0.lock().expect("no test panics").push(line);
    }
}

struct World {
    server: Server,
    nfs4: Arc<Nfs4>,
    kept: Arc<Kept>,
    noticed: Noticed,
    epoch: u64,
}

impl World {
    fn new() -> Self {
        let server = Server::new();
        let nfs4 = Arc::new(Nfs4::new(Arc::clone(&server.service), KEY, 1, Time::ZERO));
        let (kept, noticed) = (Arc::default(), Noticed::default());
        let mut world = Self { server, nfs4, kept, noticed, epoch: 0 };
        world.restart();
        world
    }

    /// Ends the server without a farewell, and starts a server over the same files and state.
    fn restart(&mut self) {
        self.restart_with_leases(Vec::new());
    }

    fn restart_with_leases(&mut self, list: Vec<([u8; 16], u64)>) {
        let (last, now) = (self.epoch, self.server.arrival.now);
        self.epoch += 1;
        let exports = vec![export(&self.server.store)];
        let v4 = NfsVersions { v4_1: true, v4_2: true, ..NfsVersions::default() };
        let service = Service::new(exports, KEY, Box::new(self.noticed.clone()));
        let remembered = Remembered { epoch: self.epoch, list };
        let service = service.with_versions(v4).with_leases(remembered, Arc::new(NoLedger), now);
        self.server.service = Arc::new(service);
        let records = self.kept.read().begin_run(last, self.epoch);
        *self.kept.stored.lock().expect("no test panics") = Some(records.to_stored());
        let ledger = (records, Arc::<Kept>::clone(&self.kept) as Arc<dyn ClientLedger>);
        self.nfs4 = Arc::new(Nfs4::restarted(Arc::clone(&self.server.service), KEY, ledger, now));
    }

    fn pass(&mut self, time: Duration) {
        let now = self.server.arrival.now + time;
        self.server.arrival.now = now;
        let _ = (self.server.service.wake(now), self.nfs4.wake(now));
    }

    fn noticed(&self) -> Vec<String> {
        core::mem::take(&mut *self.noticed.0.lock().expect("no test panics"))
    }
}

const KEY: HandleKey = HandleKey([1; 16]);

#[test]
fn reclaim_complete_waits_for_the_record() {
    let mut world = World::new();
    let mut laptop = Client::begin(&mut world, b"laptop", 1);
    assert_eq!(laptop.open(&mut world, b"file"), Err(Status::Grace), "before RECLAIM_COMPLETE");
    world.kept.set(Disk::Slow);
    let mut completing = laptop.start(&mut world, &[complete()]);
    assert!(completing.poll().is_none(), "the record is not stable");
    assert!(world.kept.read().is_empty());
    world.kept.end_writes();
    world.pass(Duration::ZERO);
    let reply = completing.poll().expect("the record is stable");
    assert_eq!((reply.status(), world.kept.read().len()), (Ok(()), 1));
    world.kept.set(Disk::Full);
    laptop.open(&mut world, b"file").expect("the open needs no further write");
}

#[test]
fn no_file_is_opened_without_a_record() {
    let mut world = World::new();
    world.kept.set(Disk::Full);
    let mut laptop = Client::begin(&mut world, b"laptop", 1);
    laptop.complete(&mut world).expect("the client has nothing to reclaim");
    assert_eq!(laptop.open(&mut world, b"file"), Err(Status::Delay));
    world.kept.set(Disk::Good);
    world.pass(RECORD_RETRY_FIRST);
    laptop.open(&mut world, b"file").expect("the record is stable");
    assert_eq!(world.kept.read().len(), 1);
}

#[test]
fn clients_of_a_slow_disk_share_a_write() {
    let mut world = World::new();
    world.kept.set(Disk::Slow);
    let names: [&[u8]; 3] = [b"a", b"b", b"c"];
    let mut clients = names.map(|name| Client::begin(&mut world, name, 1));
    let mut calls = clients.each_mut().map(|client| client.start(&mut world, &[complete()]));
    assert!(calls.iter_mut().all(|call| call.poll().is_none()));
    for written in [1, 3] {
        assert_eq!(world.kept.pending.lock().expect("no test panics").len(), 1);
        world.kept.end_writes();
        world.pass(Duration::ZERO);
        assert_eq!(world.kept.read().len(), written);
    }
    assert!(calls.iter_mut().all(|call| call.poll().is_some()));
    assert!(world.kept.pending.lock().expect("no test panics").is_empty());
}

#[test]
fn only_clients_with_a_record_reclaim_their_opens_and_locks() {
    let mut world = World::new();
    let mut laptop = Client::begin(&mut world, b"laptop", 1);
    laptop.complete(&mut world).expect("the client has nothing to reclaim");
    let (open, handle) = laptop.open(&mut world, b"file").expect("the file is new");
    laptop.lock(&mut world, (&handle, open), false).expect("no other lock exists");
    assert_eq!(world.noticed(), [""; 0], "no client of an earlier server exists");

    world.restart();
    assert_eq!(world.noticed(), ["began for 1"]);
    let mut other = Client::begin(&mut world, b"other", 1);
    assert_eq!(other.reclaim(&mut world, &handle), Err(Status::NoGrace));
    other.complete(&mut world).expect("the client has nothing to reclaim");
    assert_eq!(other.open(&mut world, b"file"), Err(Status::Grace));
    let removal = [to(&handle), Args::PutRootHandle(()), Args::Remove(Name(b"file"))];
    assert_eq!(other.run(&mut world, &removal).status(), Err(Status::Grace));

    laptop.begin_again(&mut world);
    assert_eq!(laptop.open(&mut world, b"file"), Err(Status::Grace));
    let open = laptop.reclaim(&mut world, &handle).expect("the client has a record");
    let lock = (&handle, open);
    assert_eq!(laptop.lock(&mut world, lock, false), Err(Status::Grace));
    laptop.lock(&mut world, lock, true).expect("the client has a record");
    assert_eq!(world.noticed(), [""; 0], "the client has not completed its reclaims");
    laptop.complete(&mut world).expect("the client has reclaimed");
    assert_eq!(world.noticed(), ["ended without 0"]);
    assert_eq!(laptop.complete(&mut world), Err(Status::CompleteAlready));
    assert_eq!(laptop.reclaim(&mut world, &handle), Err(Status::NoGrace));

    let (open, _) = other.open(&mut world, b"file").expect("the grace period is over");
    assert_eq!(other.lock(&mut world, (&handle, open), false), Err(Status::Denied));
    assert_eq!(other.run(&mut world, &removal).status(), Ok(()));
}

#[test]
fn a_server_without_clients_has_no_grace_period() {
    let mut world = World::new();
    let mut laptop = Client::begin(&mut world, b"laptop", 1);
    laptop.complete(&mut world).expect("the client has nothing to reclaim");
    assert_eq!(world.kept.read().len(), 1);
    laptop.end(&mut world);
    assert!(world.kept.read().is_empty(), "the record leaves with the client");
    world.restart();
    assert_eq!(world.noticed(), [""; 0]);
    let mut other = Client::begin(&mut world, b"other", 1);
    other.complete(&mut world).expect("the client has nothing to reclaim");
    other.open(&mut world, b"file").expect("there is no grace period");
}

#[test]
fn a_client_that_does_not_return_loses_its_state() {
    let mut world = World::new();
    let mut laptop = Client::begin(&mut world, b"laptop", 1);
    laptop.complete(&mut world).expect("the client has nothing to reclaim");
    let (_, handle) = laptop.open(&mut world, b"file").expect("the file is new");
    world.restart();
    let mut other = Client::begin(&mut world, b"other", 1);
    other.complete(&mut world).expect("the client has nothing to reclaim");
    world.pass(GRACE - Duration::from_secs(1));
    assert_eq!(other.open(&mut world, b"file"), Err(Status::Grace));
    world.pass(Duration::from_secs(1));
    assert_eq!(world.noticed(), ["began for 1", "ended without 1"]);
    other.open(&mut world, b"file").expect("the grace period is over");
    // RFC 8881 8.4.3: the other client may have changed the file meanwhile.
    world.restart();
    laptop.begin_again(&mut world);
    assert_eq!(laptop.reclaim(&mut world, &handle), Err(Status::NoGrace));
}

#[test]
fn records_of_an_earlier_run_are_void() {
    let mut world = World::new();
    let mut laptop = Client::begin(&mut world, b"laptop", 1);
    laptop.complete(&mut world).expect("the client has nothing to reclaim");
    let (_, handle) = laptop.open(&mut world, b"file").expect("the file is new");
    // A server of an earlier version ran meanwhile.
    world.epoch += 1;
    world.restart();
    assert_eq!(world.noticed(), [""; 0]);
    laptop.begin_again(&mut world);
    assert_eq!(laptop.reclaim(&mut world, &handle), Err(Status::NoGrace));
}

#[test]
fn the_grace_period_of_leases_is_also_that_of_opens() {
    let mut world = World::new();
    world.restart_with_leases(vec![([7; 16], 1)]);
    assert_eq!(world.noticed(), ["began for 0"]);
    let mut laptop = Client::begin(&mut world, b"laptop", 1);
    laptop.complete(&mut world).expect("the client has nothing to reclaim");
    assert_eq!(laptop.open(&mut world, b"file"), Err(Status::Grace));
    assert!(world.server.service.forget_lease_holder([7; 16]));
    for _ in 0..600 {
        world.pass(GRACE_POLL);
        if !world.server.service.is_recovering() {
            break;
        }
        assert_eq!(laptop.open(&mut world, b"file"), Err(Status::Grace));
    }
    assert!(!world.server.service.is_recovering());
    world.pass(GRACE_POLL);
    assert_eq!(world.noticed(), ["ended without 0"]);
    laptop.open(&mut world, b"file").expect("both grace periods are over");
}
