//! From a message to its reply.

use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use arc_swap::{ArcSwap, Guard};
use bytes::{Buf as _, Bytes};
use leasehold_base::limits::HANDLE_V2_BYTES;
use leasehold_base::units::{ConnectionId, Time};
use leasehold_base::xdr::{Encode as _, Reader, Writer};
use leasehold_fs::{Answer, Caller, ClientKey, Disturbance, Export, ExportId, ObjectId};
use leasehold_wire::rpc::{AuthStatus, Call, CallError, Reply, ReplyStatus};

use crate::access::{Because, Decided};
use crate::context::Context;
use crate::epochs::{Epoch, EpochKey, Fence};
use crate::events::{Event, Observer};
use crate::exports::{Exports, Offer};
use crate::guesses::Guesses;
use crate::handles::{HandleKey, Handles};
use crate::iods::{self, Authority};
use crate::leases::{
    LeaseCounts, LeaseView, Leases, Ledger, Post, Protocol, Refused, Remembered, Way,
};
use crate::mount::MountTable;
use crate::nfs2::Cookies;
use crate::notebook::{Notebook, Noted};
use crate::replies::{Admitted, KeptReplies, ReplyCache};
use crate::table::{Later, Use};
use crate::users::{Unknown, Users};
use crate::{Arrival, Response, Trust, credential, table};

/// Every program that is served, over all exports.
pub struct Service {
    exports: ArcSwap<Exports>,
    pub(crate) handles: Handles,
    pub(crate) cookies: Cookies,
    pub(crate) mounts: MountTable,
    pub(crate) observer: Box<dyn Observer>,
    pub(crate) users: Box<dyn Users>,
    replies: KeptReplies,
    pub(crate) leases: Arc<Leases>,
    /// Refuses metaservers that are over, where there may be any.
    fence: Option<Arc<Fence>>,
    /// True if this server is an iod, which takes calls of its cluster and of clients that a
    /// metaserver sent.
    is_iod: bool,
    /// The key of numbers of clients, where this is an iod that can have clients.
    clients: Option<ClientKey>,
    /// The misses of clients, where this is an iod.
    pub(crate) guesses: Guesses,
    /// True if an iod has heard the turn that is noted beside its objects.
    lets_clients_in: AtomicBool,
    /// Held while what is offered is replaced.
    offering: Mutex<()>,
}

impl Service {
    /// Serves these exports to everybody; `key` must be the same after a restart, or all handles
    /// die.
    #[must_use]
    pub fn new(exports: Vec<Export>, key: HandleKey, observer: Box<dyn Observer>) -> Self {
        Self::offering(exports.into_iter().map(Offer::to_everybody).collect(), key, observer)
    }

    /// Serves these exports to whom they are offered.
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
            offering: Mutex::new(()),
        }
    }

    /// Asks this list for groups, where a rule says so.
    #[must_use]
    pub fn with_users(self, users: Box<dyn Users>) -> Self {
        Self { users, ..self }
    }

    /// Refuses calls of metaservers that say an epoch that is over, with a word by this key; those
    /// that were begun before the start are given.
    #[must_use]
    pub fn with_epochs(self, key: EpochKey, noted: &[Epoch]) -> Self {
        Self { fence: Some(Arc::new(Fence::new(key, noted))), ..self }
    }

    /// Takes calls only of metaservers and commands that say a word by this key, as the anonymous
    /// user of the export's rule, and of clients that a metaserver has sent, by the numbers of
    /// `clients`; takes calls of no client where there is no such key. No rule of an export gives
    /// any other caller a user.
    #[must_use]
    pub fn as_iod(self, key: EpochKey, noted: &[Epoch], clients: Option<ClientKey>) -> Self {
        Self { is_iod: true, clients, ..self.with_epochs(key, noted) }
    }

    /// Offers something else from now on, in one step: a call that has begun goes on with what was
    /// offered when it came.
    ///
    /// # Panics
    /// When a thread panicked that was just offering something.
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

    /// Serves leases with what an earlier server has left, and keeps the list of clients in a
    /// ledger.
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

    /// Reaches clients by this from now on, without a call of theirs.
    pub fn call_clients_by(&self, post: Arc<dyn Post>) {
        self.leases.call_by(post);
    }

    /// Who holds which lease, of so many at most, and on what as far as stores can tell. May leave
    /// the calling thread acting as the server, where stores act as callers.
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

    /// How leases are, in numbers.
    #[must_use]
    pub fn lease_counts(&self) -> LeaseCounts {
        self.leases.in_numbers()
    }

    /// Waits no more for a client with leases that will not return, by its id; whether there is
    /// one.
    #[must_use]
    pub fn forget_lease_holder(&self, id: [u8; 16]) -> bool {
        self.leases.forget(id)
    }

    /// A program of this machine is to use an object of an export, or has changed names there: who
    /// holds leases that do not go with that is evicted, and the store lets the program go on then.
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

    /// Has clients give up the leases that they hold on an object of an export, as another server of the
    /// same files wants it; whether none of them has anything by one any more, be it a layout.
    pub async fn vacate(&self, export: ExportId, id: ObjectId) -> bool {
        let store = self.exports().by_id(export).map(|offer| Arc::clone(&offer.export.store));
        match store {
            Some(store) => self.leases.vacate(export, &*store, id).await,
            None => false,
        }
    }

    /// The leases of clients on an object of an export are over, whatever was said of their terms.
    pub fn end_leases(&self, export: ExportId, id: ObjectId) {
        self.leases.end(export, id);
    }

    /// Whether clients may hold leases of before the start that are not known yet.
    #[must_use]
    pub fn is_recovering(&self) -> bool {
        self.leases.standing().1
    }

    /// Whether clients may hold leases on names in all that is offered.
    pub(crate) fn leases_names(&self) -> bool {
        self.exports().iter().all(|export| export.store.properties().leases_names)
    }

    /// Takes up a client with leases; from now on nothing is done without asking for those.
    pub(crate) fn welcome(
        &self,
        arrival: &Arrival,
        who: ([u8; 16], u64),
        protocol: Protocol,
        name: &str,
    ) -> Result<(), Refused> {
        if !self.exports().have(arrival.from.ip()) {
            return Err(Refused::Later);
        }
        let _offering = self.offering.lock().expect("nothing panics in between");
        let offered = self.exports();
        if !offered.is_gated() {
            let before = self.exports.swap(Arc::new(offered.gated(&self.leases)));
            self.leases.drain(before);
        }
        let from = (Way::back(arrival), arrival.from.ip());
        self.leases.hello(arrival.now, from, who, protocol, name)
    }

    /// Recalls the replies that are noted in a notebook, and notes those to come.
    #[must_use]
    pub fn with_notebook(self, notebook: &Arc<dyn Notebook>, noted: &[Noted], now: Time) -> Self {
        self.replies.note_in(notebook, noted, now);
        self
    }

    /// What is offered now.
    pub(crate) fn exports(&self) -> Guard<Arc<Exports>> {
        self.exports.load()
    }

    /// Answers one RPC message; with nothing, when it is none or must not be answered.
    ///
    /// The reply is written with `writer`, whose memory may be of use again.
    pub fn answer(self: &Arc<Self>, arrival: Arrival, message: Bytes, writer: Writer) -> Response {
        match &self.fence {
            Some(fence) => fence.answer(self, arrival, message, writer),
            None => self.answer_any(arrival, message, writer, false),
        }
    }

    /// As [`Service::answer`], whatever the epoch of the message. `has_word` says whether the
    /// caller has said a word by the key of its cluster.
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
        let claimed = credential::claimed(&call.credential).and_then(|claimed| {
            // It does nothing for anybody, and shows even to whom nothing is granted that the
            // server is there.
            let is_null = call.procedure == table::NULL;
            let is_heard = is_null || self.is_heard(&arrival, &exports, claimed.as_ref(), by);
            if is_heard { Ok(claimed) } else { Err(AuthStatus::TooWeak) }
        });
        let claimed = match claimed {
            Ok(claimed) => claimed,
            Err(status) => {
                let status = ReplyStatus::AuthError(status);
                return refuse(&Reply { xid: call.xid, status }, writer);
            }
        };
        if exports.is_gated() {
            self.leases.tell(arrival.now);
        }
        let harm = row.keep.harm();
        // Only where a copy may have come before does it matter who exactly sends.
        let sender = harm.map(|_| credential::sender(claimed.as_ref(), arrival.trust));
        let service = Arc::clone(self);
        let context = Context { service, exports, claimed, arrival, leased: None, by };
        let (xid, head_bytes) = (call.xid, message.len() - reader.rest().len());
        let run = |mut message: Bytes, writer| {
            // Not a share of it, which would cost a piece of memory.
            message.advance(head_bytes);
            (row.handler)(row.errors, context, xid, message, writer)
        };
        let (Some(harm), Some(sender)) = (harm, sender) else {
            return Answer::Later(run(message, writer)).into();
        };
        match self.replies.admit(&arrival, &call, &sender, harm, (&message, head_bytes)) {
            Admitted::Runs(started) => {
                started.run(run(message, writer), row.when_unsettled(harm, xid))
            }
            Admitted::Answered(response) => response,
            // On a stream it would wait for long before it asks again by itself.
            Admitted::Refused if row.later() == Later::Said && arrival.connection.is_some() => {
                Answer::now(Some((row.ask_again)(xid, writer))).into()
            }
            Admitted::Refused => Answer::now(None).into(),
        }
    }

    /// A metaserver says this turn. From now on the iod lets clients in if the turn is the last
    /// turn that is noted beside the objects, and lets no client in otherwise.
    pub(crate) async fn heard_turn(&self, from: IpAddr, turn: u64) {
        if !self.is_iod {
            return;
        }
        let exports = self.exports.load_full();
        // An iod that compares the turn with no note must let no client in.
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

    /// Returns true if a caller may be any user at all here; reports a caller that may not.
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
        // The judge of a credential itself reports a credential that is refused under every rule.
        if !is_heard && (self.is_iod || arrival.trust != Trust::Refused) {
            self.observer.event(&event);
        }
        is_heard
    }

    /// Takes a message that is no call: the answer of a client to one of ours, or rubbish.
    fn no_call(
        &self,
        arrival: &Arrival,
        error: CallError,
        message: &Bytes,
        writer: Writer,
    ) -> Response {
        if error == CallError::NotACall {
            self.leases.answered(arrival.now, Way::back(arrival), message);
        }
        match error.reply() {
            Some(reply) => refuse(&reply, writer),
            None => Answer::now(None).into(),
        }
    }

    /// Whether a client finds an export by a path, and is told of it.
    #[must_use]
    pub fn finds(&self, client: IpAddr, path: &[u8]) -> bool {
        let exports = self.exports();
        let found = exports.by_path(path, client);
        found.is_some_and(|(offer, below)| offer.secret.is_none() && below.is_empty())
    }

    /// The handle of the root of the export of a name, as MOUNT gives it.
    #[must_use]
    pub fn root_handle(&self, name: &str) -> Option<[u8; HANDLE_V2_BYTES]> {
        let exports = self.exports();
        let export = exports.iter().find(|export| export.name == name)?;
        Some(self.handles.seal(export.id, &export.store.root()))
    }

    /// Does what is due by now, and says when there is more to do, as far as that is known.
    pub fn wake(&self, now: Time) -> Option<Time> {
        if self.exports().is_gated() {
            let leases = self.leases.wake(now);
            self.ungate();
            return self.replies.wake(now).into_iter().chain(leases).min();
        }
        self.replies.wake(now)
    }

    /// Offers the stores themselves again when nobody has leases any more.
    fn ungate(&self) {
        let _offering = self.offering.lock().expect("nothing panics in between");
        if self.leases.is_idle() {
            self.exports.store(Arc::new(self.exports().ungated()));
        }
    }

    /// Something of each export that is offered now.
    pub fn offered<T>(&self, of: impl Fn(&Export) -> T) -> Vec<T> {
        self.exports().iter().map(of).collect()
    }

    /// How the reply cache is.
    #[must_use]
    pub fn reply_cache(&self) -> ReplyCache {
        self.replies.state()
    }

    /// How many calls of metaservers that are over were refused.
    #[must_use]
    pub fn metaservers_refused(&self) -> u64 {
        self.fence.as_ref().map_or(0, |fence| fence.refused())
    }

    /// Says that a stream is no more, so that its client may ask again on another one.
    pub fn connection_closed(&self, from: SocketAddr, connection: ConnectionId) {
        self.replies.connection_closed(from, connection);
        self.leases.connection_closed(connection);
    }
}

/// Whether any export hears a client of this trust.
fn is_heard(arrival: &Arrival, exports: &Exports) -> bool {
    match arrival.trust {
        Trust::Claimed | Trust::Nobody | Trust::Pinned { .. } => true,
        Trust::Refused => false,
        Trust::Unvouched { refuse: false } => true,
        Trust::Unvouched { refuse: true } => exports.believes_unvouched(arrival.from.ip()),
    }
}

/// The reply to a call that reaches no procedure.
fn refuse(reply: &Reply, mut writer: Writer) -> Response {
    reply.encode(&mut writer);
    Answer::now(Some(writer.finish())).into()
}
