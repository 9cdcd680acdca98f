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
//! 10. What has its home elsewhere, and is to lose a name to the object, yields it first, and the name
//!     is claimed when the change is stored. Then that home takes it from it. All is tried again until it
//!     is done, from the yield on, and the change is under way as long; so is one that a start finds stored.
//! 11. Whoever has leases on the object gives them back before, however long that takes: what has
//!     yielded is shown by nobody, and so it does not wait for them.
//! 12. A home that begins another epoch has yielded nothing: what is not on its way to stable storage is
//!     given up.
//! 13. What was replaced elsewhere is told its home for a window more when that starts anew: whoever
//!     looks for the name may still come too late to it.
//! 14. Of those that are to replace each other, the lower number does: what waits for another to yield
//!     gives way.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use leasehold_base::units::{FileId, Time};

use super::yields::Yield;
use super::{Bounds, Peer, Place, Stamp, Ticket};

/// How long until what is stored, and was refused what comes behind that, asks for it again.
const AGAIN: Duration = Duration::from_secs(1);

/// How many are to replace something elsewhere at one time: a home that starts is told of all.
pub const REPLACES_MAX: usize = 128;

/// How many that did so just now are remembered: it is told of these as well.
pub const LATELY_MAX: usize = 96;

/// What loses a name to another object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// It has its home here; with whether it is a directory.
    Here(FileId, bool),
    /// It has its home at this peer, and is no directory.
    There(FileId, Peer),
}

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
    /// What loses that name to it.
    pub over: Option<Over>,
}

impl Change {
    /// The directory that is to be empty for it.
    fn closes(&self) -> Option<FileId> {
        match self.over {
            Some(Over::Here(over, true)) => Some(over),
            Some(Over::Here(_, false) | Over::There(..)) | None => {
                (self.is_directory && self.to.is_none()).then_some(self.object)
            }
        }
    }

    /// What has its home here and loses the name to it.
    #[must_use]
    pub const fn over_here(&self) -> Option<FileId> {
        match self.over {
            Some(Over::Here(over, _)) => Some(over),
            Some(Over::There(..)) | None => None,
        }
    }

    /// What has its home elsewhere and loses that name to it, and where that is.
    #[must_use]
    pub fn over_there(&self) -> Option<(Place, FileId, Peer)> {
        match (self.over, &self.to) {
            (Some(Over::There(over, peer)), Some(to)) => Some((to.clone(), over, peer)),
            _ => None,
        }
    }

    /// Whether what loses that name has its home elsewhere, at such a peer.
    fn is_over_there(&self, is_meant: impl FnOnce(Peer) -> bool) -> bool {
        matches!(self.over, Some(Over::There(_, peer)) if is_meant(peer))
    }

    /// All that is under way with it.
    pub fn objects(&self) -> impl Iterator<Item = FileId> + use<> {
        [Some(self.object), self.over_here()].into_iter().flatten()
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
    /// A start finds this stored, with this version, and what it replaces not gone (rule 10).
    Found(Ticket, Change, Stamp),
    /// A peer has begun another epoch.
    Restarted(Peer),
    /// The first object is asked to yield a name to the second, which has its home elsewhere.
    Wanted(FileId, FileId),
    /// Time went on.
    Tick,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The root's home is asked for leave; [`Event::Had`] follows, as after all that asks.
    Leave(Ticket, FileId, FileId),
    /// The home of its directory is asked for the name, which that other loses to it, unless anything
    /// else stands there that has its home here (rule 4).
    Claim(Ticket, FileId, Place, Option<FileId>),
    /// The directory, which has its home here, is to be closed.
    Close(Ticket, FileId),
    /// Nobody else is to have a lease on the object, from then on until the change has ended.
    Turn(Ticket, FileId),
    /// The home of that other is asked to have it yield the place to the object.
    Yield(Ticket, FileId, Place, FileId),
    /// It is told that the object will not stand there.
    Keep(Ticket, FileId, Place, FileId),
    /// It is asked to take the place from it, where the object stands by a change with this version.
    Replace(Ticket, FileId, Place, FileId, Stamp),
    /// That is done: it need not be known any more that the object has replaced something.
    Replaced(FileId),
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
    Turn,
    Yield,
    Claim,
    Close,
    Store,
    /// What is stored asks for the name again: what was yielded may be forgotten.
    Again,
    /// It claims the name.
    Note,
    Replace,
}

impl Step {
    /// Whether a change is given up that is not further in time.
    const fn is_limited(self) -> bool {
        matches!(self, Self::Leave | Self::Yield | Self::Claim | Self::Close)
    }
}

#[derive(Clone, Debug)]
struct Under {
    ticket: Ticket,
    change: Change,
    step: Step,
    until: Time,
    version: Stamp,
    /// When what is stored asks again.
    again: Option<Time>,
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
    /// A change that a start finds stored is not under way.
    ForgetsReplaced,
}

/// What is under way about objects that have their home here.
#[derive(Clone, Debug)]
pub struct Home {
    bounds: Bounds,
    under: BTreeMap<FileId, Under>,
    objects: BTreeMap<Ticket, FileId>,
    /// What is about to be replaced.
    replaced: BTreeSet<FileId>,
    /// What was replaced just now that has its home elsewhere, at which peer, and until when that is told.
    lately: VecDeque<(Time, Peer, Yield)>,
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
            lately: VecDeque::new(),
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
            Event::Had(ticket, had) => self.had(now, ticket, had, effects),
            Event::Stored(ticket, version) => {
                if let Some(mut under) = self.take(ticket) {
                    under.version = version;
                    if under.change.over_there().is_some() {
                        under.step = Step::Note;
                        Self::go_on(&under, effects);
                        self.put_back(under);
                    } else {
                        self.end(now, under, effects);
                    }
                }
            }
            Event::Found(ticket, change, version) => {
                self.found(now, ticket, change, version, effects);
            }
            Event::Restarted(peer) => self.give_up_all(effects, |under| {
                under.step == Step::Yield && under.change.is_over_there(|home| home == peer)
            }),
            Event::Wanted(object, to) => {
                let waits = self.under.get(&object).filter(|under| under.step == Step::Yield);
                if let Some(ticket) = waits.filter(|_| to < object).map(|under| under.ticket) {
                    self.give_up(ticket, Refusal::Later, effects);
                }
            }
            Event::Undone(ticket) => self.give_up(ticket, Refusal::Later, effects),
            Event::Tick => {}
        }
        self.give_up_all(effects, |under| under.until <= now && under.step.is_limited());
        while self.lately.pop_front_if(|(until, ..)| *until <= now).is_some() {}
        for under in self.under.values_mut() {
            if under.again.take_if(|again| *again <= now).is_some() {
                Self::go_on(under, effects);
            }
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
            under.step >= Step::Yield && under.change.to.as_ref() == Some(place)
        })
    }

    /// Whether anything is under way about an object's names.
    #[must_use]
    pub fn is_under(&self, object: FileId) -> bool {
        self.under.contains_key(&object) || self.replaced.contains(&object)
    }

    /// Whether a change by which something loses a name that has its home at a peer is on its way to
    /// stable storage.
    #[must_use]
    pub fn is_storing_over(&self, peer: Peer) -> bool {
        self.under.values().any(|under| {
            under.step == Step::Store && under.change.is_over_there(|home| home == peer)
        })
    }

    /// What was replaced just now and has its home at a peer.
    pub fn replaced_lately(&self, peer: Peer) -> impl Iterator<Item = &Yield> {
        self.lately.iter().filter(move |(_, home, _)| *home == peer).map(|(.., it)| it)
    }

    /// Whether the change of this ticket is under way.
    #[must_use]
    pub fn is_moving(&self, ticket: Ticket) -> bool {
        self.objects.contains_key(&ticket)
    }

    /// When something is given up.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        let next = |under: &Under| {
            let until = under.step.is_limited().then_some(under.until);
            until.into_iter().chain(under.again).min()
        };
        self.under.values().filter_map(next).min()
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
        let replaced = self.under.values().filter_map(|under| under.change.over_here());
        assert_eq!(replaced.collect::<BTreeSet<_>>(), self.replaced, "they are under way");
        assert!(
            self.replaced.iter().all(|over| !self.under.contains_key(over)),
            "and nowhere else"
        );
    }

    fn change(&mut self, now: Time, ticket: Ticket, change: Change, effects: &mut Vec<Effect>) {
        let is_there = |change: &Change| change.is_over_there(|_| true);
        let replaces = || self.under.values().filter(|under| is_there(&under.change)).count();
        let is_full = self.under.len() >= self.bounds.most
            || (is_there(&change) && replaces() >= REPLACES_MAX);
        if is_full || change.objects().any(|one| self.is_under(one)) {
            effects.push(Effect::Refused(ticket, Refusal::Later));
            return;
        }
        if change.from.as_ref().is_some_and(|(_, is_had)| !is_had) {
            effects.push(Effect::Refused(ticket, Refusal::Gone));
            return;
        }
        let mut under = self.begins(now, ticket, change);
        self.go(&mut under, Step::Leave, effects);
        self.put_back(under);
    }

    fn begins(&self, now: Time, ticket: Ticket, change: Change) -> Under {
        let (until, version, again) = (now + self.bounds.patience, Stamp::default(), None);
        Under { ticket, change, step: Step::Leave, until, version, again }
    }

    /// Goes on with what is stored, and was not answered.
    fn found(
        &mut self,
        now: Time,
        ticket: Ticket,
        change: Change,
        version: Stamp,
        effects: &mut Vec<Effect>,
    ) {
        #[cfg(feature = "mutants")]
        if self.is(Mutant::ForgetsReplaced) {
            return;
        }
        if !change.objects().any(|one| self.is_under(one)) {
            let under = self.begins(now, ticket, change);
            let under = Under { step: Step::Note, version, ..under };
            Self::go_on(&under, effects);
            self.put_back(under);
        }
    }

    /// What is stored claims the name, and then has it taken from what it replaces.
    fn go_on(under: &Under, effects: &mut Vec<Effect>) {
        let Under { ticket, change, step, version, .. } = under;
        let Some((place, over, _)) = change.over_there() else { return };
        let (ticket, object) = (*ticket, change.object);
        effects.push(if *step == Step::Replace {
            Effect::Replace(ticket, object, place, over, *version)
        } else if *step == Step::Note {
            Effect::Claim(ticket, object, place, Some(over))
        } else {
            Effect::Yield(ticket, object, place, over)
        });
    }

    fn end(&mut self, now: Time, under: Under, effects: &mut Vec<Effect>) {
        let Under { ticket, change, version, .. } = under;
        if let Some((place, over, peer)) = change.over_there() {
            let it = Yield { over, place, to: change.object, number: ticket.0 };
            self.lately.push_back((now + self.bounds.window, peer, it));
            self.lately.drain(..self.lately.len().saturating_sub(LATELY_MAX));
        }
        effects.push(Effect::Done(ticket, version));
        effects.extend(change.closes().map(Effect::Open));
        let (there, here) = (change.over_there(), change.over_here());
        let Change { object, from, to, .. } = change;
        effects.extend(there.map(|_| Effect::Replaced(object)));
        if let Some((from, _)) = from {
            effects.push(Effect::Announce(object, version, from));
        }
        if let (Some(over), Some(to)) = (here, to) {
            effects.push(Effect::Announce(over, version, to));
        }
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
        let there = change.over_there();
        if let (Step::Leave, Some(parent)) = (step, parent) {
            under.step = Step::Leave;
            effects.push(Effect::Leave(ticket, object, parent));
        } else if step <= Step::Turn && there.is_some() {
            under.step = Step::Turn;
            effects.push(Effect::Turn(ticket, object));
        } else if let (true, Some((to, over, _))) = (step <= Step::Yield, &there) {
            under.step = Step::Yield;
            effects.push(Effect::Yield(ticket, object, to.clone(), *over));
        } else if let (true, Some(to)) = (step <= Step::Claim && there.is_none(), to) {
            under.step = Step::Claim;
            effects.push(Effect::Claim(ticket, object, to, change.over_here()));
        } else if let (true, Some(closes)) = (step <= Step::Close, closes) {
            under.step = Step::Close;
            effects.push(Effect::Close(ticket, closes));
        } else {
            under.step = Step::Store;
            effects.push(Effect::Store(ticket, change.clone()));
        }
    }

    fn had(
        &mut self,
        now: Time,
        ticket: Ticket,
        had: Result<(), Refusal>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(mut under) = self.take(ticket) else { return };
        #[cfg(feature = "mutants")]
        let had = if self.is(Mutant::TakesRefused) && under.step < Step::Store {
            had.or(Ok(()))
        } else {
            had
        };
        let next = match (under.step, had) {
            (Step::Store, _) => {
                self.put_back(under);
                return;
            }
            (Step::Yield | Step::Again, Err(Refusal::Later)) => {
                under.again = Some(now + AGAIN);
                self.put_back(under);
                return;
            }
            (Step::Note | Step::Replace, Err(_)) => {
                (under.step, under.again) = (Step::Again, Some(now + AGAIN));
                self.put_back(under);
                return;
            }
            // What does not stand there any more need not yield.
            (Step::Again, _) | (Step::Note, Ok(())) => {
                let is_again = under.step == Step::Again;
                under.step = if is_again { Step::Note } else { Step::Replace };
                Self::go_on(&under, effects);
                self.put_back(under);
                return;
            }
            (Step::Replace, Ok(())) => {
                self.end(now, under, effects);
                return;
            }
            (_, Err(refusal)) => {
                self.put_back(under);
                self.give_up(ticket, refusal, effects);
                return;
            }
            (Step::Leave, Ok(())) => Step::Turn,
            (Step::Turn, Ok(())) => {
                under.until = now + self.bounds.patience;
                Step::Yield
            }
            (Step::Claim, Ok(())) => Step::Close,
            (Step::Yield | Step::Close, Ok(())) => Step::Store,
        };
        self.go(&mut under, next, effects);
        self.put_back(under);
    }

    fn give_up_all(&mut self, effects: &mut Vec<Effect>, is_over: impl Fn(&Under) -> bool) {
        let over = self.under.values().filter(|under| is_over(under)).map(|under| under.ticket);
        for ticket in over.collect::<Vec<_>>() {
            self.give_up(ticket, Refusal::Later, effects);
        }
    }

    fn give_up(&mut self, ticket: Ticket, refusal: Refusal, effects: &mut Vec<Effect>) {
        let Some(under) = self.take(ticket) else { return };
        if under.step >= Step::Close {
            effects.extend(under.change.closes().map(Effect::Open));
        }
        if let (true, Some((place, over, _))) =
            (under.step >= Step::Yield, under.change.over_there())
        {
            effects.push(Effect::Keep(ticket, under.change.object, place, over));
        }
        #[cfg(feature = "mutants")]
        if self.is(Mutant::LosesRefused) && under.change.from.is_some() {
            let change = Change { to: None, over: None, ..under.change };
            effects.push(Effect::Store(ticket, change.clone()));
            self.put_back(Under { change, step: Step::Store, ..under });
            return;
        }
        effects.push(Effect::Refused(ticket, refusal));
    }

    fn take(&mut self, ticket: Ticket) -> Option<Under> {
        let object = self.objects.remove(&ticket)?;
        let under = self.under.remove(&object)?;
        under.change.over_here().iter().for_each(|over| {
            self.replaced.remove(over);
        });
        Some(under)
    }

    fn put_back(&mut self, under: Under) {
        self.objects.insert(under.ticket, under.change.object);
        self.replaced.extend(under.change.over_here());
        self.under.insert(under.change.object, under);
    }
}

#[cfg(test)]
mod tests;
