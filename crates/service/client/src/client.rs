//! One mounted file system: its cache, its nodes, and the calls that follow from them.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use leasehold_base::attributes::Wcc;
use leasehold_base::random::Random;
use leasehold_base::units::{FileTime, Time};
use leasehold_core::cache::{Asked, Cache, Counters, Effect, Event, ObjectKey, Ticket, Times};
use leasehold_core::leases::Serial;
use leasehold_session::leases::Leases;
use leasehold_session::nfs::{Bounds, Nfs};
use leasehold_session::{Credential, Error, spawn};
use leasehold_wire::nfs3::{self, Handle, Status};

use crate::calls::Call;
use crate::convert;
use crate::layouts::{Layouts, Servers};
use crate::leases::{Errands, Leased, Right};
use crate::names::is_stale;
use crate::nodes::{NodeId, Nodes, Seen};
use crate::open::Opens;
use crate::options::{Options, Variant};
use crate::piggyback::{How, Piggyback};
use crate::refusals::{Refusals, kept};
use crate::rescue::{Refused, Why};
use crate::server_clock::{self, ServerClock};
use crate::silly::Notes;

/// A mounted file system that addresses objects by node. Clones refer to the same client.
///
/// Every operation is a future that is `Send` and independent of any runtime. A future that the
/// cache can answer is ready at its first poll. All other futures wait for a reply, and the
/// session's transport wakes them. If a caller drops a future, the server may or may not perform
/// the operation.
#[derive(Clone)]
pub struct Client {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) nfs: Nfs,
    pub(crate) options: Options,
    pub(crate) bounds: Bounds,
    /// The journal of hidden names (silly renames) that outlives the client, if there is one.
    pub(crate) notes: OnceLock<Arc<dyn Notes>>,
    /// The connections to the iods, if the client uses direct data access.
    pub(crate) servers: OnceLock<Arc<dyn Servers>>,
    state: Mutex<State>,
}

/// The mutable state.
pub(crate) struct State {
    pub(crate) cache: Cache<Error>,
    pub(crate) nodes: Nodes,
    pub(crate) opens: Opens,
    pub(crate) random: Random,
    waiting: BTreeMap<Ticket, Waiting>,
    next_ticket: u64,
    /// The holds that the cache has not granted yet and whose requester has dropped its future. The
    /// client releases such a hold when the cache grants it.
    abandoned: BTreeSet<Ticket>,
    /// The time of the next tick for the cache that the client has scheduled.
    alarm: Option<Time>,
    /// The state of the leases; `None` if this mount does not use leases.
    pub(crate) leases: Option<Leased>,
    /// The cached layouts of files.
    pub(crate) layouts: Layouts,
    /// Refusals of written data that the client has not reported to a program yet.
    pub(crate) refusals: Refusals,
    /// True if the server treats names that differ in case only as one name.
    ignores_case: bool,
    server_clock: ServerClock,
    /// True if no other client changes files behind this client's back: the mount is for a single
    /// client, or uses leases.
    is_alone: bool,
}

#[derive(Default)]
struct Waiting {
    waker: Option<Waker>,
    outcome: Option<Outcome>,
}

/// The result of a wait.
pub(crate) enum Outcome {
    /// The operation has completed.
    Done,
    /// The data that was read, or the error.
    Read(Result<Vec<Bytes>, Error>),
    /// The mode in which the lease permits the operation.
    Leased(Right),
}

/// The actions that [`Client::with`] performs after it has released the mutex of the state.
#[derive(Default)]
pub(crate) struct Actions {
    effects: Vec<Effect<Error>>,
    calls: Vec<Call>,
    pub(crate) wakers: Vec<Waker>,
    pub(crate) errands: Errands,
    /// Data that the server refused.
    refused: Vec<Refused>,
}

impl Client {
    /// Creates the client of the directory `root` and requests the attributes of that directory. A
    /// session that uses the lease program has [`Variant::Lease`]; without that program, the
    /// variant [`Variant::Lease`] becomes close-to-open. By this time the server must have reported
    /// if it grants leases on names as well, because the client does not change this setting later.
    ///
    /// # Errors
    /// The client cannot get the attributes of the directory.
    pub async fn new(
        nfs: Nfs,
        root: Handle,
        bounds: Bounds,
        who: &Credential,
        options: Options,
    ) -> Result<Self, Error> {
        let variant = match (options.variant, nfs.leases()) {
            (_, Some(_)) => Variant::Lease,
            (variant, None) => variant.by_time(),
        };
        let options = Options { variant, ..options };
        let leases_names = nfs.leases().is_some_and(Leases::leases_names);
        let leases = nfs.leases().map(|_| Leased::new(who.clone(), options.term, leases_names));
        let state = State {
            cache: Cache::new(options.of_cache(&bounds, leases_names)),
            nodes: Nodes::new(root),
            opens: Opens::default(),
            random: Random::from_seed(options.seed),
            waiting: BTreeMap::new(),
            next_ticket: 0,
            abandoned: BTreeSet::new(),
            alarm: None,
            leases,
            layouts: Layouts::default(),
            refusals: Refusals::default(),
            ignores_case: bounds.case_insensitive,
            server_clock: ServerClock::default(),
            is_alone: options.variant == Variant::BufferCache,
        };
        let (notes, servers) = (OnceLock::new(), OnceLock::new());
        let shared = Shared { nfs, options, bounds, notes, servers, state: Mutex::new(state) };
        let client = Self { shared: Arc::new(shared) };
        client.listen();
        client.refresh(who, NodeId::ROOT).await?;
        Ok(client)
    }

    /// Returns the options of the client.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.shared.options
    }

    /// Returns the sizes and limits that the server reported in FSINFO.
    #[must_use]
    pub fn bounds(&self) -> &Bounds {
        &self.shared.bounds
    }

    /// Returns the NFS session.
    #[must_use]
    pub fn nfs(&self) -> &Nfs {
        &self.shared.nfs
    }

    /// Returns the counters of the cache.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.shared.state().cache.counters()
    }

    /// Returns the number of cached bytes, and the number of cached bytes that are not yet on the
    /// server's stable storage.
    #[must_use]
    pub fn cached_bytes(&self) -> (u64, u64) {
        self.shared.state().cache.bytes()
    }

    pub(crate) fn caches(&self) -> bool {
        self.shared.options.variant != Variant::None
    }

    /// Applies a change to the state, releases the mutex of the state, and then performs the
    /// resulting actions.
    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut State, Time, &mut Actions) -> T) -> T {
        let now = self.shared.nfs.session().now();
        let mut actions = Actions::default();
        let (changed, alarm) = {
            let mut state = self.shared.state();
            let changed = change(&mut state, now, &mut actions);
            (changed, state.new_alarm(now))
        };
        // The client passes refused data to the rescuer before it wakes the programs, so that the
        // data is safe when a program receives the error.
        self.hand_over(&actions.refused);
        for waker in actions.wakers {
            waker.wake();
        }
        for call in actions.calls {
            spawn(call.run(self.clone()));
        }
        if let Some(alarm) = alarm {
            self.ring_at(now, alarm);
        }
        self.run_errands(actions.errands);
        changed
    }

    /// Returns the estimated time of day by the server's clock, rounded to the resolution of the
    /// server's files.
    pub(crate) fn time_of_day(&self) -> FileTime {
        let here = (self.shared.options.time_of_day)();
        let clock = self.shared.state().server_clock;
        clock.at(here, self.time_step_nanoseconds())
    }

    /// Rounds a time to the resolution of the server's files and to the range of the protocol.
    pub(crate) fn kept_time(&self, time: FileTime) -> FileTime {
        server_clock::kept(convert::said(time), self.time_step_nanoseconds())
    }

    fn time_step_nanoseconds(&self) -> u64 {
        let step = self.shared.bounds.time_step;
        u64::from(step.seconds) * 1_000_000_000 + u64::from(step.nanoseconds)
    }

    /// Updates the estimate of the server's clock from the reply to a change that the client sent
    /// at `sent`.
    pub(crate) fn note_server_clock(&self, sent: FileTime, wcc: &nfs3::Wcc) {
        let answered = (self.shared.options.time_of_day)();
        let Wcc { before, after } = convert::wcc(wcc);
        if let (Some(before), Some(after)) = (before, after)
            && before.changed != after.changed
        {
            self.shared.state().server_clock.note((sent, answered), after.changed);
        }
    }

    /// Passes an event to the cache.
    pub(crate) fn step(&self, event: Event<Error>) {
        self.with(|state, now, actions| state.step(now, event, actions));
    }

    /// The time stamp with which the cache orders a request to the server.
    pub(crate) fn ask(&self) -> Asked {
        self.with(|state, now, _| state.cache.ask(now))
    }

    /// Passes an event to the cache and waits for its result.
    pub(crate) fn request(&self, event: impl FnOnce(Ticket) -> Event<Error>) -> Wait {
        Wait { client: self.clone(), ticket: self.begin(event) }
    }

    /// Runs `work` to completion, even if the caller drops the returned future.
    pub(crate) async fn to_the_end<T: Send + Sync + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let ticket = self.with(|state, _, _| state.new_ticket());
        let wait = Wait::new(self, ticket);
        let (done, client) = (Arc::new(OnceLock::new()), self.clone());
        let told = Arc::clone(&done);
        spawn(async move {
            let _ = told.set(work.await);
            drop(told);
            client.with(|state, _, actions| state.answer(ticket, Outcome::Done, actions));
        });
        wait.await;
        let done = Arc::into_inner(done).and_then(OnceLock::into_inner);
        done.expect("the task sets the result before it wakes the waiter")
    }

    fn begin(&self, event: impl FnOnce(Ticket) -> Event<Error>) -> Ticket {
        self.with(|state, now, actions| {
            let ticket = state.new_ticket();
            state.step(now, event(ticket), actions);
            ticket
        })
    }

    fn ring_at(&self, now: Time, alarm: Time) {
        let weak = Arc::downgrade(&self.shared);
        let sleep = self.shared.nfs.session().sleep(alarm.since(now));
        spawn(async move {
            sleep.await;
            if let Some(shared) = weak.upgrade() {
                Self { shared }.with(|state, now, actions| {
                    state.alarm = None;
                    state.step(now, Event::Tick, actions);
                    state.lease(now, leasehold_core::leases::holder::Event::Tick, actions);
                });
            }
        });
    }

    /// Returns the handle of a node.
    pub(crate) fn handle(&self, node: NodeId) -> Result<Handle, Error> {
        self.shared.state().nodes.handle(node).ok_or(Error::Failed(Status::Stale))
    }

    /// Converts a failure of an operation on a node. If the object is gone, the client forgets it,
    /// so that the next use looks it up again.
    pub(crate) fn failed(&self, node: NodeId, status: Status) -> Error {
        if is_stale(status) {
            self.with(|state, now, actions| {
                let above = state.nodes.above(node);
                state.step(now, Event::Invalidate { object: node.key() }, actions);
                // Another client may also have renamed or replaced the parent directories, so the
                // client no longer trusts their cached attributes.
                for directory in above {
                    state.step(now, Event::Distrust { object: directory.key() }, actions);
                }
            });
        }
        Error::Failed(status)
    }

    /// Passes the attributes in a reply to the cache.
    pub(crate) fn observe(&self, node: NodeId, asked: Asked, seen: Option<&nfs3::Attributes>) {
        self.with(|state, now, actions| {
            state.observe(now, (node, asked), seen, actions);
        });
    }

    /// Returns the attributes of a node if the client may trust them and their times are final.
    #[must_use]
    pub fn seen(&self, node: NodeId) -> Option<Seen> {
        let seen = self.with(|state, now, _| state.shown(now, node))?;
        (!seen.trusted_for.is_zero()).then_some(seen)
    }

    /// Requests the attributes of a node.
    pub(crate) async fn refresh(&self, who: &Credential, node: NodeId) -> Result<Seen, Error> {
        let (handle, asked) = (self.handle(node)?, self.ask());
        match self.shared.nfs.getattr(who, &handle).await? {
            nfs3::Reply::Done(done) => {
                self.observe(node, asked, Some(&done.attributes));
                let seen = self.with(|state, now, _| state.seen(now, node));
                seen.ok_or(Error::Failed(Status::Stale))
            }
            nfs3::Reply::Failed(status, ()) => Err(self.failed(node, status)),
        }
    }

    /// Records that a change of an object has started. The change ends when the returned guard is
    /// finished or dropped.
    pub(crate) fn begin_change(&self, node: NodeId) -> Change {
        self.with(|state, now, actions| {
            state.step(now, Event::BeginChange { object: node.key() }, actions);
            state.changing(now, node, actions);
        });
        self.change_of(node, true)
    }

    fn change_of(&self, node: NodeId, is_cached: bool) -> Change {
        let (asked, lease) =
            self.with(|state, now, _| (state.cache.ask(now), state.last_lease(node)));
        let sent = (self.shared.options.time_of_day)();
        Change { client: self.clone(), node: Some(node), is_cached, sent, asked, lease }
    }

    /// Like [`Self::begin_change`], for an object that the call changes only as a side effect, such
    /// as the link count of a file whose name the call removes. The cache receives no event for the
    /// start of such a change.
    pub(crate) fn begin_touch(&self, node: NodeId) -> Change {
        self.with(|state, now, actions| state.changing(now, node, actions));
        self.change_of(node, false)
    }

    /// Waits until the server has all written data of a file, and blocks writes to the file until
    /// the guard is dropped.
    pub(crate) async fn hold(&self, node: NodeId) -> Hold {
        let ticket = self.begin(|ticket| Event::Hold { ticket, file: node.key() });
        let hold = Hold { client: self.clone(), ticket, node };
        core::future::poll_fn(|context| self.poll(ticket, context)).await;
        hold
    }
}

impl Shared {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // The poison of the mutex is ignored: a panic under the mutex is a bug, and the next step
        // that meets the same state panics again.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Passes an event to the cache and collects the resulting actions.
    pub(crate) fn step(&mut self, now: Time, event: Event<Error>, actions: &mut Actions) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            if let Event::Forget { object } = event {
                self.release_lease(now, NodeId::of(object), actions);
            }
            self.cache.step(now, event, &mut actions.effects);
            for effect in core::mem::take(&mut actions.effects) {
                events.extend(self.follow(now, effect, actions));
            }
        }
    }

    /// Performs an effect of the cache. Returns the next event for the cache, if there is one.
    fn follow(
        &mut self,
        now: Time,
        effect: Effect<Error>,
        actions: &mut Actions,
    ) -> Option<Event<Error>> {
        match effect {
            Effect::Fetch { .. }
            | Effect::Store { .. }
            | Effect::Commit { .. }
            | Effect::Alter { .. } => match Call::new(&self.nodes, effect) {
                Ok(call) => {
                    actions.calls.push(call);
                    None
                }
                Err(refused) => Some(*refused),
            },
            Effect::Read { ticket, result } => {
                self.answer(ticket, Outcome::Read(result), actions);
                None
            }
            Effect::Wrote { ticket } | Effect::Synced { ticket } => {
                self.answer(ticket, Outcome::Done, actions);
                None
            }
            Effect::Refused { file, offset, data, error } => {
                self.refuse(now, NodeId::of(file), (offset, data), error, actions);
                None
            }
            Effect::Held { ticket, file } => {
                if self.abandoned.remove(&ticket) {
                    return Some(Event::Release { file });
                }
                self.answer(ticket, Outcome::Done, actions);
                None
            }
            Effect::Idle { object } => self.forget_unused(NodeId::of(object)),
        }
    }

    /// Keeps data that the server refused, with the reason.
    fn refuse(
        &mut self,
        now: Time,
        node: NodeId,
        data: (u64, Bytes),
        error: Error,
        actions: &mut Actions,
    ) {
        self.refusals.failed(now, &error);
        let late = self.leases.as_ref().and_then(|leased| leased.why_late(node, &error));
        let path = self.nodes.path(node);
        actions.refused.extend(kept((node, path), data, late.unwrap_or(Why::Failed(error))));
    }

    /// Creates a ticket for a new wait.
    pub(crate) fn new_ticket(&mut self) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.waiting.insert(ticket, Waiting::default());
        ticket
    }

    /// Cancels a wait.
    pub(crate) fn end_wait(&mut self, ticket: Ticket) {
        self.waiting.remove(&ticket);
    }

    pub(crate) fn answer(&mut self, ticket: Ticket, outcome: Outcome, actions: &mut Actions) {
        if let Some(waiting) = self.waiting.get_mut(&ticket) {
            waiting.outcome = Some(outcome);
            actions.wakers.extend(waiting.waker.take());
        }
    }

    /// Forgets a node that has no reference, no cached name and no unsaved data.
    pub(crate) fn forget_unused(&mut self, node: NodeId) -> Option<Event<Error>> {
        let object = node.key();
        let used = self.cache.is_named(object) || self.cache.is_unsaved(object);
        (!used && self.nodes.remove_unused(node)).then_some(Event::Forget { object })
    }

    /// Returns the cached attributes of a node.
    pub(crate) fn seen(&self, now: Time, node: NodeId) -> Option<Seen> {
        let (mut attributes, trusted_for) = self.cache.attributes(now, node.key())?;
        if self.nodes.is_removed(node) {
            // The server also counts the hidden name of a silly rename, which programs must not see
            // in the link count.
            attributes.link_count = attributes.link_count.saturating_sub(1);
        }
        let usable = self.usable_until(now, node).map_or(Duration::ZERO, |until| until.since(now));
        Some(Seen { attributes, trusted_for: trusted_for.min(usable) })
    }

    /// Returns the attributes of a node, with the time for which a kernel may show them to
    /// programs.
    pub(crate) fn shown(&self, now: Time, node: NodeId) -> Option<Seen> {
        let seen = self.seen(now, node)?;
        Some(Seen { trusted_for: self.shown_for(node, seen.trusted_for), ..seen })
    }

    /// Returns the time for which a kernel may show the attributes of a node to programs without a
    /// request to the client. The result is at most `trusted_for`, and zero while the times of the
    /// node are not final.
    pub(crate) fn shown_for(&self, node: NodeId, trusted_for: Duration) -> Duration {
        match self.cache.times(node.key(), FileTime::default()) {
            Times::Known => trusted_for,
            Times::Estimated | Times::Unclear => Duration::ZERO,
        }
    }

    /// Makes the times of a node final if this requires no call to the server: the times that
    /// programs see are then the times that the file will have at the server. Returns true if the
    /// times are final.
    pub(crate) fn settle_times(
        &mut self,
        now: Time,
        (node, at): (NodeId, FileTime),
        actions: &mut Actions,
    ) -> bool {
        let file = node.key();
        let is_settled = match self.cache.times(file, at) {
            Times::Known => true,
            Times::Estimated => self.may_set_times(now, node),
            Times::Unclear => false,
        };
        if is_settled && self.cache.is_unsaved(file) {
            self.step(now, Event::Show { file }, actions);
        }
        is_settled
    }

    /// Returns true if the client can set times of a file after it has sent the written data: no
    /// other client writes to the file unseen, and the client sends the data as the file's owner.
    fn may_set_times(&self, now: Time, node: NodeId) -> bool {
        let is_alone = match self.leases {
            Some(_) => self.is_by_lease(node) && self.covers_setting(now, node, false),
            None => self.is_alone,
        };
        let owner = self.cache.attributes(now, node.key()).map(|(known, _)| known.uid);
        let writer = self.nodes.get(node).map(|node| node.writer().uid());
        is_alone && owner.is_some() && owner == writer
    }

    /// Returns the cached target of a name; the inner `None` is a cached absence.
    pub(crate) fn find(
        &mut self,
        now: Time,
        directory: NodeId,
        name: &[u8],
    ) -> Option<Option<NodeId>> {
        self.usable_until(now, directory)?;
        let target = self.cache.find(now, directory.key(), name)?;
        // If the server ignores case, a name with another spelling may exist, so a cached absence
        // of the name is not reliable.
        if target.is_none() && self.ignores_case {
            return None;
        }
        Some(target.map(NodeId::of))
    }

    /// Passes the attributes of a node in a reply to the cache.
    pub(crate) fn observe(
        &mut self,
        now: Time,
        (node, asked): (NodeId, Asked),
        seen: Option<&nfs3::Attributes>,
        actions: &mut Actions,
    ) {
        // If the client has forgotten the node while the request was in progress, the attributes
        // are dropped.
        if let Some(seen) = seen.filter(|_| self.nodes.get(node).is_some()) {
            let attributes = convert::attributes(seen);
            self.step(now, Event::Observed { object: node.key(), asked, attributes }, actions);
        }
    }

    /// Returns the time of the next tick if it precedes the scheduled alarm.
    fn new_alarm(&mut self, now: Time) -> Option<Time> {
        let of_leases = self.leases.as_ref().and_then(Leased::next_wake);
        let wake = self.cache.next_wake().into_iter().chain(of_leases).min()?.max(now);
        if self.alarm.is_some_and(|alarm| alarm <= wake) {
            return None;
        }
        self.alarm = Some(wake);
        Some(wake)
    }

    fn abandon(&mut self, now: Time, ticket: Ticket, node: NodeId, actions: &mut Actions) {
        let waited = self.waiting.remove(&ticket);
        if waited.is_none_or(|waiting| waiting.outcome.is_some()) {
            self.step(now, Event::Release { file: node.key() }, actions);
        } else {
            self.abandoned.insert(ticket);
        }
    }
}

/// A future that completes with the result of a request to the cache.
pub(crate) struct Wait {
    client: Client,
    ticket: Ticket,
}

impl Wait {
    pub(crate) fn new(client: &Client, ticket: Ticket) -> Self {
        Self { client: client.clone(), ticket }
    }
}

impl Client {
    fn poll(&self, ticket: Ticket, context: &Context<'_>) -> Poll<Outcome> {
        let mut state = self.shared.state();
        let waiting = state.waiting.get_mut(&ticket).expect("a ticket is waited for once");
        match waiting.outcome.take() {
            Some(outcome) => {
                state.waiting.remove(&ticket);
                Poll::Ready(outcome)
            }
            None => {
                waiting.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Future for Wait {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        self.client.poll(self.ticket, context)
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.client.with(|state, now, actions| {
            state.waiting.remove(&self.ticket);
            state.give_up_use(now, self.ticket, actions);
        });
    }
}

/// A change of an object in progress.
pub(crate) struct Change {
    client: Client,
    node: Option<NodeId>,
    /// True if the cache has received the start of the change.
    is_cached: bool,
    /// The time at which the client sent the change, by this machine's clock.
    sent: FileTime,
    /// The time stamp of the start of the change, by which the cache orders the reply.
    asked: Asked,
    /// The last lease on the object at the start of the change.
    lease: Option<Serial>,
}

impl Change {
    /// Records the server's reply to the change; `place` is the position of the object in the call.
    /// Returns the time stamp for the names in the reply. If the client still holds the lease that
    /// it held at the start of the change, the time stamp is the present time. Otherwise it is the
    /// start of the change, because other clients may have changed the names before the new lease
    /// was granted.
    pub(crate) fn finish(
        mut self,
        wcc: &nfs3::Wcc,
        (piggyback, place): (&Piggyback, u32),
    ) -> Asked {
        self.client.note_server_clock(self.sent, wcc);
        self.end(convert::wcc(wcc), piggyback.change(place))
    }

    /// Like [`Self::finish`], for a change from [`Client::begin_touch`].
    pub(crate) fn touched(mut self, (piggyback, place): (&Piggyback, u32)) {
        self.end(Wcc::default(), piggyback.change(place));
    }

    fn end(&mut self, wcc: Wcc, how: How) -> Asked {
        let Some(node) = self.node.take() else { return self.asked };
        self.client.with(|state, now, actions| {
            let may_keep = state.may_keep(node, self.lease, how);
            if self.is_cached {
                state.step(now, Event::EndChange { object: node.key(), wcc }, actions);
            }
            state.layouts.changed(node, actions);
            state.changed(now, node, how, actions);
            if may_keep { state.cache.ask(now) } else { self.asked }
        })
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        self.end(Wcc::default(), How::Unknown);
    }
}

/// A hold on a file: while the value exists, the cache accepts no writes to the file.
pub(crate) struct Hold {
    client: Client,
    ticket: Ticket,
    node: NodeId,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.client.with(|state, now, actions| {
            state.abandon(now, self.ticket, self.node, actions);
        });
    }
}

/// Conversion between a node and its key in the cache.
impl NodeId {
    pub(crate) const fn key(self) -> ObjectKey {
        ObjectKey(self.0)
    }

    pub(crate) const fn of(object: ObjectKey) -> Self {
        Self(object.0)
    }
}
