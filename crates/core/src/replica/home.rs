//! An object's home gives it names and takes them, one thing after the other.
//!
//! Rules:
//! 1. One thing is done about an object's names at a time; who else wants one comes again.
//! 2. A name that is to be lost must be one that the object has.
//! 3. A directory that gets another parent has leave first.
//! 4. A name is claimed before it is had. The owner refuses one where another stands that has its
//!    home here and is not replaced: the note may be the object's own, from when it was to replace
//!    that and did not, and who has claimed a name may claim it again.
//! 5. A directory that loses its name is closed before: it is empty.
//! 6. When all of that is had, the metafile is changed on stable storage, once; then it is answered,
//!    and announced if a name was lost.
//! 7. What was not had in time, or not at all, is given up, and nothing was changed; so is a change that
//!    cannot be stored after all. An answer to it that comes later has no effect.
//! 8. An object is about to stand at a place from before that is claimed until the change is stored
//!    or given up. A move is under way just as long.
//! 9. What has its home here as well, and is to lose a name to the object, is under way with it: if it
//!    is a directory it is closed, and both metafiles are changed in one.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_base::units::{FileId, Time};

use super::{Bounds, Place, Stamp, Ticket};

/// What is to be done about an object's names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The object.
    pub object: FileId,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// The name that it loses, and whether it has it.
    pub from: Option<(Place, bool)>,
    /// The name that it gets.
    pub to: Option<Place>,
    /// What has its home here and loses that name to it, and whether that is a directory.
    pub over: Option<(FileId, bool)>,
}

impl Change {
    /// The directory that is to be empty for it.
    fn closes(&self) -> Option<FileId> {
        match self.over {
            Some((over, true)) => Some(over),
            Some((_, false)) | None => {
                (self.is_directory && self.to.is_none()).then_some(self.object)
            }
        }
    }

    /// All that is under way with it.
    pub fn objects(&self) -> impl Iterator<Item = FileId> + use<> {
        [Some(self.object), self.over.map(|(over, _)| over)].into_iter().flatten()
    }

    /// The parent that it gets instead of another.
    fn moves_to(&self) -> Option<FileId> {
        let (from, to) = (&self.from.as_ref()?.0, self.to.as_ref()?);
        (self.is_directory && from.directory != to.directory).then_some(to.directory)
    }
}

/// Why it was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Something is under way, or somebody away.
    Later,
    /// The object does not have the name, or the directory is not there.
    Gone,
    /// The name is another's.
    Exists,
    /// The directory is not empty.
    Full,
    /// The directory would be below itself.
    Loop,
}

/// What happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Names are to be changed.
    Change(Ticket, Change),
    /// What was asked for last for this is had, or is not to be had.
    Had(Ticket, Result<(), Refusal>),
    /// The change is on stable storage, with this version.
    Stored(Ticket, Stamp),
    /// The change cannot be stored now, and will not be.
    Undone(Ticket),
    /// Time went on.
    Tick,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The root's home is asked for leave; [`Event::Had`] follows, as after the next two.
    Leave(Ticket, FileId, FileId),
    /// The home of its directory is asked for the name, which that other object has by now, unless
    /// anything else stands there that has its home here (rule 4).
    Claim(Ticket, FileId, Place, Option<FileId>),
    /// The directory, which has its home here, is to be closed.
    Close(Ticket, FileId),
    /// The metafile is changed on stable storage, and that of what it replaces, in one;
    /// [`Event::Stored`] follows.
    Store(Ticket, Change),
    /// All peers are told that the object has lost this name.
    Announce(FileId, Stamp, Place),
    /// It is done.
    Done(Ticket, Stamp),
    /// It is not done.
    Refused(Ticket, Refusal),
    /// A directory that was closed, or is to be, is to be open.
    Open(FileId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Leave,
    Claim,
    Close,
    Store,
}

#[derive(Clone, Debug)]
struct Under {
    ticket: Ticket,
    change: Change,
    step: Step,
    until: Time,
}

/// A deliberate fault.
#[cfg(feature = "mutants")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Names are not claimed.
    ClaimsNothing,
    /// A directory gets another parent without leave.
    TakesLeave,
    /// Nothing is about to stand anywhere.
    HidesClaims,
    /// A name is had that was refused.
    TakesRefused,
    /// A directory that is replaced need not be empty.
    ReplacesFull,
    /// What does not get another name loses the one that it has.
    LosesRefused,
}

/// What is under way about objects that have their home here.
#[derive(Clone, Debug)]
pub struct Home {
    bounds: Bounds,
    under: BTreeMap<FileId, Under>,
    objects: BTreeMap<Ticket, FileId>,
    /// What is about to be replaced.
    replaced: BTreeSet<FileId>,
    #[cfg(feature = "mutants")]
    mutant: Option<Mutant>,
}

impl Home {
    /// Nothing is under way.
    #[must_use]
    pub const fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            under: BTreeMap::new(),
            objects: BTreeMap::new(),
            replaced: BTreeSet::new(),
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }

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
    pub fn step(&mut self, now: Time, event: Event, effects: &mut Vec<Effect>) {
        match event {
            Event::Change(ticket, change) => self.change(now, ticket, change, effects),
            Event::Had(ticket, had) => self.had(ticket, had, effects),
            Event::Stored(ticket, version) => {
                if let Some(under) = self.take(ticket) {
                    effects.push(Effect::Done(ticket, version));
                    effects.extend(under.change.closes().map(Effect::Open));
                    let Change { object, from, to, over, .. } = under.change;
                    if let Some((from, _)) = from {
                        effects.push(Effect::Announce(object, version, from));
                    }
                    if let (Some((over, _)), Some(to)) = (over, to) {
                        effects.push(Effect::Announce(over, version, to));
                    }
                }
            }
            Event::Undone(ticket) => self.give_up(ticket, Refusal::Later, effects),
            Event::Tick => {}
        }
        let late = |under: &&Under| under.until <= now && under.step != Step::Store;
        let late = self.under.values().filter(late).map(|under| under.ticket);
        for ticket in late.collect::<Vec<_>>() {
            self.give_up(ticket, Refusal::Later, effects);
        }
        if cfg!(debug_assertions) {
            self.check();
        }
    }

    /// Whether an object is about to stand at a place.
    #[must_use]
    pub fn is_about_to_stand(&self, object: FileId, place: &Place) -> bool {
        #[cfg(feature = "mutants")]
        if self.is(Mutant::HidesClaims) {
            return false;
        }
        let under = self.under.get(&object);
        under.is_some_and(|under| {
            under.step >= Step::Claim && under.change.to.as_ref() == Some(place)
        })
    }

    /// Whether the change of this ticket, for which leave was asked, is under way.
    #[must_use]
    pub fn is_moving(&self, ticket: Ticket) -> bool {
        self.objects.contains_key(&ticket)
    }

    /// When something is given up.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        let under = self.under.values().filter(|under| under.step != Step::Store);
        under.map(|under| under.until).min()
    }

    /// Audits the whole state.
    ///
    /// # Panics
    /// When it contradicts itself.
    pub fn check(&self) {
        assert_eq!(self.under.len(), self.objects.len(), "each has a ticket of its own");
        for (ticket, object) in &self.objects {
            assert_eq!(self.under.get(object).map(|under| under.ticket), Some(*ticket));
        }
        let replaced = self.under.values().filter_map(|under| Some(under.change.over?.0));
        assert_eq!(replaced.collect::<BTreeSet<_>>(), self.replaced, "they are under way");
        assert!(
            self.replaced.iter().all(|over| !self.under.contains_key(over)),
            "and nowhere else"
        );
    }

    fn change(&mut self, now: Time, ticket: Ticket, change: Change, effects: &mut Vec<Effect>) {
        let is_full = self.under.len() >= self.bounds.most;
        let is_under = |one| self.under.contains_key(&one) || self.replaced.contains(&one);
        if is_full || change.objects().any(is_under) {
            effects.push(Effect::Refused(ticket, Refusal::Later));
            return;
        }
        if change.from.as_ref().is_some_and(|(_, is_had)| !is_had) {
            effects.push(Effect::Refused(ticket, Refusal::Gone));
            return;
        }
        let until = now + self.bounds.patience;
        let mut under = Under { ticket, change, step: Step::Leave, until };
        self.go(&mut under, Step::Leave, effects);
        self.put_back(under);
    }

    /// Takes the next step that there is something to do in.
    fn go(&self, under: &mut Under, step: Step, effects: &mut Vec<Effect>) {
        let Under { ticket, change, .. } = under;
        let (ticket, object) = (*ticket, change.object);
        let parent = change.moves_to();
        #[cfg(feature = "mutants")]
        let parent = parent.filter(|_| !self.is(Mutant::TakesLeave));
        let to = change.to.clone();
        #[cfg(feature = "mutants")]
        let to = to.filter(|_| !self.is(Mutant::ClaimsNothing));
        let closes = change.closes();
        #[cfg(feature = "mutants")]
        let closes = closes.filter(|_| change.over.is_none() || !self.is(Mutant::ReplacesFull));
        if let (Step::Leave, Some(parent)) = (step, parent) {
            under.step = Step::Leave;
            effects.push(Effect::Leave(ticket, object, parent));
        } else if let (Step::Leave | Step::Claim, Some(to)) = (step, to) {
            under.step = Step::Claim;
            let over = change.over.map(|(over, _)| over);
            effects.push(Effect::Claim(ticket, object, to, over));
        } else if let (true, Some(closes)) = (step <= Step::Close, closes) {
            under.step = Step::Close;
            effects.push(Effect::Close(ticket, closes));
        } else {
            under.step = Step::Store;
            effects.push(Effect::Store(ticket, change.clone()));
        }
    }

    fn had(&mut self, ticket: Ticket, had: Result<(), Refusal>, effects: &mut Vec<Effect>) {
        let Some(mut under) = self.take(ticket) else { return };
        #[cfg(feature = "mutants")]
        let had = if self.is(Mutant::TakesRefused) { had.or(Ok(())) } else { had };
        let next = match under.step {
            Step::Leave => Step::Claim,
            Step::Claim => Step::Close,
            Step::Close | Step::Store => Step::Store,
        };
        if under.step == Step::Store {
            self.put_back(under);
            return;
        }
        if let Err(refusal) = had {
            self.put_back(under);
            self.give_up(ticket, refusal, effects);
            return;
        }
        self.go(&mut under, next, effects);
        self.put_back(under);
    }

    fn give_up(&mut self, ticket: Ticket, refusal: Refusal, effects: &mut Vec<Effect>) {
        let Some(under) = self.take(ticket) else { return };
        if under.step >= Step::Close {
            effects.extend(under.change.closes().map(Effect::Open));
        }
        #[cfg(feature = "mutants")]
        if self.is(Mutant::LosesRefused) && under.change.from.is_some() {
            let Under { change, until, .. } = under;
            let change = Change { to: None, over: None, ..change };
            effects.push(Effect::Store(ticket, change.clone()));
            self.put_back(Under { ticket, change, step: Step::Store, until });
            return;
        }
        effects.push(Effect::Refused(ticket, refusal));
    }

    fn take(&mut self, ticket: Ticket) -> Option<Under> {
        let object = self.objects.remove(&ticket)?;
        let under = self.under.remove(&object)?;
        under.change.over.iter().for_each(|(over, _)| {
            self.replaced.remove(over);
        });
        Some(under)
    }

    fn put_back(&mut self, under: Under) {
        self.objects.insert(under.ticket, under.change.object);
        self.replaced.extend(under.change.over.map(|(over, _)| over));
        self.under.insert(under.change.object, under);
    }
}

#[cfg(test)]
mod tests;
