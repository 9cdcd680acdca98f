//! Programs and a server of one directory that follow a list of random steps, other clients that
//! change the directory too, and a cache in between, compared with the simplest model of a
//! directory: its names at every moment.
//!
//! The cache's statement about a name, including its absence, must have been true at a moment that
//! is not longer ago than attributes may be trusted, not before the last reply that a program
//! received about that name, and not before the last known state of the directory. A name in the
//! last reply must be cached.
//!
//! The server answers in any order, and omits attributes; its clock distinguishes each change from
//! the next. No two changes of one name are in transit at the same time: kernels guarantee that.

use leasehold_base::attributes::Before;
use proptest::prelude::*;

use super::*;

/// The next step. Names and objects are numbers.
#[derive(Clone, Debug)]
enum Step {
    /// A program looks up a name in the cache.
    Find {
        name: u8,
    },
    /// A program looks up a name at the server.
    Lookup {
        name: u8,
    },
    /// A program creates a file under a free name.
    Make {
        name: u8,
    },
    Remove {
        name: u8,
    },
    Rename {
        from: u8,
        to: u8,
    },
    /// The client lists the directory.
    List,
    /// The client requests the attributes of the directory.
    Look,
    /// Another client creates a file.
    Appear {
        name: u8,
    },
    Vanish {
        name: u8,
    },
    /// The attributes must be requested again.
    Distrust,
    /// A lease that covers the names has ended.
    Replace,
    Wait {
        seconds: u64,
    },
    /// A call reaches the server, or a reply reaches the client.
    Deliver {
        which: usize,
    },
}

/// The largest name.
const NAMES: u8 = 6;
/// The longest time for which attributes are trusted.
const TRUST: Duration = Duration::from_secs(60);

fn step() -> impl Strategy<Value = Step> {
    let name = || 0..NAMES;
    prop_oneof![
        6 => name().prop_map(|name| Step::Find { name }),
        3 => name().prop_map(|name| Step::Lookup { name }),
        3 => name().prop_map(|name| Step::Make { name }),
        2 => name().prop_map(|name| Step::Remove { name }),
        1 => (name(), name()).prop_map(|(from, to)| Step::Rename { from, to }),
        1 => Just(Step::List),
        1 => Just(Step::Look),
        1 => name().prop_map(|name| Step::Appear { name }),
        1 => name().prop_map(|name| Step::Vanish { name }),
        1 => Just(Step::Distrust),
        1 => Just(Step::Replace),
        1 => (0..40_u64).prop_map(|seconds| Step::Wait { seconds }),
        8 => (0..8_usize).prop_map(|which| Step::Deliver { which }),
    ]
}

/// A moment at the server: the number of changes that the server has made.
type Moment = usize;
type Listed = BTreeMap<u8, u64>;

/// The directory at its server, at every moment.
struct Server {
    moments: Vec<(Time, Listed)>,
    objects: u64,
    /// True if the server omits optional attributes.
    stingy: bool,
}

impl Server {
    fn now(&self) -> &Listed {
        &self.moments.last().expect("there is a first moment").1
    }

    fn moment(&self) -> Moment {
        self.moments.len() - 1
    }

    fn attributes(&self) -> Attributes {
        let modified = i64::try_from(self.moment()).expect("small");
        attributes(FileType::Directory, self.now().len() as u64, modified)
    }

    fn told(&self) -> Option<Attributes> {
        (!self.stingy).then(|| self.attributes())
    }

    fn change(&mut self, time: Time, change: impl FnOnce(&mut Listed, u64)) {
        let mut names = self.now().clone();
        self.objects += 1;
        change(&mut names, 100 + self.objects);
        if &names != self.now() {
            self.moments.push((time, names));
        }
    }

    /// Lists the objects of a name at every moment from this one on.
    fn since(&self, moment: Moment, name: u8) -> BTreeSet<Option<u64>> {
        self.moments[moment..].iter().map(|(_, names)| names.get(&name).copied()).collect()
    }

    /// Returns the last moment at or before a time.
    fn at(&self, time: Time) -> Moment {
        self.moments.iter().rposition(|(since, _)| *since <= time).unwrap_or(0)
    }
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Make(u8),
    Remove(u8),
    Rename(u8, u8),
}

impl Change {
    const fn names(self) -> [u8; 2] {
        match self {
            Self::Make(name) | Self::Remove(name) => [name, name],
            Self::Rename(from, to) => [from, to],
        }
    }
}

#[derive(Clone, Debug)]
enum OnTheWay {
    Lookup(Asked, u8),
    List(Asked),
    Look(Asked),
    Change(Change),
    /// A reply on its way to the client: names and the attributes of the directory, as they were at
    /// the moment.
    Told(Asked, Source, Vec<(u8, Option<u64>)>, Option<Attributes>, Moment),
    /// The reply to a change on its way to the client: the objects of the changed names, the
    /// attributes of the directory before and after the change, and the moment of the change.
    Changed(Change, Vec<(u8, Option<u64>)>, Wcc, Moment),
}

struct World {
    cache: Cache<&'static str>,
    now: Time,
    server: Server,
    /// True if no other client exists.
    alone: bool,
    calls: Vec<OnTheWay>,
    /// The moments that the cache must not fall behind: one for the directory, and one for each
    /// name.
    seen: Moment,
    told: BTreeMap<u8, Moment>,
}

impl World {
    fn new(options: Options, alone: bool, stingy: bool) -> Self {
        let server = Server { moments: vec![(Time::ZERO, Listed::new())], objects: 0, stingy };
        let mut world = Self {
            cache: Cache::new(Options { names_of_new: alone, ..options }),
            now: Time::ZERO,
            server,
            alone,
            calls: Vec::new(),
            seen: 0,
            told: BTreeMap::new(),
        };
        // The directory was just created.
        let (asked, attributes) = (world.cache.ask(world.now), world.server.attributes());
        world.step(Event::Observed { object: DIRECTORY, asked, attributes });
        world.step(Event::Empty { directory: DIRECTORY });
        world
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Find { name } => self.find(name),
            Step::Lookup { name } => {
                let asked = self.cache.ask(self.now);
                self.calls.push(OnTheWay::Lookup(asked, name));
            }
            Step::List => {
                let asked = self.cache.ask(self.now);
                self.calls.push(OnTheWay::List(asked));
            }
            Step::Look => {
                let asked = self.cache.ask(self.now);
                self.calls.push(OnTheWay::Look(asked));
            }
            Step::Make { name } => self.begin(Change::Make(name)),
            Step::Remove { name } => self.begin(Change::Remove(name)),
            Step::Rename { from, to } => self.begin(Change::Rename(from, to)),
            Step::Appear { .. } | Step::Vanish { .. } if self.alone => {}
            Step::Appear { name } => self.server.change(self.now, |names, new| {
                names.entry(name).or_insert(new);
            }),
            Step::Vanish { name } => self.server.change(self.now, |names, _| {
                names.remove(&name);
            }),
            Step::Distrust => self.step(Event::Distrust { object: DIRECTORY }),
            Step::Replace => {
                self.step(Event::Replaced { object: DIRECTORY });
                self.seen = self.server.moment();
            }
            Step::Wait { seconds } => {
                // Replies to changes arrive before time passes, as with a real server.
                let is_change =
                    |call: &OnTheWay| matches!(call, OnTheWay::Change(..) | OnTheWay::Changed(..));
                while let Some(at) = self.calls.iter().position(is_change) {
                    self.deliver(at);
                }
                self.now = self.now + Duration::from_secs(seconds);
                self.step(Event::Tick);
            }
            Step::Deliver { which } => {
                if let Some(at) = which.checked_rem(self.calls.len()) {
                    self.deliver(at);
                }
            }
        }
    }

    fn step(&mut self, event: Event<&'static str>) {
        let mut effects = Vec::new();
        self.cache.step(self.now, event, &mut effects);
        for effect in effects {
            let Effect::Idle { object } = effect else {
                panic!("the test writes no data: {effect:?}")
            };
            // The owner forgets every second idle object, so that the test covers both cases.
            if object.0 % 2 == 0 {
                self.step(Event::Forget { object });
            }
        }
    }

    /// The cache's statement about a name.
    fn known(&mut self, name: u8) -> Option<Option<u64>> {
        let target = self.cache.find(self.now, DIRECTORY, &[name])?;
        Some(target.map(|object| object.0))
    }

    fn find(&mut self, name: u8) {
        let Some(said) = self.known(name) else { return };
        // The known attributes were requested after that.
        let distrusted = self.now.since(Time::ZERO).checked_sub(TRUST);
        let oldest = distrusted.map_or(0, |time| self.server.at(Time::ZERO + time));
        let told = self.told.get(&name).copied().unwrap_or(0);
        let was = self.server.since(oldest.max(told).max(self.seen), name);
        assert!(was.contains(&said), "name {name} leads to {said:?}, and not as in {was:?}");
    }

    fn begin(&mut self, change: Change) {
        let busy = |call: &OnTheWay| match call {
            OnTheWay::Change(other) | OnTheWay::Changed(other, ..) => {
                other.names().iter().any(|name| change.names().contains(name))
            }
            OnTheWay::Lookup(..) | OnTheWay::List(_) | OnTheWay::Look(_) | OnTheWay::Told(..) => {
                false
            }
        };
        if !self.calls.iter().any(busy) {
            self.step(Event::BeginChange { object: DIRECTORY });
            self.calls.push(OnTheWay::Change(change));
        }
    }

    /// One call reaches the server, or one reply the client, in any order.
    fn deliver(&mut self, at: usize) {
        match self.calls.remove(at) {
            OnTheWay::Lookup(asked, name) => self.tell(asked, Source::Asked, &[name]),
            OnTheWay::List(asked) => {
                let names: Vec<u8> = self.server.now().keys().copied().collect();
                self.tell(asked, Source::Listed, &names);
            }
            OnTheWay::Look(asked) => self.tell(asked, Source::Asked, &[]),
            OnTheWay::Change(change) => self.change(change),
            OnTheWay::Told(asked, source, names, attributes, moment) => {
                self.hear((asked, source), &names, attributes, moment);
            }
            OnTheWay::Changed(change, names, wcc, moment) => {
                self.changed(change, &names, wcc, moment);
            }
        }
    }

    /// The server answers a request.
    fn tell(&mut self, asked: Asked, source: Source, names: &[u8]) {
        let found = |name: &u8| (*name, self.server.now().get(name).copied());
        let names = names.iter().map(found).collect();
        let (attributes, moment) = (self.server.told(), self.server.moment());
        self.calls.push(OnTheWay::Told(asked, source, names, attributes, moment));
    }

    /// The server makes a change.
    fn change(&mut self, change: Change) {
        let before: Before = self.server.attributes().before();
        self.server.change(self.now, |names, new| match change {
            Change::Make(name) => {
                names.entry(name).or_insert(new);
            }
            Change::Remove(name) => {
                names.remove(&name);
            }
            Change::Rename(from, to) => {
                if let Some(moved) = names.remove(&from) {
                    names.insert(to, moved);
                }
            }
        });
        let after = self.server.told();
        let wcc = Wcc { before: after.is_some().then_some(before), after };
        let led = |name: u8| (name, self.server.now().get(&name).copied());
        let names = change.names().map(led).to_vec();
        self.calls.push(OnTheWay::Changed(change, names, wcc, self.server.moment()));
    }

    fn hear(
        &mut self,
        (asked, source): (Asked, Source),
        names: &[(u8, Option<u64>)],
        attributes: Option<Attributes>,
        moment: Moment,
    ) {
        let is_current = self.cache.is_current(DIRECTORY, asked);
        if let Some(attributes) = attributes {
            self.step(Event::Observed { object: DIRECTORY, asked, attributes });
            if is_current {
                self.seen = self.seen.max(moment);
            }
        }
        self.name(names, source, asked);
        let is_trusted =
            self.cache.attributes(self.now, DIRECTORY).is_some_and(|(_, span)| !span.is_zero());
        if let ([(name, target)], Source::Asked) = (names, source)
            && is_current
            && attributes.is_some()
            && is_trusted
        {
            assert_eq!(self.known(*name), Some(*target), "a name in the last reply is cached");
        }
    }

    fn changed(&mut self, change: Change, names: &[(u8, Option<u64>)], wcc: Wcc, moment: Moment) {
        self.step(Event::EndChange { object: DIRECTORY, wcc });
        let asked = self.cache.ask(self.now);
        self.name(names, Source::Asked, asked);
        for name in change.names() {
            self.told.insert(name, moment);
        }
    }

    fn name(&mut self, names: &[(u8, Option<u64>)], source: Source, asked: Asked) {
        for (name, target) in names {
            let (name, target) = (Box::from([*name]), target.map(ObjectKey));
            self.step(Event::Named { directory: DIRECTORY, name, target, source, asked });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        max_shrink_iters: 20_000,
        ..ProptestConfig::with_cases(3000)
    })]
    #[test]
    fn cached_names_reflect_a_recent_state(
        (alone, stingy, few) in any::<(bool, bool, bool)>(),
        steps in prop::collection::vec(step(), 0..120),
    ) {
        let names_max = if few { 4 } else { 64 };
        let mut world = World::new(Options { names_max, ..options() }, alone, stingy);
        for step in &steps {
            world.run(step);
        }
        for name in 0..NAMES {
            world.find(name);
        }
    }
}
