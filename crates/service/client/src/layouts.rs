//! Direct data access: under a lease a client reads and writes the stripe objects of a file itself,
//! at the iods in the layout that its own server returns.
//!
//! Rules (`spec/lease.x`, 23 to 26):
//! 1. The client accesses iods only while it holds a cachable lease, and only by the layout that it
//!    received under that lease. The data of a read is valid only if the client still holds the
//!    same lease when the data arrives.
//! 2. If an access at the iods fails in any way, the client sends all accesses to the file through
//!    the file's own server for [`LAYOUT_RETRY_DELAY`], or until the client holds another lease.
//!    The server always has the correct data. If a single iod does not answer a READ in time, the
//!    client avoids only that iod: where many iods share a link, a single iod may be slow. If a
//!    WRITE may still be in transit to an iod, the client returns the layout before it writes the
//!    same data through the server. The iods then reject the old WRITE.
//! 3. The client does not write to an iod that lets users without permission write the object,
//!    because such an iod could not reject WRITEs of this client after the end of the lease.
//! 4. If each iod replied to a WRITE with the write verifier in the layout, the client records the
//!    WRITE under the verifier that a COMMIT at the file's own server returns. If COMMIT returns
//!    another verifier, for example because an iod to which this client has not written has
//!    restarted, the client requests a new layout before it writes the data again.
//! 5. The client calls iods only with user ids that no user of a machine has, so that a malicious
//!    server, whose layout contains the address of another server, cannot make the client act with
//!    a user's rights at that server.
//! 6. After a client has changed a file by a call to the file's own server, it requests a new
//!    layout before it reads at iods: the replica in the old layout may lack that change.

use core::future::poll_fn;
use core::net::{Ipv6Addr, SocketAddr};
use core::task::{Poll, Waker};
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use futures_util::future::join_all;
use futures_util::{StreamExt as _, stream};
use leasehold_base::limits::durations::LAYOUT_RETRY_DELAY;
use leasehold_base::units::Time;
use leasehold_core::cache::{Event, Fetched, Stored};
use leasehold_core::leases::{Kind, Serial};
use leasehold_core::stripes::{self, Piece};
use leasehold_fs::{Layout, Owner};
use leasehold_session::leases::messages::{self, layout, objects};
use leasehold_session::nfs::Nfs;
use leasehold_session::{Credential, Error};
use leasehold_wire::nfs3::write::Stability;
use leasehold_wire::nfs3::{self, Handle};

use crate::client::{Actions, Client, State};
use crate::convert;
use crate::nodes::NodeId;
use crate::round_robin::{Part, Turns};

/// The minimum size of a file for which the client requests a layout.
const LEAST_BYTES: u64 = 256 << 10;

/// The maximum pause between two attempts to call an iod that never answers this client, for
/// example because of a firewall.
const AGAIN_MAX: Duration = Duration::from_secs(600);

/// The maximum number of stripe objects of a file, and the minimum stripe unit. Both bound the
/// number of calls for one read. The client does not use a layout beyond these bounds.
const OBJECTS_MAX: u16 = 256;
const UNIT_BYTES_MIN: u32 = 4 << 10;

/// The pauses between attempts to return a layout to a server that fails: about 15 seconds in all.
const RETURN_PAUSE_MIN: Duration = Duration::from_millis(100);
const RETURN_PAUSE_MAX: Duration = Duration::from_millis(6400);

/// The number of rows of stripes that the client reads ahead in a sequential read: it requests the
/// next row while an earlier one arrives.
const AHEAD_ROWS: u64 = 4;

/// The maximum number of layouts that the client returns concurrently.
const TOGETHER_MAX: usize = 16;

/// The maximum number of iods that the client calls.
const SERVERS_MAX: usize = 1024;

/// The machine name in the credentials for iods.
const MACHINE: &str = "leasehold";

/// Provides sessions with the iods of a layout.
pub trait Servers: Send + Sync {
    /// Returns a session with the server at an address, with a limited time for each call; `None`
    /// if there can be no such session.
    fn at(&self, address: SocketAddr) -> Option<Nfs>;
}

/// The known layouts.
#[derive(Default)]
pub(crate) struct Layouts {
    files: BTreeMap<NodeId, File>,
    /// The number of layout requests so far, which is the number of the last request.
    questions: u64,
    servers: BTreeMap<SocketAddr, Server>,
    turns: Option<Arc<Both>>,
}

/// The flow control of reads and of writes, which use opposite directions of the network.
struct Both {
    reads: Turns,
    writes: Turns,
}

/// A lease that permits caching, with its kind: a read lease may become a write lease.
type Lease = (Kind, Serial);

/// A request for the layout of a file: the lease under which the client sent the request, and the
/// number of the request. By the number the client detects a reply to a request that it sent before
/// a change: such a reply is not valid for an access after the change.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Question {
    lease: Lease,
    number: u64,
}

/// The state of one file's layout, which belongs to one request.
struct File {
    question: Question,
    what: What,
}

/// The state of the layout when an access to the file begins.
enum Known {
    Lies(Question, Arc<LaidOut>),
    Nowhere,
    /// The layout is unknown, and the caller has to send this request.
    Asks(Question),
}

enum What {
    /// A request is in progress; the wakers of the waiting accesses.
    Asked(Vec<Waker>),
    Lies(Arc<LaidOut>),
    /// The client does not use iods for this file until this time.
    Nowhere(Time),
}

#[derive(Clone)]
struct Server {
    nfs: Nfs,
    /// True if the iod has answered.
    answers: bool,
    /// True if the iod rejects writers without a right to write.
    refuses: bool,
    /// The time until which the client does not call the unresponsive iod, and the length of the
    /// current pause.
    away: Option<(Time, Duration)>,
}

/// The layout of a file, with the sessions of its iods.
struct LaidOut {
    file: NodeId,
    kind: Kind,
    layout: stripes::Layout,
    verifier: [u8; 8],
    who: Credential,
    objects: Vec<Object>,
    turns: Arc<Both>,
    /// The one iod that did not answer a READ in time, and the time until which the client avoids
    /// this iod.
    late: Mutex<Option<(SocketAddr, Time)>>,
}

struct Object {
    server: SocketAddr,
    nfs: Nfs,
    handle: Handle,
    verifier: [u8; 8],
}

impl Layouts {
    /// Forgets the layout of a node. Waiting accesses request a new layout.
    pub(crate) fn forget(&mut self, node: NodeId, actions: &mut Actions) {
        if let Some(before) = self.files.remove(&node) {
            actions.wakers.extend(before.waiting());
        }
    }

    /// Forgets the read layout of a node, because a call of this client has changed the file.
    /// Waiting accesses request a new layout.
    pub(crate) fn changed(&mut self, node: NodeId, actions: &mut Actions) {
        if self.files.get(&node).is_some_and(|file| file.question.lease.0 == Kind::Read) {
            self.forget(node, actions);
        }
    }

    /// Forgets the write layout of a node if COMMIT has returned another verifier than the verifier
    /// of the layout: under the old layout the client would write the same data again without end.
    pub(crate) fn committed(&mut self, node: NodeId, verifier: [u8; 8], actions: &mut Actions) {
        let file = self.files.get(&node);
        if let Some(File { what: What::Lies(laid_out), .. }) = file
            && laid_out.kind == Kind::Write
            && laid_out.verifier != verifier
        {
            self.forget(node, actions);
        }
    }

    /// Starts a request that replaces the known state. Returns the wakers that waited for that
    /// state.
    fn ask(&mut self, node: NodeId, lease: Lease) -> (Question, Vec<Waker>) {
        let question = Question { lease, number: self.questions };
        self.questions += 1;
        let before = self.files.insert(node, File { question, what: What::Asked(Vec::new()) });
        (question, before.map(File::waiting).unwrap_or_default())
    }

    /// Records the result of a request, or of an access by the layout from that request. Returns
    /// true if the request was still current.
    fn learn(
        &mut self,
        node: NodeId,
        question: Question,
        what: What,
        actions: &mut Actions,
    ) -> bool {
        // If the client has forgotten the state or sent another request meanwhile, the result is
        // ignored.
        let file = self.files.get_mut(&node).filter(|file| file.question == question);
        let before = file.map(|file| core::mem::replace(file, File { question, what }));
        let is_known = before.is_some();
        actions.wakers.extend(before.into_iter().flat_map(File::waiting));
        is_known
    }
}

impl File {
    /// Returns the wakers of the waiting accesses.
    fn waiting(self) -> Vec<Waker> {
        match self.what {
            What::Asked(waiting) => waiting,
            What::Lies(_) | What::Nowhere(_) => Vec::new(),
        }
    }
}

impl State {
    /// Returns the lease on a node that permits caching, unless the server recalls the lease.
    /// During a recall the client writes its data back through the file's own server, because the
    /// server then prolongs the lease until the data has arrived.
    fn cachable(&self, now: Time, node: NodeId) -> Option<Lease> {
        self.leases.as_ref()?.cachable(now, node)
    }
}

impl Client {
    /// Enables direct data access through the sessions of `servers`, if the server returns layouts.
    pub fn reach_by(&self, servers: Arc<dyn Servers>) {
        // The sessions are set once; later calls have no effect.
        let _ = self.shared.servers.set(servers);
    }

    /// Reads at the iods; `None` if the caller has to read from the file's own server.
    pub(crate) async fn read_objects(
        &self,
        who: &Credential,
        (node, handle): (NodeId, &Handle),
        offset: u64,
        count: u32,
    ) -> Option<Fetched> {
        let size = self.with(|state, now, _| state.cache.attributes(now, node.key()))?.0.size;
        if size < LEAST_BYTES {
            return None;
        }
        let (question, laid_out) = self.laid_out(who, node, handle).await?;
        let length = size.saturating_sub(offset).min(count.into());
        if let Some((late, until)) = laid_out.late() {
            let is_over = self.with(|state, now, actions| {
                let is_over = until <= now;
                if is_over {
                    // The pause for the late iod has ended. Meanwhile the server may have detected
                    // that the iod is unreachable, so the client requests the layout again.
                    state.layouts.forget(node, actions);
                }
                is_over
            });
            if is_over || laid_out.is_at(late, offset, length) {
                return None;
            }
        }
        let data = match laid_out.read(offset, length).await {
            Ok(data) => data,
            Err(odd) => {
                let until = self.with(|_, now, _| now) + LAYOUT_RETRY_DELAY;
                if !laid_out.can_spare(odd, until) {
                    self.avoid(node, question);
                }
                return None;
            }
        };
        // If the lease has changed during the READs, other clients may have changed the data, and
        // the data is not used.
        let is_same = self.with(|state, now, _| state.cachable(now, node)) == Some(question.lease);
        let end = offset.saturating_add(length) >= size;
        is_same.then_some(Fetched { data, end, attributes: None })
    }

    /// Writes at the iods; `None` if the caller has to write to the file's own server.
    ///
    /// # Errors
    /// The client could not return the layout, so that it cannot write the data elsewhere.
    pub(crate) async fn write_objects(
        &self,
        who: &Credential,
        (node, handle): (NodeId, &Handle),
        offset: u64,
        (data, stability): (&Bytes, Stability),
    ) -> Result<Option<Stored>, Error> {
        if offset.saturating_add(data.len() as u64) < LEAST_BYTES {
            return Ok(None);
        }
        let Some((question, laid_out)) = self.laid_out(who, node, handle).await else {
            return Ok(None);
        };
        if laid_out.kind != Kind::Write {
            return Ok(None);
        }
        if !laid_out.write(offset, data, stability).await {
            self.avoid(node, question);
            self.part_with_layout(who, node, handle).await?;
            return Ok(None);
        }
        let unstable = (stability == Stability::Unstable).then_some(laid_out.verifier);
        let count = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let wcc = convert::wcc(&nfs3::Wcc::default());
        // The iods store no attributes of the file, so the client sends attribute changes to the
        // file's own server in a separate call.
        Ok(Some(Stored { count, unstable, wcc, set: false }))
    }

    /// Returns all write layouts before the client returns its leases.
    pub(crate) async fn give_layouts_back(&self, who: &Credential) {
        let written: Vec<NodeId> = {
            let state = self.shared.state();
            let is_written = |what: &What| matches!(what, What::Lies(at) if at.kind == Kind::Write);
            let files = state.layouts.files.iter().filter(|(_, file)| is_written(&file.what));
            files.map(|(node, _)| *node).collect()
        };
        let returns = stream::iter(written).for_each_concurrent(TOGETHER_MAX, |node| async move {
            self.with(|state, _, actions| state.layouts.forget(node, actions));
            if let Ok(handle) = self.handle(node) {
                let _ = self.give_layout_back(who, node, &handle).await;
            }
        });
        // The wait is bounded: if an iod is unreachable, the server ends the layouts itself when
        // another client needs the files.
        self.patiently(returns).await;
    }

    /// Returns to the server a layout under which WRITEs may still be in transit. The client must
    /// not write the data through the server before the layout has ended. Because a failure of this
    /// call would lose the data, the client retries after temporary errors.
    async fn part_with_layout(
        &self,
        who: &Credential,
        node: NodeId,
        handle: &Handle,
    ) -> Result<(), Error> {
        let mut pause = RETURN_PAUSE_MIN;
        loop {
            let given_back = self.give_layout_back(who, node, handle).await;
            let may_pass = matches!(
                given_back,
                Err(Error::Busy | Error::Failed(nfs3::Status::Io | nfs3::Status::ServerFault))
            );
            if !may_pass || pause > RETURN_PAUSE_MAX {
                return given_back;
            }
            self.shared.nfs.session().sleep(pause).await;
            pause *= 2;
        }
    }

    async fn give_layout_back(
        &self,
        who: &Credential,
        node: NodeId,
        handle: &Handle,
    ) -> Result<(), Error> {
        let piggyback = self.piggyback(&[], None);
        // When the client returns the layout, the server updates the file's attributes and modrev
        // by the WRITEs to the iods. `writing` makes the client count this change as its own.
        let writing = self.writing(node);
        let reply = piggyback.nfs.give_objects_back(who, handle).await;
        writing.answered(&piggyback);
        Ok(reply?.done()?)
    }

    /// Sends all accesses to a file through the file's own server for a while.
    fn avoid(&self, node: NodeId, question: Question) {
        self.learn_objects(node, question, None);
    }

    fn learn_objects(
        &self,
        node: NodeId,
        question: Question,
        laid_out: Option<Arc<LaidOut>>,
    ) -> bool {
        self.with(|state, now, actions| {
            let what = laid_out.map_or_else(|| What::Nowhere(now + LAYOUT_RETRY_DELAY), What::Lies);
            state.layouts.learn(node, question, what, actions)
        })
    }

    /// Returns the layout of a file under the current lease; concurrent callers share one request.
    async fn laid_out(
        &self,
        who: &Credential,
        node: NodeId,
        handle: &Handle,
    ) -> Option<(Question, Arc<LaidOut>)> {
        self.shared.servers.get()?;
        let (lease, now) = self.with(|state, now, _| Some((state.cachable(now, node)?, now)))?;
        let known = poll_fn(|context| {
            let mut state = self.shared.state();
            match state.layouts.files.get_mut(&node).filter(|file| file.question.lease == lease) {
                Some(File { what: What::Asked(waiting), .. }) => {
                    waiting.push(context.waker().clone());
                    Poll::Pending
                }
                Some(File { question, what: What::Lies(laid_out) }) => {
                    Poll::Ready(Known::Lies(*question, Arc::clone(laid_out)))
                }
                Some(File { what: What::Nowhere(until), .. }) if now < *until => {
                    Poll::Ready(Known::Nowhere)
                }
                Some(File { what: What::Nowhere(_), .. }) | None => {
                    let (question, waited) = state.layouts.ask(node, lease);
                    drop(state);
                    waited.into_iter().for_each(Waker::wake);
                    Poll::Ready(Known::Asks(question))
                }
            }
        });
        match known.await {
            Known::Lies(question, laid_out) => Some((question, laid_out)),
            Known::Nowhere => None,
            Known::Asks(question) => {
                let found = self.find_objects(who, node, handle, lease.0).await.map(Arc::new);
                let is_known = self.learn_objects(node, question, found.clone());
                found.filter(|_| is_known).map(|found| (question, found))
            }
        }
    }

    async fn find_objects(
        &self,
        who: &Credential,
        node: NodeId,
        handle: &Handle,
        kind: Kind,
    ) -> Option<LaidOut> {
        let wanted = match kind {
            Kind::Read => messages::Kind::Read,
            Kind::Write => messages::Kind::Write,
        };
        let told = self.ask_objects(who, node, handle, wanted).await?;
        let objects::Layout { unit, user, group, verifier, objects } = told;
        let are_ours = [user, group].iter().all(|number| Layout::OWNERS.contains(number));
        let width = u16::try_from(objects.0.len()).ok().filter(|width| *width <= OBJECTS_MAX)?;
        if !are_ours || unit < UNIT_BYTES_MIN {
            return None;
        }
        let layout = stripes::Layout::new(unit, width)?;
        let mut found = Vec::new();
        for layout::Object { host, port, object, verifier } in objects.0 {
            let host = Ipv6Addr::from(host).to_canonical();
            let address = SocketAddr::new(host, u16::try_from(port).ok()?);
            let caller = Owner { user, group };
            let server = self.server(address, caller, &object, kind).await?;
            found.push(Object { server: address, nfs: server.nfs, handle: object, verifier });
        }
        let who = Credential::system(MACHINE, user, group, &[]);
        // A read-ahead of less than one row of stripes (one stripe on each iod) would leave iods
        // idle, so the cache reads several rows ahead.
        let row = u64::from(unit) * u64::from(width);
        self.step(Event::Spread { file: node.key(), ahead: row * AHEAD_ROWS });
        let (objects, turns, late) = (found, self.turns(), Mutex::default());
        Some(LaidOut { file: node, kind, layout, verifier, who, objects, turns, late })
    }

    fn turns(&self) -> Arc<Both> {
        let clock = self.shared.nfs.session();
        let mut state = self.shared.state();
        let State { random, layouts, .. } = &mut *state;
        let new = || {
            let order = random.next_u64();
            let turns = || Turns::new(clock.clone(), order);
            Arc::new(Both { reads: turns(), writes: turns() })
        };
        Arc::clone(layouts.turns.get_or_insert_with(new))
    }

    /// Returns the iod at an address; `None` if the client cannot reach the iod or must not write
    /// to it.
    async fn server(
        &self,
        address: SocketAddr,
        caller: Owner,
        object: &Handle,
        kind: Kind,
    ) -> Option<Server> {
        let (known, full) = {
            let servers = &self.shared.state().layouts.servers;
            (servers.get(&address).cloned(), servers.len() >= SERVERS_MAX)
        };
        let mut server = match known {
            Some(known) => known,
            None if full => return None,
            None => {
                let nfs = self.shared.servers.get()?.at(address)?;
                Server { nfs, answers: false, refuses: false, away: None }
            }
        };
        let now = self.with(|_, now, _| now);
        if server.away.is_some_and(|(until, _)| now < until) {
            return None;
        }
        if !server.answers || (kind == Kind::Write && !server.refuses) {
            let other = Owner { user: caller.user ^ 1, group: caller.group ^ 1 };
            let other = Credential::system(MACHINE, other.user, other.group, &[]);
            let modify = nfs3::access::Access { modify: true, ..Default::default() };
            let asked = server.nfs.access(&other, object, modify).await;
            server.answers = asked.is_ok();
            server.away = asked.is_err().then(|| {
                let pause =
                    server.away.map_or(LAYOUT_RETRY_DELAY, |(_, pause)| (pause * 2).min(AGAIN_MAX));
                (now + pause, pause)
            });
            let access = asked.ok().and_then(|asked| asked.done().ok());
            server.refuses = access.is_some_and(|done| !done.access.modify);
        }
        let is_fit = server.answers && (kind == Kind::Read || server.refuses);
        let servers = &mut self.shared.state().layouts.servers;
        if servers.len() < SERVERS_MAX || servers.contains_key(&address) {
            servers.insert(address, server.clone());
        }
        is_fit.then_some(server)
    }

    /// Requests the layout from the file's own server.
    async fn ask_objects(
        &self,
        who: &Credential,
        node: NodeId,
        handle: &Handle,
        kind: messages::Kind,
    ) -> Option<objects::Layout> {
        let piggyback = self.piggyback(&[], None);
        // The request ends an earlier layout, and the server then updates the file's attributes and
        // modrev by the WRITEs under that layout. `writing` makes the client count this change as
        // its own.
        let writing = self.writing(node);
        let reply = piggyback.nfs.objects(who, handle, kind).await;
        writing.answered(&piggyback);
        reply.ok()?.done().ok()
    }
}

/// The reason why a read at the iods failed.
#[derive(Clone, Copy)]
enum Odd {
    /// The iod at this address did not answer in time.
    Late(SocketAddr),
    Else,
}

impl LaidOut {
    fn object(&self, piece: &Piece) -> &Object {
        &self.objects[usize::from(piece.object)]
    }

    fn part(&self, piece: &Piece) -> Part {
        let (server, file) = (self.object(piece).server, self.file);
        Part { server, file, offset: piece.file_offset, bytes: piece.length }
    }

    /// Returns the pieces of a range, each of which fits into one call.
    fn parts(&self, offset: u64, length: u64, most: u64) -> Vec<Piece> {
        let cut = |piece: Piece| {
            let starts = (0..piece.length).step_by(usize::try_from(most).unwrap_or(usize::MAX));
            starts.map(move |start| Piece {
                object_offset: piece.object_offset + start,
                file_offset: piece.file_offset + start,
                length: most.min(piece.length - start),
                ..piece
            })
        };
        self.layout.pieces(offset, length).flat_map(cut).collect()
    }

    fn late(&self) -> Option<(SocketAddr, Time)> {
        *self.late.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if a part of the range is stored at the given iod.
    fn is_at(&self, server: SocketAddr, offset: u64, length: u64) -> bool {
        self.layout.pieces(offset, length).any(|piece| self.object(&piece).server == server)
    }

    /// Returns true if the failure concerns a single iod, so that the client can continue to use
    /// the other iods. The client then avoids the failed iod until `until`.
    fn can_spare(&self, odd: Odd, until: Time) -> bool {
        let Odd::Late(server) = odd else { return false };
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = late.is_none_or(|(late, _)| late == server);
        late.get_or_insert((server, until));
        is_first && self.objects.iter().any(|object| object.server != server)
    }

    /// Reads a range within the file.
    async fn read(&self, offset: u64, length: u64) -> Result<Bytes, Odd> {
        let turns = &self.turns.reads;
        let pieces = self.parts(offset, length, turns.part_bytes());
        let parts = pieces.iter().map(|piece| async {
            let object = self.object(piece);
            let turn = turns.turn(self.part(piece)).await;
            let read = object.read(&self.who, piece).await?;
            turn.done();
            Ok(read)
        });
        let parts: Result<Vec<Bytes>, Odd> = join_all(parts).await.into_iter().collect();
        let mut parts = parts?;
        if parts.len() <= 1 {
            return Ok(parts.pop().unwrap_or_default());
        }
        let mut whole = BytesMut::with_capacity(parts.iter().map(Bytes::len).sum());
        parts.iter().for_each(|part| whole.extend_from_slice(part));
        Ok(whole.freeze())
    }

    /// Returns true if all iods have accepted all the data and replied with the expected verifiers.
    async fn write(&self, offset: u64, data: &Bytes, stability: Stability) -> bool {
        let turns = &self.turns.writes;
        let pieces = self.parts(offset, data.len() as u64, turns.part_bytes());
        let writes = pieces.iter().map(|piece| async {
            let start = usize::try_from(piece.file_offset - offset).unwrap_or(usize::MAX);
            let length = usize::try_from(piece.length).unwrap_or(usize::MAX);
            let part = data.slice(start..start + length);
            let object = self.object(piece);
            let turn = turns.turn(self.part(piece)).await;
            let written = object.write(&self.who, piece.object_offset, part, stability).await;
            if written {
                turn.done();
            }
            written
        });
        join_all(writes).await.into_iter().all(|written| written)
    }
}

impl Object {
    /// Reads a piece. If the stripe object is shorter than the piece, the missing bytes are zero:
    /// the file is longer, and these bytes were never written.
    async fn read(&self, who: &Credential, piece: &Piece) -> Result<Bytes, Odd> {
        let wanted = usize::try_from(piece.length).map_err(|_| Odd::Else)?;
        let mut whole = BytesMut::new();
        loop {
            let rest = u32::try_from(wanted - whole.len()).map_err(|_| Odd::Else)?;
            let at = piece.object_offset + whole.len() as u64;
            let read = match self.nfs.read(who, &self.handle, at, rest).await {
                Ok(read) => read.done().map_err(|_| Odd::Else)?,
                Err(Error::TimedOut) => return Err(Odd::Late(self.server)),
                Err(_) => return Err(Odd::Else),
            };
            if whole.is_empty() && read.data.len() == wanted {
                return Ok(read.data);
            }
            let is_stuck = read.data.is_empty() && !read.end;
            whole.extend_from_slice(&read.data);
            if is_stuck {
                return Err(Odd::Else);
            }
            if read.end || whole.len() >= wanted {
                whole.resize(wanted, 0);
                return Ok(whole.freeze());
            }
        }
    }

    async fn write(
        &self,
        who: &Credential,
        mut offset: u64,
        mut data: Bytes,
        stability: Stability,
    ) -> bool {
        while !data.is_empty() {
            let what = (data.clone(), stability);
            let written = self.nfs.write(who, &self.handle, offset, what).await;
            let Ok(done) = written.and_then(|reply| Ok(reply.done()?)) else { return false };
            let is_known = done.stability > Stability::Unstable || done.verifier == self.verifier;
            if done.count == 0 || done.stability < stability || !is_known {
                return false;
            }
            offset += u64::from(done.count);
            drop(data.split_to((done.count as usize).min(data.len())));
        }
        true
    }
}
