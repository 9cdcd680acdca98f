//! Hides an object that is to lose a name to an object of another home (prepare of a two-phase
//! rename).
//!
//! The other home changes its own metadata file atomically, and this home changes its file after
//! that. In between, the name already belongs to the other object, and no caller may see the old
//! object. Therefore the old object yields the name before the change: from then on the old object
//! is hidden.
//!
//! Rules:
//! 1. An object yields a name to one object at a time, for one change, which a change number
//!    identifies.
//! 2. While an object yields a name, the object is hidden from all callers, and its names are not
//!    changed.
//! 3. The yield ends when the change is given up, or when the name is lost.
//! 4. If this home receives neither report for a while, it asks the other home each second if the
//!    other object has the name or is about to get it. If the reply is no, the old object keeps the
//!    name and the yield ends. Without a reply the yield continues.
//! 5. A search for the name may have asked the other home before the change and may ask this home
//!    after the name was lost, so that it finds neither object. For a window after the name was
//!    lost, this home therefore does not report the name as absent.
//! 6. A home that starts has forgotten its yields. The replies to its HELLO list the objects of
//!    this home that stored changes of other homes are replacing, or have replaced within the last
//!    window. Of these objects, an object that still has the name yields it again; the name of any
//!    other counts as lost at that time (rule 5). A yield for a change that was not stored stays
//!    void. The home serves no object before the replies.

use std::collections::{BTreeMap, VecDeque};

use leasehold_base::limits::durations::PEER_RETRY_DELAY;
use leasehold_base::units::{FileId, Time};

use super::names::Stands;
use super::{Bounds, Call, Place};

/// A name that an object yields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Yield {
    /// The object that loses the name; its home is this metaserver.
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
    /// The change with this number, for which the object yields a name, is given up.
    Kept(FileId, u64),
    /// The object has lost the name, perhaps in an earlier epoch.
    Lost(FileId, Place),
    /// The reply of a home to [`Effect::Ask`].
    Stands(Call, Stands),
    /// Time has passed.
    Tick,
}

/// An action that the owner of this state machine must perform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Ask the object's home if the object has the name or is about to get it; [`Event::Stands`]
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

/// A pending yield, the time of the next question to the other home, and the pending question.
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
    /// Lost names, each with the time after which no pending search can miss both objects.
    lost: BTreeMap<Place, Time>,
    /// The entries of `lost`, ordered by time.
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
            // Rule 6: a home that starts also records the yields that its peers report.
            Event::Yielded(it) => {
                let again = now + PEER_RETRY_DELAY;
                self.given.insert(it.over, Given { it, again, asks: None });
            }
            Event::Kept(over, number) => {
                // Rule 3: the yield ends, because its change is given up.
                if self.given.get(&over).is_some_and(|given| given.it.number == number) {
                    self.given.remove(&over);
                }
            }
            Event::Lost(over, place) => {
                // Rule 3: the yield ends, because the name is lost.
                if self.given.get(&over).is_some_and(|given| given.it.place == place) {
                    self.given.remove(&over);
                }
                // Rule 6: a name that was lost in an earlier epoch is remembered as well.
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
                // Rule 4: the other object does not have the name, so the old object keeps it and
                // the yield ends.
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
            // Rule 4: the other home is asked each second while no report arrives.
            if given.asks.is_none() && given.again <= now {
                self.last_call += 1;
                let call = Call(self.last_call);
                given.asks = Some(call);
                effects.push(Effect::Ask(call, given.it.place.clone(), given.it.to));
            }
        }
    }

    /// Rule 1: returns true if a name may be yielded: the object yields no other name and yields to
    /// no other object, and the table is not full.
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

    /// Rule 2: if an object yields a name and so must be hidden, returns the object that is to get
    /// the name.
    #[must_use]
    pub fn hides(&self, object: FileId) -> Option<FileId> {
        #[cfg(feature = "mutants")]
        if self.mutant == Some(Mutant::ShowsYielded) {
            return None;
        }
        self.given.get(&object).map(|given| given.it.to)
    }

    /// Rule 5: returns true if a name was lost so recently that a search without a result does not
    /// prove its absence.
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
