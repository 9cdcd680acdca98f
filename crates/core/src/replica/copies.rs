//! When a copy of another home's metafile is good, and what is asked when it is not: the acquire.
//!
//! Rules:
//! 1. A copy is good for a window, from when the call that brought it was sent. A use of it then is
//!    an acquire: its home is asked whether it has a newer version.
//! 2. A read at or past the known end, and an error that says that the object is not there, are an
//!    acquire at once.
//! 3. A name that is not here is searched for. If it is nowhere that is known for a window, and
//!    asks nobody.
//! 4. Who needs what was asked already waits for that answer.
//! 5. A call is given up when it took a window. Who waited for it, or for one that failed, is told
//!    to come again: nothing older than a window is used.
//! 6. What loses a name is announced; the copy is dropped, and nothing is fetched.
//! 7. An announcement is remembered for a window. An answer of an earlier version is void then, and
//!    asked for again. Any call that could bring one back is over by the time it is forgotten.
//! 8. If there is no room for another announcement the oldest is forgotten, and the answers to all
//!    calls that are under way are void.
//! 9. That an object is gone of which there was a copy is remembered likewise. If there was none it
//!    may be about to be made, and somebody named it before: that is not remembered, and what
//!    searches bring that are under way is void. If there was none when that was asked and there is one
//!    by now the object may have been made in between: it is asked again.
//! 10. If there is no room for another copy that which was acquired first is dropped; names that are
//!     known to be nowhere likewise.
//! 11. Where homes grant leases, one that takes a lease back is told so: the copy is dropped, and what
//!     is known to be nowhere in that directory. What a call brings that was under way then may be
//!     used by who waited since before it was sent, and is not kept; who came later asks again. It is
//!     the same with what is gone, or stands nowhere without anybody who says when that ends.
//! 12. When a home has begun another epoch all that was had is dropped, and all answers are void.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use leasehold_base::units::{FileId, Time};

use super::{Bounds, Call, Place, Stamp, Ticket};

/// What the home says of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The version is that of the copy.
    Same,
    /// It has this version; the metafile is there.
    Newer(Stamp),
    /// It is gone.
    Gone,
}

/// What happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The object is used, in what is known of it.
    Use(Ticket, FileId),
    /// The object is used beyond that: what is known may be old.
    Miss(Ticket, FileId),
    /// A name is used that is not here.
    Search(Ticket, Place),
    /// The home answers.
    Fetched(Call, Answer),
    /// The search found an object; its metafile is there.
    Found(Call, FileId, Stamp),
    /// The search found that nobody has the name.
    Nowhere(Call),
    /// The search found that nobody has the name by now, though somebody is about to, or was.
    Vacant(Call),
    /// There is no answer to the call, or none that says.
    Failed(Call),
    /// The object has lost a name, or is gone; if not, it has these.
    Announced(FileId, Stamp, Vec<Place>),
    /// The home takes back the lease on the object, and on names in it.
    Evicted(FileId),
    /// A home has begun another epoch.
    Restarted,
    /// Time went on.
    Tick,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The home is asked for a newer version than this, if there is one.
    Fetch(Call, FileId, Option<Stamp>),
    /// The name is searched for.
    Search(Call, Place),
    /// The metafile that the call brought is kept as the copy.
    Keep(Call, FileId),
    /// The copy is dropped.
    Drop(FileId),
    /// Who waits may use what is here of the object.
    Go(Ticket, FileId),
    /// Who waits may use what the call brought, and nobody else.
    Once(Ticket, Call),
    /// The object is gone, or the name is nowhere.
    Gone(Ticket),
    /// The call is answered that it is to come again.
    Later(Ticket),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Object(FileId),
    Name(Place),
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    version: Stamp,
    until: Time,
}

#[derive(Clone, Debug)]
struct Asked {
    what: What,
    sent: Time,
    is_void: bool,
    /// Whether there was a copy when it was sent.
    had_copy: bool,
    /// Objects of which leases were taken back meanwhile.
    evicted: BTreeSet<FileId>,
    /// Who waits, and how many of them since before it was sent.
    waiting: Vec<Ticket>,
    first_count: usize,
}

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
    /// A copy is good for a window from the answer.
    CountsFromAnswer,
    /// An announcement drops the copy and is forgotten.
    ForgetsAnnouncements,
    /// A copy is used when its home does not answer.
    UsesOld,
    /// A copy is good for ever.
    NeverAsks,
    /// A lease that is taken back is kept.
    IgnoresEvictions,
    /// What was had before a home's last epoch is kept.
    IgnoresRestarts,
}

/// The copies that there are, and what is asked.
#[derive(Clone, Debug)]
pub struct Copies {
    bounds: Bounds,
    copies: BTreeMap<FileId, Kept>,
    ages: BTreeSet<(Time, FileId)>,
    nowhere: BTreeMap<Place, Time>,
    nowhere_ages: BTreeSet<(Time, Place)>,
    announced: BTreeMap<FileId, Announced>,
    announced_ages: VecDeque<(Time, FileId)>,
    calls: BTreeMap<Call, Asked>,
    asking: BTreeMap<What, Call>,
    next_call: u64,
    #[cfg(feature = "mutants")]
    mutant: Option<Mutant>,
}

impl Copies {
    /// No copy is known to be good.
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
        // Before its answer is looked at, and before what it could bring back is forgotten.
        let over = self.calls.iter().filter(|(_, asked)| asked.sent + self.bounds.window <= now);
        for call in over.map(|(call, _)| *call).collect::<Vec<_>>() {
            let asked = self.take(call).expect("it is under way");
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

    /// When the next call has taken too long.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        self.calls.values().map(|asked| asked.sent + self.bounds.window).min()
    }

    /// Audits the whole state.
    ///
    /// # Panics
    /// When it contradicts itself.
    pub fn check(&self) {
        assert_eq!(self.copies.len(), self.ages.len(), "each copy has an age");
        assert_eq!(self.nowhere.len(), self.nowhere_ages.len(), "so has each name");
        assert_eq!(self.calls.len(), self.asking.len(), "each is asked once");
        let most = self.bounds.most;
        assert!(self.copies.len() <= most && self.nowhere.len() <= most);
        assert!(self.announced_ages.len() <= most, "all is bounded");
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
        if let Some(call) = self.asking.get(&what) {
            let asked = self.calls.get_mut(call).expect("it is under way");
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

    /// What was asked for is not there; who came after the question went out asks again.
    fn is_gone(&mut self, now: Time, mut asked: Asked, effects: &mut Vec<Effect>) {
        let later = asked.waiting.split_off(asked.first_count);
        effects.extend(asked.waiting.into_iter().map(Effect::Gone));
        if !later.is_empty() {
            self.ask(now, asked.what, later, effects);
        }
    }

    /// The call brought a metafile of this version.
    fn newer(
        &mut self,
        now: Time,
        call: Call,
        object: FileId,
        version: Stamp,
        asked: Asked,
        effects: &mut Vec<Effect>,
    ) {
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
        let until = asked.sent + self.bounds.window;
        if let Some(was) = self.nowhere.insert(place.clone(), until) {
            self.nowhere_ages.remove(&(was, place.clone()));
        }
        self.nowhere_ages.insert((until, place));
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
        let kept = self.copies.get(&object);
        if kept.is_none_or(|kept| kept.version < version) {
            self.remember(now, object, version, places.is_empty());
            self.drop_copy(object, effects);
        }
    }

    /// Rule 11.
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

    /// Rule 12.
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
        if self.announced_ages.len() == self.bounds.most {
            let (until, oldest) = self.announced_ages.pop_front().expect("it is full");
            self.announced.retain(|object, one| *object != oldest || one.until != until);
            self.calls.values_mut().for_each(|asked| asked.is_void = true);
        }
        let until = now + self.bounds.window;
        self.announced.insert(object, Announced { version, is_gone, until });
        self.announced_ages.push_back((until, object));
    }

    fn keep(&mut self, object: FileId, version: Stamp, sent: Time, effects: &mut Vec<Effect>) {
        let until = sent + self.bounds.window;
        let was = self.copies.insert(object, Kept { version, until });
        was.into_iter().for_each(|was| {
            self.ages.remove(&(was.until, object));
        });
        self.ages.insert((until, object));
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

    /// Forgets announcements, and names that are nowhere, whose window is over.
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
