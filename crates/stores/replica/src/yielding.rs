//! A name that one object takes from another of another home: rules 30 to 33 of `spec/replica.x`.
//!
//! `core::replica::home` says what the home of the one does, `core::replica::yields` that of the other.

use leasehold_base::units::FileId;
use leasehold_core::leases::Kind;
use leasehold_core::replica::peers::{self, Known};
use leasehold_core::replica::yields::{Effect, Event, Yield};
use leasehold_core::replica::{Peer, Place, Stamp, Ticket, home};

use crate::message::{Answer, Ask};
use crate::node::{Asker, For, Node, Why};

impl Node {
    pub(crate) fn yields(&mut self, event: Event) {
        let mut effects = Vec::new();
        self.yields.step(self.now, event, &mut effects);
        for Effect::Ask(call, place, to) in effects {
            self.call_home(to, Ask::Stands(place, to, None), Why::YieldedTo(call));
        }
    }

    /// Another home is to have a name of what has its home here.
    pub(crate) fn asked_to_yield(&mut self, asker: Asker, it: Yield, by: Option<Peer>) {
        let peer = self.peer_of(asker);
        if let Some(answer) = self.why_not_yielded(peer, &it) {
            self.answer(asker, answer);
        } else if self.is_held_off(by.unwrap_or(peer), it.over, Kind::Write) {
            self.answer(asker, Answer::Later);
        } else {
            // Nobody shows a copy of it from then on.
            self.changing(by, &[it.over], move |node| {
                let answer = node.why_not_yielded(peer, &it).unwrap_or(Answer::Done);
                if answer == Answer::Done {
                    node.yields(Event::Yielded(it));
                }
                node.answer(asker, answer);
            });
        }
    }

    fn why_not_yielded(&self, peer: Peer, it: &Yield) -> Option<Answer> {
        let is_its = self.homes.of(it.to) == Some(peer) && peer != self.me();
        if !is_its || !self.stands(it.over, &it.place) || self.has_directory(it.over) {
            return Some(Answer::Gone);
        }
        let is_free = !self.home.is_under(it.over) && self.yields.may(it);
        (!is_free).then_some(Answer::Later)
    }

    /// Another home has the name, by this version, or will not.
    pub(crate) fn asked_to_lose(
        &mut self,
        asker: Asker,
        it: Yield,
        by: Option<Peer>,
        version: Option<Stamp>,
    ) {
        let peer = self.peer_of(asker);
        let Some(stamp) = version else {
            self.yields(Event::Kept(it.over, it.number));
            self.answer(asker, Answer::Done);
            return;
        };
        // It is for who comes back with an old backup, as what it answers would be.
        let epoch = self.peers.epoch_of(peer);
        self.peers(peers::Event::Heard(peer, Known { epoch, stamp }));
        if !self.stands(it.over, &it.place) {
            self.answer(asker, Answer::Done);
        } else if self.yields.has_to(it.over, &it.place, it.to) {
            self.changing(by, &[it.over], move |node| node.lose(asker, &it));
        } else {
            // It came late, or what was yielded was forgotten.
            if self.why_not_yielded(peer, &it).is_none() {
                self.yields(Event::Yielded(it));
            }
            self.answer(asker, Answer::Later);
        }
    }

    fn lose(&mut self, asker: Asker, it: &Yield) {
        let latest = self.latest(it.over);
        if !latest.is_some_and(|metafile| metafile.stands_at(&it.place)) {
            // That may not be stable yet.
            self.answer(asker, Answer::Later);
            return;
        }
        let now = self.outside.wall();
        self.store(it.over, For::Yielded(asker, it.place.clone()), |metafile| {
            metafile.places.retain(|place| *place != it.place);
            metafile.change_at(now);
            metafile.has_names()
        });
    }

    /// An object has lost a name that was yielded, on stable storage.
    pub(crate) fn has_lost(&mut self, (over, version): (FileId, Stamp), left: Place, asker: Asker) {
        self.yields(Event::Lost(over));
        self.announce(over, version, left);
        self.answer(asker, Answer::Done);
    }

    /// What has its home at a peer that starts, and is to lose names to objects here.
    pub(crate) fn replaced_of(&self, peer: Peer) -> Vec<Yield> {
        let all = self.disk.replacing.iter().map(|(to, (place, over))| Yield {
            over: *over,
            place: place.clone(),
            to: *to,
            number: 0,
        });
        all.filter(|it| self.homes.of(it.over) == Some(peer)).collect()
    }

    /// What has its home here is to lose names to objects of a peer, as that says when this one starts.
    pub(crate) fn had_yielded(&mut self, replaced: Vec<Yield>) {
        for it in replaced {
            if self.stands(it.over, &it.place) {
                self.yields(Event::Yielded(it));
            }
        }
    }

    /// Goes on with what a start finds.
    pub(crate) fn go_on_replacing(&mut self) {
        for (object, (place, over)) in self.disk.replacing.clone() {
            let metafile = self.disk.metafiles.get(&object);
            let (Some(version), Some(peer)) =
                (metafile.map(|metafile| metafile.version), self.homes.of(over))
            else {
                continue;
            };
            let change = home::Change {
                object,
                is_directory: false,
                from: None,
                to: Some(place),
                over: Some(home::Over::There(over, peer)),
            };
            let ticket = Ticket(self.number());
            self.home(home::Event::Found(ticket, change, version));
        }
    }
}
