//! The effects of the state machines, and their execution.

use std::collections::BTreeSet;

use leasehold_base::units::FileId;
use leasehold_core::replica::{
    Peer, Place, Stamp, Ticket, changes, copies, home, moves, names, peers, yields,
};

use crate::Notice;
use crate::disk::ROOT;
use crate::message::{Answer, Ask};
use crate::node::{Changing, Chore, For, Node, Why};
use crate::outside::Urgency;
use crate::record::Record;

impl Node {
    pub(crate) fn peers(&mut self, event: peers::Event) {
        let mut effects = Vec::new();
        self.peers.step(self.now, event, &mut effects);
        effects.into_iter().for_each(|effect| self.do_peers(effect));
    }

    pub(crate) fn do_peers(&mut self, effect: peers::Effect) {
        match effect {
            peers::Effect::Hello(peer) => self.greet(peer),
            peers::Effect::Note(peer, noted) => {
                let was = self.disk.heard.insert(peer, noted);
                if was.is_none_or(|was| was.epoch != noted.epoch) {
                    self.home(home::Event::Restarted(peer));
                    self.has_restarted(peer);
                }
                // With this record this metaserver can detect that the peer was restored from an
                // old backup. The record need not be stored at once: if a crash loses the records
                // of the last second, only a rollback of the peer by less than a second stays
                // undetected.
                self.append(&[Record::Heard(peer, noted)], Urgency::Soon, None);
            }
            peers::Effect::Open => {
                self.notice(&Notice::Open);
                self.go_on_replacing();
            }
            peers::Effect::Older(peer, known) => {
                self.refuses = true;
                let (known, stored) = ((known.epoch, known.stamp.0), self.stored);
                let stored = (stored.epoch, stored.stamp.0);
                self.notice(&Notice::Older { peer: peer.0, known, stored });
            }
            peers::Effect::Over(peer, known) => {
                self.refuses = true;
                let (known, this) = (known.epoch, self.epoch());
                self.notice(&Notice::Over { peer: peer.0, known, this });
            }
            peers::Effect::Unlike(peer) => {
                self.refuses = true;
                let strict = self.options.strict;
                self.notice(&Notice::Unlike { peer: peer.0, strict });
            }
            peers::Effect::Answer(..) => {}
        }
    }

    /// Requests from a peer its record of this metaserver.
    pub(crate) fn greet(&mut self, peer: Peer) {
        let hello = Ask::Hello(self.stored, self.options.strict);
        self.call(peer, hello, Why::Hello);
    }

    pub(crate) fn copies(&mut self, event: copies::Event) {
        let mut effects = Vec::new();
        self.copies.step(self.now, event, &mut effects);
        let mut brought = self.brought.take();
        for effect in effects {
            match effect {
                copies::Effect::Fetch(call, object, known) => {
                    self.call_home(object, Ask::Fetch(object, known), Why::Fetch(call));
                }
                copies::Effect::Search(call, place) => self.search(call, place),
                copies::Effect::Keep(..) => {
                    brought.take().into_iter().for_each(|metafile| self.keep(metafile));
                }
                copies::Effect::Drop(object) => self.drop_copy(object),
                copies::Effect::Go(ticket, object) => {
                    let seen = self.view(object).map_or(Answer::Later, Answer::Metafile);
                    self.finish(ticket, seen);
                }
                copies::Effect::Once(ticket, _) => {
                    let seen = brought.clone().map(|brought| self.with_dirty(brought));
                    self.finish(ticket, seen.map_or(Answer::Later, Answer::Metafile));
                }
                copies::Effect::Gone(ticket) => self.finish(ticket, Answer::Gone),
                copies::Effect::Later(ticket) => self.finish(ticket, Answer::Later),
            }
        }
    }

    pub(crate) fn changes(&mut self, event: changes::Event) {
        let mut effects = Vec::new();
        self.changes.step(self.now, event, &mut effects);
        for effect in effects {
            match effect {
                changes::Effect::Release(call, object) => {
                    let wrote = self.dirty.remove(&object).expect("something was changed");
                    self.releasing.insert(call, (object, wrote.clone()));
                    let (wanted, wrote) = (<_>::default(), Some(wrote));
                    let change = Ask::Change { object, wanted, wrote };
                    self.call_home(object, change, Why::Change(call));
                }
                changes::Effect::Done(ticket) => self.finish(ticket, Answer::Done),
                changes::Effect::Later(ticket) => self.finish(ticket, Answer::Later),
            }
        }
    }

    pub(crate) fn home(&mut self, event: home::Event) {
        let mut effects = Vec::new();
        self.home.step(self.now, event, &mut effects);
        effects.into_iter().for_each(|effect| self.do_home(effect));
    }

    /// Reserves a name at the directory's home, unless another object of this home has the name and
    /// is not the object to be replaced.
    fn claim(&mut self, ticket: Ticket, object: FileId, place: Place, over: Option<FileId>) {
        let there = self.disk.standing_at(&place).filter(|one| *one != object);
        if there.is_some_and(|one| Some(one) != over) {
            self.home(home::Event::Had(ticket, Err(home::Refusal::Exists)));
            return;
        }
        let directory = place.directory;
        let claim = Ask::Claim(place, object, over);
        self.call_home(directory, claim, Why::Claim(ticket));
    }

    fn do_home(&mut self, effect: home::Effect) {
        match effect {
            home::Effect::Leave(ticket, directory, parent) => {
                let home = self.me();
                let asked = moves::Move { home, number: ticket.0, directory, parent };
                self.call_home(ROOT, Ask::Move(asked), Why::Leave(ticket));
            }
            home::Effect::Claim(ticket, object, place, over) => {
                self.claim(ticket, object, place, over);
            }
            home::Effect::Close(ticket, directory) => {
                let close = Ticket(self.number());
                self.closing.insert(close, ticket);
                let inside = self.disk.inside(directory);
                let inside = inside.map(|(place, note)| (place.name.clone(), note.object));
                let retire = names::Event::Retire(close, directory, inside.collect());
                self.names(retire);
            }
            home::Effect::Turn(ticket, object) => self.takes_turn_first(ticket, object),
            home::Effect::Yield(ticket, to, place, over) => {
                let (number, by) = (ticket.0, self.is_for(ticket));
                let ask = Ask::Yield(yields::Yield { over, place, to, number }, by);
                self.call_home(over, ask, Why::Yield(ticket));
            }
            home::Effect::Keep(ticket, to, place, over) => {
                let it = yields::Yield { over, place, to, number: ticket.0 };
                self.call_home(over, Ask::Replaced(it, None, None), Why::Announce);
            }
            home::Effect::Replace(ticket, to, place, over, version) => {
                let (number, by) = (ticket.0, self.is_for(ticket));
                let it = yields::Yield { over, place, to, number };
                self.call_home(over, Ask::Replaced(it, by, Some(version)), Why::Claim(ticket));
            }
            home::Effect::Replaced(object) => self.has_replaced(object),
            home::Effect::Store(ticket, change) => self.change_names(ticket, change),
            home::Effect::Announce(object, version, left) => self.announce(object, version, left),
            home::Effect::Done(ticket, version) => self.finish(ticket, Answer::Version(version)),
            home::Effect::Refused(ticket, refusal) => {
                self.gives_turn_back(ticket);
                let answer = match refusal {
                    home::Refusal::Later => Answer::Later,
                    home::Refusal::Gone => Answer::Gone,
                    home::Refusal::Exists => Answer::Exists,
                    home::Refusal::Full => Answer::Full,
                    home::Refusal::Loop => Answer::Loop,
                };
                self.finish(ticket, answer);
            }
            home::Effect::Open(directory) => {
                self.names(names::Event::Reopened(directory));
                if !self.disk.metafiles.contains_key(&directory) {
                    let inside: Vec<Place> =
                        self.disk.inside(directory).map(|(place, _)| place.clone()).collect();
                    for place in inside {
                        self.append(&[Record::NoNote(place.clone())], Urgency::Soon, None);
                        self.disk.take(Record::NoNote(place));
                    }
                }
            }
        }
    }

    /// Announces to all peers that an object of this home has lost a name.
    pub(crate) fn announce(&mut self, object: FileId, version: Stamp, left: Place) {
        let metafile = self.disk.metafiles.get(&object);
        let places = metafile.map(|metafile| metafile.places.clone()).unwrap_or_default();
        let me = self.me();
        let others = self.options.peers().filter(|peer| *peer != me);
        for peer in others.collect::<Vec<Peer>>() {
            let (places, left) = (places.clone(), Some(left.clone()));
            let announce = Ask::Announce { object, version, places, left };
            self.call(peer, announce, Why::Announce);
        }
        self.has_left(left, object);
    }

    pub(crate) fn store_names(&mut self, ticket: Ticket, change: home::Change) {
        let now = self.outside.wall();
        let (here, there) = (change.over_here(), change.over_there());
        let replaced = there.map(|(place, over, _)| (place, over));
        let home::Change { object, from, to, .. } = change;
        if self.latest(object).is_none() {
            // The object does not exist: the operation that was to create it has given up. So give
            // the change up, too.
            self.not_stored(ticket);
            return;
        }
        // In strict mode, change the times of both directories now, together with the names.
        // Without leases the home of the new name's directory has already changed its times with
        // the reservation, so only the directory of the lost name remains.
        let had = to.iter().filter(|_| self.options.strict).map(|to| to.directory);
        let lost = from.iter().map(|(from, _)| from.directory);
        let within: BTreeSet<FileId> = had.chain(lost).filter(|it| self.is_mine(*it)).collect();
        let mut changes: Vec<_> =
            within.into_iter().filter_map(|it| self.touched(it, For::Loss)).collect();
        let place = to.clone();
        let what_for = For::Names(ticket, replaced.clone());
        // Prepare the change of the replaced object after this one, so that it receives the later
        // version number. The announcement of the replaced object's loss carries the earlier
        // version number.
        changes.extend(self.prepare(object, what_for, |metafile| {
            if let Some((from, _)) = &from {
                metafile.places.retain(|place| place != from);
            }
            metafile.places.extend(to.filter(|to| !metafile.places.contains(to)));
            if from.is_some() || metafile.places.len() > 1 {
                metafile.change_at(now);
            }
            metafile.has_names()
        }));
        if let (Some(over), Some(place)) = (here, place) {
            changes.extend(self.prepare(over, For::Loss, |metafile| {
                metafile.places.retain(|other| *other != place);
                metafile.change_at(now);
                metafile.has_names()
            }));
        }
        self.store_all(changes, replaced.map(|it| Record::Replaces(object, Some(it))));
    }

    pub(crate) fn names(&mut self, event: names::Event) {
        let mut effects = Vec::new();
        self.names.step(event, &mut effects);
        for effect in effects {
            match effect {
                names::Effect::Ask(call, place, object, claimant) => {
                    let stands = Ask::Stands(place, object, claimant);
                    self.call_home(object, stands, Why::Stands(call));
                }
                names::Effect::Note(place, object) => {
                    self.noting(place.directory, move |node| {
                        let (cookie, directory) = (node.disk.cookie(&place), place.directory);
                        let what_for = For::Note(place, object, cookie);
                        if node.options.strict {
                            // In strict mode the times of the directory change together with the
                            // names of the object (`store_names`), so store only the reservation
                            // here.
                            node.store(directory, what_for, |_| true);
                        } else {
                            node.touch(directory, what_for);
                        }
                    });
                }
                names::Effect::Drop(place) => {
                    let object = self.disk.notes.get(&place).map(|note| note.object);
                    self.disk.take(Record::NoNote(place.clone()));
                    if self.options.strict || object.is_some_and(|object| self.is_mine(object)) {
                        // The times of the directory changed when the object lost the name, so do
                        // not change them again.
                        self.append(&[Record::NoNote(place)], Urgency::Soon, None);
                    } else {
                        self.touch(place.directory, For::NoNote(place));
                    }
                }
                names::Effect::Granted(ticket) | names::Effect::Retired(ticket) => {
                    self.finish(ticket, Answer::Done);
                }
                names::Effect::Exists(ticket) => self.finish(ticket, Answer::Exists),
                names::Effect::Later(ticket) => self.finish(ticket, Answer::Later),
                names::Effect::Full(ticket) => self.finish(ticket, Answer::Full),
            }
        }
    }

    /// Updates the times of a directory after a change of its names. Returns false if the directory
    /// does not exist.
    pub(crate) fn touch(&mut self, directory: FileId, what_for: For) -> bool {
        let now = self.outside.wall();
        self.store(directory, what_for, |metafile| metafile.touch_at(now))
    }

    /// Prepares an update of a directory's times as a part of a larger change.
    fn touched(&mut self, directory: FileId, what_for: For) -> Option<(Changing, Record)> {
        let now = self.outside.wall();
        self.prepare(directory, what_for, |metafile| metafile.touch_at(now))
    }

    pub(crate) fn moves(&mut self, event: moves::Event) {
        let mut effects = Vec::new();
        self.moves.step(self.now, event, &mut effects);
        for effect in effects {
            match effect {
                moves::Effect::LookAbove(call, directory) => {
                    self.call_home(directory, Ask::Fetch(directory, None), Why::Above(call));
                }
                moves::Effect::Note(given) => {
                    self.disk.leave = given;
                    let chore = given.is_some().then_some(Chore::Leave);
                    let urgency = if given.is_some() { Urgency::Now } else { Urgency::Soon };
                    self.append(&[Record::Leave(given)], urgency, chore);
                }
                moves::Effect::AskEnded(given) => {
                    self.call(given.home, Ask::Moving(given), Why::Ended(given));
                }
                moves::Effect::Given(ticket) => self.finish(ticket, Answer::Done),
                moves::Effect::Loop(ticket) => self.finish(ticket, Answer::Loop),
                moves::Effect::Later(ticket) => self.finish(ticket, Answer::Later),
            }
        }
    }
}
