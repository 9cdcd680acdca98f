//! A simulated metaserver: the real state machine of delegable leases (covers), and the real lease
//! table for the objects that have their home at this metaserver. The leases of its one client are
//! simulated.

use core::time::Duration;
use std::collections::BTreeMap;

use leasehold_base::units::{FileId, FileSystemId, Time};
use leasehold_core::leases::table::{self, Access, Effect, Event, Grant, Outcome, Run, Table};
use leasehold_core::leases::{Client, Kind, Object, Open, Serial, Terms, Ticket};
use leasehold_core::replica::covers::{self, Covers, Need, Purpose};
use leasehold_core::replica::{self, Bounds};

use super::CoverMutant;
use super::message::{Answer, Ask, Body, Call, Lease, Message, Told};

/// The timeout of a call to another metaserver.
const CALL_MAX: Duration = Duration::from_millis(900);
const CALL_RETRY_DELAY: Duration = Duration::from_millis(400);
const HELLO_AGAIN: Duration = Duration::from_millis(500);

/// The term of clients' leases, by the clocks of the clients.
pub(super) const TERM: Duration = Duration::from_secs(4);

/// The maximum difference between the rates of two clocks, in millionths.
pub(super) const DRIFT_PPM: u32 = 20_000;

const BOUNDS: Bounds = Bounds { window: Duration::from_secs(1), most: 8, ..Bounds::DEFAULT };

const TERMS: Terms = Terms {
    default_term: BOUNDS.window,
    longest_term: Duration::from_secs(8),
    write_slack: Duration::ZERO,
    slack_max: Duration::ZERO,
    drift_ppm: DRIFT_PPM,
    ..Terms::DEFAULT
};

/// Returns the time after which a term has certainly expired at the client, for every permitted
/// drift of the client's clock.
fn waited(term: Duration) -> Duration {
    term + term * DRIFT_PPM / 1_000_000
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asker {
    peer: usize,
    epoch: u64,
    call: u64,
}

#[derive(Clone, Debug)]
enum Turn {
    Cover(Asker),
    Look(Asker),
}

#[derive(Clone, Copy, Debug)]
struct Evicted {
    holder: Client,
    file: FileId,
    serial: Serial,
}

#[derive(Clone, Copy, Debug)]
enum Why {
    Hello,
    Cover(replica::Call),
    Uncover(Evicted),
    Look(replica::Ticket),
}

#[derive(Clone, Debug)]
struct Called {
    to: usize,
    ask: Ask,
    why: Why,
    again: Time,
    until: Time,
}

/// A lease that the metaserver has granted to its client.
#[derive(Clone, Copy, Debug)]
struct Lent {
    kind: Kind,
    lease: Lease,
    end: Time,
    is_evicted: bool,
}

/// A call of the client that the metaserver executes.
#[derive(Clone, Copy, Debug)]
struct Doing {
    call: Call,
    sent: Time,
    /// The lease that the reply grants, and true if this call created the lease.
    granted: Option<(Lent, bool)>,
}

/// An action that a step of the metaserver requests.
#[derive(Clone, Debug)]
pub(super) enum Out {
    Send(Message),
    Tell(Told),
    /// The world must read the data of this file now, for a call of the client. The rest is the
    /// lease that the reply grants, its kind, and the time at which the client sent the call.
    Read(FileId, Option<(Kind, Lease, Time)>),
    /// The world must write this value to the file now; if an expected value is given, only if the
    /// file still has that value. After the write, the metaserver ends its use of the cover for
    /// this call.
    Write(FileId, u64, Option<u64>, replica::Ticket),
}

/// A metaserver. Only the fields outside `live` survive a crash.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) me: usize,
    count: usize,
    pub(super) epoch: u64,
    mutant: Option<CoverMutant>,
    now: Time,
    pub(super) outs: Vec<Out>,
    heard: Vec<u64>,
    live: Live,
}

#[derive(Clone, Debug)]
struct Live {
    has_answered: Vec<bool>,
    table: Table,
    turns: BTreeMap<Ticket, (FileId, Turn)>,
    covers: Covers,
    evictions: BTreeMap<replica::Ticket, Asker>,
    calls: BTreeMap<u64, Called>,
    lent: BTreeMap<FileId, Lent>,
    doing: BTreeMap<replica::Ticket, Doing>,
    /// The time until which the client may hold leases that the metaserver does not know.
    recovers_until: Option<Time>,
    /// The peers whose clients may hold such leases.
    recovering: Vec<bool>,
    greets: Time,
    last: u64,
}

fn holder(peer: usize) -> Client {
    Client(u32::try_from(peer).expect("metaservers are few"))
}

const fn covered(file: FileId) -> Object {
    Object { file_system: FileSystemId(1), file }
}

impl Live {
    fn new(node: &Node, now: Time) -> Self {
        let mut covers = Covers::new(BOUNDS, waited(TERM));
        match node.mutant {
            Some(CoverMutant::GivesWhatIsLent) => covers.plant(covers::Mutant::GivesWhatIsLent),
            Some(CoverMutant::UsesVoid) => covers.plant(covers::Mutant::UsesVoid),
            Some(CoverMutant::LendsTooLong) => covers.plant(covers::Mutant::LendsTooLong),
            Some(CoverMutant::RecoversNothing) | None => {}
        }
        let is_first = node.epoch == 1;
        let recovers = !is_first && node.mutant != Some(CoverMutant::RecoversNothing);
        let mut has_answered = vec![false; node.count];
        has_answered[node.me] = true;
        Self {
            has_answered,
            table: Table::new(TERMS, 64, node.epoch, false),
            turns: BTreeMap::new(),
            covers,
            evictions: BTreeMap::new(),
            calls: BTreeMap::new(),
            lent: BTreeMap::new(),
            doing: BTreeMap::new(),
            recovers_until: recovers.then(|| now + waited(TERM)),
            recovering: vec![false; node.count],
            greets: now,
            last: 0,
        }
    }
}

impl Node {
    pub(super) fn new(me: usize, count: usize, mutant: Option<CoverMutant>) -> Self {
        let (now, outs, heard) = (Time::ZERO, Vec::new(), vec![0; count]);
        let live = Live {
            has_answered: Vec::new(),
            table: Table::new(TERMS, 64, 0, false),
            turns: BTreeMap::new(),
            covers: Covers::new(BOUNDS, TERM),
            evictions: BTreeMap::new(),
            calls: BTreeMap::new(),
            lent: BTreeMap::new(),
            doing: BTreeMap::new(),
            recovers_until: None,
            recovering: Vec::new(),
            greets: Time::ZERO,
            last: 0,
        };
        Self { me, count, epoch: 0, mutant, now, outs, heard, live }
    }

    /// Begins a new epoch with empty memory.
    pub(super) fn start(&mut self, now: Time) {
        self.now = now;
        self.epoch += 1;
        self.heard[self.me] = self.epoch;
        self.live = Live::new(self, now);
        self.wake(now);
    }

    fn home(&self, file: FileId) -> usize {
        usize::try_from(file.0).expect("files are few") % self.count
    }

    fn is_open(&self) -> bool {
        self.live.has_answered.iter().all(|has| *has)
    }

    fn is_recovering(&self) -> bool {
        self.live.recovers_until.is_some_and(|until| self.now < until)
    }

    fn number(&mut self) -> u64 {
        self.live.last += 1;
        self.epoch << 32 | self.live.last
    }

    pub(super) fn next_wake(&self) -> Option<Time> {
        let calls = self.live.calls.values().map(|called| called.again.min(called.until));
        let lent = self.live.lent.values().map(|lent| lent.end);
        let greets = !self.is_open() || self.live.recovering.contains(&true);
        let machines = [
            self.live.table.next_wake(),
            self.live.covers.next_wake(),
            greets.then_some(self.live.greets),
        ];
        machines.into_iter().flatten().chain(calls).chain(lent).min()
    }

    pub(super) fn wake(&mut self, now: Time) {
        self.now = now;
        if self.live.greets <= now && (!self.is_open() || self.live.recovering.contains(&true)) {
            self.live.greets = now + HELLO_AGAIN;
            for peer in 0..self.count {
                if !self.live.has_answered[peer] || self.live.recovering[peer] {
                    self.call(peer, Ask::Hello, Why::Hello);
                }
            }
        }
        let due = self.live.calls.iter().filter(|(_, it)| it.again.min(it.until) <= now);
        for number in due.map(|(number, _)| *number).collect::<Vec<_>>() {
            let called = self.live.calls.get_mut(&number).expect("the call is in progress");
            if called.until <= now {
                let why = called.why;
                self.live.calls.remove(&number);
                self.answered(why, Answer::Later);
            } else {
                called.again = now + CALL_RETRY_DELAY;
                let (to, ask) = (called.to, called.ask);
                self.send(to, number, Body::Ask(ask));
            }
        }
        self.table(Event::Tick);
        self.covers(covers::Event::Tick);
        let over = self.live.lent.iter().filter(|(_, lent)| lent.end <= now);
        for file in over.map(|(file, _)| *file).collect::<Vec<_>>() {
            self.gave_back(file);
        }
    }

    fn send(&mut self, to: usize, call: u64, body: Body) {
        let (from, epoch, callee_epoch) = (self.me, self.epoch, self.heard[to]);
        self.outs.push(Out::Send(Message { from, to, epoch, callee_epoch, call, body }));
    }

    fn call(&mut self, to: usize, ask: Ask, why: Why) {
        let number = self.number();
        let (again, until) = (self.now + CALL_RETRY_DELAY, self.now + CALL_MAX);
        self.live.calls.insert(number, Called { to, ask, why, again, until });
        self.send(to, number, Body::Ask(ask));
    }

    fn answer(&mut self, asker: Asker, answer: Answer) {
        self.send(asker.peer, asker.call, Body::Answer(answer));
    }

    pub(super) fn receive(&mut self, now: Time, message: Message) {
        self.now = now;
        let Message { from, epoch, callee_epoch, call, body, .. } = message;
        if epoch > self.heard[from] {
            self.heard[from] = epoch;
            self.covers(covers::Event::Restarted);
        }
        let asker = Asker { peer: from, epoch, call };
        match body {
            Body::Answer(answer) => {
                if callee_epoch != self.epoch {
                    return;
                }
                if let Some(called) = self.live.calls.remove(&call) {
                    if let Answer::Known(recovers, had) = &answer {
                        self.greeted(from, *recovers, had);
                    }
                    self.answered(called.why, answer);
                }
            }
            Body::Ask(Ask::Hello) => {
                let had = self.live.covers.had();
                let had = had.filter(|(file, _)| self.home(*file) == from).collect();
                let answer = Answer::Known(self.is_recovering(), had);
                self.answer(asker, answer);
            }
            Body::Ask(_) if epoch != self.heard[from] || callee_epoch != self.epoch => {
                self.answer(asker, Answer::Epoch);
            }
            Body::Ask(_) if !self.is_open() => self.answer(asker, Answer::Later),
            Body::Ask(ask) => self.asked(asker, ask),
        }
    }

    fn asked(&mut self, asker: Asker, ask: Ask) {
        let peer = asker.peer;
        match ask {
            Ask::Hello => {}
            Ask::Uncover(..) if self.is_recovering() => self.answer(asker, Answer::Later),
            Ask::Uncover(file, serial) => {
                let ticket = replica::Ticket(self.number());
                self.live.evictions.insert(ticket, asker);
                self.covers(covers::Event::Evicted(ticket, file, serial));
            }
            Ask::Cover(file, kind, ..) if self.is_held_off(peer, file, kind) => {
                self.answer(asker, Answer::Later);
            }
            Ask::Look(file) if self.is_held_off(peer, file, Kind::Read) => {
                self.answer(asker, Answer::Later);
            }
            Ask::Cover(file, kind, purpose, given) => {
                if let Some(serial) = given {
                    let (holder, file) = (holder(peer), covered(file));
                    self.table(Event::Returned(holder, file, serial, Open::No));
                }
                let term = match purpose {
                    Purpose::Use => TERMS.default_term,
                    Purpose::Lend => TERMS.longest_term,
                };
                let access = match kind {
                    Kind::Read => Access::Nothing,
                    Kind::Write => Access::Write,
                };
                self.take_turn(file, peer, access, Some(wish(kind, term)), Turn::Cover(asker));
            }
            Ask::Look(file) => self.take_turn(file, peer, Access::Read, None, Turn::Look(asker)),
        }
    }

    /// Returns true if a request for a cover must wait. It waits while this metaserver or a peer
    /// may have clients with unknown leases, unless the requester already has a sufficient cover.
    fn is_held_off(&self, peer: usize, file: FileId, kind: Kind) -> bool {
        let leases = self.live.table.leases(covered(file)).iter();
        let has = leases.into_iter().any(|it| it.client == holder(peer) && it.kind >= kind);
        !has && (self.is_recovering() || self.live.recovering.contains(&true))
    }

    fn take_turn(
        &mut self,
        file: FileId,
        peer: usize,
        access: Access,
        ask: Option<table::Ask>,
        turn: Turn,
    ) {
        let ticket = Ticket(self.number());
        self.live.turns.insert(ticket, (file, turn));
        let (object, client, under) = (covered(file), Some(holder(peer)), None);
        self.table(Event::Call(table::Call { ticket, object, client, access, under, ask }));
    }

    fn table(&mut self, event: Event) {
        let mut effects = Vec::new();
        self.live.table.step(self.now, event, &mut effects);
        for effect in effects {
            match effect {
                Effect::Run(run) => self.runs(run),
                Effect::Evict(holder, object, serial) => {
                    let peer = usize::try_from(holder.0).expect("metaservers are few");
                    let file = object.file;
                    let why = Why::Uncover(Evicted { holder, file, serial });
                    self.call(peer, Ask::Uncover(file, serial), why);
                }
                Effect::Later(_) | Effect::Inquire(..) => {
                    unreachable!("no client delays or inquires")
                }
            }
        }
    }

    fn runs(&mut self, run: Run) {
        let Run { ticket, grant, .. } = run;
        let (file, turn) =
            self.live.turns.remove(&ticket).expect("each ticket has one operation guard");
        let (asker, answer) = match turn {
            Turn::Look(asker) => (asker, Answer::Done),
            Turn::Cover(asker) => {
                let covered = |it: Grant| Answer::Covered(it.serial, it.kind, it.term);
                let granted = grant.filter(|grant| grant.cachable);
                (asker, granted.map_or(Answer::Later, covered))
            }
        };
        self.answer(asker, answer);
        self.table(Event::Done(covered(file), ticket, Outcome::default()));
    }

    /// Handles a peer's reply to HELLO.
    fn greeted(&mut self, peer: usize, recovers: bool, had: &[(FileId, Kind)]) {
        if !self.is_open() {
            self.had(peer, had);
        }
        self.live.recovering[peer] = recovers;
        self.live.has_answered[peer] = true;
    }

    /// Handles the list of covers on objects of this home that a peer had when this metaserver
    /// started: enters the covers into the lease table.
    fn had(&mut self, peer: usize, had: &[(FileId, Kind)]) {
        for (file, kind) in had {
            let ticket = Ticket(self.number());
            let (object, client) = (covered(*file), Some(holder(peer)));
            let ask = Some(wish(*kind, TERMS.longest_term));
            let (access, under, mut effects) = (Access::Nothing, None, Vec::new());
            let call = table::Call { ticket, object, client, access, under, ask };
            self.live.table.step(self.now, Event::Call(call), &mut effects);
            // The peers held these covers at the same time before, so they do not conflict and each
            // call runs at once. A call that does not run is given up.
            self.table(match &*effects {
                [Effect::Run(_)] => Event::Done(object, ticket, Outcome::default()),
                _ => Event::GivenUp(object, ticket),
            });
        }
    }

    fn answered(&mut self, why: Why, answer: Answer) {
        match (why, answer) {
            (Why::Cover(call), Answer::Covered(serial, kind, term)) => {
                self.covers(covers::Event::Granted(call, kind, serial, term));
            }
            (Why::Cover(call), _) => self.covers(covers::Event::Refused(call)),
            (Why::Uncover(Evicted { holder, file, serial }), Answer::Done) => {
                self.table(Event::Returned(holder, covered(file), serial, Open::No));
            }
            (Why::Look(ticket), answer) => {
                if let Some(Doing { call: Call::Read(file, _), sent, granted }) =
                    self.live.doing.remove(&ticket)
                {
                    if answer == Answer::Done {
                        let granted = granted.map(|(lent, _)| (lent.kind, lent.lease, sent));
                        self.outs.push(Out::Read(file, granted));
                    } else {
                        self.void(file, granted);
                        self.outs.push(Out::Tell(Told::Again(file)));
                    }
                }
            }
            (Why::Hello | Why::Uncover(_), _) => {}
        }
    }

    fn covers(&mut self, event: covers::Event) {
        let mut effects = Vec::new();
        self.live.covers.step(self.now, event, &mut effects);
        for effect in effects {
            match effect {
                covers::Effect::Ask(call, file, kind, purpose, given) => {
                    let cover = Ask::Cover(file, kind, purpose, given);
                    self.call(self.home(file), cover, Why::Cover(call));
                }
                covers::Effect::Go(ticket) => self.goes(ticket, true),
                covers::Effect::Later(ticket) if self.live.evictions.contains_key(&ticket) => {
                    let asker =
                        self.live.evictions.remove(&ticket).expect("the eviction is in progress");
                    self.answer(asker, Answer::Later);
                }
                covers::Effect::Later(ticket) => self.goes(ticket, false),
                covers::Effect::Given(ticket) => {
                    let asker = self.live.evictions.remove(&ticket).expect("it asked");
                    self.answer(asker, Answer::Done);
                }
                covers::Effect::Vacate(file) => match self.live.lent.get_mut(&file) {
                    Some(lent) => {
                        lent.is_evicted = true;
                        let lease = lent.lease;
                        self.outs.push(Out::Tell(Told::Evict(file, lease)));
                    }
                    None => self.covers(covers::Event::Vacated(file)),
                },
                covers::Effect::Lost(file) => self.gave_back(file),
            }
        }
    }

    /// Handles the return of all leases of the client on a file.
    fn gave_back(&mut self, file: FileId) {
        if self.live.lent.remove(&file).is_some_and(|lent| lent.is_evicted) {
            self.covers(covers::Event::Vacated(file));
        }
    }

    /// Removes a grant whose call has failed.
    fn void(&mut self, file: FileId, granted: Option<(Lent, bool)>) {
        if let Some((lent, true)) = granted
            && self.live.lent.get(&file).is_some_and(|now| now.lease == lent.lease)
        {
            self.gave_back(file);
        }
    }

    /// Handles a call of the client, which the client sent at the time `sent`.
    pub(super) fn called(&mut self, now: Time, sent: Time, call: Call) {
        self.now = now;
        match call {
            Call::Return(file, lease) => {
                if self.live.lent.get(&file).is_some_and(|lent| lent.lease == lease) {
                    self.gave_back(file);
                }
            }
            Call::Read(file, _) | Call::Write(file, _, None)
                if !self.is_open() || self.is_recovering() =>
            {
                self.outs.push(Out::Tell(Told::Again(file)));
            }
            Call::Write(file, ..) if !self.is_open() => {
                self.outs.push(Out::Tell(Told::Again(file)));
            }
            Call::Read(file, asks) => {
                let granted = asks.and_then(|kind| self.grant(file, kind));
                let ticket = replica::Ticket(self.number());
                self.live.doing.insert(ticket, Doing { call, sent, granted });
                match granted {
                    Some((lent, _)) => self.need(ticket, file, lent.kind, Purpose::Lend),
                    None => self.goes(ticket, false),
                }
            }
            Call::Write(file, ..) => {
                let ticket = replica::Ticket(self.number());
                self.live.doing.insert(ticket, Doing { call, sent, granted: None });
                self.need(ticket, file, Kind::Write, Purpose::Use);
            }
        }
    }

    fn need(&mut self, ticket: replica::Ticket, object: FileId, kind: Kind, purpose: Purpose) {
        self.covers(covers::Event::Need(Need { ticket, object, kind, purpose }));
    }

    /// Prepares a lease for the client before the metaserver has the cover. Returns the lease, and
    /// true if it is new.
    fn grant(&mut self, file: FileId, kind: Kind) -> Option<(Lent, bool)> {
        let end = self.now + waited(TERM);
        let lease = Lease(self.number());
        let was = self.live.lent.get(&file).copied();
        if was.is_some_and(|lent| lent.is_evicted) {
            return None;
        }
        let is_evicted = false;
        let lent = match was {
            Some(was) => Lent { kind: was.kind.max(kind), end: was.end.max(end), ..was },
            None => Lent { kind, lease, end, is_evicted },
        };
        self.live.lent.insert(file, lent);
        Some((lent, was.is_none()))
    }

    /// Continues a call of the client. `has_cover` is true if the metaserver now has the cover that
    /// the call needs.
    fn goes(&mut self, ticket: replica::Ticket, has_cover: bool) {
        let Some(doing) = self.live.doing.get_mut(&ticket) else { return };
        match doing.call {
            Call::Read(file, _) => {
                if !has_cover {
                    let granted = doing.granted.take();
                    self.void(file, granted);
                }
                self.call(self.home(file), Ask::Look(file), Why::Look(ticket));
            }
            Call::Write(file, _, _) if !has_cover => {
                self.live.doing.remove(&ticket);
                self.outs.push(Out::Tell(Told::Again(file)));
            }
            Call::Write(file, value, by) => {
                self.live.doing.remove(&ticket);
                let holds = |lease| self.live.lent.get(&file).is_some_and(|it| it.lease == lease);
                // The lease of the written data has ended. The world must write the data only if
                // the file still has the value that the client had cached.
                let was = by.filter(|(lease, _)| !holds(*lease)).map(|(_, was)| was);
                self.outs.push(Out::Write(file, value, was, ticket));
            }
            Call::Return(..) => unreachable!("a returned lease does not wait"),
        }
    }

    /// Handles the end of a write to the data of a file.
    pub(super) fn wrote(&mut self, now: Time, file: FileId, ticket: replica::Ticket) {
        self.now = now;
        self.covers(covers::Event::Done(file, ticket));
    }
}

const fn wish(kind: Kind, term: Duration) -> table::Ask {
    table::Ask { kind, term, space: 0, opportune: false, reclaim: false, reports: false }
}
