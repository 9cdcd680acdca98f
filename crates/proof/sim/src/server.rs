//! The simulated server host: the real service, over a disk that crashes.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use leasehold_base::groups::Groups;
use leasehold_base::random::Random;
use leasehold_base::units::{ConnectionId, FileTime, Time, Xid};
use leasehold_base::xdr::{Message, Reader, Writer};
use leasehold_fs::{
    Caller, Export, ExportId, MaybeReady, Mode, NewFile, NewNode, SetAttributes, Step, Store,
};
use leasehold_serve::{Arrival, Deaf, HandleKey, ReplyJournal, Response, Service, Trust};
use leasehold_store_mem::MemStore;
use leasehold_wire::nfs3::{self, write};
use leasehold_wire::rpc::Call;

use crate::clock::Clock;
use crate::disk::Disk;
use crate::faults::{Faults, upto};
use crate::mutant::Mutant;
use crate::notes::Notes;
use crate::op::{EXPORT, Place, USER};

/// The server's address; no result depends on its value.
const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// The transport by which a call arrived and its reply leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Datagram { client: usize },
    Stream { connection: u64 },
}

pub(crate) struct Server {
    clock: Clock,
    /// The time of day at which the server's clock starts; it is wrong by a random amount at each
    /// start.
    day: i64,
    disk: Arc<Disk>,
    notes: Arc<Notes>,
    service: Option<Arc<Service>>,
    /// The time of the service's next timer, by the server's clock.
    wake: Option<Time>,
    running: BTreeMap<u64, Running>,
    received: u64,
    mutant: Option<Mutant>,
}

/// A call without a reply.
struct Running {
    way: Way,
    xid: Xid,
    response: Response,
}

/// The delay with which the mutant records replies, in nanoseconds.
const NOTED_AFTER: u64 = 1_000_000_000;

/// The time of day in the worlds: a day in 1995, when NFS version 3 was published.
const DAY: i64 = 800_000_000;

impl Server {
    pub(crate) fn new(mutant: Option<Mutant>, places: &[Place], random: &mut Random) -> Self {
        let store = Arc::new(MemStore::default());
        prepare(&store, places);
        let disk = Arc::new(Disk::new(store, mutant, random.fork()));
        let clock = Clock::draw(random);
        let mut server = Self {
            clock,
            day: DAY,
            disk,
            notes: Arc::default(),
            service: None,
            wake: None,
            running: BTreeMap::new(),
            received: 0,
            mutant,
        };
        server.start(Time::ZERO, random);
        server
    }

    pub(crate) const fn is_up(&self) -> bool {
        self.service.is_some()
    }

    pub(crate) fn start(&mut self, now: Time, random: &mut Random) {
        let off = upto(random, Duration::from_secs(100)).as_secs();
        self.day = DAY + i64::try_from(off).expect("the offset is short");
        let store: Arc<dyn Store> = Arc::<Disk>::clone(&self.disk);
        let (id, name) = (ExportId(1), EXPORT.to_owned());
        let export = Export { id, name, path: String::new(), read_only: false, store };
        let found = match self.mutant {
            Some(Mutant::ForgetsNotes) => Vec::new(),
            _ => self.notes.found(),
        };
        let reply_journal: Arc<dyn ReplyJournal> = Arc::<Notes>::clone(&self.notes);
        let service = Service::new(vec![export], HandleKey([9; 16]), Box::new(Deaf));
        let service = service.with_reply_journal(&reply_journal, &found, self.clock.local(now));
        self.service = Some(Arc::new(service));
    }

    /// Crashes the machine: loses all unstable data, and a random part of the journal entries since
    /// the last crash.
    pub(crate) fn crash(&mut self, random: &mut Random) {
        self.running.clear();
        self.service = None;
        self.disk.crash();
        self.disk.store.check();
        self.notes.crash(random);
    }

    /// Kills the process: loses its memory; returns the calls that had no reply.
    pub(crate) fn kill(&mut self, now: Time) -> Vec<(Way, Xid)> {
        self.service = None;
        self.disk.kill();
        if self.mutant == Some(Mutant::NotesLate) {
            let since = self.clock.local(now).as_nanoseconds().saturating_sub(NOTED_AFTER);
            self.notes.forget_since(Time::from_nanoseconds(since));
        }
        let running = core::mem::take(&mut self.running);
        running.into_values().map(|running| (running.way, running.xid)).collect()
    }

    /// Returns the name of the point at which the server must crash now, and clears it.
    pub(crate) fn take_crash(&self) -> Option<String> {
        self.disk.take_crash()
    }

    /// Returns the true time at which an operation continues.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        let service = self.wake.filter(|_| self.is_up());
        let local = self.disk.next_wake().into_iter().chain(service).min();
        local.map(|local| self.clock.moment(local))
    }

    /// Begins to execute a call.
    pub(crate) fn receive(&mut self, now: Time, from: SocketAddr, way: Way, bytes: &Bytes) {
        let Some(service) = &self.service else { return };
        self.received += 1;
        let connection = match way {
            Way::Datagram { .. } => None,
            Way::Stream { connection } => Some(connection_id(connection)),
        };
        let forgets = match self.mutant {
            Some(Mutant::ForgetsReplies) => true,
            Some(Mutant::ForgetsWrites) => connection.is_some() && is_write(bytes),
            _ => false,
        };
        let from = if forgets { stranger(self.received) } else { from };
        let arrival = Arrival {
            from,
            to: ADDRESS,
            connection,
            trust: Trust::Claimed,
            now: self.clock.local(now),
        };
        let response = service.answer(arrival, bytes.clone(), Writer::new());
        let xid = Xid(u32::from_be_bytes(*bytes.first_chunk().expect("a call has a header")));
        self.running.insert(self.received, Running { way, xid, response });
    }

    /// Handles the end of a connection.
    pub(crate) fn connection_closed(&mut self, from: SocketAddr, connection: u64) {
        if let Some(service) = &self.service {
            service.connection_closed(from, connection_id(connection));
        }
        let drops_all = self.mutant == Some(Mutant::DropsCalls);
        self.running.retain(|_, Running { way, response, .. }| {
            *way != Way::Stream { connection } || response.must_end && !drops_all
        });
    }

    /// Continues all calls as far as possible; returns the replies in order.
    pub(crate) fn run(&mut self, now: Time, faults: &Faults) -> Vec<(Way, Bytes)> {
        let local = self.clock.local(now);
        let since = local.since(Time::ZERO);
        let seconds = self.day + i64::try_from(since.as_secs()).expect("worlds are short");
        let wall = FileTime { seconds, nanoseconds: since.subsec_nanos() };
        self.disk.set(local, wall, faults);
        let mut replies = Vec::new();
        loop {
            let before = replies.len();
            self.running.retain(|_, running| match poll(&mut running.response.reply) {
                Poll::Pending => true,
                Poll::Ready(reply) => {
                    replies.push((running.way, reply));
                    false
                }
            });
            // A call may have waited for another call that has ended now, so repeat until no call
            // ends.
            if replies.len() == before {
                break;
            }
        }
        self.wake = self.service.as_ref().and_then(|service| service.wake(local));
        let sent = |(way, reply): (Way, Option<Message>)| Some((way, reply?.into_bytes()));
        replies.into_iter().filter_map(sent).collect()
    }
}

fn poll<T>(answer: &mut MaybeReady<'static, T>) -> Poll<T> {
    Future::poll(Pin::new(answer), &mut Context::from_waker(Waker::noop()))
}

fn is_write(call: &Bytes) -> bool {
    let call = Call::decode(&mut Reader::new(call));
    call.is_ok_and(|call| (call.program, call.procedure) == (nfs3::PROGRAM, write::NUMBER))
}

/// Returns the id of a connection; the simulated server has one loop.
fn connection_id(number: u64) -> ConnectionId {
    let slot = u32::try_from(number).expect("worlds are short");
    ConnectionId { event_loop: 0, slot, generation: 0 }
}

/// Returns an address that no client uses.
fn stranger(number: u64) -> SocketAddr {
    let [.., a, b, c] = number.to_be_bytes();
    SocketAddr::from(([11, a, b, c], 700))
}

/// Creates the objects that exist before the programs start.
fn prepare(store: &MemStore, places: &[Place]) {
    let root = store.root();
    let caller = Caller { uid: 0, gid: 0, groups: Groups::default() };
    let changes = |mode| SetAttributes {
        mode: Some(Mode::from_bits(mode)),
        uid: Some(USER),
        gid: Some(USER),
        ..SetAttributes::default()
    };
    let open = SetAttributes { mode: Some(Mode::from_bits(0o755)), ..SetAttributes::default() };
    let opened = poll_now(store.setattr(&caller, &root, &open, None));
    opened.result.expect("the root's mode can be changed");
    for place in places {
        let name = place.name();
        let step = Step::parse(name.as_bytes()).expect("a valid name");
        let name = step.child(leasehold_fs::FsError::Invalid).expect("a name");
        let at = leasehold_fs::Place { directory: root, name };
        let made = match place {
            Place::Root => continue,
            Place::Folder(_) => {
                poll_now(store.make(&caller, at, &NewNode::Directory, &changes(0o755)))
            }
            Place::File(_) => {
                poll_now(store.create(&caller, at, &NewFile::Guarded(changes(0o644))))
            }
        };
        made.result.expect("an empty store has room");
    }
}

fn poll_now<T>(answer: MaybeReady<'_, T>) -> T {
    match answer {
        MaybeReady::Now(value) => value.expect("the name is free"),
        MaybeReady::Later(_) => panic!("a store in memory answers at once"),
    }
}
