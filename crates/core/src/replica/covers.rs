//! Delegable leases ("covers"): leases that homes grant to a metaserver. Under such a lease the
//! metaserver may let its clients cache an object, or may change the object's data. A home records
//! these leases in a table of [`crate::leases`].
//!
//! Rules:
//! 1. Homes grant read leases beside read leases of other metaservers, and a write lease alone. A
//!    lease is requested from the object's home when a caller needs it and the held lease is
//!    missing, is a read lease where a write lease is needed, or ends too soon. For an operation it
//!    ends too soon if a third of a window or less is left; for a delegation, if the term of a
//!    delegated lease or less is left. If a read lease is requested while a write lease is held, an
//!    idle write lease is returned with the request, and so exchanged for a read lease, and a write
//!    lease in use is requested again as a write lease.
//! 2. A caller that needs a lease that is already requested waits for the reply. If the caller
//!    needs a stronger lease, the stronger lease is requested after that reply.
//! 3. The term of a lease counts from the time of the request. When the lease expires, it is not
//!    used any more, all client leases delegated under it are void without notice, and pending
//!    delegations are refused. A home counts the term from its reply, so the home's term ends
//!    later; delegated leases end earlier than the lease.
//! 4. A recalled lease is not delegated again. It is still used until clients have returned their
//!    delegated leases, because the clients write back their changes. It is also still used for a
//!    window while an operation under it is running, because the operation may need the lease
//!    twice. The lease is returned when all operations under it have ended and all delegated leases
//!    are returned.
//! 5. A recall of a lease that is not held, or that a later lease has replaced, is answered at
//!    once. But if a request is pending, the grant may be in transit while its recall has arrived,
//!    because another metaserver already waits for the lease. The answer to the recall then waits
//!    for the grant, for at most a tenth of a window. If the recalled lease is granted, the waiting
//!    callers use it once, and then it is returned. Without this wait, metaservers that request one
//!    lease at the same time would take it from each other, and none could use it. A grant with a
//!    serial that was already answered as returned is void.
//! 6. When a home begins a new epoch, all pending requests are void, also the requests to other
//!    homes, and the callers must retry. Held leases stay. The home receives a list of the held
//!    leases before it serves, and counts their terms from that time, so a later grant neither
//!    shortens nor weakens a held lease.
//! 7. Delegated leases are recalled from clients once, even if the home sends several recalls. When
//!    the clients have returned them, the last few recalls are answered; earlier recalls must be
//!    retried.
//! 8. If the table is full, an idle lease is dropped; if no lease is idle, the caller must retry
//!    later. The limit for delegated leases is lower, so that operations can still get leases when
//!    many leases are delegated.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use leasehold_base::units::{FileId, Time};

use super::{Bounds, Call, Ticket};
use crate::leases::{Kind, Serial};

/// The maximum number of recalls of one lease that wait for the return of the lease. Earlier
/// recalls must be retried.
const ASKERS_MAX: usize = 4;

/// The purpose of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// The metaserver runs one operation under the lease. The operation ends soon, and
    /// [`Event::Done`] reports its end.
    Use,
    /// The metaserver delegates leases to clients, which may then cache the object.
    Lend,
}

/// A request for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// The caller.
    pub ticket: Ticket,
    /// The object.
    pub object: FileId,
    /// The kind of lease.
    pub kind: Kind,
    /// The purpose.
    pub purpose: Purpose,
}

/// An event for the leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A caller needs a lease.
    Need(Need),
    /// A caller does not need a lease any more for its operation. The caller may have the lease or
    /// may still wait for it.
    Done(FileId, Ticket),
    /// The home has granted a lease for this term.
    Granted(Call, Kind, Serial, Duration),
    /// The home has refused the request.
    Refused(Call),
    /// The home recalls a lease; the ticket identifies the recall.
    Evicted(Ticket, FileId, Serial),
    /// Clients have returned all leases that were delegated under the lease.
    Vacated(FileId),
    /// A home has begun a new epoch.
    Restarted,
    /// Time has passed.
    Tick,
}

/// An action that the owner of this state machine must perform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Request a lease from the home. If a serial is given, the held lease with this serial is
    /// returned with the request.
    Ask(Call, FileId, Kind, Purpose, Option<Serial>),
    /// The caller may now use the lease.
    Go(Ticket),
    /// The caller must retry later.
    Later(Ticket),
    /// Recall the delegated leases from clients; [`Event::Vacated`] follows.
    Vacate(FileId),
    /// Report to the home that the lease is returned.
    Given(Ticket),
    /// All delegated leases have expired, without notice to clients.
    Lost(FileId),
}

/// A held lease.
#[derive(Clone, Copy, Debug)]
struct Had {
    kind: Kind,
    serial: Serial,
    until: Time,
}

/// A pending request.
#[derive(Clone, Copy, Debug)]
struct Asked {
    kind: Kind,
    purpose: Purpose,
    sent: Time,
}

/// The lease on one object: held, requested or recalled.
#[derive(Clone, Debug, Default)]
struct Cover {
    had: Option<Had>,
    asked: Option<Asked>,
    waiting: Vec<Need>,
    /// The operations that run under the lease.
    using: BTreeSet<Ticket>,
    /// True if clients may hold leases that were delegated under this lease.
    is_lent: bool,
    /// True while clients have not yet returned delegated leases that were recalled from them.
    is_leaving: bool,
    /// True while the home's recall is not answered. The next fields are the time of the first
    /// recall, and the recalls to answer when the lease is returned.
    is_evicted: bool,
    evicted_at: Time,
    askers: Vec<Ticket>,
    /// The time until which the recall waits for the pending reply (rule 5).
    early: Option<Time>,
    /// The serial of the last recalled lease.
    evicted: Serial,
}

/// A deliberate fault.
#[cfg(feature = "mutants")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A lease is returned while clients still hold leases delegated under it.
    GivesWhatIsLent,
    /// A grant that was recalled before it arrived is used.
    UsesVoid,
    /// Delegated leases outlast the lease.
    LendsTooLong,
}

/// The delegable leases of a metaserver.
#[derive(Clone, Debug)]
pub struct Covers {
    bounds: Bounds,
    /// The longest term of a delegated lease.
    lent: Duration,
    covers: BTreeMap<FileId, Cover>,
    calls: BTreeMap<Call, FileId>,
    /// The time at which each held lease expires.
    ends: BTreeSet<(Time, FileId)>,
    /// The objects whose leases are idle.
    idle: BTreeSet<FileId>,
    /// The times at which recalls stop waiting for a pending reply (rule 5).
    early: BTreeSet<(Time, FileId)>,
    next_call: u64,
    #[cfg(feature = "mutants")]
    mutant: Option<Mutant>,
}

impl Cover {
    /// Returns true if the entry can be removed.
    fn is_nothing(&self) -> bool {
        self.had.is_none()
            && self.asked.is_none()
            && self.using.is_empty()
            && !self.is_leaving
            && !self.is_evicted
    }

    /// Rule 4: returns true if the lease may be used for this purpose.
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
    /// Creates the state without leases. Delegated leases last at most `lent`.
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
                // Rule 6: pending requests are void in a new epoch of a home, and the held leases
                // stay.
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

    /// Returns the time at which the next lease expires, or a recall stops waiting.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        self.ends.first().into_iter().chain(self.early.first()).map(|(end, _)| *end).min()
    }

    /// Returns true if a lease is held that can be delegated.
    #[must_use]
    pub fn can_lend(&self, now: Time, object: FileId, kind: Kind) -> bool {
        let need = Need { ticket: Ticket(0), object, kind, purpose: Purpose::Lend };
        self.covers.get(&object).is_some_and(|cover| self.is_enough(cover, need, now))
    }

    /// Returns the serial of the lease on an object; a changed serial means that other metaservers
    /// may have held a lease in between.
    #[must_use]
    pub fn serial(&self, object: FileId) -> Serial {
        let had = self.covers.get(&object).and_then(|cover| cover.had);
        had.map_or(Serial(0), |had| had.serial)
    }

    /// Rule 6: lists all held leases, for the report to a home in a new epoch.
    pub fn had(&self) -> impl Iterator<Item = (FileId, Kind)> + '_ {
        self.covers.iter().filter_map(|(object, cover)| Some((*object, cover.had?.kind)))
    }

    /// Audits the whole state.
    ///
    /// # Panics
    /// Panics if the state is inconsistent.
    pub fn check(&self) {
        assert!(self.covers.len() <= self.bounds.most, "covers are bounded");
        let had = self.covers.values().filter(|cover| cover.had.is_some()).count();
        assert_eq!(had, self.ends.len(), "each held lease has an end");
        let idle = self.covers.iter().filter(|(_, cover)| cover.is_idle());
        assert!(idle.map(|(object, _)| object).eq(&self.idle), "the idle set is complete");
        let asked = self.covers.values().filter(|cover| cover.asked.is_some()).count();
        assert_eq!(asked, self.calls.len(), "each object has one pending request");
        let early = self.covers.values().filter(|cover| cover.early.is_some()).count();
        assert_eq!(early, self.early.len(), "each early recall has a deadline");
        for cover in self.covers.values() {
            let is_early = cover.asked.is_some() && cover.had.is_none() && cover.is_evicted;
            assert!(cover.early.is_none() || is_early, "a recall waits only for a pending request");
            assert!(!cover.is_nothing(), "empty entries are removed");
            assert!(
                cover.asked.is_some() || cover.waiting.is_empty(),
                "callers wait for a request"
            );
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

    /// Returns true if the held lease satisfies the need.
    fn is_enough(&self, cover: &Cover, need: Need, now: Time) -> bool {
        cover.had.is_some_and(|had| suffices(had, need, now, self.least(need.purpose)))
            && cover.is_open_to(need.purpose, now, self.bounds)
    }

    /// Rule 1: returns the minimum remaining term of a lease for this purpose.
    fn least(&self, purpose: Purpose) -> Duration {
        match purpose {
            Purpose::Use => self.bounds.window / 3,
            Purpose::Lend => self.lent(),
        }
    }

    /// Returns the minimum remaining term of a lease before it is delegated.
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
        let cover = self.covers.get_mut(&object).expect("an object in need has an entry");
        // Rule 1: an idle write lease is returned with the request, and so exchanged for a read
        // lease.
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

    /// Rule 8: returns true if the table can take another lease for this purpose; drops an idle
    /// lease if that is necessary.
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
        Some((object, asked.expect("the request is pending")))
    }

    /// Ends the wait of a recall for the pending reply; returns true if a recall waited.
    fn end_early(&mut self, object: FileId) -> bool {
        let early = self.covers.get_mut(&object).and_then(|cover| cover.early.take());
        early.is_some_and(|until| self.early.remove(&(until, object)))
    }

    /// Makes all waiting callers retry later.
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
        let cover = self.covers.get_mut(&object).expect("the request was pending");
        // Rule 5: the grant is the lease that was recalled before the grant arrived. The waiting
        // callers use it once.
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
            // The recall concerned an earlier lease, which is not held, so the recall is answered
            // now.
            cover.is_evicted = false;
            effects.extend(cover.askers.drain(..).map(Effect::Given));
        }
        self.have(object, Had { kind, serial, until });
        let (least_used, least_lent) = (self.least(Purpose::Use), self.least(Purpose::Lend));
        let cover = self.covers.get_mut(&object).expect("the request was pending");
        if cover.is_evicted && !is_once || cover.is_leaving {
            self.refuse(object, effects);
            return;
        }
        let had = cover.had.expect("the lease was just stored");
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
                // The request included this need, but the grant came too late or is too weak, so
                // the caller must retry.
                effects.push(Effect::Later(need.ticket));
            } else {
                cover.waiting.push(need);
            }
        }
        // Rule 2: one request covers all remaining needs.
        let kind = cover.waiting.iter().map(|need| need.kind).max();
        let purpose = cover.waiting.iter().map(|need| need.purpose).max();
        if let (Some(kind), Some(purpose)) = (kind, purpose) {
            self.ask(now, object, kind, purpose, effects);
        }
        self.give(object, effects);
    }

    /// Stores a grant. The kind and the end of an earlier grant remain valid if they are greater,
    /// because the home still counts the earlier lease, even if its serial differs.
    fn have(&mut self, object: FileId, mut had: Had) {
        if let Some(was) = self.drop_had(object) {
            had.kind = had.kind.max(was.kind);
            had.until = had.until.max(was.until);
        }
        self.ends.insert((had.until, object));
        self.covers.get_mut(&object).expect("the entry exists").had = Some(had);
    }

    fn drop_had(&mut self, object: FileId) -> Option<Had> {
        let had = self.covers.get_mut(&object)?.had.take()?;
        self.ends.remove(&(had.until, object));
        Some(had)
    }

    /// Rules 4, 5 and 7: handles a recall by the home. The recall is answered now, when a pending
    /// grant arrives, or when the lease is returned.
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

    /// Returns a recalled lease, once it has no users and no delegated leases.
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

    /// Removes an empty entry, and updates the set of idle leases.
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

    /// Rules 3 and 5: ends the waits of recalls for a grant that took too long, and ends expired
    /// leases.
    fn end(&mut self, now: Time, effects: &mut Vec<Effect>) {
        while let Some((_, object)) = self.early.first().copied().filter(|(end, _)| *end <= now) {
            self.end_early(object);
            self.give(object, effects);
        }
        while let Some((_, object)) = self.ends.first().copied().filter(|(end, _)| *end <= now) {
            self.drop_had(object);
            let cover = self.covers.get_mut(&object).expect("a lease with an end has an entry");
            if core::mem::take(&mut cover.is_lent) {
                effects.push(Effect::Lost(object));
                // The owner voids all delegations of the object and cannot distinguish pending
                // delegations, so these are refused too.
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

/// Returns true if a held lease satisfies a need.
fn suffices(had: Had, need: Need, now: Time, least: Duration) -> bool {
    had.kind >= need.kind && now + least < had.until
}

#[cfg(test)]
mod tests;
