//! The leases on one object, and the calls that wait for them.

use core::time::Duration;
use std::collections::VecDeque;

use leasehold_base::units::Time;

#[cfg(feature = "mutants")]
use super::Mutant;
use super::few::Few;
use super::precedence::{Place, Wants};
use super::{
    Access, Ask, Call, Common, Effect, Grant, Moment, Outcome, Phase, Run, Standing, Told, Turn,
};
use crate::leases::{Client, Kind, Object, Open, Serial, Ticket};

/// The first pause before a recall or an inquiry is sent again.
const AGAIN_FIRST: Duration = Duration::from_millis(500);

/// The pause before an expired write lease is examined again while unread calls wait in the
/// server's queues.
const BACKLOG_PAUSE: Duration = Duration::from_millis(100);

/// The time for which a call that was given up keeps its queue position: three times the delay
/// before clients retry a call (Linux: 5 s).
const PLACE: Duration = Duration::from_secs(15);

/// The longest time for which the table waits for a report before it recalls the holder's lease
/// (rule 20).
const REPORT_MAX: Duration = Duration::from_secs(4);

/// A lease on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The holder.
    pub client: Client,
    /// The kind of lease.
    pub kind: Kind,
    /// True if the holder may cache the object.
    pub cachable: bool,
    /// True if the lease is recalled.
    pub evicted: bool,
    /// True if the holder can report size and times.
    pub reports: bool,
    /// The lease's sequence number.
    pub serial: Serial,
    /// The end of the term, including the allowance for drift.
    pub end: Time,
    /// The time of the holder's last WRITE.
    pub last_write: Time,
    /// The number of reserved bytes.
    pub space: u64,
}

/// The state of an object on which there are leases or calls.
#[derive(Clone, Debug)]
pub(super) struct Record {
    /// The time at which the table must examine this record again.
    pub(super) due: Time,
    leases: Few<Lease>,
    busy: Option<Box<Busy>>,
}

/// The state that is needed only while calls, recalls or inquiries are pending.
#[derive(Clone, Debug, Default)]
struct Busy {
    running: Vec<Running>,
    waiting: VecDeque<Waiting>,
    evictions: Vec<Sent>,
    inquiry: Option<Sent>,
    /// The newest round of inquiries.
    round: u64,
    /// The queue position that calls keep after they were given up.
    place: Option<Place>,
}

impl Busy {
    /// Returns the time at which the lease of a holder that does not report is recalled.
    fn report_due(&self) -> Option<Time> {
        let sent = self.inquiry?;
        let is_evicted = self.evictions.iter().any(|other| other.serial == sent.serial);
        (!is_evicted).then_some(sent.since + REPORT_MAX)
    }
}

#[derive(Clone, Copy, Debug)]
struct Running {
    ticket: Ticket,
    client: Option<Client>,
    writes: bool,
    /// True if the call writes back a change under a write lease that its client still holds
    /// ([`Standing::Held`]).
    held: bool,
    /// A new lease that the call was granted.
    granted: Option<Serial>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    call: Call,
    /// The first round of inquiries that serves the call.
    round: Option<u64>,
    /// The attributes that the holder of a write lease reported for the call.
    told: Option<Told>,
}

/// A recall or an inquiry that is sent to the holder of a lease until it is answered.
#[derive(Clone, Copy, Debug)]
struct Sent {
    client: Client,
    serial: Serial,
    since: Time,
    again: Time,
    pause: Duration,
}

impl Sent {
    fn new(lease: &Lease, now: Time) -> Self {
        let Lease { client, serial, .. } = *lease;
        Self { client, serial, since: now, again: now + AGAIN_FIRST, pause: AGAIN_FIRST }
    }

    /// Returns true if the message must be sent again now.
    fn is_due(&mut self, now: Time, again_max: Duration) -> bool {
        let due = self.again <= now;
        if due {
            self.pause = (self.pause * 2).min(again_max);
            self.again = now + self.pause;
        }
        due
    }

    fn is_of(&self, lease: &Lease) -> bool {
        (self.client, self.serial) == (lease.client, lease.serial)
    }
}

impl Call {
    /// Rule 4: returns true if another client's lease must be returned before the call can run.
    fn is_stopped_by(&self, lease: &Lease) -> bool {
        let by_access = match self.access {
            Access::Nothing => false,
            Access::Look => lease.kind == Kind::Write && !lease.reports,
            Access::Read => lease.kind == Kind::Write,
            Access::Write => true,
        };
        // Rule 9: an opportunistic request recalls no lease.
        let asked = self.ask.filter(|ask| !ask.opportune);
        by_access || asked.is_some_and(|ask| ask.is_stopped_by(lease))
    }
}

impl Ask {
    /// Rule 1: returns true if another client's lease conflicts with the requested lease: a write
    /// lease conflicts with every lease, and read leases do not conflict.
    fn is_stopped_by(&self, lease: &Lease) -> bool {
        self.kind == Kind::Write || lease.kind == Kind::Write
    }
}

impl Lease {
    /// Returns true if the lease allows its holder this access in its cache.
    fn covers(&self, access: Access) -> bool {
        self.cachable
            && match access {
                Access::Nothing => false,
                Access::Look | Access::Read => true,
                Access::Write => self.kind == Kind::Write,
            }
    }

    /// Rule 7: returns true if the lease has expired.
    fn is_over(&self, moment: Moment) -> bool {
        moment.now >= self.over_at(moment)
    }

    /// Returns the time at which the lease expires, unless its holder writes before then (rule 7).
    fn over_at(&self, Moment { terms, backlog, .. }: Moment) -> Time {
        if self.kind == Kind::Read || !self.cachable {
            return self.end;
        }
        let last = self.end + terms.slack_max;
        let slack = self.last_write + terms.write_slack;
        if backlog { last } else { slack.clamp(self.end, last) }
    }

    /// Returns the time at which the lease may expire.
    fn due(&self, Moment { now, terms, .. }: Moment) -> Time {
        if now < self.end {
            return self.end;
        }
        let slack = self.last_write + terms.write_slack;
        let soon = if slack > now { slack } else { now + BACKLOG_PAUSE };
        soon.min(self.end + terms.slack_max)
    }
}

impl Record {
    pub(super) const fn new(due: Time) -> Self {
        Self { due, leases: Few::none(), busy: None }
    }

    pub(super) fn leases(&self) -> &[Lease] {
        &self.leases
    }

    /// Lists the waiting calls in order, each with its client.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (Ticket, Option<Client>)> + '_ {
        let waiting = self.busy.iter().flat_map(|busy| &busy.waiting);
        waiting.map(|waiting| (waiting.call.ticket, waiting.call.client))
    }

    /// Lists the clients that hold a lease or have a call here; a client may occur more than once.
    pub(super) fn clients(&self) -> impl Iterator<Item = Client> + '_ {
        let busy = self.busy.iter();
        let running = busy.clone().flat_map(|busy| &busy.running).filter_map(|one| one.client);
        let waiting = busy.flat_map(|busy| &busy.waiting).filter_map(|one| one.call.client);
        self.leases.iter().map(|lease| lease.client).chain(running).chain(waiting)
    }

    pub(super) const fn is_busy(&self) -> bool {
        self.busy.is_some()
    }

    pub(super) fn check(&self) {
        let mut writers = 0;
        for (index, lease) in self.leases.iter().enumerate() {
            writers += usize::from(lease.kind == Kind::Write && lease.cachable);
            let another = self.leases[..index].iter().any(|other| other.client == lease.client);
            assert!(!another, "a client has one lease on an object");
            let evictions = self.busy.iter().flat_map(|busy| &busy.evictions);
            assert_eq!(
                evictions.filter(|sent| sent.is_of(lease)).count(),
                usize::from(lease.evicted),
                "each recalled lease has one pending recall"
            );
        }
        let cachable = self.leases.iter().filter(|lease| lease.cachable).count();
        assert!(writers == 0 || cachable == 1, "a writer has exclusive access");
    }

    pub(super) fn call(&mut self, call: Call, turn: &mut Turn<'_>) {
        if let Some(phase) = turn.common.recovery {
            self.call_in_recovery(call, phase, turn);
            return;
        }
        // Rule 5: a call that writes back changes under a recalled lease runs at once, because the
        // waiting calls wait for the return of this lease.
        if let Some(lease) = self.lease_of(call.client)
            && lease.evicted
            && lease.covers(call.access)
        {
            let call = Call { ask: None, ..call };
            self.run(Waiting { call, round: None, told: None }, Wants::default(), turn);
            return;
        }
        self.busy().waiting.push_back(Waiting { call, round: None, told: None });
    }

    /// Rule 17: queues the recall of every lease before all waiting calls.
    pub(super) fn vacate(&mut self, object: Object, ticket: Ticket, turn: &mut Turn<'_>) {
        if turn.common.recovery.is_some() {
            turn.effects.push(Effect::Later(ticket));
            return;
        }
        let (client, access) = (None, Access::Write);
        let call = Call { ticket, object, client, access, under: None, ask: None };
        self.busy().waiting.push_front(Waiting { call, round: None, told: None });
    }

    /// Rule 14: runs a call during a recovery, or makes its caller retry later.
    fn call_in_recovery(&mut self, call: Call, phase: Phase, turn: &mut Turn<'_>) {
        let stops = |ask: Ask| {
            move |lease: &Lease| Some(lease.client) != call.client && ask.is_stopped_by(lease)
        };
        let own = self.lease_of(call.client);
        let covered = own.is_some_and(|lease| lease.covers(call.access));
        let may_ask = |ask: &Ask| {
            let renews = own.is_some_and(|lease| lease.kind >= ask.kind);
            (ask.reclaim && phase == Phase::Reclaims || renews)
                && !self.leases.iter().any(stops(*ask))
        };
        let ask = call.ask.filter(may_ask);
        let writes = call.access == Access::Write && call.client.is_some() && call.under.is_some();
        let writes = writes && phase == Phase::LateData;
        let in_way = self.leases.iter().any(|lease| self.is_in_way(&call, lease));
        let reclaims = call.access == Access::Nothing && call.ask.is_some_and(|ask| ask.reclaim);
        if covered || reclaims || ask.is_some() && own.is_some() || writes && !in_way {
            let call = Call { ask, ..call };
            self.run(Waiting { call, round: None, told: None }, Wants::default(), turn);
        } else {
            turn.effects.push(Effect::Later(call.ticket));
        }
    }

    pub(super) fn done(&mut self, ticket: Ticket, outcome: Outcome, turn: &mut Turn<'_>) {
        let running = &mut self.busy().running;
        let at = running.iter().position(|one| one.ticket == ticket);
        let ended = running.swap_remove(at.expect("a call that ends was running"));
        if let Some(lease) = self.leases.iter_mut().find(|one| Some(one.client) == ended.client) {
            if ended.held {
                lease.last_write = turn.now;
            }
            let used = outcome.used.min(lease.space);
            lease.space -= used;
            turn.give_back(lease.client, used);
        }
        turn.was_written(outcome.used);
        if outcome.void
            && let Some(serial) = ended.granted
        {
            self.release(|lease| lease.serial == serial, turn);
        }
    }

    pub(super) fn give_up(&mut self, ticket: Ticket, turn: &Turn<'_>) {
        let Some(busy) = &mut self.busy else { return };
        let at = busy.waiting.iter().position(|waiting| waiting.call.ticket == ticket);
        let Some(Waiting { call, .. }) = at.and_then(|at| busy.waiting.remove(at)) else { return };
        #[cfg(feature = "mutants")]
        if turn.common.has(Mutant::KeepsNoPlace) {
            return;
        }
        // Rule 18: the call keeps its queue position, unless it had no access to the object or
        // holders are trusted.
        if !turn.common.terms.trusts_holders && call.access != Access::Nothing {
            let Call { client, access, .. } = call;
            let before = busy.place.unwrap_or(Place { client, access, until: turn.now });
            busy.place = Some(Place {
                client: client.filter(|_| before.client == client),
                access: before.access.max(access),
                until: turn.now + PLACE,
            });
        }
    }

    /// Rule 6: the client has received the recall and may now need time to write its changes back,
    /// so the table waits for the longest pause before it sends the recall again.
    pub(super) fn received(&mut self, client: Client, serial: Serial, turn: &Turn<'_>) {
        let again_max = turn.common.terms.again_max;
        let sent = self.busy.iter_mut().flat_map(|busy| &mut busy.evictions);
        for sent in sent.filter(|sent| (sent.client, sent.serial) == (client, serial)) {
            sent.pause = again_max;
            sent.again = turn.now + again_max;
        }
    }

    pub(super) fn returned(
        &mut self,
        client: Client,
        serial: Serial,
        open: Open,
        turn: &mut Turn<'_>,
    ) {
        let is_meant = |lease: &Lease| (lease.client, lease.serial) == (client, serial);
        let Some(lease) = self.leases.iter().copied().find(is_meant) else { return };
        self.release(is_meant, turn);
        // Rule 8: programs of the client still write the object, so the client keeps a lease that
        // is not cachable. The lease prevents other clients from caching.
        if lease.evicted && open == Open::Write {
            let terms = turn.common.terms;
            let end = turn.now + terms.waited(terms.default_term);
            let serial = turn.common.serial();
            let evicted = false;
            self.keep(Lease { cachable: false, evicted, serial, end, space: 0, ..lease }, turn);
        }
    }

    pub(super) fn reported(&mut self, client: Client, round: u64, told: Told) {
        let Some(busy) = &mut self.busy else { return };
        if busy.inquiry.is_some_and(|sent| sent.client == client) && busy.round == round {
            busy.inquiry = None;
        }
        for waiting in &mut busy.waiting {
            if waiting.round.is_some_and(|first| first <= round) {
                waiting.told = Some(told);
            }
        }
    }

    pub(super) fn send_again(&mut self, client: Client, turn: &mut Turn<'_>) {
        if let Some(busy) = &mut self.busy {
            for sent in busy.evictions.iter_mut().chain(&mut busy.inquiry) {
                if sent.client == client {
                    sent.again = turn.now;
                    sent.pause = AGAIN_FIRST / 2;
                }
            }
        }
    }

    pub(super) fn forget_all(&mut self, turn: &mut Turn<'_>) {
        self.release(|_| true, turn);
    }

    /// Removes expired leases and the leases of forgotten clients.
    pub(super) fn end(&mut self, turn: &mut Turn<'_>) {
        let moment = turn.common.moment(turn.now);
        #[cfg(feature = "mutants")]
        if turn.common.has(Mutant::NeverEnds) {
            return;
        }
        let running = self.busy.iter().flat_map(|busy| &busy.running);
        let used: Vec<Client> =
            running.filter(|one| one.held).filter_map(|one| one.client).collect();
        let is_over = |lease: &Lease| lease.is_over(moment) && !used.contains(&lease.client);
        let over = self.leases.iter().filter(|lease| is_over(lease));
        turn.common.counts.waited_out += over.map(|lease| u64::from(lease.evicted)).sum::<u64>();
        self.release(is_over, turn);
        if !turn.common.forgotten.is_empty() {
            let forgotten = core::mem::take(&mut turn.common.forgotten);
            self.release(|lease| forgotten.contains_key(&lease.client), turn);
            turn.common.forgotten = forgotten;
        }
    }

    /// Runs the calls that can run, and sends the messages that are due.
    pub(super) fn settle(&mut self, turn: &mut Turn<'_>) {
        self.end(turn);
        let (now, again_max) = (turn.now, turn.common.terms.again_max);
        self.let_run(turn);
        self.evict_silent(turn);
        let Some(busy) = &mut self.busy else { return };
        busy.place.take_if(|place| place.until <= now);
        for sent in &mut busy.evictions {
            if sent.is_due(now, again_max) {
                turn.effects.push(Effect::Evict(sent.client, turn.object, sent.serial));
            }
        }
        if let Some(sent) = &mut busy.inquiry
            && sent.is_due(now, again_max)
        {
            let effect = Effect::Inquire(sent.client, turn.object, sent.serial, busy.round);
            turn.effects.push(effect);
        }
        let is_used = !busy.running.is_empty() || !busy.waiting.is_empty();
        if !is_used && busy.evictions.is_empty() && busy.place.is_none() {
            self.busy = None;
        }
    }

    /// Returns the time of the next examination, or `None` if the record is empty.
    pub(super) fn next_due(&self, common: &Common, now: Time) -> Option<Time> {
        #[cfg(feature = "mutants")]
        if common.has(Mutant::NeverEnds) {
            return Some(now + AGAIN_FIRST);
        }
        let leases = self.leases.iter().map(|lease| lease.due(common.moment(now)));
        let sent = self.busy.iter().flat_map(|busy| busy.evictions.iter().chain(&busy.inquiry));
        let busy = self.busy.iter();
        let inquiries = busy.clone().filter_map(|busy| busy.report_due());
        let places = busy.filter_map(|busy| Some(busy.place?.until));
        let sent = sent.map(|sent| sent.again).chain(inquiries).chain(places);
        let next = leases.chain(sent).min();
        // The time is in the past for an expired lease that a running call still uses. The table
        // then examines the record after a short pause.
        let next = next.map(|next| if next > now { next } else { now + BACKLOG_PAUSE });
        next.or_else(|| self.busy.as_ref().map(|_| now + common.terms.again_max))
    }

    fn busy(&mut self) -> &mut Busy {
        self.busy.get_or_insert_default()
    }

    fn lease_of(&self, client: Option<Client>) -> Option<&Lease> {
        self.leases.iter().find(|lease| Some(lease.client) == client)
    }

    fn is_in_way(&self, call: &Call, lease: &Lease) -> bool {
        lease.cachable && Some(lease.client) != call.client && call.is_stopped_by(lease)
    }

    /// Rule 11: returns true if a writing call of another client runs.
    fn is_being_changed(&self, client: Option<Client>) -> bool {
        let mut running = self.busy.iter().flat_map(|busy| &busy.running);
        running.any(|one| one.writes && (one.client.is_none() || one.client != client))
    }

    /// Runs the waiting calls without conflicts, in order.
    fn let_run(&mut self, turn: &mut Turn<'_>) {
        let Some(busy) = &mut self.busy else { return };
        let waiting = core::mem::take(&mut busy.waiting);
        let mut wants = Wants::of(waiting.iter().map(|one| &one.call));
        // True once a call that must not be overtaken by later writing calls and lease requests
        // keeps waiting.
        let mut is_behind = false;
        for mut one in waiting {
            if self.can_run(&mut one, is_behind, turn) {
                *wants.like(&one.call) -= 1;
                self.run(one, wants, turn);
                continue;
            }
            let asks = one.call.ask.is_some_and(|ask| !ask.opportune);
            is_behind |= asks || one.call.access == Access::Write;
            self.busy().waiting.push_back(one);
        }
    }

    /// Returns true if a call can run now. Otherwise recalls the leases that conflict with the
    /// call.
    fn can_run(&mut self, one: &mut Waiting, is_behind: bool, turn: &mut Turn<'_>) -> bool {
        #[cfg(feature = "mutants")]
        if one.call.ask.is_none()
            && (turn.common.has(Mutant::ChecksNoWrites) && one.call.access == Access::Write
                || turn.common.has(Mutant::ChecksNoReads) && one.call.access == Access::Read)
        {
            return true;
        }
        let mut free = true;
        for index in 0..self.leases.len() {
            let lease = self.leases[index];
            if self.is_in_way(&one.call, &lease) {
                free = false;
                self.evict(index, turn);
            }
        }
        // A call that writes back under a held lease runs without a modrev comparison. While such a
        // call runs, a writing call of another client must wait.
        let mut running = self.busy.iter().flat_map(|busy| &busy.running);
        let covered = running.any(|other| other.held && other.client != one.call.client);
        free &= !covered || one.call.access != Access::Write;
        // A writing call does not overtake earlier calls that wait (`is_behind`). Otherwise a
        // stream of writes could starve such a call.
        free &= !is_behind || one.call.access != Access::Write;
        if one.call.ask.is_some_and(|ask| !ask.opportune) {
            // A lease request waits until the client has returned its recalled lease, until no
            // writing call of another client runs, and until earlier calls have run.
            let evicted = self.lease_of(one.call.client).is_some_and(|lease| lease.evicted);
            let changed = self.is_being_changed(one.call.client);
            #[cfg(feature = "mutants")]
            let changed = changed && !turn.common.has(Mutant::ForgetsRunning);
            free &= !evicted && !changed && !is_behind;
        }
        free && self.can_look(one, turn)
    }

    /// Rule 10: returns true if the call needs no report from the holder of a write lease, or if
    /// the report has arrived. Otherwise requests the report.
    fn can_look(&mut self, one: &mut Waiting, turn: &mut Turn<'_>) -> bool {
        let looks = one.call.access == Access::Look && one.told.is_none();
        let writer = self.leases.iter().find(|lease| {
            let writes = lease.cachable && lease.kind == Kind::Write;
            writes && lease.reports && Some(lease.client) != one.call.client
        });
        let Some(lease) = writer.copied().filter(|_| looks) else { return true };
        let busy = self.busy();
        if busy.inquiry.as_ref().is_some_and(|sent| sent.is_of(&lease)) {
            // The pending inquiry was sent before this call arrived, so only a later report serves
            // the call.
            one.round = one.round.or(Some(busy.round + 1));
        } else {
            busy.round = turn.common.serial().0;
            one.round = Some(busy.round);
            busy.inquiry = Some(Sent::new(&lease, turn.now));
            let effect = Effect::Inquire(lease.client, turn.object, lease.serial, busy.round);
            turn.effects.push(effect);
        }
        false
    }

    /// Rule 20: recalls the lease of a holder whose report is overdue.
    fn evict_silent(&mut self, turn: &mut Turn<'_>) {
        #[cfg(feature = "mutants")]
        if turn.common.has(Mutant::AwaitsReports) {
            return;
        }
        let inquiry = self.busy.as_ref().and_then(|busy| busy.inquiry);
        let silent = inquiry.filter(|sent| sent.since + REPORT_MAX <= turn.now);
        if let Some(sent) = silent
            && let Some(index) = self.leases.iter().position(|lease| sent.is_of(lease))
        {
            self.evict(index, turn);
        }
    }

    fn evict(&mut self, index: usize, turn: &mut Turn<'_>) {
        let lease = &mut self.leases[index];
        if !lease.evicted {
            lease.evicted = true;
            turn.common.counts.evicted += 1;
            turn.effects.push(Effect::Evict(lease.client, turn.object, lease.serial));
            let sent = Sent::new(lease, turn.now);
            self.busy().evictions.push(sent);
        }
    }

    fn run(&mut self, one: Waiting, wants: Wants, turn: &mut Turn<'_>) {
        let Waiting { call, told, .. } = one;
        let writes = call.access == Access::Write;
        let own = self.leases.iter_mut().find(|lease| Some(lease.client) == call.client);
        let standing = match own {
            Some(lease) if lease.covers(Access::Write) && writes => {
                lease.last_write = turn.now;
                if call.under == Some(lease.serial) { Standing::Held } else { Standing::Free }
            }
            _ => Standing::Free,
        };
        let known = self.lease_of(call.client).map(|lease| lease.serial);
        let grant = match (call.client, call.ask) {
            (Some(client), Some(ask)) if self.may_be_granted(client, &ask, wants, turn) => {
                self.grant(client, ask, turn)
            }
            _ => None,
        };
        let granted = grant.map(|grant| grant.serial).filter(|serial| Some(*serial) != known);
        if granted.is_none()
            && let Some(grant) = grant
        {
            // Rule 16: the reply to this call reports a lease that another running call was granted
            // first. The lease must stay even if that other call fails, so the other call does not
            // count as granted any more.
            let running = self.busy().running.iter_mut();
            let first = running.filter(|one| one.granted == Some(grant.serial));
            first.for_each(|one| one.granted = None);
        }
        let Call { ticket, client, .. } = call;
        let held = standing == Standing::Held;
        self.busy().running.push(Running { ticket, client, writes, held, granted });
        turn.effects.push(Effect::Run(Run { ticket, standing, grant, told }));
    }

    /// Rules 18 and 19: returns true if neither a waiting call, nor a queue position, nor the
    /// client's charge prevents the grant.
    fn may_be_granted(&self, client: Client, ask: &Ask, wants: Wants, turn: &mut Turn<'_>) -> bool {
        let Common { terms, recovery, .. } = &turn.common;
        if terms.trusts_holders || recovery.is_some() {
            return true;
        }
        let place = self.busy.as_ref().and_then(|busy| busy.place);
        let place = place.filter(|place| turn.now < place.until);
        let own = self.lease_of(Some(client));
        let renews = own.is_some_and(|lease| lease.cachable && lease.kind >= ask.kind);
        let has_place = place.is_some_and(|place| place.stops(client, ask, renews));
        let is_in_way = has_place || wants.stop(ask, renews);
        let is_barred = turn.common.delays.is_barred(turn.now, client, terms);
        #[cfg(feature = "mutants")]
        let (is_in_way, is_barred) = (
            is_in_way && !turn.common.has(Mutant::YieldsToNobody),
            is_barred && !turn.common.has(Mutant::BarsNobody),
        );
        turn.common.counts.yielded += u64::from(is_in_way);
        turn.common.counts.barred += u64::from(is_barred && !is_in_way);
        !is_in_way && !is_barred
    }

    fn grant(&mut self, client: Client, ask: Ask, turn: &mut Turn<'_>) -> Option<Grant> {
        let others = || self.leases.iter().filter(|lease| lease.client != client);
        let own = self.lease_of(Some(client)).copied();
        if own.is_some_and(|lease| lease.evicted)
            || others().any(|lease| lease.cachable && ask.is_stopped_by(lease))
            || ask.opportune && self.is_being_changed(Some(client))
        {
            return None;
        }
        // Rule 8: the new lease is shared, and so not cachable, if it conflicts with a lease that
        // is not cachable.
        let shared = others()
            .any(|lease| !lease.cachable && (lease.kind == Kind::Write || ask.kind == Kind::Write));
        // Rule 2: a term of zero becomes the default term, and a term above the longest is reduced.
        let term = turn.common.terms.clamp(ask.term);
        let end = turn.now + turn.common.waited(term);
        let space = turn.permitted_space(client, &ask, own.map_or(0, |lease| lease.space));
        // A cachable lease stays cachable when it is renewed, even if other clients now share the
        // object: the holder learns of the sharing only from a recall.
        let renewed = own.filter(|lease| lease.cachable);
        let lease = match renewed {
            // Rule 3: a renewal keeps the serial and never shortens or weakens the lease.
            Some(lease) => {
                let kind = turn.common.upgraded(lease.kind, ask.kind);
                let space = lease.space.max(space);
                Lease { kind, end: lease.end.max(end), space, ..lease }
            }
            None => Lease {
                client,
                kind: ask.kind,
                cachable: !shared,
                evicted: false,
                reports: ask.reports,
                serial: turn.common.serial(),
                end,
                last_write: own.map_or(Time::ZERO, |lease| lease.last_write),
                space: if shared { 0 } else { space },
            },
        };
        let Lease { cachable, serial, space, .. } = lease;
        let kind = lease.kind.max(ask.kind);
        // A renewal is not a report, so the inquiry stays pending: it is restored after `release`
        // has removed it together with the old lease.
        let inquiry = self.busy().inquiry.filter(|sent| sent.is_of(&lease));
        self.release(|lease| lease.client == client, turn);
        // Rule 12: a full table does not record the lease, so the grant permits no caching.
        if turn.common.leases >= turn.common.leases_max {
            turn.common.counts.full += 1;
            return Some(Grant { kind, cachable: false, term, serial, space: 0 });
        }
        let counts = &mut turn.common.counts;
        match (renewed, shared) {
            (Some(_), _) => counts.renewed += 1,
            (None, true) => counts.shared += 1,
            (None, false) => counts.granted += 1,
        }
        self.keep(lease, turn);
        let busy = self.busy();
        busy.inquiry = busy.inquiry.or(inquiry);
        Some(Grant { kind, cachable, term, serial, space })
    }

    fn keep(&mut self, lease: Lease, turn: &mut Turn<'_>) {
        turn.common.leases += 1;
        turn.reserve(lease.client, lease.space);
        self.leases.push(lease);
    }

    /// Removes some leases, with their pending recalls and inquiries.
    fn release(&mut self, is_over: impl Fn(&Lease) -> bool, turn: &mut Turn<'_>) {
        let moment = turn.common.moment(turn.now);
        let Self { due, leases, busy } = self;
        leases.retain(|lease| {
            let over = is_over(lease);
            if over {
                turn.common.leases -= 1;
                turn.give_back(lease.client, lease.space);
                if let Some(busy) = busy {
                    let sent = busy.evictions.iter().find(|sent| sent.is_of(lease));
                    if let Some(sent) = sent {
                        // A server that was suspended detects an expiry late, so the charge of the
                        // client ends at the expiry and not now. Unread calls may have prolonged
                        // the lease until the planned examination of the record (`due`), so the
                        // charge ends at `due` if that is later.
                        let end = lease.over_at(moment).max(*due).min(turn.now);
                        let times = (sent.since, lease.last_write);
                        turn.gave_back(end, lease.client, times);
                    }
                    busy.evictions.retain(|sent| !sent.is_of(lease));
                    busy.inquiry.take_if(|sent| sent.is_of(lease));
                }
            }
            !over
        });
    }
}
