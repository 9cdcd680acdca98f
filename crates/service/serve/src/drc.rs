//! The duplicate request cache. Each group of clients has its own shard with its own mutex, so that
//! calls of different groups do not contend.

use core::future::poll_fn;
use core::hash::Hasher as _;
use core::net::{IpAddr, SocketAddr};
use core::task::Poll;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use futures_channel::oneshot;
use leasehold_base::limits::{REPLIES_BYTES_MAX, REPLIES_MAX, REPLY_AGE_MAX};
use leasehold_base::units::{ConnectionId, Time};
use leasehold_base::xdr::{Encode as _, Message, Reader, Writer, decode_all};
use leasehold_core::drc::{
    Call, Counts, Effect, Event, Harm, Limits, Note, Origin, Replies, Standing, Ticket,
};
use leasehold_fs::unsettled::{Wait, taking};
use leasehold_fs::{Caller, FsError, MaybeReady};
use leasehold_wire::rpc;
use siphasher::sip::SipHasher13;

use crate::procedure::Running;
use crate::reply_journal::{Noted, ReplyJournal};
use crate::{Arrival, Response, Transport};

const SHARDS: usize = 16;

/// The limits of one shard.
const LIMITS: Limits = Limits {
    entries: REPLIES_MAX / SHARDS,
    running_of_client: REPLIES_MAX / SHARDS / 4,
    bytes: REPLIES_BYTES_MAX / SHARDS,
    age: REPLY_AGE_MAX,
};

/// The number of journal slots of each shard.
const SLOTS: u32 = 4096;

const _: () = assert!(SLOTS as usize * SHARDS == REPLIES_MAX);

/// The state of the duplicate request cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplyCache {
    /// The number of running calls and cached replies.
    pub entries: usize,
    /// The bytes of the cached replies.
    pub bytes: usize,
    /// The numbers of events.
    pub counts: Counts,
}

/// All cached replies.
pub(crate) struct KeptReplies {
    shards: [Arc<Shard>; SHARDS],
}

struct Shard {
    state: Mutex<State>,
}

struct State {
    core: Replies,
    /// The latest time of an event. The calls of one client may arrive through several loops, so
    /// the times of the calls may be out of order.
    now: Time,
    effects: Vec<Effect>,
    waiting: BTreeMap<Ticket, oneshot::Sender<Option<Bytes>>>,
    /// Calls whose wait has ended, with the results, which are sent after the mutex is released.
    released: Vec<(oneshot::Sender<Option<Bytes>>, Option<Bytes>)>,
    pages: Option<Pages>,
}

/// A shard's part of the reply journal.
struct Pages {
    reply_journal: Arc<dyn ReplyJournal>,
    first_slot: u32,
    /// Reusable memory for the encoding of an entry.
    writer: Writer,
}

impl KeptReplies {
    pub(crate) fn new() -> Self {
        let shard = || {
            let state = State {
                core: Replies::new(LIMITS),
                now: Time::ZERO,
                effects: Vec::new(),
                waiting: BTreeMap::new(),
                released: Vec::new(),
                pages: None,
            };
            Arc::new(Shard { state: Mutex::new(state) })
        };
        Self { shards: core::array::from_fn(|_| shard()) }
    }

    /// Restores the entries of a journal, and records new entries in the journal from now on.
    pub(crate) fn note_in(
        &self,
        reply_journal: &Arc<dyn ReplyJournal>,
        noted: &[Noted],
        now: Time,
    ) {
        for (shard, first_slot) in self.shards.iter().zip((0..).step_by(SLOTS as usize)) {
            let reply_journal = Arc::clone(reply_journal);
            shard.lock().pages = Some(Pages { reply_journal, first_slot, writer: Writer::new() });
        }
        // The oldest entries are restored first, so that the cache has its original order of ages.
        let mut in_order: Vec<&Noted> = noted.iter().collect();
        in_order.sort_by_key(|noted| noted.given);
        for Noted { slot, given, note } in in_order {
            let Ok(note) = decode_all::<Note>(&mut Reader::new(note)) else { continue };
            let index = shard_of(note.origin.client());
            if usize::try_from(slot / SLOTS) == Ok(index) {
                let event = Event::Recalled { slot: slot % SLOTS, given: *given, note };
                self.shards[index].turn(|state| state.step(now, event));
            }
        }
    }

    /// Decides if a call runs, waits for an earlier copy, or receives a cached reply. `message` is
    /// the whole message, and `head_bytes` is the length of the RPC header in the message.
    pub(crate) fn admit(
        &self,
        arrival: &Arrival,
        call: &rpc::Call<'_>,
        caller: &Caller,
        harm: Harm,
        (message, head_bytes): (&[u8], usize),
    ) -> Admitted {
        let shard = self.shard(arrival.from);
        let event = Event::Call {
            origin: match arrival.transport() {
                Transport::Stream => Origin::stream(arrival.from),
                Transport::Datagram => Origin::datagram(arrival.from),
            },
            connection: arrival.connection,
            call: Call {
                xid: call.xid,
                program: call.program,
                version: call.version,
                procedure: call.procedure,
                checksum: checksum((message, head_bytes), caller, harm),
            },
            harm,
        };
        shard.turn(|state| match state.step(arrival.now, event) {
            Some(Effect::Execute(ticket)) => {
                let shard = Arc::clone(shard);
                Admitted::Runs(Started { shard, ticket, at: arrival.now, done: false })
            }
            Some(Effect::Resend(reply)) => {
                Admitted::Answered(MaybeReady::now(Some(reply.into())).into())
            }
            Some(Effect::Wait(ticket)) => {
                let (sender, receiver) = oneshot::channel();
                // Only the latest retransmission receives the reply, so an earlier waiting copy
                // ends without a reply.
                let earlier = state.waiting.insert(ticket, sender);
                state.released.extend(earlier.map(|earlier| (earlier, None)));
                let reply = async { receiver.await.ok().flatten().map(Into::into) };
                Admitted::Answered(MaybeReady::later(reply).into())
            }
            Some(Effect::Refuse) => Admitted::Refused,
            Some(Effect::Drop | Effect::Note { .. } | Effect::Release(..)) | None => {
                Admitted::Answered(MaybeReady::now(None).into())
            }
        })
    }

    /// Permits retransmissions of a closed connection's calls on another connection.
    pub(crate) fn connection_closed(&self, from: SocketAddr, connection: ConnectionId) {
        self.shard(from).turn(|state| {
            let event = Event::ConnectionClosed { client: from.ip(), connection };
            state.step(state.now, event);
        });
    }

    /// Forgets expired replies, and returns the time of the next expiry.
    pub(crate) fn wake(&self, now: Time) -> Option<Time> {
        let wake = |shard: &Arc<Shard>| {
            shard.turn(|state| {
                state.step(now, Event::Tick);
                state.core.next_wake()
            })
        };
        self.shards.iter().filter_map(wake).min()
    }

    /// Returns the state of the cache.
    pub(crate) fn state(&self) -> ReplyCache {
        self.shards.iter().fold(ReplyCache::default(), |sum, shard| {
            let core = &shard.lock().core;
            ReplyCache {
                entries: sum.entries + core.len(),
                bytes: sum.bytes + core.kept_bytes(),
                counts: sum.counts.plus(core.counts()),
            }
        })
    }

    fn shard(&self, from: SocketAddr) -> &Arc<Shard> {
        // The shard does not depend on the port, because a client that reconnects may have another
        // port.
        &self.shards[shard_of(from.ip())]
    }
}

/// Returns the shard of a client, which is the same in every version because it determines the
/// journal slots.
fn shard_of(client: IpAddr) -> usize {
    let mut hasher = SipHasher13::new();
    match client {
        IpAddr::V4(address) => hasher.write(&address.octets()),
        IpAddr::V6(address) => hasher.write(&address.octets()),
    }
    let [byte, ..] = hasher.finish().to_le_bytes();
    usize::from(byte) % SHARDS
}

impl Shard {
    /// Runs one step on the state, releases the mutex, and then sends the results to waiting calls.
    /// A woken call may run inside `send` and acquire the mutex.
    fn turn<T>(&self, turn: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let value = turn(&mut state);
        let released = core::mem::take(&mut state.released);
        drop(state);
        for (waiting, reply) in released {
            // The send fails if the waiting call is gone, which needs no further action.
            drop(waiting.send(reply));
        }
        value
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // After a panic the state of the core may be inconsistent, and the shard can no longer
        // prevent repeated execution. The `expect` therefore fails each later call of these
        // clients.
        self.state.lock().expect("a core that panicked is not used again")
    }
}

impl State {
    /// Processes one event: writes journal entries, queues the results of waiting calls, and
    /// returns the effect on the caller.
    fn step(&mut self, now: Time, event: Event) -> Option<Effect> {
        self.now = self.now.max(now);
        self.core.step(self.now, event, &mut self.effects);
        let mut caller = None;
        for effect in self.effects.drain(..) {
            match effect {
                Effect::Note { slot, given, note, change } => {
                    if let Some(pages) = &mut self.pages {
                        pages.write(slot, given, &note, change);
                    }
                }
                Effect::Release(ticket, reply) => {
                    let waiting = self.waiting.remove(&ticket);
                    self.released.extend(waiting.map(|waiting| (waiting, reply)));
                }
                Effect::Execute(_)
                | Effect::Drop
                | Effect::Wait(_)
                | Effect::Resend(_)
                | Effect::Refuse => caller = Some(effect),
            }
        }
        caller
    }
}

impl Pages {
    fn write(&mut self, slot: u32, given: Time, note: &Note, change: Standing) {
        let mut writer = core::mem::take(&mut self.writer);
        note.encode(&mut writer);
        let written = writer.finish();
        // A cached reply is short, so the encoded entry has a single part.
        let (.., words) = written.parts();
        let slot = self.first_slot + slot;
        match change {
            Standing::Made => self.reply_journal.write_made(slot, given, words),
            Standing::Done => self.reply_journal.write(slot, given, words),
        }
        self.writer = written.into_writer();
    }
}

/// The decision about a call that may be a retransmission.
pub(crate) enum Admitted {
    /// The call runs.
    Runs(Started),
    /// The call gets the answer of a retransmission.
    Answered(Response),
    /// The cache is full.
    Refused,
}

/// A running call. If the value is dropped before the call is done, the cache forgets the call.
pub(crate) struct Started {
    shard: Arc<Shard>,
    ticket: Ticket,
    at: Time,
    done: bool,
}

impl Started {
    /// Runs the call, and caches its reply when the call is done. If `failed` is set, records the
    /// reply in the journal as soon as the change is made; `failed` encodes the reply in case the
    /// change then does not reach stable storage.
    pub(crate) fn run(
        self,
        running: Running,
        failed: Option<impl FnOnce(FsError, Writer) -> Message + Send + 'static>,
    ) -> Response {
        let reply = match failed {
            Some(failed) => self.noting(running, failed),
            None => MaybeReady::later(async move {
                let reply = running.await?;
                self.done(reply.to_bytes());
                Some(reply)
            }),
        };
        Response { reply, must_end: true }
    }

    fn noting(
        self,
        mut running: Running,
        failed: impl FnOnce(FsError, Writer) -> Message + Send + 'static,
    ) -> MaybeReady<'static, Option<Message>> {
        MaybeReady::later(async move {
            let mut waits: Vec<Wait> = Vec::new();
            let mut settled = Ok(());
            let polled = poll_fn(|context| {
                let polled = taking(&mut waits, || running.as_mut().poll(context));
                if polled.is_pending() {
                    // The call polls the waits for stable storage itself, because the poll of a
                    // wait may start the sync for which other calls wait.
                    waits.retain_mut(|wait| match wait.as_mut().poll(context) {
                        Poll::Ready(done) => {
                            settled = settled.and(done);
                            false
                        }
                        Poll::Pending => true,
                    });
                }
                polled
            });
            let mut reply = polled.await?;
            if !waits.is_empty() {
                self.made(reply.to_bytes());
            }
            for wait in waits {
                settled = settled.and(wait.await);
            }
            if let Err(error) = settled {
                reply = failed(error, reply.into_writer());
            }
            self.done(reply.to_bytes());
            Some(reply)
        })
    }

    fn made(&self, reply: Bytes) {
        self.shard.turn(|state| state.step(self.at, Event::Made { ticket: self.ticket, reply }));
    }

    fn done(mut self, reply: Bytes) {
        self.done = true;
        self.shard.turn(|state| state.step(self.at, Event::Done { ticket: self.ticket, reply }));
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if !self.done {
            let event = Event::Abandoned { ticket: self.ticket };
            self.shard.turn(|state| state.step(self.at, event));
        }
    }
}

/// Returns the maximum number of argument bytes in the checksum: for a WRITE the 88 bytes that
/// contain the arguments before the data, for other calls all arguments.
const fn checked_argument_bytes(harm: Harm) -> usize {
    match harm {
        Harm::Late => 128,
        Harm::Always => 10 << 10,
    }
}

/// The number of bytes at the end of a longer message in the checksum. All of the data of a WRITE
/// would cost more than the write itself. The other bytes would also detect no further reuse of an
/// xid, because a client reuses an xid only after the end of the call.
const CHECKED_TAIL_BYTES: usize = 256;

/// Returns the checksum that distinguishes calls with equal xids, and trusted from untrusted
/// callers with equal claims. The algorithm is the same in every version of the server, because the
/// journal contains the checksums.
fn checksum((message, head_bytes): (&[u8], usize), caller: &Caller, harm: Harm) -> u64 {
    let mut hasher = SipHasher13::new();
    let Caller { uid, gid, groups } = caller;
    for number in [*uid, *gid, groups.count()].iter().chain(groups.as_slice()) {
        hasher.write(&number.to_be_bytes());
    }
    let front_bytes = head_bytes + checked_argument_bytes(harm);
    if message.len() <= front_bytes + CHECKED_TAIL_BYTES {
        hasher.write(message);
    } else {
        hasher.write(&message[..front_bytes]);
        hasher.write(&message[message.len() - CHECKED_TAIL_BYTES..]);
    }
    hasher.write_u64(message.len() as u64);
    hasher.finish()
}
