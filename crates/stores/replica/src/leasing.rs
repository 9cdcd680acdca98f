//! Leases that a strict metaserver grants others on what has its home here, and what waits for them.
//!
//! There are two of each object. That on copies is on a metafile, or on all names in a directory: both
//! have one number. Whatever changes an object here is a call without such a lease of its own, and takes
//! back those of all others first; none outlives an epoch of its holder or of this metaserver. That on
//! covers is of what clients of its holder may cache, or change: see [`crate::covering`].
//! `core::leases` says who is in whose way. Turns on covers come before those on copies.
//!
//! Where several want covers at one time each has its turn: what was granted is not taken back before who
//! asked for it is told, and who asks again, because a call may not last as long, keeps its turn.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use leasehold_base::units::{FileId, FileSystemId, Time};
use leasehold_core::leases::table::{
    Access, Ask as Wish, Call, Effect, Event, Grant, Lease, Outcome, Run, Table,
};
use leasehold_core::leases::{Client, Kind, Object, Open, Serial, Terms, Ticket};
use leasehold_core::replica::covers::{self, Purpose};
use leasehold_core::replica::{Bounds, Peer, Ticket as Waiting, copies};

use crate::begun::Begun;
use crate::changing::{Change, Naming};
use crate::message::{Answer, Ask, Begins};
use crate::node::{Asker, Node, Why};

/// How long a cover lasts by which clients are let cache. A metaserver that is gone keeps others from
/// what its clients had for that long at most, and one that goes on asks once a minute for each.
pub(crate) const COVER: Duration = Duration::from_secs(180);

/// How long what clients are granted lasts at most: a term, and what is waited out of late WRITEs.
pub(crate) fn lent() -> Duration {
    let Terms { longest_term, drift_ppm, slack_max, .. } = Terms::DEFAULT;
    longest_term + longest_term * drift_ppm / 1_000_000 + slack_max
}

/// Numbers of holders of covers begin here. Each is of a metaserver, whatever its epoch.
const COVERED: u32 = 1 << 31;

/// A lease that is to be given back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evicted {
    holder: Client,
    object: Object,
    serial: Serial,
}

/// What waits until nobody is in its way.
pub(crate) enum Turn {
    /// A peer's question, which asks for a lease as well: its turn on the covers.
    Before(Peer, Asker, Ask),
    /// And on the copies; with what it has on the covers until then.
    Ask(Peer, Asker, Ask, Option<(Ticket, Serial)>),
    /// This metaserver looks.
    Look(Waiting),
    /// A cover that is asked for, by whom.
    Cover(Peer, Asker),
    /// The same, granted, until nobody has a copy.
    Alone(Peer, Asker, Grant),
    /// A part of a change: its turn on the covers, by whom.
    Covers(u64),
    /// And on the copies.
    Change(u64),
    /// A change of a name that another home makes.
    Begins(Peer, Begins),
}

/// Who has leases on what has its home here.
pub(crate) struct Leasing {
    table: Table,
    /// The number of each peer in its epoch.
    holders: BTreeMap<Peer, Client>,
    last_holder: u32,
    pub(crate) turns: BTreeMap<Ticket, (FileId, Turn)>,
    /// Who waits for covers, and for which.
    asking: BTreeMap<(FileId, Peer), (Ticket, Kind, Purpose)>,
    /// Leases of which their holders are not told yet.
    untold: BTreeSet<Serial>,
    pub(crate) changes: BTreeMap<u64, Change>,
    /// What may be changed now, and the calls that end when that is stored.
    pub(crate) under: BTreeMap<FileId, Ticket>,
    pub(crate) naming: Naming,
    /// What others change in directories here.
    pub(crate) begun: Begun,
}

impl Leasing {
    /// Nobody has a lease.
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

    /// How many wait, and how many of them for covers.
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

    /// Whether another than this one may let its clients write an object, or writes it.
    pub(crate) fn is_written_by_others(&self, object: FileId, peer: Peer) -> bool {
        let leases = self.table.leases(covered(object)).iter();
        leases.into_iter().any(|it| it.kind == Kind::Write && it.client != covering(peer))
    }

    /// Whether others than this one have a copy of an object, or a cover on it.
    pub(crate) fn is_known_to_others(&self, object: FileId, peer: Peer) -> bool {
        let covers = self.table.leases(covered(object)).iter();
        let is_covered = covers.into_iter().any(|it| it.client != covering(peer));
        is_covered || !self.table.leases(copied(object)).is_empty()
    }

    /// What a metaserver still has of a cover that is taken back from it, and for how long.
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

    /// Whether a lease is there that is to be taken back now.
    fn is_evicted(&self, Evicted { holder, object, serial }: Evicted) -> bool {
        let is_it = |it: &Lease| it.client == holder && it.serial == serial && it.evicted;
        !self.untold.contains(&serial) && self.table.leases(object).iter().any(is_it)
    }

    /// Whether a metaserver has a cover on an object, to do this.
    pub(crate) fn is_covered_by(&self, object: FileId, peer: Peer, kind: Kind) -> bool {
        let leases = self.table.leases(covered(object)).iter();
        leases.into_iter().any(|it| it.client == covering(peer) && it.kind >= kind)
    }
}

/// A lease on copies is over when a copy is that was had by it. What is wanted back is asked for again
/// before the call that does has ended, after most of a window: who gives it later than that has nobody
/// to answer, and is not heard before the next.
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

/// How long the longest lease is waited out: one on copies, or a cover where clients have leases.
pub(crate) fn waited(bounds: Bounds, lends: bool) -> Duration {
    let term = if lends { COVER } else { bounds.window };
    term + term * Terms::DEFAULT.drift_ppm / 1_000_000
}

/// The same for all objects here: ids say which of a volume they are.
pub(crate) const fn copied(file: FileId) -> Object {
    Object { file_system: FileSystemId(0), file }
}

pub(crate) const fn covered(file: FileId) -> Object {
    Object { file_system: FileSystemId(1), file }
}

/// A metaserver as it holds covers.
pub(crate) const fn covering(peer: Peer) -> Client {
    Client(COVERED | peer.0)
}

const fn wish(kind: Kind, term: Duration) -> Wish {
    Wish { kind, term, space: 0, opportune: false, reclaim: false, reports: false }
}

impl Node {
    /// A peer asks for something that it may keep.
    pub(crate) fn ask_leased(&mut self, peer: Peer, asker: Asker, object: FileId, ask: Ask) {
        if self.is_kept_from(peer, object) {
            self.answer(asker, Answer::Later);
        } else if self.leasing.is_written_by_others(object, peer) {
            // By a lease of its own, so that whoever is to write next comes after it.
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

    /// Looks at an object as soon as nobody else writes it.
    pub(crate) fn look(&mut self, ticket: Waiting, object: FileId) {
        let by = Some(covering(self.me()));
        self.take_turn(covered(object), by, Access::Read, None, Turn::Look(ticket));
    }

    /// A metaserver, or this one, asks for a cover.
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
        // It has started again and gives nothing back yet, so this is no cover that it has just given.
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

    /// Whether who asks for a cover waits for it already, its last call for it having come to its end.
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
        // One that is to be lent is for what is done soon, too.
        let is_enough = kind == wanted.0 && purpose >= wanted.1;
        if !is_enough {
            self.leasing.asking.remove(&(object, peer));
            self.leasing.turns.remove(&ticket);
            self.leases(Event::GivenUp(covered(object), ticket));
        }
        is_enough
    }

    /// A peer had these covers when this metaserver started.
    pub(crate) fn had_covers(&mut self, peer: Peer, covers: &[(FileId, Kind)]) {
        for &(object, kind) in covers {
            let ticket = Ticket(self.number());
            let (client, ask) = (Some(covering(peer)), Some(wish(kind, COVER)));
            let (object, access, under) = (covered(object), Access::Nothing, None);
            let call = Call { ticket, object, client, access, under, ask };
            // They went together before, so none waits for another.
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
                // There is no recovery, and nobody knows better by a lease.
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
                    // Who writes next takes the copy back, and need not ask for what nobody knows of.
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

    /// What is shown here of an object that has its home here.
    fn shown(&self, object: FileId) -> Answer {
        match self.yields.hides(object) {
            Some(_) => Answer::Later,
            None => self.view(object).map_or(Answer::Gone, Answer::Metafile),
        }
    }

    fn answer_covered(&mut self, asker: Asker, grant: Grant) {
        self.answer(asker, Answer::Covered(grant.serial, grant.kind, grant.term));
    }

    /// A holder is told of its lease, which may be wanted back by now.
    fn has_told(&mut self, holder: Client, object: FileId, serial: Serial) {
        self.leasing.untold.remove(&serial);
        self.evict(holder, covered(object), serial);
    }

    /// What a peer is told that may keep it.
    fn leased(&self, object: FileId, ask: &Ask) -> Answer {
        if let Ask::Search(place, _) = ask {
            // If it does not stand there, another has come to while this one's turn came.
            let stands = self.stands(object, place);
            return if stands { self.known_of(&Ask::Fetch(object, None)) } else { Answer::Later };
        }
        self.known_of(ask)
    }

    /// A peer has dropped what it had by a lease, if that is what it answers.
    pub(crate) fn evicted(&mut self, evicted: Evicted, answer: &Answer) {
        let Evicted { holder, object, serial } = evicted;
        if *answer == Answer::Done {
            self.leases(Event::Returned(holder, object, serial, Open::No));
        }
    }

    /// A peer has begun another epoch: it has no copies, and what came from it is good no more. Covers
    /// stay, as its clients and this metaserver's may still go by them.
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
