//! Our server in this process, over a store in memory, on sockets of this machine.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use clap::Parser;
use leasehold_base::units::{ConnectionId, Cookie, FileTime, Time};
use leasehold_base::xdr::Writer;
use leasehold_conform::{Options, Restart, Summary, conform};
use leasehold_fs::{Allowance, Budget, Caller, Export, ExportId, MaybeReady, Store as _, Wanted};
use leasehold_serve::{Arrival, Deaf, HandleKey, Response, Service, Trust};
use leasehold_shell::{Handler, Policy, Running};
use leasehold_store_mem::MemStore;

use crate::faults::{Fault, Forgets};
use crate::wire::Line as Wires;

/// The key of handles.
const KEY: u8 = 7;

/// The command line of the program.
#[derive(Parser)]
struct Line {
    #[command(flatten)]
    options: Options,
}

/// A running server that can be restarted.
#[derive(Clone)]
pub(crate) struct Server(Arc<Inner>);

struct Inner {
    store: Arc<MemStore>,
    address: SocketAddr,
    fault: Option<&'static Fault>,
    running: Mutex<Option<Running>>,
    /// The faulty transport that the tester connects to, if there is one.
    wires: Option<Wires>,
}

impl Server {
    /// Starts a server without faults.
    pub(crate) fn start() -> Self {
        Self::with(None)
    }

    /// Starts a server with one fault.
    pub(crate) fn with_fault(fault: &'static Fault) -> Self {
        Self::with(Some(fault))
    }

    /// Starts another server of the same files.
    pub(crate) fn beside(&self) -> Self {
        Self::of(Arc::clone(&self.0.store), None)
    }

    fn with(fault: Option<&'static Fault>) -> Self {
        Self::of(Arc::new(MemStore::default()), fault)
    }

    fn of(store: Arc<MemStore>, fault: Option<&'static Fault>) -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let (running, address) = serve(&store, any, fault, HandleKey([KEY; 16]));
        let wires = fault.and_then(|fault| fault.wire).map(|wire| Wires::start(wire, address));
        Self(Arc::new(Inner { store, address, fault, running: Mutex::new(Some(running)), wires }))
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.wires.as_ref().map_or(self.0.address, |wires| wires.address).port()
    }

    /// Stops the server as a crash would, and starts it again.
    fn restart(&self) {
        let mut running = self.0.running.lock().expect("nobody panics");
        if let Some(running) = running.take() {
            running.stop(Duration::ZERO);
        }
        self.0.store.crash();
        let forgets = self.0.fault.map_or(Forgets::Nothing, |fault| fault.forgets);
        let empty = Arc::new(MemStore::default());
        let store = if forgets == Forgets::Everything { &empty } else { &self.0.store };
        let key = HandleKey([if forgets == Forgets::Handles { 8 } else { KEY }; 16]);
        *running = Some(serve(store, self.0.address, self.0.fault, key).0);
    }

    /// The number of names at the root of the export.
    pub(crate) fn names_in_root(&self) -> usize {
        let (root, caller) = (self.0.store.root(), Caller { uid: 0, gid: 0, ..Caller::nobody() });
        let unlimited = Budget { reply: Allowance::UNLIMITED, names: Allowance::UNLIMITED };
        let page = self.0.store.readdir(&caller, &root, Cookie(0), unlimited, Wanted::Names);
        let MaybeReady::Now(Some(Ok(page))) = page else {
            panic!("a store in memory lists its root at once");
        };
        let real = |entry: &leasehold_fs::Entry<'_>| entry.name != b"." && entry.name != b"..";
        page.entries.iter().filter(real).count()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(running) = self.running.lock().expect("nobody panics").take() {
            running.stop(Duration::ZERO);
        }
    }
}

/// Sets the store's clock, trusts every caller, and carries out a fault if there is one.
struct Front {
    service: Arc<Service>,
    store: Arc<MemStore>,
    fault: Option<&'static Fault>,
    seen: AtomicU32,
}

impl Handler for Front {
    fn answer(&self, arrival: Arrival, message: Bytes, writer: Writer) -> Response {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
        self.store.set_now(FileTime {
            seconds: i64::try_from(now.as_secs()).expect("the time fits"),
            nanoseconds: now.subsec_nanos(),
        });
        let arrival = Arrival { trust: Trust::Claimed, ..arrival };
        match self.fault {
            None => self.service.answer(arrival, message, writer),
            Some(fault) => fault.answer(&self.service, arrival, &message, &self.seen).into(),
        }
    }

    fn connection_closed(&self, from: SocketAddr, connection: ConnectionId) {
        self.service.connection_closed(from, connection);
    }

    fn wake(&self, now: Time) -> Option<Time> {
        self.service.wake(now)
    }
}

fn serve(
    store: &Arc<MemStore>,
    address: SocketAddr,
    fault: Option<&'static Fault>,
    key: HandleKey,
) -> (Running, SocketAddr) {
    let policy = Policy { privileged: true, uid: 0, reserved_ports_end: 1024 };
    let options = leasehold_shell::Options {
        loops: NonZeroUsize::MIN,
        ..leasehold_shell::Options::new(vec![address], policy)
    };
    let server = leasehold_shell::Server::bind(options).expect("a port of this machine is free");
    let address = server.addresses()[0];
    let export = Export {
        id: ExportId(1),
        name: "/export".into(),
        path: String::new(),
        read_only: false,
        store: Arc::clone(store) as _,
    };
    let service = Arc::new(Service::new(vec![export], key, Box::new(Deaf)));
    let front = Front { service, store: Arc::clone(store), fault, seen: AtomicU32::new(0) };
    (server.start(Arc::new(front)).expect("the system has threads left"), address)
}

/// Runs cases against a server and returns the results and the report.
pub(crate) fn run(server: &Server, arguments: &[&str]) -> (Summary, String) {
    try_run(server, arguments).expect("the server can be tested")
}

/// Runs cases against a server; returns the reason if it cannot be tested.
pub(crate) fn try_run(server: &Server, arguments: &[&str]) -> Result<(Summary, String), String> {
    let again = server.clone();
    let restart: Restart = Box::new(move || {
        again.restart();
        Ok(())
    });
    try_run_at(server.port(), Some(restart), arguments)
}

/// Runs cases against any program that listens on a port.
pub(crate) fn try_run_at(
    port: u16,
    restart: Option<Restart>,
    arguments: &[&str],
) -> Result<(Summary, String), String> {
    let target = format!("nfs://127.0.0.1:{port}/export");
    let words = ["conform", &target, "--uid", "0", "--gid", "0", "--patience", "2"];
    let line = Line::try_parse_from(words.iter().chain(arguments)).map_err(|e| e.to_string())?;
    let mut report = Vec::new();
    let summary = conform(&line.options, restart, &AtomicBool::new(false), &mut report)
        .map_err(|e| e.to_string())?;
    Ok((summary, String::from_utf8(report).expect("reports are text")))
}
