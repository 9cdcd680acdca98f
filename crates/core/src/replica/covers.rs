//! What a metaserver has from homes so that its clients may cache, or that it may change data: covers,
//! which are leases of metaservers. The home's side is the table of [`crate::leases`].
//!
//! Rules:
//! 1. A cover to read goes with those of others, one to write with none. It is asked of the object's
//!    home when it is needed and not there, or when less of it is left than what is lent would last.
//!    One to write that nobody uses is given for one to read that is to be lent. Who uses one has a
//!    third of a window of it left.
//! 2. Who needs what was asked for already waits for that answer. Who needs more is asked for then.
//! 3. A cover counts from when it was asked for. Once it is over nothing is used by it, and whom it was
//!    lent to is as good as gone: nobody has to say so, and what is about to be lent is not. A home
//!    counts longer than that, and what is lent ends before.
//! 4. A cover that is taken back is not lent anew, and used only as long as clients have not given up
//!    what they were lent: they bring back what they changed; and for a window while somebody else uses
//!    it, since who does may have to use it twice. It is given when those who use it are done as well; if
//!    there is nobody, at once.
//! 5. What is taken back that is not had, or was followed by another since, is given at once. But where
//!    it may be what is asked for, as another waits for it already, the answer is waited for, for a tenth
//!    of a window. Should that grant it, who waits to use it does, and then it is given: else those who
//!    want one at the same time would take it from each other for as long as they do, and none would use
//!    it. A grant of what was given before it came, as its number says, is void.
//! 6. What is asked when a home begins another epoch is void. What is had stays, and is told to that
//!    home before it serves, which counts it from then: nothing that is granted later makes it shorter.
//! 7. What was lent is given up by the clients however often it is taken back meanwhile. Those who ask
//!    for it are answered when it is, the last few of them: the others ask again.
//! 8. If there is no room for another, one that nobody uses is dropped; if there is none, who needs one
//!    is told to come again. There is less room for one that is to be lent, so that data can be changed
//!    however many are.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use leasehold_base::units::{FileId, Time};

use super::{Bounds, Call, Ticket};
use crate::leases::{Kind, Serial};

/// How many that take the same back are answered.
const ASKERS_MAX: usize = 4;

/// What a cover is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// Something that ends soon, as [`Event::Done`] says.
    Use,
    /// What clients may cache.
    Lend,
}

/// What is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// By whom.
    pub ticket: Ticket,
    /// On which object.
    pub object: FileId,
    /// To do what.
    pub kind: Kind,
    /// And how.
    pub purpose: Purpose,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A cover is needed.
    Need(Need),
    /// Who needed a cover to use it does not any more, whether it was there or not.
    Done(FileId, Ticket),
    /// The home has granted a cover for so long.
    Granted(Call, Kind, Serial, Duration),
    /// The home has not.
    Refused(Call),
    /// The home takes a cover back; it is answered by the ticket.
    Evicted(Ticket, FileId, Serial),
    /// Clients have given up all that they were lent.
    Vacated(FileId),
    /// A home has begun another epoch.
    Restarted,
    /// Time went on.
    Tick,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The home is asked for a cover, in the place of the one with this number, if there is one.
    Ask(Call, FileId, Kind, Purpose, Option<Serial>),
    /// Who needed a cover has it.
    Go(Ticket),
    /// Who needed a cover is told to come again.
    Later(Ticket),
    /// Clients are to give up what they were lent; [`Event::Vacated`] follows.
    Vacate(FileId),
    /// The home is told that the cover is given.
    Given(Ticket),
    /// What was lent is over, whatever clients say.
    Lost(FileId),
}

#[derive(Clone, Copy, Debug)]
struct Had {
    kind: Kind,
    serial: Serial,
    until: Time,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    kind: Kind,
    purpose: Purpose,
    sent: Time,
}

#[derive(Clone, Debug, Default)]
struct Cover {
    had: Option<Had>,
    asked: Option<Asked>,
    waiting: Vec<Need>,
    using: BTreeSet<Ticket>,
    is_lent: bool,
    /// Whether clients were told to give up, and have not yet.
    is_leaving: bool,
    /// Whether it is taken back, since when, and who is answered that it is given.
    is_evicted: bool,
    evicted_at: Time,
    askers: Vec<Ticket>,
    /// Until when it is waited for whether what is taken back is what is asked for.
    early: Option<Time>,
    /// The last that was taken back.
    evicted: Serial,
}

/// A deliberate fault.
#[cfg(feature = "mutants")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A cover is given while clients still have what it was lent for.
    GivesWhatIsLent,
    /// A grant that was taken back before it came is used.
    UsesVoid,
    /// What is lent outlasts the cover.
    LendsTooLong,
}

/// The covers that a metaserver has.
#[derive(Clone, Debug)]
pub struct Covers {
    bounds: Bounds,
    /// How long what is lent may last.
    lent: Duration,
    covers: BTreeMap<FileId, Cover>,
    calls: BTreeMap<Call, FileId>,
    /// When each that is had is over.
    ends: BTreeSet<(Time, FileId)>,
    /// Those that nobody uses.
    idle: BTreeSet<FileId>,
    /// When it is not waited for any more whether what is taken back is what is asked for.
    early: BTreeSet<(Time, FileId)>,
    next_call: u64,
    #[cfg(feature = "mutants")]
    mutant: Option<Mutant>,
}

impl Cover {
    /// Whether nothing needs to be remembered of it.
    fn is_nothing(&self) -> bool {
        self.had.is_none()
            && self.asked.is_none()
            && self.using.is_empty()
            && !self.is_leaving
            && !self.is_evicted
    }

    /// Rule 4.
    fn is_open_to(&self, purpose: Purpose, now: Time, bounds: Bounds) -> bool {
        let is_used = !self.using.is_empty() && now < self.evicted_at + bounds.window;
        match purpose {
            Purpose::Use => !self.is_evicted || self.is_leaving || is_used,
            Purpose::Lend => !self.is_evicted && !self.is_leaving,
        }
    }

    fn is_idle(&self) -> bool {
        let idle = self.using.is_empty() && self.asked.is_none();
        idle && !self.is_lent && !self.is_leaving && !self.is_evicted
    }
}

impl Covers {
    /// Nothing is had. What clients are lent lasts no longer than `lent`.
    #[must_use]
    pub const fn new(bounds: Bounds, lent: Duration) -> Self {
        Self {
            bounds,
            lent,
            covers: BTreeMap::new(),
            calls: BTreeMap::new(),
            ends: BTreeSet::new(),
            idle: BTreeSet::new(),
            early: BTreeSet::new(),
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
        self.end(now, effects);
        match event {
            Event::Need(need) => self.need(now, need, effects),
            Event::Done(object, ticket) => {
                if let Some(cover) = self.covers.get_mut(&object) {
                    cover.using.remove(&ticket);
                    cover.waiting.retain(|need| need.ticket != ticket);
                    self.give(object, effects);
                }
            }
            Event::Granted(call, kind, serial, term) => {
                self.granted(now, call, (kind, serial, term), effects);
            }
            Event::Refused(call) => {
                if let Some((object, _)) = self.take(call) {
                    self.refuse(object, effects);
                }
            }
            Event::Evicted(ticket, object, serial) => {
                self.evicted(now, (ticket, object, serial), effects);
            }
            Event::Vacated(object) => {
                if let Some(cover) = self.covers.get_mut(&object) {
                    cover.is_leaving = false;
                    cover.is_lent = false;
                    self.give(object, effects);
                }
            }
            Event::Restarted => {
                for (_, object) in core::mem::take(&mut self.calls) {
                    self.covers.get_mut(&object).into_iter().for_each(|cover| cover.asked = None);
                    self.refuse(object, effects);
                }
            }
            Event::Tick => {}
        }
        if cfg!(debug_assertions) {
            self.check();
        }
    }

    /// When the next cover is over, or has been waited for long enough.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        self.ends.first().into_iter().chain(self.early.first()).map(|(end, _)| *end).min()
    }

    /// Whether a cover is there that can be lent.
    #[must_use]
    pub fn can_lend(&self, now: Time, object: FileId, kind: Kind) -> bool {
        let need = Need { ticket: Ticket(0), object, kind, purpose: Purpose::Lend };
        self.covers.get(&object).is_some_and(|cover| self.is_enough(cover, need, now))
    }

    /// The number of the cover on an object; another number means that others may have had one since.
    #[must_use]
    pub fn serial(&self, object: FileId) -> Serial {
        let had = self.covers.get(&object).and_then(|cover| cover.had);
        had.map_or(Serial(0), |had| had.serial)
    }

    /// All that is had, as a home is told that has begun another epoch.
    pub fn had(&self) -> impl Iterator<Item = (FileId, Kind)> + '_ {
        self.covers.iter().filter_map(|(object, cover)| Some((*object, cover.had?.kind)))
    }

    /// Audits the whole state.
    ///
    /// # Panics
    /// When it contradicts itself.
    pub fn check(&self) {
        assert!(self.covers.len() <= self.bounds.most, "covers are bounded");
        let had = self.covers.values().filter(|cover| cover.had.is_some()).count();
        assert_eq!(had, self.ends.len(), "each ends");
        let idle = self.covers.iter().filter(|(_, cover)| cover.is_idle());
        assert!(idle.map(|(object, _)| object).eq(&self.idle), "what is idle is known");
        let asked = self.covers.values().filter(|cover| cover.asked.is_some()).count();
        assert_eq!(asked, self.calls.len(), "each is asked for once");
        let early = self.covers.values().filter(|cover| cover.early.is_some()).count();
        assert_eq!(early, self.early.len(), "each is waited for until some time");
        for cover in self.covers.values() {
            let is_early = cover.asked.is_some() && cover.had.is_none() && cover.is_evicted;
            assert!(cover.early.is_none() || is_early, "it may be granted");
            assert!(!cover.is_nothing(), "what is nothing is forgotten");
            assert!(cover.asked.is_some() || cover.waiting.is_empty(), "who waits is answered");
        }
    }

    fn need(&mut self, now: Time, need: Need, effects: &mut Vec<Effect>) {
        if !self.covers.contains_key(&need.object) && !self.has_room(need.purpose) {
            effects.push(Effect::Later(need.ticket));
            return;
        }
        let is_enough =
            self.covers.get(&need.object).is_some_and(|cover| self.is_enough(cover, need, now));
        let cover = self.covers.entry(need.object).or_default();
        if is_enough {
            Self::go(cover, need, effects);
        } else if cover.is_evicted && cover.early.is_none() || cover.is_leaving {
            effects.push(Effect::Later(need.ticket));
        } else {
            cover.waiting.push(need);
            if cover.asked.is_none() {
                self.ask(now, need.object, need.kind, need.purpose, effects);
            }
        }
        self.forget(need.object);
    }

    /// Whether what is had is there for who needs it.
    fn is_enough(&self, cover: &Cover, need: Need, now: Time) -> bool {
        cover.had.is_some_and(|had| suffices(had, need, now, self.least(need.purpose)))
            && cover.is_open_to(need.purpose, now, self.bounds)
    }

    /// How much of a cover must be left.
    fn least(&self, purpose: Purpose) -> Duration {
        match purpose {
            Purpose::Use => self.bounds.window / 3,
            Purpose::Lend => self.lent(),
        }
    }

    /// How much must be left of a cover that is lent.
    fn lent(&self) -> Duration {
        #[cfg(feature = "mutants")]
        if self.is(Mutant::LendsTooLong) {
            return Duration::ZERO;
        }
        self.lent
    }

    fn go(cover: &mut Cover, need: Need, effects: &mut Vec<Effect>) {
        match need.purpose {
            Purpose::Use => {
                cover.using.insert(need.ticket);
            }
            Purpose::Lend => cover.is_lent = true,
        }
        effects.push(Effect::Go(need.ticket));
    }

    fn ask(
        &mut self,
        now: Time,
        object: FileId,
        kind: Kind,
        purpose: Purpose,
        effects: &mut Vec<Effect>,
    ) {
        let call = Call(self.next_call);
        self.next_call += 1;
        self.calls.insert(call, object);
        let cover = self.covers.get_mut(&object).expect("it is needed");
        let had = cover.had.filter(|had| had.kind > kind);
        let is_used = cover.is_lent || !cover.using.is_empty();
        let kind = if is_used { had.map_or(kind, |had| had.kind) } else { kind };
        let given = had.filter(|_| !is_used).map(|had| had.serial);
        cover.asked = Some(Asked { kind, purpose, sent: now });
        if given.is_some() {
            self.drop_had(object);
        }
        effects.push(Effect::Ask(call, object, kind, purpose, given));
    }

    /// Rule 8.
    fn has_room(&mut self, purpose: Purpose) -> bool {
        let most = match purpose {
            Purpose::Use => self.bounds.most,
            Purpose::Lend => self.bounds.most - self.bounds.most / 4,
        };
        if self.covers.len() < most {
            return true;
        }
        let Some(object) = self.idle.pop_first() else { return false };
        self.drop_had(object);
        self.covers.remove(&object);
        true
    }

    fn take(&mut self, call: Call) -> Option<(FileId, Asked)> {
        let object = self.calls.remove(&call)?;
        let asked = self.covers.get_mut(&object).and_then(|cover| cover.asked.take());
        Some((object, asked.expect("it was asked for")))
    }

    /// Nobody waits any more for whether what is taken back is what is asked for; whether somebody did.
    fn end_early(&mut self, object: FileId) -> bool {
        let early = self.covers.get_mut(&object).and_then(|cover| cover.early.take());
        early.is_some_and(|until| self.early.remove(&(until, object)))
    }

    /// Whoever waits is told to come again.
    fn refuse(&mut self, object: FileId, effects: &mut Vec<Effect>) {
        self.end_early(object);
        let Some(cover) = self.covers.get_mut(&object) else { return };
        effects.extend(cover.waiting.drain(..).map(|need| Effect::Later(need.ticket)));
        self.give(object, effects);
    }

    fn granted(
        &mut self,
        now: Time,
        call: Call,
        (kind, serial, term): (Kind, Serial, Duration),
        effects: &mut Vec<Effect>,
    ) {
        let Some((object, asked)) = self.take(call) else { return };
        let is_early = self.end_early(object);
        let cover = self.covers.get_mut(&object).expect("it was asked for");
        // Rule 5: it is what is taken back.
        let is_once = is_early && serial == cover.evicted;
        let is_void = serial <= cover.evicted && !is_once;
        #[cfg(feature = "mutants")]
        let is_void = is_void && self.mutant != Some(Mutant::UsesVoid);
        let until = asked.sent + term;
        if is_void || until <= now {
            self.refuse(object, effects);
            return;
        }
        if is_early && !is_once {
            // That was one of before.
            cover.is_evicted = false;
            effects.extend(cover.askers.drain(..).map(Effect::Given));
        }
        self.have(object, Had { kind, serial, until });
        let (least_used, least_lent) = (self.least(Purpose::Use), self.least(Purpose::Lend));
        let cover = self.covers.get_mut(&object).expect("it was asked for");
        if cover.is_evicted && !is_once || cover.is_leaving {
            self.refuse(object, effects);
            return;
        }
        let had = cover.had.expect("it was granted");
        for need in core::mem::take(&mut cover.waiting) {
            let least = match need.purpose {
                Purpose::Use => least_used,
                Purpose::Lend => least_lent,
            };
            if is_once && need.purpose == Purpose::Lend {
                effects.push(Effect::Later(need.ticket));
            } else if suffices(had, need, now, least) {
                Self::go(cover, need, effects);
            } else if is_once || need.kind <= asked.kind && need.purpose <= asked.purpose {
                // It was asked for and came too late, or to nothing.
                effects.push(Effect::Later(need.ticket));
            } else {
                cover.waiting.push(need);
            }
        }
        // Rule 2: all that is left is asked for at once.
        let kind = cover.waiting.iter().map(|need| need.kind).max();
        let purpose = cover.waiting.iter().map(|need| need.purpose).max();
        if let (Some(kind), Some(purpose)) = (kind, purpose) {
            self.ask(now, object, kind, purpose, effects);
        }
        self.give(object, effects);
    }

    /// Takes note of a grant. It takes nothing away: what was had before, by whichever number, its home
    /// counts.
    fn have(&mut self, object: FileId, mut had: Had) {
        if let Some(was) = self.drop_had(object) {
            had.kind = had.kind.max(was.kind);
            had.until = had.until.max(was.until);
        }
        self.ends.insert((had.until, object));
        self.covers.get_mut(&object).expect("it is there").had = Some(had);
    }

    fn drop_had(&mut self, object: FileId) -> Option<Had> {
        let had = self.covers.get_mut(&object)?.had.take()?;
        self.ends.remove(&(had.until, object));
        Some(had)
    }

    /// Rules 4, 5 and 7.
    fn evicted(
        &mut self,
        now: Time,
        (ticket, object, serial): (Ticket, FileId, Serial),
        effects: &mut Vec<Effect>,
    ) {
        let Some(cover) = self.covers.get_mut(&object) else {
            effects.push(Effect::Given(ticket));
            return;
        };
        let is_new = serial > cover.evicted;
        cover.evicted = cover.evicted.max(serial);
        let is_followed = cover.had.is_some_and(|had| had.serial > serial);
        let is_free = cover.had.is_none() && !cover.is_leaving && cover.using.is_empty();
        if is_free && is_new && cover.asked.is_some() && cover.early.is_none() {
            let until = now + self.bounds.window / 10;
            cover.early = Some(until);
            self.early.insert((until, object));
        }
        if is_followed || is_free && cover.early.is_none() {
            effects.push(Effect::Given(ticket));
            return;
        }
        if !core::mem::replace(&mut cover.is_evicted, true) {
            cover.evicted_at = now;
        }
        cover.askers.push(ticket);
        if cover.askers.len() > ASKERS_MAX {
            effects.push(Effect::Later(cover.askers.remove(0)));
        }
        if cover.is_lent && !cover.is_leaving {
            cover.is_leaving = true;
            effects.push(Effect::Vacate(object));
        }
        self.give(object, effects);
    }

    /// Gives a cover that is taken back, once nobody has anything by it.
    fn give(&mut self, object: FileId, effects: &mut Vec<Effect>) {
        let Some(cover) = self.covers.get_mut(&object) else { return };
        let is_free = !cover.is_leaving;
        #[cfg(feature = "mutants")]
        let is_free = is_free || self.mutant == Some(Mutant::GivesWhatIsLent);
        let is_early = cover.early.is_some();
        if cover.is_evicted && is_free && !is_early && cover.using.is_empty() {
            cover.is_evicted = false;
            effects.extend(cover.askers.drain(..).map(Effect::Given));
            self.drop_had(object);
        }
        self.forget(object);
    }

    /// Forgets a cover that is nothing any more, and knows one that nobody uses.
    fn forget(&mut self, object: FileId) {
        let Some(cover) = self.covers.get(&object) else { return };
        if cover.is_idle() {
            self.idle.insert(object);
        } else {
            self.idle.remove(&object);
        }
        if cover.is_nothing() {
            self.idle.remove(&object);
            self.covers.remove(&object);
        }
    }

    /// Rules 3 and 5.
    fn end(&mut self, now: Time, effects: &mut Vec<Effect>) {
        while let Some((_, object)) = self.early.first().copied().filter(|(end, _)| *end <= now) {
            self.end_early(object);
            self.give(object, effects);
        }
        while let Some((_, object)) = self.ends.first().copied().filter(|(end, _)| *end <= now) {
            self.drop_had(object);
            let cover = self.covers.get_mut(&object).expect("it was had");
            if core::mem::take(&mut cover.is_lent) {
                effects.push(Effect::Lost(object));
                // What is about to be lent is lost as well: its lender does not tell them apart.
                cover.waiting.retain(|need| {
                    let is_lent = need.purpose == Purpose::Lend;
                    effects.extend(is_lent.then_some(Effect::Later(need.ticket)));
                    !is_lent
                });
                if !cover.is_leaving {
                    cover.is_leaving = true;
                    effects.push(Effect::Vacate(object));
                }
            }
            self.forget(object);
        }
    }
}

/// Whether what is had is enough for what is needed.
fn suffices(had: Had, need: Need, now: Time, least: Duration) -> bool {
    had.kind >= need.kind && now + least < had.until
}

#[cfg(test)]
mod tests;
