//! The simulated server: the state machines, a store, and the state that survives a crash.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use leasehold_base::random::Random;
use leasehold_base::units::Time;
use leasehold_core::leases::clients::{self, Clients, Name, Refusal};
use leasehold_core::leases::table::{self, Access, Outcome, Run, Standing, Table};
use leasehold_core::leases::{Client, Kind, Modrev, Object, Serial, Terms, Ticket};

use crate::clock::Clock;
use crate::faults::{in_thousand, upto};

use super::message::{Answer, Body, Call, Change, Message};
use super::store::{self, CELLS, Content, DIRECTORY, Id, OBJECTS, Stored};
use super::{LeaseMutant, LeaseOptions};

/// The terms of leases. They are short, so that a world of a minute contains many terms.
/// [`super::world`] draws the drift of the clocks.
pub(super) const TERMS: Terms = Terms {
    default_term: Duration::from_secs(2),
    longest_term: Duration::from_secs(4),
    write_slack: Duration::from_millis(700),
    slack_max: Duration::from_secs(3),
    drift_ppm: 50_000,
    ..Terms::DEFAULT
};

const SHARDS: usize = 2;

/// The seed of the random numbers for failed writes of the stable list of clients. They are
/// separate, so that these failures do not change the rest of a world.
const LIST_SEED: u64 = 0x6c69_7374;

/// The seeds below this number have worlds in which every write of the stable list succeeds: most
/// of the seeds in `seeds.toml` come from such worlds.
const GOOD_LISTS: u64 = 100;

/// The seed of the random numbers for the delays of changes of names.
const NAMES_SEED: u64 = 0x6e61_6d65;

/// The host number of another server of the same files, which has no link to this server.
const ELSEWHERE: usize = usize::MAX;

/// The ids of changes by the other server are above this number, and all ids of clients' changes
/// are below it.
const ELSEWHERE_IDS: Id = 1 << 60;

/// The time after which the server asks a plain client to retry its call.
const PLAIN_WAIT_MAX: Duration = Duration::from_secs(1);

/// An action that the server executes later.
#[derive(Clone, Copy, Debug)]
pub(super) enum Chore {
    /// Executes the effect of a call.
    Execute(Ticket),
    /// Examines an object that a call has changed, and replies to the call.
    Settle(Ticket),
    /// Completes a write of the stable list of clients.
    Listed(Name, u64),
    /// Handles the timeout of a call without leases.
    GiveUp(Ticket),
}

/// An action that a step of the server requests, or an observation for the checks.
#[derive(Clone, Debug)]
pub(super) enum Out {
    Send(usize, Message),
    /// Executes an action after this time, unless the server restarts before.
    Chore(Duration, Chore),
    /// A call that the server admitted at the time `since` read this value.
    Saw {
        host: usize,
        object: usize,
        content: Content,
        since: Time,
    },
    /// The server granted a lease under which the client may cache.
    Granted {
        host: usize,
        object: usize,
        kind: Kind,
    },
    /// The server merged late data of a client with changes of other clients.
    Mixed {
        host: usize,
        object: usize,
    },
}

struct Pending {
    call: Call,
    /// The client that made the call, if the call uses leases.
    client: Option<Client>,
    /// The permission of the lease table to run the call, and the time at which the call began to
    /// run.
    run: Option<(Run, Time)>,
    /// The modrev of the object when the call began to run, and the lease under which the client
    /// cached the object at that time.
    begun: (Modrev, Option<Serial>),
}

impl Pending {
    const fn new(call: Call) -> Self {
        Self { call, client: None, run: None, begun: (Modrev(0), None) }
    }
}

pub(super) struct Server {
    pub(super) up: bool,
    /// The number of starts of the server, which is also its epoch.
    pub(super) boot: u64,
    clock: Clock,
    now: Time,
    /// The current true time; `now` is the time on the server's clock.
    true_now: Time,
    clients: Clients,
    tables: Vec<Table>,
    /// The host number of each client.
    hosts: BTreeMap<Client, usize>,
    calls: BTreeMap<Ticket, Pending>,
    running: BTreeSet<(usize, u64, u64)>,
    next_ticket: u64,
    /// The random numbers that decide which writes of the stable list fail.
    disk: Random,
    /// The share of writes of the stable list that fail, in thousandths.
    list_fails: u64,
    /// The random numbers that decide how long changes of names take, and which names the other
    /// server changes.
    names: Random,
    /// True if another server changes names as well, and if this server therefore examines a
    /// directory some time before and some time after it changes a name.
    pub(super) has_slow_names: bool,
    elsewhere_ids: Id,
    /// The chance that the server crashes at a crash point, in thousandths.
    crash_points: u64,
    crashes_now: bool,
    pub(super) objects: Vec<Stored>,
    list: BTreeMap<Name, u64>,
    /// The duplicate request cache: replies to calls that changed something. It survives a crash.
    kept: BTreeMap<(usize, u64, u64), Answer>,
    mutant: Option<LeaseMutant>,
    /// The maximum number of leases in a shard of the table.
    leases_max: usize,
    /// The maximum time that an operation takes.
    wait: Duration,
}

pub(super) fn name(host: usize) -> Name {
    Name([u8::try_from(host).expect("hosts are few"); 16])
}

impl Server {
    pub(super) fn new(
        random: &mut Random,
        LeaseOptions { seed, mutant, .. }: LeaseOptions,
    ) -> Self {
        let mut disk = Random::from_seed(seed ^ LIST_SEED);
        let list_fails =
            if seed >= GOOD_LISTS && disk.one_in(4) { 300 + disk.below(700) } else { 0 };
        let mut names = Random::from_seed(seed ^ NAMES_SEED);
        let has_slow_names = seed >= GOOD_LISTS && names.one_in(2);
        let mut objects = vec![Stored::default(); OBJECTS];
        objects.iter_mut().for_each(|object| object.modrev = Modrev(1));
        objects.iter_mut().for_each(Stored::commit);
        let clock = Clock::drifting(random, super::world::DRIFT_PPM_MAX);
        let mut server = Self {
            up: true,
            boot: 0,
            clock,
            now: Time::ZERO,
            true_now: Time::ZERO,
            clients: Clients::new(Time::ZERO, TERMS, 0, BTreeMap::new()),
            tables: Vec::new(),
            hosts: BTreeMap::new(),
            calls: BTreeMap::new(),
            running: BTreeSet::new(),
            next_ticket: 0,
            disk,
            list_fails,
            names,
            has_slow_names,
            elsewhere_ids: ELSEWHERE_IDS,
            crash_points: if random.one_in(2) { 0 } else { random.below(3) },
            crashes_now: false,
            objects,
            list: BTreeMap::new(),
            kept: BTreeMap::new(),
            mutant,
            leases_max: if random.one_in(4) { 1 } else { 100 },
            wait: Duration::from_millis(1 + random.below(60)),
        };
        server.start(Time::ZERO);
        server
    }

    pub(super) fn start(&mut self, now: Time) {
        self.up = true;
        self.boot += 1;
        self.tell(now);
        self.clients = Clients::new(self.now, TERMS, self.boot, self.list.clone());
        if self.mutant == Some(LeaseMutant::IgnoresEpochs) {
            self.clients.ignore_epochs();
        }
        let recovering = !self.list.is_empty();
        self.tables = vec![Table::new(TERMS, self.leases_max, self.boot, recovering); SHARDS];
        if let Some(mutant) = self.mutant.and_then(LeaseMutant::of_table) {
            self.tables.iter_mut().for_each(|table| table.plant(mutant));
        }
    }

    /// Drops all unstable data, and returns the lost changes. If only the process is killed, no
    /// data that the machine has is lost.
    pub(super) fn crash(&mut self, killed: bool) -> Vec<store::Id> {
        self.up = false;
        self.hosts.clear();
        self.calls.clear();
        self.running.clear();
        self.crashes_now = false;
        let objects = self.objects.iter_mut().filter(|_| !killed);
        objects.flat_map(Stored::crash).collect()
    }

    pub(super) const fn heal(&mut self) {
        self.crash_points = 0;
        self.list_fails = 0;
    }

    /// Returns true if a crash point has decided that the server must crash now, and clears the
    /// decision.
    pub(super) const fn take_crash(&mut self) -> bool {
        core::mem::replace(&mut self.crashes_now, false)
    }

    /// Returns the true time at which the next timer of the state machines expires.
    pub(super) fn next_wake(&self) -> Option<Time> {
        let tables = self.tables.iter().filter_map(Table::next_wake);
        let next = tables.chain(self.clients.next_wake()).min().filter(|_| self.up)?;
        Some(self.clock.moment(next))
    }

    pub(super) fn wake(&mut self, now: Time, random: &mut Random) -> Vec<Out> {
        self.tell(now);
        let mut outs = Vec::new();
        self.registry(clients::Event::Tick, random, &mut outs);
        for shard in 0..SHARDS {
            self.table(shard, table::Event::Tick, random, &mut outs);
        }
        outs
    }

    pub(super) fn receive(
        &mut self,
        now: Time,
        host: usize,
        message: Message,
        random: &mut Random,
    ) -> Vec<Out> {
        self.tell(now);
        let mut outs = Vec::new();
        match message {
            Message::Call(call) => self.call(call, random, &mut outs),
            Message::Received { instance, epoch, object, serial } => {
                if let Ok(client) = self.clients.admit(self.now, (name(host), instance), epoch) {
                    let event = table::Event::Received(client, object, serial);
                    self.table(shard(object), event, random, &mut outs);
                }
            }
            Message::Report { instance, epoch, object, serial, round, told } => {
                if let Ok(client) = self.clients.admit(self.now, (name(host), instance), epoch) {
                    let event = table::Event::Reported(client, object, serial, round, told);
                    self.table(shard(object), event, random, &mut outs);
                }
            }
            Message::Answer { .. } | Message::Evict { .. } | Message::Inquire { .. } => {}
        }
        outs
    }

    pub(super) fn chore(&mut self, now: Time, chore: Chore, random: &mut Random) -> Vec<Out> {
        self.tell(now);
        let mut outs = Vec::new();
        match chore {
            Chore::Execute(ticket) => self.execute(ticket, random, &mut outs),
            Chore::Settle(ticket) => self.settle(ticket, random, &mut outs),
            Chore::GiveUp(ticket) => {
                if let Some(Pending { call, run: None, .. }) = self.calls.get(&ticket)
                    && let Some(object) = call.body.object()
                {
                    let event = table::Event::GivenUp(object, ticket);
                    self.table(shard(object), event, random, &mut outs);
                    self.end(ticket, Answer::Later, &mut outs);
                }
            }
            Chore::Listed(name, instance) if in_thousand(&mut self.disk, self.list_fails) => {
                self.registry(clients::Event::NotListed(name, instance), random, &mut outs);
            }
            Chore::Listed(name, instance) => {
                self.list.insert(name, instance);
                self.point(random);
                self.registry(clients::Event::Listed(name, instance), random, &mut outs);
            }
        }
        outs
    }

    /// Lets another server of the same files change a name. The change waits until all leases on
    /// the directory are returned. Until the change is done, this server grants no lease on the
    /// directory.
    pub(super) fn change_elsewhere(&mut self, now: Time, random: &mut Random) -> Vec<Out> {
        self.tell(now);
        let (ticket, object) = (Ticket(self.next_ticket), store::object(DIRECTORY));
        self.next_ticket += 1;
        self.elsewhere_ids += 1;
        let id = self.elsewhere_ids;
        let cells = u64::try_from(CELLS).expect("cells are few");
        let cell = usize::try_from(self.names.below(cells)).expect("cells are few");
        let change = Change {
            cells: vec![(cell, id)],
            attributes: id,
            stable: true,
            ask: None,
            base: None,
            made_from: 0,
        };
        let (host, body) = (ELSEWHERE, Body::Change(object, change));
        let call = Call { host, leases: false, instance: 0, epoch: 0, xid: id, body };
        self.calls.insert(ticket, Pending::new(call));
        let mut outs = Vec::new();
        self.table(shard(object), table::Event::Vacate(object, ticket), random, &mut outs);
        outs
    }

    /// Draws the time until the other server changes the next name.
    pub(super) fn next_elsewhere(&mut self) -> Duration {
        upto(&mut self.names, Duration::from_secs(1))
    }

    fn tell(&mut self, now: Time) {
        (self.now, self.true_now) = (self.clock.local(now), now);
    }

    fn point(&mut self, random: &mut Random) {
        self.crashes_now |= in_thousand(random, self.crash_points);
    }

    fn call(&mut self, call: Call, random: &mut Random, outs: &mut Vec<Out>) {
        let key = (call.host, call.instance, call.xid);
        if let Some(answer) = self.kept.get(&key) {
            outs.push(answered(&call, answer.clone()));
            return;
        }
        if self.running.contains(&key) {
            return;
        }
        if let Body::Hello = call.body {
            let hello = clients::Event::Hello(name(call.host), call.instance);
            self.registry(hello, random, outs);
            outs.push(answered(&call, Answer::Welcome(self.boot)));
            return;
        }
        let client = match self.client(&call) {
            Ok(client) => client,
            Err(answer) => {
                outs.push(answered(&call, answer));
                return;
            }
        };
        match (client, &call.body) {
            (Some(client), Body::Return(object, serial, open)) => {
                let event = table::Event::Returned(client, *object, *serial, *open);
                self.table(shard(*object), event, random, outs);
                outs.push(answered(&call, Answer::Done));
            }
            (Some(client), Body::Reclaimed) => {
                self.registry(clients::Event::Reclaimed(client), random, outs);
                outs.push(answered(&call, Answer::Done));
            }
            (Some(client), Body::Recovered) => {
                self.registry(clients::Event::Recovered(client), random, outs);
                outs.push(answered(&call, Answer::Done));
            }
            (_, Body::Commit(object)) => {
                self.point(random);
                if self.mutant != Some(LeaseMutant::LiesAboutCommits) {
                    self.objects[store::index(*object)].commit();
                }
                outs.push(answered(&call, Answer::Committed { boot: self.boot }));
            }
            (client, _) => {
                let ticket = Ticket(self.next_ticket);
                self.next_ticket += 1;
                self.running.insert(key);
                let asks = call.body.asks();
                self.calls.insert(ticket, Pending::new(call));
                match client {
                    Some(client) if asks => {
                        self.registry(clients::Event::Asks(client, ticket), random, outs);
                    }
                    _ => self.begin(ticket, true, random, outs),
                }
            }
        }
    }

    /// Returns the client that made a call; for an invalid call, returns the reply as the error.
    fn client(&mut self, call: &Call) -> Result<Option<Client>, Answer> {
        if !call.leases {
            return Ok(None);
        }
        let admitted = self.clients.admit(self.now, (name(call.host), call.instance), call.epoch);
        let client = admitted.map_err(|refusal| match refusal {
            Refusal::Epoch(epoch) => Answer::Epoch(epoch),
            Refusal::Instance(_) | Refusal::Unknown => Answer::Unknown,
            Refusal::Later => Answer::Later,
        })?;
        self.hosts.insert(client, call.host);
        Ok(Some(client))
    }

    /// Passes a call to the lease table of its object. Drops the call's lease request if `may_ask`
    /// is false.
    fn begin(&mut self, ticket: Ticket, may_ask: bool, random: &mut Random, outs: &mut Vec<Out>) {
        let call = self.calls[&ticket].call.clone();
        if !call.leases {
            outs.push(Out::Chore(PLAIN_WAIT_MAX, Chore::GiveUp(ticket)));
        }
        let change = if let Body::Change(_, change) = &call.body { Some(change) } else { None };
        let under = change.and_then(|change| change.base).map(|(serial, _)| serial);
        let (object, access, ask) = match call.body {
            Body::Lease(object, access, ask) => (object, access, Some(ask)),
            Body::Read(object) => (object, Access::Read, None),
            Body::Look(object) => (object, Access::Look, None),
            Body::Change(object, ref change) => (object, Access::Write, change.ask),
            Body::Hello
            | Body::Return(..)
            | Body::Reclaimed
            | Body::Recovered
            | Body::Commit(_) => return,
        };
        let Ok(client) = self.client(&call) else {
            self.end(ticket, Answer::Unknown, outs);
            return;
        };
        let ask = ask.filter(|_| may_ask);
        self.calls.get_mut(&ticket).into_iter().for_each(|pending| pending.client = client);
        let event = table::Event::Call(table::Call { ticket, object, client, access, under, ask });
        self.table(shard(object), event, random, outs);
    }

    fn end(&mut self, ticket: Ticket, answer: Answer, outs: &mut Vec<Out>) {
        if let Some(Pending { call, .. }) = self.calls.remove(&ticket) {
            self.running.remove(&(call.host, call.instance, call.xid));
            if call.host != ELSEWHERE {
                outs.push(answered(&call, answer));
            }
        }
    }

    fn execute(&mut self, ticket: Ticket, random: &mut Random, outs: &mut Vec<Out>) {
        let Pending { call, run: Some((run, since)), .. } = &self.calls[&ticket] else {
            unreachable!("an executed call is in progress")
        };
        let (call, run, since) = (call.clone(), *run, *since);
        let mut outcome = Outcome::default();
        let (object, answer) = match call.body {
            Body::Lease(object, access, _) => {
                let read = access == Access::Read;
                let content = read.then(|| self.read((call.host, since), object, outs));
                let modrev = self.objects[store::index(object)].modrev;
                (object, Answer::Leased(run.grant, modrev, content))
            }
            Body::Read(object) => {
                (object, Answer::Content(self.read((call.host, since), object, outs)))
            }
            Body::Look(object) => {
                if run.told.is_none() {
                    self.read((call.host, since), object, outs);
                }
                (object, Answer::Attributes(run.told))
            }
            Body::Change(object, ref change) => {
                self.point(random);
                let answer = self.change(call.host, object, change, run.standing, outs);
                if self.has_slow_names && store::is_directory(store::index(object)) {
                    let time = upto(&mut self.names, self.wait);
                    outs.push(Out::Chore(time, Chore::Settle(ticket)));
                    return;
                }
                outcome.void = matches!(answer, Answer::Late);
                self.kept.insert((call.host, call.instance, call.xid), answer.clone());
                self.registry(clients::Event::Wrote, random, outs);
                (object, answer)
            }
            Body::Hello
            | Body::Return(..)
            | Body::Reclaimed
            | Body::Recovered
            | Body::Commit(_) => return,
        };
        self.end(ticket, answer, outs);
        self.table(shard(object), table::Event::Done(object, ticket, outcome), random, outs);
    }

    /// Replies to a call that has changed a name. Other callers may have changed the directory
    /// between the begin of the call and its change, or after its change. So the reply contains the
    /// modrevs only if the lease table confirms that the change was the client's own.
    fn settle(&mut self, ticket: Ticket, random: &mut Random, outs: &mut Vec<Out>) {
        let Pending { call, client, begun: (before, cached), .. } = &self.calls[&ticket];
        let Some(object) = call.body.object() else { return };
        let table = &self.tables[shard(object)];
        let is_own = client.is_some_and(|client| table.is_own_change(object, client, *cached));
        let after = self.objects[store::index(object)].modrev;
        let modrevs = is_own.then_some((*before, after));
        let (answer, key) =
            (Answer::Changed { modrevs, boot: self.boot }, (call.host, call.instance, call.xid));
        self.kept.insert(key, answer.clone());
        self.registry(clients::Event::Wrote, random, outs);
        self.end(ticket, answer, outs);
        let done = table::Event::Done(object, ticket, Outcome::default());
        self.table(shard(object), done, random, outs);
    }

    fn read(&self, (host, since): (usize, Time), object: Object, outs: &mut Vec<Out>) -> Content {
        let index = store::index(object);
        let content = self.objects[index].content;
        outs.push(Out::Saw { host, object: index, content, since });
        content
    }

    fn change(
        &mut self,
        host: usize,
        object: Object,
        change: &Change,
        standing: Standing,
        outs: &mut Vec<Out>,
    ) -> Answer {
        let index = store::index(object);
        let stored = &mut self.objects[index];
        let before = stored.modrev;
        if let (Some((_, base)), Standing::Free) = (change.base, standing)
            && !base.admits_late(before)
        {
            return Answer::Late;
        }
        if change.base.is_some() && stored.changed_by_others(change.made_from, host) {
            outs.push(Out::Mixed { host, object: index });
        }
        for (cell, id) in &change.cells {
            stored.content.cells[*cell] = *id;
        }
        stored.content.attributes = change.attributes;
        stored.modrev = Modrev((before.0 + 1).max(self.boot << 32));
        stored.changes.push((host, change.cells.iter().map(|(_, id)| *id).collect()));
        if change.stable {
            stored.commit();
        }
        Answer::Changed { modrevs: Some((before, stored.modrev)), boot: self.boot }
    }

    fn registry(&mut self, event: clients::Event, random: &mut Random, outs: &mut Vec<Out>) {
        let mut effects = Vec::new();
        self.clients.step(self.now, event, &mut effects);
        for effect in effects {
            match effect {
                clients::Effect::Welcome(..) | clients::Effect::Superseded(..) => {}
                clients::Effect::List(name, instance) => {
                    let chore = Chore::Listed(name, instance);
                    outs.push(Out::Chore(upto(random, self.wait), chore));
                }
                clients::Effect::Unlist(name) => drop(self.list.remove(&name).is_some()),
                clients::Effect::Proceed(ticket) => {
                    if self.calls.contains_key(&ticket) {
                        self.begin(ticket, true, random, outs);
                    }
                }
                clients::Effect::Decline(ticket) => {
                    if self.calls.contains_key(&ticket) {
                        self.begin(ticket, false, random, outs);
                    }
                }
                clients::Effect::Forget(client) => {
                    for shard in 0..SHARDS {
                        self.table(shard, table::Event::Forgotten(client), random, outs);
                    }
                }
                clients::Effect::Reclaimed => {
                    for shard in 0..SHARDS {
                        self.table(shard, table::Event::Reclaimed, random, outs);
                    }
                }
                clients::Effect::Open => {
                    for shard in 0..SHARDS {
                        self.table(shard, table::Event::Opened, random, outs);
                    }
                }
            }
        }
    }

    fn table(
        &mut self,
        shard: usize,
        event: table::Event,
        random: &mut Random,
        outs: &mut Vec<Out>,
    ) {
        let mut effects = Vec::new();
        self.tables[shard].step(self.now, event, &mut effects);
        for effect in effects {
            match effect {
                table::Effect::Run(run) => {
                    let pending = self.calls.get_mut(&run.ticket).expect("it waits");
                    pending.run = Some((run, self.true_now));
                    if let Some(object) = pending.call.body.object() {
                        let table = &self.tables[shard];
                        let cached = |client| table.cached_under(object, client);
                        let modrev = self.objects[store::index(object)].modrev;
                        pending.begun = (modrev, pending.client.and_then(cached));
                    }
                    if let (Some(grant), Body::Lease(object, ..)) = (run.grant, &pending.call.body)
                        && grant.cachable
                    {
                        let (host, object) = (pending.call.host, store::index(*object));
                        outs.push(Out::Granted { host, object, kind: grant.kind });
                    }
                    let time =
                        if random.one_in(2) { Duration::ZERO } else { upto(random, self.wait) };
                    outs.push(Out::Chore(time, Chore::Execute(run.ticket)));
                }
                table::Effect::Later(ticket) => self.end(ticket, Answer::Later, outs),
                table::Effect::Evict(client, object, serial) => {
                    self.point(random);
                    let message = Message::Evict { epoch: self.boot, object, serial };
                    self.send(client, message, outs);
                }
                table::Effect::Inquire(client, object, serial, round) => {
                    let message = Message::Inquire { epoch: self.boot, object, serial, round };
                    self.send(client, message, outs);
                }
            }
        }
    }

    fn send(&self, client: Client, message: Message, outs: &mut Vec<Out>) {
        let host = self.hosts.get(&client).copied();
        outs.extend(host.map(|host| Out::Send(host, message)));
    }
}

fn answered(call: &Call, answer: Answer) -> Out {
    let Call { host, instance, xid, .. } = *call;
    Out::Send(host, Message::Answer { instance, xid, answer })
}

fn shard(object: Object) -> usize {
    store::index(object) % SHARDS
}
