//! Views of the leases, their holders and the waiting calls, for display.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold_core::leases::clients::{self, Name};
use leasehold_core::leases::{Client, Kind, Ticket, table};
use leasehold_fs::{ExportId, ObjectId};

use super::{Leases, State, Waiting};

/// All leases of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseView {
    /// The server epoch, which grows with each start of the server.
    pub epoch: u64,
    /// The ids of the clients for whose reclaims the server waits in its grace period.
    pub waited_for: Vec<[u8; 16]>,
    /// The clients.
    pub holders: Vec<LeaseHolder>,
    /// The leases, up to the requested number.
    pub leases: Vec<HeldLease>,
    /// The total number of leases.
    pub count: usize,
    /// The numbers of events since the start.
    pub counts: table::Counts,
}

/// A client that may hold leases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseHolder {
    /// The id of the client.
    pub id: [u8; 16],
    /// The name that the client reports.
    pub name: String,
    /// True if the client has a return path.
    pub connected: bool,
}

/// A lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldLease {
    /// The id of the holder.
    pub client: [u8; 16],
    /// The export through which the client accesses the object.
    pub export: Option<ExportId>,
    /// The object's id in that export, as the client knows it.
    pub object: Option<ObjectId>,
    /// A path to the object from the root of that export, if the store can find a path.
    pub path: Option<Vec<u8>>,
    /// The file id of the object.
    pub file: u64,
    /// True for a write lease.
    pub writes: bool,
    /// True if the holder may cache.
    pub cachable: bool,
    /// True if the server has recalled the lease.
    pub evicted: bool,
    /// The rest of the term, in milliseconds.
    pub rest_ms: u64,
    /// The callers that wait for the end of the lease, each with the number of its waiting calls.
    pub waiting: BTreeMap<LeaseWaiter, usize>,
}

/// A caller that waits for the end of another client's lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeaseWaiter {
    /// A client that may hold leases, by its id.
    Client([u8; 16]),
    /// Clients that hold no leases.
    Plain,
    /// Local programs.
    Program,
}

/// The counters and gauges of leases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseCounts {
    /// The number of leases.
    pub held: usize,
    /// The number of clients that may hold leases.
    pub clients: usize,
    /// The number of clients that requested leases and receive none, because the server cannot
    /// write the list of clients.
    pub unlisted: usize,
    /// The number of HELLOs that the server refused because there were too many clients, in all or
    /// of one origin.
    pub refused_clients: u64,
    /// The number of calls and local programs that wait for leases to end.
    pub waiting: usize,
    /// The numbers of events since the start.
    pub counts: table::Counts,
    /// The numbers of waits for leases since the start.
    pub waits: LeaseWaits,
}

/// The number of waits for the end of other clients' leases, by kind of caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseWaits {
    /// The number of waits of clients that may hold leases.
    pub clients: u64,
    /// The number of waits of clients without leases.
    pub plain: u64,
    /// Local programs.
    pub programs: u64,
}

impl Leases {
    /// Returns the counters and gauges of leases.
    #[must_use]
    pub fn in_numbers(&self) -> LeaseCounts {
        let state = self.lock();
        LeaseCounts {
            held: state.table.len(),
            clients: state.peers.len(),
            refused_clients: state.refused_clients,
            unlisted: state.clients.unlisted(),
            waiting: state.waiting.len(),
            counts: state.table.counts(),
            waits: state.waits,
        }
    }

    /// Returns the clients, the waits and at most `leases_max` leases. The paths are missing,
    /// because this type has no stores that could find them.
    #[must_use]
    pub fn view(&self, leases_max: usize) -> LeaseView {
        let state = self.lock();
        let id = |client| state.clients.name(client).map_or([0; 16], |name| name.0);
        let held = state.table.iter().flat_map(|(object, leases, waiting)| {
            let mut waits: BTreeMap<(LeaseWaiter, Option<Client>), usize> = BTreeMap::new();
            let is_known = |client| state.clients.name(client).is_some();
            for (ticket, client) in waiting.filter(|(_, client)| client.is_none_or(is_known)) {
                *waits.entry((state.waiter(ticket, client), client)).or_default() += 1;
            }
            let (id, names) = (&id, &state.names);
            let now = state.now;
            // The leases of a client that has gone are void, although the table removes them only
            // at its next access to the object. The view therefore omits these leases.
            leases.iter().filter(move |lease| is_known(lease.client)).map(move |lease| {
                let (export, known_as) = names.of(lease.client, object).unzip();
                HeldLease {
                    client: id(lease.client),
                    export,
                    object: known_as,
                    path: None,
                    file: object.file.0,
                    writes: lease.kind == Kind::Write,
                    cachable: lease.cachable,
                    evicted: lease.evicted,
                    rest_ms: u64::try_from(lease.end.since(now).as_millis()).unwrap_or(u64::MAX),
                    waiting: waits
                        .iter()
                        .filter(|((_, client), _)| *client != Some(lease.client))
                        .map(|((waiter, _), calls)| (*waiter, *calls))
                        .collect(),
                }
            })
        });
        let holders = state.peers.iter().map(|(client, peer)| LeaseHolder {
            id: id(*client),
            name: peer.name.clone(),
            connected: !peer.ways.is_empty(),
        });
        let leases: Vec<HeldLease> = held.take(leases_max).collect();
        // The length of the table includes void leases, so it is used only if the view is
        // truncated.
        let count = if leases.len() < leases_max { leases.len() } else { state.table.len() };
        LeaseView {
            epoch: state.clients.epoch(),
            waited_for: state.clients.missing().into_iter().flatten().map(|name| name.0).collect(),
            holders: holders.collect(),
            leases,
            count,
            counts: state.table.counts(),
        }
    }

    /// Ends all leases of a client that will not return, and the wait for its reclaims. Returns
    /// true if the client is known.
    pub fn forget(self: &Arc<Self>, id: [u8; 16]) -> bool {
        let name = Name(id);
        let now = self.lock().now;
        self.with(now, |state, outs| {
            let known = state.list.contains_key(&name)
                || state.peers.keys().any(|client| state.clients.name(*client) == Some(name));
            state.registry(clients::Event::Gone(name), outs);
            known
        })
    }
}

impl State {
    /// Returns the kind of caller of a waiting call.
    fn waiter(&self, ticket: Ticket, client: Option<Client>) -> LeaseWaiter {
        if let Some(client) = client {
            return LeaseWaiter::Client(self.clients.name(client).map_or([0; 16], |name| name.0));
        }
        match self.waiting.get(&ticket) {
            Some(Waiting::Program(..)) => LeaseWaiter::Program,
            Some(Waiting::Call(..) | Waiting::List(..)) | None => LeaseWaiter::Plain,
        }
    }
}
