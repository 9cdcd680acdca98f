//! The reply cache: a call that must not run twice, such as REMOVE, runs once however often its
//! client sends it (Juszczak 1989). So does a call whose copy does harm only when it runs late,
//! such as WRITE: it would undo what came after it.
//!
//! Criteria in order of weight:
//! - No call runs twice while its reply is kept or it still runs.
//! - No call is given the reply of another: a false hit is worse than a miss.
//! - Memory is bounded, and one client cannot push out the replies of others.
//! - Calls that may run twice never come here, so they cost nothing and push nothing out.
//!
//! Rules:
//! 1. A call that is not known runs.
//! 2. A datagram that repeats a running call is dropped: the first copy will be answered, and the
//!    answer goes to the same port.
//! 3. A copy on a stream of a running call waits for its reply, and takes the place of a copy that
//!    waits already: a client repeats itself on a stream because it lost a connection, and the
//!    first copy's answer may go to one that is gone.
//! 4. A copy of a finished call is answered with the reply that was kept.
//! 5. Two messages are copies of one call when client, transport, port, xid, program, version,
//!    procedure and checksum are equal. The port may differ when no other call is like it and the
//!    first still runs, or its connection is closed. The call belongs to the connection of its
//!    last copy: a client that gives up a connection is often heard on the next, from another port
//!    or the same, before the end of the first is.
//! 6. A call that ended without a reply is forgotten. Who waits for it is let go unanswered, asks
//!    again, and then it runs.
//! 7. A reply is kept for a fixed time since it was last given.
//! 8. When there is no room, the client that keeps most loses its oldest reply of a call whose copy
//!    does harm only late, or when it has none, its oldest. Running calls are never forgotten; when
//!    all are running, or too many of its client are, a new one is refused.
//! 9. The reply of a call whose copy does harm whenever it runs is noted before it is given, and
//!    noted anew when it is given again. What was noted is recalled after a restart, for the rest
//!    of its time; of a call on a stream the connection is closed. A note has a slot of its own for
//!    as long as its reply is kept, so there are never more of them than replies, and nobody's
//!    push out those of others.
//!
//! 10. The owner can report that such a call has made its change before the change is on stable
//!     storage. The reply is then noted with a mark, since the change survives a kill of the server
//!     and may not survive a crash of the machine. The call goes on running: no copy is answered
//!     from that note, and the note of the finished call replaces it.
//!
//! A call whose copy does harm only late needs no note: what is late is a copy of which the client
//! has the answer, and that comes on a connection that ended with the server, or as a datagram,
//! which lives less long than a restart takes.
//!
//! What it does not do: it cannot tell a client that begins with the same xid each time it starts,
//! and then asks for the very same thing, from one that repeats itself. It takes the word of its
//! owner that a connection is closed; one that only seems open counts as open.

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

/// How much is kept, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Calls that run and replies that are kept, together.
    pub entries: usize,
    /// Calls of one client that run.
    pub running_of_client: usize,
    /// Bytes of all kept replies.
    pub bytes: usize,
    /// The time that a reply is kept since it was last given.
    pub age: Duration,
}

/// Where a call came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    client: IpAddr,
    port: Port,
}

/// A port, of which each transport has its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Port {
    Datagram(u16),
    Stream(u16),
}

impl Origin {
    /// The client's address.
    #[must_use]
    pub const fn client(&self) -> IpAddr {
        self.client
    }

    /// The sender of a datagram.
    #[must_use]
    pub const fn datagram(from: SocketAddr) -> Self {
        Self { client: from.ip(), port: Port::Datagram(from.port()) }
    }

    /// The other end of a stream.
    #[must_use]
    pub const fn stream(from: SocketAddr) -> Self {
        Self { client: from.ip(), port: Port::Stream(from.port()) }
    }
}

/// What tells one call of a client from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call {
    /// Its number.
    pub xid: Xid,
    /// The program.
    pub program: u32,
    /// The program's version.
    pub version: u32,
    /// The procedure.
    pub procedure: u32,
    /// A checksum of the message and of who is believed to ask; its owner may leave out the
    /// middle of a long message.
    pub checksum: u64,
}

/// When a copy of a call does harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Harm {
    /// When it runs late, after another call that the client made since.
    Late,
    /// Whenever it runs.
    Always,
}

/// Names a call that runs, to its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// What happens to the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A call came in that must not run twice. The last effect says what becomes of it.
    Call {
        /// Where it came from.
        origin: Origin,
        /// The connection that it came on, if any.
        connection: Option<ConnectionId>,
        /// What it is.
        call: Call,
        /// When a copy of it does harm.
        harm: Harm,
    },
    /// A call that was told to run has its reply; the owner sends it.
    Done {
        /// The call.
        ticket: Ticket,
        /// The whole reply.
        reply: Bytes,
    },
    /// A call that runs has made its change, and is done when the change is on stable storage. The
    /// owner reports this at most once for each call.
    Made {
        /// The call.
        ticket: Ticket,
        /// The whole reply that the call has if the sync of the change succeeds.
        reply: Bytes,
    },
    /// A call that was told to run ended without a reply.
    Abandoned {
        /// The call.
        ticket: Ticket,
    },
    /// A stream is no more.
    ConnectionClosed {
        /// Whose it was.
        client: IpAddr,
        /// Which it was.
        connection: ConnectionId,
    },
    /// A note was found at the start; of two about one call the later one counts.
    Recalled {
        /// The slot that it was found in.
        slot: u32,
        /// When the reply was last given.
        given: Time,
        /// The note.
        note: Note,
    },
    /// Time went on.
    Tick,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The call runs; [`Event::Done`] or [`Event::Abandoned`] must follow.
    Execute(Ticket),
    /// The call is not answered.
    Drop,
    /// The call waits for the [`Effect::Release`] of a ticket; what waited before it is dropped.
    Wait(Ticket),
    /// The call is answered with this.
    Resend(Bytes),
    /// There is no room: the call must not run, and is to be asked again later.
    Refuse,
    /// What waits for the ticket is answered with this, or with nothing.
    Release(Ticket, Option<Bytes>),
    /// The note is put in the slot, over what is there, before the reply is given.
    Note {
        /// The slot, below the limit of entries.
        slot: u32,
        /// When the reply was last given.
        given: Time,
        /// The note.
        note: Note,
        /// The place of the change.
        change: Standing,
    },
}

/// The state of a call's change at the time of the note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The change is made, and may not be on stable storage: a crash of the machine can undo it.
    Made,
    /// The call is done, and its reply is final.
    Done,
}

/// How often what happened, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Copies of running calls that were dropped.
    pub dropped: u64,
    /// Copies of running calls that were made to wait.
    pub waited: u64,
    /// Copies of finished calls that were answered.
    pub resent: u64,
    /// Replies that were forgotten for want of room.
    pub evicted: u64,
    /// Calls that were refused for want of room.
    pub refused: u64,
}

impl Counts {
    /// Adds those of others.
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

/// The calls of some clients that must not run twice: those that run, and the replies of those
/// that ran.
#[derive(Clone, Debug)]
pub struct Replies {
    limits: Limits,
    calls: Calls,
    running: BTreeMap<Ticket, Place>,
    /// How many calls of each client run.
    clients: BTreeMap<IpAddr, usize>,
    /// The connections that calls came on and that are open.
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
    /// Made of the call, to find it by.
    digest: u64,
    client: IpAddr,
    call: Call,
    port: Port,
}

/// Tells the time for which a connection is open from one before, should a call of it be read when
/// it was said to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Opening(u64);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    key: Key,
    /// The connection that its last copy came on, which may have been closed since.
    connection: Option<(ConnectionId, Opening)>,
    harm: Harm,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// The call runs; with the slot of its note, where the owner noted its change.
    Running { ticket: Ticket, waited_for: bool, slot: Option<u32> },
    /// With the slot of its note, where it has one.
    Kept { reply: Bytes, slot: Option<u32> },
}

impl Replies {
    /// Starts with nothing known.
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

    /// Takes one event, and appends what is to be done in order.
    ///
    /// # Panics
    /// When a ticket is given back that is not running.
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

    /// When the next reply has been kept long enough.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        self.kept.oldest().map(|(_, since)| since + self.limits.age)
    }

    /// The bytes of all kept replies.
    #[must_use]
    pub const fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// How often what happened.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// How many calls run or are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether no call is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.calls.len() == 0
    }

    /// Audits the whole state.
    ///
    /// # Panics
    /// When it contradicts itself or is above its limits.
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
                    assert_eq!(slot.is_some(), entry.harm == Harm::Always, "noted if need be");
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
        assert_eq!(self.running.len() + self.kept.len(), self.calls.len(), "each is in one");
        self.kept.check(|place| {
            let entry = self.calls.get(place);
            assert!(matches!(entry.state, State::Kept { .. }), "what is kept has a reply");
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
            effects.push(self.admit(wanted, connection, harm));
            return;
        };
        // The call belongs to the connection of its copy from now on.
        let entry = self.calls.get_mut(found);
        entry.connection = connection;
        entry.key.port = wanted.port;
        match &mut entry.state {
            State::Running { ticket, waited_for, .. } => match wanted.port {
                Port::Datagram(_) => {
                    self.counts.dropped += 1;
                    effects.push(Effect::Drop);
                }
                Port::Stream(_) => {
                    self.counts.waited += 1;
                    *waited_for = true;
                    effects.push(Effect::Wait(*ticket));
                }
            },
            State::Kept { reply, slot } => {
                self.counts.resent += 1;
                self.kept.remove(found, wanted.client, entry.harm);
                self.kept.push(now, found, wanted.client, entry.harm);
                effects.extend(slot.map(|slot| wanted.note(slot, now, reply, Standing::Done)));
                effects.push(Effect::Resend(reply.clone()));
            }
        }
    }

    /// The call that a message is a copy of: rule 5.
    fn find(&self, wanted: Key) -> Option<Place> {
        // Nearly always nothing is like it.
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

    /// Whether the connection that the last copy of a call came on is open.
    fn is_open(&self, entry: &Entry) -> bool {
        let is_open = |(id, opening)| self.open.get(&(entry.key.client, id)) == Some(&opening);
        entry.connection.is_some_and(is_open)
    }

    /// Notes that a connection is open.
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

    /// Rule 10.
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
            assert!(self.evict(), "bytes are those of kept replies");
        }
    }

    fn abandon(&mut self, ticket: Ticket, effects: &mut Vec<Effect>) {
        let place = self.ended(ticket);
        let entry = self.calls.remove(place);
        if let State::Running { waited_for, slot, .. } = entry.state {
            effects.extend(waited_for.then_some(Effect::Release(ticket, None)));
            slot.into_iter().for_each(|slot| self.slots.give_back(slot));
        }
    }

    /// Takes a call off those that run.
    fn ended(&mut self, ticket: Ticket) -> Place {
        let place = self.running.remove(&ticket).expect("a ticket that runs is given back once");
        let client = self.calls.get(place).key.client;
        let running = self.clients.get_mut(&client).expect("who has a call that runs is counted");
        *running -= 1;
        if *running == 0 {
            self.clients.remove(&client);
        }
        place
    }

    fn running_of(&self, client: IpAddr) -> usize {
        self.clients.get(&client).copied().unwrap_or(0)
    }

    fn expire(&mut self, now: Time) {
        while let Some((oldest, since)) = self.kept.oldest()
            && now.since(since) >= self.limits.age
        {
            self.forget(oldest);
        }
    }

    /// Makes room for one; false when nothing can be forgotten.
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

/// States up to this size are audited after each step of a debug build; an audit takes time in
/// proportion to the size, and the small ones show what there is to be shown.
const AUDITED_MAX: usize = 64;

impl Key {
    fn of(origin: Origin, call: Call) -> Self {
        // Odd, so that nothing is lost; the golden ratio's, so that near numbers come apart.
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
