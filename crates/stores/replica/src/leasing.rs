//! Leases that a strict metaserver grants others on what has its home here, and what waits for them.
//!
//! A lease is on a metafile, or on all names in a directory: both have one number. `core::leases` says
//! who is in whose way. Whatever changes an object here is a call without a lease of its own, and takes
//! back those of all others first. No lease outlives an epoch of its holder or of this metaserver.

use core::time::Duration;
use std::collections::BTreeMap;

use leasehold_base::units::{FileId, FileSystemId};
use leasehold_core::leases::table::{
    Access, Ask as Wish, Call, Effect, Event, Outcome, Run, Table,
};
use leasehold_core::leases::{Client, Kind, Object, Open, Serial, Terms, Ticket};
use leasehold_core::replica::{Bounds, Peer, copies};

use crate::message::{Answer, Ask};
use crate::node::{Asker, Node, Why};

/// A lease that is to be given back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evicted {
    holder: Client,
    object: FileId,
    serial: Serial,
}

/// What is done once it may be.
type Then = Box<dyn FnOnce(&mut Node) + Send>;

/// What waits until nobody is in its way.
enum Turn {
    /// A peer's question, which asks for a lease as well.
    Ask(Asker, Ask),
    /// A part of a change.
    Change(u64),
}

/// A change of some objects.
struct Change {
    /// Those that may not be changed yet, the next one last.
    to_have: Vec<FileId>,
    had: Vec<(FileId, Ticket)>,
    then: Then,
}

/// Who has leases on what has its home here.
pub(crate) struct Leasing {
    table: Table,
    /// The number of each peer in its epoch.
    holders: BTreeMap<Peer, Client>,
    last_holder: u32,
    turns: BTreeMap<Ticket, (FileId, Turn)>,
    changes: BTreeMap<u64, Change>,
    /// What may be changed now, and the calls that end when that is stored.
    pub(crate) under: BTreeMap<FileId, Ticket>,
}

impl Leasing {
    /// Nobody has a lease.
    pub(crate) const fn new(bounds: Bounds, peers: usize) -> Self {
        let leases_max = bounds.most.saturating_mul(peers);
        Self {
            table: Table::new(terms(bounds), leases_max, 0, false),
            holders: BTreeMap::new(),
            last_holder: 0,
            turns: BTreeMap::new(),
            changes: BTreeMap::new(),
            under: BTreeMap::new(),
        }
    }

    pub(crate) fn next_wake(&self) -> Option<leasehold_base::units::Time> {
        self.table.next_wake()
    }

    fn holder(&mut self, peer: Peer) -> Client {
        *self.holders.entry(peer).or_insert_with(|| {
            self.last_holder += 1;
            Client(self.last_holder)
        })
    }
}

/// A lease is over when a copy is that was had by it.
const fn terms(bounds: Bounds) -> Terms {
    Terms {
        default_term: bounds.window,
        longest_term: bounds.window,
        write_slack: Duration::ZERO,
        slack_max: Duration::ZERO,
        ..Terms::DEFAULT
    }
}

/// How long a lease is waited out.
pub(crate) fn waited(bounds: Bounds) -> Duration {
    bounds.window + bounds.window * Terms::DEFAULT.drift_ppm / 1_000_000
}

/// The same for all objects here: ids say which of a volume they are.
const fn leased(file: FileId) -> Object {
    Object { file_system: FileSystemId(0), file }
}

impl Node {
    /// Changes objects that have their home here, as soon as nobody else has a lease on them.
    pub(crate) fn changing(
        &mut self,
        objects: &[FileId],
        then: impl FnOnce(&mut Self) + Send + 'static,
    ) {
        if !self.options.strict {
            then(self);
            return;
        }
        let mut to_have = objects.to_vec();
        to_have.sort_unstable_by(|one, other| other.cmp(one));
        to_have.dedup();
        let (number, then, had) = (self.number(), Box::new(then), Vec::new());
        self.leasing.changes.insert(number, Change { to_have, had, then });
        self.change_next(number);
    }

    fn change_next(&mut self, number: u64) {
        let Some(change) = self.leasing.changes.get_mut(&number) else { return };
        if let Some(object) = change.to_have.pop() {
            self.take_turn(object, None, Access::Write, Turn::Change(number));
            return;
        }
        let Some(Change { had, then, .. }) = self.leasing.changes.remove(&number) else { return };
        self.leasing.under = had.into_iter().collect();
        then(self);
        // What there was nothing to change of.
        for (object, ticket) in core::mem::take(&mut self.leasing.under) {
            self.has_changed_leased(object, ticket);
        }
    }

    /// A change of an object that was waited for is on stable storage.
    pub(crate) fn has_changed_leased(&mut self, object: FileId, ticket: Ticket) {
        self.leases(Event::Done(leased(object), ticket, Outcome::default()));
    }

    /// A peer asks for something that it may keep.
    pub(crate) fn ask_leased(&mut self, peer: Peer, asker: Asker, object: FileId, ask: Ask) {
        let holder = self.leasing.holder(peer);
        self.take_turn(object, Some(holder), Access::Read, Turn::Ask(asker, ask));
    }

    fn take_turn(&mut self, object: FileId, client: Option<Client>, access: Access, turn: Turn) {
        let ticket = Ticket(self.number());
        self.leasing.turns.insert(ticket, (object, turn));
        let (kind, term, space) = (Kind::Read, Duration::ZERO, 0);
        let wish = Wish { kind, term, space, opportune: false, reclaim: false, reports: false };
        let (object, ask) = (leased(object), client.map(|_| wish));
        self.leases(Event::Call(Call { ticket, object, client, access, under: None, ask }));
    }

    pub(crate) fn leases(&mut self, event: Event) {
        let mut effects = Vec::new();
        self.leasing.table.step(self.now, event, &mut effects);
        for effect in effects {
            match effect {
                Effect::Run(run) => self.runs(run),
                Effect::Evict(holder, object, serial) => {
                    let mut holders = self.leasing.holders.iter();
                    let peer = holders.find(|(_, client)| **client == holder);
                    if let Some(peer) = peer.map(|(peer, _)| *peer) {
                        let object = object.file;
                        let evicted = Evicted { holder, object, serial };
                        self.call(peer, Ask::Evict(object), Why::Evicted(evicted));
                    }
                }
                // There is no recovery, and nobody may write by a lease.
                Effect::Later(_) | Effect::Inquire(..) => {}
            }
        }
    }

    fn runs(&mut self, run: Run) {
        let Run { ticket, grant, .. } = run;
        match self.leasing.turns.remove(&ticket) {
            Some((object, Turn::Change(number))) => {
                if let Some(change) = self.leasing.changes.get_mut(&number) {
                    change.had.push((object, ticket));
                }
                self.change_next(number);
            }
            Some((object, Turn::Ask(asker, ask))) => {
                let is_granted = grant.is_some_and(|grant| grant.cachable);
                let answer = if let Ask::Search(place, _) = &ask {
                    let stands = self.stands(object, place);
                    // If not, another has come to stand there while this one's turn came.
                    let fetched = stands.then(|| self.known_of(&Ask::Fetch(object, None)));
                    fetched.unwrap_or(Answer::Later)
                } else {
                    self.known_of(&ask)
                };
                let void = matches!(answer, Answer::Gone | Answer::Later);
                self.answer(asker, if is_granted { answer } else { Answer::Later });
                self.leases(Event::Done(leased(object), ticket, Outcome { used: 0, void }));
            }
            None => {}
        }
    }

    /// A peer has dropped what it had by a lease, if that is what it answers.
    pub(crate) fn evicted(&mut self, evicted: Evicted, answer: &Answer) {
        let Evicted { holder, object, serial } = evicted;
        if *answer == Answer::Done {
            self.leases(Event::Returned(holder, leased(object), serial, Open::No));
        }
    }

    /// A peer has begun another epoch: it holds nothing, and what came from it is good no more.
    pub(crate) fn has_restarted(&mut self, peer: Peer) {
        if !self.options.strict {
            return;
        }
        if let Some(holder) = self.leasing.holders.remove(&peer) {
            self.leases(Event::Forgotten(holder));
        }
        self.copies(copies::Event::Restarted);
    }
}
