//! `leasehold leases` and `leasehold forget`, and what a server keeps of leases.

use std::path::Path;
use std::sync::Arc;

use leasehold_serve::{LeaseView, Service};
use leasehold_shell::{LeaseLedger, Pool, clock};
use serde::{Deserialize, Serialize};

use crate::control::{self, Request};
use crate::failure::{Failure, Kind};
use crate::options::{Forget, Leases};
use crate::say::say;
use crate::status::state_directory;

/// So many leases are told of at most: what a person reads.
const TOLD_MAX: usize = 1000;

/// Has a service serve leases, and wait for those that clients may still hold from before.
pub(crate) fn begin(service: Service, state: &Path) -> Result<Service, Failure> {
    let opened = LeaseLedger::open(state, Arc::new(Pool::new()));
    let (ledger, remembered) = opened.map_err(|error| {
        Kind::State.because(format!(
            "{error}: clients may hold leases that nobody would know of; remove it when this \
             server was down for two minutes"
        ))
    })?;
    if !remembered.list.is_empty() {
        let clients = remembered.list.len();
        tracing::info!(clients, "waiting for clients with leases from before");
    }
    Ok(service.with_leases(remembered, Arc::new(ledger), clock::now()))
}

/// Who holds which lease, and who waits for whom.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Told {
    epoch: u64,
    /// How many leases there are; of so many only the first are told.
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
    /// Whether the server waits for it since it was started.
    waited_for: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Lease {
    client: String,
    file: u64,
    kind: String,
    cachable: bool,
    evicted: bool,
    rest_ms: u64,
    /// How many calls wait for it to end.
    waiting: usize,
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
        let lease = |lease: leasehold_serve::HeldLease| Lease {
            client: hexadecimal(&lease.client),
            file: lease.file,
            kind: if lease.writes { "write" } else { "read" }.to_owned(),
            cachable: lease.cachable,
            evicted: lease.evicted,
            rest_ms: lease.rest_ms,
            waiting: lease.waiting,
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
                (true, _) => "waited for since the start",
                (false, true) => "connected",
                (false, false) => "not connected",
            };
            lines.push(format!("client {} {:?}: {state}", client.id, client.name));
        }
        for lease in &self.leases {
            let Lease { client, file, kind, rest_ms, .. } = lease;
            let mut line = format!("{kind} lease on file {file}, {rest_ms} ms, of {client}");
            for (says, word) in [(!lease.cachable, ", shared"), (lease.evicted, ", evicted")] {
                if says {
                    line += word;
                }
            }
            if lease.waiting > 0 {
                line += &format!(", {} calls wait for it", lease.waiting);
            }
            lines.push(line);
        }
        lines.join("\n") + "\n"
    }
}

/// Waits no more for a client, which is named by its id, the beginning of that, or its name.
pub(crate) fn forget(service: &Service, client: &str) -> Result<String, String> {
    let told = Told::of(service);
    let is_meant = |one: &&Client| one.name == client || one.id.starts_with(client);
    let mut meant = told.clients.iter().filter(is_meant);
    let (Some(one), None) = (meant.next(), meant.next()) else {
        return Err(format!(
            "there is no client {client:?} with leases, or more than one: `leasehold leases` \
             lists them"
        ));
    };
    let id = u128::from_str_radix(&one.id, 16).map_err(|error| error.to_string())?;
    if service.forget_lease_holder(id.to_be_bytes()) {
        tracing::warn!(client = one.id, name = one.name, "forgotten, with all leases");
    }
    Ok(one.id.clone())
}

/// Lists leases.
pub(crate) fn run(options: &Leases) -> Result<(), Failure> {
    let state = state_directory(options.state.as_deref())?;
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

/// Ends a wait.
pub(crate) fn end_wait(options: &Forget) -> Result<(), Failure> {
    let state = state_directory(options.state.as_deref())?;
    let request = Request::Forget { client: options.client.clone() };
    let told = control::ask(&state, &request).map_err(|text| Kind::Running.because(text))?;
    say(format!("forgot {}\n", told.as_str().unwrap_or_default()))
}

fn hexadecimal(id: &[u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(*id))
}
