//! Locks that threads hold for a few system calls, a fixed number for all objects.

use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use leasehold_fs::ObjectId;

/// Large enough that two busy objects seldom share a lock; a lock is 8 bytes.
const LOCKS: usize = 1024;

/// Critical sections by object: a change of an object holds the object's lock from the attributes
/// before to the attributes after.
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

    /// Waits for the locks of two objects, which may share one lock; always in the same order, to
    /// avoid a deadlock.
    pub(crate) fn two(&self, one: &ObjectId, other: &ObjectId) -> Held<'_> {
        let (one, other) = (spread(one, LOCKS), spread(other, LOCKS));
        let first = lock(&self.locks[one.min(other)]);
        let second = (one != other).then(|| lock(&self.locks[one.max(other)]));
        Held { _first: first, _second: second }
    }
}

/// Locks; the protected data is consistent at every moment, so a panic elsewhere does no harm.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the number of the part, of `count` parts and 65,536 at most, for a key.
pub(crate) fn spread(key: &impl Hash, count: usize) -> usize {
    let mut mixer = Mixer::default();
    key.hash(&mut mixer);
    // Bits from the middle: maps within a part use the low and the high bits.
    usize::from((mixer.finish() >> 40 & 0xffff) as u16) % count
}

/// Builds hashers for maps by ids and inode numbers. The kernel chooses these keys, and not a
/// client, so speed counts and protection against chosen keys does not.
pub(crate) type Mixing = BuildHasherDefault<Mixer>;

/// Multiplies and folds eight bytes at a time.
#[derive(Default)]
pub(crate) struct Mixer(u64);

/// 2^64 divided by the golden ratio, odd: its multiples spread evenly.
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
