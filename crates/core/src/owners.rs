//! The clients and owners of NFSv4 state, which opens and locks share.
//!
//! An owner is a user or a process of a client (RFC 8881 section 9.1.1). Its name may have 1024
//! bytes, and one owner usually has much state; so each state has the small number of its owner,
//! and the table `Owners` has the names.

mod grace;

use core::fmt;
use std::collections::BTreeMap;

use leasehold_base::limits::state::OWNER_NAME_BYTES_MAX;

pub use grace::Grace;
pub(crate) use grace::GraceError;

/// The client id of an NFSv4 client (RFC 8881 section 2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Client(pub u64);

/// The name of an open-owner or lock-owner, unique among the owners of its client: at most 1024
/// bytes.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Box<[u8]>);

impl Name {
    /// Returns a name with these bytes; `None` if the bytes are too many.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        (bytes.len() <= OWNER_NAME_BYTES_MAX).then(|| Self(bytes.into()))
    }

    /// Returns the bytes of the name.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

/// The number of an owner in its table. A number is reused after the last state of its owner has
/// ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OwnerNumber(u32);

impl OwnerNumber {
    pub(crate) const FIRST: Self = Self(0);
    pub(crate) const LAST: Self = Self(u32::MAX);
}

/// The owners that have state, each with the number of its states. An owner leaves the table when
/// its last state ends.
#[derive(Clone, Debug)]
pub(crate) struct Owners<K> {
    numbers: BTreeMap<K, OwnerNumber>,
    records: Vec<Option<Record<K>>>,
    free: Vec<OwnerNumber>,
    most: usize,
}

#[derive(Clone, Debug)]
struct Record<K> {
    key: K,
    states: u32,
}

impl<K: Ord + Clone> Owners<K> {
    /// Creates an empty table for at most this number of owners.
    pub(crate) const fn new(most: usize) -> Self {
        Self { numbers: BTreeMap::new(), records: Vec::new(), free: Vec::new(), most }
    }

    pub(crate) fn find(&self, key: &K) -> Option<OwnerNumber> {
        self.numbers.get(key).copied()
    }

    /// Returns the number of an owner, which may have no state yet; `None` if the table is full. A
    /// call of [`Self::settle`] must follow.
    pub(crate) fn enter(&mut self, key: &K) -> Option<OwnerNumber> {
        if let Some(number) = self.find(key) {
            return Some(number);
        }
        if self.numbers.len() >= self.most {
            return None;
        }
        let record = Some(Record { key: key.clone(), states: 0 });
        let number = match self.free.pop() {
            Some(number) => {
                self.records[number.0 as usize] = record;
                number
            }
            None => {
                let number = OwnerNumber(u32::try_from(self.records.len()).ok()?);
                self.records.push(record);
                number
            }
        };
        self.numbers.insert(key.clone(), number);
        Some(number)
    }

    /// Returns true if the table has the owner or can add it.
    pub(crate) fn has_room(&self, key: &K) -> bool {
        self.numbers.len() < self.most || self.numbers.contains_key(key)
    }

    /// Adds states to an owner's count.
    pub(crate) fn add(&mut self, number: OwnerNumber, states: usize) {
        let record = self.record_mut(number);
        record.states += u32::try_from(states).expect("tables limit the number of states");
    }

    /// Subtracts states from an owner's count.
    pub(crate) fn subtract(&mut self, number: OwnerNumber, states: usize) {
        let record = self.record_mut(number);
        let states = u32::try_from(states).expect("tables limit the number of states");
        record.states = record.states.checked_sub(states).expect("each state was added");
    }

    /// Removes an owner without states.
    pub(crate) fn settle(&mut self, number: OwnerNumber) {
        if self.states(number) == 0 {
            let record = self.records[number.0 as usize].take().expect("the owner has a record");
            self.numbers.remove(&record.key);
            self.free.push(number);
        }
    }

    /// Returns the number of states of an owner.
    pub(crate) fn states(&self, number: OwnerNumber) -> usize {
        self.record(number).states as usize
    }

    pub(crate) fn key(&self, number: OwnerNumber) -> &K {
        &self.record(number).key
    }

    /// Lists the owners from a key on, in the order of their keys.
    pub(crate) fn from(&self, first: &K) -> impl Iterator<Item = (&K, OwnerNumber)> {
        self.numbers.range(first..).map(|(key, number)| (key, *number))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = OwnerNumber> + '_ {
        self.numbers.values().copied()
    }

    /// Audits the table.
    pub(crate) fn check(&self) {
        assert!(self.numbers.len() <= self.most, "owners are bounded");
        assert_eq!(self.numbers.len() + self.free.len(), self.records.len(), "numbers are reused");
        for (key, number) in &self.numbers {
            assert!(self.key(*number) == key, "a number identifies its owner");
            assert_ne!(self.states(*number), 0, "each owner has state");
        }
    }

    fn record(&self, number: OwnerNumber) -> &Record<K> {
        self.records[number.0 as usize].as_ref().expect("a number in use has a record")
    }

    fn record_mut(&mut self, number: OwnerNumber) -> &mut Record<K> {
        self.records[number.0 as usize].as_mut().expect("a number in use has a record")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_keeps_its_number_until_its_last_state_ends() {
        let mut owners = Owners::new(2);
        let number = owners.enter(&"a").expect("there is room");
        owners.add(number, 2);
        assert_eq!(owners.enter(&"a"), Some(number));
        owners.subtract(number, 1);
        owners.settle(number);
        assert_eq!((owners.find(&"a"), *owners.key(number)), (Some(number), "a"));
        owners.subtract(number, 1);
        owners.settle(number);
        assert_eq!(owners.find(&"a"), None);
        assert_eq!(owners.enter(&"b"), Some(number), "a free number is reused");
        owners.add(number, 1);
        owners.check();
    }

    #[test]
    fn a_full_table_accepts_no_further_owner() {
        let mut owners = Owners::new(1);
        let number = owners.enter(&1).expect("there is room");
        owners.add(number, 1);
        assert_eq!(owners.enter(&2), None);
        assert_eq!(owners.enter(&1), Some(number));
    }

    #[test]
    fn a_name_has_at_most_1024_bytes() {
        assert!(Name::new(&[7; 1024]).is_some());
        assert!(Name::new(&[7; 1025]).is_none());
        assert_eq!(format!("{:?}", Name::new(b"a\n").expect("a short name")), "a\\n");
    }
}
