//! The checks of the promises against the true state (the oracle), which no host knows.

use core::fmt::Debug;

use std::collections::BTreeSet;

use crate::Broken;

use super::store::Id;

/// The broken promises, and the knowledge about changes that no host has.
#[derive(Clone, Debug, Default)]
pub(super) struct Truth {
    pub(super) broken: Vec<Broken>,
    /// The changes that the server reported to a client as durable.
    pub(super) committed: BTreeSet<Id>,
    /// The changes that a crash of the server undid.
    pub(super) lost: BTreeSet<Id>,
}

impl Truth {
    /// Records a broken promise; keeps only the first few records.
    pub(super) fn broke(&mut self, promise: &'static str, how: impl FnOnce() -> String) {
        if self.broken.len() < 10 {
            self.broken.push(Broken { promise, how: how() });
        }
    }

    /// Checks that a value that a host saw is the true value.
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
