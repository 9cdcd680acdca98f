//! The clients and sessions that an administrator sees.

use core::net::IpAddr;

use leasehold_base::units::Time;

use super::Sessions;
use super::clients::Lease;
use super::types::{ClientId, Owner, Principal};

/// A client record for an administrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientView<'a> {
    /// The client id.
    pub id: ClientId,
    /// The name of the client.
    pub owner: &'a Owner,
    /// The principal of its EXCHANGE_ID.
    pub principal: &'a Principal,
    /// The address from which its EXCHANGE_ID arrived.
    pub address: IpAddr,
    /// The minor version of its EXCHANGE_ID.
    pub minor: u32,
    /// True if a CREATE_SESSION has confirmed the record.
    pub is_confirmed: bool,
    /// The number of its sessions.
    pub sessions: usize,
    /// The number of its connections, each counted once for each session.
    pub connections: usize,
    /// The number of slots in which its requests run.
    pub busy_slots: usize,
    /// The time of the last renewal of its lease.
    pub renewed: Time,
    /// The time at which its lease expired, if the client keeps its state as a courtesy.
    pub expired: Option<Time>,
}

/// The numbers of clients and sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The client records, unconfirmed ones included.
    pub clients: usize,
    /// The clients that keep their state as a courtesy after their lease has expired.
    pub courteous: usize,
    /// The sessions.
    pub sessions: usize,
    /// The slots in which requests run.
    pub busy_slots: usize,
}

impl Sessions {
    /// Lists the client records in the order of their ids.
    pub fn views(&self) -> impl Iterator<Item = ClientView<'_>> {
        self.clients.iter().map(|(id, client)| {
            let sessions = client.sessions.iter().filter_map(|id| self.sessions.get(id));
            let (mut connections, mut busy_slots) = (0, 0);
            for session in sessions {
                connections += session.connections.len();
                busy_slots += session.slots.running();
            }
            ClientView {
                id,
                owner: &client.owner,
                principal: &client.principal,
                address: client.address,
                minor: client.minor,
                is_confirmed: client.is_confirmed,
                sessions: client.sessions.len(),
                connections,
                busy_slots,
                renewed: client.renewed,
                expired: match client.lease {
                    Lease::Active => None,
                    Lease::Expired(since) => Some(since),
                },
            }
        })
    }

    /// Returns the numbers of clients, sessions and busy slots.
    #[must_use]
    pub fn totals(&self) -> Totals {
        Totals {
            clients: self.clients.len(),
            courteous: self.clients.courteous.len(),
            sessions: self.sessions.len(),
            busy_slots: self.sessions.values().map(|session| session.slots.running()).sum(),
        }
    }
}
