//! A slab: values under small slot numbers, which are reused. A generation distinguishes the values
//! that occupy one slot one after the other.

/// Identifies a value of a slab. A later value in the same slot has another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// The slot.
    pub(crate) index: u32,
    /// The number of times that the slot was emptied before.
    pub(crate) generation: u32,
}

/// Values under keys.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn insert(&mut self, value: T) -> Key {
        if let Some(index) = self.free.pop() {
            let (generation, slot) = &mut self.slots[index as usize];
            *slot = Some(value);
            return Key { index, generation: *generation };
        }
        let index = u32::try_from(self.slots.len()).expect("limits are far below 2^32 values");
        self.slots.push((0, Some(value)));
        Key { index, generation: 0 }
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        match self.slots.get_mut(key.index as usize) {
            Some((generation, slot)) if *generation == key.generation => slot.as_mut(),
            _ => None,
        }
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let (generation, slot) = self.slots.get_mut(key.index as usize)?;
        if *generation != key.generation {
            return None;
        }
        let value = slot.take()?;
        *generation = generation.wrapping_add(1);
        self.free.push(key.index);
        Some(value)
    }

    /// Returns all values with their keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        (0..).zip(&self.slots).filter_map(|(index, (generation, slot))| {
            Some((Key { index, generation: *generation }, slot.as_ref()?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_invalid_after_removal() {
        let mut slab = Slab::new();
        let (a, b) = (slab.insert('a'), slab.insert('b'));
        assert_eq!((slab.len(), slab.remove(a), slab.remove(a)), (2, Some('a'), None));
        let c = slab.insert('c');
        assert_eq!(c.index, a.index);
        assert_eq!(slab.get_mut(a), None);
        assert_eq!(slab.remove(a), None);
        assert_eq!(slab.get_mut(c), Some(&mut 'c'));
        assert_eq!(slab.iter().collect::<Vec<_>>(), [(c, &'c'), (b, &'b')]);
    }
}
