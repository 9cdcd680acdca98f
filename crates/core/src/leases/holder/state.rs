//! The lease and the changes of a client on one object.

use core::time::Duration;

use leasehold_base::units::Time;

#[cfg(feature = "mutants")]
use super::Mutant;
use super::{ASK_AGAIN, Effect, Turn};
use crate::leases::table::Grant;
use crate::leases::{Kind, Modrev, Open, Serial, Ticket};

#[derive(Clone, Debug, Default)]
pub(super) struct State {
    /// The time at which the holder must examine this state again.
    pub(super) due: Time,
    lease: Option<Lease>,
    /// The last lease under which the cached content was valid.
    last_serial: Serial,
    /// Grants up to this serial are void.
    returned: Serial,
    /// Grants up to this serial are void, because the holder had forgotten objects before it
    /// created this state (rule 3).
    forgotten: Serial,
    /// The modrev of the cached content.
    modrev: Option<Modrev>,
    dirty: bool,
    /// True while the owner writes changes back.
    pushing: bool,
    /// True if the object was changed after the pending write-back began.
    dirty_since: bool,
    /// True if the changes must be written back, although the lease stays (rule 12).
    sync: bool,
    /// True while the owner revokes content that it passed on, for any reason.
    withdrawing: bool,
    /// The serial of the recalled lease.
    evicted: Option<Serial>,
    /// The reason for the pending lease request.
    asking: Option<Asking>,
    /// The time before which no lease is requested, because the server refused a request.
    again: Time,
    waiting: Vec<Waiting>,
    /// The number of pending calls that change the object.
    changing: u32,
    /// True while calls overlap that change the object.
    overlapping: bool,
    /// The mode in which programs have the object open.
    open: Open,
    space: u64,
    /// True if the lease was used since it was granted.
    used: bool,
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    kind: Kind,
    cachable: bool,
    serial: Serial,
    end: Time,
    term: Duration,
    /// True if the lease was withdrawn because its end is near.
    ending: bool,
}

/// The reason for a lease request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asking {
    /// A caller waits for a lease or for space.
    Anew,
    /// The lease in use must be renewed (rule 4).
    Again,
    /// The lease from before a restart is reclaimed (rule 10).
    Reclaim,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    ticket: Ticket,
    kind: Kind,
    space: u64,
    /// True if a request was sent that includes the space of this caller.
    asked: bool,
}

impl Lease {
    fn renew_at(&self) -> Time {
        before(self.end, self.term / 3)
    }

    fn withdraw_at(&self) -> Time {
        before(self.end, self.term / 6)
    }
}

fn before(time: Time, span: Duration) -> Time {
    let span = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    Time::from_nanoseconds(time.as_nanoseconds().saturating_sub(span))
}

impl State {
    pub(super) fn new(forgotten: Serial) -> Self {
        Self { forgotten, ..Self::default() }
    }

    /// Returns the greatest serial whose grants are void after this state is forgotten.
    pub(super) fn void(&self) -> Serial {
        self.returned.max(self.forgotten)
    }

    pub(super) fn cachable(&self, now: Time) -> Option<(Kind, Serial)> {
        let lease = self.lease.filter(|_| self.is_covered(now, Kind::Read))?;
        Some((lease.kind, lease.serial))
    }

    /// Rule 8: returns true if no call that changes the object is pending and the lease permits
    /// this use.
    pub(super) fn is_usable(&self, now: Time, kind: Kind) -> bool {
        self.changing == 0 && self.is_covered(now, kind)
    }

    /// Rule 1: returns true if a cachable lease permits this use, its term has not passed, and the
    /// lease is neither recalled nor withdrawn.
    fn is_covered(&self, now: Time, kind: Kind) -> bool {
        let lease = self.lease.filter(|lease| now < lease.end && !lease.ending);
        let fits = lease.is_some_and(|lease| lease.cachable && lease.kind >= kind);
        fits && self.evicted.is_none() && !self.withdrawing
    }

    pub(super) fn usable_until(&self, now: Time) -> Option<Time> {
        let lease = self.lease.filter(|_| self.is_usable(now, Kind::Read))?;
        Some(lease.withdraw_at())
    }

    pub(super) fn can_write(&self, now: Time, bytes: u64) -> bool {
        self.is_usable(now, Kind::Write) && bytes <= self.space
    }

    pub(super) fn is_in_use(&self, now: Time, kind: Kind, bytes: u64) -> bool {
        let lasts = self.lease.is_some_and(|lease| now < lease.withdraw_at());
        self.used && lasts && self.is_usable(now, kind) && bytes <= self.space
    }

    pub(super) fn made_from(&self) -> Option<(Serial, Modrev)> {
        Some((self.last_serial, self.modrev?))
    }

    pub(super) const fn is_dirty(&self) -> bool {
        self.dirty
    }

    pub(super) const fn is_withdrawing(&self) -> bool {
        self.withdrawing
    }

    pub(super) fn held(&self, now: Time) -> Option<(Kind, Serial, bool)> {
        let lease = self.lease.filter(|lease| now < lease.end)?;
        Some((lease.kind, lease.serial, lease.cachable))
    }

    /// Returns true if the server must first receive changes or a reclaim from before a restart.
    pub(super) fn owes_recovery(&self) -> bool {
        self.is_reclaiming() || self.dirty && self.lease.is_none()
    }

    pub(super) fn is_reclaiming(&self) -> bool {
        self.asking == Some(Asking::Reclaim)
    }

    pub(super) fn is_forgettable(&self) -> bool {
        let idle = self.waiting.is_empty() && self.asking.is_none() && self.changing == 0;
        let clean = !self.dirty && !self.pushing && !self.withdrawing && self.modrev.is_none();
        idle && clean && self.lease.is_none() && self.open == Open::No
    }

    pub(super) fn want(&mut self, ticket: Ticket, kind: Kind, space: u64, turn: &Turn<'_>) {
        self.waiting.push(Waiting { ticket, kind, space, asked: false });
        self.used |= self.is_covered(turn.now, kind);
    }

    pub(super) fn give_up(&mut self, ticket: Ticket) {
        self.waiting.retain(|waiting| waiting.ticket != ticket);
    }

    pub(super) fn answered(
        &mut self,
        sent: Time,
        grant: Option<(Grant, Modrev)>,
        turn: &mut Turn<'_>,
    ) {
        let asking = self.asking.take();
        match grant {
            Some((grant, modrev)) => self.take(asking, sent, (grant, modrev), turn),
            None => {
                self.again = turn.now + ASK_AGAIN;
                self.waiting.iter_mut().for_each(|waiting| waiting.asked = false);
            }
        }
    }

    /// Rule 14: takes a grant that came with the reply to another call. During a reclaim such a
    /// grant is ignored.
    pub(super) fn came(&mut self, sent: Time, grant: Grant, modrev: Modrev, turn: &mut Turn<'_>) {
        if self.asking != Some(Asking::Reclaim) {
            self.take(None, sent, (grant, modrev), turn);
        }
    }

    fn take(
        &mut self,
        asking: Option<Asking>,
        sent: Time,
        (grant, modrev): (Grant, Modrev),
        turn: &mut Turn<'_>,
    ) {
        #[cfg(feature = "mutants")]
        let sent = if turn.has(Mutant::CountsFromAnswer) { turn.now } else { sent };
        let overtaken = grant.serial <= self.returned;
        #[cfg(feature = "mutants")]
        let overtaken = overtaken && !turn.has(Mutant::TakesOvertaken);
        // Rule 1: the term counts from the time at which the request was sent.
        let end = sent + grant.term;
        if !overtaken && grant.serial <= self.forgotten {
            // Rule 3: the serial in `forgotten` may belong to another object. The server then still
            // records this lease as held, so the client must return the lease.
            self.give_back(grant.serial, turn);
            return;
        }
        // Rule 3: a recall overtook the grant, or its term has already passed.
        if overtaken || end <= turn.now {
            return;
        }
        if self.last_serial != grant.serial {
            if !self.take_anew(asking, grant, modrev, turn) {
                return;
            }
        } else if !grant.cachable {
            self.cache_no_more(turn);
        }
        if grant.kind == Kind::Write && grant.cachable {
            self.modrev = self.modrev.max(Some(modrev));
        } else if grant.cachable && self.changing == 0 && !self.dirty && self.modrev < Some(modrev)
        {
            // Rule 15: the later modrev of a renewed read lease shows that the object was changed
            // outside all leases, so the cached content is dropped.
            turn.effects.extend(self.modrev.map(|_| Effect::Drop(turn.object)));
            self.modrev = Some(modrev);
        }
        self.last_serial = grant.serial;
        self.space = grant.space;
        self.used = false;
        let end = self
            .lease
            .filter(|lease| lease.serial == grant.serial)
            .map_or(end, |lease| lease.end.max(end));
        let Grant { kind, cachable, serial, term, .. } = grant;
        self.lease = Some(Lease { kind, cachable, serial, end, term, ending: false });
        if cachable {
            self.refuse_for_space(turn);
        }
    }

    /// Rule 6: returns true if a lease with a new serial is accepted.
    fn take_anew(
        &mut self,
        asking: Option<Asking>,
        grant: Grant,
        modrev: Modrev,
        turn: &mut Turn<'_>,
    ) -> bool {
        if self.dirty && asking != Some(Asking::Reclaim) {
            // The grant arrived while late data was being written back. Rule 7 permits no lease
            // before the write-back ends, so the client returns the lease.
            self.give_back(grant.serial, turn);
            return false;
        }
        #[cfg(feature = "mutants")]
        if turn.has(Mutant::KeepsOld) || self.dirty && turn.has(Mutant::KeepsLost) {
            return true;
        }
        if self.modrev != Some(modrev) || !grant.cachable {
            turn.effects.extend(self.modrev.map(|_| Effect::Drop(turn.object)));
            // Changes that the client reclaims keep the modrev from which they were made, so the
            // modrev of a dirty object must not change here.
            if !self.dirty {
                self.modrev = grant.cachable.then_some(modrev);
            }
        }
        true
    }

    /// Rule 9: the lease continues and is not cachable any more. The owner revokes the content that
    /// it passed on before the client returns the lease.
    fn cache_no_more(&mut self, turn: &mut Turn<'_>) {
        if self.lease.is_some_and(|lease| lease.cachable) {
            self.withdraw(turn);
        }
        turn.effects.extend(self.modrev.map(|_| Effect::Drop(turn.object)));
        if !self.dirty {
            self.modrev = None;
        }
    }

    /// Rule 11: fails the callers whose space was requested and not granted.
    fn refuse_for_space(&mut self, turn: &mut Turn<'_>) {
        let space = self.space;
        self.waiting.retain(|waiting| {
            let full = waiting.asked && waiting.space > space;
            if full {
                turn.effects.push(Effect::Full(waiting.ticket));
            }
            !full
        });
    }

    pub(super) fn evicted(&mut self, serial: Serial, turn: &mut Turn<'_>) {
        #[cfg(feature = "mutants")]
        if turn.has(Mutant::NeverVacates) {
            return;
        }
        match self.lease {
            Some(lease) if lease.serial <= serial && (lease.cachable || self.withdrawing) => {
                if self.evicted.is_none() {
                    self.evicted = Some(serial);
                    self.withdraw(turn);
                }
            }
            // The recalled lease has expired, but late data under that lease may still be in
            // transit. The client returns the lease after the data is written back.
            _ if self.dirty && self.last_serial <= serial => self.evicted = Some(serial),
            _ => self.give_back(serial, turn),
        }
    }

    pub(super) fn inquired(&mut self, serial: Serial, round: u64, turn: &mut Turn<'_>) {
        // The server counts the lease of late data as held until the data is written back, so the
        // client reports the lease as held.
        let is_late = self.dirty && self.last_serial == serial;
        let held = is_late || self.lease.is_some_and(|lease| lease.serial == serial);
        if !held {
            self.returned = self.returned.max(serial);
        }
        turn.effects.push(Effect::Report(turn.object, serial, round, held));
    }

    fn give_back(&mut self, serial: Serial, turn: &mut Turn<'_>) {
        self.returned = self.returned.max(serial);
        turn.effects.push(Effect::Return(turn.object, serial, self.open));
    }

    fn withdraw(&mut self, turn: &mut Turn<'_>) {
        if !self.withdrawing {
            self.withdrawing = true;
            turn.effects.push(Effect::Withdraw(turn.object));
        }
    }

    pub(super) fn withdrawn(&mut self) {
        self.withdrawing = false;
    }

    pub(super) fn dirtied(&mut self, bytes: u64, now: Time) {
        // While the owner revokes content, the kernel may still return changes that programs made
        // under the lease. The holder therefore accepts changes during a withdrawal.
        assert!(self.withdrawing || self.is_covered(now, Kind::Write), "written under a lease");
        self.dirty = true;
        self.dirty_since = self.pushing;
        self.used = true;
        self.space = self.space.saturating_sub(bytes);
    }

    pub(super) fn sync(&mut self) {
        self.sync = self.dirty;
    }

    pub(super) fn wrote(&mut self, before: Modrev, after: Modrev, turn: &mut Turn<'_>) {
        if self.modrev != Some(before) {
            turn.effects.push(Effect::Drop(turn.object));
        }
        self.modrev = self.modrev.max(Some(after));
    }

    pub(super) fn pushed(&mut self) {
        self.dirty = core::mem::take(&mut self.dirty_since);
        self.pushing = false;
        self.sync &= self.dirty;
    }

    pub(super) fn refused(&mut self, turn: &mut Turn<'_>) {
        self.dirty = false;
        self.dirty_since = false;
        self.pushing = false;
        self.sync = false;
        turn.effects.push(Effect::Rescue(turn.object, self.base()));
        self.released(turn);
    }

    pub(super) fn changing(&mut self) {
        self.overlapping |= self.changing > 0;
        self.changing += 1;
    }

    /// Rule 17: returns true if no other change overlaps with this change, or if the server made
    /// this change to the modrev of the cached content. Equal modrevs before and after mean that
    /// the reply reports no change.
    pub(super) fn is_in_order(&self, modrevs: Option<(Modrev, Modrev)>) -> bool {
        let follows = |(before, after)| Some(before) == self.modrev && after > before;
        !self.overlapping || modrevs.is_some_and(follows)
    }

    pub(super) fn changed(&mut self, modrevs: Option<(Modrev, Modrev)>, turn: &mut Turn<'_>) {
        let is_in_order = self.is_in_order(modrevs);
        self.changing = self.changing.saturating_sub(1);
        self.overlapping &= self.changing > 0;
        #[cfg(feature = "mutants")]
        let is_in_order = is_in_order || turn.has(super::Mutant::KeepsDisordered);
        let Some(modrev) = self.modrev else { return };
        match modrevs {
            Some((before, after)) => {
                // Rule 8: the content stays valid if the change was applied to the modrev of the
                // cached content.
                self.modrev = Some(after.max(modrev));
                if before != modrev || !is_in_order {
                    turn.effects.push(Effect::Drop(turn.object));
                }
            }
            None if self.dirty => {}
            None => self.released(turn),
        }
    }

    /// Rule 13: drops the cached content and returns the lease, which the client does not need any
    /// more.
    pub(super) fn released(&mut self, turn: &mut Turn<'_>) {
        if self.dirty {
            return;
        }
        if self.modrev.take().is_some() {
            turn.effects.push(Effect::Drop(turn.object));
        }
        if let Some(lease) = self.lease.take() {
            self.give_back(lease.serial, turn);
        }
    }

    pub(super) fn opened(&mut self, open: Open, turn: &mut Turn<'_>) {
        self.open = open;
        // Rule 13: a lease that is not cachable is returned when its object is closed.
        if open == Open::No
            && let Some(lease) = self.lease.filter(|lease| !lease.cachable)
        {
            if self.withdrawing {
                self.evicted = self.evicted.max(Some(lease.serial));
            } else {
                self.lease = None;
                self.give_back(lease.serial, turn);
            }
        }
    }

    /// Rule 10: ends the lease in a new epoch and, if its term has not passed, requests a reclaim.
    pub(super) fn restarted(&mut self, reclaims: bool, turn: &mut Turn<'_>) {
        let lease = self.lease.take();
        self.asking = None;
        self.evicted = None;
        self.pushing = false;
        self.dirty_since = false;
        self.again = turn.now;
        self.waiting.iter_mut().for_each(|waiting| waiting.asked = false);
        let lease = lease.filter(|lease| reclaims && lease.cachable && turn.now < lease.end);
        if let Some(lease) = lease {
            self.asking = Some(Asking::Reclaim);
            turn.ask(lease.kind, self.space, true);
        }
    }

    /// Appends the effects that follow from the state: lease requests, withdrawals, write-backs,
    /// lease returns, and the replies to waiting callers.
    pub(super) fn settle(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now;
        self.let_run(turn);
        if let Some(lease) = self.lease {
            let keeps = self.used || self.dirty || self.open != Open::No;
            let wanted = keeps && lease.cachable && !lease.ending && self.evicted.is_none();
            let free = self.asking.is_none() && now >= self.again;
            // Rule 4: a lease in use is renewed when a third of its term is left.
            if now >= lease.renew_at() && now < lease.end && wanted && free {
                self.ask(Asking::Again, turn);
            }
            // Rule 4: a lease that is not renewed is withdrawn when a sixth of its term is left.
            if now >= lease.withdraw_at() && lease.cachable && !lease.ending {
                self.lease = Some(Lease { ending: true, ..lease });
                self.withdraw(turn);
            }
            if now >= lease.end {
                self.lease = None;
            }
        }
        self.push(turn);
        self.vacate(turn);
        // Rule 2: the waiting callers cause a request only if no request is pending, the lease is
        // not recalled, and no late data remains.
        let free = self.asking.is_none() && self.evicted.is_none() && !self.withdrawing;
        let late = self.dirty && self.lease.is_none_or(|lease| lease.ending);
        if !self.waiting.is_empty() && free && !late && now >= self.again {
            self.let_run(turn);
            if self.waits_for_lease(now) {
                self.ask(Asking::Anew, turn);
            }
        }
    }

    /// Returns true if a caller waits for a lease or for space. A caller that waits only for the
    /// end of a pending change needs no lease request.
    fn waits_for_lease(&self, now: Time) -> bool {
        self.waiting.iter().any(|one| !self.is_covered(now, one.kind) || one.space > self.space)
    }

    fn ask(&mut self, asking: Asking, turn: &mut Turn<'_>) {
        let mut kind = if self.dirty { Kind::Write } else { Kind::Read };
        kind = kind.max(self.lease.filter(|lease| lease.cachable).map_or(kind, |lease| lease.kind));
        let mut space = self.space;
        for waiting in &mut self.waiting {
            waiting.asked = true;
            kind = kind.max(waiting.kind);
            space = space.max(waiting.space);
        }
        self.asking = Some(asking);
        turn.ask(kind, space, false);
    }

    fn let_run(&mut self, turn: &mut Turn<'_>) {
        for waiting in core::mem::take(&mut self.waiting) {
            let Waiting { ticket, kind, space, .. } = waiting;
            let shared = self
                .lease
                .is_some_and(|lease| !lease.cachable && lease.kind >= kind && turn.now < lease.end);
            let usable = self.is_usable(turn.now, kind);
            #[cfg(feature = "mutants")]
            let usable =
                usable || turn.has(Mutant::UsesWhileChanging) && self.is_covered(turn.now, kind);
            if usable && space <= self.space {
                self.used = true;
                turn.effects.push(Effect::Use(ticket));
            } else if shared {
                turn.effects.push(Effect::Through(ticket));
            } else {
                self.waiting.push(waiting);
            }
        }
    }

    /// Rules 5, 7 and 12: requests the write-back of changes if the lease is recalled, has expired
    /// or soon expires, or if the owner requested it.
    fn push(&mut self, turn: &mut Turn<'_>) {
        let lease = self.lease.filter(|lease| turn.now < lease.end);
        let ending = lease.is_none_or(|lease| lease.ending || !lease.cachable);
        let needed = self.evicted.is_some() || ending || self.sync;
        let reclaims = self.asking == Some(Asking::Reclaim);
        if self.dirty && needed && !self.pushing && !self.withdrawing && !reclaims {
            self.pushing = true;
            self.sync = false;
            let base = self.base();
            #[cfg(feature = "mutants")]
            let base = if turn.has(Mutant::PushesLate) { Modrev(u64::MAX) } else { base };
            turn.effects.push(Effect::Push(turn.object, self.last_serial, base));
        }
    }

    fn base(&self) -> Modrev {
        self.modrev.expect("changes have a known base state")
    }

    /// Rule 5: returns a recalled lease, once its withdrawal has ended and its changes are written
    /// back.
    fn vacate(&mut self, turn: &mut Turn<'_>) {
        let dirty = self.dirty;
        #[cfg(feature = "mutants")]
        let dirty = dirty && !turn.has(Mutant::VacatesDirty);
        if dirty || self.withdrawing {
            return;
        }
        if let Some(serial) = self.evicted.take() {
            self.lease.take_if(|lease| lease.serial <= serial);
            self.give_back(serial, turn);
        }
    }

    pub(super) fn next_due(&self, now: Time) -> Option<Time> {
        let lease = self.lease.iter().flat_map(|lease| match lease.cachable {
            true => [lease.renew_at(), lease.withdraw_at(), lease.end],
            false => [lease.end; 3],
        });
        lease.chain([self.again]).filter(|due| *due > now).min()
    }
}
