//! Programs, a server and a network that follow a list of random steps, with a cache in between,
//! compared with the simplest model of a file: its bytes.
//!
//! The server uses every freedom of a correct server: it answers in any order, accepts a part of a
//! WRITE, omits attributes always or sometimes, has a coarse clock, runs a call twice if the reply
//! was lost, and loses unstable data and attributes when it crashes.

use leasehold_base::attributes::{Mode, SetTime};
use proptest::prelude::*;

use core::time::Duration;

use super::*;

/// The next step.
#[derive(Clone, Debug)]
enum Step {
    Read {
        offset: usize,
        count: usize,
    },
    Write {
        offset: usize,
        count: usize,
    },
    Sync,
    /// A program reads the attributes.
    Show,
    /// A program sets the mode and, if present, the modification time.
    Alter {
        mode: u32,
        modified: Option<i64>,
    },
    /// The file is truncated or extended.
    Resize {
        size: usize,
    },
    /// The server restarts.
    Crash,
    /// Time passes at the client.
    Wait {
        seconds: u64,
    },
    /// The server's coarse clock advances.
    Clock,
    /// From now on the server omits some optional attributes.
    Tell(Tells),
    /// A call reaches the server, or a reply reaches the client.
    Deliver {
        which: usize,
    },
    /// A call runs and its reply is lost; the call will be sent again.
    Lose {
        which: usize,
    },
}

/// The largest offset of the model.
const SIZE: usize = 48;

fn step() -> impl Strategy<Value = Step> {
    let range = || (0..SIZE, 1..20_usize);
    prop_oneof![
        3 => range().prop_map(|(offset, count)| Step::Read { offset, count }),
        4 => range().prop_map(|(offset, count)| Step::Write { offset, count }),
        1 => Just(Step::Sync),
        2 => Just(Step::Show),
        2 => (0..0o1000_u32, prop::option::of(1000..2000_i64))
            .prop_map(|(mode, modified)| Step::Alter { mode, modified }),
        1 => (0..SIZE).prop_map(|size| Step::Resize { size }),
        1 => Just(Step::Crash),
        1 => (0..8_u64).prop_map(|seconds| Step::Wait { seconds }),
        1 => Just(Step::Clock),
        1 => any::<(bool, bool)>().prop_map(|(before, after)| Step::Tell(Tells { before, after })),
        8 => (0..8_usize).prop_map(|which| Step::Deliver { which }),
        1 => (0..8_usize).prop_map(|which| Step::Lose { which }),
    ]
}

/// The file that programs must see: the last write is visible.
#[derive(Clone, Debug, Default)]
struct Model {
    bytes: Vec<u8>,
    /// For each byte, the sequence number of the write that produced it.
    writes: Vec<u64>,
    /// The mode that was set last.
    mode: Option<u32>,
    /// The time that was last set or shown, if no program wrote since.
    modified: Option<i64>,
}

impl Model {
    fn write(&mut self, offset: usize, data: &[u8], number: u64) {
        self.modified = None;
        let end = offset + data.len();
        self.resize(self.bytes.len().max(end));
        self.bytes[offset..end].copy_from_slice(data);
        self.writes[offset..end].fill(number);
    }

    fn resize(&mut self, size: usize) {
        self.bytes.resize(size, 0);
        self.writes.resize(size, 0);
    }
}

/// The modification time and the change time of a file, in seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    modified: i64,
    changed: i64,
}

impl Times {
    const fn both(clock: i64) -> Self {
        Self { modified: clock, changed: clock }
    }
}

/// The attributes in a reply.
#[derive(Clone, Copy, Debug, Default)]
struct Tells {
    /// The attributes before a change.
    before: bool,
    /// The attributes after it.
    after: bool,
}

/// A server of one file.
#[derive(Clone, Debug, Default)]
struct Server {
    now: (Vec<u8>, Times),
    stable: (Vec<u8>, Times),
    verifier: u64,
    clock: i64,
    mode: Option<u32>,
    tells: Tells,
}

impl Server {
    fn attributes(&self) -> Attributes {
        let (bytes, times) = &self.now;
        let known = attributes(FileType::Regular, bytes.len() as u64, times.modified);
        let mode = self.mode.map_or(known.mode, Mode::from_bits);
        let changed = FileTime { seconds: times.changed, nanoseconds: 0 };
        Attributes { mode, changed, ..known }
    }

    fn change(&mut self, change: impl FnOnce(&mut Vec<u8>)) -> Wcc {
        let before = self.attributes().before();
        change(&mut self.now.0);
        self.now.1 = Times::both(self.clock);
        self.wcc(before)
    }

    fn wcc(&self, before: leasehold_base::attributes::Before) -> Wcc {
        let Tells { before: tells_before, after } = self.tells;
        Wcc { before: tells_before.then_some(before), after: after.then(|| self.attributes()) }
    }

    fn write(
        &mut self,
        offset: u64,
        data: &[u8],
        (stable, set): (bool, Option<SetAttributes>),
    ) -> Stored {
        let offset = usize::try_from(offset).expect("files of the model are small");
        let end = offset + data.len();
        let wcc = self.change(|bytes| {
            bytes.resize(bytes.len().max(end), 0);
            bytes[offset..end].copy_from_slice(data);
        });
        if stable {
            let bytes = &mut self.stable.0;
            bytes.resize(bytes.len().max(end), 0);
            bytes[offset..end].copy_from_slice(data);
            self.stable.1 = Times::both(self.clock);
        }
        let unstable = (!stable).then(|| self.verifier.to_be_bytes());
        let after = set.map(|set| self.alter(&set)).unwrap_or_default().after;
        let wcc = Wcc { after: after.or(wcc.after), ..wcc };
        let count = u32::try_from(data.len()).expect("small");
        Stored { count, unstable, wcc, set: set.is_some() }
    }

    /// Applies a SETATTR, which is stable when it is answered.
    fn alter(&mut self, set: &SetAttributes) -> Wcc {
        let before = self.attributes().before();
        self.mode = set.mode.map(Mode::bits).or(self.mode);
        let modified = match set.modified {
            SetTime::To(time) => time.seconds,
            SetTime::Keep => self.now.1.modified,
            SetTime::Now => self.clock,
        };
        if let Some(size) = set.size {
            let size = usize::try_from(size).expect("small");
            assert!(self.now.0.len() <= size, "no data is truncated by mistake");
            self.now.0.resize(size, 0);
            self.stable.0.resize(size, 0);
        }
        self.now.1 = Times { modified, changed: self.clock };
        self.stable.1 = self.now.1;
        self.wcc(before)
    }

    fn read(&self, offset: u64, count: u32) -> Fetched {
        let bytes = &self.now.0;
        let offset = usize::try_from(offset).expect("small").min(bytes.len());
        let end = (offset + count as usize).min(bytes.len());
        let attributes = self.tells.after.then(|| self.attributes());
        let data = Bytes::copy_from_slice(&bytes[offset..end]);
        Fetched { data, end: end == bytes.len(), attributes }
    }

    /// Applies a SETATTR of the size, which is stable when it is answered. Data that was written
    /// before it is not.
    fn resize(&mut self, size: usize) -> Wcc {
        let wcc = self.change(|bytes| bytes.resize(size, 0));
        self.stable.0.resize(size, 0);
        self.stable.1 = Times::both(self.clock);
        wcc
    }

    fn crash(&mut self) {
        self.now = self.stable.clone();
        self.verifier += 1;
    }
}

/// A waiting request of a program.
#[derive(Clone, Debug)]
enum Waiting {
    Read {
        offset: usize,
        count: usize,
        /// The states of the file since the request.
        seen: Vec<Vec<u8>>,
    },
    Write {
        offset: usize,
        data: Vec<u8>,
    },
    /// All data up to this write must become stable.
    Sync {
        writes: u64,
    },
    /// The file must be truncated or extended.
    Resize {
        size: usize,
    },
}

/// A call that the server has not answered.
#[derive(Clone, Debug)]
enum Call {
    Data(Effect<&'static str>),
    /// A read that waits for the attributes.
    Attributes(Asked, Ticket),
    Resize(usize),
}

/// A reply that the client has not received.
#[derive(Clone, Debug)]
enum Answer {
    Data(Event<&'static str>),
    Attributes(Asked, Ticket, Attributes),
    Resized(usize, Wcc),
}

#[derive(Clone, Debug)]
enum OnTheWay {
    Call(Call),
    Answer(Answer),
}

struct World {
    cache: Cache<&'static str>,
    now: Time,
    server: Server,
    model: Model,
    /// The number of writes that programs requested, and the number that the cache has accepted, in
    /// order.
    writes: u64,
    taken: u64,
    tickets: u64,
    waiting: BTreeMap<Ticket, Waiting>,
    calls: Vec<OnTheWay>,
    /// A change of size in transit.
    resizing: Option<usize>,
}

impl World {
    fn new(options: Options, tells: Tells) -> Self {
        let mut world = Self {
            cache: Cache::new(options),
            now: Time::ZERO,
            server: Server { tells, ..Server::default() },
            model: Model::default(),
            writes: 0,
            taken: 0,
            tickets: 0,
            waiting: BTreeMap::new(),
            calls: Vec::new(),
            resizing: None,
        };
        // The owner knows the attributes of a file that it opens.
        let asked = world.cache.ask(world.now);
        let attributes = world.server.attributes();
        world.step(Event::Observed { object: FILE, asked, attributes });
        world
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Read { offset, count } => self.read(offset, count),
            Step::Write { offset, count } => {
                self.writes += 1;
                let byte = |at: usize| (self.writes * 7 + at as u64) % 251;
                let data: Vec<u8> =
                    (0..count).map(|at| u8::try_from(byte(at)).expect("small")).collect();
                let ticket = self.ticket(Waiting::Write { offset, data: data.clone() });
                let at = FileTime { seconds: 1, nanoseconds: 0 };
                let (offset, data) = (offset as u64, Bytes::from(data));
                self.step(Event::Write { ticket, file: FILE, offset, data, at });
            }
            Step::Sync => {
                let ticket = self.ticket(Waiting::Sync { writes: self.taken });
                self.step(Event::Sync { ticket, file: FILE });
            }
            Step::Show => self.show(),
            Step::Alter { mode, modified } => {
                let at = FileTime { seconds: 1, nanoseconds: 0 };
                let time = |seconds| SetTime::To(FileTime { seconds, nanoseconds: 0 });
                let set = SetAttributes {
                    mode: Some(Mode::from_bits(mode)),
                    modified: modified.map_or(SetTime::Keep, time),
                    ..SetAttributes::default()
                };
                self.model.mode = Some(mode);
                self.model.modified = modified.or(self.model.modified);
                self.step(Event::Alter { file: FILE, set, at });
            }
            Step::Resize { size } if self.cache.can_resize(FILE, size as u64) => {
                let at = FileTime { seconds: 1, nanoseconds: 0 };
                let (size_here, modified) = (Some(size as u64), SetTime::Now);
                let set = SetAttributes { size: size_here, modified, ..SetAttributes::default() };
                self.model.resize(size);
                self.model.modified = None;
                self.changed(&self.model.bytes.clone());
                self.step(Event::Alter { file: FILE, set, at });
            }
            Step::Resize { size } => {
                let ticket = self.ticket(Waiting::Resize { size });
                self.step(Event::Hold { ticket, file: FILE });
            }
            Step::Crash => self.server.crash(),
            Step::Clock => self.server.clock += 1,
            Step::Tell(tells) => self.server.tells = tells,
            Step::Wait { seconds } => {
                self.now = self.now + Duration::from_secs(seconds);
                self.step(Event::Tick);
            }
            Step::Deliver { which } => self.deliver(which),
            Step::Lose { which } => {
                let which = which.checked_rem(self.calls.len()).and_then(|at| self.calls.get(at));
                if let Some(OnTheWay::Call(call)) = which.cloned() {
                    self.serve(call);
                }
            }
        }
    }

    fn ticket(&mut self, waiting: Waiting) -> Ticket {
        self.tickets += 1;
        self.waiting.insert(Ticket(self.tickets), waiting);
        Ticket(self.tickets)
    }

    /// A program reads: the owner requests the attributes if they have expired.
    fn read(&mut self, offset: usize, count: usize) {
        let resized = self.resizing.map(|size| {
            let mut model = self.model.clone();
            model.resize(size);
            model.bytes
        });
        let seen = core::iter::once(self.model.bytes.clone()).chain(resized).collect();
        let ticket = self.ticket(Waiting::Read { offset, count, seen });
        let known = self.cache.attributes(self.now, FILE);
        if known.is_none_or(|(_, span)| span.is_zero()) {
            let asked = self.cache.ask(self.now);
            self.calls.push(OnTheWay::Call(Call::Attributes(asked, ticket)));
        } else {
            self.read_now(ticket);
        }
    }

    /// A program reads the attributes. A file whose time has no source yet is saved first.
    fn show(&mut self) {
        let at = FileTime { seconds: 5000, nanoseconds: 0 };
        if self.cache.times(FILE, at) == super::super::Times::Estimated {
            let (known, _) = self.cache.attributes(self.now, FILE).expect("the file is known");
            self.model.modified = Some(known.modified.seconds);
            self.step(Event::Show { file: FILE });
        }
    }

    fn read_now(&mut self, ticket: Ticket) {
        let Some(Waiting::Read { offset, count, .. }) = self.waiting.get(&ticket) else {
            panic!("a read waits");
        };
        let (offset, count) = (*offset as u64, u32::try_from(*count).expect("small"));
        self.step(Event::Read { ticket, file: FILE, offset, count });
    }

    fn step(&mut self, event: Event<&'static str>) {
        let mut effects = Vec::new();
        self.cache.step(self.now, event, &mut effects);
        for effect in effects {
            self.follow(effect);
        }
        let known = self.cache.attributes(self.now, FILE).filter(|(_, span)| !span.is_zero());
        if let (Some((known, _)), Some(mode)) = (known, self.model.mode) {
            assert_eq!(known.mode.bits(), mode, "the mode that was set is visible");
        }
        if let (Some((known, _)), Some(modified)) = (known, self.model.modified) {
            assert_eq!(known.modified.seconds, modified, "a time that was shown is kept");
        }
        if let Some((known, _)) = known.filter(|_| self.resizing.is_none()) {
            assert_eq!(known.size, self.model.bytes.len() as u64, "the size is visible");
        }
    }

    fn follow(&mut self, effect: Effect<&'static str>) {
        match effect {
            Effect::Fetch { .. }
            | Effect::Store { .. }
            | Effect::Commit { .. }
            | Effect::Alter { .. } => {
                self.calls.push(OnTheWay::Call(Call::Data(effect)));
            }
            Effect::Read { ticket, result } => {
                let read = result.expect("the server refuses nothing").concat();
                let Some(Waiting::Read { offset, count, seen }) = self.waiting.remove(&ticket)
                else {
                    panic!("no read is pending");
                };
                check_read(&read, (offset, count), &seen);
            }
            Effect::Wrote { ticket } => {
                let Some(Waiting::Write { offset, data }) = self.waiting.remove(&ticket) else {
                    panic!("no write is pending");
                };
                self.taken += 1;
                self.model.write(offset, &data, self.taken);
                self.changed(&self.model.bytes.clone());
            }
            Effect::Synced { ticket } => {
                let Some(Waiting::Sync { writes }) = self.waiting.remove(&ticket) else {
                    panic!("no sync is pending");
                };
                self.check_stable(writes);
            }
            Effect::Held { ticket, file } => {
                let Some(Waiting::Resize { size }) = self.waiting.remove(&ticket) else {
                    panic!("no change of the file is pending");
                };
                assert_eq!(self.resizing.replace(size), None, "one change at a time");
                let mut after = self.model.clone();
                after.resize(size);
                self.changed(&after.bytes);
                self.model.modified = None;
                self.step(Event::BeginChange { object: file });
                self.calls.push(OnTheWay::Call(Call::Resize(size)));
            }
            Effect::Refused { .. } => panic!("the server refuses nothing"),
            Effect::Idle { .. } => panic!("the test uses no names"),
        }
    }

    /// Records that a read which waits now may return this state of the file.
    fn changed(&mut self, bytes: &[u8]) {
        for waiting in self.waiting.values_mut() {
            if let Waiting::Read { seen, .. } = waiting {
                seen.push(bytes.to_vec());
            }
        }
    }

    /// Checks that each byte that was last written by one of the first `writes` writes is on stable
    /// storage.
    fn check_stable(&self, writes: u64) {
        for (at, number) in self.model.writes.iter().enumerate() {
            // Bytes behind the new size of a pending truncation may be gone, so they are not
            // checked.
            let kept = self.resizing.is_none_or(|size| at < size);
            if kept && (1..=writes).contains(number) {
                let stable = self.server.stable.0.get(at);
                assert_eq!(stable, Some(&self.model.bytes[at]), "byte {at} is on stable storage");
            }
        }
    }

    /// One call reaches the server, or one reply the client, in any order.
    fn deliver(&mut self, which: usize) {
        if self.calls.is_empty() {
            return;
        }
        match self.calls.remove(which % self.calls.len()) {
            OnTheWay::Call(call) => {
                let answer = self.serve(call);
                self.calls.push(OnTheWay::Answer(answer));
            }
            OnTheWay::Answer(Answer::Data(event)) => self.step(event),
            OnTheWay::Answer(Answer::Attributes(asked, ticket, attributes)) => {
                self.step(Event::Observed { object: FILE, asked, attributes });
                self.read_now(ticket);
            }
            OnTheWay::Answer(Answer::Resized(size, wcc)) => {
                self.resizing = None;
                self.model.resize(size);
                self.step(Event::Resized { file: FILE, size: size as u64 });
                self.step(Event::EndChange { object: FILE, wcc });
                self.step(Event::Release { file: FILE });
            }
        }
    }

    fn serve(&mut self, call: Call) -> Answer {
        match call {
            Call::Attributes(asked, ticket) => {
                Answer::Attributes(asked, ticket, self.server.attributes())
            }
            Call::Resize(size) => Answer::Resized(size, self.server.resize(size)),
            Call::Data(Effect::Fetch { job, offset, count, .. }) => {
                Answer::Data(Event::Fetched { job, result: Ok(self.server.read(offset, count)) })
            }
            Call::Data(Effect::Store { job, offset, data, stable, set, .. }) => {
                // Sometimes the server accepts less than it could.
                let taken = if data[0] & 7 == 0 { data.len().div_ceil(2) } else { data.len() };
                let stored = self.server.write(offset, &data[..taken], (stable, set));
                Answer::Data(Event::Stored { job, result: Ok(stored) })
            }
            Call::Data(Effect::Commit { job, .. }) => {
                self.server.stable = self.server.now.clone();
                let wcc = self.server.wcc(self.server.attributes().before());
                let verifier = self.server.verifier.to_be_bytes();
                Answer::Data(Event::Committed { job, result: Ok(Committed { verifier, wcc }) })
            }
            Call::Data(Effect::Alter { job, set, .. }) => {
                Answer::Data(Event::Altered { job, result: Ok(self.server.alter(&set)) })
            }
            Call::Data(_) => unreachable!("only calls reach the server"),
        }
    }

    /// With a stable server every request is answered, and a last sync saves all data.
    fn heal(&mut self) {
        self.answer_all();
        self.run(&Step::Sync);
        self.answer_all();
        assert_eq!(self.server.stable.0, self.model.bytes, "no written data is lost");
        assert_eq!(self.cache.bytes().1, 0, "nothing is unsaved");
        assert_eq!(self.server.mode, self.model.mode, "the mode that was set is saved");
        if let Some(modified) = self.model.modified {
            assert_eq!(self.server.now.1.modified, modified, "the time that was set is saved");
        }
        assert!(self.cache.bytes().0 <= options().bytes_max, "clean data is bounded");
        self.run(&Step::Read { offset: 0, count: 2 * SIZE });
        self.answer_all();
    }

    fn answer_all(&mut self) {
        for _ in 0..2000 {
            if self.calls.is_empty() && self.waiting.is_empty() {
                return;
            }
            self.deliver(0);
            if self.calls.is_empty() && !self.waiting.is_empty() {
                self.now = self.cache.next_wake().unwrap_or(self.now).max(self.now);
                self.step(Event::Tick);
            }
        }
        panic!("requests wait without end: {:?}", self.waiting);
    }
}

/// The data of a read is a state of the file during the read; while a change is in transit, it may
/// be a mixture of the states before and after.
fn check_read(read: &[u8], (offset, count): (usize, usize), seen: &[Vec<u8>]) {
    let part = |bytes: &Vec<u8>| {
        let from = offset.min(bytes.len());
        bytes[from..(offset + count).min(bytes.len())].to_vec()
    };
    let parts: Vec<Vec<u8>> = seen.iter().map(part).collect();
    let lengths: Vec<usize> = parts.iter().map(Vec::len).collect();
    let (least, most) = (lengths.iter().min(), lengths.iter().max());
    let fits = least <= Some(&read.len()) && Some(&read.len()) <= most;
    assert!(fits, "{} bytes were read, not {lengths:?}", read.len());
    for (at, byte) in read.iter().enumerate() {
        let was = parts.iter().any(|part| part.get(at) == Some(byte));
        assert!(was, "byte {} is {byte}, and not as in {parts:?}", offset + at);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        max_shrink_iters: 20_000,
        ..ProptestConfig::with_cases(3000)
    })]
    #[test]
    fn no_written_data_is_lost_and_reads_return_written_data(
        (always_stable, writes_gaps) in any::<(bool, bool)>(),
        (before, after) in any::<(bool, bool)>(),
        steps in prop::collection::vec(step(), 0..120),
    ) {
        let options = Options { always_stable, writes_gaps, ..options() };
        let mut world = World::new(options, Tells { before, after });
        for step in &steps {
            world.run(step);
        }
        world.heal();
    }
}
