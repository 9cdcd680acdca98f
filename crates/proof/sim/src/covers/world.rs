//! A world: the metaservers, their clients, the iods, and the checks of the promises.

use core::time::Duration;
use std::collections::BTreeMap;

use leasehold_base::random::Random;
use leasehold_base::units::{FileId, Time};
use leasehold_core::leases::Kind;
use leasehold_core::replica;

use crate::clock::Clock;
use crate::digest::Digest;
use crate::faults::{about, in_thousand, upto};
use crate::queue::Queue;
use crate::{Broken, Report};

use super::CoverOptions;
use super::message::{Call, Lease, Message, Told};
use super::node::{DRIFT_PPM, Node, Out, TERM};

/// The duration of the faults, and the maximum time after them.
const FAULTS_TIME: Duration = Duration::from_secs(60);
const HEALING_MAX: Duration = Duration::from_secs(60);

/// The number of files: small, so that clients conflict.
const FILES: u64 = 3;

/// The minimum pause of a client.
const PAUSE: Duration = Duration::from_millis(20);

/// The faults of a world, and their frequencies; chances are in thousandths.
#[derive(Clone, Copy, Debug)]
struct Faults {
    loss: u64,
    double: u64,
    late: u64,
    delay: Duration,
    cuts: Option<Duration>,
    crashes: Option<Duration>,
    sleeps: Option<Duration>,
}

impl Faults {
    const NONE: Self = Self {
        loss: 0,
        double: 0,
        late: 0,
        delay: Duration::from_millis(5),
        cuts: None,
        crashes: None,
        sleeps: None,
    };

    fn draw(random: &mut Random) -> Self {
        let mut chance = |most: u64| if random.one_in(3) { 0 } else { random.below(most) };
        let (loss, double, late) = (chance(150), chance(150), chance(200));
        let mut mean = || {
            let millis = 2000 + random.below(15_000);
            (!random.one_in(3)).then_some(Duration::from_millis(millis))
        };
        let (cuts, crashes, sleeps) = (mean(), mean(), mean());
        let delay = Duration::from_millis(1 + random.below(60));
        Self { loss, double, late, delay, cuts, crashes, sleeps }
    }
}

/// The state of a file in a client's cache.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// The kind of access that the client may cache, the lease, and the end of the lease by the
    /// client's clock.
    lease: Option<(Kind, Lease, Time)>,
    cached: u64,
    /// A value that the client has written and has not written back, the lease of the write, and
    /// the value before the write.
    dirty: Option<(u64, Lease, u64)>,
    /// The value whose write-back to the iods is in progress.
    saving: Option<u64>,
    /// The lease that the client returns after the write-back.
    wanted: Option<Lease>,
    /// The last lease on the file that was recalled.
    evicted: Lease,
}

/// An action of a client.
#[derive(Clone, Copy, Debug)]
enum What {
    Read(FileId, Option<Kind>),
    Write(FileId, u64),
}

#[derive(Clone, Debug)]
struct Client {
    known: BTreeMap<FileId, Known>,
    /// The action in progress, and the time at which it began.
    doing: Option<(What, Time)>,
    /// The time until which the client sleeps: it sends nothing and receives nothing.
    sleeps: Time,
    /// The files that the client must still read after the faults.
    to_read: Vec<FileId>,
}

#[derive(Clone, Debug)]
enum Happening {
    Arrives(Message),
    /// A client's call arrives at the metaserver; the second field is the metaserver's epoch to
    /// which the connection belongs.
    Calls(usize, u64, Time, Call),
    Tells(usize, u64, Told),
    Wrote(usize, u64, FileId, replica::Ticket),
    Next(usize),
    Over(usize, FileId, Lease),
    Cut,
    Crash,
    Sleep,
    Start(usize),
    Heal,
    Finish,
}

/// The values that a file had, in the view of its clients.
struct Truth {
    /// Each value, with the time from which it was current.
    was: Vec<(Time, u64)>,
    /// The value that the iods store.
    data: u64,
    /// The index of the first valid entry of `was`. A client has lost the changes that it wrote
    /// under an earlier index, so only entries from this index on count as current.
    since: usize,
}

pub(super) struct World {
    now: Time,
    random: Random,
    faults: Faults,
    nodes: Vec<Node>,
    up: Vec<bool>,
    clocks: Vec<Clock>,
    clients: Vec<Client>,
    client_clocks: Vec<Clock>,
    cuts: Vec<Vec<Time>>,
    /// The arrival time of the last message between a metaserver and its client, in each direction.
    last: Vec<[Time; 2]>,
    queue: Queue<Happening>,
    files: BTreeMap<FileId, Truth>,
    next_value: u64,
    is_over: bool,
    broken: Vec<Broken>,
    digest: Digest,
    report: Report,
    is_traced: bool,
}

impl World {
    pub(super) fn new(options: CoverOptions) -> Self {
        let mut random = Random::from_seed(options.seed);
        let count = index(2 + random.below(2));
        let mut clock = || Clock::drifting(&mut random, u64::from(DRIFT_PPM) / 2);
        let clocks = (0..count).map(|_| clock()).collect();
        let client_clocks = (0..count).map(|_| clock()).collect();
        let faults = Faults::draw(&mut random);
        let client =
            Client { known: BTreeMap::new(), doing: None, sleeps: Time::ZERO, to_read: Vec::new() };
        let truth = |file| (FileId(file), Truth { was: vec![(Time::ZERO, 0)], data: 0, since: 0 });
        let mut world = Self {
            now: Time::ZERO,
            random,
            faults,
            nodes: (0..count).map(|me| Node::new(me, count, options.mutant)).collect(),
            up: vec![true; count],
            clocks,
            clients: vec![client; count],
            client_clocks,
            cuts: vec![vec![Time::ZERO; count]; count],
            last: vec![[Time::ZERO; 2]; count],
            queue: Queue::new(),
            files: (0..FILES).map(truth).collect(),
            next_value: 1,
            is_over: false,
            broken: Vec::new(),
            digest: Digest::new(),
            report: Report::default(),
            is_traced: options.trace,
        };
        world.tell(|| format!("{count} metaservers, {faults:?}"));
        for node in 0..count {
            world.start(node);
            world.queue.schedule(Time::ZERO, Happening::Next(node));
        }
        world.schedule(faults.cuts, Happening::Cut);
        world.schedule(faults.crashes, Happening::Crash);
        world.schedule(faults.sleeps, Happening::Sleep);
        world.queue.schedule(Time::ZERO + FAULTS_TIME, Happening::Heal);
        // At this time all leases that were delegated before the end of the faults have expired.
        let settled = FAULTS_TIME + HEALING_MAX / 2;
        world.queue.schedule(Time::ZERO + settled, Happening::Finish);
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
            for node in 0..self.nodes.len() {
                if self.wake_of(node).is_some_and(|time| time <= self.now) {
                    self.let_node(node, Node::wake);
                }
            }
            let is_done = self.is_over && self.clients.iter().all(|one| one.to_read.is_empty());
            if is_done || !self.broken.is_empty() {
                return self.report();
            }
        }
        let left: Vec<usize> = self.clients.iter().map(|one| one.to_read.len()).collect();
        self.broke("progress", || format!("the world does not end: {left:?}"));
        self.report()
    }

    fn report(mut self) -> (Report, Vec<Broken>) {
        self.report.digest = self.digest.value();
        self.broken.truncate(1);
        (self.report, self.broken)
    }

    fn broke(&mut self, promise: &'static str, how: impl FnOnce() -> String) {
        let how = format!("at {:?}: {}", self.now.since(Time::ZERO), how());
        self.broken.push(Broken { promise, how });
    }

    fn wake_of(&self, node: usize) -> Option<Time> {
        let wake = self.nodes[node].next_wake().filter(|_| self.up[node])?;
        Some(self.clocks[node].moment(wake))
    }

    fn next_time(&self) -> Option<Time> {
        let wakes = (0..self.nodes.len()).filter_map(|node| self.wake_of(node));
        wakes.chain(self.queue.next_time()).min()
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Arrives(message) => {
                let node = message.to;
                if self.up[node] {
                    self.let_node(node, |node, now| node.receive(now, message));
                }
            }
            Happening::Calls(node, epoch, sent, call) => {
                if self.is_connected(node, epoch) {
                    self.let_node(node, |node, now| node.called(now, sent, call));
                }
            }
            Happening::Tells(client, epoch, told) => {
                let wakes = self.clients[client].sleeps;
                if self.now < wakes {
                    self.queue.schedule(wakes, Happening::Tells(client, epoch, told));
                } else if self.is_connected(client, epoch) {
                    self.told(client, told);
                }
            }
            Happening::Wrote(node, epoch, file, ticket) => {
                if self.is_connected(node, epoch) {
                    self.let_node(node, |node, now| node.wrote(now, file, ticket));
                }
            }
            Happening::Next(client) => self.next(client),
            Happening::Over(client, file, lease) => self.over(client, file, lease),
            Happening::Cut => {
                let (one, other) = (self.any(), self.any());
                let until = self.now + upto(&mut self.random, Duration::from_secs(15));
                self.cuts[one][other] = until;
                if self.random.one_in(2) {
                    self.cuts[other][one] = until;
                }
                self.schedule(self.faults.cuts, Happening::Cut);
            }
            Happening::Crash => {
                let node = self.any();
                if self.up[node] {
                    self.up[node] = false;
                    self.report.crashes += 1;
                    let most = if self.random.one_in(2) { 12_000 } else { 300 };
                    let down = upto(&mut self.random, Duration::from_millis(most));
                    self.queue.schedule(self.now + down, Happening::Start(node));
                }
                self.schedule(self.faults.crashes, Happening::Crash);
            }
            Happening::Sleep => {
                let client = self.any();
                let span = upto(&mut self.random, Duration::from_secs(10));
                self.clients[client].sleeps = self.now + span;
                self.schedule(self.faults.sleeps, Happening::Sleep);
            }
            Happening::Start(node) => self.start(node),
            Happening::Heal => {
                self.faults = Faults::NONE;
                self.cuts.iter_mut().for_each(|cuts| cuts.fill(Time::ZERO));
            }
            Happening::Finish => {
                self.is_over = true;
                let all: Vec<FileId> = self.files.keys().copied().collect();
                self.clients.iter_mut().for_each(|client| client.to_read.clone_from(&all));
            }
        }
    }

    fn is_connected(&self, node: usize, epoch: u64) -> bool {
        self.up[node] && self.nodes[node].epoch == epoch
    }

    fn start(&mut self, node: usize) {
        self.up[node] = true;
        self.let_node(node, Node::start);
        // The client reconnects, and repeats each call that has no reply.
        for known in self.clients[node].known.values_mut() {
            known.saving = None;
        }
        self.clients[node].doing = None;
    }

    fn schedule(&mut self, mean: Option<Duration>, fault: Happening) {
        if let Some(mean) = mean {
            let at = self.now + about(&mut self.random, mean);
            if at < Time::ZERO + FAULTS_TIME {
                self.queue.schedule(at, fault);
            }
        }
    }

    fn any(&mut self) -> usize {
        let count = u64::try_from(self.nodes.len()).expect("metaservers are few");
        index(self.random.below(count))
    }

    fn let_node(&mut self, node: usize, act: impl FnOnce(&mut Node, Time)) {
        let local = self.clocks[node].local(self.now);
        act(&mut self.nodes[node], local);
        for out in core::mem::take(&mut self.nodes[node].outs) {
            self.come_out(node, out);
        }
    }

    fn come_out(&mut self, node: usize, out: Out) {
        match out {
            Out::Send(message) => self.send(message),
            Out::Tell(told) => self.word(node, told),
            Out::Read(file, granted) => {
                let data = self.files[&file].data;
                self.word(node, Told::Read(file, data, granted));
            }
            Out::Write(file, value, was, ticket) => {
                if was.is_some_and(|was| was != self.files[&file].data) {
                    self.word(node, Told::Late(file));
                } else {
                    self.writes(node, file, value);
                    self.word(node, Told::Written(file));
                }
                let time = upto(&mut self.random, Duration::from_millis(300));
                let epoch = self.nodes[node].epoch;
                self.queue.schedule(self.now + time, Happening::Wrote(node, epoch, file, ticket));
            }
        }
    }

    /// Writes data of a client to the iods, through the metaserver of the client.
    fn writes(&mut self, client: usize, file: FileId, value: u64) {
        self.alone(client, file, Kind::Read, "is written");
        let now = self.now;
        let truth = self.files.get_mut(&file).expect("the file exists");
        truth.data = value;
        // If the client wrote this value under a lease, the value is already in the list, possibly
        // with later values after it. Add the value only if it is missing: the client had lost the
        // value and writes it back nevertheless, or wrote it by a call.
        if truth.was[truth.since..].iter().all(|(_, was)| *was != value) {
            truth.was.push((now, value));
        }
    }

    /// Checks that no other client may cache a file in a manner that conflicts with this kind of
    /// access.
    fn alone(&mut self, client: usize, file: FileId, kind: Kind, how: &str) {
        for other in (0..self.clients.len()).filter(|other| *other != client) {
            let local = self.client_clocks[other].local(self.now);
            let known = self.clients[other].known.get(&file).copied().unwrap_or_default();
            if let Some((held, _, until)) = known.lease
                && held >= kind
                && local < until
            {
                self.broke("one-writer", || {
                    format!("{file:?} {how} by {client}, and {other} holds a lease: {held:?}")
                });
            }
        }
    }

    /// Sends a message to a client. Messages to one client arrive in order.
    fn word(&mut self, client: usize, told: Told) {
        let delay = upto(&mut self.random, self.faults.delay);
        let at = (self.now + delay).max(self.last[client][0]);
        self.last[client][0] = at;
        let epoch = self.nodes[client].epoch;
        self.queue.schedule(at, Happening::Tells(client, epoch, told));
    }

    /// Sends a call of a client to its metaserver. Calls of one client arrive in order.
    fn calls(&mut self, client: usize, call: Call) {
        let delay = upto(&mut self.random, self.faults.delay);
        let at = (self.now + delay).max(self.last[client][1]);
        self.last[client][1] = at;
        let (epoch, sent) = (self.nodes[client].epoch, self.client_clocks[client].local(self.now));
        if self.up[client] {
            self.queue.schedule(at, Happening::Calls(client, epoch, sent, call));
        }
    }

    fn send(&mut self, message: Message) {
        let (from, to) = (message.from, message.to);
        if from == to {
            self.queue.schedule(self.now, Happening::Arrives(message));
            return;
        }
        let Faults { loss, double, late, delay, .. } = self.faults;
        let copies = 1 + usize::from(in_thousand(&mut self.random, double));
        for _ in 0..copies {
            let is_lost = in_thousand(&mut self.random, loss) || self.cuts[from][to] > self.now;
            let is_late = in_thousand(&mut self.random, late);
            let most = if is_late { Duration::from_secs(2) } else { delay };
            let at = self.now + upto(&mut self.random, most);
            if !is_lost {
                self.queue.schedule(at, Happening::Arrives(message.clone()));
            }
        }
    }

    /// Lets a client begin its next action, or repeat its last action.
    fn next(&mut self, client: usize) {
        let pause = if self.random.one_in(6) { 2500 } else { 200 };
        let at = self.now + upto(&mut self.random, Duration::from_millis(pause)) + PAUSE;
        self.queue.schedule(at, Happening::Next(client));
        if self.now < self.clients[client].sleeps {
            return;
        }
        let files: Vec<FileId> = self.clients[client].known.keys().copied().collect();
        files.into_iter().for_each(|file| self.bring_back(client, file));
        if self.clients[client].doing.is_some() || !self.up[client] {
            return;
        }
        let file = FileId(self.random.below(FILES));
        let last = self.clients[client].to_read.last().copied();
        let what = match last {
            Some(file) => What::Read(file, None),
            None if self.is_over => return,
            None => match self.random.below(8) {
                0 | 1 => What::Read(file, None),
                2..4 => What::Read(file, Some(Kind::Read)),
                4..6 => What::Read(file, Some(Kind::Write)),
                _ => {
                    self.next_value += 1;
                    What::Write(file, self.next_value)
                }
            },
        };
        self.report.operations += 1;
        self.tell(|| format!("{client}: {what:?}"));
        self.does(client, what);
    }

    fn does(&mut self, client: usize, what: What) {
        let local = self.client_clocks[client].local(self.now);
        let (What::Read(file, _) | What::Write(file, _)) = what;
        let known = *self.clients[client].known.entry(file).or_default();
        let lease = known.lease.filter(|(_, _, until)| local < *until);
        match (what, lease) {
            (What::Read(..), Some(_)) => {
                self.alone(client, file, Kind::Write, "is read");
                self.saw(client, file, known.cached, self.now);
            }
            (What::Write(_, value), Some((Kind::Write, lease, _))) => {
                self.alone(client, file, Kind::Read, "is written");
                let was = known.dirty.map_or(known.cached, |(_, _, was)| was);
                let now = self.now;
                let known =
                    self.clients[client].known.get_mut(&file).expect("the client knows the file");
                known.cached = value;
                known.dirty = Some((value, lease, was));
                let truth = self.files.get_mut(&file).expect("the file exists");
                truth.was.push((now, value));
            }
            // The client first writes its changes back, so it begins no other action now.
            _ if known.dirty.is_some() || known.wanted.is_some() => {}
            (What::Read(file, asks), None) => {
                self.clients[client].doing = Some((what, self.now));
                self.calls(client, Call::Read(file, asks));
            }
            (What::Write(file, value), _) => {
                // The client changes the file by a call to the server, so it must not use its
                // cached copy any more.
                self.clients[client].known.entry(file).or_default().lease = None;
                self.clients[client].doing = Some((what, self.now));
                self.calls(client, Call::Write(file, value, None));
            }
        }
    }

    /// Writes a client's changes of a file back to the iods. Then returns the recalled lease.
    fn bring_back(&mut self, client: usize, file: FileId) {
        let local = self.client_clocks[client].local(self.now);
        let is_idle = !self.random.one_in(4);
        let known = self.clients[client].known.get_mut(&file).expect("the client knows the file");
        let is_held = known.lease.is_some_and(|(_, _, until)| local < until);
        let is_due = known.wanted.is_some() || !is_held || !is_idle;
        match (known.dirty, known.wanted) {
            (Some((value, lease, was)), _) if is_due && known.saving.is_none() => {
                known.saving = Some(value);
                self.calls(client, Call::Write(file, value, Some((lease, was))));
            }
            (None, Some(lease)) => {
                known.wanted = None;
                self.calls(client, Call::Return(file, lease));
            }
            _ => {}
        }
    }

    /// Checks that a value that a client saw was current at some time from `since` on.
    fn saw(&mut self, client: usize, file: FileId, value: u64, since: Time) {
        let was = &self.files[&file].was;
        let ends =
            was.iter().skip(1).map(|(time, _)| *time).chain([Time::from_nanoseconds(u64::MAX)]);
        let was_so = was.iter().zip(ends).any(|((_, was), end)| *was == value && end >= since);
        if !was_so {
            let last = was.iter().rev().take(4).collect::<Vec<_>>();
            let how = format!("{client} saw {value} of {file:?} since {since:?}: it was {last:?}");
            self.broke("stale-read", || how);
        }
    }

    fn told(&mut self, client: usize, told: Told) {
        let local = self.client_clocks[client].local(self.now);
        match told {
            Told::Read(file, value, granted) => {
                let Some((What::Read(read, _), since)) = self.clients[client].doing else { return };
                if read != file {
                    return;
                }
                self.clients[client].doing = None;
                self.clients[client].to_read.retain(|left| *left != file);
                self.saw(client, file, value, since);
                let known =
                    self.clients[client].known.get_mut(&file).expect("the client knows the file");
                if let Some((kind, lease, sent)) = granted
                    && lease > known.evicted
                    && local < sent + TERM
                {
                    known.lease = Some((kind, lease, sent + TERM));
                    known.cached = value;
                    let over = self.client_clocks[client].moment(sent + TERM);
                    self.queue.schedule(over, Happening::Over(client, file, lease));
                }
            }
            Told::Written(file) | Told::Late(file) => {
                let is_plain = matches!(
                    self.clients[client].doing,
                    Some((What::Write(written, _), _)) if written == file
                );
                let known =
                    self.clients[client].known.get_mut(&file).expect("the client knows the file");
                if let Some(saved) = known.saving.take() {
                    let is_late = matches!(told, Told::Late(_));
                    // The client may have written another value while the write-back was in
                    // progress: that value remains to be written back.
                    let more = known.dirty.filter(|(value, ..)| *value != saved && !is_late);
                    known.dirty = more.map(|(value, lease, _)| (value, lease, saved));
                    if is_late {
                        known.lease = None;
                        self.loses(file);
                    }
                    self.bring_back(client, file);
                } else if is_plain {
                    self.clients[client].doing = None;
                }
            }
            Told::Again(file) => {
                let known =
                    self.clients[client].known.get_mut(&file).expect("the client knows the file");
                if known.saving.take().is_none() {
                    self.clients[client].doing = None;
                }
            }
            Told::Evict(file, lease) => {
                let known = self.clients[client].known.entry(file).or_default();
                known.evicted = known.evicted.max(lease);
                known.wanted = Some(lease);
                if known.lease.is_some_and(|(_, held, _)| held == lease) {
                    known.lease = None;
                }
                self.bring_back(client, file);
            }
        }
    }

    /// Handles the end of a lease by the clock of its client. Data that the client has not written
    /// back is lost, and no longer current.
    fn over(&mut self, client: usize, file: FileId, lease: Lease) {
        let local = self.client_clocks[client].local(self.now);
        let known = self.clients[client].known[&file];
        let is_held = known.lease.is_some_and(|(_, now, until)| now == lease && local < until);
        if is_held || known.dirty.is_none_or(|(_, by, _)| by != lease) {
            return;
        }
        self.loses(file);
    }

    /// Data that a client has written is lost, and the client knows this, so the data is no longer
    /// current.
    fn loses(&mut self, file: FileId) {
        let now = self.now;
        let truth = self.files.get_mut(&file).expect("the file exists");
        truth.since = truth.was.len();
        truth.was.push((now, truth.data));
    }

    fn tell(&mut self, line: impl FnOnce() -> String) {
        let line = format!("{:?} {}", self.now.since(Time::ZERO), line());
        self.digest.note(line.as_bytes());
        if self.is_traced {
            self.report.trace.push(line);
        }
    }
}

/// Converts a small number to an index.
fn index(number: u64) -> usize {
    usize::try_from(number).expect("the number is small")
}
