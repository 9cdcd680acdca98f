//! The order in which replies are forgotten.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

use leasehold_base::units::Time;

use super::{Harm, Key};

/// A place in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Age {
    /// When the reply was last given.
    pub(super) since: Time,
    /// Tells apart what was given in the same moment.
    number: u64,
    harm: Harm,
}

/// Kept replies, oldest first, over all clients, and for each by harm and then by age.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    all: BTreeMap<Age, Key>,
    of_client: BTreeMap<IpAddr, BTreeSet<(Harm, Age)>>,
    /// Clients by how many replies each has.
    by_count: BTreeSet<(usize, IpAddr)>,
    next_number: u64,
}

impl Queue {
    pub(super) const fn new() -> Self {
        Self {
            all: BTreeMap::new(),
            of_client: BTreeMap::new(),
            by_count: BTreeSet::new(),
            next_number: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn get(&self, age: Age) -> Option<&Key> {
        self.all.get(&age)
    }

    /// The oldest of all.
    pub(super) fn oldest(&self) -> Option<Age> {
        self.all.first_key_value().map(|(age, _)| *age)
    }

    /// Of the client that has most, the oldest of least harm.
    pub(super) fn most_dispensable(&self) -> Option<Age> {
        let (_, client) = self.by_count.last()?;
        self.of_client.get(client)?.first().map(|(_, age)| *age)
    }

    pub(super) fn push(&mut self, since: Time, key: Key, harm: Harm) -> Age {
        let age = Age { since, number: self.next_number, harm };
        self.next_number += 1;
        self.all.insert(age, key);
        let ages = self.of_client.entry(key.client).or_default();
        self.by_count.remove(&(ages.len(), key.client));
        ages.insert((harm, age));
        self.by_count.insert((ages.len(), key.client));
        age
    }

    /// Takes a reply out; it must be there.
    pub(super) fn remove(&mut self, age: Age) -> Key {
        let key = self.all.remove(&age).expect("an age is that of a kept reply");
        let ages = self.of_client.get_mut(&key.client).expect("a kept reply has a client");
        self.by_count.remove(&(ages.len(), key.client));
        ages.remove(&(age.harm, age));
        if ages.is_empty() {
            self.of_client.remove(&key.client);
        } else {
            self.by_count.insert((ages.len(), key.client));
        }
        key
    }

    /// Gives a reply another key of the same client.
    pub(super) fn rename(&mut self, age: Age, to: Key) {
        *self.all.get_mut(&age).expect("an age is that of a kept reply") = to;
    }

    /// Audits the three orders against each other.
    pub(super) fn check(&self) {
        for (age, key) in &self.all {
            assert!(
                self.of_client[&key.client].contains(&(age.harm, *age)),
                "each is among its client's"
            );
        }
        let counts = self.of_client.iter().map(|(client, ages)| (ages.len(), *client));
        assert_eq!(counts.clone().collect::<BTreeSet<_>>(), self.by_count, "clients are ranked");
        assert_eq!(counts.map(|(count, _)| count).sum::<usize>(), self.all.len());
    }
}
