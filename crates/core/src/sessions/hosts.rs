//! The hosts of the clients: a bound for each host, so that no host takes the records of others.

use core::net::{IpAddr, Ipv6Addr};
use std::collections::{BTreeMap, BTreeSet};

use super::clients::Lease;
use super::types::{ClientId, Error};
use super::{Effect, Sessions};

/// The host of a client: an IPv4 address, or the first 64 bits of an IPv6 address, because a host
/// can use all addresses of its network (RFC 4291 2.5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Host(IpAddr);

impl Host {
    pub(super) fn of(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => {
                Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into()
            }
        })
    }
}

/// The client records of each host.
#[derive(Clone, Debug, Default)]
pub(super) struct Hosts(BTreeMap<Host, OfHost>);

/// The client records of a host. Ids grow, so the first id is the oldest.
#[derive(Clone, Debug, Default)]
struct OfHost {
    all: BTreeSet<ClientId>,
    unconfirmed: BTreeSet<ClientId>,
}

impl Hosts {
    pub(super) const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Adds an unconfirmed record.
    pub(super) fn add(&mut self, host: Host, id: ClientId) {
        let records = self.0.entry(host).or_default();
        records.all.insert(id);
        records.unconfirmed.insert(id);
    }

    pub(super) fn confirm(&mut self, host: Host, id: ClientId) {
        if let Some(records) = self.0.get_mut(&host) {
            records.unconfirmed.remove(&id);
        }
    }

    pub(super) fn remove(&mut self, host: Host, id: ClientId) {
        let Some(records) = self.0.get_mut(&host) else { return };
        records.all.remove(&id);
        records.unconfirmed.remove(&id);
        if records.all.is_empty() {
            self.0.remove(&host);
        }
    }

    fn records(&self, host: Host) -> usize {
        self.0.get(&host).map_or(0, |records| records.all.len())
    }

    fn unconfirmed(&self, host: Host) -> usize {
        self.0.get(&host).map_or(0, |records| records.unconfirmed.len())
    }

    fn oldest_unconfirmed(&self, host: Host) -> Option<ClientId> {
        self.0.get(&host)?.unconfirmed.first().copied()
    }

    fn of(&self, host: Host) -> impl Iterator<Item = ClientId> + '_ {
        self.0.get(&host).into_iter().flat_map(|records| records.all.iter().copied())
    }

    /// Returns true if the tables have the record.
    pub(super) fn has(&self, host: Host, id: ClientId, is_confirmed: bool) -> bool {
        self.0.get(&host).is_some_and(|records| {
            records.all.contains(&id) && records.unconfirmed.contains(&id) != is_confirmed
        })
    }

    /// Returns the number of records of all hosts.
    pub(super) fn len(&self) -> usize {
        self.0.values().map(|records| records.all.len()).sum()
    }
}

impl Sessions {
    /// Rule 23: makes room for a record among the records of a host.
    pub(super) fn make_room_of_host(
        &mut self,
        host: Host,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Error> {
        let most = self.limits.clients_of_host;
        if self.clients.hosts.unconfirmed(host) >= self.limits.unconfirmed_of_host
            || self.clients.hosts.records(host) >= most
        {
            let oldest = self.clients.hosts.oldest_unconfirmed(host);
            oldest.into_iter().for_each(|id| self.drop_record(id, effects));
        }
        if self.clients.hosts.records(host) >= most {
            let since = |id| match self.clients.get(id)?.lease {
                Lease::Active => None,
                Lease::Expired(since) => Some((since, id)),
            };
            let first = self.clients.hosts.of(host).filter_map(since).min();
            first.into_iter().for_each(|(_, id)| self.expel(id, effects));
        }
        if self.clients.hosts.records(host) >= most { Err(Error::Delay) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_network_of_version_6_are_one_host() {
        let host = |text: &str| Host::of(text.parse().expect("an address"));
        assert_eq!(host("2001:db8::1"), host("2001:db8::ffff:2"));
        assert_ne!(host("2001:db8::1"), host("2001:db8:0:1::1"));
        assert_eq!(host("::ffff:192.0.2.1"), host("192.0.2.1"));
        assert_ne!(host("192.0.2.1"), host("192.0.2.2"));
    }
}
