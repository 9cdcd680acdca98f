//! The registered servers.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::BTreeMap;

use leasehold_base::limits::{BOUND_NAMES_MAX, BOUND_NAMES_OF_HOST_MAX};
use leasehold_base::units::Time;
use leasehold_wire::binding::{Bound, Claim, Host, Identifier, Name, Status};

/// The term of a registration (rule 7).
pub(crate) const TERM: Duration = Duration::from_secs(60);

/// The registered names in lower case, with their servers.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    bound: BTreeMap<Vec<u8>, Entry>,
}

#[derive(Debug)]
struct Entry {
    identifier: Identifier,
    host: IpAddr,
    port: u16,
    until: Time,
}

impl Registry {
    /// Removes expired registrations.
    pub(crate) fn forget(&mut self, now: Time) {
        self.bound.retain(|_, entry| entry.until > now);
    }

    /// Binds a name to its owner for one term.
    pub(crate) fn register(&mut self, now: Time, host: IpAddr, claim: &Claim<'_>) -> Status {
        let port = u16::try_from(claim.port).ok().filter(|port| *port != 0);
        let (Some(name), Some(port)) = (folded(claim.name), port) else { return Status::Wrong };
        match self.bound.get(&name) {
            Some(entry) if !entry.is_of(host, claim) => return Status::Taken,
            None if self.is_full_for(host) => return Status::Full,
            Some(_) | None => {}
        }
        let entry = Entry { identifier: claim.identifier, host, port, until: now + TERM };
        self.bound.insert(name, entry);
        Status::Ok
    }

    fn is_full_for(&self, host: IpAddr) -> bool {
        let of_host = self.bound.values().filter(|entry| entry.host == host).count();
        self.bound.len() >= BOUND_NAMES_MAX || of_host >= BOUND_NAMES_OF_HOST_MAX
    }

    /// Removes a registration at the request of its owner; returns true if it existed.
    pub(crate) fn withdraw(&mut self, host: IpAddr, claim: &Claim<'_>) -> bool {
        let own = folded(claim.name)
            .filter(|name| self.bound.get(name).is_some_and(|entry| entry.is_of(host, claim)));
        own.is_some_and(|name| self.bound.remove(&name).is_some())
    }

    /// Returns the server of a name, for a caller at an address.
    pub(crate) fn find(&self, from: IpAddr, name: Name<'_>) -> Option<Bound<'_>> {
        let (name, entry) = self.bound.get_key_value(&folded(name)?)?;
        entry.is_reached_from(from).then(|| entry.told(name))
    }

    /// Returns all servers, for a caller at an address.
    pub(crate) fn all(&self, from: IpAddr) -> impl Iterator<Item = Bound<'_>> {
        let reached = self.bound.iter().filter(move |(_, entry)| entry.is_reached_from(from));
        reached.map(|(name, entry)| entry.told(name))
    }
}

impl Entry {
    fn is_of(&self, host: IpAddr, claim: &Claim<'_>) -> bool {
        (self.identifier, self.host) == (claim.identifier, host)
    }

    fn is_reached_from(&self, from: IpAddr) -> bool {
        from.is_loopback() || !self.host.is_loopback()
    }

    fn told<'a>(&self, name: &'a [u8]) -> Bound<'a> {
        Bound {
            name: Name(name),
            identifier: self.identifier,
            host: Host(self.host),
            port: self.port.into(),
        }
    }
}

/// Returns a name in its stored form; None if it is invalid (rule 1).
fn folded(Name(name): Name<'_>) -> Option<Vec<u8>> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b".-_".contains(byte);
    (!name.is_empty() && name.iter().all(is_plain)).then(|| name.to_ascii_lowercase())
}
