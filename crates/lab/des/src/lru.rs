//! A least-recently-used cache of numbered blocks, each with the end of its lease.

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Slot {
    block: u32,
    newer: u32,
    older: u32,
    lease_end: f64,
}

/// A cache of at most `capacity` blocks; each operation takes constant time.
#[derive(Clone, Debug)]
pub(crate) struct Lru {
    /// The slot of each block, if it is cached.
    place: Vec<u32>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
    capacity: usize,
}

impl Lru {
    pub(crate) fn new(objects: usize, capacity: usize) -> Self {
        Self {
            place: vec![NONE; objects],
            slots: Vec::new(),
            free: Vec::new(),
            newest: NONE,
            oldest: NONE,
            capacity: capacity.min(objects).max(1),
        }
    }

    /// Returns the bytes that a full cache takes.
    pub(crate) fn bytes(objects: usize, capacity: usize) -> usize {
        objects * size_of::<u32>() + capacity.min(objects) * size_of::<Slot>()
    }

    /// Returns the end of the lease of a cached block, and makes the block the newest.
    pub(crate) fn use_block(&mut self, block: u32) -> Option<f64> {
        let slot = self.place[block as usize];
        if slot == NONE {
            return None;
        }
        self.unlink(slot);
        self.link_newest(slot);
        Some(self.slots[slot as usize].lease_end)
    }

    /// Caches a block under a lease, evicting the oldest block if the cache is full.
    pub(crate) fn insert(&mut self, block: u32, lease_end: f64) {
        if self.use_block(block).is_some() {
            self.slots[self.newest as usize].lease_end = lease_end;
            return;
        }
        if self.slots.len() - self.free.len() == self.capacity {
            self.evict(self.slots[self.oldest as usize].block);
        }
        let fresh = Slot { block, newer: NONE, older: NONE, lease_end };
        let slot = if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = fresh;
            slot
        } else {
            self.slots.push(fresh);
            u32::try_from(self.slots.len() - 1).expect("a cache holds fewer than 2^32 blocks")
        };
        self.place[block as usize] = slot;
        self.link_newest(slot);
    }

    /// Removes a block, if it is cached.
    pub(crate) fn evict(&mut self, block: u32) {
        let slot = core::mem::replace(&mut self.place[block as usize], NONE);
        if slot != NONE {
            self.unlink(slot);
            self.free.push(slot);
        }
    }

    fn unlink(&mut self, slot: u32) {
        let Slot { newer, older, .. } = self.slots[slot as usize];
        match self.slots.get_mut(newer as usize) {
            Some(neighbour) => neighbour.older = older,
            None => self.newest = older,
        }
        match self.slots.get_mut(older as usize) {
            Some(neighbour) => neighbour.newer = newer,
            None => self.oldest = newer,
        }
    }

    fn link_newest(&mut self, slot: u32) {
        let before = core::mem::replace(&mut self.newest, slot);
        self.slots[slot as usize].newer = NONE;
        self.slots[slot as usize].older = before;
        match self.slots.get_mut(before as usize) {
            Some(neighbour) => neighbour.newer = slot,
            None => self.oldest = slot,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_base::random::Random;

    #[test]
    fn behaves_like_a_list_moved_to_front() {
        let mut random = Random::from_seed(11);
        let mut cache = Lru::new(20, 5);
        let mut list: Vec<(u32, f64)> = Vec::new();
        for step in 0..20_000 {
            let block = u32::try_from(random.below(20)).expect("small");
            let known = list.iter().position(|(b, _)| *b == block);
            match random.below(3) {
                0 => {
                    assert_eq!(cache.use_block(block), known.map(|at| list[at].1));
                    if let Some(at) = known {
                        let entry = list.remove(at);
                        list.insert(0, entry);
                    }
                }
                1 => {
                    cache.insert(block, f64::from(step));
                    if let Some(at) = known {
                        list.remove(at);
                    }
                    list.insert(0, (block, f64::from(step)));
                    list.truncate(5);
                }
                _ => {
                    cache.evict(block);
                    list.retain(|(b, _)| *b != block);
                }
            }
        }
    }
}
