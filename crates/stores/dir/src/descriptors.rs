//! The table of open objects, with a bounded size.
//!
//! The store finds an open object by its id, and also by its inode number. If the store reads an
//! inode number while the object with this number is open, the number identifies that object,
//! because the kernel does not reuse the number of an open object. Both maps consist of shards with
//! a lock each. Eviction removes an object that was not used since eviction last examined it
//! ("second chance").

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use leasehold_fs::ObjectId;

use crate::locks::{Mixing, lock, spread};
use crate::object::Object;

/// The maximum number of shards: large enough that a few threads seldom use the same shard.
const SHARDS_MAX: usize = 64;

/// The minimum number of objects in a shard: in a smaller shard, eviction is nearly random.
const SHARD_OBJECTS_MIN: usize = 16;

/// The open objects.
pub(crate) struct Descriptors {
    by_id: Box<[Mutex<Shard>]>,
    by_number: Box<[Mutex<Numbers>]>,
    shard_max: usize,
    opened: AtomicU64,
}

/// A point in time, measured as the number of objects that the store had opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

type Numbers = HashMap<u64, Arc<Object>, Mixing>;

#[derive(Default)]
struct Shard {
    objects: HashMap<ObjectId, Arc<Object>, Mixing>,
    /// The order in which eviction examines the objects; some entries may refer to objects that
    /// were removed.
    round: VecDeque<Weak<Object>>,
}

impl Descriptors {
    /// Creates a table that keeps about `descriptors_max` objects open, each with one descriptor.
    pub(crate) fn new(descriptors_max: usize) -> Self {
        let shards = (descriptors_max / SHARD_OBJECTS_MIN).clamp(1, SHARDS_MAX);
        Self {
            by_id: (0..shards).map(|_| Mutex::default()).collect(),
            by_number: (0..shards).map(|_| Mutex::default()).collect(),
            shard_max: (descriptors_max / shards).max(1),
            opened: AtomicU64::new(0),
        }
    }

    /// Returns the object of an id, if it is open.
    pub(crate) fn by_id(&self, id: &ObjectId) -> Option<Arc<Object>> {
        let object = lock(self.id_shard(id)).objects.get(id).map(Arc::clone);
        object.inspect(|object| object.touch())
    }

    /// Returns the current point in time.
    pub(crate) fn now(&self) -> Moment {
        Moment(self.opened.load(Ordering::SeqCst))
    }

    /// Returns the object with an inode number that the caller read after `moment`, if the object
    /// was open at `moment` and still is.
    pub(crate) fn by_number(&self, number: u64, moment: Moment) -> Option<Arc<Object>> {
        let object = lock(self.number_shard(number)).get(&number).map(Arc::clone);
        object.filter(|object| object.opened < moment)
    }

    /// Keeps an object open. Returns the open object with this id, which may be another one that
    /// was opened earlier.
    pub(crate) fn insert(&self, mut object: Object) -> Arc<Object> {
        object.opened = Moment(self.opened.fetch_add(1, Ordering::SeqCst));
        let object = Arc::new(object);
        let mut shard = lock(self.id_shard(&object.id));
        if let Some(present) = shard.objects.get(&object.id) {
            return Arc::clone(present);
        }
        shard.objects.insert(object.id, Arc::clone(&object));
        shard.round.push_back(Arc::downgrade(&object));
        // Both maps change under the lock of the id's shard, so neither map keeps an object that
        // the other has dropped.
        lock(self.number_shard(object.number)).insert(object.number, Arc::clone(&object));
        let evicted = if shard.objects.len() > self.shard_max { shard.evict() } else { None };
        if let Some(evicted) = &evicted {
            self.forget_number(evicted);
        }
        drop(shard);
        // The drop may close the object, which can take long, so it happens after the release of
        // the lock.
        drop(evicted);
        object
    }

    /// Removes an object from the table, so that the last user closes it.
    pub(crate) fn remove(&self, object: &Arc<Object>) {
        let mut shard = lock(self.id_shard(&object.id));
        if shard.holds(object) {
            shard.objects.remove(&object.id);
            self.forget_number(object);
            shard.tidy();
        }
    }

    /// Returns every open object.
    pub(crate) fn all(&self) -> impl Iterator<Item = Arc<Object>> + '_ {
        self.by_id
            .iter()
            .flat_map(|shard| lock(shard).objects.values().map(Arc::clone).collect::<Vec<_>>())
    }

    fn forget_number(&self, object: &Arc<Object>) {
        let mut shard = lock(self.number_shard(object.number));
        if shard.get(&object.number).is_some_and(|present| Arc::ptr_eq(present, object)) {
            shard.remove(&object.number);
        }
    }

    fn id_shard(&self, id: &ObjectId) -> &Mutex<Shard> {
        &self.by_id[spread(id, self.by_id.len())]
    }

    fn number_shard(&self, number: u64) -> &Mutex<Numbers> {
        &self.by_number[spread(&number, self.by_number.len())]
    }
}

impl Shard {
    /// Removes and returns the first object that was not used since eviction last examined it.
    /// Takes an object with unsynced data only if there is no other candidate.
    fn evict(&mut self) -> Option<Arc<Object>> {
        let mut last = None;
        for _ in 0..self.round.len() * 2 {
            let Some(object) = self.round.pop_front()?.upgrade() else { continue };
            if !self.holds(&object) {
                continue;
            }
            if !object.take_used() && !object.descriptor().is_dirty() {
                return self.objects.remove(&object.id);
            }
            self.round.push_back(Arc::downgrade(&object));
            last = Some(object.id);
        }
        self.objects.remove(&last?)
    }

    /// Removes the entries of dropped objects from the order when they are the majority.
    fn tidy(&mut self) {
        if self.round.len() > self.objects.len() * 2 + 16 {
            self.round.retain(|object| object.strong_count() > 0);
        }
    }

    fn holds(&self, object: &Arc<Object>) -> bool {
        self.objects.get(&object.id).is_some_and(|present| Arc::ptr_eq(present, object))
    }
}

#[cfg(test)]
mod tests {
    use leasehold_fs::FileType;
    use rustix::fs::{CWD, Mode, OFlags, openat};

    use super::*;
    use crate::object::{Descriptor, Reach};

    fn id(number: u64) -> ObjectId {
        ObjectId::new(&number.to_be_bytes()).expect("eight bytes fit")
    }

    fn object(number: u64) -> Object {
        let file = openat(CWD, c".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        let file = file.expect("there is one");
        Object::new(id(number), number, FileType::Directory, Descriptor::new(file, Reach::Name))
    }

    #[test]
    fn an_object_is_found_both_ways_until_it_is_removed() {
        let open = Descriptors::new(100);
        let first = open.insert(object(1));
        let again = open.insert(object(1));
        assert!(Arc::ptr_eq(&first, &again), "an id has one object");
        let found = open.by_number(1, open.now());
        assert!(found.is_some_and(|found| Arc::ptr_eq(&found, &first)));
        assert!(open.by_id(&id(1)).is_some_and(|found| Arc::ptr_eq(&found, &first)));
        open.remove(&first);
        assert!(open.by_id(&id(1)).is_none() && open.by_number(1, open.now()).is_none());
        let second = open.insert(object(1));
        // Removing the previous object late must not remove the current object with the same id.
        open.remove(&first);
        assert!(open.by_id(&id(1)).is_some_and(|found| Arc::ptr_eq(&found, &second)));
    }

    /// A number that was read before the open may have belonged to another object.
    #[test]
    fn a_number_read_before_the_open_finds_nothing() {
        let open = Descriptors::new(100);
        open.insert(object(1));
        let moment = open.now();
        open.insert(object(2));
        assert!(open.by_number(1, moment).is_some());
        assert!(open.by_number(2, moment).is_none());
        assert!(open.by_number(2, open.now()).is_some());
    }

    #[test]
    fn the_number_of_open_objects_is_bounded() {
        const MAX: u64 = 128;
        let open = Descriptors::new(128);
        open.insert(object(0));
        for number in 1..MAX * 20 {
            open.insert(object(number));
            assert!(open.by_id(&id(0)).is_some(), "it is in use");
        }
        let all: Vec<_> = open.all().collect();
        assert!((MAX / 2..=MAX).contains(&(all.len() as u64)), "{}", all.len());
        for object in all {
            // The two maps and this list each have a reference. A further reference would show that
            // an evicted object stays open.
            assert_eq!(Arc::strong_count(&object), 3);
        }
        let numbers: usize = open.by_number.iter().map(|shard| lock(shard).len()).sum();
        assert_eq!(numbers, open.all().count());
    }

    #[test]
    fn rounds_do_not_grow_when_objects_come_and_go() {
        let open = Descriptors::new(16);
        for number in 0..1000 {
            let object = open.insert(object(number));
            open.remove(&object);
        }
        let rounds: usize = open.by_id.iter().map(|shard| lock(shard).round.len()).sum();
        assert!(rounds < 100, "{rounds}");
    }
}
