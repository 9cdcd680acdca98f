//! The index of object locations, for a server that cannot open objects by the kernel's handles.
//! The store records the directory and name of an object whenever it sees a name of the object. The
//! size of the index is bounded: if the store needs an evicted object again, it searches for the
//! object.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;

use leasehold_fs::ObjectId;

use crate::locks::{Mixing, lock, spread};

/// The maximum number of objects in the index, about 150 bytes each.
pub(crate) const OBJECTS_MAX: usize = 1 << 18;

/// The number of shards: large enough that a few threads seldom use the same shard.
const SHARDS: usize = 64;

/// The objects and their locations.
pub(crate) struct Index {
    shards: Box<[Mutex<Shard>]>,
}

/// The index entry of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// The object was last seen under this name of this directory.
    At { directory: ObjectId, name: Box<[u8]> },
    /// The last name of the object was removed, or a search did not find the object.
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

    /// Returns the entry of an object.
    pub(crate) fn find(&self, id: &ObjectId) -> Option<Known> {
        let mut shard = lock(self.shard(id));
        let row = shard.objects.get_mut(id)?;
        row.used = true;
        Some(row.known.clone())
    }

    /// Records a name of an object.
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

    /// Records that an object has no name any more.
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

    /// Removes the first row that was not used since eviction last examined it.
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
    fn the_last_record_counts() {
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
    fn unused_rows_are_evicted_first() {
        let index = Index::new();
        let count = u32::try_from(OBJECTS_MAX * 2).expect("it is small");
        for number in 0..count {
            index.insert(&id(number), &id(0), b"name");
            // The object 7 is used all the time, like a directory, so eviction must keep it.
            assert!(index.find(&id(7)).is_some() || number < 7);
        }
        let objects: usize = index.shards.iter().map(|shard| lock(shard).objects.len()).sum();
        assert!((OBJECTS_MAX / 2..=OBJECTS_MAX).contains(&objects), "{objects}");
        let rounds: usize = index.shards.iter().map(|shard| lock(shard).round.len()).sum();
        assert_eq!(rounds, objects);
        assert_eq!(index.find(&id(count - 1)), at(0, b"name"));
    }
}
