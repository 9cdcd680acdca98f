//! Locks that threads hold for a few system calls. A fixed number of locks serves all objects.

use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use leasehold_fs::ObjectId;

/// The number of locks: large enough that two busy objects seldom share a lock. A lock is 8 bytes.
const LOCKS: usize = 1024;

/// Critical sections for each object. A change of an object holds the object's lock from the query
/// of the attributes before the change to the query of the attributes after it.
pub(crate) struct Locks {
    locks: Box<[Mutex<()>]>,
}

/// The locks of one or two objects.
pub(crate) struct Held<'a> {
    _first: MutexGuard<'a, ()>,
    _second: Option<MutexGuard<'a, ()>>,
}

impl Locks {
    pub(crate) fn new() -> Self {
        Self { locks: (0..LOCKS).map(|_| Mutex::new(())).collect() }
    }

    /// Waits for an object's lock.
    pub(crate) fn one(&self, object: &ObjectId) -> Held<'_> {
        Held { _first: lock(&self.locks[spread(object, LOCKS)]), _second: None }
    }

    /// Waits for the locks of two objects, which may be the same lock. The order of the locks is
    /// fixed, to avoid a deadlock.
    pub(crate) fn two(&self, one: &ObjectId, other: &ObjectId) -> Held<'_> {
        let (one, other) = (spread(one, LOCKS), spread(other, LOCKS));
        let first = lock(&self.locks[one.min(other)]);
        let second = (one != other).then(|| lock(&self.locks[one.max(other)]));
        Held { _first: first, _second: second }
    }
}

/// Locks a mutex, even if it is poisoned: the protected data is consistent at every moment, so a
/// panic of another thread cannot damage it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the index of the shard for a key, among `count` shards, at most 65,536.
pub(crate) fn spread(key: &impl Hash, count: usize) -> usize {
    let mut mixer = Mixer::default();
    key.hash(&mut mixer);
    // Use 16 bits from the middle of the hash to select the shard. The hash maps inside a shard use
    // the low and the high bits of the same hash, so these bits would distribute the keys of one
    // shard unevenly.
    usize::from((mixer.finish() >> 40 & 0xffff) as u16) % count
}

/// Builds hashers for maps with ids and inode numbers as keys. The kernel chooses these keys, and
/// not a client, so the hash need not protect against chosen keys and can be fast.
pub(crate) type Mixing = BuildHasherDefault<Mixer>;

/// A hasher that multiplies and folds eight bytes at a time.
#[derive(Default)]
pub(crate) struct Mixer(u64);

/// 2^64 divided by the golden ratio, rounded to an odd number. Its multiples are distributed evenly
/// over the 64-bit numbers.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        for word in words {
            self.write_u64(u64::from_ne_bytes(*word));
        }
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.write_u64(u64::from_ne_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        let product = (self.0 ^ word).wrapping_mul(SPREAD);
        self.0 = product ^ product >> 32;
    }

    fn write_u8(&mut self, byte: u8) {
        self.write_u64(byte.into());
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
