//! The requests of peers, and the answers to calls.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "an answer of any other kind is no result of the request"
)]

use futures_channel::oneshot;
use leasehold_base::units::FileId;
use leasehold_core::leases::Kind;
use leasehold_core::replica::names;
use leasehold_core::replica::peers::{self, Known, Refusal};
use leasehold_core::replica::{
    Call, Peer, Place, Stamp, Ticket, changes, copies, home, moves, yields,
};
use leasehold_wire::replica::Caller;

use crate::NoResults;
use crate::attributes::{Setting, set};
use crate::disk::ROOT;
use crate::message::{Answer, Ask, LISTED_MAX, Listed, Told};
use crate::metafile::{Metafile, Wrote};
use crate::node::{Asker, For, Node, Waiter, Why};

/// The maximum number of files that are recorded as written by other metaservers. If the set is
/// full, all files count as written by other metaservers.
const ELSEWHERE_MAX: usize = 65_536;

/// The maximum size of a metafile's content, in bytes.
pub(crate) const CONTENT_BYTES_MAX: u64 = 4096;

impl Node {
    /// Handles a request of a peer. The answer is sent to `sender`.
    pub(crate) fn receive(
        &mut self,
        caller: Caller,
        ask: Ask,
        sender: oneshot::Sender<(Stamp, Answer)>,
    ) {
        let number = self.number();
        self.askers.insert(number, sender);
        let peer = Peer(caller.peer);
        let asker = Asker::Peer(peer, number);
        if let Ask::Hello(_, strict) = ask {
            if strict == self.options.strict {
                self.greeted(asker, peer, caller.epoch);
            } else {
                self.answer(asker, Answer::Mode);
            }
            return;
        }
        match self.peers.admit(peer, caller.epoch, caller.callee_epoch) {
            Ok(()) if self.options.strict => self.asked_strictly(peer, asker, ask),
            Ok(()) => self.asked(asker, ask),
            Err(Refusal::Epoch(epoch)) => self.answer(asker, Answer::Epoch(epoch)),
            Err(Refusal::Later) => self.answer(asker, Answer::Later),
        }
    }

    fn greeted(&mut self, asker: Asker, peer: Peer, epoch: u64) {
        let mut effects = Vec::new();
        self.peers.step(self.now, peers::Event::Hello(peer, epoch), &mut effects);
        let mut known_of = None;
        for effect in effects {
            if let peers::Effect::Answer(_, known) = effect {
                known_of = Some(known);
            } else {
                self.do_peers(effect);
            }
        }
        // While a two-phase rename over an object of the peer is being stored, the list of replaced
        // objects is not final, so the peer must retry.
        let known_of = known_of.filter(|_| !self.home.is_storing_over(peer));
        let recovers = self.is_recovering();
        let told = known_of.map_or(Answer::Later, |known| {
            let (covered, replaced) = (self.covered_by(peer), self.replaced_of(peer));
            Answer::Known(self.epoch(), Told { known, recovers, covered, replaced })
        });
        self.answer(asker, told);
    }

    /// Returns the metaserver that sent a request.
    pub(crate) fn peer_of(&self, asker: Asker) -> Peer {
        match asker {
            Asker::Peer(peer, _) => peer,
            Asker::Me(_) => self.me(),
        }
    }

    pub(crate) fn has_directory(&self, directory: FileId) -> bool {
        self.disk.metafiles.get(&directory).is_some_and(Metafile::is_directory)
    }

    pub(crate) fn stands(&self, object: FileId, place: &Place) -> bool {
        self.disk.metafiles.get(&object).is_some_and(|metafile| metafile.stands_at(place))
    }

    /// Handles a request of a peer in strict mode, where an answer that the peer may cache carries
    /// a lease.
    fn asked_strictly(&mut self, peer: Peer, asker: Asker, ask: Ask) {
        match &ask {
            Ask::Fetch(object, _) => self.ask_leased(peer, asker, *object, ask),
            Ask::Named(place) => self.ask_leased(peer, asker, place.directory, ask),
            Ask::Search(place, behind) if behind.is_empty() => match self.disk.standing_at(place) {
                Some(object) => self.ask_leased(peer, asker, object, ask),
                None if self.yields.was_lost(self.now, place) => self.answer(asker, Answer::Later),
                None => self.answer(asker, Answer::Nowhere),
            },
            _ => self.asked(asker, ask),
        }
    }

    /// Returns the answer to FETCH or NAMED from the state of this home.
    pub(crate) fn known_of(&self, ask: &Ask) -> Answer {
        match ask {
            Ask::Fetch(object, _) if self.yields.hides(*object).is_some() => Answer::Later,
            Ask::Fetch(object, known) => match self.disk.metafiles.get(object) {
                Some(metafile) if Some(metafile.version) == *known => Answer::Same,
                Some(metafile) => Answer::Metafile(metafile.clone()),
                None => Answer::Gone,
            },
            Ask::Named(place) if self.has_directory(place.directory) => {
                Answer::Named(self.disk.notes.get(place).map(|note| note.object))
            }
            _ => Answer::Gone,
        }
    }

    pub(crate) fn asked(&mut self, asker: Asker, ask: Ask) {
        match ask {
            // Refuse changes after the disk has failed: a change would wait forever, and each retry
            // would add another waiting change.
            _ if self.has_failed && ask.has_effect() => self.leave(asker),
            Ask::Fetch(..) | Ask::Named(_) => self.answer(asker, self.known_of(&ask)),
            Ask::Search(place, behind) => {
                let found = self.disk.standing_at(&place);
                match found.and_then(|object| self.disk.metafiles.get(&object).cloned()) {
                    Some(found) if self.yields.hides(found.object).is_some() => {
                        self.answer(asker, Answer::Later);
                    }
                    Some(found) => self.answer(asker, Answer::Metafile(found)),
                    None => self.search_behind(asker, place, &behind),
                }
            }
            Ask::Claim(place, object, over) if self.has_directory(place.directory) => {
                let ticket = self.ticket(Waiter::Asker(asker));
                let noted = self.disk.notes.get(&place).map(|note| note.object);
                let wanted = (place, object, over);
                self.names(names::Event::claim(&self.homes, ticket, wanted, noted));
            }
            Ask::List { directory, behind, count } if self.has_directory(directory) => {
                self.listed(asker, directory, behind, count);
            }
            Ask::Claim(..) | Ask::List { .. } => self.answer(asker, Answer::Gone),
            Ask::Stands(place, object, claimant) => {
                let is_about = self.home.is_about_to_stand(object, &place);
                let stands = self.disk.standing_at(&place).filter(|there| {
                    !claimant.is_some_and(|to| self.yields.has_to(*there, &place, to))
                });
                self.answer(asker, Answer::Is(is_about || stands.is_some()));
            }
            Ask::Yield(it, by) => self.asked_to_yield(asker, it, by),
            Ask::Replaced(it, by, version) => self.asked_to_lose(asker, it, by, version),
            Ask::Change { object, .. } | Ask::Place { object, .. }
                if self.is_held_off(self.peer_of(asker), object, Kind::Write) =>
            {
                self.answer(asker, Answer::Later);
            }
            Ask::Change { object, wanted, wrote } => {
                self.change(asker, object, wanted, wrote);
            }
            Ask::Place { object, from, to, over, .. } => {
                self.placed(asker, object, (from, to), over);
            }
            Ask::Move(asked) => {
                let ticket = self.ticket(Waiter::Asker(asker));
                self.moves(moves::Event::Ask(ticket, asked));
            }
            Ask::Moving(asked) => {
                self.answer(asker, Answer::Is(self.home.is_moving(Ticket(asked.number))));
            }
            Ask::Announce { object, version, places, left } => {
                self.announced(object, version, places);
                left.into_iter().for_each(|left| self.has_left(left, object));
                self.answer(asker, Answer::Done);
            }
            Ask::Evict(_) | Ask::Cover(..) | Ask::Uncover(..) | Ask::Begin(..) | Ask::End(..) => {
                self.asked_of_leases(asker, &ask);
            }
            Ask::Load if !self.refuses => self.answer(asker, Answer::Load(self.load)),
            Ask::Load | Ask::Hello(..) => self.answer(asker, Answer::Later),
        }
    }

    /// Handles the requests that concern leases between metaservers.
    fn asked_of_leases(&mut self, asker: Asker, ask: &Ask) {
        match *ask {
            Ask::Evict(object) => {
                self.copies(copies::Event::Evicted(object));
                self.answer(asker, Answer::Done);
            }
            Ask::Cover(object, kind, _, _, reclaims)
                if !reclaims && self.is_held_off(self.peer_of(asker), object, kind) =>
            {
                self.answer(asker, Answer::Later);
            }
            Ask::Cover(object, kind, purpose, given, reclaims) => {
                let wanted = (kind, purpose, given, reclaims);
                self.asked_to_cover(self.peer_of(asker), asker, object, wanted);
            }
            Ask::Uncover(object, serial) => self.asked_to_uncover(asker, object, serial),
            Ask::Begin(naming, by) => self.asked_to_begin(asker, naming, by),
            Ask::End(naming, done) => self.asked_to_end(asker, naming, done),
            _ => {}
        }
    }

    /// Handles a request to rename, link or unlink an object.
    fn placed(
        &mut self,
        asker: Asker,
        object: FileId,
        (from, to): (Option<Place>, Option<Place>),
        over: Option<FileId>,
    ) {
        let Some(metafile) = self.disk.metafiles.get(&object).filter(|_| object != ROOT) else {
            self.answer(asker, Answer::Gone);
            return;
        };
        let is_directory = metafile.is_directory();
        let has = |to: &Place| is_directory || metafile.stands_at(to);
        if from.is_none() && to.as_ref().is_none_or(has) {
            // Refuse a link of a directory, a link with a name that the object already has, and a
            // request without any name.
            let answer = if to.is_some() { Answer::Exists } else { Answer::Gone };
            self.answer(asker, answer);
            return;
        }
        if [Some(object), over].into_iter().flatten().any(|it| self.yields.has(it)) {
            self.answer(asker, Answer::Later);
            return;
        }
        let from = from.map(|from| (from.clone(), self.stands(object, &from)));
        let over = over.filter(|over| *over != object).and_then(|over| {
            let is_there = to.iter().any(|to| self.stands(over, to));
            match self.homes.of(over)? {
                home if home == self.me() => {
                    is_there.then(|| home::Over::Here(over, self.has_directory(over)))
                }
                home => (!is_directory && to.is_some()).then_some(home::Over::There(over, home)),
            }
        });
        let change = home::Change { object, is_directory, from, to, over };
        let ticket = self.ticket(Waiter::Asker(asker));
        self.home(home::Event::Change(ticket, change));
    }

    /// Changes attributes or content, at the request of a peer or of this metaserver, once the
    /// conflicting leases have ended.
    fn change(&mut self, asker: Asker, object: FileId, wanted: Setting, wrote: Option<Wrote>) {
        let is_there = self.latest(object).is_some() && self.is_mine(object);
        let most = CONTENT_BYTES_MAX;
        let fits = wrote.as_ref().is_none_or(|it| {
            it.offset.checked_add(it.data.len() as u64).is_some_and(|end| end <= most)
        });
        if !is_there || !fits || wanted.set.size.is_some_and(|size| size > most) {
            self.answer(asker, Answer::Gone);
            return;
        }
        self.changing(Some(self.peer_of(asker)), &[object], move |node| {
            if !node.store_change(asker, object, &wanted, wrote.as_ref()) {
                node.answer(asker, Answer::Gone);
            }
        });
    }

    fn store_change(
        &mut self,
        asker: Asker,
        object: FileId,
        wanted: &Setting,
        wrote: Option<&Wrote>,
    ) -> bool {
        let now = self.outside.wall();
        let was_written_elsewhere = match asker {
            Asker::Peer(..) => {
                if self.elsewhere.len() < ELSEWHERE_MAX {
                    self.elsewhere.extend(wrote.map(|_| object));
                }
                true
            }
            // A client of this metaserver wrote. Check if another metaserver has also written the
            // file, because the client may not have seen that data.
            Asker::Me(_) => {
                self.elsewhere.contains(&object) || self.elsewhere.len() == ELSEWHERE_MAX
            }
        };
        let is_strict = self.options.strict;
        self.store(object, For::Asked(asker), |metafile| {
            if let Some(wrote) = wrote {
                metafile.write(wrote);
                // In strict mode, if the change time is the time of this write, no other metaserver
                // has written since and the client has received this time in its reply. Then keep
                // the time.
                let is_told = is_strict && metafile.attributes.changed == wrote.modified.into();
                let modified = wrote.modified.max(metafile.attributes.modified.into());
                // If several metaservers have written, set a change time that differs from all
                // times in replies to WRITEs, so that every metaserver detects the writes of the
                // others. If only this metaserver has written, keep the time, so that a COMMIT does
                // not change the attributes.
                if was_written_elsewhere && !is_told {
                    metafile.change_at(now);
                }
                metafile.attributes.modified = modified.into();
            }
            set(metafile, wanted, now);
            true
        })
    }

    fn announced(&mut self, object: FileId, version: Stamp, places: Vec<Place>) {
        if places.is_empty() {
            self.dirty.remove(&object);
            self.changes(changes::Event::Gone(object));
        }
        self.copies(copies::Event::Announced(object, version, places));
    }

    fn listed(&mut self, asker: Asker, directory: FileId, behind: u64, count: u32) {
        let count = count.clamp(1, LISTED_MAX) as usize;
        let from = (directory, behind.saturating_add(1));
        let names = self.disk.order.range(from..=(directory, u64::MAX));
        let entry = |((_, cookie), name): (&(FileId, u64), &Vec<u8>)| {
            let place = Place { directory, name: name.clone() };
            let object = self.disk.notes.get(&place)?.object;
            Some(Listed { cookie: *cookie, name: place.name, object })
        };
        let mut listed: Vec<Listed> = names.take(count + 1).filter_map(entry).collect();
        let end = listed.len() <= count;
        listed.truncate(count);
        self.answer(asker, Answer::Listed(listed, end));
    }

    /// Handles the report that an object has lost a name. If this metaserver is the home of the
    /// directory, checks whether the reservation of the name must be removed.
    pub(crate) fn has_left(&mut self, left: Place, object: FileId) {
        let noted = self.disk.notes.get(&left).map(|note| note.object);
        // Check the reservation if it belongs to any object of the same home, and not only to this
        // object: another object of that home may have reserved the name to replace this object,
        // and failed. A reservation for an object of another home stays.
        let noted = noted.filter(|noted| self.homes.of(*noted) == self.homes.of(object));
        if let Some(noted) = noted {
            self.names(names::Event::Left(left, noted));
        }
    }

    /// Handles the end of a call to a peer. For most calls, a missing answer counts as
    /// [`Answer::Later`].
    pub(crate) fn call_ended(&mut self, call: u64, answer: Result<(Stamp, Answer), NoResults>) {
        let Some(called) = self.calls.remove(&call) else { return };
        self.has_taken(&called, answer != Err(NoResults::Silence));
        let peer = called.peer;
        let (stamp, answer) = match (answer, called.why) {
            (Ok(told), _) => told,
            (Err(none), Why::There(peer)) => {
                self.has_looked(peer, Err(none));
                return;
            }
            (Err(NoResults::Silence), Why::Operation(ticket)) => {
                self.finish(ticket, Answer::Silence);
                return;
            }
            (Err(_), why) => {
                self.answered(why, Answer::Later);
                return;
            }
        };
        match answer {
            Answer::Epoch(epoch) => {
                self.peers(peers::Event::Heard(peer, Known { epoch, stamp: Stamp(0) }));
                if epoch == called.callee_epoch {
                    // The call had the right epoch of the peer, so the peer refused the epoch of
                    // this metaserver: it has lost its record of this metaserver. Send HELLO again.
                    self.greet(peer);
                }
                // The peer has not executed the call, so the call can be repeated once with the
                // current epoch.
                if called.again {
                    self.answered(called.why, Answer::Later);
                } else {
                    self.call_as(peer, called.ask, called.why, true);
                }
            }
            Answer::Known(epoch, told) => {
                if !self.peers.is_open() {
                    self.had_covers(peer, &told.covered);
                    self.had_yielded(told.replaced);
                }
                self.recovers(peer, told.recovers);
                self.peers(peers::Event::Answered(peer, epoch, told.known));
            }
            Answer::Mode => self.peers(peers::Event::Unlike(peer)),
            answer => {
                let epoch = called.callee_epoch;
                self.peers(peers::Event::Heard(peer, Known { epoch, stamp }));
                self.answered(called.why, answer);
            }
        }
    }

    pub(crate) fn answered(&mut self, why: Why, answer: Answer) {
        match why {
            Why::Hello | Why::Announce => {}
            Why::There(peer) => self.has_looked(peer, Ok(&answer)),
            Why::Fetch(call) => self.fetched(call, answer),
            Why::Search(_) | Why::Named(_) | Why::SearchFetch(_) => self.searched(why, answer),
            Why::Leave(ticket) | Why::Claim(ticket) => {
                self.home(home::Event::Had(ticket, answer.had()));
            }
            // The object to be replaced has lost the name. Report the name as existing, so that the
            // operation looks up which object has the name now.
            Why::Yield(ticket) if answer == Answer::Gone => {
                self.home(home::Event::Had(ticket, Err(home::Refusal::Exists)));
            }
            Why::Yield(ticket) => self.home(home::Event::Had(ticket, answer.had())),
            Why::Stands(call) => self.names(names::Event::Stands(call, answer.stands())),
            Why::YieldedTo(call) => self.yields(yields::Event::Stands(call, answer.stands())),
            Why::Above(call) => {
                let above = match answer {
                    Answer::Metafile(metafile) => metafile.places.first().map(|it| it.directory),
                    _ => None,
                };
                self.moves(moves::Event::Above(call, above));
            }
            Why::Ended(given) => {
                if answer == Answer::Is(false) {
                    self.moves(moves::Event::Ended(given.home, given.number));
                }
            }
            Why::Begun(number) => self.has_begun(number, &answer),
            Why::End(ticket, naming) => self.has_ended(ticket, naming, &answer),
            Why::Change(call) => self.released(call, &answer),
            Why::Evicted(evicted) => self.evicted(evicted, &answer),
            Why::Cover(call) => self.has_cover(call, &answer),
            Why::Operation(ticket) => self.finish(ticket, answer),
        }
    }

    /// Handles the answer to FETCH.
    fn fetched(&mut self, call: Call, answer: Answer) {
        let event = match answer {
            Answer::Same => copies::Event::Fetched(call, copies::Answer::Same),
            Answer::Gone => copies::Event::Fetched(call, copies::Answer::Gone),
            Answer::Metafile(metafile) => {
                let newer = copies::Answer::Newer(metafile.version);
                self.brought = Some(metafile);
                copies::Event::Fetched(call, newer)
            }
            _ => copies::Event::Failed(call),
        };
        self.copies(event);
    }

    /// Handles the answer to a call that sent written data to the object's home.
    fn released(&mut self, call: Call, answer: &Answer) {
        let Some((object, wrote)) = self.releasing.remove(&call) else { return };
        match answer {
            Answer::Version(version) => {
                self.changes(changes::Event::Released(call));
                self.has_changed(object, *version, None);
            }
            Answer::Gone => {
                self.dirty.remove(&object);
                self.changes(changes::Event::Gone(object));
            }
            _ => {
                self.dirty.entry(object).or_insert(wrote);
                self.changes(changes::Event::Failed(call));
            }
        }
    }

    /// Handles the completion of a change at an object's home that this metaserver requested.
    /// Treats the reply like an announcement of the home: the cached copy is out of date, and the
    /// object may have a new name (`to`).
    pub(crate) fn has_changed(&mut self, object: FileId, version: Stamp, to: Option<Place>) {
        let mut places: Vec<Place> = to.into_iter().collect();
        // An object of this home has no cached copy. In strict mode the change has recalled the
        // lease on the copy, so there is no copy either.
        if self.is_mine(object) || self.options.strict {
            return;
        }
        if places.is_empty() {
            let kept = self.kept.get(&object);
            places = kept.map(|kept| kept.places.clone()).unwrap_or_default();
        }
        if places.is_empty() {
            return;
        }
        self.copies(copies::Event::Announced(object, version, places));
    }
}
