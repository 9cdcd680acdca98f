//! Where the objects are, for a server that may not open them by the kernel's handles: each
//! object's directory and name, noted whenever a name is met. Bounded: what is not used goes, and
//! is searched for when it is wanted again.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;

use leasehold_fs::ObjectId;

use crate::locks::{Mixing, lock, spread};

/// How many objects are kept in mind, about 150 bytes each.
pub(crate) const OBJECTS_MAX: usize = 1 << 18;

/// Enough that a few threads seldom meet in one.
const SHARDS: usize = 64;

/// The objects and their places.
pub(crate) struct Index {
    shards: Box<[Mutex<Shard>]>,
}

/// What is known of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// It was last seen under this name of this directory.
    At { directory: ObjectId, name: Box<[u8]> },
    /// Its last name was removed, or it was searched for in vain.
    Gone,
}

#[derive(Default)]
struct Shard {
    objects: HashMap<ObjectId, Row, Mixing>,
    round: VecDeque<ObjectId>,
}

struct Row {
    known: Known,
    used: bool,
}

impl Index {
    pub(crate) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }

    /// What is known of an object.
    pub(crate) fn find(&self, id: &ObjectId) -> Option<Known> {
        let mut shard = lock(self.shard(id));
        let row = shard.objects.get_mut(id)?;
        row.used = true;
        Some(row.known.clone())
    }

    /// Notes a name of an object.
    pub(crate) fn insert(&self, id: &ObjectId, directory: &ObjectId, name: &[u8]) {
        let mut shard = lock(self.shard(id));
        if let Some(Row { known: Known::At { directory: old, name: old_name }, .. }) =
            shard.objects.get(id)
            && old == directory
            && **old_name == *name
        {
            return;
        }
        shard.set(id, Known::At { directory: *directory, name: name.into() });
    }

    /// Notes that an object has no name any more.
    pub(crate) fn remove(&self, id: &ObjectId) {
        lock(self.shard(id)).set(id, Known::Gone);
    }

    fn shard(&self, id: &ObjectId) -> &Mutex<Shard> {
        &self.shards[spread(id, SHARDS)]
    }
}

impl Shard {
    fn set(&mut self, id: &ObjectId, known: Known) {
        if self.objects.insert(*id, Row { known, used: false }).is_none() {
            self.round.push_back(*id);
            if self.objects.len() > OBJECTS_MAX / SHARDS {
                self.evict();
            }
        }
    }

    /// Drops the first row that was not used since the last round.
    fn evict(&mut self) {
        while let Some(id) = self.round.pop_front() {
            match self.objects.get_mut(&id) {
                Some(row) if row.used => {
                    row.used = false;
                    self.round.push_back(id);
                }
                _ => {
                    self.objects.remove(&id);
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u32) -> ObjectId {
        ObjectId::new(&number.to_be_bytes()).expect("four bytes fit")
    }

    fn at(directory: u32, name: &[u8]) -> Option<Known> {
        Some(Known::At { directory: id(directory), name: name.into() })
    }

    #[test]
    fn the_last_word_counts() {
        let index = Index::new();
        assert_eq!(index.find(&id(1)), None);
        index.insert(&id(1), &id(0), b"a");
        index.insert(&id(1), &id(0), b"b");
        assert_eq!(index.find(&id(1)), at(0, b"b"));
        index.remove(&id(1));
        assert_eq!(index.find(&id(1)), Some(Known::Gone));
        index.insert(&id(1), &id(2), b"b");
        assert_eq!(index.find(&id(1)), at(2, b"b"));
    }

    #[test]
    fn what_is_not_used_goes_when_there_is_too_much() {
        let index = Index::new();
        let count = u32::try_from(OBJECTS_MAX * 2).expect("it is small");
        for number in 0..count {
            index.insert(&id(number), &id(0), b"name");
            // In use all the time, as a directory is.
            assert!(index.find(&id(7)).is_some() || number < 7);
        }
        let objects: usize = index.shards.iter().map(|shard| lock(shard).objects.len()).sum();
        assert!((OBJECTS_MAX / 2..=OBJECTS_MAX).contains(&objects), "{objects}");
        let rounds: usize = index.shards.iter().map(|shard| lock(shard).round.len()).sum();
        assert_eq!(rounds, objects);
        assert_eq!(index.find(&id(count - 1)), at(0, b"name"));
    }
}
