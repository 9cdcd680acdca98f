//! The state of version 4 that an administrator sees.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::BTreeMap;

use leasehold_base::units::Time;
use leasehold_core::locks::Locker;
use leasehold_core::owners::Client;
use leasehold_core::sessions::{ClientId, ClientView, Event, Principal, Sessions};

use super::clients::Clients;
use super::counts::{Clock, OperationCounts};
use super::{Nfs4, opens};

/// The numbers of clients, sessions and states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nfs4Totals {
    /// The client records.
    pub clients: usize,
    /// The clients that keep their state as a courtesy after their lease has expired.
    pub courteous: usize,
    /// The sessions.
    pub sessions: usize,
    /// The slots in which requests run.
    pub busy_slots: usize,
    /// The opens.
    pub opens: usize,
    /// The locked ranges.
    pub locks: usize,
    /// The requests that wait for a lock.
    pub waiters: usize,
}

/// A client record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nfs4Client {
    /// The client id.
    pub id: u64,
    /// The name of the client: the client owner of EXCHANGE_ID.
    pub owner: Vec<u8>,
    /// The user id of its EXCHANGE_ID; None for a request without a user.
    pub user: Option<u32>,
    /// The address from which its EXCHANGE_ID arrived.
    pub address: IpAddr,
    /// The minor version of its EXCHANGE_ID.
    pub minor: u32,
    /// False until a CREATE_SESSION confirms the record.
    pub is_confirmed: bool,
    /// The number of its sessions.
    pub sessions: usize,
    /// The number of its connections, each counted once for each session.
    pub connections: usize,
    /// The number of slots in which its requests run.
    pub busy_slots: usize,
    /// The number of its opens.
    pub opens: usize,
    /// The number of ranges that it has locked.
    pub locks: usize,
    /// The time since the last renewal of its lease.
    pub renewed: Duration,
    /// The time since its lease expired, if the client keeps its state as a courtesy.
    pub expired: Option<Duration>,
}

impl Nfs4 {
    /// Sets the clock that measures the durations of operations.
    pub fn time_by(&self, clock: Clock) {
        self.clients.counts.time_by(clock);
    }

    /// Returns the numbers of clients, sessions and states.
    #[must_use]
    pub fn totals(&self, now: Time) -> Nfs4Totals {
        let of_sessions = self.clients.with_sessions(Sessions::totals);
        let (mut opens, mut locks, mut waiters) = (0, 0, 0);
        self.clients.state.everywhere(now, |shard, _, _| {
            opens += shard.opens.opens();
            locks += shard.locks.len();
            waiters += shard.locks.waiting();
        });
        Nfs4Totals {
            clients: of_sessions.clients,
            courteous: of_sessions.courteous,
            sessions: of_sessions.sessions,
            busy_slots: of_sessions.busy_slots,
            opens,
            locks,
            waiters,
        }
    }

    /// Returns the counters of the operations that clients have sent.
    #[must_use]
    pub fn operations(&self) -> Vec<OperationCounts> {
        self.clients.counts.all()
    }

    /// Lists the client records in the order of their ids, at most `clients_max`.
    #[must_use]
    pub fn clients(&self, now: Time, clients_max: usize) -> Vec<Nfs4Client> {
        let view = |one: ClientView<'_>| client(now, &one);
        let mut clients: Vec<Nfs4Client> = self
            .clients
            .with_sessions(|sessions| sessions.views().take(clients_max).map(view).collect());
        let states = self.clients.states(now, &clients);
        for client in &mut clients {
            (client.opens, client.locks) = states.get(&client.id).copied().unwrap_or_default();
        }
        clients
    }

    /// Ends a client: its sessions, its opens and its locks. Returns false for an unknown client.
    #[must_use]
    pub fn forget(&self, now: Time, id: u64) -> bool {
        let owner = self.clients.with_sessions(|sessions| {
            sessions.describe(ClientId(id)).map(|(owner, _)| owner.clone())
        });
        match owner {
            Some(owner) => {
                self.clients.step(now, Event::Forget(owner));
                true
            }
            None => false,
        }
    }
}

impl Clients {
    /// Returns the numbers of opens and locks of clients.
    fn states(&self, now: Time, clients: &[Nfs4Client]) -> BTreeMap<u64, (usize, usize)> {
        let mut states: BTreeMap<u64, (usize, usize)> =
            clients.iter().map(|client| (client.id, (0, 0))).collect();
        self.state.everywhere(now, |shard, _, _| {
            for (id, (opens, _)) in &mut states {
                *opens += shard.opens.opens_of(opens::client(ClientId(*id)));
            }
            for (_, owner, _, _) in shard.locks.holders() {
                if let Locker::Client(Client(id)) = owner.locker
                    && let Some((_, locks)) = states.get_mut(&id)
                {
                    *locks += 1;
                }
            }
        });
        states
    }
}

fn client(now: Time, one: &ClientView<'_>) -> Nfs4Client {
    Nfs4Client {
        id: one.id.0,
        owner: one.owner.as_bytes().to_vec(),
        user: match one.principal {
            Principal::System(user) => Some(*user),
            Principal::Anonymous | Principal::Named(_) => None,
        },
        address: one.address.to_canonical(),
        minor: one.minor,
        is_confirmed: one.is_confirmed,
        sessions: one.sessions,
        connections: one.connections,
        busy_slots: one.busy_slots,
        opens: 0,
        locks: 0,
        renewed: now.since(one.renewed),
        expired: one.expired.map(|since| now.since(since)),
    }
}
