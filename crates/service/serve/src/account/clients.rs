//! The counters of clients by address: a bounded number of entries, and one entry for all other
//! clients.

use core::net::IpAddr;
use std::collections::BTreeMap;

use leasehold_base::units::Time;

use super::Tally;

/// The maximum number of clients with their own entry in one account. A further client takes the
/// entry of the least recently active client without a connection; the calls of that client then
/// count under `others`.
const CLIENTS_MAX: usize = 512;

/// The id of a client's entry. After another client has taken the entry, the id means `others`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientId {
    index: u32,
    generation: u32,
}

impl ClientId {
    /// The entry of clients without their own entry.
    pub const OTHERS: Self = Self { index: u32::MAX, generation: 0 };
}

/// The data of a client.
#[derive(Clone, Debug)]
pub struct Client {
    /// The address of the client.
    pub address: IpAddr,
    /// The number of open connections of the client.
    pub connections: u32,
    /// The time of the client's last call.
    pub heard: Time,
    /// The counters of the client's calls.
    pub tally: Tally,
}

#[derive(Clone, Debug)]
struct Slot {
    generation: u32,
    client: Client,
}

/// The clients of an account.
#[derive(Clone, Debug, Default)]
pub struct Clients {
    slots: Vec<Slot>,
    by_address: BTreeMap<IpAddr, u32>,
    others: Tally,
}

impl Clients {
    /// Returns true if the client at an address has an entry or can get a free entry.
    pub(super) fn has_room_for(&self, address: IpAddr) -> bool {
        self.slots.len() < CLIENTS_MAX || self.by_address.contains_key(&address.to_canonical())
    }

    /// Returns the id of the entry of the client at an address, and records the time of the
    /// client's call.
    pub(super) fn at(&mut self, address: IpAddr, now: Time) -> ClientId {
        let address = address.to_canonical();
        let index = match self.by_address.get(&address) {
            Some(index) => *index,
            None => match self.admit(address) {
                Some(index) => index,
                None => return ClientId::OTHERS,
            },
        };
        let slot = &mut self.slots[index as usize];
        slot.client.heard = now;
        ClientId { index, generation: slot.generation }
    }

    /// Creates an entry for a client; None if all entries have connections.
    fn admit(&mut self, address: IpAddr) -> Option<u32> {
        let client = Client { address, connections: 0, heard: Time::ZERO, tally: Tally::default() };
        let index = if self.slots.len() < CLIENTS_MAX {
            self.slots.push(Slot { generation: 0, client });
            self.slots.len() - 1
        } else {
            let free = self.slots.iter_mut().enumerate();
            let free = free.filter(|(_, slot)| slot.client.connections == 0);
            let (index, slot) = free.min_by_key(|(_, slot)| slot.client.heard)?;
            let before = core::mem::replace(&mut slot.client, client);
            slot.generation = slot.generation.wrapping_add(1);
            self.by_address.remove(&before.address);
            self.others.fold(&before.tally);
            index
        };
        let index = u32::try_from(index).expect("there are few places");
        self.by_address.insert(address, index);
        Some(index)
    }

    fn client(&mut self, id: ClientId) -> Option<&mut Client> {
        let slot = self.slots.get_mut(id.index as usize)?;
        (slot.generation == id.generation).then_some(&mut slot.client)
    }

    /// Records a new connection of a client, which keeps its entry while it has connections.
    pub(super) fn connected(&mut self, id: ClientId) {
        if let Some(client) = self.client(id) {
            client.connections += 1;
        }
    }

    /// Records the end of a connection.
    pub(super) fn disconnected(&mut self, id: ClientId) {
        if let Some(client) = self.client(id) {
            client.connections -= 1;
        }
    }

    /// Records the time of a call of a client.
    #[inline]
    pub(super) fn heard(&mut self, id: ClientId, now: Time) {
        if let Some(client) = self.client(id) {
            client.heard = now;
        }
    }

    /// Returns the counters of a client.
    pub(super) fn tally(&mut self, id: ClientId) -> &mut Tally {
        match self.slots.get_mut(id.index as usize) {
            Some(slot) if slot.generation == id.generation => &mut slot.client.tally,
            Some(_) | None => &mut self.others,
        }
    }

    /// Adds another account; the sum may contain more than [`CLIENTS_MAX`] clients.
    pub(super) fn fold(&mut self, other: &Self) {
        self.others.fold(&other.others);
        for slot in &other.slots {
            let more = &slot.client;
            if let Some(index) = self.by_address.get(&more.address) {
                let client = &mut self.slots[*index as usize].client;
                client.connections += more.connections;
                client.heard = client.heard.max(more.heard);
                client.tally.fold(&more.tally);
            } else {
                let index = u32::try_from(self.slots.len()).expect("there are few places");
                self.by_address.insert(more.address, index);
                self.slots.push(slot.clone());
            }
        }
    }

    /// Returns the clients with their own entry.
    pub fn iter(&self) -> impl Iterator<Item = &Client> {
        self.slots.iter().map(|slot| &slot.client)
    }

    /// Returns the counters of all other clients.
    #[must_use]
    pub const fn others(&self) -> &Tally {
        &self.others
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use super::*;

    fn address(number: usize) -> IpAddr {
        Ipv4Addr::from_bits(0x0a00_0000 + u32::try_from(number).expect("is small")).into()
    }

    fn calls(clients: &Clients, at: IpAddr) -> Option<u64> {
        clients.iter().find(|client| client.address == at).map(|client| client.tally.calls)
    }

    #[test]
    fn clients_beyond_the_bound_share_one_entry() {
        let mut clients = Clients::default();
        let ids: Vec<_> = (0..CLIENTS_MAX)
            .map(|number| clients.at(address(number), Time::from_nanoseconds(number as u64)))
            .collect();
        // The first client is the least recently active client, but it has a connection, so it must
        // keep its entry.
        clients.connected(ids[0]);
        for id in &ids {
            clients.tally(*id).calls += 1;
        }
        let more = clients.at(address(CLIENTS_MAX), Time::from_nanoseconds(1 << 20));
        clients.tally(more).calls += 1;
        assert_eq!(calls(&clients, address(0)), Some(1));
        assert_eq!(calls(&clients, address(1)), None);
        assert_eq!(calls(&clients, address(CLIENTS_MAX)), Some(1));
        assert_eq!((clients.iter().count(), clients.others().calls), (CLIENTS_MAX, 1));
        // A late reply to the client that lost its entry does not count for the client that has
        // taken the entry.
        clients.tally(ids[1]).calls += 1;
        assert_eq!(calls(&clients, address(CLIENTS_MAX)), Some(1));
        assert_eq!(clients.others().calls, 2);
    }

    #[test]
    fn without_a_free_entry_further_clients_are_others() {
        let mut clients = Clients::default();
        for number in 0..CLIENTS_MAX {
            let id = clients.at(address(number), Time::ZERO);
            clients.connected(id);
        }
        let id = clients.at(address(CLIENTS_MAX), Time::ZERO);
        assert_eq!(id, ClientId::OTHERS);
        clients.connected(id);
        clients.disconnected(id);
        clients.tally(id).calls += 1;
        assert_eq!(clients.others().calls, 1);
    }

    #[test]
    fn an_address_is_the_same_in_both_families() {
        let mut clients = Clients::default();
        let mapped = "::ffff:10.0.0.1".parse().expect("an address");
        let first = clients.at(mapped, Time::ZERO);
        assert_eq!(clients.at(address(1), Time::ZERO), first);
    }
}
