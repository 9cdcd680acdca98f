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
    of_client: BTreeMap<IpAddr, Ages>,
    next_number: u64,
}

/// The replies of one client, by harm.
#[derive(Clone, Debug, Default)]
struct Ages {
    late: BTreeSet<Age>,
    always: BTreeSet<Age>,
}

impl Ages {
    fn len(&self) -> usize {
        self.late.len() + self.always.len()
    }

    fn of(&mut self, harm: Harm) -> &mut BTreeSet<Age> {
        match harm {
            Harm::Late => &mut self.late,
            Harm::Always => &mut self.always,
        }
    }
}

impl Queue {
    pub(super) const fn new() -> Self {
        Self { all: BTreeMap::new(), of_client: BTreeMap::new(), next_number: 0 }
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

    /// Of the client that has most, the oldest of least harm. Looks at every client: there are few
    /// while there are many replies of one, and to rank them at each call would cost more.
    pub(super) fn most_dispensable(&self) -> Option<Age> {
        let ages = self.of_client.values().max_by_key(|ages| ages.len())?;
        ages.late.first().or_else(|| ages.always.first()).copied()
    }

    pub(super) fn push(&mut self, since: Time, key: Key, harm: Harm) -> Age {
        let age = Age { since, number: self.next_number, harm };
        self.next_number += 1;
        self.all.insert(age, key);
        self.of_client.entry(key.client).or_default().of(harm).insert(age);
        age
    }

    /// Takes a reply out; it must be there.
    pub(super) fn remove(&mut self, age: Age) -> Key {
        let key = self.all.remove(&age).expect("an age is that of a kept reply");
        let ages = self.of_client.get_mut(&key.client).expect("a kept reply has a client");
        ages.of(age.harm).remove(&age);
        if ages.len() == 0 {
            self.of_client.remove(&key.client);
        }
        key
    }

    /// Gives a reply another key of the same client.
    pub(super) fn rename(&mut self, age: Age, to: Key) {
        *self.all.get_mut(&age).expect("an age is that of a kept reply") = to;
    }

    /// Audits the orders against each other.
    pub(super) fn check(&self) {
        for (age, key) in &self.all {
            let ages = &self.of_client[&key.client];
            let of_harm = if age.harm == Harm::Late { &ages.late } else { &ages.always };
            assert!(of_harm.contains(age), "each is among its client's");
        }
        assert!(self.of_client.values().all(|ages| ages.len() > 0), "clients have replies");
        assert_eq!(self.of_client.values().map(Ages::len).sum::<usize>(), self.all.len());
    }
}
