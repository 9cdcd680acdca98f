//! Data where it lies: under a lease a client reads and writes the objects of a file itself, on the
//! servers that its own server sends it to.
//!
//! Rules (`spec/lease.x`, 23 to 26):
//! 1. It does so only while it holds a cachable lease, by what it was told under that lease; what
//!    was read counts only if the lease is still the same when it is here.
//! 2. Whatever is odd has it go by its own server again, for [`AGAIN`] or until it holds another
//!    lease: that is always right. Where one server of objects does not answer a READ in time that is
//!    so for what is read there: where many share a link one of them may have to wait. Before data is
//!    written there that may still be on its way to an object, the layout is given back, so that the
//!    old comes to nothing.
//! 3. A server that would let another user write an object is not written to, since it could not
//!    refuse this client either when its lease is over.
//! 4. A WRITE counts under the verifier that a COMMIT by the own server brings, if each object's
//!    server said what that server knew of it. Where COMMIT brings another, as a server of objects
//!    has restarted that this client wrote nothing to, it asks anew before it writes again.
//! 5. It calls those servers only as users that no machine has: what one server says has it do
//!    nothing at another that a user could.
//! 6. Where a file is read that it has changed by a call to the file's own server, it asks anew: of
//!    two copies the one that it was told of may lack that change.

use core::future::poll_fn;
use core::net::{Ipv6Addr, SocketAddr};
use core::task::{Poll, Waker};
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use futures_util::future::join_all;
use futures_util::{StreamExt as _, stream};
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

use crate::client::{Client, Doings, State};
use crate::convert;
use crate::nodes::NodeId;
use crate::turns::{Part, Turns};

/// Smaller files are not worth the question where they lie.
const LEAST_BYTES: u64 = 256 << 10;

/// How long it is not asked again where the data of a file lies: until then an iod may be back, and
/// what one question costs is nothing to what is read and written meanwhile.
const AGAIN: Duration = Duration::from_secs(10);

/// The same for a server that never answers this client, as behind a wall of the network.
const AGAIN_MAX: Duration = Duration::from_secs(600);

/// The objects of a file at most, and the bytes of a stripe at least: a read is so many calls.
const OBJECTS_MAX: u16 = 256;
const UNIT_BYTES_MIN: u32 = 4 << 10;

/// The pauses before a server that failed is asked again to take a layout back: about a quarter of a
/// minute in all.
const RETURN_PAUSE_MIN: Duration = Duration::from_millis(100);
const RETURN_PAUSE_MAX: Duration = Duration::from_millis(6400);

/// How many rows of stripes a file is read ahead that is read in order: while one comes, the next
/// is asked for.
const AHEAD_ROWS: u64 = 4;

/// How many layouts are given back at once.
const TOGETHER_MAX: usize = 16;

/// The servers of objects that are called at most.
const SERVERS_MAX: usize = 1024;

/// What the servers of objects are told of this machine.
const MACHINE: &str = "leasehold";

/// Who reaches the servers that a client is sent to.
pub trait Servers: Send + Sync {
    /// What calls the server at an address, each call for a limited time; none where that cannot
    /// be.
    fn at(&self, address: SocketAddr) -> Option<Nfs>;
}

/// What is known of where data lies.
#[derive(Default)]
pub(crate) struct Layouts {
    files: BTreeMap<NodeId, File>,
    /// How many questions there were.
    questions: u64,
    servers: BTreeMap<SocketAddr, Server>,
    turns: Option<Arc<Both>>,
}

/// The turns of what is read and of what is written, which go opposite ways.
struct Both {
    reads: Turns,
    writes: Turns,
}

/// A lease that may be cached under, by its kind as well: one to read may become one to write.
type Lease = (Kind, Serial);

/// A question where the data of a file lies: under which lease, and which of all it is, as what was
/// asked before a change is no answer to who asks after it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Question {
    lease: Lease,
    number: u64,
}

/// What is known of one file, by one question.
struct File {
    question: Question,
    what: What,
}

/// What who comes to a file finds of it.
enum Known {
    Lies(Question, Arc<LaidOut>),
    Nowhere,
    /// Nothing: it is to ask this.
    Asks(Question),
}

enum What {
    /// It is being asked for; those who wait.
    Asked(Vec<Waker>),
    Lies(Arc<LaidOut>),
    /// Nowhere that this client goes to, until then.
    Nowhere(Time),
}

#[derive(Clone)]
struct Server {
    nfs: Nfs,
    /// Whether it has answered.
    answers: bool,
    /// Whether it refuses writers that it should.
    refuses: bool,
    /// Until when it is not called, since it did not answer, and for how long that was.
    away: Option<(Time, Duration)>,
}

/// Where the data of a file lies.
struct LaidOut {
    file: NodeId,
    kind: Kind,
    layout: stripes::Layout,
    verifier: [u8; 8],
    who: Credential,
    objects: Vec<Object>,
    turns: Arc<Both>,
    /// The one server that did not answer a READ in time, and until when it is left alone.
    late: Mutex<Option<(SocketAddr, Time)>>,
}

struct Object {
    server: SocketAddr,
    nfs: Nfs,
    handle: Handle,
    verifier: [u8; 8],
}

impl Layouts {
    /// Forgets where a node's data lies; who waits for it asks anew.
    pub(crate) fn forget(&mut self, node: NodeId, doings: &mut Doings) {
        if let Some(before) = self.files.remove(&node) {
            doings.wakers.extend(before.waiting());
        }
    }

    /// Forgets where a node's data is read, since a call of ours has changed it; who waits for that
    /// asks anew.
    pub(crate) fn changed(&mut self, node: NodeId, doings: &mut Doings) {
        if self.files.get(&node).is_some_and(|file| file.question.lease.0 == Kind::Read) {
            self.forget(node, doings);
        }
    }

    /// Forgets where a node's data is written, if COMMIT has brought another verifier than what is
    /// written there counts under: by that, it would be written again without end.
    pub(crate) fn committed(&mut self, node: NodeId, verifier: [u8; 8], doings: &mut Doings) {
        let file = self.files.get(&node);
        if let Some(File { what: What::Lies(laid_out), .. }) = file
            && laid_out.kind == Kind::Write
            && laid_out.verifier != verifier
        {
            self.forget(node, doings);
        }
    }

    /// Has a question begin, in place of what was known; gives who waited for that.
    fn ask(&mut self, node: NodeId, lease: Lease) -> (Question, Vec<Waker>) {
        let question = Question { lease, number: self.questions };
        self.questions += 1;
        let before = self.files.insert(node, File { question, what: What::Asked(Vec::new()) });
        (question, before.map(File::waiting).unwrap_or_default())
    }

    /// Takes note of what came of a question, or of a use of what it brought; whether that is still
    /// to be known.
    fn learn(&mut self, node: NodeId, question: Question, what: What, doings: &mut Doings) -> bool {
        // It may have been forgotten, or another have been asked.
        let file = self.files.get_mut(&node).filter(|file| file.question == question);
        let before = file.map(|file| core::mem::replace(file, File { question, what }));
        let is_known = before.is_some();
        doings.wakers.extend(before.into_iter().flat_map(File::waiting));
        is_known
    }
}

impl File {
    /// Who waits for what is learned.
    fn waiting(self) -> Vec<Waker> {
        match self.what {
            What::Asked(waiting) => waiting,
            What::Lies(_) | What::Nowhere(_) => Vec::new(),
        }
    }
}

impl State {
    /// The lease on a node that may be cached under, and that nobody wants back: a flush that others
    /// wait for goes by the server, which lets the lease last for as long as that goes on.
    fn cachable(&self, now: Time, node: NodeId) -> Option<Lease> {
        self.leases.as_ref()?.cachable(now, node)
    }
}

impl Client {
    /// Has data read and written where it lies from now on, where its server says where that is.
    pub fn reach_by(&self, servers: Arc<dyn Servers>) {
        // There is one way to reach them.
        let _ = self.shared.servers.set(servers);
    }

    /// Reads where data lies; none where it is to be read from the file's own server.
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
            let is_over = self.with(|state, now, doings| {
                let is_over = until <= now;
                if is_over {
                    // It may be known by now that it is away.
                    state.layouts.forget(node, doings);
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
                let until = self.with(|_, now, _| now) + AGAIN;
                if !laid_out.can_spare(odd, until) {
                    self.avoid(node, question);
                }
                return None;
            }
        };
        // Under another lease others may have changed it meanwhile.
        let is_same = self.with(|state, now, _| state.cachable(now, node)) == Some(question.lease);
        let end = offset.saturating_add(length) >= size;
        is_same.then_some(Fetched { data, end, attributes: None })
    }

    /// Writes where data lies; none where it is to be written to the file's own server.
    ///
    /// # Errors
    /// The layout could not be given back, so the data can be written nowhere else.
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
        // What was set goes to the file's own server, by a call of its own.
        Ok(Some(Stored { count, unstable, wcc, set: false }))
    }

    /// Gives back what is written by, before all leases are.
    pub(crate) async fn give_layouts_back(&self, who: &Credential) {
        let written: Vec<NodeId> = {
            let state = self.shared.state();
            let is_written = |what: &What| matches!(what, What::Lies(at) if at.kind == Kind::Write);
            let files = state.layouts.files.iter().filter(|(_, file)| is_written(&file.what));
            files.map(|(node, _)| *node).collect()
        };
        let returns = stream::iter(written).for_each_concurrent(TOGETHER_MAX, |node| async move {
            self.with(|state, _, doings| state.layouts.forget(node, doings));
            if let Ok(handle) = self.handle(node) {
                let _ = self.give_layout_back(who, node, &handle).await;
            }
        });
        // The server ends them all the same when somebody else comes: an iod that is away is not
        // waited for.
        self.patiently(returns).await;
    }

    /// Gives back what data may still be on its way by. Until then that can be written nowhere else,
    /// and who fails here loses it: so what may pass by is tried again.
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
        let ride = self.ride(&[], None);
        // The attributes of the file show the WRITEs to iods when the client gives the layout back.
        let writing = self.writing(node);
        let reply = ride.nfs.give_objects_back(who, handle).await;
        writing.answered(&ride);
        Ok(reply?.done()?)
    }

    /// Goes by the file's own server for a while.
    fn avoid(&self, node: NodeId, question: Question) {
        self.learn_objects(node, question, None);
    }

    fn learn_objects(
        &self,
        node: NodeId,
        question: Question,
        laid_out: Option<Arc<LaidOut>>,
    ) -> bool {
        self.with(|state, now, doings| {
            let what = laid_out.map_or_else(|| What::Nowhere(now + AGAIN), What::Lies);
            state.layouts.learn(node, question, what, doings)
        })
    }

    /// Where the data of a file lies under the lease that is held, asked for once.
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
        // Less than a row of stripes leaves servers idle.
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

    /// What calls the server of an object; none where that cannot be reached, or is not to be
    /// written to.
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
                let pause = server.away.map_or(AGAIN, |(_, pause)| (pause * 2).min(AGAIN_MAX));
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

    /// Asks the file's own server.
    async fn ask_objects(
        &self,
        who: &Credential,
        node: NodeId,
        handle: &Handle,
        kind: messages::Kind,
    ) -> Option<objects::Layout> {
        let ride = self.ride(&[], None);
        // The call ends an earlier layout, and the attributes show the WRITEs of that layout then.
        let writing = self.writing(node);
        let reply = ride.nfs.objects(who, handle, kind).await;
        writing.answered(&ride);
        reply.ok()?.done().ok()
    }
}

/// Why something was not read where it lies.
#[derive(Clone, Copy)]
enum Odd {
    /// This server did not answer in time.
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

    /// The pieces of a range, cut to what goes at once.
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

    /// Whether any of a range lies at a server.
    fn is_at(&self, server: SocketAddr, offset: u64, length: u64) -> bool {
        self.layout.pieces(offset, length).any(|piece| self.object(&piece).server == server)
    }

    /// Whether what was odd is one server, without which the others can be read: it is left alone for
    /// a while.
    fn can_spare(&self, odd: Odd, until: Time) -> bool {
        let Odd::Late(server) = odd else { return false };
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = late.is_none_or(|(late, _)| late == server);
        late.get_or_insert((server, until));
        is_first && self.objects.iter().any(|object| object.server != server)
    }

    /// A range within the file.
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

    /// Whether all was written, and nothing was odd.
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
    /// A piece; what the object does not have is zero, for the file is longer.
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
