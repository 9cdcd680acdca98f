//! Handles the requests of peers, and their answers.

use leasehold_base::units::{FileId, Time};
use leasehold_core::replica::peers::{self, Known, Refusal};
use leasehold_core::replica::{
    Call, Place, Stamp, Ticket, changes, copies, home, moves, names, yields,
};

use super::message::{Answer, Ask, Body, Message};
use super::node::{Asker, Chore, Node, Out, ROOT, Why};

impl Node {
    pub(super) fn receive(&mut self, now: Time, message: Message) {
        self.now = now;
        let Message { from, epoch, callee_epoch, call, body, .. } = message;
        match body {
            Body::Answer(stamp, answer) => {
                if callee_epoch != self.epoch() {
                    return;
                }
                let stamp = if epoch == 0 { Stamp(0) } else { stamp };
                self.peers(peers::Event::Heard(from, Known { epoch, stamp }));
                if let Some(called) = self.live.calls.remove(&call) {
                    if let Answer::Known(known, replaced) = answer {
                        if !self.live.peers.is_open() {
                            self.had_yielded(replaced);
                        }
                        self.peers(peers::Event::Answered(from, epoch, known));
                    } else {
                        self.answered(called.why, answer);
                    }
                }
            }
            Body::Ask(ask) => {
                let asker = Asker { peer: from, epoch, call };
                if let Ask::Hello = ask {
                    self.greeted(asker);
                    return;
                }
                let is_mine = from == self.me && epoch == self.epoch();
                let admitted =
                    if is_mine { Ok(()) } else { self.live.peers.admit(from, epoch, callee_epoch) };
                if let Err(refusal) = admitted {
                    let answer = match refusal {
                        Refusal::Epoch(epoch) => Answer::Epoch(epoch),
                        Refusal::Later => Answer::Later,
                    };
                    self.reply_only(asker, answer);
                    return;
                }
                match self.live.seen.get(&asker) {
                    Some(Some(answer)) => {
                        let answer = answer.clone();
                        self.answer(asker, answer);
                    }
                    Some(None) => {}
                    None => {
                        self.live.seen.insert(asker, None);
                        match (self.strict && !is_mine, &ask) {
                            (true, Ask::Fetch(object, _)) => self.ask_leased(asker, *object, ask),
                            (true, Ask::Named(place)) => {
                                self.ask_leased(asker, place.directory, ask);
                            }
                            (true, Ask::Search(place, behind)) if behind.is_empty() => {
                                match self.disk.standing_at(place).map(|found| found.object) {
                                    Some(object) => self.ask_leased(asker, object, ask),
                                    None if self.is_hidden(place) => {
                                        self.answer(asker, Answer::Later);
                                    }
                                    None => self.answer(asker, Answer::Nowhere),
                                }
                            }
                            _ => self.asked(asker, ask),
                        }
                    }
                }
            }
        }
    }

    /// Sends an answer to a request that had no effect. The request may be repeated, so its answer
    /// is not recorded.
    fn reply_only(&mut self, asker: Asker, answer: Answer) {
        self.answer(asker, answer);
        self.live.seen.remove(&asker);
    }

    fn greeted(&mut self, asker: Asker) {
        let mut effects = Vec::new();
        let hello = peers::Event::Hello(asker.peer, asker.epoch);
        self.live.peers.step(self.now, hello, &mut effects);
        for effect in effects {
            if let peers::Effect::Answer(_, known) = effect {
                // While a change that replaces an object of the peer is being written, the list of
                // replaced objects is not final. The peer must then retry.
                let is_storing = self.live.home.is_storing_over(asker.peer);
                let answer = Answer::Known(known, self.replaced_of(asker.peer));
                self.reply_only(asker, if is_storing { Answer::Later } else { answer });
            } else {
                self.do_peers(effect);
            }
        }
    }

    fn has_directory(&self, directory: FileId) -> bool {
        self.disk.metafiles.get(&directory).is_some_and(|metafile| metafile.is_directory)
    }

    /// Returns the state of a requested object or name, as known to this metaserver.
    pub(super) fn known_of(&self, ask: &Ask) -> Answer {
        if let Ask::Fetch(object, known) = ask {
            if self.live.yields.hides(*object).is_some() {
                return Answer::Later;
            }
            return match self.disk.metafiles.get(object) {
                Some(metafile) if Some(metafile.version) == *known => Answer::Same,
                Some(metafile) => Answer::Metafile(metafile.clone()),
                None => Answer::Gone,
            };
        }
        let Ask::Named(place) = ask else { return Answer::Gone };
        if self.has_directory(place.directory) {
            Answer::Named(self.disk.notes.get(place).copied())
        } else {
            Answer::Gone
        }
    }

    fn asked(&mut self, asker: Asker, ask: Ask) {
        match ask {
            Ask::Hello => {}
            Ask::Fetch(..) | Ask::Named(_) => {
                let answer = self.known_of(&ask);
                self.answer(asker, answer);
            }
            Ask::Evict(object) => {
                self.copies(copies::Event::Evicted(object));
                self.answer(asker, Answer::Done);
            }
            Ask::Search(place, behind) => match self.disk.standing_at(&place).cloned() {
                Some(_) if self.is_hidden(&place) => self.answer(asker, Answer::Later),
                Some(found) => self.answer(asker, Answer::Metafile(found)),
                None => self.search_behind(asker, place, &behind),
            },
            Ask::Claim(place, object, over) if self.has_directory(place.directory) => {
                let ticket = self.waits(asker);
                let noted = self.disk.notes.get(&place).copied();
                let wanted = (place, object, over);
                self.names(names::Event::claim(&self.homes, ticket, wanted, noted));
            }
            Ask::List(directory) if self.has_directory(directory) => {
                let notes = self.disk.notes.iter();
                let inside = notes.filter(|(place, _)| place.directory == directory);
                let inside = inside.map(|(place, object)| (place.clone(), *object)).collect();
                self.answer(asker, Answer::Listed(inside));
            }
            Ask::Claim(..) | Ask::List(_) => self.answer(asker, Answer::Gone),
            Ask::Stands(place, object, claimant) => {
                let stands = self.disk.standing_at(&place).is_some_and(|there| {
                    let has_to = |to| self.live.yields.has_to(there.object, &place, to);
                    !claimant.is_some_and(has_to)
                });
                let is_about = self.live.home.is_about_to_stand(object, &place);
                self.answer(asker, Answer::Is(stands || is_about));
            }
            Ask::Yield(it) => self.asked_to_yield(asker, it),
            Ask::Replaced(it, version) => self.asked_to_lose(asker, it, version),
            Ask::Change(object, id) => {
                self.changing(&[object], Chore::Content { object, id, asker });
            }
            Ask::Place { object, from, to, over } => self.placed(asker, object, (from, to), over),
            Ask::Move(asked) => {
                let ticket = self.waits(asker);
                self.moves(moves::Event::Ask(ticket, asked));
            }
            Ask::Moving(number) => {
                let is_moving = self.live.home.is_moving(Ticket(number));
                self.answer(asker, Answer::Is(is_moving));
            }
            Ask::Announce { object, version, places, left } => {
                if places.is_empty() {
                    self.outs.push(Out::Gone(object));
                    self.live.dirty.remove(&object);
                    self.changes(changes::Event::Gone(object));
                }
                self.copies(copies::Event::Announced(object, version, places));
                self.has_left(left, object);
                self.answer(asker, Answer::Done);
            }
        }
    }

    /// Executes a request to give an object another name, or to remove the object.
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
        let is_directory = metafile.is_directory;
        if [Some(object), over].into_iter().flatten().any(|it| self.live.yields.has(it)) {
            self.answer(asker, Answer::Later);
            return;
        }
        let from = from.map(|from| (from.clone(), self.stands(object, &from)));
        let over = over.filter(|over| *over != object).and_then(|over| {
            let is_there = to.iter().any(|to| self.stands(over, to));
            let home = self.home_of(over);
            if home == self.me {
                is_there.then(|| home::Over::Here(over, self.has_directory(over)))
            } else {
                (!is_directory && to.is_some()).then_some(home::Over::There(over, home))
            }
        });
        let change = home::Change { object, is_directory, from, to, over };
        let ticket = self.waits(asker);
        self.home(home::Event::Change(ticket, change));
    }

    pub(super) fn stands(&self, object: FileId, place: &Place) -> bool {
        let metafile = self.disk.metafiles.get(&object);
        metafile.is_some_and(|metafile| metafile.place.as_ref() == Some(place))
    }

    /// If this metaserver has the record of a name that an object has left, checks the record.
    pub(super) fn has_left(&mut self, left: Place, object: FileId) {
        let noted = self.disk.notes.get(&left).copied();
        // The record may be for an object that was to replace the object and did not, so compare
        // only the homes.
        if let Some(noted) = noted.filter(|noted| self.home_of(*noted) == self.home_of(object)) {
            self.names(names::Event::Left(left, noted));
        }
    }

    pub(super) fn answered(&mut self, why: Why, answer: Answer) {
        match why {
            Why::Hello | Why::Announce => {}
            Why::Fetch(call) => self.fetched(call, answer),
            Why::Search(id) | Why::Named(id) | Why::SearchFetch(id) => {
                self.searched(id, why, answer);
            }
            Why::Leave(ticket) | Why::Claim(ticket) => {
                self.home(home::Event::Had(ticket, answer.had()));
            }
            // The object to be replaced does not have the name any more, so the replacement is
            // refused.
            Why::Yield(ticket) if answer == Answer::Gone => {
                self.home(home::Event::Had(ticket, Err(home::Refusal::Exists)));
            }
            Why::Yield(ticket) => self.home(home::Event::Had(ticket, answer.had())),
            Why::Stands(call) => self.names(names::Event::Stands(call, answer.stands())),
            Why::YieldedTo(call) => self.yields(yields::Event::Stands(call, answer.stands())),
            Why::Above(call) => {
                let place =
                    if let Answer::Metafile(metafile) = answer { metafile.place } else { None };
                self.moves(moves::Event::Above(call, place.map(|place| place.directory)));
            }
            Why::Ended(given) => {
                if answer == Answer::Is(false) {
                    self.moves(moves::Event::Ended(given.home, given.number));
                }
            }
            Why::Change(call) => self.released(call, &answer),
            Why::Evicted(evicted) => self.evicted(evicted, &answer),
            Why::Operation(ticket) => {
                if let Answer::Listed(names) = answer {
                    self.list(ticket, names);
                } else {
                    self.operation_answered(ticket, &answer);
                }
            }
        }
    }
    /// Handles a home's answer to a fetch; an answer that says "retry" also stands for a timeout.
    fn fetched(&mut self, call: Call, answer: Answer) {
        let event = if answer == Answer::Same {
            copies::Event::Fetched(call, copies::Answer::Same)
        } else if answer == Answer::Gone {
            copies::Event::Fetched(call, copies::Answer::Gone)
        } else if let Answer::Metafile(metafile) = answer {
            let newer = copies::Answer::Newer(metafile.version);
            self.live.brought = Some(metafile);
            copies::Event::Fetched(call, newer)
        } else {
            copies::Event::Failed(call)
        };
        self.copies(event);
    }

    /// Handles a home's answer to a release of changes; also handles a timeout.
    fn released(&mut self, call: Call, answer: &Answer) {
        let Some((object, id)) = self.live.on_its_way.remove(&call) else { return };
        if let Answer::Version(version) = answer {
            self.changes(changes::Event::Released(call));
            self.was_changed(object, *version);
        } else if *answer == Answer::Gone {
            self.changes(changes::Event::Gone(object));
        } else {
            self.live.dirty.entry(object).or_insert(id);
            self.changes(changes::Event::Failed(call));
        }
    }

    /// Handles this metaserver's own change of an object like a change notice, so that an older
    /// copy is not used.
    pub(super) fn was_changed(&mut self, object: FileId, version: Stamp) {
        let place = self.live.kept.get(&object).and_then(|kept| kept.place.clone());
        if let Some(place) = place
            && !self.strict
        {
            self.copies(copies::Event::Announced(object, version, vec![place]));
        }
    }
}
