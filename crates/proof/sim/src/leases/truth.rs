//! The promises, checked against what a world knows.

use core::fmt::Debug;

use std::collections::BTreeSet;

use crate::Broken;

use super::store::Id;

/// What was broken, and what is known that no host knows.
#[derive(Clone, Debug, Default)]
pub(super) struct Truth {
    pub(super) broken: Vec<Broken>,
    /// Changes that a client was told are safe.
    pub(super) committed: BTreeSet<Id>,
    /// Changes that a crash of the server took back.
    pub(super) lost: BTreeSet<Id>,
}

impl Truth {
    /// Notes that a promise was broken; the first few times tell enough.
    pub(super) fn broke(&mut self, promise: &'static str, how: impl FnOnce() -> String) {
        if self.broken.len() < 10 {
            self.broken.push(Broken { promise, how: how() });
        }
    }

    /// Checks that what was seen is what is true.
    pub(super) fn saw<T: PartialEq + Debug>(
        &mut self,
        promise: &'static str,
        seen: &T,
        is: &T,
        who: impl FnOnce() -> String,
    ) {
        if seen != is {
            self.broke(promise, || format!("{} saw {seen:?}, and it is {is:?}", who()));
        }
    }
}
