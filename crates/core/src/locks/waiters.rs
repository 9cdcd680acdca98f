//! The requests that wait for locks, in the order of their arrival at each file.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_base::units::Time;

use super::ranges::{Held, Range};
use super::{Kind, Object, Ticket};
use crate::owners::OwnerNumber;

/// A request that waits for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiter {
    /// The lock that the request becomes.
    pub(super) wanted: Held,
    pub(super) stage: Stage,
}

/// The state of a request that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The request blocks until it is granted.
    Blocks(Ticket),
    /// The client repeats its request; the request leaves the queue if no repetition arrives.
    Polls { until: Time },
    /// The range is reserved for the owner, which was notified.
    Reserved { until: Time },
}

impl Waiter {
    fn until(&self) -> Option<Time> {
        match self.stage {
            Stage::Blocks(_) => None,
            Stage::Polls { until } | Stage::Reserved { until } => Some(until),
        }
    }

    pub(super) const fn is_reserved(&self) -> bool {
        matches!(self.stage, Stage::Reserved { .. })
    }

    /// Returns true if the waiter waits for this lock.
    pub(super) fn is_for(&self, owner: OwnerNumber, range: Range, kind: Kind) -> bool {
        let wanted = &self.wanted;
        (wanted.owner, wanted.range, wanted.kind) == (owner, range, kind)
    }
}

/// The queues of all files.
#[derive(Clone, Debug)]
pub(super) struct Queues {
    queues: BTreeMap<Object, Vec<Waiter>>,
    /// The next time at which a request leaves the queue of each file that has such a time.
    due: BTreeSet<(Time, Object)>,
    waiting: usize,
}

impl Queues {
    pub(super) const fn new() -> Self {
        Self { queues: BTreeMap::new(), due: BTreeSet::new(), waiting: 0 }
    }

    /// Returns the queue of a file.
    pub(super) fn of(&self, object: Object) -> &[Waiter] {
        self.queues.get(&object).map_or(&[], Vec::as_slice)
    }

    /// Returns the number of requests in all queues.
    pub(super) const fn len(&self) -> usize {
        self.waiting
    }

    /// Changes the queue of a file.
    pub(super) fn change<R>(
        &mut self,
        object: Object,
        change: impl FnOnce(&mut Vec<Waiter>) -> R,
    ) -> R {
        let queue = self.queues.entry(object).or_default();
        let (was_due, length) = (due(queue), queue.len());
        let result = change(queue);
        let is_due = due(queue);
        self.waiting = self.waiting - length + queue.len();
        if queue.is_empty() {
            self.queues.remove(&object);
        }
        if was_due != is_due {
            was_due.map(|time| self.due.remove(&(time, object)));
            is_due.map(|time| self.due.insert((time, object)));
        }
        result
    }

    /// Removes the requests that fulfil a condition from the queue of a file.
    pub(super) fn remove(&mut self, object: Object, goes: impl Fn(&Waiter) -> bool) -> Vec<Waiter> {
        if !self.of(object).iter().any(&goes) {
            return Vec::new();
        }
        self.change(object, |queue| {
            let (gone, left) = queue.drain(..).partition(|waiter| goes(waiter));
            *queue = left;
            gone
        })
    }

    /// Removes the requests of a file whose time has passed.
    pub(super) fn remove_due(&mut self, now: Time, object: Object) -> Vec<Waiter> {
        self.remove(object, |waiter| waiter.until().is_some_and(|until| until <= now))
    }

    /// Returns the next time at which a request leaves its queue.
    pub(super) fn next_due(&self) -> Option<Time> {
        self.due.first().map(|(time, _)| *time)
    }

    /// Lists the files with requests whose time has passed.
    pub(super) fn due(&self, now: Time) -> impl Iterator<Item = Object> + '_ {
        self.due.iter().take_while(move |(time, _)| *time <= now).map(|(_, object)| *object)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Object, &[Waiter])> {
        self.queues.iter().map(|(object, queue)| (*object, queue.as_slice()))
    }

    /// Audits the queues.
    pub(super) fn check(&self) {
        let mut dues = BTreeSet::new();
        for (object, queue) in self.iter() {
            assert!(!queue.is_empty(), "a queue has requests");
            dues.extend(due(queue).map(|time| (time, object)));
        }
        assert_eq!(dues, self.due, "due times agree");
        let waiting = self.iter().map(|(_, queue)| queue.len()).sum::<usize>();
        assert_eq!(waiting, self.waiting, "requests are counted");
    }
}

fn due(queue: &[Waiter]) -> Option<Time> {
    queue.iter().filter_map(Waiter::until).min()
}
