//! `leasehold clients`: the clients of NFS version 4.

use std::net::IpAddr;
use std::sync::Arc;

use leasehold_serve::{Nfs4, Nfs4Client, Nfs4Totals};
use leasehold_shell::clock;
use leasehold_view::span;
use serde::{Deserialize, Serialize};

use crate::control::{self, Request};
use crate::failure::{Failure, Kind};
use crate::options::{Clients, ClientsCommand, ForgetClient};
use crate::output::say;

/// The maximum number of clients in the output: about 4 MiB, and a fraction of a second.
const CLIENTS_MAX: usize = 10_000;

/// The error of a server without version 4.
const NOT_SERVED: &str =
    "the server does not serve NFS version 4: start it with a version such as `--versions 3,4.2`";

/// The report of a server: the clients of version 4.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Told {
    /// The number of all clients; the report may list only a part of them.
    count: usize,
    sessions: usize,
    opens: usize,
    locks: usize,
    waiters: usize,
    clients: Vec<Client>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Client {
    /// The client id, in hexadecimal digits.
    id: String,
    /// The name that the client gives itself; bytes outside ASCII are escaped.
    owner: String,
    address: IpAddr,
    /// The user id of its EXCHANGE_ID.
    user: Option<u32>,
    minor_version: u32,
    /// False until the client has created a session.
    confirmed: bool,
    sessions: usize,
    connections: usize,
    busy_slots: usize,
    opens: usize,
    locks: usize,
    /// The time since the last renewal of the lease.
    renewed_s: f64,
    /// The time since the lease expired; absent for a valid lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expired_s: Option<f64>,
}

impl Told {
    fn of(nfs4: &Nfs4) -> Self {
        let now = clock::now();
        let Nfs4Totals { clients, sessions, opens, locks, waiters, .. } = nfs4.totals(now);
        let listed = nfs4.clients(now, CLIENTS_MAX).into_iter().map(Client::from).collect();
        Self { count: clients, sessions, opens, locks, waiters, clients: listed }
    }

    fn page(&self) -> String {
        let Self { count, sessions, opens, locks, waiters, clients } = self;
        let mut lines = vec![format!(
            "{count} clients of NFS version 4: {sessions} sessions, {opens} opens, {locks} locks, \
             {waiters} waiters"
        )];
        lines.extend(clients.iter().map(Client::line));
        let more = count.saturating_sub(clients.len());
        if more > 0 {
            lines.push(format!("and {more} more"));
        }
        lines.join("\n") + "\n"
    }
}

impl Client {
    fn line(&self) -> String {
        let Self { id, owner, address, minor_version, sessions, opens, locks, .. } = self;
        let renewed = span(self.renewed_s.floor());
        let lease = match self.expired_s {
            _ if !self.confirmed => "no session yet".to_owned(),
            None => format!("renewed {renewed} ago"),
            Some(expired) => format!(
                "lease expired {} ago, state kept until another client needs it",
                span(expired.floor())
            ),
        };
        format!(
            "client {id} {owner:?} at {address}, version 4.{minor_version}: {sessions} sessions, \
             {opens} opens, {locks} locks, {lease}"
        )
    }
}

impl From<Nfs4Client> for Client {
    fn from(client: Nfs4Client) -> Self {
        Self {
            id: hexadecimal(client.id),
            owner: client.owner.escape_ascii().to_string(),
            address: client.address,
            user: client.user,
            minor_version: client.minor,
            confirmed: client.is_confirmed,
            sessions: client.sessions,
            connections: client.connections,
            busy_slots: client.busy_slots,
            opens: client.opens,
            locks: client.locks,
            renewed_s: client.renewed.as_secs_f64(),
            expired_s: client.expired.map(|expired| expired.as_secs_f64()),
        }
    }
}

/// Returns the report of a server.
///
/// # Errors
/// The server does not serve version 4.
pub(crate) fn told(nfs4: Option<&Arc<Nfs4>>) -> Result<Told, String> {
    nfs4.map(|nfs4| Told::of(nfs4)).ok_or_else(|| NOT_SERVED.to_owned())
}

/// Ends a client: `client` is its id, a prefix of the id, or its name. Returns the id.
///
/// # Errors
/// The fault and its remedy, as text.
pub(crate) fn forget(nfs4: Option<&Arc<Nfs4>>, client: &str) -> Result<String, String> {
    let nfs4 = nfs4.ok_or_else(|| NOT_SERVED.to_owned())?;
    let now = clock::now();
    let clients = nfs4.clients(now, usize::MAX);
    let is_meant = |one: &&Nfs4Client| {
        one.owner.escape_ascii().to_string() == client
            || !client.is_empty() && hexadecimal(one.id).starts_with(client)
    };
    let mut meant = clients.iter().filter(is_meant);
    let (Some(one), None) = (meant.next(), meant.next()) else {
        return Err(format!(
            "no client {client:?} of NFS version 4, or more than one: `leasehold clients` lists \
             the clients"
        ));
    };
    let id = hexadecimal(one.id);
    if !nfs4.forget(now, one.id) {
        return Err(format!("the client {id} has just left"));
    }
    let (owner, address) = (one.owner.escape_ascii().to_string(), one.address);
    let (opens, locks) = (one.opens, one.locks);
    tracing::warn!(client = id, owner, %address, opens, locks, "ended a client of NFS version 4");
    Ok(id)
}

/// Lists the clients, or ends one.
pub(crate) fn run(options: &Clients) -> Result<(), Failure> {
    if let Some(ClientsCommand::Forget(options)) = &options.command {
        return end(options);
    }
    let state = options.which.state()?;
    let told =
        control::ask(&state, &Request::Clients).map_err(|text| Kind::Running.because(text))?;
    if options.json {
        return say(format!("{told}\n"));
    }
    let told: Told = serde_json::from_value(told).map_err(|error| {
        Kind::Running.because(format!("the server is of another version: {error}; use --json"))
    })?;
    say(told.page())
}

fn end(options: &ForgetClient) -> Result<(), Failure> {
    let state = options.which.state()?;
    let request = Request::ForgetClient { client: options.client.clone() };
    let told = control::ask(&state, &request).map_err(|text| Kind::Running.because(text))?;
    say(format!("ended the client {}\n", told.as_str().unwrap_or_default()))
}

fn hexadecimal(id: u64) -> String {
    format!("{id:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(expired_s: Option<f64>, confirmed: bool) -> Client {
        Client {
            id: hexadecimal(0x1_0000_0002),
            owner: "Linux NFSv4.2 host".to_owned(),
            address: IpAddr::from([192, 0, 2, 7]),
            user: Some(0),
            minor_version: 2,
            confirmed,
            sessions: 1,
            connections: 2,
            busy_slots: 0,
            opens: 3,
            locks: 4,
            renewed_s: 12.3,
            expired_s,
        }
    }

    #[test]
    fn page_has_a_line_for_each_client() {
        let clients = vec![client(None, true), client(Some(60.0), true), client(None, false)];
        let told = Told { count: 5, sessions: 1, opens: 3, locks: 4, waiters: 0, clients };
        let page = told.page();
        let lines: Vec<_> = page.lines().collect();
        assert_eq!(lines[0], "5 clients of NFS version 4: 1 sessions, 3 opens, 4 locks, 0 waiters");
        assert_eq!(
            lines[1],
            "client 0000000100000002 \"Linux NFSv4.2 host\" at 192.0.2.7, version 4.2: 1 sessions, \
             3 opens, 4 locks, renewed 12 s ago"
        );
        assert!(lines[2].contains("lease expired 1 min"), "{page}");
        assert!(lines[3].ends_with("no session yet"), "{page}");
        assert_eq!(lines[4], "and 2 more");
    }
}
