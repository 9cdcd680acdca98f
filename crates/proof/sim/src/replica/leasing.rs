//! The leases that the homes of strict worlds grant to other metaservers, and the operations that
//! wait for these leases.

use core::time::Duration;
use std::collections::BTreeMap;

use leasehold_base::units::{FileId, FileSystemId, Time};
use leasehold_core::leases::table::{
    self, Access, Ask as Wish, Call, Effect, Event, Outcome, Run, Table,
};
use leasehold_core::leases::{Client, Kind, Object, Open, Serial, Terms, Ticket};
use leasehold_core::replica::{Peer, copies};

use super::ReplicaMutant;
use super::message::{Answer, Ask};
use super::node::{Asker, BOUNDS, Chore, Node, Why};

const TERMS: Terms = Terms {
    default_term: BOUNDS.window,
    longest_term: BOUNDS.window,
    write_slack: Duration::ZERO,
    slack_max: Duration::ZERO,
    drift_ppm: super::truth::DRIFT_PPM_MAX,
    ..Terms::DEFAULT
};

/// The operation guards of a change. They end when the change is on the disk.
pub(super) type Turns = Vec<(FileId, Ticket)>;

/// A lease that the home has recalled from a peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evicted {
    holder: Client,
    object: FileId,
    serial: Serial,
}

#[derive(Clone, Debug)]
enum Turn {
    Ask(Asker, Ask),
    /// A change that collects operation guards. The vector of objects contains the objects without
    /// a guard, the next object last. The last field contains the guards that the change already
    /// has.
    Change(Chore, Vec<FileId>, Turns),
}

/// The leases of peers on the objects that have their home at this metaserver.
#[derive(Clone, Debug)]
pub(super) struct Leasing {
    table: Table,
    holders: BTreeMap<Peer, Client>,
    last_holder: u32,
    turns: BTreeMap<Ticket, (FileId, Turn)>,
}

impl Leasing {
    pub(super) fn new(mutant: Option<ReplicaMutant>) -> Self {
        let mut table = Table::new(TERMS, BOUNDS.most * 4, 0, false);
        match mutant {
            Some(ReplicaMutant::EvictsNobody) => table.plant(table::Mutant::ChecksNoWrites),
            Some(ReplicaMutant::GrantsMeanwhile) => table.plant(table::Mutant::ForgetsRunning),
            Some(_) | None => {}
        }
        Self { table, holders: BTreeMap::new(), last_holder: 0, turns: BTreeMap::new() }
    }

    pub(super) fn next_wake(&self) -> Option<Time> {
        self.table.next_wake()
    }
}

const fn leased(file: FileId) -> Object {
    Object { file_system: FileSystemId(0), file }
}

impl Node {
    /// Passes a change of objects to the disk, after all peers have returned their leases on the
    /// objects.
    pub(super) fn changing(&mut self, objects: &[FileId], chore: Chore) {
        self.changing_with(objects, Vec::new(), chore);
    }

    /// Like `changing`, for a change that already has the operation guards `had` on further
    /// objects.
    pub(super) fn changing_with(&mut self, objects: &[FileId], had: Turns, chore: Chore) {
        let mut to_have = objects.to_vec();
        to_have.sort_unstable_by(|one, other| other.cmp(one));
        self.change_next(chore, to_have, had);
    }

    fn change_next(&mut self, chore: Chore, mut to_have: Vec<FileId>, had: Turns) {
        match (to_have.pop().filter(|_| self.strict), chore) {
            (Some(object), chore) => {
                let turn = Turn::Change(chore, to_have, had);
                self.take_turn(object, None, Access::Write, turn);
            }
            (None, Chore::Turn(ticket)) => self.has_turn(ticket, had),
            (None, chore) => self.put_off(chore, had),
        }
    }

    /// Handles the request of a peer for metadata that the peer may cache under a lease.
    pub(super) fn ask_leased(&mut self, asker: Asker, object: FileId, ask: Ask) {
        let leasing = &mut self.live.leasing;
        let holder = *leasing.holders.entry(asker.peer).or_insert_with(|| {
            leasing.last_holder += 1;
            Client(leasing.last_holder)
        });
        self.take_turn(object, Some(holder), Access::Read, Turn::Ask(asker, ask));
    }

    fn take_turn(&mut self, object: FileId, client: Option<Client>, access: Access, turn: Turn) {
        let ticket = Ticket(self.number());
        self.live.leasing.turns.insert(ticket, (object, turn));
        let (kind, term, space) = (Kind::Read, Duration::ZERO, 0);
        let wish = Wish { kind, term, space, opportune: false, reclaim: false, reports: false };
        let (object, ask) = (leased(object), client.map(|_| wish));
        self.leases(Event::Call(Call { ticket, object, client, access, under: None, ask }));
    }

    /// Ends the operation guard of a change that is on the disk.
    pub(super) fn has_changed(&mut self, object: FileId, ticket: Ticket) {
        self.leases(Event::Done(leased(object), ticket, Outcome::default()));
    }

    pub(super) fn leases(&mut self, event: Event) {
        let mut effects = Vec::new();
        self.live.leasing.table.step(self.now, event, &mut effects);
        for effect in effects {
            match effect {
                Effect::Run(run) => self.runs(run),
                Effect::Evict(holder, object, serial) => {
                    let mut holders = self.live.leasing.holders.iter();
                    let peer = holders.find(|(_, client)| **client == holder);
                    if let Some(peer) = peer.map(|(peer, _)| *peer) {
                        let object = object.file;
                        let evicted = Evicted { holder, object, serial };
                        self.call(peer, Ask::Evict(object), Why::Evicted(evicted));
                    }
                }
                Effect::Later(_) | Effect::Inquire(..) => {
                    unreachable!("no metaserver writes under a lease")
                }
            }
        }
    }

    fn runs(&mut self, run: Run) {
        let Run { ticket, grant, .. } = run;
        match self.live.leasing.turns.remove(&ticket) {
            Some((object, Turn::Change(chore, to_have, mut had))) => {
                had.push((object, ticket));
                self.change_next(chore, to_have, had);
            }
            Some((object, Turn::Ask(asker, ask))) => {
                let is_granted = grant.is_some_and(|grant| grant.cachable);
                let answer = if let Ask::Search(place, _) = &ask {
                    let stands = self.stands(object, place);
                    // If the object no longer has the name, another object has got the name while
                    // this request waited. The peer must then retry.
                    let fetched = stands.then(|| self.known_of(&Ask::Fetch(object, None)));
                    fetched.unwrap_or(Answer::Later)
                } else {
                    self.known_of(&ask)
                };
                let void = matches!(answer, Answer::Gone | Answer::Later);
                self.answer(asker, if is_granted { answer } else { Answer::Later });
                self.leases(Event::Done(leased(object), ticket, Outcome { used: 0, void }));
            }
            None => unreachable!("each ticket has one operation guard"),
        }
    }

    pub(super) fn evicted(&mut self, evicted: Evicted, answer: &Answer) {
        let Evicted { holder, object, serial } = evicted;
        if *answer == Answer::Done {
            self.leases(Event::Returned(holder, leased(object), serial, Open::No));
        }
    }

    /// Handles a new epoch of a peer: the peer holds no leases any more, and copies that it sent
    /// before are invalid.
    pub(super) fn has_restarted(&mut self, peer: Peer) {
        if !self.strict {
            return;
        }
        if let Some(holder) = self.live.leasing.holders.remove(&peer) {
            self.leases(Event::Forgotten(holder));
        }
        self.copies(copies::Event::Restarted);
    }
}
