//! The client's side of leases: which cached content it may use, and which duties it has towards
//! the server.
//!
//! Rules:
//! 1. Cached content of an object is used while a lease on the object is held, until the lease's
//!    term has passed, counted from the lease request. The content is not used while the lease is
//!    recalled.
//! 2. A caller that needs a lease waits until the lease is held. At most one request per object is
//!    pending, and none while the lease is recalled or late data remains.
//! 3. A grant is void if its serial is at most the greatest serial that was returned or reported as
//!    not held: a recall overtook it. When the holder forgets an object, it adds the object's
//!    greatest serial to one serial that serves all objects without a state; this suffices because
//!    a server numbers the leases on all objects by one counter. The holder returns a grant that is
//!    void only because of that shared serial.
//! 4. A lease in use is renewed when a third of its term is left. A lease that is not renewed when
//!    a sixth of its term is left is withdrawn: the owner of the holder revokes the content that it
//!    passed on (for example, to the kernel), and changes are written back.
//! 5. A recalled lease is withdrawn, changes are written back, and then the lease is returned. A
//!    recall of a lease that is not held is answered at once.
//! 6. A lease with a new serial may concern a changed object. Unless the modrev of the grant equals
//!    the modrev of the cached content, the content is dropped, except changes that are being
//!    reclaimed. The modrevs differ, for example, if a crash of the server restored an earlier
//!    state than the state from which the client made the changes.
//! 7. Changes that were not written back when the lease expired are late. They are written back,
//!    with the modrev from which they were made, before a lease is requested. If the server refuses
//!    late changes, they are moved to a rescue copy. If the server applied late changes to an
//!    earlier state, which a crash had restored, other cached content is dropped.
//! 8. While a call that changes the object is pending, cached content is not used. If the change
//!    was applied to the modrev of the cached content, the content stays valid after the change; if
//!    it was applied to another modrev, the content is dropped and the lease stays. If the modrevs
//!    of the change are unknown, the content is dropped and the lease returned, unless the object
//!    has changes that are not written back: then the holder keeps content and lease.
//! 9. Under a lease that is not cachable the holder sends each access to the server as a call, and
//!    cached content is dropped. If the lease was cachable before, the holder withdraws the lease
//!    before it may return the lease.
//! 10. In a new epoch no lease is held. Leases whose term has not passed are reclaimed, together
//!     with the changes under them; then late data is written back; then the client has recovered.
//! 11. A local write needs reserved space; if the server reserves no more, the write fails as on a
//!     full disk.
//! 12. Changes are also written back on request (`Sync`); the lease stays.
//! 13. A lease that is not cachable is returned when its object is closed. Any lease is returned
//!     when it is not needed.
//! 14. The term of a grant without a request of its own, which came with the reply to another call,
//!     counts from the send time of that call. If the server has forgotten the client, nothing is
//!     reclaimed.
//! 15. A read lease that is renewed with a later modrev concerns an object that was changed outside
//!     all leases, for example by a program on the server: cached content is dropped.
//! 16. The answer to a change by a call describes the object under the last lease that was granted
//!     before the client sent the call. Other callers may have changed the object before a later
//!     grant, so the client does not cache the reply under a later lease.
//! 17. The server may make changes by calls that overlap in time in one order, and the client may
//!     receive the replies in another order. The client caches a reply to such a change only if
//!     the reply shows that the server made the change to the modrev of the cached content.
//!     Otherwise the client drops the cached content.

mod state;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use leasehold_base::units::Time;

use super::table::Grant;
use super::{Kind, Modrev, Object, Open, Serial, Ticket};
use state::State;

/// Identifies a lease request to the owner of the holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request(pub u64);

/// An event for a client's leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A caller requests to read from the cache, or to write this many bytes to the cache.
    Use(Ticket, Object, Kind, u64),
    /// The server granted the request, with the object's modrev, or refused it.
    Answered(Request, Option<(Grant, Modrev)>),
    /// A lease came with the reply to a call that was sent at this time.
    Came(Object, Time, Grant, Modrev),
    /// The caller does not wait any more for the permission that [`Event::Use`] requested.
    GivenUp(Ticket, Object),
    /// The server recalled a lease.
    Evicted(Object, Serial),
    /// The server requests the attributes of the object under a lease; the number identifies the
    /// inquiry.
    Inquired(Object, Serial, u64),
    /// The owner has revoked the content that it passed on, as [`Effect::Withdraw`] requested.
    Withdrawn(Object),
    /// The object was changed in the cache. The change takes this many bytes of the reserved space.
    Dirtied(Object, u64),
    /// The changes of the object must be written back now, for example for an fsync.
    Sync(Object),
    /// The server received some of the changes; the object had these modrevs before and after.
    Wrote(Object, Modrev, Modrev),
    /// The server has received all changes that existed at the time of [`Effect::Push`].
    Pushed(Object),
    /// The server refused the late data of the object.
    Refused(Object),
    /// A call that changes the object was sent.
    Changing(Object),
    /// A call that changes the object has ended, with the modrevs before and after the change, if
    /// they are known.
    Changed(Object, Option<(Modrev, Modrev)>),
    /// Programs have the object open in this mode.
    Opened(Object, Open),
    /// The client caches nothing of the object and does not need its lease.
    Released(Object),
    /// The server is in a new epoch. Pending write-backs are void; [`Effect::Push`] requests them
    /// again.
    Restarted,
    /// The server has forgotten the client, and does not wait for the client to reclaim leases.
    Forgotten,
    /// Time has passed.
    Tick,
}

/// An action that the owner of this state machine must perform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The caller may use the cache.
    Use(Ticket),
    /// The caller must bypass the cache and send a call to the server.
    Through(Ticket),
    /// The caller's write fails for lack of space.
    Full(Ticket),
    /// Request a lease; its term counts from now.
    Ask {
        /// Identifies the request.
        request: Request,
        /// The object.
        object: Object,
        /// The kind of lease.
        kind: Kind,
        /// The number of bytes to reserve.
        space: u64,
        /// True if the client held the lease before the server restarted and now reclaims the
        /// lease.
        reclaim: bool,
    },
    /// Revoke the content of the object that the owner passed on, for example to the kernel;
    /// [`Event::Withdrawn`] follows.
    Withdraw(Object),
    /// Send the changes to the server, with the lease under which, and the modrev from which, they
    /// were made; [`Event::Pushed`] or [`Event::Refused`] follows.
    Push(Object, Serial, Modrev),
    /// Drop the cached content of the object, except changes that are not written back.
    Drop(Object),
    /// Save the changes in a rescue copy, with the modrev from which they were made.
    Rescue(Object, Modrev),
    /// Report the attributes of the object to the server, or that the lease is not held (false);
    /// the number identifies the inquiry.
    Report(Object, Serial, u64, bool),
    /// Return a lease to the server, with the mode in which programs have the object open.
    Return(Object, Serial, Open),
    /// The client has reclaimed all leases from before the restart that had not expired.
    Reclaimed,
    /// All changes from before the restart are written back.
    Recovered,
}

/// A client's leases.
#[derive(Clone, Debug)]
pub struct Holder {
    states: BTreeMap<Object, State>,
    due: BTreeSet<(Time, Object)>,
    requests: BTreeMap<Request, (Object, Time)>,
    next_request: u64,
    /// Grants up to this serial are void for objects without a state.
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
    /// Leases stay valid in a new epoch.
    KeepsEpochs,
    /// The client holds a lease although a recall overtook its grant.
    TakesOvertaken,
    /// Late data is pushed as if it were not late.
    PushesLate,
    /// Terms are counted from the arrival of the reply.
    CountsFromAnswer,
    /// Cached content is used while a change is pending.
    UsesWhileChanging,
    /// Cached content is kept when a new lease has another modrev.
    KeepsOld,
    /// Cached content is kept when changes beside it are reclaimed.
    KeepsLost,
    /// A lease is returned before its changes are written back.
    VacatesDirty,
    /// A recalled lease is never returned.
    NeverVacates,
    /// The client caches the reply to a change by a call under any lease that it holds.
    KeepsOwn,
    /// The client caches the replies to overlapping changes in the order of their arrival.
    KeepsDisordered,
}

/// The context in which one event changes the state of one object.
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
    /// Creates the state of a client without leases.
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

    /// Injects a fault.
    #[cfg(feature = "mutants")]
    pub const fn plant(&mut self, mutant: Mutant) {
        self.mutant = Some(mutant);
    }

    /// Handles one event, and appends the resulting actions in order.
    ///
    /// # Panics
    /// Panics if the cache is changed without a write lease.
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

    /// Returns the next time at which a lease must be renewed or expires.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        self.due.first().map(|(time, _)| *time)
    }

    /// Returns the lease that is held on an object: its kind, its serial, and whether it is
    /// cachable.
    #[must_use]
    pub fn held(&self, now: Time, object: Object) -> Option<(Kind, Serial, bool)> {
        self.states.get(&object)?.held(now)
    }

    /// Returns the kind and serial of the lease under which an object may be cached, unless it is
    /// recalled.
    #[must_use]
    pub fn cachable(&self, now: Time, object: Object) -> Option<(Kind, Serial)> {
        self.states.get(&object)?.cachable(now)
    }

    /// Returns true if cached content of an object may be used now, to read or to write.
    #[must_use]
    pub fn is_usable(&self, now: Time, object: Object, kind: Kind) -> bool {
        self.states.get(&object).is_some_and(|state| state.is_usable(now, kind))
    }

    /// Returns true if cached content of an object may be used now, to read or to write this many
    /// bytes, and the lease is already marked as used. [`Event::Use`] would then change nothing.
    #[must_use]
    pub fn is_in_use(&self, now: Time, object: Object, kind: Kind, bytes: u64) -> bool {
        self.states.get(&object).is_some_and(|state| state.is_in_use(now, kind, bytes))
    }

    /// Returns the time until which cached content of an object may be read, if no event
    /// intervenes.
    #[must_use]
    pub fn usable_until(&self, now: Time, object: Object) -> Option<Time> {
        self.states.get(&object)?.usable_until(now)
    }

    /// Returns true if this many bytes can be written to the cache of an object now.
    #[must_use]
    pub fn can_write(&self, now: Time, object: Object, bytes: u64) -> bool {
        self.states.get(&object).is_some_and(|state| state.can_write(now, bytes))
    }

    /// Returns the lease under which, and the modrev from which, a change to the cached content is
    /// made.
    #[must_use]
    pub fn base(&self, object: Object) -> Option<(Serial, Modrev)> {
        self.states.get(&object)?.made_from()
    }

    /// Returns the last lease under which the cached content of an object was valid, if the client
    /// may cache any content.
    #[must_use]
    pub fn last_lease(&self, object: Object) -> Option<Serial> {
        self.base(object).map(|(serial, _)| serial)
    }

    /// Rules 16 and 17: returns true if the client may cache the reply to a change by a call, where
    /// `since` is the result of [`Holder::last_lease`] when the client sent the call, and `modrevs`
    /// are the modrevs before and after the change that the reply reports. The owner calls this
    /// before it reports [`Event::Changed`].
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
        let is_in_order = self.states.get(&object).is_none_or(|state| state.is_in_order(modrevs));
        #[cfg(feature = "mutants")]
        let is_in_order = is_in_order || self.mutant == Some(Mutant::KeepsDisordered);
        is_in_order && self.last_lease(object).is_none_or(|last| Some(last) == since)
    }

    /// Returns true if the cache contains changes that the server is not known to have.
    #[must_use]
    pub fn is_dirty(&self, object: Object) -> bool {
        self.states.get(&object).is_some_and(State::is_dirty)
    }

    /// Returns true if no lease is held.
    #[must_use]
    pub fn is_idle(&self, now: Time) -> bool {
        !self.states.values().any(|state| state.held(now).is_some())
    }

    /// Returns the number of leases that are held, and the number of write leases among them.
    #[must_use]
    pub fn count(&self, now: Time) -> (usize, usize) {
        let held = self.states.values().filter_map(|state| state.held(now));
        held.fold((0, 0), |(all, writes), (kind, ..)| {
            (all + 1, writes + usize::from(kind == Kind::Write))
        })
    }

    /// Returns true if a lease on an object from before a restart is being reclaimed.
    #[must_use]
    pub fn is_reclaiming(&self, object: Object) -> bool {
        self.states.get(&object).is_some_and(State::is_reclaiming)
    }

    /// Returns true while the owner revokes content of an object that it passed on, for example to
    /// the kernel.
    #[must_use]
    pub fn is_withdrawing(&self, object: Object) -> bool {
        self.states.get(&object).is_some_and(State::is_withdrawing)
    }

    /// Records that the client reported a lease as not held, on an object without a state. A grant
    /// of this lease that arrives later is void.
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

/// The pause between a refused lease request and the next one.
const ASK_AGAIN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
