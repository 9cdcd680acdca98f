//! Changes of the names of an object at its home, one at a time.
//!
//! Rules:
//! 1. One change of an object's names is pending at a time; another change must be retried later.
//! 2. An object must have the name that it is to lose.
//! 3. A directory needs permission before it gets another parent.
//! 4. An object claims a name at the home of the name's directory before it gets the name; if the
//!    name belongs to an object of another home, rule 10 applies instead. The owner refuses a claim
//!    if another object of this home has the name and is not being replaced. An object may repeat
//!    its claim.
//! 5. A directory that is to be removed, also by a replacement (rule 9), is closed first, because
//!    it must be empty and stay empty. It is reopened when the change is made or given up. A
//!    directory that gets another name is not closed.
//! 6. When all conditions hold, the metadata file is changed on stable storage in one write. Then
//!    the call is answered, and an announcement is sent if the object has lost a name.
//! 7. If a condition fails or times out, or the change cannot be stored, the change is given up
//!    without effect. A reply that arrives after that is ignored.
//! 8. From before the claim until the change is stored or given up, an object is about to get the
//!    name, and this home reports so to other homes. The move of a directory is pending for the
//!    same time (rule 3).
//! 9. If the object that loses the name has the same home, it takes part in the change: if it is a
//!    directory, it is closed, and both metadata files are changed in one write.
//! 10. If the object that loses the name has another home, that object yields the name first, and
//!     the name is claimed after the change is stored. Then the other home removes the name from
//!     its object. If the claim or the removal fails, the steps are repeated from the yield on
//!     until they succeed, and the change is pending until then. A restarted metaserver resumes
//!     each stored change that is not complete.
//! 11. All leases of other metaservers on the object are recalled before the yield, without a time
//!     limit. The object that yields is hidden from all callers, so the time between the yield and
//!     the change must not include a wait for leases.
//! 12. When a home begins a new epoch, its earlier yields are void: a change that depends on such a
//!     yield is given up, unless it is already being stored.
//! 13. This home remembers a complete replacement for one more window. If the home of the replaced
//!     object restarts in that time, this home reports the replacement to it, because a search for
//!     the name may still arrive at that home (rule 5 of `yields`).
//! 14. If another home requests that an object yields a name while the object's own change waits
//!     for the yield of some object, the own change is given up if the requesting object has the
//!     lower id. So objects that are to replace each other, in a cycle of any length, do not wait
//!     for each other without end. A change that has its yield continues.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use leasehold_base::limits::durations::PEER_RETRY_DELAY;
use leasehold_base::units::{FileId, Time};

use super::yields::Yield;
use super::{Bounds, Peer, Place, Stamp, Ticket};

/// The maximum number of pending replacements of objects of other homes: a home that starts
/// receives a list of all of them.
pub const REPLACES_MAX: usize = 128;

/// The maximum number of recent replacements that are remembered: a home that starts receives a
/// list of them as well.
pub const LATELY_MAX: usize = 96;

/// The object that loses a name to another object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// An object of this home; true if the object is a directory.
    Here(FileId, bool),
    /// An object of this peer, which is not a directory.
    There(FileId, Peer),
}

/// A change of an object's names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The object.
    pub object: FileId,
    /// True if the object is a directory.
    pub is_directory: bool,
    /// The name that the object loses; true if the object has this name.
    pub from: Option<(Place, bool)>,
    /// The name that the object gets.
    pub to: Option<Place>,
    /// The object that has the name `to` and loses it.
    pub over: Option<Over>,
}

impl Change {
    /// Returns the directory that must be empty for the change.
    fn closes(&self) -> Option<FileId> {
        match self.over {
            // Rule 9: a directory of this home that loses its name to the object is closed.
            Some(Over::Here(over, true)) => Some(over),
            Some(Over::Here(_, false) | Over::There(..)) | None => {
                (self.is_directory && self.to.is_none()).then_some(self.object)
            }
        }
    }

    /// Returns the object of this home that loses the name to another object.
    #[must_use]
    pub const fn over_here(&self) -> Option<FileId> {
        match self.over {
            Some(Over::Here(over, _)) => Some(over),
            Some(Over::There(..)) | None => None,
        }
    }

    /// Returns the object of another home that loses the name, with the name and the other home.
    #[must_use]
    pub fn over_there(&self) -> Option<(Place, FileId, Peer)> {
        match (self.over, &self.to) {
            (Some(Over::There(over, peer)), Some(to)) => Some((to.clone(), over, peer)),
            _ => None,
        }
    }

    /// Returns true if the object that loses the name has another home that satisfies the
    /// predicate.
    fn is_over_there(&self, is_meant: impl FnOnce(Peer) -> bool) -> bool {
        matches!(self.over, Some(Over::There(_, peer)) if is_meant(peer))
    }

    /// Rule 9: lists the objects of this home that take part in the change.
    pub fn objects(&self) -> impl Iterator<Item = FileId> + use<> {
        [Some(self.object), self.over_here()].into_iter().flatten()
    }

    /// Returns the new parent of a directory that gets another parent.
    fn moves_to(&self) -> Option<FileId> {
        let (from, to) = (&self.from.as_ref()?.0, self.to.as_ref()?);
        (self.is_directory && from.directory != to.directory).then_some(to.directory)
    }
}

/// The reason for which a change was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A conflicting change is pending, or a peer is unreachable.
    Later,
    /// The object does not have the name, or the directory does not exist.
    Gone,
    /// Another object has the name.
    Exists,
    /// The directory is not empty.
    Full,
    /// The directory would be its own ancestor.
    Loop,
}

/// An event for a home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A change of names is requested.
    Change(Ticket, Change),
    /// The result of the last request that an effect made for this change.
    Had(Ticket, Result<(), Refusal>),
    /// The change is on stable storage, with this version.
    Stored(Ticket, Stamp),
    /// The change was not stored, and will not be stored.
    Undone(Ticket),
    /// After a restart the owner found this change on stable storage, with this version. The
    /// replaced object may still have the name (rule 10).
    Found(Ticket, Change, Stamp),
    /// A peer has begun a new epoch.
    Restarted(Peer),
    /// Another home requests that the first object, an object of this home, yields a name to the
    /// second object.
    Wanted(FileId, FileId),
    /// Time has passed.
    Tick,
}

/// An action that the owner of this state machine must perform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Request permission from the root's home; [`Event::Had`] follows, as after every request.
    Leave(Ticket, FileId, FileId),
    /// Claim the name at the home of its directory. The last object loses the name. The owner
    /// refuses the claim if a third object of this home has the name (rule 4).
    Claim(Ticket, FileId, Place, Option<FileId>),
    /// Close the directory, which has its home here.
    Close(Ticket, FileId),
    /// Recall all leases of other metaservers on the object, and grant none until the change has
    /// ended.
    Turn(Ticket, FileId),
    /// Ask the home of the last object to make this object yield the name to the first object.
    Yield(Ticket, FileId, Place, FileId),
    /// Report to the home of the last object that the first object will not get the name, so that
    /// the yield ends.
    Keep(Ticket, FileId, Place, FileId),
    /// Ask the home of the last object to remove the name from this object. The first object has
    /// the name since the change with this version.
    Replace(Ticket, FileId, Place, FileId, Stamp),
    /// The replacement is complete: the record that the object has replaced another can be removed.
    Replaced(FileId),
    /// Change the metadata files of the object and of the object that it replaces on stable
    /// storage, in one write; [`Event::Stored`] follows.
    Store(Ticket, Change),
    /// Announce to all peers that the object has lost this name.
    Announce(FileId, Stamp, Place),
    /// The change is made.
    Done(Ticket, Stamp),
    /// The change is not made.
    Refused(Ticket, Refusal),
    /// Reopen a directory for which [`Effect::Close`] was requested.
    Open(FileId),
}

/// The step of a change whose result is awaited. Steps from `Again` on follow the stored change
/// (rule 10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Leave,
    Turn,
    Yield,
    Claim,
    Close,
    Store,
    /// The stored change requests the yield again, because the other home may have forgotten it.
    Again,
    /// The stored change claims the name.
    Note,
    Replace,
}

impl Step {
    /// Returns true if a change in this step is given up after a time limit.
    const fn is_limited(self) -> bool {
        matches!(self, Self::Leave | Self::Yield | Self::Claim | Self::Close)
    }
}

/// A pending change.
#[derive(Clone, Debug)]
struct Under {
    ticket: Ticket,
    change: Change,
    step: Step,
    /// The time at which the change is given up, if its step is limited.
    until: Time,
    version: Stamp,
    /// The time at which the current step is requested again.
    again: Option<Time>,
}

/// A deliberate fault.
#[cfg(feature = "mutants")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Names are not claimed.
    ClaimsNothing,
    /// A directory gets another parent without permission.
    TakesLeave,
    /// No object is ever reported as about to get a name.
    HidesClaims,
    /// A refused name is taken.
    TakesRefused,
    /// A directory that is replaced need not be empty.
    ReplacesFull,
    /// An object that does not get its new name loses its old one.
    LosesRefused,
    /// A restarted metaserver does not resume the stored changes.
    ForgetsReplaced,
}

/// The pending changes of objects of this home.
#[derive(Clone, Debug)]
pub struct Home {
    bounds: Bounds,
    /// The pending changes, by the object that gets or loses names.
    under: BTreeMap<FileId, Under>,
    /// The object of each pending change.
    objects: BTreeMap<Ticket, FileId>,
    /// The objects of this home that pending changes replace.
    replaced: BTreeSet<FileId>,
    /// Recent replacements of objects of other homes (rule 13): the time until which the
    /// replacement is reported, the home of the replaced object, and the yield.
    lately: VecDeque<(Time, Peer, Yield)>,
    #[cfg(feature = "mutants")]
    mutant: Option<Mutant>,
}

impl Home {
    /// Creates the state without pending changes.
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
            // Rule 12: the yields of the earlier epoch are void, so each change that waits for its
            // yield is given up.
            Event::Restarted(peer) => self.give_up_all(effects, |under| {
                under.step == Step::Yield && under.change.is_over_there(|home| home == peer)
            }),
            Event::Wanted(object, to) => {
                let waits = self.under.get(&object).filter(|under| under.step == Step::Yield);
                // Rule 14: the object with the lower id replaces this object, so the change of this
                // object is given up.
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

    /// Rule 8: returns true if an object is about to get a name.
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

    /// Returns true if a change of an object's names is pending.
    #[must_use]
    pub fn is_under(&self, object: FileId) -> bool {
        self.under.contains_key(&object) || self.replaced.contains(&object)
    }

    /// Returns true if a change by which an object of this peer loses a name is being stored.
    #[must_use]
    pub fn is_storing_over(&self, peer: Peer) -> bool {
        self.under.values().any(|under| {
            under.step == Step::Store && under.change.is_over_there(|home| home == peer)
        })
    }

    /// Lists the recently replaced objects of a peer.
    pub fn replaced_lately(&self, peer: Peer) -> impl Iterator<Item = &Yield> {
        self.lately.iter().filter(move |(_, home, _)| *home == peer).map(|(.., it)| it)
    }

    /// Returns true if the change of this ticket is pending.
    #[must_use]
    pub fn is_moving(&self, ticket: Ticket) -> bool {
        self.objects.contains_key(&ticket)
    }

    /// Returns the next time at which a change is given up or retried.
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
    /// Panics if the state is inconsistent.
    pub fn check(&self) {
        assert_eq!(self.under.len(), self.objects.len(), "each pending change has its own ticket");
        for (ticket, object) in &self.objects {
            assert_eq!(self.under.get(object).map(|under| under.ticket), Some(*ticket));
        }
        let replaced = self.under.values().filter_map(|under| under.change.over_here());
        assert_eq!(
            replaced.collect::<BTreeSet<_>>(),
            self.replaced,
            "each replaced object belongs to a pending change"
        );
        assert!(
            self.replaced.iter().all(|over| !self.under.contains_key(over)),
            "a replaced object has no change of its own"
        );
    }

    fn change(&mut self, now: Time, ticket: Ticket, change: Change, effects: &mut Vec<Effect>) {
        let is_there = |change: &Change| change.is_over_there(|_| true);
        let replaces = || self.under.values().filter(|under| is_there(&under.change)).count();
        let is_full = self.under.len() >= self.bounds.most
            || (is_there(&change) && replaces() >= REPLACES_MAX);
        // Rule 1: while a change of the object's names is pending, another change must be retried
        // later.
        if is_full || change.objects().any(|one| self.is_under(one)) {
            effects.push(Effect::Refused(ticket, Refusal::Later));
            return;
        }
        // Rule 2: an object cannot lose a name that it does not have.
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

    /// Rule 10: resumes a stored change that is not complete.
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

    /// Rule 10: requests the current step of a change that replaces an object of another home: the
    /// yield, the claim, or the removal of the name from the replaced object.
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
            // Rule 13: this home remembers the complete replacement for one more window.
            let it = Yield { over, place, to: change.object, number: ticket.0 };
            self.lately.push_back((now + self.bounds.window, peer, it));
            self.lately.drain(..self.lately.len().saturating_sub(LATELY_MAX));
        }
        // Rule 6: the change is stored, so the call is answered and the loss of a name is
        // announced.
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

    /// Continues with the first step, from `step` on, that this change needs, and requests the
    /// action of that step.
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
            // Rule 3: a directory needs permission before it gets another parent.
            under.step = Step::Leave;
            effects.push(Effect::Leave(ticket, object, parent));
        } else if step <= Step::Turn && there.is_some() {
            // Rule 11: all leases on the object are recalled before the yield.
            under.step = Step::Turn;
            effects.push(Effect::Turn(ticket, object));
        } else if let (true, Some((to, over, _))) = (step <= Step::Yield, &there) {
            under.step = Step::Yield;
            effects.push(Effect::Yield(ticket, object, to.clone(), *over));
        } else if let (true, Some(to)) = (step <= Step::Claim && there.is_none(), to) {
            // Rule 4: the object claims the name before it gets the name.
            under.step = Step::Claim;
            effects.push(Effect::Claim(ticket, object, to, change.over_here()));
        } else if let (true, Some(closes)) = (step <= Step::Close, closes) {
            // Rule 5: the directory is closed before it loses its name, so that it stays empty.
            under.step = Step::Close;
            effects.push(Effect::Close(ticket, closes));
        } else {
            // Rule 6: all conditions hold, so the metadata files are changed in one write.
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
        // Rule 7: a reply that arrives after the change was given up is ignored.
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
                under.again = Some(now + PEER_RETRY_DELAY);
                self.put_back(under);
                return;
            }
            (Step::Note | Step::Replace, Err(_)) => {
                (under.step, under.again) = (Step::Again, Some(now + PEER_RETRY_DELAY));
                self.put_back(under);
                return;
            }
            // A refusal of the repeated yield means that the object does not have the name any
            // more, so the change continues with the claim.
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
                // Rule 11: the recall has no time limit, so the time limit of the yield begins now.
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

    /// Rule 7: gives a change up without effect.
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
