//! A world of leases: its hosts, its links, its events, and the checks of the promises.

use core::time::Duration;

use leasehold_base::random::Random;
use leasehold_base::units::Time;
use leasehold_core::leases::Kind;

use crate::digest::Digest;
use crate::faults::{about, in_thousand, upto};
use crate::queue::Queue;
use crate::{Broken, Report};

use super::LeaseOptions;
use super::client::{self, Client};
use super::message::Message;
use super::server::{self, Server};
use super::store::{CELLS, Content, Id, OBJECTS, is_directory};
use super::truth::Truth;

/// The maximum drift of a clock. Two clocks that drift in opposite directions reach the limit of
/// the terms.
pub(super) const DRIFT_PPM_MAX: u64 = 24_000;

/// The duration of the faults, and the maximum time after them.
const FAULTS_TIME: Duration = Duration::from_secs(20);
const HEALING_MAX: Duration = Duration::from_secs(60);

/// The faults of a world, and their frequencies; chances are in thousandths.
#[derive(Clone, Copy, Debug)]
struct Faults {
    loss: u64,
    double: u64,
    late: u64,
    delay: Duration,
    delay_late: Duration,
    cuts: Option<Duration>,
    pauses: Option<Duration>,
    crashes: Option<Duration>,
    client_crashes: Option<Duration>,
}

impl Faults {
    const NONE: Self = Self {
        loss: 0,
        double: 0,
        late: 0,
        delay: Duration::from_millis(5),
        delay_late: Duration::from_millis(6),
        cuts: None,
        pauses: None,
        crashes: None,
        client_crashes: None,
    };

    fn draw(random: &mut Random) -> Self {
        let mut chance = |most: u64| if random.one_in(3) { 0 } else { random.below(most) };
        let (loss, double, late) = (chance(150), chance(150), chance(100));
        let mut mean = || {
            let millis = 2000 + random.below(15_000);
            (!random.one_in(3)).then_some(Duration::from_millis(millis))
        };
        let (cuts, pauses, crashes, client_crashes) = (mean(), mean(), mean(), mean());
        Self {
            loss,
            double,
            late,
            delay: Duration::from_millis(1 + random.below(20)),
            delay_late: Duration::from_millis(1 + random.below(5000)),
            cuts,
            pauses,
            crashes,
            client_crashes,
        }
    }
}

#[derive(Clone, Debug)]
enum Happening {
    ToServer(usize, Message),
    ToClient(usize, Message),
    Chore(u64, server::Chore),
    Withdrawn { host: usize, life: u64, object: usize },
    Cut,
    Pause,
    Crash,
    Restart,
    ClientCrash,
    ClientRestart(usize),
    Elsewhere,
    Heal,
}

/// A link between a client and the server, with the end of its cut in each direction.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    up: Time,
    down: Time,
}

pub(super) struct World {
    now: Time,
    random: Random,
    faults: Faults,
    server: Server,
    server_paused_until: Time,
    clients: Vec<Client>,
    /// The number of starts of each client.
    lives: Vec<u64>,
    links: Vec<Link>,
    queue: Queue<Happening>,
    truth: Truth,
    digest: Digest,
    crashes: usize,
    kills: usize,
    trace: Option<Vec<String>>,
}

impl World {
    pub(super) fn new(options: LeaseOptions) -> Self {
        let mut random = Random::from_seed(options.seed);
        let count = 2 + usize::from(random.one_in(2));
        let plain = random.one_in(3);
        let server = Server::new(&mut random, options);
        let clients: Vec<Client> = (0..count + usize::from(plain))
            .map(|host| Client::new(host, host == count, &mut random, options.mutant))
            .collect();
        let faults = Faults::draw(&mut random);
        let mut world = Self {
            now: Time::ZERO,
            random,
            faults,
            server,
            server_paused_until: Time::ZERO,
            lives: vec![0; clients.len()],
            links: vec![Link::default(); clients.len()],
            clients,
            queue: Queue::new(),
            truth: Truth::default(),
            digest: Digest::new(),
            crashes: 0,
            kills: 0,
            trace: options.trace.then(Vec::new),
        };
        world.tell(|| format!("{faults:?}"));
        world.schedule(faults.cuts, Happening::Cut);
        world.schedule(faults.pauses, Happening::Pause);
        world.schedule(faults.crashes, Happening::Crash);
        world.schedule(faults.client_crashes, Happening::ClientCrash);
        world.queue.schedule(Time::ZERO + FAULTS_TIME, Happening::Heal);
        world.schedule_elsewhere();
        world
    }

    pub(super) fn run(mut self) -> (Report, Vec<Broken>) {
        let last = Time::ZERO + FAULTS_TIME + HEALING_MAX;
        while let Some(time) = self.next_time().filter(|time| *time <= last) {
            self.now = self.now.max(time);
            while self.queue.next_time().is_some_and(|time| time <= self.now)
                && let Some(happening) = self.queue.pop()
            {
                self.tell(|| format!("{happening:?}"));
                self.happen(happening);
            }
            if self.server_is_awake() && self.server.next_wake() <= Some(self.now) {
                let outs = self.server.wake(self.now, &mut self.random);
                self.serve(outs);
            }
            for host in 0..self.clients.len() {
                if self.clients[host].next_wake().is_some_and(|time| time <= self.now) {
                    self.let_client(host, Client::wake);
                }
            }
            if !self.truth.broken.is_empty() {
                break;
            }
            if self.clients.iter().all(Client::has_ended) {
                return self.report();
            }
        }
        let unfinished = self.clients.iter().filter(|client| !client.has_ended());
        let unfinished: Vec<String> = unfinished.map(Client::unfinished).collect();
        self.truth.broke("progress", || format!("the world does not end: {unfinished:?}"));
        self.report()
    }

    fn report(self) -> (Report, Vec<Broken>) {
        let report = Report {
            digest: self.digest.value(),
            operations: self.clients.iter().map(|client| client.operations).sum(),
            crashes: self.crashes,
            kills: self.kills,
            backups: 0,
            replaced: 0,
            trace: self.trace.unwrap_or_default(),
        };
        let mut broken = self.truth.broken;
        broken.truncate(1);
        (report, broken)
    }

    fn server_is_awake(&self) -> bool {
        self.server.up && self.server_paused_until <= self.now
    }

    fn next_time(&self) -> Option<Time> {
        let server = self.server.next_wake().map(|time| time.max(self.server_paused_until));
        let clients = self.clients.iter().filter_map(Client::next_wake);
        clients.chain(server).chain(self.queue.next_time()).min()
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::ToServer(host, message) => {
                if self.server.up && self.server_paused_until > self.now {
                    // The host is paused, so the message waits in its buffer until the host
                    // continues.
                    let at = self.server_paused_until;
                    self.queue.schedule(at, Happening::ToServer(host, message));
                } else if self.server.up {
                    let outs = self.server.receive(self.now, host, message, &mut self.random);
                    self.serve(outs);
                }
            }
            Happening::Chore(boot, chore) if boot == self.server.boot && self.server.up => {
                if self.server_paused_until > self.now {
                    self.queue.schedule(self.server_paused_until, Happening::Chore(boot, chore));
                } else {
                    let outs = self.server.chore(self.now, chore, &mut self.random);
                    self.serve(outs);
                }
            }
            Happening::Chore(..) => {}
            Happening::ToClient(host, message) => {
                let paused_until = self.clients[host].paused_until;
                if paused_until > self.now {
                    self.queue.schedule(paused_until, Happening::ToClient(host, message));
                } else if self.clients[host].up {
                    self.let_client(host, |client, now| client.receive(now, message));
                }
            }
            Happening::Withdrawn { host, life, object } => {
                let paused_until = self.clients[host].paused_until;
                if paused_until > self.now {
                    let later = Happening::Withdrawn { host, life, object };
                    self.queue.schedule(paused_until, later);
                } else if self.lives[host] == life && self.clients[host].up {
                    self.let_client(host, |client, now| client.withdrawn(now, object));
                }
            }
            Happening::Cut
            | Happening::Pause
            | Happening::Crash
            | Happening::Restart
            | Happening::ClientCrash
            | Happening::ClientRestart(_)
            | Happening::Elsewhere
            | Happening::Heal => self.fault(&happening),
        }
    }

    fn fault(&mut self, happening: &Happening) {
        match happening {
            Happening::Cut => {
                let host = self.any_client();
                let until = self.now + upto(&mut self.random, Duration::from_secs(8));
                let which = self.random.below(3);
                if which != 0 {
                    self.links[host].up = until;
                }
                if which != 1 {
                    self.links[host].down = until;
                }
                self.schedule(self.faults.cuts, Happening::Cut);
            }
            Happening::Pause => {
                let until = self.now + upto(&mut self.random, Duration::from_secs(8));
                if self.random.one_in(4) {
                    self.server_paused_until = until;
                } else {
                    let host = self.any_client();
                    self.clients[host].paused_until = until;
                }
                self.schedule(self.faults.pauses, Happening::Pause);
            }
            Happening::Crash => {
                self.crash();
                self.schedule(self.faults.crashes, Happening::Crash);
            }
            Happening::Restart => self.server.start(self.now),
            Happening::ClientCrash => {
                let host = self.any_client();
                if self.clients[host].up {
                    self.clients[host].up = false;
                    self.lives[host] += 1;
                    let down = upto(&mut self.random, Duration::from_secs(4));
                    self.queue.schedule(self.now + down, Happening::ClientRestart(host));
                }
                self.schedule(self.faults.client_crashes, Happening::ClientCrash);
            }
            &Happening::ClientRestart(host) => {
                let now = self.now;
                self.clients[host].start(now);
                if now >= Time::ZERO + FAULTS_TIME {
                    self.clients[host].end();
                }
            }
            Happening::Elsewhere => {
                if self.server_is_awake() {
                    let outs = self.server.change_elsewhere(self.now, &mut self.random);
                    self.serve(outs);
                }
                self.schedule_elsewhere();
            }
            Happening::Heal => {
                self.faults = Faults::NONE;
                self.links.fill(Link::default());
                self.server.heal();
                self.clients.iter_mut().for_each(Client::end);
            }
            Happening::ToServer(..)
            | Happening::ToClient(..)
            | Happening::Chore(..)
            | Happening::Withdrawn { .. } => {}
        }
    }

    fn schedule(&mut self, mean: Option<Duration>, fault: Happening) {
        if let Some(mean) = mean {
            let at = self.now + about(&mut self.random, mean);
            if at < Time::ZERO + FAULTS_TIME {
                self.queue.schedule(at, fault);
            }
        }
    }

    /// Schedules the next change of a name by the other server, in worlds that have another server.
    fn schedule_elsewhere(&mut self) {
        if self.server.has_slow_names {
            let at = self.now + self.server.next_elsewhere();
            if at < Time::ZERO + FAULTS_TIME {
                self.queue.schedule(at, Happening::Elsewhere);
            }
        }
    }

    fn any_client(&mut self) -> usize {
        let count = u64::try_from(self.clients.len()).expect("clients are few");
        usize::try_from(self.random.below(count)).expect("clients are few")
    }

    /// Crashes the server: either its machine, or only its process.
    fn crash(&mut self) {
        if !self.server.up {
            return;
        }
        let killed = self.random.one_in(3);
        *(if killed { &mut self.kills } else { &mut self.crashes }) += 1;
        let lost = self.server.crash(killed);
        let committed = lost.iter().find(|id| self.truth.committed.contains(id)).copied();
        if let Some(id) = committed {
            self.truth.broke("committed", || format!("change {id:#x} was lost in a crash"));
        }
        self.truth.lost.extend(lost);
        let down = upto(&mut self.random, Duration::from_secs(6));
        self.queue.schedule(self.now + down, Happening::Restart);
    }

    fn serve(&mut self, outs: Vec<server::Out>) {
        for out in outs {
            match out {
                server::Out::Send(host, message) => {
                    let cut = self.links[host].down;
                    for at in self.arrivals(cut) {
                        let message = message.clone();
                        self.queue.schedule(at, Happening::ToClient(host, message));
                    }
                }
                server::Out::Chore(time, chore) => {
                    let boot = self.server.boot;
                    self.queue.schedule(self.now + time, Happening::Chore(boot, chore));
                }
                server::Out::Saw { host, object, content, since } => {
                    self.server_showed(host, object, content, since);
                }
                server::Out::Granted { host, object, kind } => self.granted(host, object, kind),
                server::Out::Mixed { host, object } => {
                    self.truth.broke("late-data", || {
                        format!("the late data of {host} for {object} was merged with other clients' changes")
                    });
                }
            }
        }
        for (index, object) in self.server.objects.iter().enumerate() {
            let count = object.changes.len();
            self.clients.iter_mut().for_each(|client| client.changes[index] = count);
        }
        if self.server.take_crash() {
            self.crash();
        }
    }

    fn let_client(&mut self, host: usize, act: impl FnOnce(&mut Client, Time) -> Vec<client::Out>) {
        let outs = act(&mut self.clients[host], self.now);
        for out in outs {
            match out {
                client::Out::Send(message) => {
                    let cut = self.links[host].up;
                    for at in self.arrivals(cut) {
                        let message = message.clone();
                        self.queue.schedule(at, Happening::ToServer(host, message));
                    }
                }
                client::Out::Withdraw(object) => {
                    let time = upto(&mut self.random, Duration::from_millis(60));
                    let life = self.lives[host];
                    let withdrawn = Happening::Withdrawn { host, life, object };
                    self.queue.schedule(self.now + time, withdrawn);
                }
                client::Out::SawCell { object, cell, id } => self.saw_cell(host, object, cell, id),
                client::Out::SawAttributes { object, id } => self.saw_attributes(host, object, id),
                client::Out::WasTold { begun, told } => {
                    if told.modified < i128::from(begun.as_nanoseconds()) {
                        self.truth.broke("fresh-attributes", || {
                            format!("{host} received a value from before its request")
                        });
                    }
                }
                client::Out::Committed(ids) => self.truth.committed.extend(ids),
            }
        }
        self.check_writers();
    }

    /// Returns the arrival times of the copies of a message: no copy, one or two. `cut` is the end
    /// of the link's cut.
    fn arrivals(&mut self, cut: Time) -> Vec<Time> {
        let Faults { loss, double, late, delay, delay_late, .. } = self.faults;
        let copies = 1 + usize::from(in_thousand(&mut self.random, double));
        let mut arrivals = Vec::new();
        for _ in 0..copies {
            let lost = in_thousand(&mut self.random, loss) || cut > self.now;
            let is_late = in_thousand(&mut self.random, late);
            let most = if is_late { delay_late } else { delay };
            let time = upto(&mut self.random, most);
            if !lost {
                arrivals.push(self.now + time);
            }
        }
        arrivals
    }

    /// Checks that the holder of a write lease is the only lease holder of the object.
    fn check_writers(&mut self) {
        for object in 0..OBJECTS {
            let held = self.clients.iter().filter_map(|client| client.held(self.now, object));
            let held: Vec<Kind> =
                held.filter(|(_, _, cachable)| *cachable).map(|(kind, ..)| kind).collect();
            if held.len() > 1 && held.contains(&Kind::Write) {
                self.truth.broke("one-writer", || format!("object {object} is held as {held:?}"));
            }
        }
    }

    /// Checks that no other client holds a lease that conflicts with a new grant.
    fn granted(&mut self, host: usize, object: usize, kind: Kind) {
        for other in 0..self.clients.len() {
            let held = self.clients[other].held(self.now, object).filter(|_| other != host);
            let Some((other_kind, _, true)) = held else { continue };
            if kind == Kind::Write || other_kind == Kind::Write {
                let old = self.clients[other].epoch() < self.server.boot;
                let promise = if old { "recovery" } else { "one-writer" };
                self.truth.broke(promise, || {
                    format!("{kind:?} on {object} for {host}; {other} has {other_kind:?}")
                });
            }
        }
    }

    /// Checks that the result of a call is the true value. Changes after the server admitted the
    /// call may be missing from the result.
    fn server_showed(&mut self, host: usize, object: usize, content: Content, since: Time) {
        let who = || format!("the server, asked by {host} of {object},");
        for changed in self.held_by_others(host, object).collect::<Vec<_>>() {
            for cell in 0..CELLS {
                if let Some((id, _)) = changed.cells[cell].filter(|(_, at)| *at < since) {
                    self.truth.saw("fresh-data", &content.cells[cell], &id, who);
                }
            }
            let (id, at) = changed.attributes;
            if at < since {
                self.truth.saw("fresh-attributes", &content.attributes, &id, who);
            }
        }
    }

    fn saw_cell(&mut self, host: usize, object: usize, cell: usize, id: Id) {
        let held = self.held_by_others(host, object);
        let dirty = held.filter_map(|changed| changed.cells[cell]).map(|(id, _)| id).next();
        let is = dirty.unwrap_or(self.server.objects[object].content.cells[cell]);
        let promise = if is_directory(object) { "fresh-names" } else { "fresh-data" };
        self.saw(promise, host, object, (id, is));
    }

    fn held_by_others(
        &self,
        host: usize,
        object: usize,
    ) -> impl Iterator<Item = client::Changed> + '_ {
        let others = self.clients.iter().filter(move |client| client.host != host);
        others.filter_map(move |client| client.holds(self.now, object))
    }

    fn saw_attributes(&mut self, host: usize, object: usize, id: Id) {
        let held = self.held_by_others(host, object);
        let dirty = held.map(|changed| changed.attributes.0).next();
        let is = dirty.unwrap_or(self.server.objects[object].content.attributes);
        self.saw("fresh-attributes", host, object, (id, is));
    }

    /// Checks that a value in a client's cache is the true value. A value that a crash undid
    /// without the client's knowledge is permitted, because no server without stable writes can
    /// prevent this.
    fn saw(&mut self, promise: &'static str, host: usize, object: usize, (id, is): (Id, Id)) {
        let unknowing = self.clients[host].epoch() < self.server.boot || !self.server.up;
        if !(unknowing && self.truth.lost.contains(&id)) {
            self.truth.saw(promise, &id, &is, || format!("{host}, in its cache of {object},"));
        }
    }

    fn tell(&mut self, line: impl FnOnce() -> String) {
        let line = format!("{:?} {}", self.now.since(Time::ZERO), line());
        self.digest.note(line.as_bytes());
        if let Some(trace) = &mut self.trace {
            trace.push(line);
        }
    }
}
