//! Which calls of metaservers an iod does: none of an epoch that is over.
//!
//! Rules:
//! 1. The last epoch of a metaserver is the greatest that a call of it has named, or that was noted
//!    before. A call of an earlier one is refused.
//! 2. A call of a later epoch ends those before. It goes, as do all of its epoch, when none of an
//!    earlier one is under way any more: what an epoch does comes behind all that those before did.
//! 3. One that waits for that is refused when a later epoch begins.
//! 4. Metaservers have their epochs each for itself.

use std::collections::{BTreeMap, BTreeSet};

use super::Ticket;

/// A metaserver's place, whoever has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seat {
    /// The volume that it serves.
    pub volume: u64,
    /// Its number there.
    pub number: u32,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It was noted that a metaserver has begun this epoch.
    Noted(Seat, u64),
    /// A call of a metaserver in this epoch has come in.
    Call(Ticket, Seat, u64),
    /// Such a call has come to its end, or nobody waits for it any more that was not let go yet.
    Ended(Ticket, Seat, u64),
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The call is done; [`Event::Ended`] follows, always.
    Go(Ticket),
    /// The call is refused: its epoch is over.
    Refuse(Ticket),
}

#[derive(Clone, Debug, Default)]
struct Calls {
    last: u64,
    /// How many of each epoch are under way; none is zero.
    under_way: BTreeMap<u64, usize>,
    /// Those of the last epoch that wait for earlier ones.
    waiting: BTreeSet<Ticket>,
}

/// The epochs of all metaservers that call.
#[derive(Clone, Debug, Default)]
pub struct Epochs(BTreeMap<Seat, Calls>);

impl Epochs {
    /// Takes one event, and appends what is to be done in order.
    pub fn step(&mut self, event: Event, effects: &mut Vec<Effect>) {
        match event {
            Event::Noted(seat, epoch) => self.0.entry(seat).or_default().begin(epoch, effects),
            Event::Call(ticket, seat, epoch) => {
                let calls = self.0.entry(seat).or_default();
                calls.begin(epoch, effects);
                if epoch < calls.last {
                    effects.push(Effect::Refuse(ticket));
                } else if calls.is_free() {
                    calls.go(ticket, effects);
                } else {
                    calls.waiting.insert(ticket);
                }
            }
            Event::Ended(ticket, seat, epoch) => {
                let Some(calls) = self.0.get_mut(&seat) else { return };
                if !calls.waiting.remove(&ticket) {
                    calls.ended(epoch, effects);
                }
            }
        }
    }

    /// The last epoch of a metaserver, zero where none is known.
    #[must_use]
    pub fn last(&self, seat: Seat) -> u64 {
        self.0.get(&seat).map_or(0, |calls| calls.last)
    }
}

impl Calls {
    fn begin(&mut self, epoch: u64, effects: &mut Vec<Effect>) {
        if epoch > self.last {
            self.last = epoch;
            effects.extend(core::mem::take(&mut self.waiting).into_iter().map(Effect::Refuse));
        }
    }

    /// Whether none of an earlier epoch than the last is under way.
    fn is_free(&self) -> bool {
        self.under_way.first_key_value().is_none_or(|(first, _)| *first >= self.last)
    }

    fn go(&mut self, ticket: Ticket, effects: &mut Vec<Effect>) {
        *self.under_way.entry(self.last).or_default() += 1;
        effects.push(Effect::Go(ticket));
    }

    fn ended(&mut self, epoch: u64, effects: &mut Vec<Effect>) {
        let Some(count) = self.under_way.get_mut(&epoch) else { return };
        *count -= 1;
        if *count == 0 {
            self.under_way.remove(&epoch);
            if self.is_free() {
                for ticket in core::mem::take(&mut self.waiting) {
                    self.go(ticket, effects);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
