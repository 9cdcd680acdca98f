//! A client's leases: what it may use of its caches, and what it owes the server.
//!
//! Rules:
//! 1. What is cached of an object is used while a lease on it is held: until its term, counted from
//!    when it was asked for, is over, and not while it is evicted.
//! 2. Who needs a lease that is not held waits for it; one ask is under way for an object, and none
//!    while it is evicted or has late data.
//! 3. A grant of a serial that was given back before, or of which it was reported that it is not
//!    held, or of a lesser one, is void: it was overtaken. Of objects that are forgotten, the
//!    greatest such serial stands for all, as servers count all leases by one counter; a grant that
//!    is void by that alone is given back.
//! 4. A lease of which use was made is renewed when a third of its term is left. One that is not
//!    renewed when a sixth is left is withdrawn: its owner takes back what it gave to others of the
//!    object, and what was changed is pushed.
//! 5. An evicted lease is withdrawn, what was changed is pushed, and then it is returned, as vacated.
//!    One that is not held is returned at once.
//! 6. A lease with another serial than the last one had is of an object that may have changed:
//!    unless the modrev is that of what is cached, this is dropped, but for what was changed and is
//!    reclaimed. A crash may have left an earlier state than that which this was made from.
//! 7. What was changed and not pushed when the lease was over is late: it is pushed with the modrev
//!    that it was made from, before a lease is asked for. If it is refused it goes to be rescued. If
//!    it was put to an earlier state, which a crash left, what else is cached is dropped.
//! 8. While a change of the object by a call is under way, and nobody knows whether it was done, what
//!    is cached is not used. If it was made to the modrev of what is cached, this is good after it;
//!    if nobody knows, it is dropped and the lease given back.
//! 9. A lease that may not be cached lets its holder work by calls. What is cached is dropped; where
//!    the lease could be cached before, it is withdrawn, and not returned before that is done.
//! 10. In another epoch no lease is held. Those whose term is not over are reclaimed, with what was
//!     changed under them; then late data is pushed; then the client has recovered.
//! 11. What is to be written needs space that is reserved; if the server has no more, it is full.
//! 12. What was changed is pushed also when it is wanted on the server; the lease goes on.
//! 13. A lease that may not be cached is given back when its object is closed, and any when it is
//!     not needed.
//! 14. A grant that nobody asked for here, as it came with another call's answer, counts from when
//!     that call was sent. Of a server that has forgotten the client nothing is reclaimed.
//! 15. A read lease that is renewed with a later modrev is of an object that was changed past all
//!     leases, as by a program on the server: what is cached is dropped.
//! 16. The answer to a change by a call describes the object under the last lease that was granted
//!     before the client sent the call. Other callers may have changed the object before a later
//!     grant, so under a later lease the client caches nothing of the answer.
//! 17. The server may make changes by calls that overlap in time in one order, and the client may
//!     receive the answers in another order. The client caches an answer to such a change only if
//!     the answer shows that the server made the change to the modrev of the cached content.
//!     Otherwise the client drops the cached content.

mod state;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use leasehold_base::units::Time;

use super::table::Grant;
use super::{Kind, Modrev, Object, Open, Serial, Ticket};
use state::State;

/// Names an ask, to its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request(pub u64);

/// What happens to a client's leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Somebody is to read from the cache, or to write to it so many bytes.
    Use(Ticket, Object, Kind, u64),
    /// What was asked for was granted, with the object's modrev, or was not.
    Answered(Request, Option<(Grant, Modrev)>),
    /// A lease came with the answer to a call that was sent then.
    Came(Object, Time, Grant, Modrev),
    /// Nobody waits for this use any more.
    GivenUp(Ticket, Object),
    /// The server wants a lease back.
    Evicted(Object, Serial),
    /// The server asks what is known of the object under a lease; this names the inquiry.
    Inquired(Object, Serial, u64),
    /// What others were given of the object is taken back.
    Withdrawn(Object),
    /// The object was changed in the cache, by so many bytes more.
    Dirtied(Object, u64),
    /// What was changed is wanted on the server.
    Sync(Object),
    /// Some of what was changed is with the server, where the object had these modrevs before and
    /// after.
    Wrote(Object, Modrev, Modrev),
    /// All that was changed when the push began is with the server.
    Pushed(Object),
    /// Late data was refused.
    Refused(Object),
    /// A call that changes the object is on its way.
    Changing(Object),
    /// It has ended, with these modrevs before and after if that is known.
    Changed(Object, Option<(Modrev, Modrev)>),
    /// Programs have the object open.
    Opened(Object, Open),
    /// Nothing is cached of the object, and its lease is not needed.
    Released(Object),
    /// The server is in another epoch. What is being pushed is void, and will be asked for anew.
    Restarted,
    /// The server knows nothing of the client any more, and waits for nothing that it held.
    Forgotten,
    /// Time went on.
    Tick,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Who waits may use the cache.
    Use(Ticket),
    /// Who waits does it by a call.
    Through(Ticket),
    /// Who waits is told that there is no space.
    Full(Ticket),
    /// A lease is asked for; its term counts from now.
    Ask {
        /// Names it.
        request: Request,
        /// The object.
        object: Object,
        /// Which kind.
        kind: Kind,
        /// Bytes to be reserved.
        space: u64,
        /// Whether it is held from before a restart.
        reclaim: bool,
    },
    /// What others were given of the object is to be taken back; [`Event::Withdrawn`] follows.
    Withdraw(Object),
    /// What was changed is to be sent to the server, with the lease that it was changed under and
    /// the modrev that it was made from; [`Event::Pushed`] or [`Event::Refused`] follows.
    Push(Object, Serial, Modrev),
    /// What is cached is no good any more, but for what was changed and not pushed.
    Drop(Object),
    /// What was changed is kept apart, with the modrev that it was made from.
    Rescue(Object, Modrev),
    /// The server is told what is known of the object, or that there is no such lease; this names
    /// its inquiry.
    Report(Object, Serial, u64, bool),
    /// A lease is given back.
    Return(Object, Serial, Open),
    /// All leases from before the restart that go on are reclaimed.
    Reclaimed,
    /// All from before the restart is brought back.
    Recovered,
}

/// A client's leases.
#[derive(Clone, Debug)]
pub struct Holder {
    states: BTreeMap<Object, State>,
    due: BTreeSet<(Time, Object)>,
    requests: BTreeMap<Request, (Object, Time)>,
    next_request: u64,
    /// Grants up to this are void for objects that nothing is known of.
    forgotten: Serial,
    reclaiming: bool,
    recovering: bool,
    #[cfg(feature = "mutants")]
    mutant: Option<Mutant>,
}

/// A deliberate fault, to be found by simulation.
#[cfg(feature = "mutants")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Leases go on in another epoch.
    KeepsEpochs,
    /// A lease that was overtaken by its eviction is held.
    TakesOvertaken,
    /// Late data is pushed as if it were not late.
    PushesLate,
    /// Terms are counted from when the answer came.
    CountsFromAnswer,
    /// What is cached is used while a change is under way.
    UsesWhileChanging,
    /// What is cached stays when a new lease has another modrev.
    KeepsOld,
    /// It stays when there is something with it that was changed and is reclaimed.
    KeepsLost,
    /// A lease is returned before what was changed is back.
    VacatesDirty,
    /// A lease that is wanted back never is returned.
    NeverVacates,
    /// The client caches the answer to a change by a call under any lease that it holds.
    KeepsOwn,
    /// The client caches the answers to overlapping changes in the order of their arrival.
    KeepsDisordered,
}

/// What is under way while a state changes.
struct Turn<'a> {
    now: Time,
    object: Object,
    effects: &'a mut Vec<Effect>,
    requests: &'a mut BTreeMap<Request, (Object, Time)>,
    next_request: &'a mut u64,
    #[cfg(feature = "mutants")]
    mutant: Option<Mutant>,
}

impl Turn<'_> {
    #[cfg(feature = "mutants")]
    fn has(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    fn ask(&mut self, kind: Kind, space: u64, reclaim: bool) -> Request {
        let request = Request(*self.next_request);
        *self.next_request += 1;
        self.requests.insert(request, (self.object, self.now));
        let object = self.object;
        self.effects.push(Effect::Ask { request, object, kind, space, reclaim });
        request
    }
}

impl Default for Holder {
    fn default() -> Self {
        Self::new()
    }
}

impl Holder {
    /// Starts without leases.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            states: BTreeMap::new(),
            due: BTreeSet::new(),
            requests: BTreeMap::new(),
            next_request: 1,
            forgotten: Serial(0),
            reclaiming: false,
            recovering: false,
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
    ///
    /// # Panics
    /// When the cache is changed without a write lease.
    pub fn step(&mut self, now: Time, event: Event, effects: &mut Vec<Effect>) {
        match event {
            Event::Use(ticket, object, kind, space) => {
                self.know(object);
                self.at(now, object, effects, |state, turn| state.want(ticket, kind, space, turn));
            }
            Event::Answered(request, grant) => {
                if let Some((object, sent)) = self.requests.remove(&request) {
                    self.at(now, object, effects, |state, turn| state.answered(sent, grant, turn));
                }
            }
            Event::Came(object, sent, grant, modrev) => {
                self.know(object);
                self.at(now, object, effects, |state, turn| state.came(sent, grant, modrev, turn));
            }
            Event::GivenUp(ticket, object) => {
                self.at(now, object, effects, |state, _| state.give_up(ticket));
            }
            Event::Evicted(object, serial) => self.evicted(now, object, serial, effects),
            Event::Inquired(object, serial, round) => {
                self.inquired(now, (object, serial, round), effects);
            }
            Event::Withdrawn(object) => {
                self.at(now, object, effects, |state, _| state.withdrawn());
            }
            Event::Dirtied(object, bytes) => {
                self.at(now, object, effects, |state, turn| state.dirtied(bytes, turn.now));
            }
            Event::Sync(object) => {
                self.at(now, object, effects, |state, _| state.sync());
            }
            Event::Wrote(object, before, after) => {
                self.at(now, object, effects, |state, turn| state.wrote(before, after, turn));
            }
            Event::Pushed(object) => {
                self.at(now, object, effects, |state, _| state.pushed());
            }
            Event::Refused(object) => {
                self.at(now, object, effects, State::refused);
            }
            Event::Changing(object) => {
                self.know(object);
                self.at(now, object, effects, |state, _| state.changing());
            }
            Event::Changed(object, modrevs) => {
                self.at(now, object, effects, |state, turn| state.changed(modrevs, turn));
            }
            Event::Opened(object, open) => {
                self.know(object);
                self.at(now, object, effects, |state, turn| state.opened(open, turn));
            }
            Event::Released(object) => {
                self.at(now, object, effects, State::released);
            }
            Event::Restarted => self.restarted(now, true, effects),
            Event::Forgotten => self.restarted(now, false, effects),
            Event::Tick => {}
        }
        while let Some((_, object)) = self.due.first().copied().filter(|(due, _)| *due <= now) {
            self.at(now, object, effects, |_, _| ());
        }
        if self.reclaiming && !self.states.values().any(State::is_reclaiming) {
            self.reclaiming = false;
            effects.push(Effect::Reclaimed);
        }
        if self.recovering && !self.states.values().any(State::owes_recovery) {
            self.recovering = false;
            effects.push(Effect::Recovered);
        }
    }

    /// When a lease is to be renewed, or is over.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        self.due.first().map(|(time, _)| *time)
    }

    /// The lease that is held on an object: which kind, its serial, and whether it may be cached.
    #[must_use]
    pub fn held(&self, now: Time, object: Object) -> Option<(Kind, Serial, bool)> {
        self.states.get(&object)?.held(now)
    }

    /// The lease that an object may be cached under, if nobody wants it back: which kind, and its
    /// serial.
    #[must_use]
    pub fn cachable(&self, now: Time, object: Object) -> Option<(Kind, Serial)> {
        self.states.get(&object)?.cachable(now)
    }

    /// Whether what is cached of an object may be used now, to read or to write.
    #[must_use]
    pub fn is_usable(&self, now: Time, object: Object, kind: Kind) -> bool {
        self.states.get(&object).is_some_and(|state| state.is_usable(now, kind))
    }

    /// Whether what is cached of an object may be used now, to read or to write so many bytes, as
    /// after [`Event::Use`], and the lease is known to be in use already.
    #[must_use]
    pub fn is_in_use(&self, now: Time, object: Object, kind: Kind, bytes: u64) -> bool {
        self.states.get(&object).is_some_and(|state| state.is_in_use(now, kind, bytes))
    }

    /// Until when what is cached of an object may be used to read, if nothing comes in between.
    #[must_use]
    pub fn usable_until(&self, now: Time, object: Object) -> Option<Time> {
        self.states.get(&object)?.usable_until(now)
    }

    /// Whether so many bytes can be written to the cache of an object now.
    #[must_use]
    pub fn can_write(&self, now: Time, object: Object, bytes: u64) -> bool {
        self.states.get(&object).is_some_and(|state| state.can_write(now, bytes))
    }

    /// What a change of what is cached is made from: the last lease, and the modrev.
    #[must_use]
    pub fn base(&self, object: Object) -> Option<(Serial, Modrev)> {
        self.states.get(&object)?.made_from()
    }

    /// The last lease under which the cached content of an object was good, if the client may cache
    /// any content.
    #[must_use]
    pub fn last_lease(&self, object: Object) -> Option<Serial> {
        self.base(object).map(|(serial, _)| serial)
    }

    /// Rules 16 and 17: true if the client may cache the answer to a change by a call, where `since`
    /// is the result of [`Holder::last_lease`] when the client sent the call, and `modrevs` are the
    /// modrevs before and after the change that the answer reports. The owner calls this before it
    /// reports [`Event::Changed`].
    #[must_use]
    pub fn may_keep(
        &self,
        object: Object,
        since: Option<Serial>,
        modrevs: Option<(Modrev, Modrev)>,
    ) -> bool {
        #[cfg(feature = "mutants")]
        if self.mutant == Some(Mutant::KeepsOwn) {
            return true;
        }
        #[cfg(feature = "mutants")]
        if self.mutant == Some(Mutant::KeepsDisordered) {
            return self.last_lease(object).is_none_or(|last| Some(last) == since);
        }
        let is_in_order = self.states.get(&object).is_none_or(|state| state.is_in_order(modrevs));
        is_in_order && self.last_lease(object).is_none_or(|last| Some(last) == since)
    }

    /// Whether something was changed in the cache that is not known to be with the server.
    #[must_use]
    pub fn is_dirty(&self, object: Object) -> bool {
        self.states.get(&object).is_some_and(State::is_dirty)
    }

    /// Whether no lease is held.
    #[must_use]
    pub fn is_idle(&self, now: Time) -> bool {
        !self.states.values().any(|state| state.held(now).is_some())
    }

    /// How many leases are held, and how many of them to write.
    #[must_use]
    pub fn count(&self, now: Time) -> (usize, usize) {
        let held = self.states.values().filter_map(|state| state.held(now));
        held.fold((0, 0), |(all, writes), (kind, ..)| {
            (all + 1, writes + usize::from(kind == Kind::Write))
        })
    }

    /// Whether a lease on an object from before a restart is being reclaimed.
    #[must_use]
    pub fn is_reclaiming(&self, object: Object) -> bool {
        self.states.get(&object).is_some_and(State::is_reclaiming)
    }

    /// Whether what others were given of an object is being taken back.
    #[must_use]
    pub fn is_withdrawing(&self, object: Object) -> bool {
        self.states.get(&object).is_some_and(State::is_withdrawing)
    }

    /// The server was told, or is about to be, that a lease is not held on an object that nothing is
    /// known of: its grant may still be on its way.
    pub fn disown(&mut self, serial: Serial) {
        self.forgotten = self.forgotten.max(serial);
    }

    fn know(&mut self, object: Object) {
        self.states.entry(object).or_insert_with(|| State::new(self.forgotten));
    }

    fn at(
        &mut self,
        now: Time,
        object: Object,
        effects: &mut Vec<Effect>,
        change: impl FnOnce(&mut State, &mut Turn<'_>),
    ) {
        let Some(state) = self.states.get_mut(&object) else { return };
        let mut turn = Turn {
            now,
            object,
            effects,
            requests: &mut self.requests,
            next_request: &mut self.next_request,
            #[cfg(feature = "mutants")]
            mutant: self.mutant,
        };
        change(state, &mut turn);
        state.settle(&mut turn);
        self.due.remove(&(state.due, object));
        if let Some(due) = state.next_due(now) {
            state.due = due;
            self.due.insert((due, object));
        } else if state.is_forgettable() {
            self.forgotten = self.forgotten.max(state.void());
            self.states.remove(&object);
        }
    }

    fn evicted(&mut self, now: Time, object: Object, serial: Serial, effects: &mut Vec<Effect>) {
        if self.states.contains_key(&object) {
            self.at(now, object, effects, |state, turn| state.evicted(serial, turn));
        } else {
            self.disown(serial);
            effects.push(Effect::Return(object, serial, Open::No));
        }
    }

    fn inquired(
        &mut self,
        now: Time,
        (object, serial, round): (Object, Serial, u64),
        effects: &mut Vec<Effect>,
    ) {
        if self.states.contains_key(&object) {
            self.at(now, object, effects, |state, turn| state.inquired(serial, round, turn));
        } else {
            self.disown(serial);
            effects.push(Effect::Report(object, serial, round, false));
        }
    }

    fn restarted(&mut self, now: Time, reclaims: bool, effects: &mut Vec<Effect>) {
        #[cfg(feature = "mutants")]
        if self.mutant == Some(Mutant::KeepsEpochs) {
            effects.push(Effect::Recovered);
            return;
        }
        self.requests.clear();
        (self.reclaiming, self.recovering) = (true, true);
        let objects: Vec<Object> = self.states.keys().copied().collect();
        for object in objects {
            self.at(now, object, effects, |state, turn| state.restarted(reclaims, turn));
        }
    }
}

/// How long after an ask that was not granted the next follows.
const ASK_AGAIN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
