//! Views of the leases, their holders and the waiting calls, for display.

use std::collections::BTreeMap;

use leasehold_core::leases::clients::Clients;
use leasehold_core::leases::{Client, Kind, Object, table};
use leasehold_fs::{ExportId, ObjectId};

use super::Leases;
use crate::shard::Shard;

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
        let registry = self.registry();
        let mut numbers = LeaseCounts {
            held: 0,
            clients: registry.peers.len(),
            refused_clients: registry.refused_clients,
            unlisted: registry.clients.unlisted(),
            waiting: self.common.waiting(),
            counts: table::Counts::default(),
            waits: LeaseWaits::default(),
        };
        drop(registry);
        for shard in self.shards() {
            numbers.held += shard.table.len();
            numbers.counts += shard.table.counts();
            let LeaseWaits { clients, plain, programs } = shard.waits;
            numbers.waits.clients += clients;
            numbers.waits.plain += plain;
            numbers.waits.programs += programs;
        }
        numbers
    }

    /// Returns the clients, the waits and at most `leases_max` leases in the order of their objects.
    /// The paths are missing, because this type has no stores that could find them.
    #[must_use]
    pub fn view(&self, leases_max: usize) -> LeaseView {
        let registry = self.registry();
        let (mut held, mut count) = (Vec::new(), 0);
        let mut counts = table::Counts::default();
        for shard in self.shards() {
            held.extend(shard.held(&registry.clients).take(leases_max));
            count += shard.table.len();
            counts += shard.table.counts();
        }
        held.sort_by_key(|(object, _)| *object);
        let leases: Vec<HeldLease> =
            held.into_iter().map(|(_, lease)| lease).take(leases_max).collect();
        let holders = registry.peers.values().map(|peer| LeaseHolder {
            id: peer.id.0,
            name: peer.name.clone(),
            connected: !peer.ways.is_empty(),
        });
        // The length of a table includes void leases, so it is used only if the view is truncated.
        let count = if leases.len() < leases_max { leases.len() } else { count };
        let waited_for = registry.clients.missing().into_iter().flatten().map(|name| name.0);
        LeaseView {
            epoch: self.epoch,
            waited_for: waited_for.collect(),
            holders: holders.collect(),
            leases,
            count,
            counts,
        }
    }
}

impl Shard {
    /// Lists the leases of the shard, each with its object.
    fn held<'a>(
        &'a self,
        clients: &'a Clients,
    ) -> impl Iterator<Item = (Object, HeldLease)> + use<'a> {
        let id = |client| clients.name(client).map_or([0; 16], |name| name.0);
        self.table.iter().flat_map(move |(object, leases, waiting)| {
            let mut waits: BTreeMap<(LeaseWaiter, Option<Client>), usize> = BTreeMap::new();
            let is_known = |client| clients.name(client).is_some();
            for (ticket, client) in waiting.filter(|(_, client)| client.is_none_or(is_known)) {
                let waiter = match client {
                    Some(client) => LeaseWaiter::Client(id(client)),
                    None if self.is_program(ticket) => LeaseWaiter::Program,
                    None => LeaseWaiter::Plain,
                };
                *waits.entry((waiter, client)).or_default() += 1;
            }
            // The leases of a client that has gone are void, although the table removes them only
            // at its next access to the object. The view therefore omits these leases.
            leases.iter().filter(move |lease| is_known(lease.client)).map(move |lease| {
                let (export, known_as) = self.names.of(lease.client, object).unzip();
                let held = HeldLease {
                    client: id(lease.client),
                    export,
                    object: known_as,
                    path: None,
                    file: object.file.0,
                    writes: lease.kind == Kind::Write,
                    cachable: lease.cachable,
                    evicted: lease.evicted,
                    rest_ms: u64::try_from(lease.end.since(self.common.now()).as_millis())
                        .unwrap_or(u64::MAX),
                    waiting: waits
                        .iter()
                        .filter(|((_, client), _)| *client != Some(lease.client))
                        .map(|((waiter, _), calls)| (*waiter, *calls))
                        .collect(),
                };
                (object, held)
            })
        })
    }
}
