//! The validity of cached copies of metadata files from other homes, and the calls that refresh
//! them (the acquire).
//!
//! Rules:
//! 1. A copy is valid for a window, counted from the send time of the call that fetched the copy.
//!    The first use after the window causes an acquire, which asks the home for a newer version.
//! 2. A read at or past the known end, and an error that reports a missing object, cause an acquire
//!    at once.
//! 3. A name without a local object is searched for. If no object has the name, the absence is
//!    cached for a window, and uses of the name in that time need no search.
//! 4. A caller that needs a result that is already requested waits for that reply.
//! 5. A call is given up after a window. The callers that wait for the call must retry later, as
//!    after a failed call, so no caller uses a state older than a window.
//! 6. An announcement reports that an object has lost a name. The copy of the object is dropped,
//!    and no call is sent.
//! 7. An announcement is remembered for a window. In this time a reply with an earlier version is
//!    void, and the state is requested again. When the announcement is forgotten, every call that
//!    was sent before it has ended (rule 5), so no reply can restore an earlier version.
//! 8. If the table of announcements is full, the oldest announcement is forgotten, and the replies
//!    to all pending calls are void.
//! 9. If the home reports that an object is gone and there is a copy of the object, the report is
//!    remembered like an announcement. If there is no copy, the object may be about to be created,
//!    because some caller has its id: the report is not remembered, and the replies to all pending
//!    calls are void. If there was no copy when the call was sent and there is a copy now, the
//!    object may have been created in between, so the object is requested again.
//! 10. If the table of copies is full, the copy that was acquired first is dropped. The table of
//!     absent names works in the same way.
//! 11. If homes grant leases, a home recalls a lease on an object before it changes the object: the
//!     copy is dropped, and so are the absent names in it if it is a directory. If a call was
//!     pending at the recall, its result serves only the callers that waited before the call was
//!     sent, and is not kept; for later callers a new call is sent. Results that an object is gone,
//!     or that a name is vacant, also serve only these first callers.
//! 12. When a home has begun a new epoch, all copies are dropped, and all pending replies are void.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use leasehold_base::units::{FileId, Time};

use super::{Bounds, Call, Place, Stamp, Ticket};

/// The reply of a home about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The copy has the current version.
    Same,
    /// The object has this version, and the reply contains its metadata file.
    Newer(Stamp),
    /// The object is gone.
    Gone,
}

/// An event for the copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A caller uses the known state of the object.
    Use(Ticket, FileId),
    /// A caller needs more than the cached copy contains; the copy may be out of date.
    Miss(Ticket, FileId),
    /// A caller uses a name that no local object has.
    Search(Ticket, Place),
    /// The home replied.
    Fetched(Call, Answer),
    /// The search found an object and its metadata file.
    Found(Call, FileId, Stamp),
    /// The search found that no object has the name.
    Nowhere(Call),
    /// The search found that no object has the name now, but that an object is about to get the
    /// name, or had it recently.
    Vacant(Call),
    /// The call has no reply, or the reply contains no result.
    Failed(Call),
    /// The object has lost a name and now has these names; the list is empty if the object is gone.
    Announced(FileId, Stamp, Vec<Place>),
    /// The home recalls the lease on the object, which includes the names in a directory.
    Evicted(FileId),
    /// A home has begun a new epoch.
    Restarted,
    /// Time has passed.
    Tick,
}

/// An action that the owner of this state machine must perform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Ask the home for a version that is newer than the version of the copy; `None` if there is no
    /// copy.
    Fetch(Call, FileId, Option<Stamp>),
    /// Search for the name.
    Search(Call, Place),
    /// Store the metadata file in the reply to the call as the copy of the object.
    Keep(Call, FileId),
    /// Drop the copy.
    Drop(FileId),
    /// The waiting caller may use the copy of the object.
    Go(Ticket, FileId),
    /// This waiting caller, and no later caller, may use the result of the call. The result is not
    /// kept.
    Once(Ticket, Call),
    /// The object is gone, or no object has the name.
    Gone(Ticket),
    /// The waiting caller must retry later.
    Later(Ticket),
}

/// The subject of a call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Object(FileId),
    Name(Place),
}

/// A cached copy, valid until the given time.
#[derive(Clone, Copy, Debug)]
struct Kept {
    version: Stamp,
    until: Time,
}

/// A pending call.
#[derive(Clone, Debug)]
struct Asked {
    what: What,
    sent: Time,
    /// True if the reply must be ignored and the result requested again.
    is_void: bool,
    /// True if there was a copy when the call was sent.
    had_copy: bool,
    /// Objects whose leases were recalled since the call was sent.
    evicted: BTreeSet<FileId>,
    /// The waiting callers. The first `first_count` of them waited before the call was sent.
    waiting: Vec<Ticket>,
    first_count: usize,
}

/// An announcement that is remembered until the given time (rule 7).
#[derive(Clone, Copy, Debug)]
struct Announced {
    version: Stamp,
    is_gone: bool,
    until: Time,
}

/// A deliberate fault.
#[cfg(feature = "mutants")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A copy is valid for a window from the arrival of the reply.
    CountsFromAnswer,
    /// An announcement drops the copy and is forgotten.
    ForgetsAnnouncements,
    /// A copy is used if its home does not reply.
    UsesOld,
    /// A copy is valid without limit.
    NeverAsks,
    /// A recalled lease is kept.
    IgnoresEvictions,
    /// Copies from before a home's last epoch are kept.
    IgnoresRestarts,
}

/// The cached copies and the pending calls.
#[derive(Clone, Debug)]
pub struct Copies {
    bounds: Bounds,
    copies: BTreeMap<FileId, Kept>,
    ages: BTreeSet<(Time, FileId)>,
    /// The absent names, each with the end of its validity.
    nowhere: BTreeMap<Place, Time>,
    nowhere_ages: BTreeSet<(Time, Place)>,
    announced: BTreeMap<FileId, Announced>,
    announced_ages: VecDeque<(Time, FileId)>,
    calls: BTreeMap<Call, Asked>,
    /// The pending call for each object and name.
    asking: BTreeMap<What, Call>,
    next_call: u64,
    #[cfg(feature = "mutants")]
    mutant: Option<Mutant>,
}

impl Copies {
    /// Creates an empty cache.
    #[must_use]
    pub const fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            copies: BTreeMap::new(),
            ages: BTreeSet::new(),
            nowhere: BTreeMap::new(),
            nowhere_ages: BTreeSet::new(),
            announced: BTreeMap::new(),
            announced_ages: VecDeque::new(),
            calls: BTreeMap::new(),
            asking: BTreeMap::new(),
            next_call: 1,
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
        // Rule 5: calls that time out now are given up first. Their replies are then ignored, so
        // the announcements that would void these replies can be forgotten after that.
        let over = self.calls.iter().filter(|(_, asked)| asked.sent + self.bounds.window <= now);
        for call in over.map(|(call, _)| *call).collect::<Vec<_>>() {
            let asked = self.take(call).expect("the call is pending");
            self.give_up(asked, effects);
        }
        self.forget(now);
        #[cfg(feature = "mutants")]
        if let Event::Fetched(call, _) | Event::Found(call, ..) = &event
            && self.mutant == Some(Mutant::CountsFromAnswer)
        {
            self.calls.get_mut(call).into_iter().for_each(|asked| asked.sent = now);
        }
        match event {
            Event::Use(ticket, object) => self.use_object(now, ticket, object, effects),
            // Rule 2: a caller that needs more than the copy contains causes an acquire at once.
            Event::Miss(ticket, object) => {
                let gone = self.announced.get(&object).is_some_and(|announced| announced.is_gone);
                if gone {
                    effects.push(Effect::Gone(ticket));
                } else {
                    self.ask(now, What::Object(object), vec![ticket], effects);
                }
            }
            Event::Search(ticket, place) => {
                if self.nowhere.get(&place).is_some_and(|until| now < *until) {
                    effects.push(Effect::Gone(ticket));
                } else {
                    self.ask(now, What::Name(place), vec![ticket], effects);
                }
            }
            Event::Fetched(call, answer) => self.fetched(now, call, answer, effects),
            Event::Found(call, object, version) => {
                if let Some(asked) = self.take(call) {
                    self.newer(now, call, object, version, asked, effects);
                }
            }
            Event::Nowhere(call) => {
                if let Some(asked) = self.take(call) {
                    self.is_nowhere(now, asked, effects);
                }
            }
            Event::Vacant(call) => {
                if let Some(asked) = self.take(call) {
                    self.is_gone(now, asked, effects);
                }
            }
            Event::Failed(call) => {
                if let Some(asked) = self.take(call) {
                    self.give_up(asked, effects);
                }
            }
            Event::Announced(object, version, places) => {
                self.announced(now, object, version, &places, effects);
            }
            Event::Evicted(object) => self.evicted(object, effects),
            Event::Restarted => self.restarted(effects),
            Event::Tick => {}
        }
        if cfg!(debug_assertions) {
            self.check();
        }
    }

    /// Returns the time at which the next call times out.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        self.calls.values().map(|asked| asked.sent + self.bounds.window).min()
    }

    /// Audits the whole state.
    ///
    /// # Panics
    /// Panics if the state is inconsistent.
    pub fn check(&self) {
        assert_eq!(self.copies.len(), self.ages.len(), "each copy has an age");
        assert_eq!(self.nowhere.len(), self.nowhere_ages.len(), "each absent name has an age");
        assert_eq!(self.calls.len(), self.asking.len(), "each object has one pending call");
        let most = self.bounds.most;
        assert!(self.copies.len() <= most && self.nowhere.len() <= most);
        assert!(self.announced_ages.len() <= most, "announcements are bounded");
        for (call, asked) in &self.calls {
            assert_eq!(self.asking.get(&asked.what), Some(call));
        }
    }

    fn use_object(&mut self, now: Time, ticket: Ticket, object: FileId, effects: &mut Vec<Effect>) {
        let gone = self.announced.get(&object).is_some_and(|announced| announced.is_gone);
        let is_good = self.copies.get(&object).is_some_and(|kept| now < kept.until);
        #[cfg(feature = "mutants")]
        let is_good = is_good || self.is(Mutant::NeverAsks) && self.copies.contains_key(&object);
        if gone {
            effects.push(Effect::Gone(ticket));
        } else if is_good {
            effects.push(Effect::Go(ticket, object));
        } else {
            self.ask(now, What::Object(object), vec![ticket], effects);
        }
    }

    fn ask(&mut self, now: Time, what: What, waiting: Vec<Ticket>, effects: &mut Vec<Effect>) {
        // Rule 4: a caller that needs a result that is already requested waits for that reply.
        if let Some(call) = self.asking.get(&what) {
            let asked = self.calls.get_mut(call).expect("the call is pending");
            asked.waiting.extend(waiting);
            return;
        }
        let call = Call(self.next_call);
        self.next_call += 1;
        let (asks, had_copy) = match &what {
            What::Object(object) => {
                let known = self.copies.get(object).map(|kept| kept.version);
                (Effect::Fetch(call, *object, known), known.is_some())
            }
            What::Name(place) => (Effect::Search(call, place.clone()), false),
        };
        effects.push(asks);
        self.asking.insert(what.clone(), call);
        let (evicted, first_count) = (BTreeSet::new(), waiting.len());
        let is_void = false;
        let asked = Asked { what, sent: now, is_void, had_copy, evicted, waiting, first_count };
        self.calls.insert(call, asked);
    }

    fn take(&mut self, call: Call) -> Option<Asked> {
        let asked = self.calls.remove(&call)?;
        self.asking.remove(&asked.what);
        Some(asked)
    }

    fn fetched(&mut self, now: Time, call: Call, answer: Answer, effects: &mut Vec<Effect>) {
        let Some(asked) = self.take(call) else { return };
        let What::Object(object) = asked.what else { return };
        match answer {
            Answer::Newer(version) => self.newer(now, call, object, version, asked, effects),
            Answer::Same => match self.copies.get(&object) {
                Some(kept) if !asked.is_void && asked.evicted.is_empty() => {
                    let version = kept.version;
                    self.keep(object, version, asked.sent, effects);
                    let go = |ticket| Effect::Go(ticket, object);
                    effects.extend(asked.waiting.into_iter().map(go));
                }
                Some(_) | None => self.ask(now, asked.what, asked.waiting, effects),
            },
            // Rule 9: the report is remembered only if there was a copy when the call was sent and
            // there is a copy now, because the object may have been created in between.
            Answer::Gone => match self.copies.get(&object).map(|kept| kept.version) {
                Some(_) if !asked.had_copy => self.ask(now, asked.what, asked.waiting, effects),
                Some(last) => {
                    self.remember(now, object, Stamp(last.0 + 1), true);
                    self.drop_copy(object, effects);
                    self.is_gone(now, asked, effects);
                }
                None => {
                    self.calls.values_mut().for_each(|asked| asked.is_void = true);
                    self.is_gone(now, asked, effects);
                }
            },
        }
    }

    /// Reports the absence of the object or name to the callers that waited before the call was
    /// sent. A new call is sent for later callers (rule 11).
    fn is_gone(&mut self, now: Time, mut asked: Asked, effects: &mut Vec<Effect>) {
        let later = asked.waiting.split_off(asked.first_count);
        effects.extend(asked.waiting.into_iter().map(Effect::Gone));
        if !later.is_empty() {
            self.ask(now, asked.what, later, effects);
        }
    }

    /// Handles a reply with a metadata file of this version.
    fn newer(
        &mut self,
        now: Time,
        call: Call,
        object: FileId,
        version: Stamp,
        asked: Asked,
        effects: &mut Vec<Effect>,
    ) {
        // Rule 7: a reply with an earlier version than a remembered announcement is void, so the
        // state is requested again.
        let announced = self.announced.get(&object).copied();
        let is_old = announced.is_some_and(|one| one.is_gone || version < one.version);
        if asked.is_void || is_old {
            self.ask(now, asked.what, asked.waiting, effects);
            return;
        }
        if asked.evicted.contains(&object) {
            let mut first = asked.waiting;
            let later = first.split_off(asked.first_count);
            effects.extend(first.into_iter().map(|ticket| Effect::Once(ticket, call)));
            if !later.is_empty() {
                self.ask(now, asked.what, later, effects);
            }
            return;
        }
        if self.copies.get(&object).is_none_or(|kept| kept.version <= version) {
            effects.push(Effect::Keep(call, object));
            self.keep(object, version, asked.sent, effects);
        }
        effects.extend(asked.waiting.into_iter().map(|ticket| Effect::Go(ticket, object)));
    }

    fn is_nowhere(&mut self, now: Time, asked: Asked, effects: &mut Vec<Effect>) {
        let What::Name(place) = &asked.what else { return };
        if asked.is_void {
            self.ask(now, asked.what, asked.waiting, effects);
            return;
        }
        if asked.evicted.contains(&place.directory) {
            self.is_gone(now, asked, effects);
            return;
        }
        let place = place.clone();
        // Rule 3: the absence of the name is cached for a window, so uses of the name need no
        // search.
        let until = asked.sent + self.bounds.window;
        if let Some(was) = self.nowhere.insert(place.clone(), until) {
            self.nowhere_ages.remove(&(was, place.clone()));
        }
        self.nowhere_ages.insert((until, place));
        // Rule 10: a full table drops the absent name that was found first.
        if self.nowhere.len() > self.bounds.most
            && let Some((_, oldest)) = self.nowhere_ages.pop_first()
        {
            self.nowhere.remove(&oldest);
        }
        effects.extend(asked.waiting.into_iter().map(Effect::Gone));
    }

    fn give_up(&mut self, asked: Asked, effects: &mut Vec<Effect>) {
        #[cfg(feature = "mutants")]
        if let (What::Object(object), true) = (&asked.what, self.is(Mutant::UsesOld))
            && self.copies.contains_key(object)
        {
            effects.extend(asked.waiting.iter().map(|ticket| Effect::Go(*ticket, *object)));
            return;
        }
        effects.extend(asked.waiting.into_iter().map(Effect::Later));
    }

    fn announced(
        &mut self,
        now: Time,
        object: FileId,
        version: Stamp,
        places: &[Place],
        effects: &mut Vec<Effect>,
    ) {
        for place in places {
            if let Some(until) = self.nowhere.remove(place) {
                self.nowhere_ages.remove(&(until, place.clone()));
            }
            if let Some(call) = self.asking.get(&What::Name(place.clone())) {
                self.calls.get_mut(call).into_iter().for_each(|asked| asked.is_void = true);
            }
        }
        // Rule 6: the copy of an object that has lost a name is dropped, and no call is sent.
        let kept = self.copies.get(&object);
        if kept.is_none_or(|kept| kept.version < version) {
            self.remember(now, object, version, places.is_empty());
            self.drop_copy(object, effects);
        }
    }

    /// Rule 11: handles the recall of the lease on an object.
    fn evicted(&mut self, object: FileId, effects: &mut Vec<Effect>) {
        #[cfg(feature = "mutants")]
        if self.is(Mutant::IgnoresEvictions) {
            return;
        }
        for asked in self.calls.values_mut() {
            let may_bring = match &asked.what {
                What::Object(asked) => *asked == object,
                What::Name(_) => true,
            };
            if may_bring {
                asked.evicted.insert(object);
                asked.is_void |= asked.evicted.len() > self.bounds.most;
            }
        }
        let first = Place { directory: object, name: Vec::new() };
        let inside = self.nowhere.range(first..);
        let inside = inside.take_while(|(place, _)| place.directory == object);
        for (place, until) in
            inside.map(|(place, until)| (place.clone(), *until)).collect::<Vec<_>>()
        {
            self.nowhere.remove(&place);
            self.nowhere_ages.remove(&(until, place));
        }
        self.drop_copy(object, effects);
    }

    /// Rule 12: drops all copies and voids all pending replies, because a home has begun a new
    /// epoch.
    fn restarted(&mut self, effects: &mut Vec<Effect>) {
        #[cfg(feature = "mutants")]
        if self.is(Mutant::IgnoresRestarts) {
            return;
        }
        self.calls.values_mut().for_each(|asked| asked.is_void = true);
        self.nowhere.clear();
        self.nowhere_ages.clear();
        for object in self.copies.keys().copied().collect::<Vec<_>>() {
            self.drop_copy(object, effects);
        }
    }

    fn remember(&mut self, now: Time, object: FileId, version: Stamp, is_gone: bool) {
        #[cfg(feature = "mutants")]
        if self.is(Mutant::ForgetsAnnouncements) {
            return;
        }
        let was = self.announced.get(&object);
        if was.is_some_and(|was| was.is_gone || was.version > version) {
            return;
        }
        // Rule 8: a full table forgets the oldest announcement, so the pending replies are void,
        // because no announcement guards against an earlier version.
        if self.announced_ages.len() == self.bounds.most {
            let (until, oldest) = self.announced_ages.pop_front().expect("the list is full");
            self.announced.retain(|object, one| *object != oldest || one.until != until);
            self.calls.values_mut().for_each(|asked| asked.is_void = true);
        }
        let until = now + self.bounds.window;
        self.announced.insert(object, Announced { version, is_gone, until });
        self.announced_ages.push_back((until, object));
    }

    fn keep(&mut self, object: FileId, version: Stamp, sent: Time, effects: &mut Vec<Effect>) {
        // Rule 1: the copy is valid for a window from the send time of the call that fetched it.
        let until = sent + self.bounds.window;
        let was = self.copies.insert(object, Kept { version, until });
        was.into_iter().for_each(|was| {
            self.ages.remove(&(was.until, object));
        });
        self.ages.insert((until, object));
        // Rule 10: a full table drops the copy that was acquired first.
        if self.copies.len() > self.bounds.most
            && let Some((_, oldest)) = self.ages.first().copied()
        {
            self.drop_copy(oldest, effects);
        }
    }

    fn drop_copy(&mut self, object: FileId, effects: &mut Vec<Effect>) {
        if let Some(kept) = self.copies.remove(&object) {
            self.ages.remove(&(kept.until, object));
            effects.push(Effect::Drop(object));
        }
    }

    /// Forgets announcements and absent names whose window has passed.
    fn forget(&mut self, now: Time) {
        while let Some((until, object)) =
            self.announced_ages.front().copied().filter(|(until, _)| *until <= now)
        {
            self.announced_ages.pop_front();
            if self.announced.get(&object).is_some_and(|one| one.until == until) {
                self.announced.remove(&object);
            }
        }
        while self.nowhere_ages.first().is_some_and(|(until, _)| *until <= now)
            && let Some((_, place)) = self.nowhere_ages.pop_first()
        {
            self.nowhere.remove(&place);
        }
    }
}

#[cfg(test)]
mod tests;
