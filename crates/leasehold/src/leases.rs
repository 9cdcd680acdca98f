//! `leasehold leases` and `leasehold forget`, and the lease records of a server.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use leasehold_fs::ExportId;
use leasehold_serve::{HeldLease, LeaseView, LeaseWaiter, Service};
use leasehold_shell::{LeaseLedger, Pool, clock};
use serde::{Deserialize, Serialize};

use crate::control::{self, Request};
use crate::failure::{Failure, Kind};
use crate::options::{Forget, Leases};
use crate::output::say;

/// The maximum number of leases in the text output.
const TOLD_MAX: usize = 1000;

/// Enables leases on a service, which waits for clients that may still hold earlier leases. Returns
/// the epoch of the previous server as well.
pub(crate) fn begin(service: Service, state: &Path) -> Result<(Arc<Service>, u64), Failure> {
    let pool = Pool::own()
        .map_err(|error| Kind::Running.because(format!("cannot start to serve: {error}")))?;
    let opened = LeaseLedger::open(state, Arc::new(pool));
    let (ledger, remembered) = opened.map_err(|error| {
        Kind::State.because(format!(
            "{error}: the server would not know clients that may hold leases; remove the file if \
             this server was down for two minutes"
        ))
    })?;
    if !remembered.list.is_empty() {
        let clients = remembered.list.len();
        tracing::info!(clients, "waiting for clients with leases from before the restart");
    }
    let last_epoch = ledger.last_epoch();
    let service = service.with_leases(remembered, Arc::new(ledger), clock::now());
    Ok((Arc::new(service), last_epoch))
}

/// The report of a server: its leases, the lease holders, and the requests that wait for leases.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Told {
    epoch: u64,
    /// The number of all leases; the report may list only a part of them.
    count: usize,
    granted: u64,
    renewed: u64,
    evicted: u64,
    waited_out: u64,
    clients: Vec<Client>,
    leases: Vec<Lease>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Client {
    id: String,
    name: String,
    connected: bool,
    /// True if the server has waited for the client since the server's start.
    waited_for: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Lease {
    client: String,
    export: Option<String>,
    /// The path below the export, if the server can determine it.
    path: Option<String>,
    file: u64,
    kind: String,
    cachable: bool,
    evicted: bool,
    rest_ms: u64,
    /// The number of calls that wait for the lease to end.
    waiting: usize,
    waiters: Vec<Waiter>,
}

/// A group of requests that wait for a lease.
#[derive(Debug, Serialize, Deserialize)]
struct Waiter {
    /// The kind of the requests: "client", "plain" for clients without leases, "program" for
    /// programs on the server's machine.
    who: String,
    client: Option<String>,
    calls: usize,
}

impl Told {
    pub(crate) fn of(service: &Service) -> Self {
        let LeaseView { epoch, waited_for, holders, leases, count, counts } =
            service.lease_view(TOLD_MAX);
        let mut clients: Vec<Client> = holders
            .into_iter()
            .map(|holder| Client {
                waited_for: waited_for.contains(&holder.id),
                id: hexadecimal(&holder.id),
                name: holder.name,
                connected: holder.connected,
            })
            .collect();
        for id in &waited_for {
            let id = hexadecimal(id);
            if clients.iter().all(|client| client.id != id) {
                let name = String::new();
                clients.push(Client { id, name, connected: false, waited_for: true });
            }
        }
        let exports = service.offered(|export| (export.id, export.name.clone()));
        let name = |id: ExportId| exports.iter().find(|(other, _)| *other == id);
        let lease = |lease: HeldLease| Lease {
            client: hexadecimal(&lease.client),
            export: lease.export.and_then(name).map(|(_, name)| name.clone()),
            path: lease.path.map(text),
            file: lease.file,
            kind: if lease.writes { "write" } else { "read" }.to_owned(),
            cachable: lease.cachable,
            evicted: lease.evicted,
            rest_ms: lease.rest_ms,
            waiting: lease.waiting.values().sum(),
            waiters: lease.waiting.into_iter().map(Waiter::of).collect(),
        };
        Self {
            epoch,
            count,
            granted: counts.granted,
            renewed: counts.renewed,
            evicted: counts.evicted,
            waited_out: counts.waited_out,
            clients,
            leases: leases.into_iter().map(lease).collect(),
        }
    }

    fn page(&self) -> String {
        let Self { count, granted, renewed, evicted, waited_out, .. } = self;
        let mut lines = vec![format!(
            "{count} leases; since the start {granted} granted, {renewed} renewed, {evicted} \
             evicted, {waited_out} waited out"
        )];
        for client in &self.clients {
            let state = match (client.waited_for, client.connected) {
                (true, _) => "not returned since the start",
                (false, true) => "connected",
                (false, false) => "not connected",
            };
            lines.push(format!("client {} {:?}: {state}", client.id, client.name));
        }
        for lease in &self.leases {
            lines.push(self.line(lease));
            lines.extend(lease.waiters.iter().map(|waiter| self.wait(waiter)));
        }
        let more = count.saturating_sub(self.leases.len());
        if more > 0 {
            lines.push(format!("and {more} more"));
        }
        lines.join("\n") + "\n"
    }

    /// Formats a lease and its holder.
    fn line(&self, lease: &Lease) -> String {
        let Lease { client, kind, rest_ms, cachable, evicted, .. } = lease;
        let seconds = Duration::from_millis(*rest_ms).as_secs_f64();
        let (what, holder) = (lease.what(), self.called(client));
        let mut line = format!("{kind} lease on {what} for {seconds:.1} s: {holder}");
        for (says, word) in [
            (!cachable, ", which may not cache because others share the file with a writer"),
            (*evicted, ", recalled"),
        ] {
            if says {
                line += word;
            }
        }
        line
    }

    /// Formats a group of waiting requests.
    fn wait(&self, waiter: &Waiter) -> String {
        let Waiter { who, client, calls } = waiter;
        let (noun, verb) = match (who.as_str(), calls) {
            ("program", 1) => ("program", "waits"),
            ("program", _) => ("programs", "wait"),
            (_, 1) => ("call", "waits"),
            (_, _) => ("calls", "wait"),
        };
        let whose = match (who.as_str(), client) {
            ("program", _) => "this machine".to_owned(),
            (_, Some(client)) => self.called(client),
            (_, None) => "clients without leases".to_owned(),
        };
        format!("    {calls} {noun} of {whose} {verb} for it")
    }

    /// Returns the name of a client, or its id if the name is unknown.
    fn called(&self, id: &str) -> String {
        let known = self.clients.iter().find(|client| client.id == id && !client.name.is_empty());
        known.map_or(format!("client {id}"), |client| format!("{:?}", client.name))
    }
}

impl Lease {
    /// Returns the leased object: its path below the export if the path is known, otherwise its
    /// inode number.
    fn what(&self) -> String {
        let Self { export, path, file, .. } = self;
        match (export, path.as_deref()) {
            (Some(export), Some("")) => format!("{export:?}"),
            (Some(export), Some(path)) => {
                format!("{:?}", format!("{}/{path}", export.trim_end_matches('/')))
            }
            (Some(export), None) => format!("file {file} of {export}"),
            (None, _) => format!("file {file}"),
        }
    }
}

impl Waiter {
    fn of((waiter, calls): (LeaseWaiter, usize)) -> Self {
        let (who, client) = match waiter {
            LeaseWaiter::Client(id) => ("client", Some(hexadecimal(&id))),
            LeaseWaiter::Plain => ("plain", None),
            LeaseWaiter::Program => ("program", None),
        };
        Self { who: who.to_owned(), client, calls }
    }
}

/// Stops waiting for a client: `client` is its id, a prefix of the id, or its name.
pub(crate) fn forget(service: &Service, client: &str) -> Result<String, String> {
    let told = Told::of(service);
    let is_meant = |one: &&Client| one.name == client || one.id.starts_with(client);
    let mut meant = told.clients.iter().filter(is_meant);
    let (Some(one), None) = (meant.next(), meant.next()) else {
        return Err(format!(
            "no client {client:?} with leases, or more than one: `leasehold leases` lists the \
             clients"
        ));
    };
    let id = u128::from_str_radix(&one.id, 16).map_err(|error| error.to_string())?;
    if service.forget_lease_holder(id.to_be_bytes()) {
        tracing::warn!(client = one.id, name = one.name, "ended all leases of a client");
    }
    Ok(one.id.clone())
}

/// Lists leases.
pub(crate) fn run(options: &Leases) -> Result<(), Failure> {
    let state = options.which.state()?;
    let told =
        control::ask(&state, &Request::Leases).map_err(|text| Kind::Running.because(text))?;
    if options.json {
        return say(format!("{told}\n"));
    }
    let told: Told = serde_json::from_value(told).map_err(|error| {
        Kind::Running.because(format!("the server is of another version: {error}; use --json"))
    })?;
    say(told.page())
}

/// Ends the wait for a client.
pub(crate) fn end_wait(options: &Forget) -> Result<(), Failure> {
    let state = options.which.state()?;
    let request = Request::Forget { client: options.client.clone() };
    let told = control::ask(&state, &request).map_err(|text| Kind::Running.because(text))?;
    say(format!("ended the leases of {}\n", told.as_str().unwrap_or_default()))
}

/// Formats a path as text: if it is not UTF-8, bytes outside ASCII are escaped.
fn text(path: Vec<u8>) -> String {
    String::from_utf8(path).unwrap_or_else(|error| error.as_bytes().escape_ascii().to_string())
}

fn hexadecimal(id: &[u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(*id))
}
