//! Executes the actions that the state machines of a metaserver request.

use leasehold_base::units::FileId;
use leasehold_core::replica::{
    Peer, Place, Stamp, Ticket, changes, copies, home, moves, names, peers,
};

use super::message::{Answer, Ask};
use super::node::{Asker, Chore, Node, ROOT, Why};

impl Node {
    pub(super) fn peers(&mut self, event: peers::Event) {
        let mut effects = Vec::new();
        self.live.peers.step(self.now, event, &mut effects);
        effects.into_iter().for_each(|effect| self.do_peers(effect));
    }

    pub(super) fn do_peers(&mut self, effect: peers::Effect) {
        match effect {
            peers::Effect::Hello(peer) => self.call(peer, Ask::Hello, Why::Hello),
            peers::Effect::Note(peer, known) => {
                let was = self.disk.heard.insert(peer, known);
                if was.is_none_or(|was| was.epoch != known.epoch) {
                    self.home(home::Event::Restarted(peer));
                    self.has_restarted(peer);
                }
            }
            peers::Effect::Open => self.go_on_replacing(),
            peers::Effect::Answer(..)
            | peers::Effect::Older(..)
            | peers::Effect::Over(..)
            | peers::Effect::Unlike(_) => {}
        }
    }

    pub(super) fn copies(&mut self, event: copies::Event) {
        let mut effects = Vec::new();
        self.live.copies.step(self.now, event, &mut effects);
        let brought = self.live.brought.take();
        for effect in effects {
            match effect {
                copies::Effect::Fetch(call, object, known) => {
                    let home = self.home_of(object);
                    self.call(home, Ask::Fetch(object, known), Why::Fetch(call));
                }
                copies::Effect::Search(call, place) => self.search(call, place),
                copies::Effect::Keep(_, object) => {
                    let metafile = brought.clone().expect("the metafile is in the reply");
                    self.live.kept.insert(object, metafile);
                }
                copies::Effect::Drop(object) => {
                    self.live.kept.remove(&object);
                }
                copies::Effect::Go(ticket, _) => self.operation_goes(ticket),
                copies::Effect::Once(ticket, _) => {
                    let metafile = brought.clone().expect("the metafile is in the reply");
                    self.operation_shows(ticket, metafile);
                }
                copies::Effect::Gone(ticket) => self.operation_found_nothing(ticket),
                copies::Effect::Later(ticket) => self.operation_answered(ticket, &Answer::Later),
            }
        }
    }

    pub(super) fn changes(&mut self, event: changes::Event) {
        let mut effects = Vec::new();
        self.live.changes.step(self.now, event, &mut effects);
        for effect in effects {
            match effect {
                changes::Effect::Release(call, object) => {
                    let id = self.live.dirty.remove(&object).expect("the object is dirty");
                    self.live.on_its_way.insert(call, (object, id));
                    let home = self.home_of(object);
                    self.call(home, Ask::Change(object, id), Why::Change(call));
                }
                changes::Effect::Done(ticket) => self.operation_answered(ticket, &Answer::Done),
                changes::Effect::Later(ticket) => self.operation_answered(ticket, &Answer::Later),
            }
        }
    }

    pub(super) fn home(&mut self, event: home::Event) {
        let mut effects = Vec::new();
        self.live.home.step(self.now, event, &mut effects);
        for effect in effects {
            match effect {
                home::Effect::Leave(ticket, directory, parent) => {
                    let asked = moves::Move { home: self.me, number: ticket.0, directory, parent };
                    let root = self.home_of(ROOT);
                    self.call(root, Ask::Move(asked), Why::Leave(ticket));
                }
                home::Effect::Claim(ticket, object, place, over) => {
                    let there = self.disk.standing_at(&place).map(|there| there.object);
                    if there.is_some_and(|one| one != object && Some(one) != over) {
                        self.home(home::Event::Had(ticket, Err(home::Refusal::Exists)));
                        continue;
                    }
                    let home = self.home_of(place.directory);
                    let claim = Ask::Claim(place, object, over);
                    self.call(home, claim, Why::Claim(ticket));
                }
                home::Effect::Close(ticket, directory) => {
                    let close = Ticket(self.number());
                    self.live.closing.insert(close, ticket);
                    let notes = self.disk.notes.iter();
                    let inside = notes.filter(|(place, _)| place.directory == directory);
                    let inside = inside.map(|(place, object)| (place.name.clone(), *object));
                    let retire = names::Event::Retire(close, directory, inside.collect());
                    self.names(retire);
                }
                home::Effect::Store(ticket, change) => self.change_names(ticket, change),
                home::Effect::Turn(..)
                | home::Effect::Yield(..)
                | home::Effect::Keep(..)
                | home::Effect::Replace(..)
                | home::Effect::Replaced(_) => self.replaces_elsewhere(effect),
                home::Effect::Announce(object, version, left) => {
                    self.announce(object, version, left);
                }
                home::Effect::Done(ticket, version) => {
                    self.finish(ticket, Answer::Version(version));
                }
                home::Effect::Refused(ticket, refusal) => {
                    self.gives_turns_back(ticket);
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
                        self.disk.notes.retain(|place, _| place.directory != directory);
                    }
                }
            }
        }
    }

    /// Announces to all peers that an object has lost a name.
    pub(super) fn announce(&mut self, object: FileId, version: Stamp, left: Place) {
        let metafile = self.disk.metafiles.get(&object);
        let place = metafile.and_then(|metafile| metafile.place.clone());
        let places: Vec<_> = place.into_iter().collect();
        let peers = (0..self.count).map(Peer).filter(|peer| *peer != self.me);
        for peer in peers.collect::<Vec<_>>() {
            let (places, left) = (places.clone(), left.clone());
            let announce = Ask::Announce { object, version, places, left };
            self.call(peer, announce, Why::Announce);
        }
        self.has_left(left, object);
    }

    pub(super) fn names(&mut self, event: names::Event) {
        let mut effects = Vec::new();
        self.live.names.step(event, &mut effects);
        for effect in effects {
            match effect {
                names::Effect::Ask(call, place, object, claimant) => {
                    let home = self.home_of(object);
                    self.call(home, Ask::Stands(place, object, claimant), Why::Stands(call));
                }
                names::Effect::Note(place, object) => {
                    self.changing(&[place.directory], Chore::Note(place, object));
                }
                names::Effect::Drop(place) => {
                    self.disk.notes.remove(&place);
                }
                names::Effect::Granted(ticket) => self.finish(ticket, Answer::Done),
                names::Effect::Exists(ticket) => self.finish(ticket, Answer::Exists),
                names::Effect::Later(ticket) => self.finish(ticket, Answer::Later),
                names::Effect::Retired(ticket) => self.finish(ticket, Answer::Done),
                names::Effect::Full(ticket) => self.finish(ticket, Answer::Full),
            }
        }
    }

    pub(super) fn moves(&mut self, event: moves::Event) {
        let mut effects = Vec::new();
        self.live.moves.step(self.now, event, &mut effects);
        for effect in effects {
            match effect {
                moves::Effect::LookAbove(call, directory) => {
                    let home = self.home_of(directory);
                    self.call(home, Ask::Fetch(directory, None), Why::Above(call));
                }
                moves::Effect::Note(None) => self.disk.leave = None,
                moves::Effect::Note(Some(given)) => self.put_off(Chore::Leave(given), Vec::new()),
                moves::Effect::AskEnded(given) => {
                    self.call(given.home, Ask::Moving(given.number), Why::Ended(given));
                }
                moves::Effect::Given(ticket) => self.finish(ticket, Answer::Done),
                moves::Effect::Loop(ticket) => self.finish(ticket, Answer::Loop),
                moves::Effect::Later(ticket) => self.finish(ticket, Answer::Later),
            }
        }
    }

    /// Creates a ticket for a requester that waits for a reply.
    pub(super) fn waits(&mut self, asker: Asker) -> Ticket {
        let ticket = Ticket(self.number());
        self.live.waiting.insert(ticket, asker);
        ticket
    }

    /// Sends the result to the requester: the local client or a peer.
    fn finish(&mut self, ticket: Ticket, answer: Answer) {
        if let Some(change) = self.live.closing.remove(&ticket) {
            self.home(home::Event::Had(change, answer.had()));
        } else if let Some(asker) = self.live.waiting.remove(&ticket) {
            self.answer(asker, answer);
        } else {
            self.operation_answered(ticket, &answer);
        }
    }
}
