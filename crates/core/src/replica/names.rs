//! A directory's home keeps names apart: of two objects that are to have one name exactly one gets
//! it, and a directory that is removed is empty.
//!
//! The owner keeps on stable storage, for each name in a directory, a note of who claimed it last.
//! A note says nothing of whether the object is there: that its own home knows.
//!
//! Rules:
//! 1. A name that nobody has claimed is claimed as soon as that is noted.
//! 2. Who has claimed a name may claim it again.
//! 3. If another has claimed it that one's home is asked. If the object stands there, or is about
//!    to, the name exists; if not, the note is written over. So it is if it has yielded the name to who
//!    claims it, where that has replaced what stands there: to one that has not it still stands there.
//! 4. If that home does not say, who claims is told to come again.
//! 5. One thing is done about a name at a time; who else claims it meanwhile comes again.
//! 6. A directory may go if the homes of all that claimed a name in it say that none stands there or
//!    is about to. It is closed then, and while they are asked: who claims a name in it comes again.
//! 7. While a name in it is being claimed, a directory is not empty.
//! 8. When an object has left a place its home is asked as well, and the note dropped if it has.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_base::units::FileId;

use super::{Call, Homes, Place, Ticket};

/// Whether an object stands at a place or is about to, as its home says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stands {
    /// It does.
    Yes,
    /// It does not.
    No,
    /// The home did not say.
    Unknown,
}

/// What happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The object is to have a name.
    Claim {
        /// Who is to be told.
        ticket: Ticket,
        /// The name.
        place: Place,
        /// The object.
        object: FileId,
        /// Which other has claimed it, if any.
        noted: Option<FileId>,
        /// Whether the object has it, and what has its home elsewhere has yielded it.
        yielded: bool,
    },
    /// The directory is to go; these have claimed names in it.
    Retire(Ticket, FileId, Vec<(Vec<u8>, FileId)>),
    /// The object, which has claimed the place, has left it.
    Left(Place, FileId),
    /// What a home says that was asked.
    Stands(Call, Stands),
    /// The claim is noted.
    Noted(Place),
    /// The directory is gone, or is not to go after all.
    Reopened(FileId),
}

impl Event {
    /// An object is to have a name, which that other loses to it, if any does, and which `noted` has claimed.
    #[must_use]
    pub fn claim(
        homes: &Homes,
        ticket: Ticket,
        (place, object, over): (Place, FileId, Option<FileId>),
        noted: Option<FileId>,
    ) -> Self {
        let is_elsewhere = |other: FileId| homes.of(other) != homes.of(object);
        let yielded = over.is_some_and(is_elsewhere);
        // What is replaced and has the same home is seen to by that.
        let is_seen_to = over.is_some() && !yielded;
        let noted = noted.filter(|noted| !is_seen_to || is_elsewhere(*noted));
        Self::Claim { ticket, place, object, noted, yielded }
    }
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The object's home is asked whether it stands there, and has not yielded the name to that other;
    /// [`Event::Stands`] follows, always.
    Ask(Call, Place, FileId, Option<FileId>),
    /// It goes to stable storage that the object has claimed the place; [`Event::Noted`] follows.
    Note(Place, FileId),
    /// The note is dropped, some time.
    Drop(Place),
    /// The place is the object's.
    Granted(Ticket),
    /// The place is another's.
    Exists(Ticket),
    /// It is to be asked again.
    Later(Ticket),
    /// The directory is empty, and closed.
    Retired(Ticket),
    /// The directory is not empty.
    Full(Ticket),
}

#[derive(Clone, Debug)]
enum Work {
    /// Another's home is asked for the one who claims.
    Asking { ticket: Ticket, object: FileId },
    /// The claim goes to stable storage.
    Noting(Ticket),
    /// The home of who has left is asked.
    Sweeping,
}

#[derive(Clone, Debug)]
struct Closed {
    ticket: Ticket,
    /// What is still asked.
    asked: BTreeSet<Call>,
}

/// A deliberate fault.
#[cfg(feature = "mutants")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A name that another has claimed is taken from it.
    TakesNames,
    /// What has yielded a name to who claims it does not stand there, whether that has replaced it or not.
    TakesYielded,
    /// A directory is closed without asking.
    ClosesFull,
    /// A directory that is asked about is open.
    LeavesOpen,
    /// A note is dropped though its object stands there.
    DropsStanding,
}

/// What is under way about names in directories that have their home here.
#[derive(Clone, Debug, Default)]
pub struct Names {
    work: BTreeMap<Place, Work>,
    closed: BTreeMap<FileId, Closed>,
    /// About which place each call is, and whether for the directory's end.
    calls: BTreeMap<Call, (Place, bool)>,
    last_call: u64,
    #[cfg(feature = "mutants")]
    mutant: Option<Mutant>,
}

impl Names {
    /// Plants a fault.
    #[cfg(feature = "mutants")]
    pub const fn plant(&mut self, mutant: Mutant) {
        self.mutant = Some(mutant);
    }

    #[cfg(feature = "mutants")]
    fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// Takes one event, and appends what is to be done in order.
    pub fn step(&mut self, event: Event, effects: &mut Vec<Effect>) {
        match event {
            Event::Claim { ticket, place, object, noted, yielded } => {
                self.claim(ticket, place, (object, yielded), noted, effects);
            }
            Event::Retire(ticket, directory, claims) => {
                self.retire(ticket, directory, claims, effects);
            }
            Event::Left(place, object) => {
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
        if is_closed || self.work.contains_key(&place) {
            effects.push(Effect::Later(ticket));
            return;
        }
        match other {
            Some(other) if other == object => effects.push(Effect::Granted(ticket)),
            Some(other) => {
                self.work.insert(place.clone(), Work::Asking { ticket, object });
                self.ask(place, (other, yielded.then_some(object)), false, effects);
            }
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
                Stands::Unknown => effects.push(Effect::Later(ticket)),
                Stands::No => {
                    effects.push(Effect::Note(place.clone(), object));
                    self.work.insert(place, Work::Noting(ticket));
                }
            },
            Some(Work::Sweeping) => {
                #[cfg(feature = "mutants")]
                let stands = if self.is(Mutant::DropsStanding) { Stands::No } else { stands };
                if stands == Stands::No {
                    effects.push(Effect::Drop(place));
                }
            }
            Some(Work::Noting(_)) | None => unreachable!("a place that is asked about is kept"),
        }
    }

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
