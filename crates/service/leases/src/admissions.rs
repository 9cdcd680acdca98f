//! The clients that the registry has admitted, so that their calls need no step of the registry.
//!
//! The calls of a client usually arrive on one connection and so in one thread. Each client's entry
//! is in one of several parts with a mutex each, and threads with different clients rarely use the
//! same mutex. The registry changes the entries while its own mutex is held: it adds an entry when
//! it admits a call, and removes the entry when it forgets the client.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use leasehold_base::units::Time;
use leasehold_core::leases::Client;
use leasehold_core::leases::clients::{Clients, Name};

use crate::registry::ReturnPath;

/// The number of parts.
const PARTS: usize = 16;

/// The clients that the registry has admitted.
#[derive(Default)]
pub(crate) struct Admissions {
    admitted: [Mutex<BTreeMap<Name, Admitted>>; PARTS],
    /// The clients on the stable list, which may request leases.
    listed: [Mutex<BTreeSet<Client>>; PARTS],
}

/// An admitted client.
struct Admitted {
    client: Client,
    instance: u64,
    /// The return path of the last call; `None` after its connection has closed.
    way: Option<ReturnPath>,
    /// The time of the last call.
    heard: Time,
}

impl Admissions {
    /// Returns the client of a call, if the registry has admitted an earlier call of the same
    /// instance of the client on the same return path.
    pub(crate) fn admit(
        &self,
        now: Time,
        way: ReturnPath,
        (name, instance): (Name, u64),
    ) -> Option<Client> {
        let mut admitted = lock(self.part(name));
        let known = admitted.get_mut(&name)?;
        if (known.instance, known.way) != (instance, Some(way)) {
            return None;
        }
        known.heard = known.heard.max(now);
        Some(known.client)
    }

    /// Records a client that the registry has admitted.
    pub(crate) fn remember(
        &self,
        heard: Time,
        way: ReturnPath,
        (name, instance): (Name, u64),
        client: Client,
    ) {
        let way = Some(way);
        lock(self.part(name)).insert(name, Admitted { client, instance, way, heard });
    }

    /// Reports the times of the last calls to the registry.
    pub(crate) fn report(&self, epoch: u64, clients: &mut Clients) {
        for part in &self.admitted {
            for (name, Admitted { instance, heard, .. }) in lock(part).iter() {
                // The registry knows each admitted client, so it does not refuse the client.
                let _ = clients.admit(*heard, (*name, *instance), epoch);
            }
        }
    }

    /// Makes the registry admit the next call of a client, because the client's connection has
    /// closed. The time of the last call stays: the registry has not received it yet.
    pub(crate) fn forget_way(&self, name: Name) {
        if let Some(known) = lock(self.part(name)).get_mut(&name) {
            known.way = None;
        }
    }

    /// Forgets a client.
    pub(crate) fn forget(&self, name: Name, client: Client) {
        let mut admitted = lock(self.part(name));
        if admitted.get(&name).is_some_and(|known| known.client == client) {
            admitted.remove(&name);
        }
        drop(admitted);
        lock(self.listed_part(client)).remove(&client);
    }

    /// Records that the stable list contains a client.
    pub(crate) fn list(&self, client: Client) {
        lock(self.listed_part(client)).insert(client);
    }

    /// Returns true if the stable list contains a client.
    pub(crate) fn is_listed(&self, client: Client) -> bool {
        lock(self.listed_part(client)).contains(&client)
    }

    fn part(&self, Name(name): Name) -> &Mutex<BTreeMap<Name, Admitted>> {
        let folded = name.into_iter().fold(0, |all, byte| all ^ byte);
        &self.admitted[usize::from(folded) % PARTS]
    }

    fn listed_part(&self, Client(number): Client) -> &Mutex<BTreeSet<Client>> {
        let [.., low] = number.to_be_bytes();
        &self.listed[usize::from(low) % PARTS]
    }
}

fn lock<T>(part: &Mutex<T>) -> MutexGuard<'_, T> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use leasehold_base::units::ConnectionId;

    use super::*;

    const NAME: Name = Name([7; 16]);
    const ONE: Client = Client(1);

    fn way(slot: u32) -> ReturnPath {
        ReturnPath::Connection(ConnectionId { slot, ..ConnectionId::default() })
    }

    #[test]
    fn same_instance_on_the_same_connection_is_admitted() {
        let admissions = Admissions::default();
        assert_eq!(admissions.admit(Time::ZERO, way(1), (NAME, 1)), None);
        admissions.remember(Time::ZERO, way(1), (NAME, 1), ONE);
        assert_eq!(admissions.admit(Time::ZERO, way(1), (NAME, 1)), Some(ONE));
        assert_eq!(admissions.admit(Time::ZERO, way(2), (NAME, 1)), None, "another connection");
        assert_eq!(admissions.admit(Time::ZERO, way(1), (NAME, 2)), None, "another instance");
        admissions.forget_way(NAME);
        assert_eq!(admissions.admit(Time::ZERO, way(1), (NAME, 1)), None);
    }

    /// The registry forgets the earlier instance of a client after it has admitted the later one.
    #[test]
    fn later_instance_outlives_the_earlier_one() {
        let admissions = Admissions::default();
        admissions.list(ONE);
        admissions.remember(Time::ZERO, way(1), (NAME, 2), Client(2));
        admissions.forget(NAME, ONE);
        assert!(!admissions.is_listed(ONE));
        assert_eq!(admissions.admit(Time::ZERO, way(1), (NAME, 2)), Some(Client(2)));
        admissions.forget(NAME, Client(2));
        assert_eq!(admissions.admit(Time::ZERO, way(1), (NAME, 2)), None);
    }
}
