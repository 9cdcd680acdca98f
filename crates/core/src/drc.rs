//! The duplicate request cache: a call that must not run twice, such as REMOVE, runs once however
//! often its client sends it (Juszczak 1989). The same holds for a call that does harm only if a
//! copy runs late, such as WRITE: the copy would undo later changes.
//!
//! Criteria in order of weight:
//! - No call runs twice while its reply is cached or the call is running.
//! - No call receives the reply of another call: a false hit is worse than a miss.
//! - Memory is bounded, and one client cannot evict the replies of others.
//! - Calls that may run twice never enter the cache, so they cost nothing and evict nothing.
//!
//! Rules:
//! 1. An unknown call runs.
//! 2. A datagram copy of a running call is dropped, because the reply to the first copy goes to the
//!    same port.
//! 3. A stream copy of a running call waits for the reply of the call, and replaces a copy that
//!    already waits: a client repeats a call on a stream because it lost a connection, and the
//!    reply to the first copy may go to the lost connection.
//! 4. A copy of a finished call is answered with the cached reply.
//! 5. Two messages are copies of one call if client, transport, port, xid, program, version,
//!    procedure and checksum are equal. The port may differ if no other call matches and the first
//!    copy still runs, or its connection is closed. The call belongs to the connection of its last
//!    copy: the server often detects a client's new connection, from the same or another port,
//!    before it detects the end of the old connection.
//! 6. A call that ended without a reply is forgotten. A waiting copy is dropped; the client repeats
//!    the call, and the repeated call runs.
//! 7. A reply is cached until a fixed time has passed since the server last sent it.
//! 8. If the cache is full, it evicts a reply of the client with the most cached replies: the
//!    client's oldest reply to a call that does harm only late or, if there is no such reply, the
//!    client's oldest reply. Running calls are never forgotten; if all entries are running calls,
//!    or the client has too many running calls, a new call is refused.
//! 9. The reply to a call that does harm whenever a copy runs is persisted in a note before the
//!    reply is sent, and again each time the reply is sent again. A restarted server loads the
//!    notes and caches their replies for the rest of their time; the connection of a loaded stream
//!    call counts as closed. A note has its own slot for as long as its reply is cached. So there
//!    are never more notes than replies, and no client's notes evict another client's notes.
//!
//! 10. The owner can report that a call of rule 9 has made its change before the change is on
//!     stable storage. The reply is then persisted in a marked note, because the change survives a
//!     kill of the server and may not survive a crash of the machine. The call continues to run: no
//!     copy is answered from the marked note, and the note of the finished call replaces the marked
//!     note.
//!
//! A call that does harm only late needs no note: a copy is harmful only if the client has received
//! the reply and has gone on. After a restart no such copy can arrive, because stream copies end
//! with their connection to the old server, and the lifetime of a datagram is shorter than a
//! restart.
//!
//! Limits: if a client uses the same xid after each start and then sends an identical call, the
//! cache cannot distinguish that call from a repetition. The cache relies on its owner's report
//! that a connection is closed; a connection that only seems open counts as open.

mod calls;
mod note;
mod queue;
mod slots;

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use leasehold_base::units::{ConnectionId, Time, Xid};

use calls::{Calls, Place};
pub use note::Note;
use queue::Queue;
use slots::Slots;

/// The limits of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The maximum number of running calls and cached replies together.
    pub entries: usize,
    /// The maximum number of running calls of one client.
    pub running_of_client: usize,
    /// The maximum total size of the cached replies in bytes.
    pub bytes: usize,
    /// The time for which a reply is cached after the server last sent it.
    pub age: Duration,
}

/// The sender of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    client: IpAddr,
    port: Port,
}

/// A port; each transport has its own port numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Port {
    Datagram(u16),
    Stream(u16),
}

impl Origin {
    /// Returns the client's address.
    #[must_use]
    pub const fn client(&self) -> IpAddr {
        self.client
    }

    /// Creates the origin of a datagram from the address of its sender.
    #[must_use]
    pub const fn datagram(from: SocketAddr) -> Self {
        Self { client: from.ip(), port: Port::Datagram(from.port()) }
    }

    /// Creates the origin of calls on a stream from the address of the peer.
    #[must_use]
    pub const fn stream(from: SocketAddr) -> Self {
        Self { client: from.ip(), port: Port::Stream(from.port()) }
    }
}

/// The identity of a call among the calls of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call {
    /// The transaction id of the call.
    pub xid: Xid,
    /// The program.
    pub program: u32,
    /// The program's version.
    pub version: u32,
    /// The procedure.
    pub procedure: u32,
    /// A checksum of the message and of the caller's credential; the owner may omit the middle of a
    /// long message.
    pub checksum: u64,
}

/// The condition under which a copy of a call does harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Harm {
    /// A copy does harm if it runs after a later call of the client.
    Late,
    /// A copy does harm whenever it runs.
    Always,
}

/// Identifies a running call to the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// An event for the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A call arrived that must not run twice. The last effect of the step determines how the owner
    /// handles the call.
    Call {
        /// The sender.
        origin: Origin,
        /// The connection, if any.
        connection: Option<ConnectionId>,
        /// The identity of the call.
        call: Call,
        /// The condition under which a copy does harm.
        harm: Harm,
    },
    /// A running call has finished, and the owner sends the reply.
    Done {
        /// The call.
        ticket: Ticket,
        /// The whole reply.
        reply: Bytes,
    },
    /// A running call has made its change; [`Event::Done`] follows when the change is on stable
    /// storage. The owner reports this at most once for each call.
    Made {
        /// The call.
        ticket: Ticket,
        /// The whole reply, which is valid if the sync of the change succeeds.
        reply: Bytes,
    },
    /// A running call ended without a reply.
    Abandoned {
        /// The call.
        ticket: Ticket,
    },
    /// A stream was closed.
    ConnectionClosed {
        /// The client of the stream.
        client: IpAddr,
        /// The connection.
        connection: ConnectionId,
    },
    /// The owner found a note on stable storage at the start. If two notes belong to one call, the
    /// note with the later time counts.
    Recalled {
        /// The slot of the note.
        slot: u32,
        /// The time at which the reply was last sent.
        given: Time,
        /// The note.
        note: Note,
    },
    /// Time has passed.
    Tick,
}

/// An action that the owner of this state machine must perform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Run the call; [`Event::Done`] or [`Event::Abandoned`] must follow.
    Execute(Ticket),
    /// Do not answer the call.
    Drop,
    /// Let the call wait for the [`Effect::Release`] of a ticket; a copy that waited before is
    /// dropped.
    Wait(Ticket),
    /// Answer the call with this reply.
    Resend(Bytes),
    /// The cache is full: the call must not run, and the client must retry later.
    Refuse,
    /// Answer the copy that waits for the ticket with this reply, or drop it.
    Release(Ticket, Option<Bytes>),
    /// Write the note into the slot, over the slot's old content, before the reply is sent.
    Note {
        /// The slot, below the limit of entries.
        slot: u32,
        /// The time at which the reply was last sent.
        given: Time,
        /// The note.
        note: Note,
        /// The state of the call's change.
        change: Standing,
    },
}

/// The state of a call's change when the note is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The change is made, and may not be on stable storage: a crash of the machine can undo it.
    Made,
    /// The call is done, and its reply is final.
    Done,
}

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The number of copies of running calls that were dropped.
    pub dropped: u64,
    /// The number of copies that waited for a running call.
    pub waited: u64,
    /// The number of copies of finished calls that were answered.
    pub resent: u64,
    /// The number of replies that were evicted because the cache was full.
    pub evicted: u64,
    /// The number of calls that were refused because the cache was full.
    pub refused: u64,
}

impl Counts {
    /// Adds the counters of another cache.
    #[must_use]
    pub const fn plus(self, more: Self) -> Self {
        Self {
            dropped: self.dropped + more.dropped,
            waited: self.waited + more.waited,
            resent: self.resent + more.resent,
            evicted: self.evicted + more.evicted,
            refused: self.refused + more.refused,
        }
    }
}

/// The calls of some clients that must not run twice: the running calls, and the replies of
/// finished calls.
#[derive(Clone, Debug)]
pub struct Replies {
    limits: Limits,
    calls: Calls,
    running: BTreeMap<Ticket, Place>,
    /// The number of running calls of each client.
    clients: BTreeMap<IpAddr, usize>,
    /// The open connections on which calls arrived, each with the opening that distinguishes it
    /// from an earlier connection with an equal id.
    open: BTreeMap<(IpAddr, ConnectionId), Opening>,
    openings: u64,
    kept: Queue,
    kept_bytes: usize,
    slots: Slots,
    next_ticket: u64,
    counts: Counts,
}

/// A call and its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    /// A hash by which [`Calls`] finds the call.
    digest: u64,
    client: IpAddr,
    call: Call,
    port: Port,
}

/// Distinguishes two openings of one connection id. A call may be handled after the report that its
/// connection was closed; the connection then counts as opened a second time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Opening(u64);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    key: Key,
    /// The connection of the last copy, which may have been closed since.
    connection: Option<(ConnectionId, Opening)>,
    harm: Harm,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// The call is running. `slot` is the slot of its marked note, if the owner reported its
    /// change.
    Running { ticket: Ticket, waited_for: bool, slot: Option<u32> },
    /// The reply is cached. `slot` is the slot of its note, if the reply has a note.
    Kept { reply: Bytes, slot: Option<u32> },
}

impl Replies {
    /// Creates an empty cache.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        Self {
            limits,
            calls: Calls::new(),
            running: BTreeMap::new(),
            clients: BTreeMap::new(),
            open: BTreeMap::new(),
            openings: 0,
            kept: Queue::new(),
            kept_bytes: 0,
            slots: Slots::new(),
            next_ticket: 0,
            counts: Counts { dropped: 0, waited: 0, resent: 0, evicted: 0, refused: 0 },
        }
    }

    /// Handles one event, and appends the resulting actions in order.
    ///
    /// # Panics
    /// Panics if a ticket ends that is not running.
    pub fn step(&mut self, now: Time, event: Event, effects: &mut Vec<Effect>) {
        self.expire(now);
        match event {
            Event::Call { origin, connection, call, harm } => {
                let opening = |id| (id, self.opening(origin.client, id));
                let connection = connection.map(opening);
                self.call(now, Key::of(origin, call), connection, harm, effects);
            }
            Event::Done { ticket, reply } => self.done(now, ticket, reply, effects),
            Event::Made { ticket, reply } => self.made(now, ticket, &reply, effects),
            Event::Abandoned { ticket } => self.abandon(ticket, effects),
            Event::ConnectionClosed { client, connection } => {
                self.open.remove(&(client, connection));
            }
            Event::Recalled { slot, given, note } => self.recall(now, slot, given, note),
            Event::Tick => {}
        }
        if cfg!(debug_assertions) && self.calls.len() <= AUDITED_MAX {
            self.check();
        }
    }

    /// Returns the time at which the next reply expires.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        self.kept.oldest().map(|(_, since)| since + self.limits.age)
    }

    /// Returns the total size of the cached replies in bytes.
    #[must_use]
    pub const fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// Returns the counters.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the number of running calls and cached replies.
    #[must_use]
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Returns true if no call is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.calls.len() == 0
    }

    /// Audits the whole state.
    ///
    /// # Panics
    /// Panics if the state is inconsistent or exceeds its limits.
    pub fn check(&self) {
        assert!(self.calls.len() <= self.limits.entries, "entries are bounded");
        assert!(self.kept_bytes <= self.limits.bytes, "bytes are bounded");
        self.calls.check();
        let (mut bytes, mut slots) = (0, BTreeSet::new());
        for (place, entry) in self.calls.iter() {
            match &entry.state {
                State::Running { ticket, slot, .. } => {
                    assert_eq!(self.running.get(ticket), Some(&place));
                    slots.extend(*slot);
                }
                State::Kept { reply, slot } => {
                    bytes += reply.len();
                    assert_eq!(
                        slot.is_some(),
                        entry.harm == Harm::Always,
                        "a harmful call has a note"
                    );
                    slots.extend(*slot);
                    assert!(slot.is_none_or(|slot| self.slots.is_taken(slot)), "slots are taken");
                }
            }
        }
        assert_eq!(bytes, self.kept_bytes, "bytes are counted");
        assert_eq!(self.clients.values().sum::<usize>(), self.running.len(), "clients are counted");
        assert_eq!(slots.len(), self.slots.taken(), "each note has a slot of its own");
        let bounded = slots.last().is_none_or(|slot| (*slot as usize) < self.limits.entries);
        assert!(bounded, "slots are bounded");
        assert_eq!(
            self.running.len() + self.kept.len(),
            self.calls.len(),
            "each call is either running or cached"
        );
        self.kept.check(|place| {
            let entry = self.calls.get(place);
            assert!(matches!(entry.state, State::Kept { .. }), "a cached entry has a reply");
            (entry.key.client, entry.harm)
        });
    }

    fn call(
        &mut self,
        now: Time,
        wanted: Key,
        connection: Option<(ConnectionId, Opening)>,
        harm: Harm,
        effects: &mut Vec<Effect>,
    ) {
        let Some(found) = self.find(wanted) else {
            // Rule 1: an unknown call runs.
            effects.push(self.admit(wanted, connection, harm));
            return;
        };
        // Rule 5: from now on the call belongs to the connection of this copy.
        let entry = self.calls.get_mut(found);
        entry.connection = connection;
        entry.key.port = wanted.port;
        match &mut entry.state {
            State::Running { ticket, waited_for, .. } => match wanted.port {
                // Rule 2: a datagram copy of a running call is dropped, because the reply to the
                // first copy goes to the same port.
                Port::Datagram(_) => {
                    self.counts.dropped += 1;
                    effects.push(Effect::Drop);
                }
                // Rule 3: a stream copy waits for the reply, because the reply to the first copy
                // may go to a lost connection.
                Port::Stream(_) => {
                    self.counts.waited += 1;
                    *waited_for = true;
                    effects.push(Effect::Wait(*ticket));
                }
            },
            // Rule 4: a copy of a finished call is answered with the cached reply.
            State::Kept { reply, slot } => {
                self.counts.resent += 1;
                // Rule 7: the reply is sent again, so its time in the cache begins again.
                self.kept.remove(found, wanted.client, entry.harm);
                self.kept.push(now, found, wanted.client, entry.harm);
                // Rule 9: the note is persisted again before the reply is sent again.
                effects.extend(slot.map(|slot| wanted.note(slot, now, reply, Standing::Done)));
                effects.push(Effect::Resend(reply.clone()));
            }
        }
    }

    /// Rule 5: returns the known call of which a message is a copy.
    fn find(&self, wanted: Key) -> Option<Place> {
        // In most cases no known call matches. If the port differs, the only matching stream call
        // is a candidate.
        let (mut streams, mut only) = (0, None);
        for (place, entry) in self.calls.alike(wanted) {
            if entry.key.port == wanted.port {
                return Some(place);
            }
            if let Port::Stream(_) = entry.key.port {
                (streams, only) = (streams + 1, Some((place, entry)));
            }
        }
        let is_free =
            |entry: &Entry| matches!(entry.state, State::Running { .. }) || !self.is_open(entry);
        match (wanted.port, only) {
            (Port::Stream(_), Some((place, entry))) if streams == 1 && is_free(entry) => {
                Some(place)
            }
            _ => None,
        }
    }

    /// Returns true if the connection of a call's last copy is open.
    fn is_open(&self, entry: &Entry) -> bool {
        let is_open = |(id, opening)| self.open.get(&(entry.key.client, id)) == Some(&opening);
        entry.connection.is_some_and(is_open)
    }

    /// Records that a connection is open.
    fn opening(&mut self, client: IpAddr, connection: ConnectionId) -> Opening {
        *self.open.entry((client, connection)).or_insert_with(|| {
            self.openings += 1;
            Opening(self.openings)
        })
    }

    fn admit(
        &mut self,
        key: Key,
        connection: Option<(ConnectionId, Opening)>,
        harm: Harm,
    ) -> Effect {
        // Rule 8: a new call is refused if the client has too many running calls, or if all entries
        // are running calls.
        let running = self.running_of(key.client);
        if running >= self.limits.running_of_client
            || self.calls.len() >= self.limits.entries && !self.evict()
        {
            self.counts.refused += 1;
            return Effect::Refuse;
        }
        *self.clients.entry(key.client).or_default() += 1;
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        let state = State::Running { ticket, waited_for: false, slot: None };
        let place = self.calls.insert(Entry { key, connection, harm, state });
        self.running.insert(ticket, place);
        Effect::Execute(ticket)
    }

    fn done(&mut self, now: Time, ticket: Ticket, reply: Bytes, effects: &mut Vec<Effect>) {
        let place = self.ended(ticket);
        let entry = self.calls.get_mut(place);
        let noted = match entry.state {
            State::Running { slot, .. } | State::Kept { slot, .. } => slot,
        };
        // Rule 9: the reply to a call that does harm whenever a copy runs is persisted in a note,
        // which has its own slot, before the reply is sent.
        let take = || noted.unwrap_or_else(|| self.slots.take());
        let slot = (entry.harm == Harm::Always).then(take);
        effects.extend(slot.map(|slot| entry.key.note(slot, now, &reply, Standing::Done)));
        if matches!(entry.state, State::Running { waited_for: true, .. }) {
            effects.push(Effect::Release(ticket, Some(reply.clone())));
        }
        self.kept_bytes += reply.len();
        self.kept.push(now, place, entry.key.client, entry.harm);
        entry.state = State::Kept { reply, slot };
        self.fit_bytes();
    }

    /// Rule 10: persists the reply in a marked note when the change is made but not yet synced.
    fn made(&mut self, now: Time, ticket: Ticket, reply: &Bytes, effects: &mut Vec<Effect>) {
        let place = *self.running.get(&ticket).expect("a running call makes its change");
        let entry = self.calls.get_mut(place);
        if let (Harm::Always, State::Running { slot: noted @ None, .. }) =
            (entry.harm, &mut entry.state)
        {
            let slot = self.slots.take();
            *noted = Some(slot);
            effects.push(entry.key.note(slot, now, reply, Standing::Made));
        }
    }

    /// Rule 9: caches the reply of a loaded note for the rest of its time. The connection of the
    /// call counts as closed.
    fn recall(&mut self, now: Time, slot: u32, given: Time, note: Note) {
        let Note { origin, call, reply } = note;
        let key = Key::of(origin, call);
        if now.since(given) >= self.limits.age || slot as usize >= self.limits.entries {
            return;
        }
        let known = self.calls.alike(key).find(|(_, entry)| entry.key == key);
        match known.map(|(place, entry)| (place, &entry.state)) {
            None if self.calls.len() < self.limits.entries => {}
            Some((place, State::Kept { .. })) if self.kept.since(place) < given => {
                self.forget(place);
            }
            None | Some((_, State::Running { .. } | State::Kept { .. })) => return,
        }
        if self.slots.take_this(slot) {
            let harm = Harm::Always;
            self.kept_bytes += reply.len();
            let state = State::Kept { reply, slot: Some(slot) };
            let place = self.calls.insert(Entry { key, connection: None, harm, state });
            self.kept.push(given, place, key.client, harm);
            self.fit_bytes();
        }
    }

    fn fit_bytes(&mut self) {
        while self.kept_bytes > self.limits.bytes {
            assert!(self.evict(), "only cached replies use bytes");
        }
    }

    /// Rule 6: forgets a call that ended without a reply, and drops the waiting copy.
    fn abandon(&mut self, ticket: Ticket, effects: &mut Vec<Effect>) {
        let place = self.ended(ticket);
        let entry = self.calls.remove(place);
        if let State::Running { waited_for, slot, .. } = entry.state {
            effects.extend(waited_for.then_some(Effect::Release(ticket, None)));
            slot.into_iter().for_each(|slot| self.slots.give_back(slot));
        }
    }

    /// Removes a call from the running calls.
    fn ended(&mut self, ticket: Ticket) -> Place {
        let place = self.running.remove(&ticket).expect("each running ticket ends once");
        let client = self.calls.get(place).key.client;
        let running =
            self.clients.get_mut(&client).expect("a client with a running call has a count");
        *running -= 1;
        if *running == 0 {
            self.clients.remove(&client);
        }
        place
    }

    fn running_of(&self, client: IpAddr) -> usize {
        self.clients.get(&client).copied().unwrap_or(0)
    }

    /// Rule 7: forgets the replies that were last sent too long ago.
    fn expire(&mut self, now: Time) {
        while let Some((oldest, since)) = self.kept.oldest()
            && now.since(since) >= self.limits.age
        {
            self.forget(oldest);
        }
    }

    /// Rule 8: evicts one cached reply; returns false if no reply is cached.
    fn evict(&mut self) -> bool {
        let Some(place) = self.kept.most_dispensable() else { return false };
        self.counts.evicted += 1;
        self.forget(place);
        true
    }

    fn forget(&mut self, place: Place) {
        let Entry { key, harm, state, .. } = self.calls.remove(place);
        self.kept.remove(place, key.client, harm);
        if let State::Kept { reply, slot } = state {
            self.kept_bytes -= reply.len();
            slot.into_iter().for_each(|slot| self.slots.give_back(slot));
        }
    }
}

/// The maximum number of known calls with which a debug build audits the cache after each step: an
/// audit takes time in proportion to the number, and small states show the same faults.
const AUDITED_MAX: usize = 64;

impl Key {
    fn of(origin: Origin, call: Call) -> Self {
        // Multiplication by an odd number loses no bits of the xid. This multiplier is derived from
        // the golden ratio, which spreads adjacent xids over the range of the digest.
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let Origin { client, port } = origin;
        let digest = call.checksum ^ u64::from(call.xid.0).wrapping_mul(SPREAD);
        Self { digest, client, call, port }
    }

    fn note(self, slot: u32, given: Time, reply: &Bytes, change: Standing) -> Effect {
        let origin = Origin { client: self.client, port: self.port };
        let note = Note { origin, call: self.call, reply: reply.clone() };
        Effect::Note { slot, given, note, change }
    }
}

#[cfg(test)]
mod tests;
