//! The path from a message to its reply.

use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use arc_swap::{ArcSwap, Guard};
use bytes::{Buf as _, Bytes};
use leasehold_base::limits::HANDLE_V2_BYTES;
use leasehold_base::units::{ConnectionId, Time};
use leasehold_base::xdr::{Encode as _, Reader, Writer};
use leasehold_core::leases::clients::Refusal;
use leasehold_fs::{Caller, ClientKey, Disturbance, Export, ExportId, MaybeReady, ObjectId};
use leasehold_leases::{
    HandleKey, Handles, LeaseCounts, LeaseView, Leases, Ledger, Post, Protocol, Remembered,
};
use leasehold_wire::rpc::{AuthStatus, Call, CallError, Reply, ReplyStatus};

use crate::access::{Because, Decided};
use crate::context::Context;
use crate::drc::{Admitted, KeptReplies, ReplyCache};
use crate::epochs::{Epoch, EpochKey, Fence};
use crate::events::{Event, Observer};
use crate::exports::{Exports, Offer};
use crate::guesses::Guesses;
use crate::iods::{self, Authority};
use crate::mount::MountTable;
use crate::nfs2::Cookies;
use crate::reply_journal::{Noted, ReplyJournal};
use crate::table::{Later, Use};
use crate::users::{Unknown, Users};
use crate::{Arrival, NfsVersions, Response, Trust, credential, table};

/// The RPC service, which answers the calls of all programs for all exports.
pub struct Service {
    exports: ArcSwap<Exports>,
    pub(crate) handles: Handles,
    pub(crate) cookies: Cookies,
    pub(crate) mounts: MountTable,
    pub(crate) observer: Box<dyn Observer>,
    pub(crate) users: Box<dyn Users>,
    replies: KeptReplies,
    pub(crate) leases: Arc<Leases>,
    /// The fence that refuses superseded metaservers; None if there are no metaservers.
    fence: Option<Arc<Fence>>,
    /// True if this server is an iod. An iod accepts only calls of its cluster and of clients with
    /// a layout.
    is_iod: bool,
    /// The key from which the cluster derives the user and group numbers in the calls of clients to
    /// iods. None if this server is not an iod, or is an iod that accepts no clients.
    clients: Option<ClientKey>,
    /// The failed handle guesses of each client address, at an iod.
    pub(crate) guesses: Guesses,
    /// True if the last rollback counter from a metaserver equals the counter that the iod has
    /// stored beside its objects. The iod then accepts clients (rule 7 of `iods`).
    lets_clients_in: AtomicBool,
    /// The versions of NFS that the server offers.
    pub(crate) versions: NfsVersions,
    /// A mutex that a thread holds while it replaces the exports, so that no replacement is lost.
    offering: Mutex<()>,
}

impl Service {
    /// Creates a service that gives all clients access to these exports. `key` is the key of the
    /// file handles. The key must be the same after a restart; otherwise all handles become stale.
    #[must_use]
    pub fn new(exports: Vec<Export>, key: HandleKey, observer: Box<dyn Observer>) -> Self {
        Self::offering(exports.into_iter().map(Offer::to_everybody).collect(), key, observer)
    }

    /// Creates a service for these exports with their access rules.
    #[must_use]
    pub fn offering(offers: Vec<Offer>, key: HandleKey, observer: Box<dyn Observer>) -> Self {
        Self {
            exports: ArcSwap::from_pointee(Exports::new(offers)),
            handles: Handles::new(key),
            cookies: Cookies::default(),
            mounts: MountTable::default(),
            observer,
            users: Box::new(Unknown),
            replies: KeptReplies::new(),
            leases: Arc::new(Leases::without_past(key)),
            fence: None,
            is_iod: false,
            clients: None,
            guesses: Guesses::default(),
            lets_clients_in: AtomicBool::new(false),
            versions: NfsVersions::default(),
            offering: Mutex::new(()),
        }
    }

    /// Sets the list of users that resolves groups where a rule requires it.
    #[must_use]
    pub fn with_users(self, users: Box<dyn Users>) -> Self {
        Self { users, ..self }
    }

    /// Sets the versions of NFS that the server offers. Version 4 also needs a row of the router
    /// ([`Nfs4`](crate::Nfs4)).
    #[must_use]
    pub fn with_versions(self, versions: NfsVersions) -> Self {
        Self { versions, ..self }
    }

    /// Makes the service refuse calls of metaservers with a superseded epoch. `key` authenticates
    /// the tokens that contain epochs, and `noted` contains the epochs that began before the start
    /// of the service.
    #[must_use]
    pub fn with_epochs(self, key: EpochKey, noted: &[Epoch]) -> Self {
        Self { fence: Some(Arc::new(Fence::new(key, noted))), ..self }
    }

    /// Restricts the service to two kinds of callers. Metaservers and commands authenticate by
    /// `key` and act as the anonymous user of the export's rule. Clients with a layout identify
    /// themselves by numbers that `clients` verifies; without `clients` the iod accepts no client.
    /// No access rule of an export gives access to any other caller.
    #[must_use]
    pub fn as_iod(self, key: EpochKey, noted: &[Epoch], clients: Option<ClientKey>) -> Self {
        Self { is_iod: true, clients, ..self.with_epochs(key, noted) }
    }

    /// Replaces the exports in one step. Running calls continue with the previous exports.
    ///
    /// # Panics
    /// Panics if another thread panicked while it replaced the exports.
    pub fn offer(&self, offers: Vec<Offer>) {
        let _offering = self.offering.lock().expect("nothing panics in between");
        let offered = Exports::new(offers);
        let is_gated = self.exports().is_gated();
        let offered = if is_gated { offered.gated(&self.leases) } else { offered };
        let before = self.exports.swap(Arc::new(offered));
        if !is_gated {
            self.leases.drain(before);
        }
    }

    /// Enables leases with the state that an earlier server has stored. `ledger` is the stable
    /// storage for the list of clients that may hold leases.
    #[must_use]
    pub fn with_leases(self, remembered: Remembered, ledger: Arc<dyn Ledger>, now: Time) -> Self {
        let recovers = !remembered.list.is_empty();
        let handles = self.handles.clone();
        let leases = Arc::new(Leases::new(handles, remembered, Some(ledger), now));
        if recovers {
            self.exports.store(Arc::new(self.exports().gated(&leases)));
        }
        Self { leases, ..self }
    }

    /// Sets the sender of the server's calls to clients (recalls of leases).
    pub fn call_clients_by(&self, post: Arc<dyn Post>) {
        self.leases.call_by(post);
    }

    /// Returns the leases, at most `leases_max`, their holders, and the paths of their objects if
    /// the stores know them. If the stores act as callers, the calling thread may have the server's
    /// own credential afterwards.
    #[must_use]
    pub fn lease_view(&self, leases_max: usize) -> LeaseView {
        let mut view = self.leases.view(leases_max);
        let exports = self.exports();
        for lease in &mut view.leases {
            let offer = lease.export.and_then(|export| exports.by_id(export));
            lease.path = offer
                .zip(lease.object)
                .and_then(|(offer, object)| offer.export.store.path(&object));
        }
        view
    }

    /// Returns the counters and gauges of leases.
    #[must_use]
    pub fn lease_counts(&self) -> LeaseCounts {
        self.leases.in_numbers()
    }

    /// Ends the wait for a client with leases that will not return, given the id of the client.
    /// Returns true if the client is known.
    #[must_use]
    pub fn forget_lease_holder(&self, id: [u8; 16]) -> bool {
        self.leases.forget(id)
    }

    /// Reports that a local program is about to access an object of an export, or has changed names
    /// there. The server recalls the conflicting leases, and the store lets the program continue
    /// when the leases have ended.
    pub fn used_by_program(
        &self,
        now: Time,
        export: ExportId,
        id: ObjectId,
        disturbance: Disturbance,
    ) {
        let store = self.exports().by_id(export).map(|offer| Arc::clone(&offer.export.store));
        if let Some(store) = store {
            self.leases.used_by_program(now, export, (store, id), disturbance);
        }
    }

    /// Recalls clients' leases on an object of an export, at the request of another server of the
    /// same files. Returns true if no client has a lease or a layout any more.
    pub async fn vacate(&self, export: ExportId, id: ObjectId) -> bool {
        let store = self.exports().by_id(export).map(|offer| Arc::clone(&offer.export.store));
        match store {
            Some(store) => self.leases.vacate(export, &*store, id).await,
            None => false,
        }
    }

    /// Ends the clients' leases on an object of an export before the end of their terms.
    pub fn end_leases(&self, export: ExportId, id: ObjectId) {
        self.leases.end(export, id);
    }

    /// Returns true during the grace period, in which clients may hold leases from before the start
    /// that the server does not know.
    #[must_use]
    pub fn is_recovering(&self) -> bool {
        self.leases.standing().1
    }

    /// Returns true if clients may hold leases on names in all exports.
    pub(crate) fn leases_names(&self) -> bool {
        self.exports().iter().all(|export| {
            let store = &export.store;
            store.properties(&store.root()).leases_names
        })
    }

    /// Registers a client with leases, and enables lease enforcement for all later calls.
    pub(crate) fn welcome(
        &self,
        arrival: &Arrival,
        who: ([u8; 16], u64),
        protocol: Protocol,
        name: &str,
    ) -> Result<(), Refusal> {
        if !self.exports().have(arrival.from.ip()) {
            return Err(Refusal::Later);
        }
        let _offering = self.offering.lock().expect("nothing panics in between");
        let offered = self.exports();
        if !offered.is_gated() {
            let before = self.exports.swap(Arc::new(offered.gated(&self.leases)));
            self.leases.drain(before);
        }
        let from = (arrival.return_path(), arrival.from.ip());
        self.leases.hello(arrival.now, from, who, protocol, name)
    }

    /// Restores replies from a persistent journal, and records new replies in it.
    #[must_use]
    pub fn with_reply_journal(
        self,
        reply_journal: &Arc<dyn ReplyJournal>,
        noted: &[Noted],
        now: Time,
    ) -> Self {
        self.replies.note_in(reply_journal, noted, now);
        self
    }

    /// Returns the current exports.
    pub(crate) fn exports(&self) -> Guard<Arc<Exports>> {
        self.exports.load()
    }

    /// Answers one RPC message, or returns no reply if the message is not a call or must not be
    /// answered.
    ///
    /// The service encodes the reply with `writer`, and the caller may reuse the memory of `writer`
    /// after it has sent the reply.
    pub fn answer(self: &Arc<Self>, arrival: Arrival, message: Bytes, writer: Writer) -> Response {
        match &self.fence {
            Some(fence) => fence.answer(self, arrival, message, writer),
            None => self.answer_any(arrival, message, writer, false),
        }
    }

    /// Like [`Service::answer`], without a check of the epoch. `has_word` is true if the call
    /// contains a valid authentication token of the cluster.
    pub(crate) fn answer_any(
        self: &Arc<Self>,
        arrival: Arrival,
        message: Bytes,
        writer: Writer,
        has_word: bool,
    ) -> Response {
        let mut reader = Reader::new(&message);
        let call = match Call::decode(&mut reader) {
            Ok(call) => call,
            Err(error) => return self.no_call(&arrival, error, &message, writer),
        };
        if let Err(status) = self.versions.admit(call.program, call.version) {
            return refuse(&Reply { xid: call.xid, status }, writer);
        }
        let row = match table::find(call.program, call.version, call.procedure) {
            Ok(row) => row,
            Err(status) => return refuse(&Reply { xid: call.xid, status }, writer),
        };
        let exports = self.exports();
        let authority = match (self.is_iod, has_word) {
            (false, _) => Authority::Rules,
            (true, true) => Authority::Cluster,
            (true, false) => {
                let is_open = self.lets_clients_in.load(Ordering::Acquire);
                Authority::Client(self.clients, is_open)
            }
        };
        let by = (authority, row.by_client);
        let claimed = match self.claimed(&arrival, &call, &exports, by) {
            Ok(claimed) => claimed,
            Err(status) => return refuse(&Reply { xid: call.xid, status }, writer),
        };
        if exports.is_gated() {
            self.leases.tell(arrival.now);
        }
        let harm = row.keep.harm();
        // Only the duplicate request cache needs the exact sender.
        let sender = harm.map(|_| credential::sender(claimed.as_ref(), arrival.trust));
        let service = Arc::clone(self);
        let context = Context { service, exports, claimed, arrival, leased: None, by };
        let (xid, head_bytes) = (call.xid, message.len() - reader.rest().len());
        let run = |mut message: Bytes, writer| {
            // `advance` removes the RPC header from the message in place. A second slice of the
            // message would cost an allocation.
            message.advance(head_bytes);
            (row.handler)(row.errors, context, xid, message, writer)
        };
        let (Some(harm), Some(sender)) = (harm, sender) else {
            return MaybeReady::Later(run(message, writer)).into();
        };
        match self.replies.admit(&arrival, &call, &sender, harm, (&message, head_bytes)) {
            Admitted::Runs(started) => {
                started.run(run(message, writer), row.when_unsettled(harm, xid))
            }
            Admitted::Answered(response) => response,
            // Without a reply a client on a stream would wait for a long time before it
            // retransmits, so the client receives a retry status.
            Admitted::Refused if row.later() == Later::Said && arrival.connection.is_some() => {
                MaybeReady::now(Some((row.ask_again)(xid, writer))).into()
            }
            Admitted::Refused => MaybeReady::now(None).into(),
        }
    }

    /// Processes the rollback counter from a metaserver. If the counter equals the last counter
    /// beside the objects, the iod accepts clients from now on. Otherwise the iod accepts no
    /// client.
    pub(crate) async fn heard_turn(&self, from: IpAddr, turn: u64) {
        if !self.is_iod {
            return;
        }
        let exports = self.exports.load_full();
        // An iod without a stored counter cannot be verified, so it must accept no client.
        let (mut has_note, mut has_other) = (false, false);
        for offer in exports.found_by(from).filter(|_| turn > 0) {
            let Some(rule) = offer.access.rule(from) else { continue };
            let Decided { caller, .. } = rule.identity.anonymous(Because::Claimed);
            match iods::noted_turns(&*offer.export.store, &caller).await.last == turn {
                true => has_note = true,
                false => has_other = true,
            }
        }
        let is_noted = has_note && !has_other;
        self.lets_clients_in.store(turn == 0 || is_noted, Ordering::Release);
    }

    /// Returns the credential that a call claims, if the server answers calls of the caller.
    ///
    /// # Errors
    /// The RPC status of the reply to an invalid or refused credential.
    fn claimed(
        &self,
        arrival: &Arrival,
        call: &Call<'_>,
        exports: &Exports,
        by: (Authority, Use),
    ) -> Result<Option<Caller>, ReplyStatus> {
        let claimed = credential::claimed(&call.credential).map_err(ReplyStatus::AuthError)?;
        // NULL has no effect, so clients without access receive a reply as well.
        let is_null = call.procedure == table::NULL;
        if is_null || self.is_heard(arrival, exports, claimed.as_ref(), by) {
            Ok(claimed)
        } else {
            Err(ReplyStatus::AuthError(AuthStatus::TooWeak))
        }
    }

    /// Returns the context of a call of a program outside the procedure table, which access rules
    /// permit or refuse.
    ///
    /// # Errors
    /// The RPC status of the reply to an invalid or refused credential.
    pub(crate) fn context(
        self: &Arc<Self>,
        arrival: Arrival,
        call: &Call<'_>,
    ) -> Result<Context, ReplyStatus> {
        let (exports, by) = (self.exports(), (Authority::Rules, Use::Never));
        let claimed = self.claimed(&arrival, call, &exports, by)?;
        if exports.is_gated() {
            self.leases.tell(arrival.now);
        }
        Ok(Context { service: Arc::clone(self), exports, claimed, arrival, leased: None, by })
    }

    /// Returns true if this server answers calls of the caller at all. Otherwise reports the
    /// refusal to the observer.
    fn is_heard(
        &self,
        arrival: &Arrival,
        exports: &Exports,
        claimed: Option<&Caller>,
        (authority, by_client): (Authority, Use),
    ) -> bool {
        let from = arrival.from;
        let (is_heard, event) = match authority {
            Authority::Cluster => return true,
            Authority::Client(..) => {
                let may_be = match by_client {
                    Use::Never => false,
                    Use::Refused => true,
                    Use::Asks | Use::Reads | Use::Writes => iods::can_be_client(claimed),
                };
                (may_be, Event::Stranger { from })
            }
            Authority::Rules => {
                (is_heard(arrival, exports), Event::NotBelieved { from, refused: true })
            }
        };
        // The owner of the sockets has already reported a credential with [`Trust::Refused`], so
        // the service reports other refusals only.
        if !is_heard && (self.is_iod || arrival.trust != Trust::Refused) {
            self.observer.event(&event);
        }
        is_heard
    }

    /// Processes a message that is not a call: the reply of a client to a callback, or garbage.
    fn no_call(
        &self,
        arrival: &Arrival,
        error: CallError,
        message: &Bytes,
        writer: Writer,
    ) -> Response {
        if error == CallError::NotACall {
            self.leases.answered(arrival.now, arrival.return_path(), message);
        }
        match error.reply() {
            Some(reply) => refuse(&reply, writer),
            None => MaybeReady::now(None).into(),
        }
    }

    /// Returns true if a path leads a client to the root of a listed export.
    #[must_use]
    pub fn finds(&self, client: IpAddr, path: &[u8]) -> bool {
        let exports = self.exports();
        let found = exports.by_path(path, client);
        found.is_some_and(|(offer, below)| offer.secret.is_none() && below.is_empty())
    }

    /// Returns the handle of the root of an export by its name, as MOUNT returns it.
    #[must_use]
    pub fn root_handle(&self, name: &str) -> Option<[u8; HANDLE_V2_BYTES]> {
        let exports = self.exports();
        let export = exports.iter().find(|export| export.name == name)?;
        Some(self.handles.seal(export.id, &export.store.root()))
    }

    /// Runs the work that is due, and returns the time of the next work, if known.
    pub fn wake(&self, now: Time) -> Option<Time> {
        if self.exports().is_gated() {
            let leases = self.leases.wake(now);
            self.ungate();
            return self.replies.wake(now).into_iter().chain(leases).min();
        }
        self.replies.wake(now)
    }

    /// Removes lease enforcement after the last client with leases has gone.
    fn ungate(&self) {
        let _offering = self.offering.lock().expect("nothing panics in between");
        if self.leases.is_idle() {
            self.exports.store(Arc::new(self.exports().ungated()));
        }
    }

    /// Applies a function to each current export.
    pub fn offered<T>(&self, of: impl Fn(&Export) -> T) -> Vec<T> {
        self.exports().iter().map(of).collect()
    }

    /// Returns the counters and gauges of the duplicate request cache.
    #[must_use]
    pub fn reply_cache(&self) -> ReplyCache {
        self.replies.state()
    }

    /// Returns the number of refused calls of superseded metaservers.
    #[must_use]
    pub fn metaservers_refused(&self) -> u64 {
        self.fence.as_ref().map_or(0, |fence| fence.refused())
    }

    /// Records that a stream has closed, so that its client may retransmit calls on another stream.
    pub fn connection_closed(&self, from: SocketAddr, connection: ConnectionId) {
        self.replies.connection_closed(from, connection);
        self.leases.connection_closed(connection);
    }
}

/// Returns true if any export accepts a credential with the trust of this arrival.
fn is_heard(arrival: &Arrival, exports: &Exports) -> bool {
    match arrival.trust {
        Trust::Claimed | Trust::Nobody | Trust::Pinned { .. } => true,
        Trust::Refused => false,
        Trust::Unvouched { refuse: false } => true,
        Trust::Unvouched { refuse: true } => exports.believes_unvouched(arrival.from.ip()),
    }
}

/// Encodes the reply to a call that reaches no procedure.
pub(crate) fn refuse(reply: &Reply, mut writer: Writer) -> Response {
    reply.encode(&mut writer);
    MaybeReady::now(Some(writer.finish())).into()
}
