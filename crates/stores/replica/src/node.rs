//! A metaserver: the state machines of `core::replica`, their data, and the code that drives them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use futures_channel::oneshot;
use leasehold_base::units::{FileId, Time};
use leasehold_core::leases::{self, table};
use leasehold_core::replica::changes::{self, Changes};
use leasehold_core::replica::copies::{self, Copies};
use leasehold_core::replica::covers::{self, Covers};
use leasehold_core::replica::distances::Distances;
use leasehold_core::replica::home::{self, Home};
use leasehold_core::replica::moves::{self, Moves};
use leasehold_core::replica::names::{self, Names};
use leasehold_core::replica::peers::{self, Known, Peers};
use leasehold_core::replica::yields::{self, Yields};
use leasehold_core::replica::{Bounds, Call, Homes, Ids, Peer, Place, Stamp, Ticket};
use leasehold_wire::replica::Caller;

use crate::change_slots::SLOTS;
use crate::delegable_leases::{COVERS_MAX, Lending};
use crate::disk::{Disk, ROOT, first_at};
use crate::failure_detector::Silence;
use crate::lease_server::{Evicted, Leasing, lent, waited};
use crate::message::{Answer, Ask, Begins};
use crate::metafile::{Metafile, Wrote};
use crate::outside::{Outside, Urgency};
use crate::prepare::Yielding;
use crate::record::Record;
use crate::referral::Choosing;
use crate::searching::Searching;
use crate::{Load, Notice, Options};

/// The maximum number of names in a reported path: more than programs can use in one path.
const DEPTH_MAX: usize = 4096;

/// The continuation of a write to stable storage: the work that follows when the records are
/// stored.
#[derive(Clone, Debug)]
pub(crate) enum Chore {
    /// Apply the changes of metafiles that were stored together.
    Metafiles(Vec<Changing>),
    /// Grant the permission for a directory rename, which is now recorded.
    Leave,
}

/// A change of a metafile that is being written to stable storage.
#[derive(Clone, Debug)]
pub(crate) struct Changing {
    pub(crate) object: FileId,
    pub(crate) version: Stamp,
    /// `None` if the change removes the object.
    pub(crate) metafile: Option<Metafile>,
    pub(crate) what_for: For,
    /// The operation guard of the change. Lease requests wait until the guard ends, when the change
    /// is stored.
    pub(crate) lease: Option<leases::Ticket>,
}

/// The purpose of a change.
#[derive(Clone, Debug)]
pub(crate) enum For {
    /// A rename, link or unlink of an object. The second field is the name that the object takes
    /// over from an object of another home, and that object, if there is one.
    Names(Ticket, Option<(Place, FileId)>),
    /// The replaced object loses its name in a two-phase rename (rule 30 of `spec/replica.x`).
    Yielded(Asker, Place),
    /// A reservation of a name in the directory: the name, the object and the cookie.
    Note(Place, FileId, u64),
    /// The removal of a reservation.
    NoNote(Place),
    /// A change of a directory's times, because a name in the directory changes.
    Loss,
    /// A change of attributes or content, at the request of a peer or of this metaserver.
    Asked(Asker),
    /// A change of a directory's times at the END of a change that another home has made in the
    /// directory (rule 28).
    End(Asker),
}

/// The sender of a request, to which the reply goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Asker {
    /// A peer, and the number under which its pending request is stored in `askers`.
    Peer(Peer, u64),
    /// This metaserver itself, and the number of its call.
    Me(u64),
}

/// The party that waits for the result of a ticket: an operation of a client, or the sender of a
/// request.
pub(crate) enum Waiter {
    Operation(oneshot::Sender<Answer>),
    Asker(Asker),
}

/// The reason for a call to a peer, which determines the recipient of the answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Why {
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
    Ended(moves::Move),
    Begun(u64),
    End(Ticket, Begins),
    Change(Call),
    Evicted(Evicted),
    Cover(Call),
    /// A health check of a peer.
    There(Peer),
    Operation(Ticket),
}

/// A call to a peer that is in flight.
#[derive(Clone, Debug)]
pub(crate) struct Called {
    pub(crate) peer: Peer,
    pub(crate) sent: Time,
    pub(crate) callee_epoch: u64,
    pub(crate) ask: Ask,
    pub(crate) why: Why,
    /// True if this call repeats a call that the peer refused because of an outdated epoch.
    pub(crate) again: bool,
}

/// An effect of a step, which [`crate::Metaserver`] executes after it has released the lock of the
/// node.
pub(crate) enum Out {
    /// Call a peer.
    Call { call: u64, peer: Peer, caller: Caller, ask: Ask },
    /// Send the answer to a peer's request.
    Tell(oneshot::Sender<(Stamp, Answer)>, Stamp, Answer),
    /// Drop a peer's request without an answer.
    Leave(oneshot::Sender<(Stamp, Answer)>),
    /// Resume a waiting operation of this metaserver with this answer.
    Operation(oneshot::Sender<Answer>, Answer),
    /// Wait until the records are on stable storage, and then run the continuation.
    Await(oneshot::Receiver<()>, Chore),
    /// Recall the leases that clients of this metaserver hold on an object.
    Vacate(FileId),
    /// Drop the leases that clients of this metaserver hold on an object, because the delegable
    /// lease above them has expired.
    Lost(FileId),
}

/// A message of this metaserver to itself.
pub(crate) enum Own {
    Ask(u64, Ask),
    Answer(u64, Answer),
}

/// The state of a metaserver.
pub(crate) struct Node {
    pub(crate) options: Arc<Options>,
    pub(crate) outside: Arc<dyn Outside>,
    pub(crate) homes: Homes,
    pub(crate) now: Time,
    pub(crate) disk: Disk,
    /// The epoch and the version number that the start of this metaserver found on stable storage.
    pub(crate) stored: Known,
    /// The greatest version number of a change that is on stable storage.
    pub(crate) durable: Stamp,
    /// Metafiles with changes that are being written to stable storage.
    pub(crate) pending: BTreeMap<FileId, (Stamp, Option<Metafile>)>,
    pub(crate) peers: Peers,
    /// True if this metaserver must not serve its stored state. It then reports no load.
    pub(crate) refuses: bool,
    /// True if a write to stable storage has failed. Later requests with an effect are not
    /// executed.
    pub(crate) has_failed: bool,
    pub(crate) copies: Copies,
    pub(crate) changes: Changes,
    pub(crate) home: Home,
    pub(crate) names: Names,
    pub(crate) moves: Moves,
    pub(crate) yields: Yields,
    pub(crate) yielding: Yielding,
    pub(crate) leasing: Leasing,
    pub(crate) covers: Covers,
    pub(crate) lending: Lending,
    /// The time at which all leases have expired that peers in `without` may hold from the previous
    /// epoch. `None` if this time has passed or is irrelevant.
    pub(crate) alone_from: Option<Time>,
    pub(crate) ids: Ids,
    /// The cached copies of other homes' metafiles, and an index of the copies by directory and
    /// name.
    pub(crate) kept: BTreeMap<FileId, Metafile>,
    pub(crate) kept_at: BTreeSet<(Place, FileId)>,
    /// Cached copies that are known to be out of date.
    pub(crate) suspects: BTreeSet<FileId>,
    /// The metafile from the reply to a call, for the next step of `copies`, which decides if the
    /// metafile is cached.
    pub(crate) brought: Option<Metafile>,
    /// Content that clients have written here and that the objects' homes do not have yet: `dirty`
    /// is not sent yet, and `releasing` is sent but not acknowledged.
    pub(crate) dirty: BTreeMap<FileId, Wrote>,
    pub(crate) releasing: BTreeMap<Call, (FileId, Wrote)>,
    /// The objects of this home that another metaserver has written, until they are removed. If the
    /// set is full, all objects count as written.
    pub(crate) elsewhere: BTreeSet<FileId>,
    /// Objects that are being created.
    pub(crate) births: BTreeMap<FileId, Metafile>,
    pub(crate) searches: BTreeMap<u64, Searching>,
    pub(crate) distances: Distances,
    pub(crate) calls: BTreeMap<u64, Called>,
    pub(crate) askers: BTreeMap<u64, oneshot::Sender<(Stamp, Answer)>>,
    pub(crate) waiting: BTreeMap<Ticket, Waiter>,
    /// The changes that remove a directory and wait for the check that the directory is empty, by
    /// the ticket of the check.
    pub(crate) closing: BTreeMap<Ticket, Ticket>,
    pub(crate) own: VecDeque<Own>,
    pub(crate) outs: Vec<Out>,
    /// The number of calls to other metaservers so far.
    pub(crate) messages: u64,
    /// The load of this metaserver.
    pub(crate) load: Load,
    pub(crate) choosing: Choosing,
    pub(crate) silence: Silence,
    last: u64,
}

impl Node {
    /// Starts an epoch over the stored state. `start` is a random number of 31 bits.
    pub(crate) fn new(
        options: Arc<Options>,
        mut disk: Disk,
        outside: Arc<dyn Outside>,
        start: u32,
    ) -> Self {
        let (now, me, bounds) = (outside.now(), options.me, options.bounds);
        let stored = disk.known;
        disk.known.epoch += 1;
        let epoch = disk.known.epoch;
        for peer in options.peers().filter(|peer| *peer != me) {
            disk.heard.entry(peer).or_default();
        }
        let mut node = Self {
            homes: homes(&options),
            now,
            stored,
            durable: stored.stamp,
            pending: BTreeMap::new(),
            peers: Peers::new(now, epoch, stored, disk.heard.clone()),
            refuses: false,
            has_failed: false,
            copies: Copies::new(bounds),
            changes: Changes::new(bounds),
            home: Home::new(bounds),
            names: Names::default(),
            moves: Moves::new(now, ROOT, disk.leave),
            yields: Yields::new(bounds),
            yielding: Yielding::default(),
            leasing: Leasing::new(bounds, options.count as usize, epoch),
            covers: Covers::new(Bounds { most: bounds.most.min(COVERS_MAX), ..bounds }, lent()),
            lending: Lending::default(),
            alone_from: None,
            ids: Ids::new(range_of(me), disk.ids),
            kept: BTreeMap::new(),
            kept_at: BTreeSet::new(),
            suspects: BTreeSet::new(),
            brought: None,
            dirty: BTreeMap::new(),
            releasing: BTreeMap::new(),
            elsewhere: BTreeSet::new(),
            births: BTreeMap::new(),
            searches: BTreeMap::new(),
            distances: Distances::new(options.peers().filter(|peer| *peer != me)),
            calls: BTreeMap::new(),
            askers: BTreeMap::new(),
            waiting: BTreeMap::new(),
            closing: BTreeMap::new(),
            own: VecDeque::new(),
            outs: Vec::new(),
            messages: 0,
            load: Load::UNKNOWN,
            choosing: Choosing::default(),
            silence: Silence::default(),
            // A metaserver that is restored from an old backup uses an epoch a second time. Start
            // the call numbers at a random value, so that a late answer to a call of the first run
            // matches no call of this run.
            last: u64::from(start) << 32,
            options,
            outside,
            disk,
        };
        node.append(&[Record::Epoch(epoch)], Urgency::Now, None);
        node
    }

    /// Sends HELLO to the peers that the start waits for. Stops waiting for the peers in `without`:
    /// in strict mode only after their leases have expired.
    pub(crate) fn begin(&mut self) {
        let waits = !self.options.without.is_empty() && self.options.strict;
        self.alone_from = waits.then(|| self.now + waited(self.options.bounds, self.options.lends));
        if !waits {
            self.go_alone();
        }
        self.peers(peers::Event::Tick);
        self.moves(moves::Event::Tick);
    }

    /// Makes the start stop waiting for the peers in `without`.
    fn go_alone(&mut self) {
        for peer in self.options.without.clone() {
            self.peers(peers::Event::Away(peer));
        }
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.peers.epoch()
    }

    pub(crate) fn me(&self) -> Peer {
        self.options.me
    }

    pub(crate) fn is_mine(&self, object: FileId) -> bool {
        self.homes.of(object) == Some(self.me())
    }

    /// Returns a number that is unique across all epochs.
    pub(crate) const fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Returns the next change number of a slot (see [`crate::change_slots`]). All change numbers
    /// of a slot have the same remainder modulo `SLOTS`.
    pub(crate) const fn number_in(&mut self, slot: u64) -> u64 {
        self.last = (self.last / SLOTS + 1) * SLOTS + slot;
        self.last
    }

    /// Calls the home of an object. If no metaserver has the id in its range, the answer is
    /// [`Answer::Gone`].
    pub(crate) fn call_home(&mut self, object: FileId, ask: Ask, why: Why) {
        match self.homes.of(object) {
            Some(home) => self.call(home, ask, why),
            None => self.answered(why, Answer::Gone),
        }
    }

    pub(crate) fn call(&mut self, peer: Peer, ask: Ask, why: Why) {
        self.call_as(peer, ask, why, false);
    }

    pub(crate) fn call_as(&mut self, peer: Peer, ask: Ask, why: Why, again: bool) {
        let call = self.number();
        let callee_epoch = self.peers.epoch_of(peer);
        let (sent, asked) = (self.now, ask.clone());
        let called = Called { peer, sent, callee_epoch, ask: asked, why, again };
        self.calls.insert(call, called);
        if peer == self.me() {
            self.own.push_back(Own::Ask(call, ask));
            return;
        }
        self.messages += 1;
        let caller = Caller { peer: self.me().0, epoch: self.epoch(), callee_epoch };
        self.outs.push(Out::Call { call, peer, caller, ask });
    }

    pub(crate) fn answer(&mut self, asker: Asker, answer: Answer) {
        match asker {
            Asker::Me(call) => self.own.push_back(Own::Answer(call, answer)),
            Asker::Peer(_, asker) => {
                if let Some(sender) = self.askers.remove(&asker) {
                    self.outs.push(Out::Tell(sender, self.durable, answer));
                }
            }
        }
    }

    /// Returns a new ticket for a waiter.
    pub(crate) fn ticket(&mut self, waiter: Waiter) -> Ticket {
        let ticket = Ticket(self.number());
        self.waiting.insert(ticket, waiter);
        ticket
    }

    /// Sends the answer to the waiter of a ticket.
    pub(crate) fn finish(&mut self, ticket: Ticket, answer: Answer) {
        if let Some(change) = self.closing.remove(&ticket) {
            self.home(home::Event::Had(change, answer.had()));
            return;
        }
        match self.waiting.remove(&ticket) {
            Some(Waiter::Asker(asker)) => self.answer(asker, answer),
            Some(Waiter::Operation(sender)) => self.outs.push(Out::Operation(sender, answer)),
            None => {}
        }
    }

    /// Delivers the messages of this metaserver to itself, until there are none.
    pub(crate) fn settle(&mut self) {
        while let Some(own) = self.own.pop_front() {
            match own {
                Own::Ask(call, ask) => self.asked(Asker::Me(call), ask),
                Own::Answer(call, answer) => {
                    if let Some(called) = self.calls.remove(&call) {
                        self.answered(called.why, answer);
                    }
                }
            }
        }
    }

    pub(crate) fn next_wake(&self) -> Option<Time> {
        let machines = [
            self.peers.next_wake(),
            self.copies.next_wake(),
            self.changes.next_wake(),
            self.home.next_wake(),
            self.moves.next_wake(),
            self.yields.next_wake(),
            self.leasing.next_wake(),
            self.covers.next_wake(),
            self.lending.next_wake(),
            self.silence.next_wake(),
            self.alone_from,
        ];
        machines.into_iter().flatten().min()
    }

    pub(crate) fn wake(&mut self) {
        if self.alone_from.take_if(|from| *from <= self.now).is_some() {
            self.go_alone();
        }
        self.leases(table::Event::Tick);
        self.peers(peers::Event::Tick);
        self.covers(covers::Event::Tick);
        self.wake_lending();
        self.wake_begun();
        self.wake_changing();
        self.wake_naming();
        self.copies(copies::Event::Tick);
        self.changes(changes::Event::Tick);
        self.home(home::Event::Tick);
        self.moves(moves::Event::Tick);
        self.yields(yields::Event::Tick);
        self.wake_silence();
    }

    /// Appends records to stable storage, in the order of the calls.
    pub(crate) fn append(&mut self, records: &[Record], urgency: Urgency, chore: Option<Chore>) {
        let bytes = records.iter().map(Record::encode).collect();
        let stored = self.outside.append(bytes, urgency);
        if let Some(chore) = chore {
            self.outs.push(Out::Await(stored, chore));
        }
    }

    /// Returns the metafile with all changes that are being written to stable storage.
    pub(crate) fn latest(&self, object: FileId) -> Option<&Metafile> {
        match self.pending.get(&object) {
            Some((_, metafile)) => metafile.as_ref(),
            None => self.disk.metafiles.get(&object).or_else(|| self.births.get(&object)),
        }
    }

    /// Changes a metafile and assigns the next version number to the metafile. If `change` returns
    /// false, removes the object. Clients and peers see the change only when it is on stable
    /// storage. Returns false if the object does not exist.
    pub(crate) fn store(
        &mut self,
        object: FileId,
        what_for: For,
        change: impl FnOnce(&mut Metafile) -> bool,
    ) -> bool {
        let (mut records, urgency) = match &what_for {
            For::Note(place, claims, cookie) => {
                (vec![Record::Note(place.clone(), *claims, *cookie)], Urgency::Now)
            }
            For::NoNote(place) => (vec![Record::NoNote(place.clone())], Urgency::Soon),
            For::Names(..) | For::Yielded(..) | For::Loss | For::Asked(_) | For::End(_) => {
                (Vec::new(), Urgency::Now)
            }
        };
        let Some((changing, record)) = self.prepare(object, what_for, change) else { return false };
        records.push(record);
        self.append(&records, urgency, Some(Chore::Metafiles(vec![changing])));
        true
    }

    /// Stores several changes of metafiles together, so that no operation sees only some of them.
    /// After a crash, a prefix of the records is present. The last two records are stored as one
    /// record, so they are both present (together with all earlier ones) or both absent.
    pub(crate) fn store_all(&mut self, changes: Vec<(Changing, Record)>, last: Option<Record>) {
        let (changes, mut records): (Vec<_>, Vec<_>) = changes.into_iter().unzip();
        records.extend(last);
        let last = records.split_off(records.len().saturating_sub(2));
        records.extend(match <[Record; 2]>::try_from(last) {
            Ok(both) => vec![Record::Both(Box::new(both))],
            Err(one) => one,
        });
        self.append(&records, Urgency::Now, Some(Chore::Metafiles(changes)));
    }

    /// Prepares a change of a metafile with the next version number, and the record to store.
    pub(crate) fn prepare(
        &mut self,
        object: FileId,
        what_for: For,
        change: impl FnOnce(&mut Metafile) -> bool,
    ) -> Option<(Changing, Record)> {
        let mut metafile = self.latest(object)?.clone();
        let lease = self.leasing.under.remove(&object);
        self.disk.known.stamp.0 += 1;
        let version = self.disk.known.stamp;
        metafile.version = version;
        let metafile = change(&mut metafile).then_some(metafile);
        let record = match &metafile {
            Some(metafile) => Record::Put(metafile.clone()),
            None => Record::Gone(object, version),
        };
        self.pending.insert(object, (version, metafile.clone()));
        Some((Changing { object, version, metafile, what_for, lease }, record))
    }

    /// Handles the completion of a write to stable storage.
    pub(crate) fn stored(&mut self, chore: Chore) {
        match chore {
            Chore::Leave => self.moves(moves::Event::Noted),
            Chore::Metafiles(changes) => {
                changes.iter().for_each(|changing| self.take_stored(changing));
                changes.into_iter().for_each(|changing| self.has_stored(changing));
            }
        }
    }

    fn take_stored(&mut self, changing: &Changing) {
        let Changing { object, version, metafile, .. } = changing;
        let (object, version, metafile) = (*object, *version, metafile.clone());
        self.durable = self.durable.max(version);
        // Skip the change if a later change of the object was reported as stored before: `pending`
        // then has no entry.
        if let Some((last, _)) = self.pending.get(&object) {
            if *last == version {
                self.pending.remove(&object);
            }
            if metafile.is_none() {
                self.elsewhere.remove(&object);
            }
            self.disk.take(metafile.map_or(Record::Gone(object, version), Record::Put));
        }
    }

    fn has_stored(&mut self, changing: Changing) {
        let Changing { object, version, what_for, lease, .. } = changing;
        match what_for {
            For::Names(ticket, replaced) => {
                if let Some(replaced) = replaced {
                    self.disk.take(Record::Replaces(object, Some(replaced)));
                }
                self.has_stored_names(ticket, version);
            }
            For::Yielded(asker, place) => self.has_lost((object, version), place, asker),
            For::Note(place, claims, cookie) => {
                self.disk.take(Record::Note(place.clone(), claims, cookie));
                self.names(names::Event::Noted(place));
            }
            For::NoNote(_) | For::Loss => {}
            For::Asked(asker) => self.answer(asker, Answer::Version(version)),
            For::End(asker) => self.answer(asker, Answer::Done),
        }
        lease.into_iter().for_each(|ticket| self.has_changed_leased(object, ticket));
    }

    /// Handles a failed write to stable storage. From now on this metaserver refuses all requests
    /// of clients and all changes.
    pub(crate) fn fail(&mut self, chore: &Chore) {
        (self.refuses, self.has_failed) = (true, true);
        if let Chore::Metafiles(changes) = chore {
            for changing in changes {
                match changing.what_for {
                    For::Asked(asker) | For::End(asker) | For::Yielded(asker, _) => {
                        self.leave(asker);
                    }
                    For::Names(ticket, _) => drop(self.end_within(ticket)),
                    For::Note(..) | For::NoNote(_) | For::Loss => {}
                }
                // End the operation guards, since the changes will never be stored. Clients see the
                // metafiles without the failed changes.
                let lease = changing.lease.into_iter();
                lease.for_each(|ticket| self.has_changed_leased(changing.object, ticket));
            }
        }
        // The operations resume after this method, when the effects in `outs` are executed.
        for waiter in core::mem::take(&mut self.waiting).into_values() {
            match waiter {
                Waiter::Operation(sender) => {
                    self.outs.push(Out::Operation(sender, Answer::Later));
                }
                Waiter::Asker(asker) => self.leave(asker),
            }
        }
    }

    /// Ends a request whose result is unknown. Sends no answer to a peer, because [`Answer::Later`]
    /// would state that the request had no effect.
    pub(crate) fn leave(&mut self, asker: Asker) {
        match asker {
            Asker::Me(_) => self.answer(asker, Answer::Later),
            Asker::Peer(_, asker) => {
                self.outs.extend(self.askers.remove(&asker).map(Out::Leave));
            }
        }
    }

    /// Returns a metafile as clients of this metaserver see it, including the writes that these
    /// clients made here and that the object's home does not have yet.
    pub(crate) fn view(&self, object: FileId) -> Option<Metafile> {
        let of = if self.is_mine(object) { &self.disk.metafiles } else { &self.kept };
        Some(self.with_dirty(of.get(&object)?.clone()))
    }

    /// Returns the metafile with the writes of this metaserver's clients applied.
    pub(crate) fn with_dirty(&self, mut metafile: Metafile) -> Metafile {
        let object = metafile.object;
        let sent = self.releasing.values().filter(|(of, _)| *of == object).map(|(_, wrote)| wrote);
        for wrote in sent.chain(self.dirty.get(&object)) {
            if metafile.attributes.modified != wrote.modified.into() {
                metafile.write(wrote);
            }
        }
        metafile
    }

    /// Returns the path of an object from the root, or `None` if an object on the path has another
    /// home.
    pub(crate) fn path(&self, object: FileId) -> Option<Vec<u8>> {
        let (mut names, mut at) = (Vec::new(), object);
        while at != ROOT {
            let place = self.disk.metafiles.get(&at)?.places.first()?;
            // The records may form a cycle while directories are renamed, so stop at the maximum
            // depth.
            if names.len() >= DEPTH_MAX {
                return None;
            }
            names.push(&place.name[..]);
            at = place.directory;
        }
        names.reverse();
        Some(names.join(&b'/'))
    }

    /// Returns the object that has a name according to the cached copies.
    pub(crate) fn kept_at(&self, place: &Place) -> Option<FileId> {
        first_at(&self.kept_at, place)
    }

    pub(crate) fn keep(&mut self, metafile: Metafile) {
        self.drop_copy(metafile.object);
        let object = metafile.object;
        self.kept_at.extend(metafile.places.iter().map(|place| (place.clone(), object)));
        self.kept.insert(object, metafile);
    }

    pub(crate) fn drop_copy(&mut self, object: FileId) {
        self.suspects.remove(&object);
        if let Some(was) = self.kept.remove(&object) {
            for place in was.places {
                self.kept_at.remove(&(place, object));
            }
        }
    }

    /// Returns an id for a new object, after a reservation of the next block of ids if necessary;
    /// `None` if the range of this metaserver is exhausted.
    pub(crate) fn new_id(&mut self) -> Option<FileId> {
        if let Some(ids) = self.ids.to_store() {
            // The ids can be used at once: a record that contains one of them is appended after
            // this record, so it is never on stable storage without this record.
            self.append(&[Record::Ids(ids)], Urgency::Soon, None);
            self.ids.stored(ids);
        }
        self.ids.take()
    }

    /// Reports an event to the administrator.
    pub(crate) fn notice(&mut self, notice: &Notice) {
        self.outside.notice(notice);
    }
}

/// Returns the mapping from objects to their homes.
pub(crate) fn homes(options: &Options) -> Homes {
    Homes::new(options.peers().map(|peer| (range_of(peer), peer)).collect())
}

/// Returns the range of ids of a metaserver.
const fn range_of(peer: Peer) -> u64 {
    peer.0 as u64 + 1
}
