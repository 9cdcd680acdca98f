//! Decides which calls of metaservers an iod accepts: an iod fences superseded epochs of a
//! metaserver.
//!
//! Rules:
//! 1. The last epoch of a metaserver is the greatest epoch that a call of the metaserver named or
//!    that the stored record names. A call of an earlier epoch is refused.
//! 2. A call of a later epoch ends earlier epochs. The calls of the later epoch run when no call of
//!    an earlier epoch is pending, so that they take effect after all calls of earlier epochs.
//! 3. A call that waits for calls of earlier epochs is refused when a later epoch begins.
//! 4. Each metaserver has its own epochs.

use std::collections::{BTreeMap, BTreeSet};

use super::Ticket;

/// The identity of a metaserver, across restarts and machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seat {
    /// The number of the volume that the metaserver serves.
    pub volume: u64,
    /// The metaserver's number in the volume.
    pub number: u32,
}

/// An event for the epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The stored record names this epoch of a metaserver.
    Noted(Seat, u64),
    /// A call of a metaserver in this epoch arrived.
    Call(Ticket, Seat, u64),
    /// A call of a metaserver in this epoch has ended, or its caller gave the call up while it
    /// waited.
    Ended(Ticket, Seat, u64),
}

/// An action that the owner of this state machine must perform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Run the call; [`Event::Ended`] always follows.
    Go(Ticket),
    /// Refuse the call: its epoch is superseded.
    Refuse(Ticket),
}

/// The calls of one metaserver.
#[derive(Clone, Debug, Default)]
struct Calls {
    /// The last epoch.
    last: u64,
    /// The number of running calls of each epoch; an epoch without running calls has no entry.
    under_way: BTreeMap<u64, usize>,
    /// The calls of the last epoch that wait for calls of earlier epochs.
    waiting: BTreeSet<Ticket>,
}

/// The epochs of all metaservers.
#[derive(Clone, Debug, Default)]
pub struct Epochs(BTreeMap<Seat, Calls>);

impl Epochs {
    /// Handles one event, and appends the resulting actions in order.
    pub fn step(&mut self, event: Event, effects: &mut Vec<Effect>) {
        match event {
            Event::Noted(seat, epoch) => self.0.entry(seat).or_default().begin(epoch, effects),
            Event::Call(ticket, seat, epoch) => {
                // Rule 4: each metaserver has its own epochs.
                let calls = self.0.entry(seat).or_default();
                calls.begin(epoch, effects);
                // Rule 1: a call of an earlier epoch is refused.
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

    /// Returns the last epoch of a metaserver; zero if none is known.
    #[must_use]
    pub fn last(&self, seat: Seat) -> u64 {
        self.0.get(&seat).map_or(0, |calls| calls.last)
    }
}

impl Calls {
    fn begin(&mut self, epoch: u64, effects: &mut Vec<Effect>) {
        if epoch > self.last {
            self.last = epoch;
            // Rule 3: a later epoch begins, so the calls that wait for calls of earlier epochs are
            // refused.
            effects.extend(core::mem::take(&mut self.waiting).into_iter().map(Effect::Refuse));
        }
    }

    /// Rule 2: returns true if no call of an epoch before the last is pending, so that the calls of
    /// the last epoch can run.
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
