//! A simulated metaserver: the state machines of `core::replica`, and the code that drives them. It
//! passes events to the machines and executes the actions that they request.

use core::time::Duration;

use std::collections::BTreeMap;

use leasehold_base::random::Random;
use leasehold_base::units::{FileId, Time};
use leasehold_core::leases;
use leasehold_core::replica::changes::{self, Changes};
use leasehold_core::replica::copies::{self, Copies};
use leasehold_core::replica::home::{self, Home};
use leasehold_core::replica::moves::{self, Move, Moves};
use leasehold_core::replica::names::{self, Names};
use leasehold_core::replica::peers::{self, Known, Noted, Peers};
use leasehold_core::replica::search::Order;
use leasehold_core::replica::yields::{self, Yield, Yields};
use leasehold_core::replica::{Bounds, Call, Homes, Ids, Peer, Place, Stamp, Ticket};

use crate::faults::upto;

use super::ReplicaMutant;
use super::leasing::{Evicted, Leasing, Turns};
use super::message::{Answer, Ask, Body, Message, Metafile};
use super::operation::{Operation, Outcome};
use super::searching::Searching;

/// The time after which a metaserver retransmits a call.
const CALL_RETRY_DELAY: Duration = Duration::from_millis(400);
/// The timeout of a call.
const CALL_MAX: Duration = Duration::from_millis(2500);

/// The limits and times that the state machines use in these worlds.
pub(super) const BOUNDS: Bounds = Bounds { most: 40, ..Bounds::DEFAULT };

/// The root directory: the first object id of the first metaserver.
pub(super) const ROOT: FileId = FileId(1 << 48 | 1);

/// The state of a metaserver that survives a crash.
#[derive(Clone, Debug)]
pub(super) struct Disk {
    pub(super) known: Known,
    pub(super) ids: u64,
    pub(super) heard: BTreeMap<Peer, Noted>,
    pub(super) leave: Option<Move>,
    pub(super) metafiles: BTreeMap<FileId, Metafile>,
    pub(super) notes: BTreeMap<Place, FileId>,
    /// The objects that replace objects of other homes, for replacements that are not complete. The
    /// values are the name and the replaced object.
    pub(super) replacing: BTreeMap<FileId, (Place, FileId)>,
}

impl Disk {
    pub(super) fn new(me: Peer, peers: u32) -> Self {
        let root = Metafile::root();
        let others = (0..peers).map(Peer).filter(|peer| *peer != me);
        let metafiles = (me == Peer(0)).then_some((ROOT, root)).into_iter().collect();
        Self {
            known: Known::default(),
            ids: 2,
            heard: others.map(|peer| (peer, Noted::default())).collect(),
            leave: None,
            metafiles,
            notes: BTreeMap::new(),
            replacing: BTreeMap::new(),
        }
    }

    pub(super) fn standing_at(&self, place: &Place) -> Option<&Metafile> {
        self.metafiles.values().find(|metafile| metafile.place.as_ref() == Some(place))
    }
}

/// An action that needs a write to the disk, which takes time.
#[derive(Clone, Debug)]
pub(super) enum Chore {
    Store(Ticket, home::Change),
    /// A change that waits until no peer has a lease on its objects. Nothing is written yet.
    Turn(Ticket),
    Note(Place, FileId),
    Leave(Move),
    Content {
        object: FileId,
        id: u64,
        asker: Asker,
    },
    /// An object is hidden, in preparation for losing its name to an object of another home.
    Yield(Asker, Yield),
    /// The object loses its name after the preparation.
    Lose(Asker, Yield),
}

/// The requester of an answer: a peer, with the call's number and the peer's epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Asker {
    pub(super) peer: Peer,
    pub(super) epoch: u64,
    pub(super) call: u64,
}

/// An action that a step of the metaserver requests, or an observation for the checks.
#[derive(Clone, Debug)]
pub(super) enum Out {
    Send(Message),
    /// Executes an action after this time, and then ends operation guards.
    Chore(Duration, Chore, Turns),
    Ended(Operation, Outcome),
    /// A metafile was changed or removed on the disk. The last field is the call that requested the
    /// change.
    Stored(FileId, Option<Metafile>, Option<Asker>),
    /// An object has lost its name to the object that the home stores in the same step.
    Replaced(FileId),
    /// A listing contains this object.
    Showed(Metafile),
    /// A peer reported that an object was removed.
    Gone(FileId),
}

/// The reason for a call, which determines how the metaserver handles the answer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Why {
    Hello,
    Announce,
    Fetch(Call),
    Search(u64),
    Named(u64),
    SearchFetch(u64),
    Leave(Ticket),
    Claim(Ticket),
    Yield(Ticket),
    YieldedTo(Call),
    Stands(Call),
    Above(Call),
    Ended(Move),
    Change(Call),
    Evicted(Evicted),
    Operation(Ticket),
}

#[derive(Clone, Debug)]
pub(super) struct Called {
    pub(super) message: Message,
    pub(super) why: Why,
    pub(super) again: Time,
    pub(super) until: Time,
}

/// The state of a metaserver that a crash loses.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub(super) peers: Peers,
    pub(super) copies: Copies,
    pub(super) changes: Changes,
    pub(super) home: Home,
    pub(super) names: Names,
    pub(super) moves: Moves,
    pub(super) yields: Yields,
    pub(super) leasing: Leasing,
    pub(super) ids: Ids,
    /// The cached copies of peers' metafiles.
    pub(super) kept: BTreeMap<FileId, Metafile>,
    /// A metafile that has just arrived, until the state machine `copies` decides if it is kept.
    pub(super) brought: Option<Metafile>,
    pub(super) dirty: BTreeMap<FileId, u64>,
    pub(super) on_its_way: BTreeMap<Call, (FileId, u64)>,
    pub(super) searches: BTreeMap<u64, Searching>,
    pub(super) calls: BTreeMap<u64, Called>,
    /// The received calls; a call has an answer after it was executed.
    pub(super) seen: BTreeMap<Asker, Option<Answer>>,
    pub(super) waiting: BTreeMap<Ticket, Asker>,
    /// The operation guards of changes whose write to the disk has not begun.
    pub(super) first: BTreeMap<Ticket, Turns>,
    /// For each removal of a directory, the change that waits for the directory to be closed.
    pub(super) closing: BTreeMap<Ticket, Ticket>,
    pub(super) operation: Option<(Ticket, Operation)>,
    last: u64,
}

pub(super) struct Node {
    pub(super) me: Peer,
    pub(super) count: u32,
    pub(super) homes: Homes,
    pub(super) order: Order,
    /// True if the metaservers cache under leases.
    pub(super) strict: bool,
    pub(super) mutant: Option<ReplicaMutant>,
    pub(super) disk: Disk,
    pub(super) live: Live,
    pub(super) now: Time,
    pub(super) random: Random,
    pub(super) outs: Vec<Out>,
}

impl Node {
    pub(super) fn new(
        me: Peer,
        count: u32,
        order: Order,
        mutant: Option<ReplicaMutant>,
        random: Random,
    ) -> Self {
        let homes = Homes::new((0..count).map(|peer| (u64::from(peer) + 1, Peer(peer))).collect());
        let mut disk = Disk::new(me, count);
        let live = Live::new(me, Time::ZERO, &mut disk, mutant);
        Self {
            me,
            count,
            homes,
            order,
            strict: false,
            mutant,
            disk,
            live,
            now: Time::ZERO,
            random,
            outs: Vec::new(),
        }
    }

    /// Begins a new epoch with empty memory.
    pub(super) fn start(&mut self, now: Time) {
        self.now = now;
        self.live = Live::new(self.me, now, &mut self.disk, self.mutant);
        // After a restore from an old backup, the epoch may repeat an earlier epoch. So begin the
        // call numbers at a random number: an answer from the earlier epoch then matches no call of
        // this epoch.
        self.live.last = self.random.below(1 << 24) << 7;
        self.peers(peers::Event::Tick);
        self.moves(moves::Event::Tick);
    }

    pub(super) fn epoch(&self) -> u64 {
        self.live.peers.epoch()
    }

    pub(super) fn home_of(&self, object: FileId) -> Peer {
        self.homes.of(object).expect("every id has a home")
    }

    /// Returns true if an object replaces another object in one step. Only a replacement of
    /// directories of two homes needs two steps.
    pub(super) fn replaces_in_one_step(
        &self,
        one: FileId,
        other: FileId,
        is_directory: bool,
    ) -> bool {
        self.home_of(one) == self.home_of(other) || !is_directory
    }

    /// Returns a call number that was never used before, in any epoch.
    pub(super) const fn number(&mut self) -> u64 {
        self.live.last += 1;
        self.live.peers.epoch() << 32 | self.live.last
    }

    pub(super) fn call(&mut self, to: Peer, ask: Ask, why: Why) {
        let call = self.number();
        let callee_epoch = if to == self.me { self.epoch() } else { self.live.peers.epoch_of(to) };
        let epoch = self.epoch();
        let body = Body::Ask(ask);
        let message = Message { from: self.me, to, epoch, callee_epoch, call, body };
        self.outs.push(Out::Send(message.clone()));
        let (again, until) = (self.now + CALL_RETRY_DELAY, self.now + CALL_MAX);
        self.live.calls.insert(call, Called { message, why, again, until });
    }

    pub(super) fn answer(&mut self, asker: Asker, answer: Answer) {
        self.live.seen.insert(asker, Some(answer.clone()));
        let body = Body::Answer(self.disk.known.stamp, answer);
        let Asker { peer, epoch, call } = asker;
        let (from, mine) = (self.me, self.epoch());
        let message = Message { from, to: peer, epoch: mine, callee_epoch: epoch, call, body };
        self.outs.push(Out::Send(message));
    }

    /// Schedules a write to the disk; the operation guards end after it.
    pub(super) fn put_off(&mut self, chore: Chore, turns: Turns) {
        let time = upto(&mut self.random, Duration::from_millis(20));
        self.outs.push(Out::Chore(time, chore, turns));
    }

    pub(super) fn next_wake(&self) -> Option<Time> {
        let Live { peers, copies, changes, home, moves, yields, leasing, calls, .. } = &self.live;
        let machines = [
            peers.next_wake(),
            copies.next_wake(),
            changes.next_wake(),
            home.next_wake(),
            moves.next_wake(),
            yields.next_wake(),
            leasing.next_wake(),
        ];
        let calls = calls.values().map(|called| called.again.min(called.until));
        machines.into_iter().flatten().chain(calls).min()
    }

    pub(super) fn wake(&mut self, now: Time) {
        self.now = now;
        self.leases(leases::table::Event::Tick);
        self.peers(peers::Event::Tick);
        self.copies(copies::Event::Tick);
        self.changes(changes::Event::Tick);
        self.home(home::Event::Tick);
        self.moves(moves::Event::Tick);
        self.yields(yields::Event::Tick);
        let over = self.live.calls.iter().filter(|(_, called)| called.until <= now);
        for call in over.map(|(call, _)| *call).collect::<Vec<_>>() {
            let called = self.live.calls.remove(&call).expect("the call is in progress");
            self.answered(called.why, Answer::Later);
        }
        for called in self.live.calls.values_mut().filter(|called| called.again <= now) {
            called.again = now + CALL_RETRY_DELAY;
            if !matches!(called.why, Why::Hello | Why::Announce) {
                self.outs.push(Out::Send(called.message.clone()));
            }
        }
    }

    /// Changes a metafile on the disk, and gives it the next version number. Returns the version
    /// number.
    pub(super) fn store(
        &mut self,
        object: FileId,
        asker: Option<Asker>,
        change: impl FnOnce(&mut Metafile) -> bool,
    ) -> Stamp {
        self.disk.known.stamp.0 += 1;
        let version = self.disk.known.stamp;
        let mut metafile = self.disk.metafiles.remove(&object).unwrap_or(Metafile {
            object,
            version,
            is_directory: false,
            place: None,
            content: 0,
        });
        metafile.version = version;
        if change(&mut metafile) {
            self.disk.metafiles.insert(object, metafile.clone());
            self.outs.push(Out::Stored(object, Some(metafile), asker));
        } else {
            self.outs.push(Out::Stored(object, None, asker));
        }
        version
    }

    /// Completes a write to the disk. If `crashes` is true, the metaserver crashes right after the
    /// write, so the state machines do not learn of it.
    pub(super) fn chore(&mut self, now: Time, chore: Chore, turns: Turns, crashes: bool) {
        self.now = now;
        self.do_chore(chore, crashes);
        if !crashes {
            turns.into_iter().for_each(|(object, ticket)| self.has_changed(object, ticket));
        }
    }

    fn do_chore(&mut self, chore: Chore, crashes: bool) {
        match chore {
            Chore::Store(ticket, change) => {
                let asker = self.live.waiting.get(&ticket).copied();
                let (to, is_directory) = (change.to.clone(), change.is_directory);
                // Remove the replaced object in the same step: a crash leaves both changes or none.
                if let Some(over) = change.over_here() {
                    self.store(over, None, |_| false);
                }
                if let Some((place, over, _)) = change.over_there() {
                    self.disk.replacing.insert(change.object, (place, over));
                    self.outs.push(Out::Replaced(over));
                }
                let version = self.store(change.object, asker, |metafile| {
                    metafile.is_directory = is_directory;
                    metafile.place = to;
                    metafile.place.is_some()
                });
                if !crashes {
                    self.home(home::Event::Stored(ticket, version));
                }
            }
            Chore::Note(place, object) => {
                self.disk.notes.insert(place.clone(), object);
                if !crashes {
                    self.names(names::Event::Noted(place));
                }
            }
            Chore::Leave(given) => {
                self.disk.leave = Some(given);
                if !crashes {
                    self.moves(moves::Event::Noted);
                }
            }
            Chore::Content { object, id, asker } => {
                let is_there = self.disk.metafiles.contains_key(&object);
                let answer = if is_there {
                    let version = self.store(object, Some(asker), |metafile| {
                        metafile.content = id;
                        true
                    });
                    Answer::Version(version)
                } else {
                    Answer::Gone
                };
                if !crashes {
                    self.answer(asker, answer);
                }
            }
            Chore::Yield(asker, it) if !crashes => self.yield_to(asker, it),
            Chore::Yield(..) | Chore::Turn(_) => {}
            Chore::Lose(asker, it) => {
                let stands = self.stands(it.over, &it.place);
                let version = stands.then(|| self.store(it.over, None, |_| false));
                if !crashes {
                    self.has_lost(asker, it, version);
                }
            }
        }
    }
}

impl Live {
    fn new(me: Peer, now: Time, disk: &mut Disk, mutant: Option<ReplicaMutant>) -> Self {
        let stored = disk.known;
        disk.known.epoch += 1;
        let epoch = disk.known.epoch;
        let mut live = Self {
            peers: Peers::new(now, epoch, stored, disk.heard.clone()),
            copies: Copies::new(BOUNDS),
            changes: Changes::new(BOUNDS),
            home: Home::new(BOUNDS),
            names: Names::default(),
            moves: Moves::new(now, ROOT, disk.leave),
            yields: Yields::new(BOUNDS),
            leasing: Leasing::new(mutant),
            ids: Ids::new(u64::from(me.0) + 1, disk.ids),
            kept: BTreeMap::new(),
            brought: None,
            dirty: BTreeMap::new(),
            on_its_way: BTreeMap::new(),
            searches: BTreeMap::new(),
            calls: BTreeMap::new(),
            seen: BTreeMap::new(),
            waiting: BTreeMap::new(),
            first: BTreeMap::new(),
            closing: BTreeMap::new(),
            operation: None,
            last: 0,
        };
        if let Some(mutant) = mutant {
            live.plant(mutant);
        }
        live
    }

    fn plant(&mut self, mutant: ReplicaMutant) {
        match mutant {
            ReplicaMutant::IgnoresEpochs => self.peers.plant(peers::Mutant::IgnoresEpochs),
            ReplicaMutant::ServesOlder => self.peers.plant(peers::Mutant::ServesOlder),
            ReplicaMutant::CountsFromAnswer => self.copies.plant(copies::Mutant::CountsFromAnswer),
            ReplicaMutant::ForgetsAnnouncements => {
                self.copies.plant(copies::Mutant::ForgetsAnnouncements);
            }
            ReplicaMutant::UsesOld => self.copies.plant(copies::Mutant::UsesOld),
            ReplicaMutant::NeverAsks => self.copies.plant(copies::Mutant::NeverAsks),
            ReplicaMutant::CommitsEarly => self.changes.commit_early(),
            ReplicaMutant::TakesNames => self.names.plant(names::Mutant::TakesNames),
            ReplicaMutant::TakesYielded => self.names.plant(names::Mutant::TakesYielded),
            ReplicaMutant::ClosesFull => self.names.plant(names::Mutant::ClosesFull),
            ReplicaMutant::LeavesOpen => self.names.plant(names::Mutant::LeavesOpen),
            ReplicaMutant::DropsStanding => self.names.plant(names::Mutant::DropsStanding),
            ReplicaMutant::ClaimsNothing => self.home.plant(home::Mutant::ClaimsNothing),
            ReplicaMutant::TakesLeave => self.home.plant(home::Mutant::TakesLeave),
            ReplicaMutant::HidesClaims => self.home.plant(home::Mutant::HidesClaims),
            ReplicaMutant::TakesRefused => self.home.plant(home::Mutant::TakesRefused),
            ReplicaMutant::ReplacesFull => self.home.plant(home::Mutant::ReplacesFull),
            ReplicaMutant::LosesRefused => self.home.plant(home::Mutant::LosesRefused),
            ReplicaMutant::ForgetsReplaced => self.home.plant(home::Mutant::ForgetsReplaced),
            ReplicaMutant::ShowsYielded => self.yields.plant(yields::Mutant::ShowsYielded),
            ReplicaMutant::ForgetsLost => self.yields.plant(yields::Mutant::ForgetsLost),
            ReplicaMutant::LooksNowhere => self.moves.look_nowhere(),
            ReplicaMutant::IgnoresEvictions => self.copies.plant(copies::Mutant::IgnoresEvictions),
            ReplicaMutant::IgnoresRestarts => self.copies.plant(copies::Mutant::IgnoresRestarts),
            ReplicaMutant::GivesUp
            | ReplicaMutant::MissesHome
            | ReplicaMutant::ReplacesInTwoSteps
            | ReplicaMutant::EvictsNobody
            | ReplicaMutant::GrantsMeanwhile => {}
        }
    }
}
