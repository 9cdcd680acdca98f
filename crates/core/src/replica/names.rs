//! Unique names at a directory's home: of two objects that are to get one name exactly one gets it,
//! and a directory that is removed is empty.
//!
//! The owner stores a claim record (a "note") on stable storage for each name in a directory: the
//! object that claimed (reserved) the name last. The record does not prove that the object has the
//! name, because only the metadata file at the object's home determines the object's names.
//!
//! Rules:
//! 1. A claim of a name without a claim record is granted as soon as the new claim record is
//!    stored.
//! 2. An object that has claimed a name may claim it again.
//! 3. If another object has claimed the name, the home of that object is asked. If the other object
//!    has the name or is about to get it, the name exists; if not, the claim record is overwritten.
//!    The record is also overwritten if the other object has yielded the name to the claimant and
//!    the claimant already has the name. If the claimant does not have the name yet, an object that
//!    has yielded the name still counts as its holder.
//! 4. If the home of the other object does not reply, the claimant must retry later.
//! 5. One operation on a name is pending at a time; a claim of the name during another operation
//!    must be retried later.
//! 6. A directory may be removed if the homes of all objects that claimed a name in it report that
//!    none of these objects has its name or is about to get it. The directory is closed while the
//!    homes are asked and after that: a claim of a name in a closed directory must be retried
//!    later.
//! 7. While a claim of a name in a directory is pending, the directory is not empty.
//! 8. When an object has lost a name, the object's home is asked as well, and the claim record is
//!    removed if the home confirms that the object does not have the name.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_base::units::FileId;

use super::{Call, Homes, Place, Ticket};

/// The reply of an object's home to the question if the object has a name (the object "stands" at
/// the place).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stands {
    /// The object has the name or is about to get it.
    Yes,
    /// The object does not have the name.
    No,
    /// The home did not reply.
    Unknown,
}

/// An event for the names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An object is to get a name.
    Claim {
        /// The caller that receives the result.
        ticket: Ticket,
        /// The name.
        place: Place,
        /// The object.
        object: FileId,
        /// The other object that has claimed the name, if any.
        noted: Option<FileId>,
        /// True if the object already has the name, because an object of another home has yielded
        /// the name to it.
        yielded: bool,
    },
    /// A directory is to be removed; these objects have claimed names in it.
    Retire(Ticket, FileId, Vec<(Vec<u8>, FileId)>),
    /// The object that claimed the name has lost the name.
    Left(Place, FileId),
    /// The reply of a home to [`Effect::Ask`].
    Stands(Call, Stands),
    /// The claim record of the name is stored.
    Noted(Place),
    /// The directory is gone, or its removal was given up.
    Reopened(FileId),
}

impl Event {
    /// Creates a claim: `object` is to get a name, which `over` loses, and which `noted` has
    /// claimed.
    #[must_use]
    pub fn claim(
        homes: &Homes,
        ticket: Ticket,
        (place, object, over): (Place, FileId, Option<FileId>),
        noted: Option<FileId>,
    ) -> Self {
        let is_elsewhere = |other: FileId| homes.of(other) != homes.of(object);
        let yielded = over.is_some_and(is_elsewhere);
        // If both objects have one home, that home handles the replacement itself, so the object
        // that loses the name need not be asked.
        let is_seen_to = over.is_some() && !yielded;
        let noted = noted.filter(|noted| !is_seen_to || is_elsewhere(*noted));
        Self::Claim { ticket, place, object, noted, yielded }
    }
}

/// An action that the owner of this state machine must perform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Ask the home of the first object if this object has the name or is about to get it. An
    /// object that has yielded the name to the last object counts as not having it.
    /// [`Event::Stands`] always follows.
    Ask(Call, Place, FileId, Option<FileId>),
    /// Store the claim record: the object has claimed the name. [`Event::Noted`] follows.
    Note(Place, FileId),
    /// Remove the claim record; the removal is not urgent.
    Drop(Place),
    /// The claim is granted.
    Granted(Ticket),
    /// Another object has the name.
    Exists(Ticket),
    /// The caller must retry later.
    Later(Ticket),
    /// The directory is empty, and closed.
    Retired(Ticket),
    /// The directory is not empty.
    Full(Ticket),
}

/// The pending operation on a name.
#[derive(Clone, Debug)]
enum Work {
    /// The home of another object is asked, on behalf of a claim.
    Asking { ticket: Ticket, object: FileId },
    /// The claim record is being stored.
    Noting(Ticket),
    /// The home of an object that has lost the name is asked (rule 8).
    Sweeping,
}

/// A directory that is closed for a removal.
#[derive(Clone, Debug)]
struct Closed {
    ticket: Ticket,
    /// The calls to homes that have no reply yet.
    asked: BTreeSet<Call>,
}

/// A deliberate fault.
#[cfg(feature = "mutants")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A name that another object has claimed is taken from it.
    TakesNames,
    /// An object that has yielded a name counts as not having it, even before it is replaced.
    TakesYielded,
    /// A directory is closed without asking the homes.
    ClosesFull,
    /// A directory is open while the homes are asked.
    LeavesOpen,
    /// A claim record is removed although its object has the name.
    DropsStanding,
}

/// The pending operations on names in directories of this home.
#[derive(Clone, Debug, Default)]
pub struct Names {
    work: BTreeMap<Place, Work>,
    closed: BTreeMap<FileId, Closed>,
    /// The name that each call concerns, and true if the call serves a removal of the directory.
    calls: BTreeMap<Call, (Place, bool)>,
    last_call: u64,
    #[cfg(feature = "mutants")]
    mutant: Option<Mutant>,
}

impl Names {
    /// Injects a fault.
    #[cfg(feature = "mutants")]
    pub const fn plant(&mut self, mutant: Mutant) {
        self.mutant = Some(mutant);
    }

    #[cfg(feature = "mutants")]
    fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// Handles one event, and appends the resulting actions in order.
    pub fn step(&mut self, event: Event, effects: &mut Vec<Effect>) {
        match event {
            Event::Claim { ticket, place, object, noted, yielded } => {
                self.claim(ticket, place, (object, yielded), noted, effects);
            }
            Event::Retire(ticket, directory, claims) => {
                self.retire(ticket, directory, claims, effects);
            }
            Event::Left(place, object) => {
                // Rule 8: the home of an object that has lost a name is asked if the object has the
                // name.
                let is_free = !self.work.contains_key(&place);
                if is_free && !self.closed.contains_key(&place.directory) {
                    self.work.insert(place.clone(), Work::Sweeping);
                    self.ask(place, (object, None), false, effects);
                }
            }
            Event::Stands(call, stands) => match self.calls.remove(&call) {
                Some((place, false)) => self.stands(place, stands, effects),
                Some((place, true)) => self.stands_inside(call, place.directory, stands, effects),
                None => {}
            },
            Event::Noted(place) => {
                if let Some(Work::Noting(ticket)) = self.work.get(&place) {
                    effects.push(Effect::Granted(*ticket));
                    self.work.remove(&place);
                }
            }
            Event::Reopened(directory) => {
                self.closed.remove(&directory);
            }
        }
    }

    fn ask(
        &mut self,
        place: Place,
        (object, claimant): (FileId, Option<FileId>),
        is_for_end: bool,
        effects: &mut Vec<Effect>,
    ) -> Call {
        self.last_call += 1;
        let call = Call(self.last_call);
        self.calls.insert(call, (place.clone(), is_for_end));
        effects.push(Effect::Ask(call, place, object, claimant));
        call
    }

    fn claim(
        &mut self,
        ticket: Ticket,
        place: Place,
        (object, yielded): (FileId, bool),
        other: Option<FileId>,
        effects: &mut Vec<Effect>,
    ) {
        let is_closed = self.closed.contains_key(&place.directory);
        #[cfg(feature = "mutants")]
        let is_closed = is_closed && !self.is(Mutant::LeavesOpen);
        #[cfg(feature = "mutants")]
        let yielded = yielded || self.is(Mutant::TakesYielded);
        #[cfg(feature = "mutants")]
        let other = other.filter(|_| !self.is(Mutant::TakesNames));
        // Rules 5 and 6: a claim during another operation on the name, or in a closed directory,
        // must be retried later.
        if is_closed || self.work.contains_key(&place) {
            effects.push(Effect::Later(ticket));
            return;
        }
        match other {
            // Rule 2: an object that has claimed the name may claim it again.
            Some(other) if other == object => effects.push(Effect::Granted(ticket)),
            // Rule 3: another object has claimed the name, so the home of that object is asked.
            Some(other) => {
                self.work.insert(place.clone(), Work::Asking { ticket, object });
                self.ask(place, (other, yielded.then_some(object)), false, effects);
            }
            // Rule 1: a claim of a name without a claim record is granted when the new record is
            // stored.
            None => {
                effects.push(Effect::Note(place.clone(), object));
                self.work.insert(place, Work::Noting(ticket));
            }
        }
    }

    fn retire(
        &mut self,
        ticket: Ticket,
        directory: FileId,
        claims: Vec<(Vec<u8>, FileId)>,
        effects: &mut Vec<Effect>,
    ) {
        if self.closed.contains_key(&directory) {
            effects.push(Effect::Later(ticket));
            return;
        }
        let first = Place { directory, name: Vec::new() };
        let inside = self.work.range(first..).take_while(|(place, _)| place.directory == directory);
        // Rule 7: a directory is not empty while a claim of a name in it is pending.
        if inside.into_iter().any(|(_, work)| !matches!(work, Work::Sweeping)) {
            effects.push(Effect::Full(ticket));
            return;
        }
        #[cfg(feature = "mutants")]
        let claims = if self.is(Mutant::ClosesFull) { Vec::new() } else { claims };
        let claims = claims.into_iter().map(|(name, object)| (Place { directory, name }, object));
        let asked = claims.map(|(place, object)| self.ask(place, (object, None), true, effects));
        let closed = Closed { ticket, asked: asked.collect() };
        if closed.asked.is_empty() {
            effects.push(Effect::Retired(ticket));
        }
        self.closed.insert(directory, closed);
    }

    fn stands(&mut self, place: Place, stands: Stands, effects: &mut Vec<Effect>) {
        match self.work.remove(&place) {
            Some(Work::Asking { ticket, object }) => match stands {
                Stands::Yes => effects.push(Effect::Exists(ticket)),
                // Rule 4: the home of the other object did not reply, so the claimant must retry
                // later.
                Stands::Unknown => effects.push(Effect::Later(ticket)),
                // Rule 3: the other object does not have the name, so the claim record is
                // overwritten.
                Stands::No => {
                    effects.push(Effect::Note(place.clone(), object));
                    self.work.insert(place, Work::Noting(ticket));
                }
            },
            Some(Work::Sweeping) => {
                #[cfg(feature = "mutants")]
                let stands = if self.is(Mutant::DropsStanding) { Stands::No } else { stands };
                // Rule 8: the home confirms that the object does not have the name, so the claim
                // record is removed.
                if stands == Stands::No {
                    effects.push(Effect::Drop(place));
                }
            }
            Some(Work::Noting(_)) | None => unreachable!("a pending place has an entry"),
        }
    }

    /// Rule 6: handles the reply of a home about a name in a directory that is to be removed.
    fn stands_inside(
        &mut self,
        call: Call,
        directory: FileId,
        stands: Stands,
        effects: &mut Vec<Effect>,
    ) {
        let Some(closed) = self.closed.get_mut(&directory) else { return };
        if !closed.asked.remove(&call) {
            return;
        }
        let ticket = closed.ticket;
        match stands {
            Stands::No if closed.asked.is_empty() => effects.push(Effect::Retired(ticket)),
            Stands::No => {}
            Stands::Yes | Stands::Unknown => {
                self.closed.remove(&directory);
                let is_full = stands == Stands::Yes;
                effects.push(if is_full { Effect::Full(ticket) } else { Effect::Later(ticket) });
            }
        }
    }
}

#[cfg(test)]
mod tests;
