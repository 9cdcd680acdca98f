//! A world of metaservers: the metaservers, the links, the events, and the checks of the promises.

use core::time::Duration;

use leasehold_base::random::Random;
use leasehold_base::units::{FileId, Time};
use leasehold_core::replica::search::Order;
use leasehold_core::replica::{Peer, Place};

use crate::clock::Clock;
use crate::digest::Digest;
use crate::faults::{about, in_thousand, upto};
use crate::queue::Queue;
use crate::{Broken, Report};

use super::leasing::Turns;
use super::message::{Message, Metafile};
use super::node::{Chore, Disk, Node, Out};
use super::operation::{Operation, Outcome, What};
use super::truth::{DRIFT_PPM_MAX, SETTLE, Truth};
use super::{ReplicaMutant, ReplicaOptions};

/// The duration of the faults, and the maximum time after them.
const FAULTS_TIME: Duration = Duration::from_secs(40);
const HEALING_MAX: Duration = Duration::from_secs(240);

/// The maximum number of a client's retries after the faults have ended.
const TRIES_MAX: usize = 60;

/// The faults of a world, and their frequencies; chances are in thousandths.
#[derive(Clone, Copy, Debug)]
struct Faults {
    loss: u64,
    double: u64,
    late: u64,
    delay: Duration,
    delay_late: Duration,
    cuts: Option<Duration>,
    crashes: Option<Duration>,
    backups: bool,
}

impl Faults {
    const NONE: Self = Self {
        loss: 0,
        double: 0,
        late: 0,
        delay: Duration::from_millis(5),
        delay_late: Duration::from_millis(6),
        cuts: None,
        crashes: None,
        backups: false,
    };

    fn draw(random: &mut Random) -> Self {
        let mut chance = |most: u64| if random.one_in(3) { 0 } else { random.below(most) };
        let (loss, double, late) = (chance(150), chance(150), chance(150));
        let mut mean = || {
            let millis = 2000 + random.below(15_000);
            (!random.one_in(3)).then_some(Duration::from_millis(millis))
        };
        let (cuts, crashes) = (mean(), mean());
        let slow = random.one_in(3);
        Self {
            loss,
            double,
            late,
            delay: Duration::from_millis(1 + random.below(if slow { 390 } else { 30 })),
            delay_late: Duration::from_millis(1 + random.below(4000)),
            cuts,
            crashes,
            backups: random.one_in(4),
        }
    }
}

#[derive(Clone, Debug)]
enum Happening {
    Arrives(Message),
    Chore { node: usize, epoch: u64, chore: Chore, turns: Turns },
    Next { node: usize, epoch: u64 },
    Cut,
    Crash,
    Start(usize),
    Backup,
    Heal,
    Quiet,
    Finish,
}

pub(super) struct World {
    now: Time,
    random: Random,
    faults: Faults,
    nodes: Vec<Node>,
    clocks: Vec<Clock>,
    up: Vec<bool>,
    backups: Vec<Option<Disk>>,
    /// For each metaserver, true if its disk was restored and lacks versions that its peers know.
    older: Vec<bool>,
    /// For each pair of metaservers, the time at which the cut of their link ends.
    cuts: Vec<Vec<Time>>,
    queue: Queue<Happening>,
    truth: Truth,
    /// True if metaservers must not show old data.
    strict: bool,
    /// For each client, its remaining operations after the faults, and the number of its retries.
    lists: Vec<Option<(Vec<What>, usize)>>,
    next_id: u64,
    /// For each client, the time at which it began its operation.
    began: Vec<Time>,
    /// True while clients begin nothing, until all operations in progress have ended.
    is_quiet: bool,
    digest: Digest,
    report: Report,
    is_traced: bool,
}

impl World {
    pub(super) fn new(options: ReplicaOptions) -> Self {
        let mut random = Random::from_seed(options.seed);
        let count = 2 + random.below(3);
        let orders = [Order::Sequential, Order::Nearest, Order::Tree, Order::Constant];
        let strict = options.strict || options.mutant.is_some_and(ReplicaMutant::is_strict);
        // In strict worlds, leases on names refer to the records at homes, so searches must use
        // these records.
        let drawn = orders[index(random.below(4))];
        let order = if strict { Order::Constant } else { drawn };
        let count_peers = u32::try_from(count).expect("metaservers are few");
        let nodes: Vec<Node> = (0..count_peers)
            .map(|peer| {
                let node = Node::new(Peer(peer), count_peers, order, options.mutant, random.fork());
                Node { strict, ..node }
            })
            .collect();
        let clocks =
            nodes.iter().map(|_| Clock::drifting(&mut random, u64::from(DRIFT_PPM_MAX) / 2));
        let clocks: Vec<Clock> = clocks.collect();
        let faults = Faults::draw(&mut random);
        let count = nodes.len();
        let mut world = Self {
            now: Time::ZERO,
            random,
            faults,
            nodes,
            clocks,
            up: vec![true; count],
            backups: vec![None; count],
            older: vec![false; count],
            cuts: vec![vec![Time::ZERO; count]; count],
            queue: Queue::new(),
            truth: Truth::new(),
            strict,
            lists: vec![None; count],
            next_id: 1,
            began: vec![Time::ZERO; count],
            is_quiet: false,
            digest: Digest::new(),
            report: Report::default(),
            is_traced: options.trace,
        };
        world.tell(|| format!("{count} metaservers, {order:?}, {faults:?}"));
        (0..count).for_each(|node| world.start(node));
        world.schedule(faults.cuts, Happening::Cut);
        world.schedule(faults.crashes, Happening::Crash);
        world.schedule(faults.backups.then_some(Duration::from_secs(8)), Happening::Backup);
        world.queue.schedule(Time::ZERO + FAULTS_TIME, Happening::Heal);
        world.queue.schedule(Time::ZERO + FAULTS_TIME + SETTLE, Happening::Quiet);
        world.queue.schedule(Time::ZERO + FAULTS_TIME + SETTLE * 2, Happening::Finish);
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
                let is_due = self.wake_of(node).is_some_and(|time| time <= self.now);
                if is_due {
                    self.let_node(node, Node::wake);
                }
            }
            if !self.truth.broken.is_empty() {
                break;
            }
            if self.lists.iter().flatten().count() == self.nodes.len()
                && self.lists.iter().flatten().all(|(list, _)| list.is_empty())
            {
                return self.report();
            }
        }
        let lists: Vec<_> =
            self.lists.iter().map(|list| list.as_ref().map(|(l, _)| l.len())).collect();
        self.truth.broke("progress", || format!("the world does not end: {lists:?}"));
        self.report()
    }

    fn report(mut self) -> (Report, Vec<Broken>) {
        self.report.digest = self.digest.value();
        let mut broken = self.truth.broken;
        broken.truncate(1);
        (self.report, broken)
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
                let node = index(u64::from(message.to.0));
                if self.up[node] {
                    self.let_node(node, |node, now| node.receive(now, message));
                }
            }
            Happening::Chore { node, epoch, chore, turns } => {
                if self.up[node] && self.nodes[node].epoch() == epoch {
                    let crashes = self.faults.crashes.is_some() && self.random.one_in(60);
                    self.let_node(node, |node, now| node.chore(now, chore, turns, crashes));
                    if crashes {
                        self.crash(node);
                    }
                }
            }
            Happening::Next { node, epoch } => {
                if self.up[node] && self.nodes[node].epoch() == epoch {
                    self.operate(node);
                }
            }
            Happening::Cut => {
                let (one, other) = (self.any_node(), self.any_node());
                let until = self.now + upto(&mut self.random, Duration::from_secs(12));
                self.cuts[one][other] = until;
                if self.random.one_in(2) {
                    self.cuts[other][one] = until;
                }
                self.schedule(self.faults.cuts, Happening::Cut);
            }
            Happening::Crash => {
                let node = self.any_node();
                if self.up[node] {
                    self.crash(node);
                }
                self.schedule(self.faults.crashes, Happening::Crash);
            }
            Happening::Start(node) => self.start(node),
            Happening::Backup => {
                let node = self.any_node();
                self.backups[node] = Some(self.nodes[node].disk.clone());
                self.schedule(Some(Duration::from_secs(8)), Happening::Backup);
            }
            Happening::Heal => {
                self.faults = Faults::NONE;
                self.cuts.iter_mut().for_each(|cuts| cuts.fill(Time::ZERO));
            }
            Happening::Quiet => self.is_quiet = true,
            Happening::Finish => {
                let places: Vec<What> = self.last_looks().collect();
                for node in 0..self.nodes.len() {
                    self.lists[node] = Some((places.clone(), 0));
                    self.next(node);
                }
            }
        }
    }

    /// Returns a look-up of every existing name. If a metaserver serves no client at the end, omits
    /// the names that need this metaserver.
    fn last_looks(&self) -> impl Iterator<Item = What> + '_ {
        let all_serve = !self.older.contains(&true);
        let places = self.truth.standing().filter_map(|metafile| metafile.place.clone());
        places.filter(move |_| all_serve).map(What::Look)
    }

    fn start(&mut self, node: usize) {
        self.up[node] = true;
        self.let_node(node, Node::start);
        self.next(node);
    }

    fn next(&mut self, node: usize) {
        let epoch = self.nodes[node].epoch();
        let pause = if self.random.one_in(8) { 2500 } else { 150 };
        let at = self.now + upto(&mut self.random, Duration::from_millis(pause));
        self.queue.schedule(at, Happening::Next { node, epoch });
    }

    fn crash(&mut self, node: usize) {
        self.up[node] = false;
        self.report.crashes += 1;
        let most = if self.random.one_in(2) { 6000 } else { 300 };
        let down = upto(&mut self.random, Duration::from_millis(most));
        self.queue.schedule(self.now + down, Happening::Start(node));
        let me = self.nodes[node].me;
        // Restore at most one metaserver: a second restored metaserver could have lost its
        // knowledge about the first.
        let is_first = !self.older.contains(&true);
        let backup = self.backups[node].take().filter(|_| self.faults.backups && is_first);
        // Do not restore a metaserver with incomplete replacements: it would show replaced objects
        // again.
        let backup = backup.filter(|_| self.nodes[node].disk.replacing.is_empty());
        if let Some(backup) = backup {
            // Restore only if a peer knows a later version than the backup has. If no peer has seen
            // the lost versions, no metaserver could detect the restore.
            let others = self.nodes.iter().filter_map(|other| other.disk.heard.get(&me));
            let known = others.map(|known| known.stamp).max().unwrap_or_default();
            if known > backup.known.stamp {
                self.nodes[node].disk = backup;
                self.older[node] = true;
                self.report.backups += 1;
            }
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

    fn any_node(&mut self) -> usize {
        let count = u64::try_from(self.nodes.len()).expect("metaservers are few");
        index(self.random.below(count))
    }

    /// Lets the client of a metaserver begin its next operation.
    fn operate(&mut self, node: usize) {
        let what = match &self.lists[node] {
            None if self.is_quiet => return,
            None => self.draw(),
            Some((list, _)) => match list.last() {
                Some(what) => what.clone(),
                None => return,
            },
        };
        if let What::Place { object, to, over, is_directory, .. } = &what {
            if to.is_none() {
                self.truth.asked_away(*object, false);
            } else if let Some(over) = *over {
                let in_one_step =
                    self.nodes[node].replaces_in_one_step(*object, over, *is_directory);
                self.truth.asked_away(over, in_one_step);
            }
        }
        self.report.operations += 1;
        self.began[node] = self.now;
        self.tell(|| format!("{node}: {what:?}"));
        self.let_node(node, |node, now| node.operate(now, what));
    }

    fn draw(&mut self) -> What {
        let ever = self.truth.ever();
        let directories: Vec<FileId> =
            self.truth.standing().filter(|one| one.is_directory).map(|one| one.object).collect();
        let standing: Vec<Metafile> =
            self.truth.standing().filter(|one| one.place.is_some()).cloned().collect();
        let directory = directories[self.random_index(directories.len())];
        let name = vec![b'a' + u8::try_from(self.random.below(4)).expect("a letter")];
        let place = Place { directory, name };
        let object = ever[self.random_index(ever.len())];
        let kind = self.random.below(26);
        if standing.is_empty() || kind < 4 {
            let is_directory = self.random.one_in(2);
            return What::Create { place, is_directory };
        }
        // In half of the cases use one of two objects, so that clients conflict.
        let among = if self.random.one_in(2) { standing.len().min(2) } else { standing.len() };
        let one = standing[self.random_index(among)].clone();
        let from = one.place.clone().expect("the object has a place");
        match kind {
            4 => self.draw_replaced(&standing, &one, place, true),
            5 => self.draw_replaced(&standing, &one, place, false),
            6 if place != from => {
                let over = self.replaceable(&standing, &one, true);
                let over = over.into_iter().find(|other| other.place.as_ref() == Some(&place));
                let over = over.map(|other| other.object);
                let (object, is_directory) = (one.object, one.is_directory);
                What::Place { object, from, to: Some(place), over, is_directory }
            }
            6..9 => {
                let (object, is_directory) = (one.object, one.is_directory);
                What::Place { object, from, to: None, over: None, is_directory }
            }
            9..12 => What::Look(place),
            12 => What::Look(from),
            13..15 => What::Use(object),
            15..20 => What::Use(one.object),
            20 => What::Miss(object),
            22 => What::List(directory),
            21 => What::Commit(one.object, 0),
            23 => {
                self.next_id += 1;
                What::Set(one.object, self.next_id)
            }
            _ => {
                self.next_id += 1;
                What::Write(one.object, self.next_id)
            }
        }
    }

    /// Returns the objects that an object can replace.
    fn replaceable<'a>(
        &self,
        standing: &'a [Metafile],
        one: &Metafile,
        has_same_home: bool,
    ) -> Vec<&'a Metafile> {
        let home = |object| self.nodes[0].home_of(object);
        let is_like = |other: &&Metafile| {
            other.object != one.object
                && other.is_directory == one.is_directory
                && (home(other.object) == home(one.object)) == has_same_home
        };
        standing.iter().filter(is_like).collect()
    }

    /// Draws an object that the object replaces; returns the object itself if there is none.
    fn draw_replaced(
        &self,
        standing: &[Metafile],
        one: &Metafile,
        place: Place,
        has_same_home: bool,
    ) -> What {
        let (object, from) = (one.object, one.place.clone().expect("the object has a place"));
        let over = self.replaceable(standing, one, has_same_home).first().copied();
        let place = over.and_then(|over| over.place.clone()).unwrap_or(place);
        let to = (place != from).then_some(place);
        let over = over.map(|over| over.object);
        What::Place { object, from, to, over, is_directory: one.is_directory }
    }

    fn random_index(&mut self, count: usize) -> usize {
        index(self.random.below(u64::try_from(count).expect("objects are few")))
    }

    fn let_node(&mut self, node: usize, act: impl FnOnce(&mut Node, Time)) {
        let local = self.clocks[node].local(self.now);
        act(&mut self.nodes[node], local);
        for out in core::mem::take(&mut self.nodes[node].outs) {
            self.come_out(node, out);
        }
        self.truth.names_stay();
        if self.older[node] && self.nodes[node].live.peers.is_open() {
            self.truth.broke("older-metadata", || format!("{node} serves old metadata"));
        }
    }

    fn come_out(&mut self, node: usize, out: Out) {
        let peer = self.nodes[node].me.0;
        match out {
            Out::Send(message) => self.send(message),
            Out::Chore(time, chore, turns) => {
                let epoch = self.nodes[node].epoch();
                let done = Happening::Chore { node, epoch, chore, turns };
                self.queue.schedule(self.now + time, done);
            }
            Out::Stored(object, is, asker) => {
                let version = self.nodes[node].disk.known.stamp;
                self.tell(|| format!("{node} stored {object:?} as {is:?}"));
                self.truth.stored(self.now, object, is, asker, version);
            }
            Out::Replaced(object) => self.truth.replaced(self.now, object),
            Out::Showed(metafile) => self.truth.saw(self.since(node), peer, &metafile),
            // In strict worlds, a report of a removal that was under way before the client's
            // request may arrive later, so it is not recorded.
            Out::Gone(_) if self.strict => {}
            Out::Gone(object) => self.truth.told_gone(peer, object),
            Out::Ended(operation, outcome) => {
                self.tell(|| format!("{node}: {operation:?}: {outcome:?}"));
                self.ended(node, &operation, &outcome);
                self.next(node);
            }
        }
    }

    /// Returns the interval in which a state must have been true, so that the metaserver may show
    /// it now.
    fn since(&self, node: usize) -> (Time, Time) {
        (if self.strict { self.began[node] } else { Truth::oldest(self.now) }, self.now)
    }

    fn ended(&mut self, node: usize, operation: &Operation, outcome: &Outcome) {
        let peer = self.nodes[node].me.0;
        match (&operation.what, outcome) {
            (_, Outcome::Found(metafile)) => self.truth.saw(self.since(node), peer, metafile),
            (What::List(directory), Outcome::Listed(listed)) => {
                let times = (self.began[node], self.now);
                self.truth.listed(times, peer, *directory, listed);
            }
            (What::Look(place), Outcome::Gone) => {
                self.truth.saw_nowhere(self.since(node), peer, place);
            }
            (What::Use(object) | What::Miss(object), Outcome::Gone) => {
                self.truth.saw_gone(peer, *object);
            }
            (What::Commit(object, id), Outcome::Done) if *id != 0 => {
                self.truth.committed(*object, *id);
            }
            (What::Write(object, id), Outcome::Done) if self.strict => {
                self.truth.committed(*object, *id);
            }
            (What::Set(object, id), Outcome::Done) => self.truth.committed(*object, *id),
            (What::Place { object, over: Some(over), .. }, Outcome::Done) => {
                let [home, other] = [*object, *over].map(|one| self.nodes[node].home_of(one));
                self.report.replaced += usize::from(home != other);
            }
            _ => {}
        }
        if let (What::Write(object, id), Outcome::Done) = (&operation.what, outcome)
            && self.random.one_in(2)
            && self.lists[node].is_none()
        {
            let commit = What::Commit(*object, *id);
            self.let_node(node, |node, now| node.operate(now, commit));
        }
        let is_found = matches!(outcome, Outcome::Found(_));
        let Some((list, tries)) = &mut self.lists[node] else { return };
        if list.last() != Some(&operation.what) {
            return;
        }
        *tries += 1;
        if is_found {
            list.pop();
            *tries = 0;
        } else if *tries > TRIES_MAX {
            let what = operation.what.clone();
            self.truth.broke("no-file-lost", || format!("{node} does not find {what:?}"));
        }
    }

    fn send(&mut self, message: Message) {
        let (from, to) = (index(u64::from(message.from.0)), index(u64::from(message.to.0)));
        if from == to {
            self.queue.schedule(self.now, Happening::Arrives(message));
            return;
        }
        let Faults { loss, double, late, delay, delay_late, .. } = self.faults;
        let copies = 1 + usize::from(in_thousand(&mut self.random, double));
        for _ in 0..copies {
            let is_lost = in_thousand(&mut self.random, loss) || self.cuts[from][to] > self.now;
            let is_late = in_thousand(&mut self.random, late);
            let most = if is_late { delay_late } else { delay };
            let at = self.now + upto(&mut self.random, most);
            if !is_lost {
                self.queue.schedule(at, Happening::Arrives(message.clone()));
            }
        }
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
