//! The pending events of a world, in the order of time.

use std::collections::BTreeMap;

use leasehold_base::units::Time;

/// The pending events. Events with the same time occur in the order in which they were scheduled.
#[derive(Clone, Debug)]
pub(crate) struct Queue<T> {
    events: BTreeMap<(Time, u64), T>,
    scheduled: u64,
}

impl<T> Queue<T> {
    pub(crate) const fn new() -> Self {
        Self { events: BTreeMap::new(), scheduled: 0 }
    }

    pub(crate) fn schedule(&mut self, at: Time, event: T) {
        self.events.insert((at, self.scheduled), event);
        self.scheduled += 1;
    }

    pub(crate) fn next_time(&self) -> Option<Time> {
        self.events.first_key_value().map(|((time, _), _)| *time)
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        self.events.pop_first().map(|(_, event)| event)
    }
}
