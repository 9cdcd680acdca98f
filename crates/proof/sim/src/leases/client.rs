//! A simulated client: its lease state machine, cache, calls and programs.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use leasehold_base::random::Random;
use leasehold_base::units::Time;
use leasehold_core::leases::holder::{self, Holder};
use leasehold_core::leases::table::{Access, Ask, Grant, Told};
use leasehold_core::leases::{Kind, Modrev, Object, Open, Serial, Ticket};

use super::LeaseMutant;
use super::message::{Answer, Body, Call, Change, Message};
use super::store::{CELLS, Content, Id, OBJECTS, index, is_directory, object};
use crate::clock::Clock;
use crate::faults::upto;

/// The number of programs of a client.
const PROGRAMS: usize = 2;

/// The time after which a client repeats a call without a reply or with a request to retry.
const CALL_TIMEOUT: Duration = Duration::from_millis(700);
const LATER: Duration = Duration::from_millis(300);

/// An operation of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Read { object: usize, cell: usize },
    Write { object: usize, cell: usize },
    Look { object: usize },
    Sync { object: usize },
}

impl Op {
    const fn object(self) -> usize {
        match self {
            Self::Read { object, .. }
            | Self::Write { object, .. }
            | Self::Look { object }
            | Self::Sync { object } => object,
        }
    }
}

/// An action that a step of a client requests, or an observation for the checks.
#[derive(Clone, Debug)]
pub(super) enum Out {
    Send(Message),
    /// The client asks its kernel to invalidate the cached object; the kernel replies later.
    Withdraw(usize),
    /// A program saw this value in the cache, under a lease of the current epoch.
    SawCell {
        object: usize,
        cell: usize,
        id: Id,
    },
    SawAttributes {
        object: usize,
        id: Id,
    },
    /// The holder of a write lease returned this value; the program's operation began at `begun`.
    WasTold {
        begun: Time,
        told: Told,
    },
    /// A COMMIT has made these changes durable.
    Committed(Vec<Id>),
}

/// The changes that a client has not written back, and the time since which each is dirty.
pub(super) struct Changed {
    pub(super) cells: [Option<(Id, Time)>; CELLS],
    pub(super) attributes: (Id, Time),
}

/// The purpose of a call, which determines how the client handles the reply.
#[derive(Clone, Debug)]
enum Purpose {
    Machine,
    /// The call requests a lease, after `changes` own changes of the client.
    Ask {
        request: holder::Request,
        changes: u64,
    },
    /// The call reads for the cache, if the client keeps this lease and makes no further changes.
    Fill {
        program: usize,
        serial: Option<Serial>,
        changes: u64,
    },
    Look {
        program: usize,
    },
    /// The call changes a cell; `since` was the client's last lease when it made the call.
    Change {
        program: usize,
        cell: usize,
        id: Id,
        since: Option<Serial>,
    },
    Push {
        object: usize,
    },
    Commit {
        object: usize,
        after: (Serial, Modrev),
        boot: u64,
    },
}

struct Outstanding {
    body: Body,
    purpose: Purpose,
    made: Time,
    again: Time,
}

#[derive(Default)]
struct Cache {
    cells: [Option<Id>; CELLS],
    attributes: Option<Id>,
    dirty: [bool; CELLS],
    /// For each cell, the time since which it is dirty.
    dirty_at: [Time; CELLS],
    /// The end, by the client's clock, of the last write lease that the server granted, even if the
    /// client has returned it: the client writes its changes back before the return.
    lease_end: Time,
    /// The number of changes that the object had had when the client made its first dirty change.
    made_from: usize,
    /// The number of calls and replies for own changes; it reveals a change in between.
    changes: u64,
    /// The changes whose write-back is in progress.
    pushed: Vec<(usize, Id)>,
}

impl Cache {
    fn is_dirty(&self) -> bool {
        self.dirty.iter().any(|dirty| *dirty)
    }

    /// Drops all cached values that are not dirty.
    fn clean(&mut self) {
        for cell in 0..CELLS {
            self.cells[cell] = self.cells[cell].filter(|_| self.dirty[cell]);
        }
        self.attributes = self.attributes.filter(|_| self.is_dirty());
    }
}

#[derive(Clone, Copy, Debug)]
enum Program {
    Idle { until: Time },
    Doing { op: Op, begun: Time },
}

pub(super) struct Client {
    pub(super) host: usize,
    pub(super) up: bool,
    pub(super) paused_until: Time,
    pub(super) plain: bool,
    clock: Clock,
    now: Time,
    instance: u64,
    epoch: u64,
    /// True if the client does not know whether the server still has the change.
    lost: bool,
    holder: Holder,
    caches: Vec<Cache>,
    calls: BTreeMap<u64, Outstanding>,
    next_xid: u64,
    next_hello: Time,
    programs: [Program; PROGRAMS],
    /// The program that waits for each ticket of the lease state machine.
    tickets: BTreeMap<Ticket, usize>,
    next_ticket: u64,
    random: Random,
    ending: bool,
    /// The reads that the programs must still do after the faults have ended.
    last: VecDeque<Op>,
    mutant: Option<LeaseMutant>,
    pub(super) operations: usize,
    next_id: Id,
    /// The number of changes that each object had had, which only the checks use.
    pub(super) changes: [usize; OBJECTS],
    outs: Vec<Out>,
}

impl Client {
    pub(super) fn new(
        host: usize,
        plain: bool,
        random: &mut Random,
        mutant: Option<LeaseMutant>,
    ) -> Self {
        let mut client = Self {
            host,
            up: true,
            paused_until: Time::ZERO,
            plain,
            clock: Clock::drifting(random, super::world::DRIFT_PPM_MAX),
            now: Time::ZERO,
            instance: 0,
            epoch: 0,
            lost: true,
            holder: Holder::new(),
            caches: Vec::new(),
            calls: BTreeMap::new(),
            next_xid: 0,
            next_hello: Time::ZERO,
            programs: [Program::Idle { until: Time::ZERO }; PROGRAMS],
            tickets: BTreeMap::new(),
            next_ticket: 0,
            random: random.fork(),
            ending: false,
            last: VecDeque::new(),
            mutant,
            operations: 0,
            next_id: 0,
            changes: [0; OBJECTS],
            outs: Vec::new(),
        };
        client.start(Time::ZERO);
        client
    }

    /// Starts the client with empty memory.
    pub(super) fn start(&mut self, now: Time) {
        self.up = true;
        self.now = now;
        self.instance += 1;
        (self.epoch, self.lost) = (0, true);
        self.holder = Holder::new();
        if let Some(mutant) = self.mutant.and_then(LeaseMutant::of_holder) {
            self.holder.plant(mutant);
        }
        self.caches = (0..OBJECTS).map(|_| Cache::default()).collect();
        self.calls.clear();
        self.tickets.clear();
        self.next_hello = now;
        self.programs = [Program::Idle { until: now }; PROGRAMS];
    }

    /// Ends the changes: from this time programs only read, and read everything once.
    pub(super) fn end(&mut self) {
        self.ending = true;
        let syncs = (0..OBJECTS).map(|object| Op::Sync { object });
        let looks = (0..OBJECTS).flat_map(|object| {
            [Op::Read { object, cell: 0 }, Op::Read { object, cell: 1 }, Op::Look { object }]
        });
        self.last = syncs.chain(looks).collect();
    }

    pub(super) fn has_ended(&self) -> bool {
        let idle = self.programs.iter().all(|program| matches!(program, Program::Idle { .. }));
        self.ending && self.last.is_empty() && idle
    }

    /// Describes the unfinished operations, for the report of a world that does not end.
    pub(super) fn unfinished(&self) -> String {
        let calls: Vec<&Body> = self.calls.values().map(|call| &call.body).collect();
        let dirty: Vec<bool> = self.caches.iter().map(Cache::is_dirty).collect();
        format!("{}: {:?}, dirty {dirty:?}, calls {calls:?}", self.host, self.programs)
    }

    /// Returns the client's changes that it has not written back, if it still holds their lease.
    pub(super) fn holds(&self, now: Time, at: usize) -> Option<Changed> {
        let cache = &self.caches[at];
        if !self.up || self.clock.local(now) >= cache.lease_end {
            return None;
        }
        let dirty = |cell: usize| cache.dirty[cell].then_some(cache.dirty_at[cell]);
        let first = (0..CELLS).filter_map(dirty).min()?;
        Some(Changed {
            cells: core::array::from_fn(|cell| Some((cache.cells[cell]?, dirty(cell)?))),
            attributes: (cache.attributes.unwrap_or_default(), first),
        })
    }

    pub(super) fn held(&self, now: Time, at: usize) -> Option<(Kind, Serial, bool)> {
        self.holder.held(self.clock.local(now), object(at)).filter(|_| self.up)
    }

    pub(super) const fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(super) fn next_wake(&self) -> Option<Time> {
        let programs = self.programs.iter().filter_map(|program| match program {
            Program::Idle { until } if !self.ending || !self.last.is_empty() => Some(*until),
            Program::Idle { .. } | Program::Doing { .. } => None,
        });
        let calls = self.calls.values().map(|call| call.again).filter(|_| !self.lost || self.plain);
        let hello = (self.lost && !self.plain).then_some(self.next_hello);
        let holder = self.holder.next_wake().map(|local| self.clock.moment(local));
        let next = programs.chain(calls).chain(hello).chain(holder).min().filter(|_| self.up)?;
        Some(next.max(self.paused_until))
    }

    pub(super) fn wake(&mut self, now: Time) -> Vec<Out> {
        self.now = now;
        if self.lost && !self.plain && now >= self.next_hello {
            self.next_hello = now + CALL_TIMEOUT;
            self.send(0, Body::Hello);
        }
        self.step(holder::Event::Tick);
        for xid in self.calls.keys().copied().collect::<Vec<_>>() {
            if let Some(call) = self.calls.get_mut(&xid)
                && call.again <= now
                && (self.plain || !self.lost)
            {
                call.again = now + CALL_TIMEOUT;
                let body = call.body.clone();
                self.send(xid, body);
            }
        }
        for program in 0..PROGRAMS {
            if let Program::Idle { until } = self.programs[program]
                && until <= now
                && let Some(op) = self.choose()
            {
                self.programs[program] = Program::Doing { op, begun: now };
                self.begin(program, op);
            }
        }
        core::mem::take(&mut self.outs)
    }

    pub(super) fn withdrawn(&mut self, now: Time, at: usize) -> Vec<Out> {
        self.now = now;
        self.step(holder::Event::Withdrawn(object(at)));
        core::mem::take(&mut self.outs)
    }

    pub(super) fn receive(&mut self, now: Time, message: Message) -> Vec<Out> {
        self.now = now;
        match message {
            Message::Answer { instance, xid, answer } if instance == self.instance => {
                self.answered(xid, answer);
            }
            Message::Evict { epoch, object, serial } if epoch == self.epoch && !self.lost => {
                let instance = self.instance;
                self.outs.push(Out::Send(Message::Received { instance, epoch, object, serial }));
                self.step(holder::Event::Evicted(object, serial));
            }
            Message::Inquire { epoch, object, serial, round }
                if epoch == self.epoch && !self.lost =>
            {
                self.step(holder::Event::Inquired(object, serial, round));
            }
            Message::Call(_)
            | Message::Answer { .. }
            | Message::Evict { .. }
            | Message::Received { .. }
            | Message::Inquire { .. }
            | Message::Report { .. } => {}
        }
        core::mem::take(&mut self.outs)
    }

    /// Sends a report to the server: the time, and the attributes if the client changed them.
    fn report(&mut self, object: Object, serial: Serial, round: u64, held: bool) {
        let cache = &self.caches[index(object)];
        let size = cache.attributes.filter(|_| cache.is_dirty()).unwrap_or(u64::MAX);
        let modified = i128::from(self.now.as_nanoseconds());
        let told = held.then_some(Told { size, modified, set: None });
        let Self { instance, epoch, .. } = *self;
        let report = Message::Report { instance, epoch, object, serial, round, told };
        self.outs.push(Out::Send(report));
    }

    fn choose(&mut self) -> Option<Op> {
        if self.ending {
            return self.last.pop_front();
        }
        let random = &mut self.random;
        let mut below = |bound: usize| {
            let bound = u64::try_from(bound).expect("the bound is small");
            usize::try_from(random.below(bound)).expect("it is small")
        };
        let (object, cell) = (below(OBJECTS), below(CELLS));
        Some(match below(10) {
            0..=3 => Op::Read { object, cell },
            4..=6 => Op::Write { object, cell },
            7 | 8 => Op::Look { object },
            _ => Op::Sync { object },
        })
    }

    fn begin(&mut self, program: usize, op: Op) {
        let at = op.object();
        let file = object(at);
        if !self.plain && self.random.one_in(8) {
            let open = if self.random.one_in(3) { Open::Write } else { Open::No };
            self.step(holder::Event::Opened(file, open));
        }
        match op {
            Op::Read { .. } if self.plain => self.fill(program, at),
            Op::Read { .. } => self.want(program, file, Kind::Read),
            // Like a listing of a directory, half of the look-ups run without leases.
            Op::Look { .. } if self.plain || self.random.one_in(2) => {
                self.make(Body::Look(file), Purpose::Look { program });
            }
            Op::Look { .. } => self.want(program, file, Kind::Read),
            Op::Write { cell, .. } if self.plain || is_directory(at) => {
                self.change(program, at, cell);
            }
            Op::Write { .. } => self.want(program, file, Kind::Write),
            Op::Sync { .. } if self.caches[at].is_dirty() => self.step(holder::Event::Sync(file)),
            Op::Sync { .. } => self.finish(program),
        }
    }

    fn want(&mut self, program: usize, file: Object, kind: Kind) {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.tickets.insert(ticket, program);
        self.step(holder::Event::Use(ticket, file, kind, 0));
    }

    fn finish(&mut self, program: usize) {
        let until = self.now + upto(&mut self.random, Duration::from_millis(300));
        self.programs[program] = Program::Idle { until };
        self.operations += 1;
    }

    /// Reads an object by a call, for a program.
    fn fill(&mut self, program: usize, at: usize) {
        let held = self.holder.held(self.clock.local(self.now), object(at));
        let serial = held.filter(|(_, _, cachable)| *cachable).map(|(_, serial, _)| serial);
        let changes = self.caches[at].changes;
        self.make(Body::Read(object(at)), Purpose::Fill { program, serial, changes });
    }

    /// Changes a cell by a call, for a program.
    fn change(&mut self, program: usize, at: usize, cell: usize) {
        let id = self.fresh();
        let since = self.holder.last_lease(object(at));
        let purpose = Purpose::Change { program, cell, id, since };
        if !self.plain {
            self.step(holder::Event::Changing(object(at)));
        }
        self.caches[at].changes += 1;
        let change = Change {
            cells: vec![(cell, id)],
            attributes: id,
            stable: true,
            ask: None,
            base: None,
            made_from: 0,
        };
        self.make(Body::Change(object(at), change), purpose);
    }

    fn fresh(&mut self) -> Id {
        self.next_id += 1;
        (u64::try_from(self.host).expect("hosts are few") + 1) << 32 | self.next_id
    }

    fn make(&mut self, body: Body, purpose: Purpose) {
        self.next_xid += 1;
        let (xid, made, again) = (self.next_xid, self.now, self.now + CALL_TIMEOUT);
        self.calls.insert(xid, Outstanding { body: body.clone(), purpose, made, again });
        if self.plain || !self.lost {
            self.send(xid, body);
        }
    }

    fn send(&mut self, xid: u64, body: Body) {
        let Self { host, instance, epoch, plain, .. } = *self;
        let call = Call { host, leases: !plain, instance, epoch, xid, body };
        self.outs.push(Out::Send(Message::Call(call)));
    }

    fn answered(&mut self, xid: u64, answer: Answer) {
        match answer {
            Answer::Welcome(epoch) => self.welcome(epoch),
            Answer::Epoch(epoch) if epoch > self.epoch => self.lose(),
            Answer::Epoch(_) => {}
            Answer::Unknown if self.calls.contains_key(&xid) => self.lose(),
            Answer::Unknown => {}
            Answer::Later => {
                if let Some(call) = self.calls.get_mut(&xid) {
                    call.again = self.now + LATER;
                }
            }
            Answer::Done
            | Answer::Leased(..)
            | Answer::Content(_)
            | Answer::Attributes(_)
            | Answer::Changed { .. }
            | Answer::Committed { .. }
            | Answer::Late => {
                if let Some(Outstanding { body, purpose, made, .. }) = self.calls.remove(&xid) {
                    let lease = match (body.object(), &answer) {
                        (Some(object), Answer::Leased(Some(grant), ..)) => Some((object, *grant)),
                        _ => None,
                    };
                    self.done(&body, purpose, answer);
                    if let Some((object, grant)) = lease {
                        self.lasts(object, grant, made);
                    }
                }
            }
        }
    }

    fn lose(&mut self) {
        if !self.lost {
            self.lost = true;
            self.next_hello = self.now;
        }
    }

    /// Handles a new epoch by rule 4 of the lease program: drops or repeats the earlier calls.
    fn welcome(&mut self, epoch: u64) {
        if epoch < self.epoch || !self.lost {
            return;
        }
        let restarted = self.epoch != 0;
        (self.epoch, self.lost) = (epoch, false);
        if restarted {
            let is_kept = |purpose: &Purpose| {
                !matches!(
                    purpose,
                    Purpose::Machine
                        | Purpose::Ask { .. }
                        | Purpose::Push { .. }
                        | Purpose::Commit { .. }
                )
            };
            self.calls.retain(|_, call| is_kept(&call.purpose));
            self.caches.iter_mut().for_each(|cache| cache.lease_end = Time::ZERO);
            self.step(holder::Event::Restarted);
        }
        self.calls.values_mut().for_each(|call| call.again = self.now);
    }

    fn done(&mut self, body: &Body, purpose: Purpose, answer: Answer) {
        match (purpose, answer) {
            (Purpose::Ask { request, changes }, Answer::Leased(grant, modrev, content)) => {
                let Body::Lease(file, ..) = body else { unreachable!("the call requests a lease") };
                let answer = grant.map(|grant| (grant, modrev));
                self.step(holder::Event::Answered(request, answer));
                if let (Some(content), Some(grant)) = (content, grant)
                    && grant.cachable
                {
                    self.filled(*file, Some(grant.serial), changes, content);
                }
            }
            (Purpose::Fill { program, serial, changes }, Answer::Content(content)) => {
                let Body::Read(file) = body else { unreachable!("the call reads") };
                self.filled(*file, serial, changes, content);
                self.finish(program);
            }
            (Purpose::Look { program }, Answer::Attributes(told)) => {
                if let (Some(told), Program::Doing { begun, .. }) = (told, self.programs[program]) {
                    self.outs.push(Out::WasTold { begun, told });
                }
                self.finish(program);
            }
            (Purpose::Change { program, cell, id, since }, Answer::Changed { modrevs, .. }) => {
                let Body::Change(file, _) = body else {
                    unreachable!("the call changes the object")
                };
                self.changed(*file, (cell, id), since, modrevs);
                self.finish(program);
            }
            (
                Purpose::Push { object: at },
                Answer::Changed { modrevs: Some((before, after)), boot },
            ) => {
                self.caches[at].changes += 1;
                self.step(holder::Event::Wrote(object(at), before, after));
                let Body::Change(_, Change { base: Some((serial, _)), .. }) = body else {
                    unreachable!("the call writes back")
                };
                let after = (*serial, after);
                let purpose = Purpose::Commit { object: at, after, boot };
                self.make(Body::Commit(object(at)), purpose);
            }
            (Purpose::Push { object: at }, Answer::Late) => {
                self.step(holder::Event::Refused(object(at)));
            }
            (Purpose::Commit { object: at, after, boot }, Answer::Committed { boot: now }) => {
                if boot == now {
                    self.pushed(at);
                } else {
                    self.push(at, after);
                }
            }
            _ => {}
        }
        self.finish_syncs();
    }

    /// Records the end of a write lease, counted from the request, if the client has the lease.
    fn lasts(&mut self, object: Object, grant: Grant, made: Time) {
        let held = self.holder.held(self.clock.local(self.now), object);
        if held == Some((Kind::Write, grant.serial, true)) {
            let end = self.clock.local(made) + grant.term;
            let cache = &mut self.caches[index(object)];
            cache.lease_end = cache.lease_end.max(end);
        }
    }

    /// Caches the result of a read, if the client kept the lease and changed nothing meanwhile.
    fn filled(&mut self, file: Object, serial: Option<Serial>, changes: u64, content: Content) {
        let held = self.holder.held(self.clock.local(self.now), file);
        let is_same = held.is_some_and(|(_, now, cachable)| cachable && Some(now) == serial);
        let under_way = self
            .calls
            .values()
            .any(|call| matches!(&call.body, Body::Change(other, _) if *other == file));
        let cache = &mut self.caches[index(file)];
        if is_same && cache.changes == changes && !under_way {
            if !cache.is_dirty() {
                cache.attributes = Some(content.attributes);
            }
            for cell in 0..CELLS {
                if !cache.dirty[cell] {
                    cache.cells[cell] = Some(content.cells[cell]);
                }
            }
        }
    }

    fn changed(
        &mut self,
        file: Object,
        (cell, id): (usize, Id),
        since: Option<Serial>,
        modrevs: Option<(Modrev, Modrev)>,
    ) {
        let kept = self.holder.may_keep(file, since, modrevs).then_some(id);
        // The client may cache a name of its own change that was not in its cache.
        let is_known = is_directory(index(file)) && self.holder.base(file).is_some();
        let cache = &mut self.caches[index(file)];
        cache.changes += 1;
        if !self.plain {
            if (cache.cells[cell].is_some() || is_known) && !cache.dirty[cell] {
                cache.cells[cell] = kept;
            }
            if cache.attributes.is_some() && !cache.is_dirty() {
                cache.attributes = kept;
            }
            // Without confirmation, the cached content stays valid only at its earlier modrev.
            let base = self.holder.base(file).map(|(_, modrev)| (modrev, modrev));
            self.step(holder::Event::Changed(file, modrevs.or(base)));
        }
    }

    fn push(&mut self, at: usize, base: (Serial, Modrev)) {
        let cache = &mut self.caches[at];
        let cells = (0..CELLS).filter(|cell| cache.dirty[*cell]);
        let cells: Vec<(usize, Id)> =
            cells.filter_map(|cell| Some((cell, cache.cells[cell]?))).collect();
        cache.pushed.clone_from(&cells);
        cache.changes += 1;
        let attributes = cache.attributes.unwrap_or_default();
        let (base, made_from) = (Some(base), cache.made_from);
        // The client must ignore this grant, which its state machine does not expect.
        let ask = self.random.one_in(8).then_some(Ask {
            kind: Kind::Write,
            term: Duration::ZERO,
            opportune: false,
            space: 0,
            reclaim: false,
            reports: true,
        });
        let change = Change { cells, attributes, stable: false, ask, base, made_from };
        self.make(Body::Change(object(at), change), Purpose::Push { object: at });
    }

    fn pushed(&mut self, at: usize) {
        let cache = &mut self.caches[at];
        let pushed = core::mem::take(&mut cache.pushed);
        for (cell, id) in &pushed {
            if cache.cells[*cell] == Some(*id) {
                cache.dirty[*cell] = false;
            }
        }
        let ids = pushed.into_iter().map(|(_, id)| id).collect();
        self.outs.push(Out::Committed(ids));
        self.step(holder::Event::Pushed(object(at)));
    }

    /// Completes the operations that wait until all data is written back.
    fn finish_syncs(&mut self) {
        for program in 0..PROGRAMS {
            if let Program::Doing { op: Op::Sync { object: at }, .. } = self.programs[program] {
                if self.caches[at].is_dirty() {
                    self.step(holder::Event::Sync(object(at)));
                } else {
                    self.finish(program);
                }
            }
        }
    }

    fn step(&mut self, event: holder::Event) {
        let mut effects = Vec::new();
        self.holder.step(self.clock.local(self.now), event, &mut effects);
        for effect in effects {
            match effect {
                holder::Effect::Use(ticket) => self.used(ticket),
                holder::Effect::Through(ticket) => self.through(ticket),
                holder::Effect::Full(_) => {}
                holder::Effect::Ask { request, object, kind, space, reclaim } => {
                    let term = Duration::ZERO;
                    let opportune = !reclaim && self.random.one_in(8);
                    let ask = Ask { kind, term, opportune, space, reclaim, reports: true };
                    let reads = !reclaim && self.random.one_in(2);
                    let access = if reads { Access::Read } else { Access::Nothing };
                    let body = Body::Lease(object, access, ask);
                    let changes = self.caches[index(object)].changes;
                    self.make(body, Purpose::Ask { request, changes });
                }
                holder::Effect::Withdraw(object) => self.outs.push(Out::Withdraw(index(object))),
                holder::Effect::Push(object, serial, base) => {
                    self.push(index(object), (serial, base));
                }
                holder::Effect::Drop(object) => self.caches[index(object)].clean(),
                holder::Effect::Rescue(object, _) => {
                    let cache = &mut self.caches[index(object)];
                    cache.dirty = [false; CELLS];
                    cache.clean();
                }
                holder::Effect::Report(object, serial, round, held) => {
                    self.report(object, serial, round, held);
                }
                holder::Effect::Return(object, serial, open) => {
                    self.make(Body::Return(object, serial, open), Purpose::Machine);
                }
                holder::Effect::Reclaimed => self.make(Body::Reclaimed, Purpose::Machine),
                holder::Effect::Recovered => self.make(Body::Recovered, Purpose::Machine),
            }
        }
    }

    fn doing(&mut self, ticket: Ticket) -> Option<(usize, Op)> {
        let program = self.tickets.remove(&ticket)?;
        match self.programs[program] {
            Program::Doing { op, .. } => Some((program, op)),
            Program::Idle { .. } => None,
        }
    }

    /// Handles the state machine's permission for a program to use the cache.
    fn used(&mut self, ticket: Ticket) {
        let Some((program, op)) = self.doing(ticket) else { return };
        let at = op.object();
        match op {
            Op::Read { cell, .. } => match self.caches[at].cells[cell] {
                Some(id) => {
                    if !self.caches[at].dirty[cell] {
                        self.outs.push(Out::SawCell { object: at, cell, id });
                    }
                    self.finish(program);
                }
                None => self.fill(program, at),
            },
            Op::Look { .. } => match self.caches[at].attributes {
                Some(id) => {
                    if !self.caches[at].is_dirty() {
                        self.outs.push(Out::SawAttributes { object: at, id });
                    }
                    self.finish(program);
                }
                None => self.fill(program, at),
            },
            Op::Write { cell, .. } => {
                let id = self.fresh();
                let cache = &mut self.caches[at];
                if !cache.is_dirty() {
                    cache.made_from = self.changes[at];
                }
                cache.cells[cell] = Some(id);
                if !cache.dirty[cell] {
                    (cache.dirty[cell], cache.dirty_at[cell]) = (true, self.now);
                }
                cache.attributes = Some(id);
                self.finish(program);
                self.step(holder::Event::Dirtied(object(at), 0));
            }
            Op::Sync { .. } => {}
        }
    }

    /// The program must use a call instead of the cache.
    fn through(&mut self, ticket: Ticket) {
        let Some((program, op)) = self.doing(ticket) else { return };
        match op {
            Op::Read { object, .. } | Op::Look { object } => self.fill(program, object),
            Op::Write { object, cell } => self.change(program, object, cell),
            Op::Sync { .. } => {}
        }
    }
}
