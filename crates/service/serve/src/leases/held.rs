//! Who holds which lease, and who waits for whom, for people to read.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold_core::leases::clients::{self, Name};
use leasehold_core::leases::{Client, Kind, Ticket, table};
use leasehold_fs::{ExportId, ObjectId};

use super::{Leases, State, Waiting};

/// All leases of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseView {
    /// The number of this start of the server.
    pub epoch: u64,
    /// Clients that are waited for since the start, by id; none where nobody is.
    pub waited_for: Vec<[u8; 16]>,
    /// The clients.
    pub holders: Vec<LeaseHolder>,
    /// The leases, as many as were asked for at most.
    pub leases: Vec<HeldLease>,
    /// How many leases there are.
    pub count: usize,
    /// How often what happened since the start.
    pub counts: table::Counts,
}

/// A client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseHolder {
    /// Its id.
    pub id: [u8; 16],
    /// What it calls itself.
    pub name: String,
    /// Whether it is connected.
    pub connected: bool,
}

/// A lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldLease {
    /// Whose it is.
    pub client: [u8; 16],
    /// The export that its client reaches the object by.
    pub export: Option<ExportId>,
    /// The object's id in that export, as its client knows it.
    pub object: Option<ObjectId>,
    /// A path to it from the directory of that export, where its store can tell one.
    pub path: Option<Vec<u8>>,
    /// The object's number in its file system.
    pub file: u64,
    /// Whether it is a lease to write.
    pub writes: bool,
    /// Whether its holder may cache.
    pub cachable: bool,
    /// Whether it is wanted back.
    pub evicted: bool,
    /// For how many milliseconds it still goes on.
    pub rest_ms: u64,
    /// Who waits for it to end, each with how many calls.
    pub waiting: BTreeMap<LeaseWaiter, usize>,
}

/// Who waits for a lease of another to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeaseWaiter {
    /// A client that may hold leases, by its id.
    Client([u8; 16]),
    /// Clients that hold none.
    Plain,
    /// Programs of this machine.
    Program,
}

/// How leases are, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseCounts {
    /// Leases that there are.
    pub held: usize,
    /// Clients that may hold some.
    pub clients: usize,
    /// Clients that asked for leases and are granted none, because the server cannot write the list
    /// of clients.
    pub unlisted: usize,
    /// How often the server did not take up a client, as there were too many clients, in all or of
    /// its origin.
    pub refused_clients: u64,
    /// Calls and programs that wait for leases to end.
    pub waiting: usize,
    /// How often what happened since the start.
    pub counts: table::Counts,
    /// Who had to wait, since the start.
    pub waits: LeaseWaits,
}

/// How often who had to wait for leases of others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseWaits {
    /// Calls of clients that may hold leases.
    pub clients: u64,
    /// Calls of plain clients.
    pub plain: u64,
    /// Programs of this machine.
    pub programs: u64,
}

impl Leases {
    /// How leases are, in numbers.
    pub(crate) fn in_numbers(&self) -> LeaseCounts {
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

    /// Who holds what, and who waits for whom, of so many leases; paths are for who has the stores.
    pub(crate) fn view(&self, leases_max: usize) -> LeaseView {
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
            // The leases of a client that has gone are void, and go when the table next looks at
            // them.
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
        // The table also counts void leases.
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

    /// Has nobody wait any more for a client that will not return; whether it is known.
    pub(crate) fn forget(self: &Arc<Self>, id: [u8; 16]) -> bool {
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
    /// Who waits by a call.
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
