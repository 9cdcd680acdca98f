//! A list that usually has one element, which then needs no heap memory of its own.

use core::ops::{Deref, DerefMut};

/// None, one, or several.
#[derive(Clone, Debug)]
pub(super) enum Few<T> {
    One([T; 1]),
    Many(Vec<T>),
}

impl<T> Few<T> {
    pub(super) const fn none() -> Self {
        Self::Many(Vec::new())
    }

    pub(super) fn push(&mut self, one: T) {
        *self = match core::mem::replace(self, Self::none()) {
            Self::One([first]) => Self::Many(vec![first, one]),
            Self::Many(several) if several.is_empty() => Self::One([one]),
            Self::Many(mut several) => {
                several.push(one);
                Self::Many(several)
            }
        };
    }

    pub(super) fn retain(&mut self, mut stays: impl FnMut(&T) -> bool) {
        match self {
            Self::One([one]) => {
                if !stays(one) {
                    *self = Self::none();
                }
            }
            Self::Many(several) => several.retain(stays),
        }
    }
}

impl<T> Deref for Few<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Self::One(one) => one,
            Self::Many(several) => several,
        }
    }
}

impl<T> DerefMut for Few<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match self {
            Self::One(one) => one,
            Self::Many(several) => several,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn push_retain_and_index_work_as_on_a_list() {
        let mut few = Few::none();
        for number in 0..3 {
            few.push(number);
            assert_eq!(few.to_vec(), (0..=number).collect::<Vec<_>>());
        }
        few[1] = 5;
        few.retain(|number| *number != 0);
        assert_eq!(*few, [5, 2]);
        few.retain(|_| false);
        few.push(7);
        assert!(matches!(few, Few::One([7])), "one element needs no heap memory");
        few.retain(|number| *number != 7);
        assert!(few.is_empty());
    }
}
