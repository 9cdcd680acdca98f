//! The leases that a metaserver in strict mode grants to metaservers on the objects of its home,
//! and the requests that wait for leases to end.
//!
//! The lease table has two entries for each file id. The first entry has the leases on cached
//! copies (`copied`): its holder may cache the metafile of the object and, if the object is a
//! directory, the name reservations in the directory. The second entry has the delegable leases
//! (`covered`): the clients of its holder may cache or change the object, see
//! [`crate::delegable_leases`]. `core::leases` defines the conflicts. A change of an object is a
//! call without a lease of its own, which recalls the leases of all holders first. No lease on a
//! copy outlives an epoch of its holder or of this metaserver. An operation always acquires the
//! guard on the delegable leases before the guard on the copies.
//!
//! If several metaservers request delegable leases on one object at the same time, each of them
//! gets the lease once, in the order of the queue. For this purpose, a granted lease is recalled
//! only after the reply with the grant is sent, and a request that is repeated after a timeout
//! keeps its queue position.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use leasehold_base::units::{FileId, FileSystemId, Time};
use leasehold_core::leases::table::{
    Access, Ask as Wish, Call, Effect, Event, Grant, Lease, Outcome, Run, Table,
};
use leasehold_core::leases::{Client, Kind, Object, Open, Serial, Terms, Ticket};
use leasehold_core::replica::covers::{self, Purpose};
use leasehold_core::replica::{Bounds, Peer, Ticket as Waiting, copies};

use crate::intents::Begun;
use crate::message::{Answer, Ask, Begins};
use crate::mutations::{Change, Naming};
use crate::node::{Asker, Node, Why};

/// The term of a delegable lease under which clients may cache. The term limits the time for which
/// an unreachable metaserver delays the changes of other metaservers. A running metaserver renews
/// each lease once a minute.
pub(crate) const COVER: Duration = Duration::from_secs(180);

/// Returns the longest lifetime of a client's lease: its term, clock drift, and the slack for late
/// WRITEs.
pub(crate) fn lent() -> Duration {
    let Terms { longest_term, drift_ppm, slack_max, .. } = Terms::DEFAULT;
    longest_term + longest_term * drift_ppm / 1_000_000 + slack_max
}

/// The smallest holder number for delegable leases. A metaserver has the same holder number for
/// delegable leases in all its epochs.
const COVERED: u32 = 1 << 31;

/// A lease that is being recalled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evicted {
    holder: Client,
    object: Object,
    serial: Serial,
}

/// A request that waits for its guard: until conflicting leases have ended and earlier requests are
/// done.
pub(crate) enum Turn {
    /// A peer's request for a metafile or a name with a lease on the copy, which waits for the
    /// guard on the delegable leases.
    Before(Peer, Asker, Ask),
    /// The same request, which waits for the guard on the copies. The last field has the guard on
    /// the delegable leases and the lease that hold off the next writer until then.
    Ask(Peer, Asker, Ask, Option<(Ticket, Serial)>),
    /// A read of the object by this metaserver itself.
    Look(Waiting),
    /// A request for a delegable lease.
    Cover(Peer, Asker),
    /// A granted delegable write lease, whose reply waits until no other metaserver has a cached
    /// copy.
    Alone(Peer, Asker, Grant),
    /// A change (by its number in `changes`), which waits for the guard on the delegable leases of
    /// one object.
    Covers(u64),
    /// The same change, which waits for the guard on the copies of that object.
    Change(u64),
    /// A BEGIN of another home, which waits for the guard on the delegable leases of the directory.
    Begins(Peer, Begins),
}

/// The leases on objects of this home, and the changes that need guards.
pub(crate) struct Leasing {
    table: Table,
    /// The holder number of each peer in its current epoch.
    holders: BTreeMap<Peer, Client>,
    last_holder: u32,
    pub(crate) turns: BTreeMap<Ticket, (FileId, Turn)>,
    /// The waiting requests for delegable leases, by object and requester.
    asking: BTreeMap<(FileId, Peer), (Ticket, Kind, Purpose)>,
    /// Granted leases whose grants have not been sent to their holders yet. They must not be
    /// recalled.
    untold: BTreeSet<Serial>,
    pub(crate) changes: BTreeMap<u64, Change>,
    /// The guards of the change that runs now, by object. A stored change takes its guard from
    /// here.
    pub(crate) under: BTreeMap<FileId, Ticket>,
    pub(crate) naming: Naming,
    /// The changes of names that other homes make in directories of this home.
    pub(crate) begun: Begun,
}

impl Leasing {
    /// Creates an empty lease table.
    pub(crate) fn new(bounds: Bounds, peers: usize, epoch: u64) -> Self {
        let leases_max = bounds.most.saturating_mul(peers).saturating_mul(2);
        Self {
            table: Table::new(terms(bounds), leases_max, epoch, false),
            holders: BTreeMap::new(),
            last_holder: 0,
            turns: BTreeMap::new(),
            asking: BTreeMap::new(),
            untold: BTreeSet::new(),
            changes: BTreeMap::new(),
            under: BTreeMap::new(),
            naming: Naming::default(),
            begun: Begun::default(),
        }
    }

    pub(crate) fn next_wake(&self) -> Option<Time> {
        let changes = self.changes.values().filter_map(Change::waits_until);
        let next = [self.table.next_wake(), self.begun.next_wake(), self.naming.next_wake()];
        next.into_iter().flatten().chain(changes).min()
    }

    /// Returns the number of waiting requests, and the number of requests for delegable leases
    /// among them.
    #[cfg(test)]
    pub(crate) fn turns(&self) -> (usize, usize) {
        let is_cover = |turn: &&(FileId, Turn)| matches!(turn.1, Turn::Cover(..));
        (self.turns.len(), self.turns.values().filter(is_cover).count())
    }

    fn holder(&mut self, peer: Peer) -> Client {
        *self.holders.entry(peer).or_insert_with(|| {
            self.last_holder += 1;
            Client(self.last_holder)
        })
    }

    /// Returns true if another metaserver than `peer` holds a delegable write lease on an object.
    pub(crate) fn is_written_by_others(&self, object: FileId, peer: Peer) -> bool {
        let leases = self.table.leases(covered(object)).iter();
        leases.into_iter().any(|it| it.kind == Kind::Write && it.client != covering(peer))
    }

    /// Returns true if another metaserver than `peer` holds a delegable lease on an object, or if
    /// any metaserver holds a lease on a copy of the object.
    pub(crate) fn is_known_to_others(&self, object: FileId, peer: Peer) -> bool {
        let covers = self.table.leases(covered(object)).iter();
        let is_covered = covers.into_iter().any(|it| it.client != covering(peer));
        is_covered || !self.table.leases(copied(object)).is_empty()
    }

    /// Returns a delegable lease that is being recalled from a metaserver, with its remaining term.
    fn left_of_cover(
        &self,
        now: Time,
        (object, peer): (FileId, Peer),
        kind: Kind,
    ) -> Option<(Serial, Kind, Duration)> {
        let mut leases = self.table.leases(covered(object)).iter();
        let is_meant = |it: &&Lease| it.client == covering(peer) && it.evicted && it.kind >= kind;
        let lease = leases.find(is_meant)?;
        let left = lease.end.since(now);
        let drift = left * Terms::DEFAULT.drift_ppm / 1_000_000;
        Some((lease.serial, lease.kind, left.saturating_sub(drift)))
    }

    /// Returns true if the lease exists and its recall may be sent now.
    fn is_evicted(&self, Evicted { holder, object, serial }: Evicted) -> bool {
        let is_it = |it: &Lease| it.client == holder && it.serial == serial && it.evicted;
        !self.untold.contains(&serial) && self.table.leases(object).iter().any(is_it)
    }

    /// Returns true if a metaserver holds a delegable lease of at least this kind.
    pub(crate) fn is_covered_by(&self, object: FileId, peer: Peer, kind: Kind) -> bool {
        let leases = self.table.leases(covered(object)).iter();
        leases.into_iter().any(|it| it.client == covering(peer) && it.kind >= kind)
    }
}

/// Returns the parameters of the lease table. The term of a lease on a copy is the staleness
/// window. A recall is repeated after half a window, because a holder that returns the lease after
/// the timeout of the recall can report the return only in the answer to the next recall.
const fn terms(bounds: Bounds) -> Terms {
    Terms {
        default_term: bounds.window,
        longest_term: COVER,
        write_slack: Duration::ZERO,
        slack_max: Duration::ZERO,
        again_max: bounds.window.checked_div(2).expect("two is not zero"),
        trusts_holders: true,
        ..Terms::DEFAULT
    }
}

/// Returns the longest term of a lease with clock drift: of a lease on a copy, or of a delegable
/// lease if clients have leases.
pub(crate) fn waited(bounds: Bounds, lends: bool) -> Duration {
    let term = if lends { COVER } else { bounds.window };
    term + term * Terms::DEFAULT.drift_ppm / 1_000_000
}

/// Returns the key in the lease table for leases on copies of a file. Ids are unique within a
/// volume, so the file-system number is free to distinguish leases on copies (0) from delegable
/// leases (1).
pub(crate) const fn copied(file: FileId) -> Object {
    Object { file_system: FileSystemId(0), file }
}

pub(crate) const fn covered(file: FileId) -> Object {
    Object { file_system: FileSystemId(1), file }
}

/// Returns the holder number of a metaserver for delegable leases.
pub(crate) const fn covering(peer: Peer) -> Client {
    Client(COVERED | peer.0)
}

const fn wish(kind: Kind, term: Duration) -> Wish {
    Wish { kind, term, space: 0, opportune: false, reclaim: false, reports: false }
}

impl Node {
    /// Handles a peer's request for an answer that the peer may cache under a lease.
    pub(crate) fn ask_leased(&mut self, peer: Peer, asker: Asker, object: FileId, ask: Ask) {
        if self.is_kept_from(peer, object) {
            self.answer(asker, Answer::Later);
        } else if self.leasing.is_written_by_others(object, peer) {
            // Request a lease among the delegable leases for this read, so that the next writer
            // queues behind the read and does not overtake it.
            let (at, by) = (covered(object), Some(covering(peer)));
            let wish = Some(wish(Kind::Read, self.options.bounds.window));
            self.take_turn(at, by, Access::Read, wish, Turn::Before(peer, asker, ask));
        } else {
            self.ask_for_copy((peer, asker, ask), object, None);
        }
    }

    fn ask_for_copy(
        &mut self,
        (peer, asker, ask): (Peer, Asker, Ask),
        object: FileId,
        before: Option<(Ticket, Serial)>,
    ) {
        let by = Some(self.leasing.holder(peer));
        let (wish, turn) = (wish(Kind::Read, Duration::ZERO), Turn::Ask(peer, asker, ask, before));
        self.take_turn(copied(object), by, Access::Read, Some(wish), turn);
    }

    /// Reads an object for this metaserver, once no other metaserver may write the object.
    pub(crate) fn look(&mut self, ticket: Waiting, object: FileId) {
        let by = Some(covering(self.me()));
        self.take_turn(covered(object), by, Access::Read, None, Turn::Look(ticket));
    }

    /// Handles COVER: a metaserver, which may be this one, requests a delegable lease.
    pub(crate) fn asked_to_cover(
        &mut self,
        peer: Peer,
        asker: Asker,
        object: FileId,
        (kind, purpose, given, reclaims): (Kind, Purpose, Option<Serial>, bool),
    ) {
        let is_there = self.disk.metafiles.contains_key(&object);
        let is_known = is_there && (kind == Kind::Read || !self.has_directory(object));
        if !is_known || !self.options.strict {
            self.answer(asker, Answer::Gone);
            return;
        }
        let term = match purpose {
            Purpose::Use => self.options.bounds.window,
            Purpose::Lend => COVER,
        };
        let access = match kind {
            Kind::Read => Access::Nothing,
            Kind::Write => Access::Write,
        };
        if let Some(serial) = given {
            let given = Event::Returned(covering(peer), covered(object), serial, Open::No);
            self.leases(given);
        }
        // A restarted holder reclaims the lease that it held before, although the lease is being
        // recalled. It returns no lease during its recovery, so this lease exists: confirm the
        // lease with the remaining term.
        let left = self.leasing.left_of_cover(self.now, (object, peer), kind);
        if let Some((serial, kind, term)) = left.filter(|_| reclaims) {
            self.answer(asker, Answer::Covered(serial, kind, term));
            return;
        }
        if self.goes_on_waiting(peer, asker, object, (kind, purpose)) {
            return;
        }
        let ticket = Ticket(self.number());
        self.leasing.asking.insert((object, peer), (ticket, kind, purpose));
        let on = (covered(object), Some(covering(peer)), access);
        self.take_turn_as(ticket, on, Some(wish(kind, term)), Turn::Cover(peer, asker));
    }

    /// Returns true if the metaserver already waits for this lease because its previous call has
    /// timed out. The new call then takes the queue position of the previous call.
    fn goes_on_waiting(
        &mut self,
        peer: Peer,
        asker: Asker,
        object: FileId,
        wanted: (Kind, Purpose),
    ) -> bool {
        let before = self.leasing.asking.get(&(object, peer)).copied();
        let Some((ticket, kind, purpose)) = before else { return false };
        let turn = self.leasing.turns.get_mut(&ticket);
        if let Some((_, Turn::Cover(_, waits))) = turn {
            let before = core::mem::replace(waits, asker);
            self.answer(before, Answer::Later);
        }
        // A lease for delegation to clients also suffices for an operation of the metaserver
        // itself.
        let is_enough = kind == wanted.0 && purpose >= wanted.1;
        if !is_enough {
            self.leasing.asking.remove(&(object, peer));
            self.leasing.turns.remove(&ticket);
            self.leases(Event::GivenUp(covered(object), ticket));
        }
        is_enough
    }

    /// Adds the delegable leases that a peer reports when this metaserver starts.
    pub(crate) fn had_covers(&mut self, peer: Peer, covers: &[(FileId, Kind)]) {
        for &(object, kind) in covers {
            let ticket = Ticket(self.number());
            let (client, ask) = (Some(covering(peer)), Some(wish(kind, COVER)));
            let (object, access, under) = (covered(object), Access::Nothing, None);
            let call = Call { ticket, object, client, access, under, ask };
            // The leases were compatible before this metaserver restarted, so the table grants each
            // of them at once.
            let mut effects = Vec::new();
            self.leasing.table.step(self.now, Event::Call(call), &mut effects);
            let runs = effects.iter().any(|effect| matches!(effect, Effect::Run(_)));
            self.leases(match runs {
                true => Event::Done(object, ticket, Outcome::default()),
                false => Event::GivenUp(object, ticket),
            });
        }
    }

    fn take_turn(
        &mut self,
        object: Object,
        client: Option<Client>,
        access: Access,
        ask: Option<Wish>,
        turn: Turn,
    ) {
        let ticket = Ticket(self.number());
        self.take_turn_as(ticket, (object, client, access), ask, turn);
    }

    pub(crate) fn take_turn_as(
        &mut self,
        ticket: Ticket,
        (object, client, access): (Object, Option<Client>, Access),
        ask: Option<Wish>,
        turn: Turn,
    ) {
        self.leasing.turns.insert(ticket, (object.file, turn));
        self.leases(Event::Call(Call { ticket, object, client, access, under: None, ask }));
    }

    pub(crate) fn leases(&mut self, event: Event) {
        let mut effects = Vec::new();
        self.leasing.table.step(self.now, event, &mut effects);
        for effect in effects {
            match effect {
                Effect::Run(run) => self.runs(run),
                Effect::Evict(holder, object, serial) => self.evict(holder, object, serial),
                // These effects do not occur: the table has no recovery period, and holders do not
                // report attributes.
                Effect::Later(_) | Effect::Inquire(..) => {}
            }
        }
    }

    fn evict(&mut self, holder: Client, object: Object, serial: Serial) {
        let evicted = Evicted { holder, object, serial };
        if !self.leasing.is_evicted(evicted) {
            return;
        }
        let evicted = Why::Evicted(evicted);
        if let Some(peer) = holder.0.checked_sub(COVERED) {
            self.call(Peer(peer), Ask::Uncover(object.file, serial), evicted);
            return;
        }
        let mut holders = self.leasing.holders.iter();
        let peer = holders.find(|(_, client)| **client == holder);
        if let Some(peer) = peer.map(|(peer, _)| *peer) {
            self.call(peer, Ask::Evict(object.file), evicted);
        }
    }

    fn runs(&mut self, run: Run) {
        let Run { ticket, grant, .. } = run;
        let Some((object, turn)) = self.leasing.turns.remove(&ticket) else { return };
        let ended = |at: Object, void| Event::Done(at, ticket, Outcome { used: 0, void });
        match turn {
            Turn::Covers(number) => {
                if self.is_for_whom_it_was(number, object) {
                    self.take_copies(number, (object, ticket));
                } else {
                    self.leases(ended(covered(object), false));
                    self.take_covers(number, object);
                }
            }
            Turn::Change(number) => self.may_change(number, (object, ticket)),
            Turn::Begins(peer, naming) => self.begins(peer, naming),
            Turn::Before(peer, asker, ask) => {
                let serial = grant.map(|grant| grant.serial);
                self.leasing.untold.extend(serial);
                let before = serial.map(|serial| (ticket, serial));
                if before.is_none() {
                    self.leases(ended(covered(object), false));
                }
                self.ask_for_copy((peer, asker, ask), object, before);
            }
            Turn::Ask(peer, asker, ask, before) => {
                let is_granted = grant.is_some_and(|grant| grant.cachable)
                    && !self.leasing.is_written_by_others(object, peer);
                let answer = if is_granted { self.leased(object, &ask) } else { Answer::Later };
                let void = matches!(answer, Answer::Gone | Answer::Later);
                self.answer(asker, answer);
                self.leases(ended(copied(object), void));
                if let Some((ticket, serial)) = before {
                    // Drop the lease that only held off the next writer. From now on the next
                    // writer recalls the copy.
                    let over = Outcome { used: 0, void: true };
                    self.leases(Event::Done(covered(object), ticket, over));
                    self.has_told(covering(peer), object, serial);
                }
            }
            Turn::Look(waiting) => {
                self.leases(ended(covered(object), false));
                self.finish(waiting, self.shown(object));
            }
            Turn::Cover(peer, asker) => {
                self.leasing.asking.remove(&(object, peer));
                match grant.filter(|grant| grant.cachable) {
                    Some(grant) if grant.kind == Kind::Write => {
                        self.leasing.untold.insert(grant.serial);
                        let on = (copied(object), None, Access::Write);
                        self.take_turn_as(ticket, on, None, Turn::Alone(peer, asker, grant));
                    }
                    Some(grant) => {
                        self.answer_covered(asker, grant);
                        self.leases(ended(covered(object), false));
                    }
                    None => {
                        self.answer(asker, Answer::Later);
                        self.leases(ended(covered(object), true));
                    }
                }
            }
            Turn::Alone(peer, asker, grant) => {
                self.answer_covered(asker, grant);
                self.has_changed_leased(object, ticket);
                self.has_told(covering(peer), object, grant.serial);
            }
        }
    }

    /// Returns an object of this home as clients see it; `Later` while the object is hidden for a
    /// two-phase rename.
    fn shown(&self, object: FileId) -> Answer {
        match self.yields.hides(object) {
            Some(_) => Answer::Later,
            None => self.view(object).map_or(Answer::Gone, Answer::Metafile),
        }
    }

    fn answer_covered(&mut self, asker: Asker, grant: Grant) {
        self.answer(asker, Answer::Covered(grant.serial, grant.kind, grant.term));
    }

    /// Records that the reply with a grant is sent, and sends the recall that was delayed until
    /// then, if there is one.
    fn has_told(&mut self, holder: Client, object: FileId, serial: Serial) {
        self.leasing.untold.remove(&serial);
        self.evict(holder, covered(object), serial);
    }

    /// Returns a cacheable answer for a peer.
    fn leased(&self, object: FileId, ask: &Ask) -> Answer {
        if let Ask::Search(place, _) = ask {
            // If the object has lost the name while the request waited, another object may have
            // received the name, so the peer must retry.
            let stands = self.stands(object, place);
            return if stands { self.known_of(&Ask::Fetch(object, None)) } else { Answer::Later };
        }
        self.known_of(ask)
    }

    /// Handles the answer to a recall.
    pub(crate) fn evicted(&mut self, evicted: Evicted, answer: &Answer) {
        let Evicted { holder, object, serial } = evicted;
        if *answer == Answer::Done {
            self.leases(Event::Returned(holder, object, serial, Open::No));
        }
    }

    /// Handles a new epoch of a peer: the copies that the peer held are lost, and this metaserver's
    /// copies from the peer are void. Delegable leases stay valid, because clients of the peer and
    /// of this metaserver may still use leases that depend on them.
    pub(crate) fn has_restarted(&mut self, peer: Peer) {
        if !self.options.strict {
            return;
        }
        if let Some(holder) = self.leasing.holders.remove(&peer) {
            self.leases(Event::Forgotten(holder));
        }
        self.copies(copies::Event::Restarted);
        self.covers(covers::Event::Restarted);
    }
}
