//! The pending events, soonest first: a 4-ary heap.

/// An event with its time, and the ticket that identifies an outdated event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Entry<E> {
    pub(crate) time: f64,
    pub(crate) ticket: u32,
    pub(crate) event: E,
}

/// Four children of 16 bytes fill one cache line.
const CHILDREN: usize = 4;

/// The pending events. Events at the same time run in the order of scheduling.
///
/// An event is not removed when it becomes void. Its scheduler stores the ticket and ignores the
/// event if a later ticket has replaced it.
#[derive(Clone, Debug)]
pub(crate) struct Calendar<E> {
    heap: Vec<Entry<E>>,
    tickets: u32,
    /// The first element was returned and its place is free.
    vacant: bool,
}

impl<E: Copy> Calendar<E> {
    pub(crate) const fn new() -> Self {
        Self { heap: Vec::new(), tickets: 0, vacant: false }
    }

    /// Schedules an event and returns its ticket, which is never zero.
    #[inline]
    pub(crate) fn schedule(&mut self, time: f64, event: E) -> u32 {
        self.tickets = self.tickets.wrapping_add(1).max(1);
        let entry = Entry { time, ticket: self.tickets, event };
        if self.vacant {
            // Most events schedule the next one, which takes their place directly.
            self.vacant = false;
            self.sift_down(entry);
        } else {
            self.heap.push(entry);
            self.sift_up(entry);
        }
        self.tickets
    }

    /// Returns the next event if it is before `end`.
    #[inline]
    pub(crate) fn next_before(&mut self, end: f64) -> Option<Entry<E>> {
        self.close_gap();
        let first = *self.heap.first()?;
        if first.time >= end {
            return None;
        }
        self.vacant = true;
        Some(first)
    }

    #[inline]
    fn close_gap(&mut self) {
        if self.vacant {
            self.vacant = false;
            if let Some(last) = self.heap.pop()
                && !self.heap.is_empty()
            {
                self.sift_down(last);
            }
        }
    }

    #[inline]
    fn sift_up(&mut self, entry: Entry<E>) {
        let mut here = self.heap.len() - 1;
        while here > 0 {
            let parent = (here - 1) / CHILDREN;
            if !sooner(&entry, &self.heap[parent]) {
                break;
            }
            self.heap[here] = self.heap[parent];
            here = parent;
        }
        self.heap[here] = entry;
    }

    /// Moves `entry` down from the place of the first element.
    #[inline]
    fn sift_down(&mut self, entry: Entry<E>) {
        let heap = self.heap.as_mut_slice();
        let mut here = 0;
        loop {
            let first = here * CHILDREN + 1;
            let Some(children) = heap.get(first..) else { break };
            let Some(mut best) = children.first() else { break };
            let mut position = first;
            for (offset, child) in children.iter().enumerate().take(CHILDREN).skip(1) {
                if sooner(child, best) {
                    best = child;
                    position = first + offset;
                }
            }
            if !sooner(best, &entry) {
                break;
            }
            heap[here] = *best;
            here = position;
        }
        heap[here] = entry;
    }
}

#[inline]
fn sooner<E>(a: &Entry<E>, b: &Entry<E>) -> bool {
    a.time < b.time || (a.time == b.time && a.ticket < b.ticket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_base::random::Random;

    #[test]
    fn events_come_in_order_and_ties_in_the_order_of_scheduling() {
        let mut random = Random::from_seed(1);
        let mut calendar = Calendar::new();
        let mut handed_out = Vec::new();
        for number in 0..2_000_u32 {
            let base = handed_out.last().map_or(0.0, |entry: &Entry<u32>| entry.time);
            calendar.schedule(base + random.below(8) as f64, number);
            if random.one_in(3) {
                handed_out.extend(calendar.next_before(f64::INFINITY));
            }
        }
        while let Some(entry) = calendar.next_before(f64::INFINITY) {
            handed_out.push(entry);
        }
        assert_eq!(handed_out.len(), 2_000);
        assert!(handed_out.windows(2).all(|two| sooner(&two[0], &two[1])));
        assert_eq!(calendar.next_before(f64::INFINITY), None);
    }

    #[test]
    fn no_event_is_returned_at_or_after_the_end() {
        let mut calendar = Calendar::new();
        calendar.schedule(2.0, 'a');
        assert_eq!(calendar.next_before(2.0), None);
        assert_eq!(calendar.next_before(2.5).map(|entry| entry.event), Some('a'));
    }
}
