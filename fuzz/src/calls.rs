//! Sequences of calls to the whole server over a store in memory.
//!
//! An input is a script: each step is a byte that selects an action, and bytes that choose the
//! arguments. The choices have relevant values (handles that the server returned, a few names,
//! numbers at the edges), so that a fuzzer gets past the first check of each procedure; a step may
//! also change any byte of a message. These conditions must hold after each step:
//! - an unchanged call gets a reply with its own xid, also if it has to wait for a lease (a call of
//!   version 2, which has no status for a retry, may have to be sent again);
//! - the reply has the form that the procedure prescribes, to the last byte;
//! - a call that must not run twice gets the same reply when it is repeated;
//! - the store's own audit finds no fault.

mod arguments;
mod script;

use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use leasehold_base::units::{ConnectionId, FileSystemId, FileTime, Time, Xid};
use leasehold_base::xdr::{Decode as _, Encode as _, Message, Reader, Writer};
use leasehold_fs::{Export, ExportId, Store};
use leasehold_serve::table::{Keep, Later, PROGRAMS, Row};
use leasehold_serve::{Arrival, Deaf, HandleKey, Service, Trust};
use leasehold_store_mem::{Config, MemStore};
use leasehold_wire::every::{PROCEDURES, Procedure};
use leasehold_wire::rpc::{AuthSys, Call, OpaqueAuth, Reply, ReplyStatus, flavor};

use arguments::CALLS;
use script::Script;

/// The largest number of steps of one script; more find no additional faults, and take longer.
const STEPS_MAX: u32 = 100;

/// A waiting call ends after this number of timers at the latest.
const WAKES_MAX: u32 = 1000;

/// The users of the calls.
const USERS: [u32; 3] = [0, 1001, 65_534];

/// Runs a script.
///
/// # Panics
/// Panics if the script reveals a fault.
pub fn run(input: &[u8]) {
    drop(exchange(input));
}

/// A call and its reply.
#[derive(Debug)]
pub struct Exchanged {
    /// The procedure of the call, if it exists.
    pub procedure: Option<&'static Procedure>,
    call: Bytes,
    reply: Option<Bytes>,
}

impl Exchanged {
    /// The bytes behind the headers of the call and of the reply.
    #[must_use]
    pub fn bodies(&self) -> Vec<Vec<u8>> {
        let mut call = Reader::new(&self.call);
        let arguments = Call::decode(&mut call).is_ok().then(|| call.rest().to_vec());
        arguments.into_iter().chain(self.results().map(|results| results.to_vec())).collect()
    }

    /// The results of the procedure, if the call reached it.
    #[must_use]
    pub fn results(&self) -> Option<Bytes> {
        let mut reader = Reader::new(self.reply.as_ref()?);
        let reply = Reply::decode(&mut reader).ok()?;
        (reply.status == ReplyStatus::Success).then(|| reader.rest_shared())
    }
}

/// Runs a script and returns its calls and replies.
///
/// # Panics
/// Panics if the script reveals a fault.
#[must_use]
pub fn exchange(input: &[u8]) -> Vec<Exchanged> {
    let mut script = Script::new(input);
    let mut world = World::new();
    let mut done: Vec<Exchanged> = Vec::new();
    for _ in 0..STEPS_MAX {
        let Some(action) = script.next() else { break };
        match action {
            0..=179 => {
                let call = world.call(&mut script, action);
                done.push(world.checked(call, true));
            }
            180..=219 => {
                let call = world.tampered(&mut script);
                done.push(world.checked(call, false));
            }
            220..=239 => world.repeat(done.last()),
            240..=247 => world.wait(&mut script),
            248..=249 => world.user = (world.user + 1) % USERS.len(),
            250..=255 => world.crash(),
        }
    }
    world.store.check();
    done
}

/// A server, its store and its callers.
struct World {
    store: Arc<MemStore>,
    service: Arc<Service>,
    now: Time,
    xid: u32,
    /// The present caller.
    user: usize,
    /// Handles that the server returned, and plausible ones.
    handles: Vec<Bytes>,
    /// True if the server was neither down nor idle since the last call.
    remembers: bool,
}

impl World {
    fn new() -> Self {
        // Small, so that it becomes full soon.
        let file_system = FileSystemId(1);
        let config = Config {
            file_system,
            capacity_bytes: 1 << 20,
            capacity_files: 64,
            ..Config::default()
        };
        let store = Arc::new(MemStore::new(config));
        let service = serve(&store);
        let root = service.root_handle("data").expect("the directory is exported");
        let handles = vec![Bytes::copy_from_slice(&root)];
        Self { store, service, now: Time::ZERO, xid: 0, user: 0, handles, remembers: false }
    }

    /// A call of a procedure, with chosen arguments.
    fn call(&mut self, script: &mut Script<'_>, which: u8) -> Bytes {
        let shape = &CALLS[usize::from(which) % CALLS.len()];
        let uid = USERS[self.user];
        let mut body = Writer::new();
        AuthSys { machine_name: b"fuzz", uid, gid: uid, ..AuthSys::default() }.encode(&mut body);
        let body = body.finish().into_bytes();
        self.xid += 1;
        let mut writer = Writer::new();
        Call {
            xid: Xid(self.xid),
            program: shape.program,
            version: shape.version,
            procedure: shape.procedure,
            credential: OpaqueAuth { flavor: flavor::SYS, body: &body },
            verifier: OpaqueAuth::NONE,
        }
        .encode(&mut writer);
        shape.write(script, &self.handles, &mut writer);
        writer.finish().into_bytes()
    }

    /// A call with some changed bytes, or a truncated one.
    fn tampered(&mut self, script: &mut Script<'_>) -> Bytes {
        let which = script.byte();
        let mut message = self.call(script, which).to_vec();
        for _ in 0..script.byte() % 4 {
            let at = usize::from(script.byte()) * 4 + usize::from(script.byte() % 4);
            let length = message.len();
            message[at % length] ^= script.byte();
        }
        let kept = message.len() - usize::from(script.byte() % 32).min(message.len());
        message.truncate(kept);
        message.into()
    }

    /// Sends the last call again.
    fn repeat(&mut self, last: Option<&Exchanged>) {
        let Some(last) = last else { return };
        let reply = self.answer(&last.call);
        let is_kept = last.procedure.and_then(row).is_some_and(|row| row.keep == Keep::Always);
        if is_kept && self.remembers {
            assert_eq!(reply, last.reply, "a repeated call has the same reply");
        }
    }

    /// Lets time pass.
    fn wait(&mut self, script: &mut Script<'_>) {
        self.pass_until(self.now + Duration::from_millis(1 << (script.byte() % 24)));
    }

    fn pass_until(&mut self, then: Time) {
        self.remembers = false;
        self.now = self.now.max(then);
        let seconds = i64::try_from(self.now.as_nanoseconds() / 1_000_000_000);
        let seconds = seconds.expect("a clock that began at zero is far from its end");
        self.store.set_now(FileTime { seconds, nanoseconds: 0 });
    }

    /// The server loses all unstable data and restarts.
    fn crash(&mut self) {
        self.remembers = false;
        self.store.crash();
        self.service = serve(&self.store);
    }

    /// Returns the reply, possibly after calls of others: a call that waits for leases advances the
    /// time.
    fn answer(&mut self, message: &Bytes) -> Option<Bytes> {
        let arrival = Arrival {
            from: SocketAddr::from(([192, 0, 2, 1], 700)),
            to: IpAddr::from([192, 0, 2, 9]),
            connection: Some(ConnectionId::default()),
            trust: Trust::Claimed,
            now: self.now,
        };
        let service = Arc::clone(&self.service);
        let mut answer = pin!(service.answer(arrival, message.clone(), Writer::new()).reply);
        for _ in 0..WAKES_MAX {
            let polled = answer.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            if let Poll::Ready(reply) = polled {
                return reply.map(Message::into_bytes);
            }
            let due = service.wake(self.now).expect("a waiting call has a timer");
            self.pass_until(due);
        }
        panic!("the store in memory answers at once, and the longest lease ends");
    }

    /// Makes a call, checks the reply and keeps the handles in it. With `whole` the message is
    /// valid.
    fn checked(&mut self, call: Bytes, whole: bool) -> Exchanged {
        let before = self.now;
        let reply = self.answer(&call);
        self.remembers = true;
        let head = Call::decode(&mut Reader::new(&call)).ok().map(|head| {
            let called = (head.program, head.version, head.procedure);
            (
                head.xid,
                PROCEDURES.iter().find(|one| (one.program, one.version, one.number) == called),
            )
        });
        let procedure = head.and_then(|(_, procedure)| procedure);
        let row = procedure.and_then(row);
        let has_no_word = row.is_some_and(|row| row.later() == Later::Unanswered);
        let is_given_up = self.now > before && has_no_word;
        let is_told = row.is_some_and(|row| !row.is_answered);
        assert!(reply.is_some() || is_given_up || is_told || !whole, "a call gets a reply");
        let done = Exchanged { procedure, call, reply };
        if let (Some((xid, _)), Some(reply)) = (head, &done.reply) {
            let reply = Reply::decode(&mut Reader::new(reply)).expect("a reply has a header");
            assert_eq!(reply.xid, xid, "a reply has the xid of its call");
            let is_taken =
                matches!(reply.status, ReplyStatus::Success | ReplyStatus::GarbageArguments);
            assert!(is_taken || !whole, "{reply:?} to a call of an existing procedure");
        }
        if let Some(results) = done.results() {
            let procedure = procedure.expect("only existing procedures are called");
            assert_eq!((procedure.reply)(&results).as_ref(), Ok(&results), "{}", procedure.name);
            arguments::keep_handles(procedure, &results, &mut self.handles);
        }
        done
    }
}

/// Starts a server.
fn serve(store: &Arc<MemStore>) -> Arc<Service> {
    let (name, path) = ("data".to_owned(), "/srv/data".to_owned());
    let store: Arc<dyn Store> = Arc::<MemStore>::clone(store);
    let export = Export { id: ExportId(1), name, path, read_only: false, store };
    Arc::new(Service::new(vec![export], HandleKey([1; 16]), Box::new(Deaf)))
}

/// The server's row of a procedure.
fn row(procedure: &Procedure) -> Option<&'static Row> {
    let program = PROGRAMS.iter().find(|program| program.number == procedure.program)?;
    let version = program.versions.iter().find(|version| version.number == procedure.version)?;
    version.rows.get(usize::try_from(procedure.number).ok()?)
}

/// Returns, for each procedure, a script that creates some objects and calls it with success.
#[must_use]
pub fn starters() -> Vec<Vec<u8>> {
    CALLS
        .iter()
        .map(|shape| {
            let greeting = shape.greeting();
            [arguments::PRELUDE, &greeting, &[shape.index()], shape.choices].concat()
        })
        .collect()
}
