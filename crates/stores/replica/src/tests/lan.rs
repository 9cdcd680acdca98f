//! A simulated network of metaservers with their disks, for tests.

use core::pin::pin;
use core::sync::atomic::{AtomicU64, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use futures_channel::oneshot;
use futures_util::future::{Either, select};
use leasehold_base::units::{FileTime, Time, Xid};
use leasehold_base::xdr::{Decode as _, Encode as _, Reader, Writer};
use leasehold_core::replica::{Bounds, Peer};
use leasehold_fs::{Caller, Name, SUPERUSER, Step, Verifier};
use leasehold_session::spawn;
use leasehold_wire::replica::{PROGRAM, VERSION};
use leasehold_wire::rpc::{AuthSys, Call, OpaqueAuth, Reply, ReplyStatus, flavor};

use crate::{
    Later, Metaserver, NoResults, Notice, Options, Order, Outside, Owner, Traffic, Urgency,
    compacted,
};

const WORD: &str = "a word";

/// A time that is longer than any test.
const FOR_EVER: Duration = Duration::from_hours(24);

/// The timeout of a call, in networks where calls take time.
const CALL: Duration = Duration::from_millis(2500);

/// The longest sleep that advances the clock without a request of the test, if `hurries` is set.
const HURRY: Duration = Duration::from_millis(50);

/// Returns the superuser's credential.
pub(super) fn who() -> Caller {
    Caller { uid: SUPERUSER, gid: 0, ..Caller::nobody() }
}

pub(super) fn name(text: &str) -> Name<'_> {
    match Step::parse(text.as_bytes()) {
        Ok(Step::Child(name)) => name,
        other => panic!("{other:?}"),
    }
}

/// The shared state of the network.
#[derive(Default)]
struct State {
    now: u64,
    sleepers: Vec<(u64, oneshot::Sender<()>)>,
    metaservers: Vec<Option<Metaserver>>,
    /// The number of the current start of each metaserver, and the numbers of the starts that were
    /// killed.
    started: BTreeMap<usize, u64>,
    killed: BTreeSet<u64>,
    disks: Vec<Vec<Bytes>>,
    /// The number of records that fit on a disk, for disks that are limited.
    room: BTreeMap<usize, usize>,
    /// The latency of a disk, for disks that are slow.
    slow: BTreeMap<usize, Duration>,
    /// True for each metaserver that is cut off from the network.
    cut: Vec<bool>,
    /// True for each metaserver that has another shared secret.
    strange: Vec<bool>,
    /// The delay of the answers of a metaserver.
    delays: BTreeMap<usize, Duration>,
    /// The number of delayed answers, by caller and callee.
    came: BTreeMap<(usize, usize), u64>,
    xid: u32,
    starts: u64,
    /// True if a sleep of up to [`HURRY`] advances the clock.
    hurries: bool,
    notices: Vec<Notice>,
}

/// The content of a new file, by the start number of its metaserver and the number of the file.
type Content = fn(u64, u64) -> Bytes;

/// A network of metaservers.
#[derive(Clone)]
pub(super) struct Lan {
    state: Arc<Mutex<State>>,
    order: Order,
    content: Content,
    strict: bool,
    /// True if the metaservers grant leases to clients.
    lends: bool,
    /// The longest time for which a home may be silent; `None` for no limit. If there is a limit,
    /// calls also have a timeout.
    give_up: Option<Duration>,
    /// The peer for which no starting metaserver waits.
    without: Option<u32>,
}

struct At {
    lan: Lan,
    me: usize,
    start: u64,
}

impl At {
    /// Returns true if this start of the metaserver was killed. Its operations continue to run, but
    /// they write and send nothing.
    fn is_killed(&self) -> bool {
        self.lan.is_killed(self.start)
    }
}

impl Lan {
    pub(super) fn new(count: usize, order: Order) -> Self {
        Self::with(count, order, |_, _| Bytes::from_static(b"head"))
    }

    /// Creates a network in strict mode.
    pub(super) fn strict(count: usize, content: Content) -> Self {
        Self::of(count, Order::Constant, content, (true, false), None)
    }

    /// Creates a network in strict mode that grants leases to clients.
    pub(super) fn lending(count: usize, content: Content) -> Self {
        Self::of(count, Order::Constant, content, (true, true), None)
    }

    /// Creates a network with a limit on the silence of a home, in either mode.
    pub(super) fn giving_up(
        count: usize,
        content: Content,
        leases: (bool, bool),
        give_up: Duration,
    ) -> Self {
        Self::of(count, Order::Constant, content, leases, Some(give_up))
    }

    /// Returns a handle to the same network with which later starts do not wait for one metaserver.
    pub(super) fn without(&self, one: u32) -> Self {
        Self { without: Some(one), ..self.clone() }
    }

    /// Returns a handle to the same network with which later starts are in strict mode.
    pub(super) fn strictly(&self) -> Self {
        Self { strict: true, ..self.clone() }
    }

    pub(super) fn with(count: usize, order: Order, content: Content) -> Self {
        Self::of(count, order, content, (false, false), None)
    }

    fn of(
        count: usize,
        order: Order,
        content: Content,
        (strict, lends): (bool, bool),
        give_up: Option<Duration>,
    ) -> Self {
        let state = State {
            metaservers: vec![None; count],
            disks: vec![Vec::new(); count],
            cut: vec![false; count],
            strange: vec![false; count],
            ..State::default()
        };
        let lan = Self {
            state: Arc::new(Mutex::new(state)),
            order,
            content,
            strict,
            lends,
            give_up,
            without: None,
        };
        (0..count).for_each(|me| lan.start(me));
        lan.pass(Duration::from_secs(2));
        lan
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics with it")
    }

    /// Starts a metaserver from its disk.
    pub(super) fn start(&self, me: usize) {
        let (count, starts, records) = {
            let mut state = self.state();
            state.starts += 1;
            let start = state.starts;
            state.started.insert(me, start);
            let records = compacted(&state.disks[me]).expect("it was written");
            (state.metaservers.len(), state.starts, records)
        };
        let records: Vec<Bytes> = records.into_iter().map(Bytes::from).collect();
        self.state().disks[me].clone_from(&records);
        let (content, made) = (self.content, AtomicU64::new(0));
        let options = Options {
            me: Peer(u32::try_from(me).expect("few")),
            count: u32::try_from(count).expect("few"),
            without: self.without.map(Peer).into_iter().collect(),
            order: self.order,
            strict: self.strict,
            lends: self.lends,
            bounds: Bounds::DEFAULT,
            give_up: self.give_up.unwrap_or(FOR_EVER),
            owner: Owner { uid: 0, gid: 0, mode: 0o777, file_system: 9 },
            verifier: Verifier(starts.to_be_bytes()),
            content: Box::new(move || content(starts, made.fetch_add(1, Ordering::Relaxed))),
            word: WORD.to_owned(),
        };
        let outside = Arc::new(At { lan: self.clone(), me, start: starts });
        let random = self.state().now.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let metaserver = Metaserver::open(options, &records, outside, random).expect("it is whole");
        self.state().metaservers[me] = Some(metaserver);
        self.pass(Duration::ZERO);
    }

    /// Returns the records on a disk.
    pub(super) fn disk(&self, of: usize) -> Vec<Bytes> {
        self.state().disks[of].clone()
    }

    /// Kills a metaserver, and replaces its disk if `disk` is present.
    pub(super) fn kill(&self, me: usize, disk: Option<Vec<Bytes>>) {
        let mut state = self.state();
        let gone = state.metaservers[me].take();
        state.room.remove(&me);
        let start = state.started.remove(&me);
        state.killed.extend(start);
        disk.into_iter().for_each(|disk| state.disks[me] = disk);
        drop(state);
        drop(gone);
    }

    /// Starts a metaserver from another disk, while the earlier start of the metaserver continues
    /// to run.
    pub(super) fn start_elsewhere(&self, me: usize, disk: Vec<Bytes>) {
        self.state().disks[me] = disk;
        self.start(me);
    }

    /// Makes a disk fail when it contains this number of records.
    pub(super) fn fail(&self, me: usize, records: usize) {
        self.state().room.insert(me, records);
    }

    /// Sets the latency of a disk.
    pub(super) fn slow(&self, me: usize, span: Duration) {
        self.state().slow.insert(me, span);
    }

    /// Sets the latency of a disk to zero.
    pub(super) fn quick(&self, me: usize) {
        self.state().slow.remove(&me);
    }

    /// Makes short sleeps advance the clock without a request of the test.
    pub(super) fn hurry(&self) {
        self.state().hurries = true;
    }

    /// Cuts a metaserver off from the network, or connects it again.
    pub(super) fn cut(&self, me: usize, is_cut: bool) {
        self.state().cut[me] = is_cut;
    }

    /// Sets the delay of the answers of a metaserver.
    pub(super) fn delay(&self, me: usize, delay: Duration) {
        self.state().delays.insert(me, delay);
    }

    /// Gives a metaserver another shared secret, so that it refuses the calls of its peers, and its
    /// peers refuse its calls.
    pub(super) fn estrange(&self, me: usize) {
        self.state().strange[me] = true;
    }

    pub(super) fn at(&self, me: usize) -> Metaserver {
        self.state().metaservers[me].clone().expect("it runs")
    }

    /// Returns the number of calls that all metaservers have sent.
    pub(super) fn messages(&self) -> u64 {
        let all: Vec<_> = self.state().metaservers.iter().flatten().cloned().collect();
        all.iter().map(Metaserver::messages).sum()
    }

    pub(super) fn notices(&self) -> Vec<Notice> {
        self.state().notices.clone()
    }

    /// Returns the time since the start of the network.
    pub(super) fn now(&self) -> Duration {
        Duration::from_nanos(self.state().now)
    }

    /// Advances the clock.
    pub(super) fn pass(&self, span: Duration) {
        let until = self.state().now + u64::try_from(span.as_nanos()).expect("not for ever");
        while self.wake_next(until) {}
        self.state().now = until;
    }

    /// Advances the clock to the earliest sleeper and wakes it. Returns false if no sleeper is due
    /// by `until`.
    fn wake_next(&self, until: u64) -> bool {
        let mut state = self.state();
        let next = (0..state.sleepers.len()).min_by_key(|at| state.sleepers[*at].0);
        let Some(next) = next.filter(|at| state.sleepers[*at].0 <= until) else { return false };
        let (time, sleeper) = state.sleepers.swap_remove(next);
        state.now = state.now.max(time);
        drop(state);
        // Ignore an error: the receiver may have been dropped.
        let _ = sleeper.send(());
        true
    }

    /// Runs a future to its end, and advances the clock as needed.
    pub(super) fn run<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            let poll = work.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            if let Poll::Ready(done) = poll {
                return done;
            }
            assert!(self.wake_next(u64::MAX), "no task can continue");
        }
    }

    fn is_killed(&self, start: u64) -> bool {
        self.state().killed.contains(&start)
    }

    fn deliver(
        &self,
        (from, to): (usize, usize),
        procedure: u32,
        args: &[u8],
    ) -> Later<Result<Bytes, NoResults>> {
        let (callee, xid, is_strange, delay) = {
            let mut state = self.state();
            state.xid += 1;
            let is_cut = state.cut[from] || state.cut[to];
            let is_strange = state.strange[from] || state.strange[to];
            let callee = state.metaservers[to].clone().filter(|_| !is_cut);
            (callee, Xid(state.xid), is_strange, state.delays.get(&to).copied())
        };
        let Some(callee) = callee else { return Box::pin(async { Err(NoResults::Silence) }) };
        let mut body = Writer::new();
        let machine_name = if is_strange { &b"another"[..] } else { WORD.as_bytes() };
        AuthSys { machine_name, ..AuthSys::default() }.encode(&mut body);
        let body = body.finish().into_bytes();
        let credential = OpaqueAuth { flavor: flavor::SYS, body: &body };
        let (program, version, verifier) = (PROGRAM, VERSION, OpaqueAuth::NONE);
        let mut call = Writer::new();
        Call { xid, program, version, procedure, credential, verifier }.encode(&mut call);
        call.fixed(args);
        let answer = callee.answer(&call.finish().into_bytes(), Writer::new());
        let (lan, start) = (self.clone(), self.state().started.get(&to).copied());
        let reply: Later<_> = Box::pin(async move {
            let answer = answer.await;
            // Drop the answer if the metaserver was killed during the call.
            let answer = answer.filter(|_| start.is_some_and(|start| !lan.is_killed(start)));
            let reply = answer.ok_or(NoResults::Silence)?.into_bytes();
            let mut reader = Reader::new(&reply);
            let head = Reply::decode(&mut reader).map_err(|_| NoResults::Refused)?;
            let is_done = head.status == ReplyStatus::Success;
            if is_done { Ok(reader.rest_shared()) } else { Err(NoResults::Refused) }
        });
        match delay {
            Some(delay) => self.late((from, to), delay, reply),
            None => reply,
        }
    }

    /// Returns the answer after a delay, also if the caller no longer waits.
    fn late(
        &self,
        ends: (usize, usize),
        delay: Duration,
        reply: Later<Result<Bytes, NoResults>>,
    ) -> Later<Result<Bytes, NoResults>> {
        let lan = self.clone();
        let (sender, receiver) = oneshot::channel();
        spawn(async move {
            let reply = reply.await;
            lan.sleep(delay).await;
            *lan.state().came.entry(ends).or_default() += 1;
            let _ = sender.send(reply);
        });
        Box::pin(async { receiver.await.unwrap_or(Err(NoResults::Silence)) })
    }

    fn sleep(&self, span: Duration) -> Later<()> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.state();
        let until = state.now + u64::try_from(span.as_nanos()).expect("not for ever");
        state.sleepers.push((until, sender));
        Box::pin(async {
            let _ = receiver.await;
        })
    }
}

impl Outside for At {
    fn now(&self) -> Time {
        Time::from_nanoseconds(self.lan.state().now)
    }

    fn wall(&self) -> FileTime {
        let now = self.lan.state().now;
        let nanoseconds = u32::try_from(now % 1_000_000_000).expect("it is below");
        FileTime { seconds: 1_700_000_000 + (now / 1_000_000_000).cast_signed(), nanoseconds }
    }

    fn sleep(&self, span: Duration) -> Later<()> {
        if self.lan.state().hurries && span <= HURRY {
            let lan = self.lan.clone();
            return Box::pin(async move { lan.pass(span) });
        }
        self.lan.sleep(span)
    }

    fn call(&self, peer: u32, procedure: u32, args: Bytes) -> Later<Result<Bytes, NoResults>> {
        if self.is_killed() {
            return Box::pin(async { Err(NoResults::Silence) });
        }
        let reply = self.lan.deliver((self.me, peer as usize), procedure, &args);
        if self.lan.give_up.is_none() {
            return reply;
        }
        let end = self.sleep(CALL);
        Box::pin(async move {
            match select(reply, end).await {
                Either::Left((reply, _)) => reply,
                Either::Right(_) => Err(NoResults::Silence),
            }
        })
    }

    fn traffic(&self, peer: u32) -> Traffic {
        let came = self.lan.state().came.get(&(self.me, peer as usize)).copied();
        Traffic { came: came.unwrap_or_default(), ..Traffic::default() }
    }

    fn append(&self, records: Vec<Vec<u8>>, _: Urgency) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        if self.is_killed() {
            return receiver;
        }
        let mut state = self.lan.state();
        let room = state.room.get(&self.me).copied();
        let disk = &mut state.disks[self.me];
        if room.is_none_or(|room| disk.len() + records.len() <= room) {
            disk.extend(records.into_iter().map(Bytes::from));
            let slow = state.slow.get(&self.me).copied();
            drop(state);
            let sleep = slow.map(|span| self.lan.sleep(span));
            spawn(async move {
                if let Some(sleep) = sleep {
                    sleep.await;
                }
                // Ignore an error: the receiver may have been dropped.
                let _ = sender.send(());
            });
        }
        receiver
    }

    fn notice(&self, notice: &Notice) {
        self.lan.state().notices.push(*notice);
    }
}
