//! The slot table of a fore channel: which requests run, and the cached replies.

use bytes::Bytes;

use super::sequence::Sequence;
use super::types::{Error, Principal, SequenceId, SlotId};

/// The slots of a session. A slot needs memory once it is used.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    /// The highest slot that a request may use.
    highest: u32,
    /// The highest slot that the client should use.
    target: u32,
    /// The largest value that `highest` has had.
    highest_ever: u32,
    /// The limit that the owner of the state machine set.
    ceiling: u32,
    /// The number of values that `target` has had, which is not zero.
    targets: u32,
    /// The number of slots in which requests run.
    running: usize,
}

#[derive(Clone, Debug)]
struct Slot {
    /// The number of the last request.
    sequence: SequenceId,
    state: State,
    /// A digest of the last request.
    digest: u64,
    principal: Principal,
    /// The number of the target in the results of the last request; zero if there was none.
    target_seen: u32,
}

#[derive(Clone, Debug)]
enum State {
    /// The slot is new or was retired. A retired slot keeps its number, so that a late copy of an
    /// earlier request does not run a second time.
    Empty,
    /// A request runs; memory of this size is reserved for its reply.
    Running { reserved: usize },
    /// The reply is cached.
    Cached(Bytes),
    /// The reply is not cached.
    Uncached,
}

/// The relation of a request to the last request in its slot.
#[derive(Clone, Debug)]
pub(super) enum Verdict {
    /// The request is new. The old reply of this size may be dropped.
    New { cached: usize },
    /// The request is a retry, and its reply is cached.
    Replay(Bytes),
    /// The request is a retry, and its reply is not cached.
    Uncached,
}

/// The memory that a session may use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// The number of slots by which the table may grow.
    pub(super) slots: u32,
    /// The number of slots that the table may have.
    pub(super) slots_max: u32,
    /// The number of slots that the table keeps.
    pub(super) slots_min: u32,
    /// True if memory for replies is short.
    pub(super) is_short: bool,
}

impl Slot {
    const fn new() -> Self {
        Self {
            sequence: SequenceId(0),
            state: State::Empty,
            digest: 0,
            principal: Principal::Anonymous,
            target_seen: 0,
        }
    }

    /// Returns the memory that the reply uses.
    fn bytes(&self) -> usize {
        match &self.state {
            State::Empty | State::Uncached => 0,
            State::Running { reserved } => *reserved,
            State::Cached(reply) => reply.len(),
        }
    }

    fn is_running(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }
}

impl Slots {
    /// Creates the table of a session with `count` slots, which is not zero.
    pub(super) const fn new(count: u32) -> Self {
        let highest = count - 1;
        Self {
            slots: Vec::new(),
            highest,
            target: highest,
            highest_ever: highest,
            ceiling: u32::MAX,
            targets: 1,
            running: 0,
        }
    }

    /// Rules 6 and 7: compares a request with the last request in its slot, and changes nothing.
    pub(super) fn judge(&self, request: &Sequence) -> Result<Verdict, Error> {
        if request.slot.0 > self.highest {
            return Err(Error::BadSlot);
        }
        if request.highest.0 > self.highest_ever {
            return Err(Error::BadHighSlot);
        }
        let unused = Slot::new();
        let slot = self.slots.get(request.slot.0 as usize).unwrap_or(&unused);
        if request.sequence == slot.sequence.next() && !slot.is_running() {
            return Ok(Verdict::New { cached: slot.bytes() });
        }
        if slot.sequence != request.sequence || matches!(slot.state, State::Empty) {
            return Err(Error::SequenceMisordered);
        }
        if slot.principal != request.principal || slot.digest != request.digest {
            return Err(Error::SequenceFalseRetry);
        }
        match &slot.state {
            State::Running { .. } => Err(Error::Delay),
            State::Cached(reply) => Ok(Verdict::Replay(reply.clone())),
            State::Uncached | State::Empty => Ok(Verdict::Uncached),
        }
    }

    /// Starts a new request with memory for its reply. Returns the size of the replies that were
    /// dropped because their slots were retired.
    pub(super) fn begin(&mut self, request: &Sequence, reserved: usize, room: Room) -> usize {
        let at = request.slot.0 as usize;
        if at >= self.slots.len() {
            self.slots.resize_with(at + 1, Slot::new);
        }
        let used = request.highest.0.max(request.slot.0);
        let retired = if self.has_seen_target(used) { self.retire(used) } else { 0 };
        let slot = &mut self.slots[at];
        slot.sequence = request.sequence;
        slot.state = State::Running { reserved };
        self.running += 1;
        slot.digest = request.digest;
        slot.principal = request.principal.clone();
        self.aim(request.highest.0, room);
        self.slots[at].target_seen = self.targets;
        retired
    }

    /// Returns true if the client has received the target, and will receive no reply with an
    /// earlier one, when it sends a request in one of its slots up to `used`. It has received the
    /// replies in all higher slots. A reply in a lower slot may be outstanding or late.
    fn has_seen_target(&self, used: u32) -> bool {
        let mut below = self.slots.iter().take(used as usize + 1);
        below.all(|slot| slot.target_seen == self.targets)
    }

    /// Rule 9: retires the slots above the target, which a client that knows the target does not
    /// use.
    fn retire(&mut self, used: u32) -> usize {
        let keep = self.slots.len().min(self.target as usize + 1);
        let above = &mut self.slots[keep..];
        if used > self.target || above.iter().any(Slot::is_running) {
            return 0;
        }
        self.highest = self.target;
        let bytes = above.iter().map(Slot::bytes).sum();
        above.iter_mut().for_each(|slot| slot.state = State::Empty);
        bytes
    }

    /// Rule 9: sets the number of slots that the client should use.
    fn aim(&mut self, used: u32, room: Room) {
        if used >= self.highest && self.highest < self.ceiling && !room.is_short {
            // Growth by a quarter reaches any number in few steps, and wastes little memory.
            let count = self.highest + 1;
            let most = room.slots_max.min(self.ceiling.saturating_add(1)).saturating_sub(count);
            // Slots that the table had before are counted already.
            let known = self.highest_ever - self.highest;
            let more = (count / 4).max(4).min(most).min(room.slots.saturating_add(known));
            self.highest += more;
            self.highest_ever = self.highest_ever.max(self.highest);
        }
        let short = (self.highest / 2).max(room.slots_min.saturating_sub(1)).min(self.highest);
        let target = match room.is_short {
            false => self.highest,
            true if self.target < self.highest => self.target,
            true => short,
        };
        let target = target.min(self.ceiling);
        if target != self.target {
            self.target = target;
            self.targets = self.targets.wrapping_add(1).max(1);
        }
    }

    /// Ends a running request, and returns the memory that its reply used before and uses now.
    ///
    /// # Panics
    /// Panics if the request is not running.
    pub(super) fn complete(
        &mut self,
        slot: SlotId,
        sequence: SequenceId,
        reply: Option<Bytes>,
    ) -> (usize, usize) {
        let slot = self.slots.get_mut(slot.0 as usize).expect("a request runs in a known slot");
        assert!(slot.is_running() && slot.sequence == sequence, "a request ends once");
        let before = slot.bytes();
        slot.state = reply.map_or(State::Uncached, State::Cached);
        let after = slot.bytes();
        self.running -= 1;
        (before, after)
    }

    /// Returns true if no later request has used the slot, so that the client may not have received
    /// the reply.
    pub(super) fn is_last(&self, slot: SlotId, sequence: SequenceId) -> bool {
        self.slots.get(slot.0 as usize).is_some_and(|slot| slot.sequence == sequence)
    }

    /// Returns the memory that is reserved for the reply to a running request.
    pub(super) fn reserved(&self, slot: SlotId) -> usize {
        self.slots.get(slot.0 as usize).map_or(0, Slot::bytes)
    }

    /// Rule 9: limits the table to fewer slots; the client learns the limit from the next reply.
    pub(super) fn limit(&mut self, highest: SlotId) {
        self.ceiling = highest.0;
    }

    /// Returns the highest slot that a request may use, and the highest slot that the client should
    /// use.
    pub(super) const fn highest(&self) -> (SlotId, SlotId) {
        (SlotId(self.highest), SlotId(self.target))
    }

    /// Returns the number of slots for which memory is accounted.
    pub(super) const fn accounted(&self) -> usize {
        self.highest_ever as usize + 1
    }

    /// Returns the number of slots in which requests run.
    pub(super) const fn running(&self) -> usize {
        self.running
    }

    /// Returns the memory of all replies.
    pub(super) fn bytes(&self) -> usize {
        self.slots.iter().map(Slot::bytes).sum()
    }

    /// Injects a fault: counts a request that was refused.
    #[cfg(any(test, feature = "mutants"))]
    pub(super) fn misnumber(&mut self, request: &Sequence) {
        if let Some(slot) = self.slots.get_mut(request.slot.0 as usize) {
            slot.sequence = slot.sequence.next();
        }
    }

    /// Audits the table.
    pub(super) fn check(&self) {
        let running = self.slots.iter().filter(|slot| slot.is_running()).count();
        assert_eq!(running, self.running, "running requests are counted");
        assert!(self.slots.len() <= self.accounted(), "used slots are accounted");
        assert!(self.highest <= self.highest_ever, "the highest slot is accounted");
        assert!(self.target <= self.highest, "the target is a slot of the table");
        let above = self.slots.iter().skip(self.highest as usize + 1);
        let is_empty = |slot: &Slot| matches!(slot.state, State::Empty);
        assert!(above.into_iter().all(is_empty), "retired slots have no reply");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::SessionId;
    use leasehold_base::units::ConnectionId;

    #[test]
    fn zero_follows_the_largest_sequence_number() {
        let mut slots = Slots::new(1);
        slots.slots.push(Slot { sequence: SequenceId(u32::MAX), ..Slot::new() });
        let request = |number| Sequence {
            session: SessionId([0; 16]),
            slot: SlotId(0),
            sequence: SequenceId(number),
            highest: SlotId(0),
            cache_this: false,
            connection: ConnectionId::default(),
            principal: Principal::Anonymous,
            digest: 0,
            request_bytes: 0,
            operations: 1,
        };
        assert!(matches!(slots.judge(&request(1)), Err(Error::SequenceMisordered)));
        assert!(matches!(slots.judge(&request(0)), Ok(Verdict::New { cached: 0 })));
        let room = Room { slots: 0, slots_max: 1, slots_min: 1, is_short: false };
        slots.begin(&request(0), 0, room);
        slots.complete(SlotId(0), SequenceId(0), Some(Bytes::new()));
        assert!(matches!(slots.judge(&request(0)), Ok(Verdict::Replay(_))));
        assert!(matches!(slots.judge(&request(1)), Ok(Verdict::New { .. })));
        assert!(matches!(slots.judge(&request(u32::MAX)), Err(Error::SequenceMisordered)));
    }
}
