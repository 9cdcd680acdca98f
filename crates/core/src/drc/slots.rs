//! The free slots for notes.

use std::collections::BTreeSet;

/// The taken and the free slots, which are numbered from zero. The lowest free slot is taken first,
/// so that few slots are ever used.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    /// The end of the used slots: no slot with this number or a greater number was ever taken.
    end: u32,
    /// The free slots below `end`.
    free: BTreeSet<u32>,
}

impl Slots {
    pub(super) const fn new() -> Self {
        Self { end: 0, free: BTreeSet::new() }
    }

    pub(super) fn take(&mut self) -> u32 {
        self.free.pop_first().unwrap_or_else(|| {
            self.end += 1;
            self.end - 1
        })
    }

    /// Takes this slot; returns false if it is already taken.
    pub(super) fn take_this(&mut self, slot: u32) -> bool {
        if slot >= self.end {
            self.free.extend(self.end..slot);
            self.end = slot + 1;
            return true;
        }
        self.free.remove(&slot)
    }

    pub(super) fn give_back(&mut self, slot: u32) {
        assert!(slot < self.end && self.free.insert(slot), "a slot is given back once");
    }

    /// Returns true if a slot is taken.
    pub(super) fn is_taken(&self, slot: u32) -> bool {
        slot < self.end && !self.free.contains(&slot)
    }

    /// Returns the number of taken slots.
    pub(super) fn taken(&self) -> usize {
        self.end as usize - self.free.len()
    }
}
