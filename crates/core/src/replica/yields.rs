//! Hides an object that is to lose a name to an object of another home (prepare of a two-phase
//! rename).
//!
//! The other home changes its own metadata file atomically, and this home changes its file after
//! that. In between, the name already belongs to the other object, and no caller may see the old
//! one: so the old object yields the name, which hides it, before the change.
//!
//! Rules:
//! 1. An object yields a name to one object at a time, for one change with a number.
//! 2. While an object yields a name, it is hidden from all callers, and its names are not changed.
//! 3. The yield ends when the change is given up, or when the name is lost.
//! 4. If this home receives neither report for a while, it asks the other home each second whether
//!    the other object stands there or is about to. If the object does not stand there, the name
//!    was not lost. Without a reply the result is unknown.
//! 5. A caller that searched for the name at the other home may have been too early there, and
//!    would be too late here. For a window after the name was lost, this home does not report it as
//!    absent.
//! 6. A home that starts learns its yields, and its recently lost names, from the replies to its
//!    HELLO, and shows no object before that.

use std::collections::{BTreeMap, VecDeque};

use leasehold_base::limits::durations::PEER_RETRY_DELAY;
use leasehold_base::units::{FileId, Time};

use super::names::Stands;
use super::{Bounds, Call, Place};

/// A name that an object yields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Yield {
    /// The object, which has its home here.
    pub over: FileId,
    /// The name.
    pub place: Place,
    /// The object that is to get the name.
    pub to: FileId,
    /// The number of the change at its home.
    pub number: u64,
}

/// An event for the yields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An object yields a name.
    Yielded(Yield),
    /// The change of this number is given up.
    Kept(FileId, u64),
    /// The object has lost the name, perhaps in an earlier epoch.
    Lost(FileId, Place),
    /// The reply of a home that was asked.
    Stands(Call, Stands),
    /// Time has passed.
    Tick,
}

/// An action that the owner of this state machine must perform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Ask the object's home whether the object stands there or is about to; [`Event::Stands`]
    /// always follows.
    Ask(Call, Place, FileId),
}

/// A deliberate fault.
#[cfg(feature = "mutants")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A yielded object is shown.
    ShowsYielded,
    /// A recently lost name is reported as absent.
    ForgetsLost,
}

#[derive(Clone, Debug)]
struct Given {
    it: Yield,
    again: Time,
    asks: Option<Call>,
}

/// The names that objects of this home yield to others.
#[derive(Clone, Debug)]
pub struct Yields {
    bounds: Bounds,
    given: BTreeMap<FileId, Given>,
    /// Lost names, and the times after which no pending search can be affected.
    lost: BTreeMap<Place, Time>,
    /// The same entries, ordered by time.
    ends: VecDeque<(Time, Place)>,
    last_call: u64,
    #[cfg(feature = "mutants")]
    mutant: Option<Mutant>,
}

impl Yields {
    /// Creates the state without yields.
    #[must_use]
    pub const fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            given: BTreeMap::new(),
            lost: BTreeMap::new(),
            ends: VecDeque::new(),
            last_call: 0,
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }

    /// Injects a fault.
    #[cfg(feature = "mutants")]
    pub const fn plant(&mut self, mutant: Mutant) {
        self.mutant = Some(mutant);
    }

    /// Handles one event, and appends the resulting actions in order.
    pub fn step(&mut self, now: Time, event: Event, effects: &mut Vec<Effect>) {
        match event {
            Event::Yielded(it) => {
                let again = now + PEER_RETRY_DELAY;
                self.given.insert(it.over, Given { it, again, asks: None });
            }
            Event::Kept(over, number) => {
                if self.given.get(&over).is_some_and(|given| given.it.number == number) {
                    self.given.remove(&over);
                }
            }
            Event::Lost(over, place) => {
                if self.given.get(&over).is_some_and(|given| given.it.place == place) {
                    self.given.remove(&over);
                }
                let until = now + self.bounds.window;
                self.ends.push_back((until, place.clone()));
                self.lost.insert(place, until);
            }
            Event::Stands(call, stands) => {
                let mut all = self.given.iter_mut();
                let Some((over, given)) = all.find(|(_, given)| given.asks == Some(call)) else {
                    return;
                };
                (given.asks, given.again) = (None, now + PEER_RETRY_DELAY);
                if stands == Stands::No {
                    let over = *over;
                    self.given.remove(&over);
                }
            }
            Event::Tick => {}
        }
        let is_due = |(until, _): &mut (Time, Place)| *until <= now;
        while let Some((until, place)) = self.ends.pop_front_if(is_due) {
            if self.lost.get(&place) == Some(&until) {
                self.lost.remove(&place);
            }
        }
        for given in self.given.values_mut() {
            if given.asks.is_none() && given.again <= now {
                self.last_call += 1;
                let call = Call(self.last_call);
                given.asks = Some(call);
                effects.push(Effect::Ask(call, given.it.place.clone(), given.it.to));
            }
        }
    }

    /// Returns true if a name may be yielded: it is not yielded to another object, and there is
    /// room.
    #[must_use]
    pub fn may(&self, it: &Yield) -> bool {
        match self.given.get(&it.over) {
            Some(given) => (&given.it.place, given.it.to) == (&it.place, it.to),
            None => self.given.len() + self.ends.len() < self.bounds.most,
        }
    }

    /// Returns true if an object yields any name.
    #[must_use]
    pub fn has(&self, over: FileId) -> bool {
        self.given.contains_key(&over)
    }

    /// Returns true if an object yields this name to this object.
    #[must_use]
    pub fn has_to(&self, over: FileId, place: &Place, to: FileId) -> bool {
        let given = self.given.get(&over);
        given.is_some_and(|given| (&given.it.place, given.it.to) == (place, to))
    }

    /// Returns the object to which an object yields a name, so that the latter must be hidden.
    #[must_use]
    pub fn hides(&self, object: FileId) -> Option<FileId> {
        #[cfg(feature = "mutants")]
        if self.mutant == Some(Mutant::ShowsYielded) {
            return None;
        }
        self.given.get(&object).map(|given| given.it.to)
    }

    /// Returns true if a name was lost so recently that a search without a result does not prove
    /// its absence.
    #[must_use]
    pub fn was_lost(&self, now: Time, place: &Place) -> bool {
        #[cfg(feature = "mutants")]
        if self.mutant == Some(Mutant::ForgetsLost) {
            return false;
        }
        self.lost.get(place).is_some_and(|until| *until > now)
    }

    /// Returns the next time at which a home is asked, or a lost name is forgotten.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        let asks = self.given.values().filter(|given| given.asks.is_none());
        let lost = self.ends.front().map(|(until, _)| *until);
        asks.map(|given| given.again).chain(lost).min()
    }
}

#[cfg(test)]
mod tests;
