//! The client's side of the lease program: the client uses cached data while it holds a lease on
//! the object, and returns the lease when the server recalls it.
//!
//! The rules are in `leasehold_core::leases::holder`; this module connects them with the cache and
//! with calls. An operation first acquires its lease ([`Client::lease`]). With a cachable lease it
//! uses cached data of any age; otherwise it sends calls. Leases also come with the replies to
//! other calls ([`crate::piggyback`]).
//!
//! A server may lease regular files only (`spec/lease.x`, rule 27). Other objects are then cached
//! by time, as in close-to-open ([`State::is_by_lease`]). A cached name may therefore refer to a
//! replaced file, so the client does not discard the unsaved data of a file when its name is
//! removed.

mod background;
mod callbacks;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use core::pin::pin;
use core::time::Duration;

use futures_util::future::select;
use leasehold_base::attributes::FileType;
use leasehold_base::limits::durations::GOODBYE_TIMEOUT;
use leasehold_base::units::{FileId, FileSystemId, Time};
use leasehold_core::cache::{self, Asked, Ticket};
use leasehold_core::leases::holder::{self, Holder, Request};
use leasehold_core::leases::table::Grant;
use leasehold_core::leases::{self, Kind, Modrev, Object, Open, Serial};
use leasehold_session::leases::messages::leases::{Held, Progress, Returned, Wanted};
use leasehold_session::leases::messages::{self, Base, Terms};
use leasehold_session::{Credential, Error};
use leasehold_wire::nfs3::{self, Handle, Status};

use crate::client::{Actions, Client, Outcome, State, Wait};
use crate::listed::Listings;
use crate::nodes::NodeId;
use crate::options::Variant;
use crate::piggyback::{FIRST, How, Piggyback};
use crate::rescue::Why;
use background::Errand;
pub(crate) use background::Errands;

/// The extra space in a lease request, so that a writer does not send a request for each write.
const SPACE_AHEAD: u64 = 256 << 10;

/// After the server has refused a WRITE as late, the interval of checks for the end of the other
/// WRITEs of the file.
const GLANCE: Duration = Duration::from_millis(10);

/// The mode in which an operation runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    /// The operation may use cached data.
    Use,
    /// The operation must use calls to the server and no cached data.
    Through,
    /// The operation must use calls, because the server reserves no space for written data: only
    /// the reply to a WRITE reports that the disk is full.
    Full,
}

/// The leases of a client.
pub(crate) struct Leased {
    /// The term of requested leases.
    term: Duration,
    /// True if the server grants leases on all objects, including directories. False if it leases
    /// regular files only.
    names: bool,
    holder: Holder,
    /// The handle and the credential of each node on which the client has requested a lease.
    pub(crate) asked_of: BTreeMap<NodeId, (Handle, Credential)>,
    /// The waiting operations and their nodes.
    uses: BTreeMap<Ticket, NodeId>,
    progress: Progress,
    /// The answer to the server's current REPORT, from the step that processes it to the callback
    /// that sends it.
    reported: Option<bool>,
    /// Files whose data the server refused as late, with the reason of the refusal.
    late: BTreeMap<NodeId, Why>,
    /// Cached directory listings.
    pub(crate) listings: Listings,
    /// The files that this client created, each with the lease that the reply to CREATE contained.
    made: BTreeMap<NodeId, Serial>,
    /// The number of WRITEs in progress for each file.
    writing: BTreeMap<NodeId, u32>,
    /// True while a task informs the server of a new connection, so that the client starts only one
    /// such task at a time.
    calling: bool,
    /// The credential for lease returns.
    who: Credential,
    /// The other cache, such as the kernel's cache, that contains copies of the cached data.
    watcher: Option<Arc<dyn Watcher>>,
}

/// Another cache with copies of the client's data, such as a kernel. The other cache must drop its
/// copies when the server recalls the lease or when the lease is about to expire.
pub trait Watcher: Send + Sync {
    /// Requests that the other cache drops its copies of a node. The implementation must call
    /// [`Client::withdrawn`] afterwards. This method must not block.
    fn withdraw(&self, client: &Client, node: NodeId);

    /// Reports that the cached data of a node was stale. Copies of the data, and of the names in a
    /// directory, are then stale as well. This method must not block.
    fn replaced(&self, client: &Client, node: NodeId);
}

/// Returns the key of a node in the lease state machine.
pub(crate) const fn object_of(node: NodeId) -> Object {
    Object { file_system: FileSystemId(0), file: FileId(node.0) }
}

const fn node_of(object: Object) -> NodeId {
    NodeId(object.file.0)
}

impl Leased {
    pub(crate) fn new(who: Credential, term: Duration, names: bool) -> Self {
        Self {
            term,
            names,
            holder: Holder::new(),
            asked_of: BTreeMap::new(),
            uses: BTreeMap::new(),
            progress: Progress::Recovered,
            reported: None,
            late: BTreeMap::new(),
            listings: Listings::default(),
            made: BTreeMap::new(),
            writing: BTreeMap::new(),
            calling: false,
            who,
            watcher: None,
        }
    }

    pub(crate) fn next_wake(&self) -> Option<Time> {
        self.holder.next_wake()
    }

    /// Returns the kind and the sequence number of the lease on a node, if the lease permits
    /// caching and is not under recall.
    pub(crate) fn cachable(&self, now: Time, node: NodeId) -> Option<(Kind, Serial)> {
        self.holder.cachable(now, object_of(node))
    }

    /// Returns the reason of a refusal with this error, if the server refused the data of a file as
    /// late.
    pub(crate) fn why_late(&self, node: NodeId, error: &Error) -> Option<Why> {
        let is_late = matches!(error, Error::Failed(Status::NotSynchronized));
        self.late.get(&node).filter(|_| is_late).cloned()
    }

    fn wanted(&self, node: NodeId, kind: Kind, space: u64, reclaim: bool) -> Option<Wanted> {
        let (object, _) = self.asked_of.get(&node)?;
        Some(Wanted { object: *object, terms: terms(self.term, kind, space), reclaim })
    }
}

pub(crate) fn terms(term: Duration, kind: Kind, space: u64) -> Terms {
    let (kind, space) = match kind {
        Kind::Read => (messages::Kind::Read, 0),
        Kind::Write => (messages::Kind::Write, space.saturating_add(SPACE_AHEAD)),
    };
    let term_ms = u32::try_from(term.as_millis()).unwrap_or(u32::MAX);
    Terms { kind, term_ms, opportune: false, space }
}

const fn grant_of(grant: &messages::Grant) -> (Grant, Modrev) {
    let kind = match grant.kind {
        messages::Kind::Read => Kind::Read,
        messages::Kind::Write => Kind::Write,
    };
    let term = Duration::from_millis(grant.term_ms as u64);
    let messages::Grant { cachable, space, .. } = *grant;
    (Grant { kind, cachable, term, serial: Serial(grant.serial), space }, Modrev(grant.modrev))
}

impl State {
    /// Passes an event to the lease holder and collects the resulting actions.
    pub(crate) fn lease(&mut self, now: Time, event: holder::Event, actions: &mut Actions) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let Some(leased) = &mut self.leases else { return };
            let mut effects = Vec::new();
            leased.holder.step(now, event, &mut effects);
            for effect in effects {
                events.extend(self.follow_lease(now, effect, actions));
            }
        }
    }

    /// Performs an effect of the lease holder. Returns the next event for the lease holder, if
    /// there is one.
    fn follow_lease(
        &mut self,
        now: Time,
        effect: holder::Effect,
        actions: &mut Actions,
    ) -> Option<holder::Event> {
        let leased = self.leases.as_mut()?;
        match effect {
            holder::Effect::Use(ticket) => self.right(ticket, Right::Use, actions),
            holder::Effect::Through(ticket) => self.right(ticket, Right::Through, actions),
            holder::Effect::Full(ticket) => self.right(ticket, Right::Full, actions),
            holder::Effect::Ask { request, object, kind, space, reclaim } => {
                let node = node_of(object);
                // Unsent data uses the reserved space as well. The client requests space for twice
                // the amount of unsent data: otherwise a writer that fills the cache would need a
                // new request for each write, and the reply to the request would arrive behind the
                // queued data.
                let unsaved = self.cache.unsaved_bytes(node.key());
                let space = space.saturating_add(unsaved.saturating_mul(2));
                let Some(wanted) = leased.wanted(node, kind, space, reclaim) else {
                    return Some(holder::Event::Answered(request, None));
                };
                let who = leased.asked_of.get(&node).map(|(_, who)| who.clone());
                let who = who.unwrap_or_else(|| leased.who.clone());
                actions.errands.asks.push(Errand { request, node, who, wanted });
            }
            holder::Effect::Withdraw(object) => match &leased.watcher {
                Some(_) => {
                    actions.errands.withdraws.push(node_of(object));
                    self.do_without(now, node_of(object), actions);
                }
                None => return Some(holder::Event::Withdrawn(object)),
            },
            holder::Effect::Push(object, ..) => actions.errands.pushes.push(node_of(object)),
            holder::Effect::Drop(object) => {
                if leased.watcher.is_some() {
                    actions.errands.replaced.push(node_of(object));
                }
                // If the client has already forgotten the node, the cache has no state of the node
                // to invalidate.
                if self.nodes.get(node_of(object)).is_some() {
                    let object = node_of(object).key();
                    self.step(now, cache::Event::Replaced { object }, actions);
                }
            }
            // The cache passed the data to the rescuer when the server refused it, so nothing
            // remains to be done.
            holder::Effect::Rescue(..) => {}
            holder::Effect::Report(_, _, _, held) => leased.reported = Some(held),
            holder::Effect::Return(object, serial, open) => {
                let node = node_of(object);
                if let Some((object, _)) = leased.asked_of.get(&node) {
                    actions.errands.returns.push(returned(*object, serial, open));
                }
            }
            holder::Effect::Reclaimed => {
                if leased.progress == Progress::Reclaiming {
                    leased.progress = Progress::Reclaimed;
                    actions.errands.progressed = true;
                }
            }
            holder::Effect::Recovered => {
                leased.progress = Progress::Recovered;
                actions.errands.progressed = true;
            }
        }
        None
    }

    fn right(&mut self, ticket: leases::Ticket, right: Right, actions: &mut Actions) {
        let ticket = Ticket(ticket.0);
        if let Some(leased) = &mut self.leases {
            leased.uses.remove(&ticket);
        }
        self.answer(ticket, Outcome::Leased(right), actions);
    }

    /// Returns true if the cached state of a node is valid only under a lease. An object of unknown
    /// type may be a regular file.
    pub(crate) fn is_by_lease(&self, node: NodeId) -> bool {
        let may_be_file =
            || self.cache.file_type(node.key()).is_none_or(|known| known == FileType::Regular);
        self.leases.as_ref().is_some_and(|leased| leased.names || may_be_file())
    }

    /// Returns true if a cached name certainly refers to its file, so that the client may discard
    /// the unsaved data of the file when it removes the last name. With leases on regular files
    /// only, names are cached by time and are not certain. Without leases the client sends the data
    /// when the file is closed, so little data is at risk.
    pub(crate) fn names_are_certain(&self) -> bool {
        self.leases.as_ref().is_none_or(|leased| leased.names)
    }

    /// Returns the time until which the cached state of a node is usable. The time has no limit if
    /// the state depends on no lease.
    pub(crate) fn usable_until(&self, now: Time, node: NodeId) -> Option<Time> {
        match &self.leases {
            Some(leased) if self.is_by_lease(node) => {
                leased.holder.usable_until(now, object_of(node))
            }
            Some(_) | None => Some(Time::from_nanoseconds(u64::MAX)),
        }
    }

    /// Returns the lease and the modrev on which a change of a node's data is based.
    pub(crate) fn base(&self, node: NodeId) -> Option<Base> {
        let (serial, modrev) = self.leases.as_ref()?.holder.base(object_of(node))?;
        Some(Base { serial: serial.0, modrev: modrev.0 })
    }

    /// Returns the last lease on a node, if the cached state of the node depends on leases.
    pub(crate) fn last_lease(&self, node: NodeId) -> Option<Serial> {
        self.leases.as_ref()?.holder.last_lease(object_of(node))
    }

    /// Returns true if the client may cache the reply to a change of a node. `since` is the last
    /// lease on the node when the change began, and `how` is the effect that the reply reports.
    pub(crate) fn may_keep(&self, node: NodeId, since: Option<Serial>, how: How) -> bool {
        let holder = self.leases.as_ref().map(|leased| &leased.holder);
        holder.is_none_or(|holder| holder.may_keep(object_of(node), since, how.modrevs()))
    }

    /// Processes the grant of a lease. Invalidates state that was cached before the first lease.
    /// With a new lease, records the attributes in the reply, unless this client has changed the
    /// object since it sent the request.
    pub(crate) fn granted(
        &mut self,
        now: Time,
        (node, event): (NodeId, holder::Event),
        (asked, attributes): (Asked, Option<&nfs3::Attributes>),
        actions: &mut Actions,
    ) {
        let object = object_of(node);
        let lease_of = |state: &Self| {
            let holder = &state.leases.as_ref()?.holder;
            Some((holder.held(now, object).map(|(_, serial, _)| serial), holder.base(object)))
        };
        let Some((serial, base)) = lease_of(self) else { return };
        let is_current = self.cache.is_current(node.key(), asked);
        self.lease(now, event, actions);
        let Some((new_serial, new_base)) = lease_of(self) else { return };
        if base.is_none() && new_base.is_some() {
            self.step(now, cache::Event::Replaced { object: node.key() }, actions);
        }
        if serial != new_serial && new_serial.is_some() && attributes.is_some() && is_current {
            let asked = self.cache.ask(now);
            self.observe(now, (node, asked), attributes, actions);
        }
    }

    /// Converts a grant of a lease on a node. Subtracts the number of unsaved bytes from the space
    /// in the grant.
    pub(crate) fn grant_for(&self, node: NodeId, grant: &messages::Grant) -> (Grant, Modrev) {
        let (grant, modrev) = grant_of(grant);
        let space = grant.space.saturating_sub(self.cache.unsaved_bytes(node.key()));
        (Grant { space, ..grant }, modrev)
    }

    /// Processes the reply to a lease request. If the reply contains no grant, the waiting
    /// operations continue with calls to the server.
    fn answered(
        &mut self,
        now: Time,
        (node, asked, request): (NodeId, Asked, Request),
        held: Option<&Held>,
        actions: &mut Actions,
    ) {
        let grant = held.map(|held| self.grant_for(node, &held.grant));
        let attributes = held.and_then(|held| held.attributes.as_ref());
        let event = holder::Event::Answered(request, grant);
        if held.is_none() {
            self.do_without(now, node, actions);
        }
        self.granted(now, (node, event), (asked, attributes), actions);
    }

    fn do_without(&mut self, now: Time, node: NodeId, actions: &mut Actions) {
        let Some(leased) = &self.leases else { return };
        let uses = leased.uses.iter().filter(|(_, of)| **of == node);
        let tickets: Vec<Ticket> = uses.map(|(ticket, _)| *ticket).collect();
        for ticket in tickets {
            let ticket = leases::Ticket(ticket.0);
            self.lease(now, holder::Event::GivenUp(ticket, object_of(node)), actions);
            self.right(ticket, Right::Through, actions);
        }
    }

    /// Removes a waiting operation.
    pub(crate) fn give_up_use(&mut self, now: Time, ticket: Ticket, actions: &mut Actions) {
        let node = self.leases.as_mut().and_then(|leased| leased.uses.remove(&ticket));
        if let Some(node) = node {
            let ticket = leases::Ticket(ticket.0);
            self.lease(now, holder::Event::GivenUp(ticket, object_of(node)), actions);
        }
    }

    /// Reports the current open mode of a node to the lease holder.
    pub(crate) fn note_open(&mut self, now: Time, node: NodeId, actions: &mut Actions) {
        if self.leases.is_some() {
            let open = self.opens.of(node);
            self.lease(now, holder::Event::Opened(object_of(node), open), actions);
        }
    }

    /// Releases the lease on a node that the client forgets.
    pub(crate) fn release_lease(&mut self, now: Time, node: NodeId, actions: &mut Actions) {
        if self.leases.is_some() {
            self.layouts.forget(node, actions);
            if !self.cache.is_unsaved(node.key()) {
                // The data was discarded, so a recall need not wait for the data to be sent.
                self.lease(now, holder::Event::Pushed(object_of(node)), actions);
            }
            self.lease(now, holder::Event::Released(object_of(node)), actions);
            if let Some(leased) = &mut self.leases {
                leased.made.remove(&node);
                if leased.holder.base(object_of(node)).is_none() {
                    leased.asked_of.remove(&node);
                }
            }
        }
    }

    /// Records that the creation of a file returned a write lease.
    pub(crate) fn note_made(&mut self, now: Time, node: NodeId) {
        if let Some(leased) = &mut self.leases
            && let Some((Kind::Write, serial, _)) = leased.holder.held(now, object_of(node))
        {
            leased.made.insert(node, serial);
        }
    }

    /// Returns true if a lease permits a local change of a file's times. With `mode`, returns true
    /// if a lease permits a local change of the file's mode: only the lease that the creation of
    /// the file returned does.
    pub(crate) fn covers_setting(&self, now: Time, node: NodeId, mode: bool) -> bool {
        let Some(leased) = &self.leases else { return false };
        let held = leased.holder.held(now, object_of(node));
        let made = held.is_some_and(|(_, serial, _)| leased.made.get(&node) == Some(&serial));
        leased.holder.can_write(now, object_of(node), 0) && (made || !mode)
    }

    /// Records the start of a call that changes a node.
    pub(crate) fn changing(&mut self, now: Time, node: NodeId, actions: &mut Actions) {
        self.lease(now, holder::Event::Changing(object_of(node)), actions);
    }

    /// Records the end of a call that changes a node.
    pub(crate) fn changed(&mut self, now: Time, node: NodeId, how: How, actions: &mut Actions) {
        let object = object_of(node);
        let unchanged = |base: Base| (Modrev(base.modrev), Modrev(base.modrev));
        let modrevs = if how == How::Not { self.base(node).map(unchanged) } else { how.modrevs() };
        self.lease(now, holder::Event::Changed(object, modrevs), actions);
    }

    /// Records that the server has a part of the written data.
    pub(crate) fn wrote(&mut self, now: Time, node: NodeId, how: How, actions: &mut Actions) {
        if let Some((before, after)) = how.modrevs() {
            self.lease(now, holder::Event::Wrote(object_of(node), before, after), actions);
        }
    }

    /// Completes a pending push (write-back before the return of a lease) if the file has no
    /// unsaved data left.
    pub(crate) fn note_saved(&mut self, now: Time, node: NodeId, actions: &mut Actions) {
        let object = object_of(node);
        let dirty = self.leases.as_ref().is_some_and(|leased| leased.holder.is_dirty(object));
        if dirty && !self.cache.is_unsaved(node.key()) {
            self.lease(now, holder::Event::Sync(object), actions);
        }
    }

    fn begin_write(&mut self, node: NodeId) -> Option<Base> {
        if let Some(leased) = &mut self.leases {
            *leased.writing.entry(node).or_default() += 1;
        }
        self.base(node)
    }

    fn end_write(&mut self, node: NodeId) {
        let Some(leased) = &mut self.leases else { return };
        if let Some(writing) = leased.writing.get_mut(&node) {
            *writing -= 1;
            if *writing == 0 {
                leased.writing.remove(&node);
            }
        }
    }

    /// Returns true if the client is about to learn the modrev that results from its own changes of
    /// a file: from the reply to a WRITE, or from the reclaim of the lease.
    fn is_to_be_told(&self, node: NodeId) -> bool {
        self.leases.as_ref().is_some_and(|leased| {
            leased.writing.contains_key(&node) || leased.holder.is_reclaiming(object_of(node))
        })
    }

    /// Records that the server refused data of a file as late.
    pub(crate) fn note_late(&mut self, node: NodeId, base: Option<Base>, found: u64) {
        if let Some(leased) = &mut self.leases {
            let made_from = base.map_or(0, |base| base.modrev);
            leased.late.insert(node, Why::Late { made_from, found });
        }
    }
}

/// A call that may change a file. If the server refuses another write of this client as late while
/// such a call is in progress, the client waits for the reply of this call and retries the write.
pub(crate) struct Writing<'a> {
    client: &'a Client,
    node: NodeId,
    /// The lease and the modrev on which the call is based.
    pub(crate) base: Option<Base>,
}

impl Writing<'_> {
    /// Processes the reply: records a change that was made under the file's lease.
    pub(crate) fn answered(self, piggyback: &Piggyback) {
        let (node, how) = (self.node, piggyback.change(FIRST));
        if how != How::Unknown {
            self.client.with(|state, now, actions| state.wrote(now, node, how, actions));
        }
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.client.shared.state().end_write(self.node);
    }
}

fn returned(object: Handle, serial: Serial, open: Open) -> Returned {
    let open = match open {
        Open::No => messages::Open::No,
        Open::Read => messages::Open::Read,
        Open::Write => messages::Open::Write,
    };
    Returned { object, serial: serial.0, open }
}

impl Client {
    /// Acquires the right for an operation on a node: a lease, or permission to use calls.
    pub(crate) async fn lease(
        &self,
        who: &Credential,
        node: NodeId,
        kind: Kind,
        space: u64,
    ) -> Right {
        if !self.is_leased() {
            return Right::Use;
        }
        let begun = self.with(|state, now, actions| {
            if !state.is_by_lease(node) {
                return Err(Right::Use);
            }
            let handle = state.nodes.handle(node).ok_or(Right::Through)?;
            let object = object_of(node);
            // While the kernel drops its copies of the node, it may send this operation and wait
            // for the result. A wait for the lease would then cause a deadlock, so the operation
            // uses calls to the server.
            let withdrawing = |leased: &Leased| leased.holder.is_withdrawing(object);
            if state.leases.as_ref().is_some_and(withdrawing) {
                return Err(Right::Through);
            }
            let in_use = |leased: &Leased| leased.holder.is_in_use(now, object, kind, space);
            if state.leases.as_ref().is_some_and(in_use) {
                return Err(Right::Use);
            }
            let ticket = state.new_ticket();
            let leased = state.leases.as_mut().ok_or(Right::Use)?;
            leased.asked_of.insert(node, (handle, who.clone()));
            leased.uses.insert(ticket, node);
            let event = holder::Event::Use(leases::Ticket(ticket.0), object, kind, space);
            state.lease(now, event, actions);
            Ok(ticket)
        });
        match begun {
            Err(right) => right,
            Ok(ticket) => match Wait::new(self, ticket).await {
                Outcome::Leased(right) => right,
                Outcome::Done | Outcome::Read(_) => Right::Through,
            },
        }
    }

    /// Returns true if the client holds a lease on a node, even one under recall.
    pub(crate) fn holds_lease(&self, node: NodeId) -> bool {
        self.with(|state, now, _| {
            let leased = state.leases.as_ref();
            leased.is_some_and(|leased| leased.holder.held(now, object_of(node)).is_some())
        })
    }

    /// Returns true if the client uses leases.
    pub(crate) fn is_leased(&self) -> bool {
        self.shared.nfs.leases().is_some()
    }

    /// Returns true if the server leases names: directories, and all other objects that are not
    /// regular files.
    #[must_use]
    pub fn leases_names(&self) -> bool {
        self.shared.state().leases.as_ref().is_some_and(|leased| leased.names)
    }

    /// Returns the consistency policy of a node.
    pub(crate) fn variant_of(&self, node: NodeId) -> Variant {
        let variant = self.shared.options.variant;
        let is_by_lease = self.shared.state().is_by_lease(node);
        if is_by_lease { variant } else { variant.by_time() }
    }

    /// Puts data into the cache if the client holds the required lease, and returns the wait for
    /// its acceptance; `event` receives the size of the file, if known.
    pub(crate) fn write_leased(
        &self,
        node: NodeId,
        bytes: u64,
        event: impl FnOnce(Ticket, Option<u64>) -> Option<cache::Event<Error>>,
    ) -> Option<Wait> {
        let ticket = self.with(|state, now, actions| {
            let object = object_of(node);
            if let Some(leased) = &state.leases {
                let holder = &leased.holder;
                let is_write = |(held, _, cachable)| held == Kind::Write && cachable;
                let was_leased =
                    holder.is_dirty(object) || holder.held(now, object).is_some_and(is_write);
                let brought_back = holder.is_withdrawing(object) && was_leased;
                if !holder.can_write(now, object, bytes) && !brought_back {
                    return None;
                }
            }
            let ticket = state.new_ticket();
            let seen = state.seen(now, node).filter(|seen| !seen.trusted_for.is_zero());
            let Some(event) = event(ticket, seen.map(|seen| seen.attributes.size)) else {
                state.end_wait(ticket);
                return None;
            };
            state.step(now, event, actions);
            state.lease(now, holder::Event::Dirtied(object, bytes), actions);
            Some(ticket)
        })?;
        Some(Wait::new(self, ticket))
    }

    /// Returns the number of leases, and the number of write leases among them; `None` without the
    /// lease program.
    #[must_use]
    pub fn lease_counts(&self) -> Option<(usize, usize)> {
        self.with(|state, now, _| Some(state.leases.as_ref()?.holder.count(now)))
    }

    /// Registers the other cache that holds copies of this client's data.
    pub fn watch(&self, watcher: Arc<dyn Watcher>) {
        self.with(|state, _, _| {
            if let Some(leased) = &mut state.leases {
                leased.watcher = Some(watcher);
            }
        });
    }

    /// Reports that the other cache has dropped its copies of a node.
    pub fn withdrawn(&self, node: NodeId) {
        self.with(|state, now, actions| {
            state.lease(now, holder::Event::Withdrawn(object_of(node)), actions);
        });
    }

    /// Returns true if the cached state of a node is usable now, so that other caches may keep
    /// copies.
    #[must_use]
    pub fn is_usable(&self, node: NodeId) -> bool {
        self.with(|state, now, _| state.usable_until(now, node).is_some())
    }

    /// Saves all written data, then returns all leases.
    pub async fn goodbye(&self) {
        self.sync().await;
        let who = self.shared.state().leases.as_ref().map(|leased| leased.who.clone());
        if let (Some(leases), Some(who)) = (self.shared.nfs.leases(), who) {
            self.give_layouts_back(&who).await;
            // A failure is ignored: if the message is lost, the server waits at most one term until
            // the leases expire.
            self.patiently(leases.goodbye(&who)).await;
        }
    }

    /// Runs work whose success is optional, with a timeout of [`GOODBYE_TIMEOUT`].
    pub(crate) async fn patiently(&self, work: impl Future) {
        let patience = pin!(self.shared.nfs.session().sleep(GOODBYE_TIMEOUT));
        drop(select(pin!(work), patience).await);
    }

    /// Records the start of a call that may change a file.
    pub(crate) fn writing(&self, node: NodeId) -> Writing<'_> {
        let base = self.shared.state().begin_write(node);
        Writing { client: self, node, base }
    }

    /// Returns true if the server may have refused a WRITE based on `base` as late only because of
    /// earlier WRITEs of this client, whose replies may be outstanding or were lost in a restart of
    /// the server. Waits for these replies; the retry of the WRITE then fails only if another
    /// client has changed the file.
    pub(crate) async fn is_late_for_ours(&self, node: NodeId, base: Option<Base>) -> bool {
        loop {
            let (known, waits) = {
                let state = self.shared.state();
                (state.base(node), state.is_to_be_told(node))
            };
            if known != base && known.is_some() {
                return true;
            }
            if !waits {
                return false;
            }
            self.shared.nfs.session().sleep(GLANCE).await;
        }
    }
}
