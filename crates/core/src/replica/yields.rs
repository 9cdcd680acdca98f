//! What an object's home does when the object is to lose a name to one that has its home elsewhere.
//!
//! That home changes its own metafile, in one moment, and this one then its own. In between the name is
//! the other's already, and nobody is to see that it is not: so it is yielded before.
//!
//! Rules:
//! 1. A name is yielded to one object at a time, and by which change of it counts.
//! 2. While it is yielded nothing is shown of what has it, and its names are not changed.
//! 3. That ends when the change is given up, or the name is lost.
//! 4. If neither is heard for a while the other's home is asked whether the other stands there, or is about
//!    to, again and again: if it does not the name was not lost. It is not known as long as nobody says.
//! 5. Who looked for the name at the other's home may have been too early, and would not find it here:
//!    for a window after it was lost nobody is told that it is nowhere.
//! 6. A home that starts has yielded what others' answers to its HELLO say, or has lost it just now, and
//!    shows nothing before.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use leasehold_base::units::{FileId, Time};

use super::names::Stands;
use super::{Bounds, Call, Place};

/// How long until it is asked what came of the change.
const AGAIN: Duration = Duration::from_secs(1);

/// A name that an object yields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Yield {
    /// The object, which has its home here.
    pub over: FileId,
    /// The name.
    pub place: Place,
    /// Which object is to have it.
    pub to: FileId,
    /// The number of the change by which it is to, at its home.
    pub number: u64,
}

/// What happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A name is yielded.
    Yielded(Yield),
    /// The change of this number is given up.
    Kept(FileId, u64),
    /// The object has lost the name, perhaps in an epoch before.
    Lost(FileId, Place),
    /// What a home says that was asked.
    Stands(Call, Stands),
    /// Time went on.
    Tick,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The object's home is asked whether it stands there, or is about to; [`Event::Stands`] follows, always.
    Ask(Call, Place, FileId),
}

/// A deliberate fault.
#[cfg(feature = "mutants")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// What is yielded is shown.
    ShowsYielded,
    /// What was lost just now is nowhere.
    ForgetsLost,
}

#[derive(Clone, Debug)]
struct Given {
    it: Yield,
    again: Time,
    asks: Option<Call>,
}

/// The names that objects which have their home here yield to others.
#[derive(Clone, Debug)]
pub struct Yields {
    bounds: Bounds,
    given: BTreeMap<FileId, Given>,
    /// When names were lost, until nobody can have looked for them before.
    lost: BTreeMap<Place, Time>,
    /// The same in the order in which that ends.
    ends: VecDeque<(Time, Place)>,
    last_call: u64,
    #[cfg(feature = "mutants")]
    mutant: Option<Mutant>,
}

impl Yields {
    /// Nothing is yielded.
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

    /// Plants a fault.
    #[cfg(feature = "mutants")]
    pub const fn plant(&mut self, mutant: Mutant) {
        self.mutant = Some(mutant);
    }

    /// Takes one event, and appends what is to be done in order.
    pub fn step(&mut self, now: Time, event: Event, effects: &mut Vec<Effect>) {
        match event {
            Event::Yielded(it) => {
                let again = now + AGAIN;
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
                (given.asks, given.again) = (None, now + AGAIN);
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

    /// Whether a name may be yielded: to no other than it is, and not if there are too many.
    #[must_use]
    pub fn may(&self, it: &Yield) -> bool {
        match self.given.get(&it.over) {
            Some(given) => (&given.it.place, given.it.to) == (&it.place, it.to),
            None => self.given.len() + self.ends.len() < self.bounds.most,
        }
    }

    /// Whether an object has yielded a name, to whichever.
    #[must_use]
    pub fn has(&self, over: FileId) -> bool {
        self.given.contains_key(&over)
    }

    /// Whether it has yielded this one to that.
    #[must_use]
    pub fn has_to(&self, over: FileId, place: &Place, to: FileId) -> bool {
        let given = self.given.get(&over);
        given.is_some_and(|given| (&given.it.place, given.it.to) == (place, to))
    }

    /// Whom an object has yielded a name to, so that nothing may be shown of it.
    #[must_use]
    pub fn hides(&self, object: FileId) -> Option<FileId> {
        #[cfg(feature = "mutants")]
        if self.mutant == Some(Mutant::ShowsYielded) {
            return None;
        }
        self.given.get(&object).map(|given| given.it.to)
    }

    /// Whether a name was lost so lately that it may be another's though nobody has found it there.
    #[must_use]
    pub fn was_lost(&self, now: Time, place: &Place) -> bool {
        #[cfg(feature = "mutants")]
        if self.mutant == Some(Mutant::ForgetsLost) {
            return false;
        }
        self.lost.get(place).is_some_and(|until| *until > now)
    }

    /// When something is asked, or forgotten.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        let asks = self.given.values().filter(|given| given.asks.is_none());
        let lost = self.ends.front().map(|(until, _)| *until);
        asks.map(|given| given.again).chain(lost).min()
    }
}

#[cfg(test)]
mod tests;
