//! A name that one object takes from another of another home: rules 30 to 34 of `spec/replica.x`.
//!
//! `core::replica::home` says what the home of the one does, `core::replica::yields` that of the other.

use std::collections::BTreeMap;

use leasehold_base::units::{FileId, Time};
use leasehold_core::leases::{Kind, Ticket as Turn};
use leasehold_core::replica::peers::{self, Known};
use leasehold_core::replica::yields::{Effect, Event, Yield};
use leasehold_core::replica::{Peer, Place, Stamp, Ticket, home};

use crate::message::{Answer, Ask};
use crate::node::{Asker, For, Node, Why};
use crate::outside::Urgency;
use crate::record::Record;

/// Who waits until nobody else has leases on what is to yield a name, and then on what is to lose it.
#[derive(Default)]
pub(crate) struct Yielding {
    /// The turns of changes by which something else is to yield, on what is changed.
    turns: BTreeMap<Ticket, First>,
    yields: BTreeMap<FileId, (Asker, Yield, Option<Peer>)>,
    loses: BTreeMap<FileId, Asker>,
}

/// A turn that is taken before the rest of a change, as that may take long.
pub(crate) struct First {
    pub(crate) object: FileId,
    pub(crate) turn: Turn,
    pub(crate) asked: Asked,
}

/// Since when a change has been asked for, and in which epoch of whom it is for.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) since: Time,
    pub(crate) epoch_of_by: u64,
}

impl Node {
    pub(crate) fn yields(&mut self, event: Event) {
        let mut effects = Vec::new();
        self.yields.step(self.now, event, &mut effects);
        for Effect::Ask(call, place, to) in effects {
            self.call_home(to, Ask::Stands(place, to, None), Why::YieldedTo(call));
        }
    }

    /// Nobody else has leases on what is to have a name, from before that is yielded until it has.
    pub(crate) fn takes_turn_first(&mut self, ticket: Ticket, object: FileId) {
        let (by, asked) = (self.is_for(ticket), self.asked_now(ticket));
        self.changing(by, &[object], move |node| {
            if !node.home.is_moving(ticket) {
                return;
            }
            // Who has begun anew waits for it no more, and nothing is yielded for it.
            if node.asked_now(ticket).epoch_of_by != asked.epoch_of_by {
                node.home(home::Event::Had(ticket, Err(home::Refusal::Later)));
                return;
            }
            let turn = node.leasing.under.remove(&object);
            let first = turn.map(|turn| (ticket, First { object, turn, asked }));
            node.yielding.turns.extend(first);
            node.home(home::Event::Had(ticket, Ok(())));
        });
    }

    /// What a change is that is asked for now.
    pub(crate) fn asked_now(&self, ticket: Ticket) -> Asked {
        let by = self.is_for(ticket);
        let epoch_of_by = by.map_or(0, |by| self.peers.epoch_of(by));
        Asked { since: self.now, epoch_of_by }
    }

    /// The turn that was taken first.
    pub(crate) fn turn_had(&mut self, ticket: Ticket) -> Option<First> {
        self.yielding.turns.remove(&ticket)
    }

    /// It will not have the name.
    pub(crate) fn gives_turn_back(&mut self, ticket: Ticket) {
        if let Some(First { object, turn, .. }) = self.turn_had(ticket) {
            self.has_changed_leased(object, turn);
        }
    }

    /// Another home is to have a name of what has its home here.
    pub(crate) fn asked_to_yield(&mut self, asker: Asker, it: Yield, by: Option<Peer>) {
        let (peer, over) = (self.peer_of(asker), it.over);
        let by = by.filter(|by| by.0 < self.options.count);
        if self.can_yield(peer, &it) {
            self.home(home::Event::Wanted(over, it.to));
        }
        if let Some(answer) = self.why_not_yielded(peer, &it) {
            self.answer(asker, answer);
        } else if self.is_held_off(by.unwrap_or(peer), over, Kind::Write) {
            self.answer(asker, Answer::Later);
        } else if let Some((before, ..)) = self.yielding.yields.insert(over, (asker, it, by)) {
            // Who asks again keeps its turn.
            self.answer(before, Answer::Later);
        } else {
            // Nobody shows a copy of it from then on.
            self.changing(by, &[over], move |node| node.may_yield(over, by));
        }
    }

    /// It has the turn of a change for that metaserver, which still has what it had.
    fn may_yield(&mut self, over: FileId, turn_for: Option<Peer>) {
        let Some((asker, it, by)) = self.yielding.yields.remove(&over) else { return };
        if by != turn_for {
            self.answer(asker, Answer::Later);
            return;
        }
        let answer = self.why_not_yielded(self.peer_of(asker), &it).unwrap_or(Answer::Done);
        if answer == Answer::Done {
            self.yields(Event::Yielded(it));
        }
        self.answer(asker, answer);
    }

    fn can_yield(&self, peer: Peer, it: &Yield) -> bool {
        let is_its = self.homes.of(it.to) == Some(peer) && peer != self.me();
        is_its && self.stands(it.over, &it.place) && !self.has_directory(it.over)
    }

    fn why_not_yielded(&self, peer: Peer, it: &Yield) -> Option<Answer> {
        if !self.can_yield(peer, it) {
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
        let (peer, over) = (self.peer_of(asker), it.over);
        if self.homes.of(it.to) != Some(peer) {
            self.answer(asker, Answer::Gone);
            return;
        }
        let Some(stamp) = version else {
            self.yields(Event::Kept(over, it.number));
            let waits = self.yielding.yields.get(&over);
            if waits.is_some_and(|(_, waits, _)| waits.number == it.number)
                && let Some((waits, ..)) = self.yielding.yields.remove(&over)
            {
                self.answer(waits, Answer::Later);
            }
            self.answer(asker, Answer::Done);
            return;
        };
        let by = by.filter(|by| by.0 < self.options.count);
        // It is for who comes back with an old backup, as what it answers would be.
        let epoch = self.peers.epoch_of(peer);
        self.peers(peers::Event::Heard(peer, Known { epoch, stamp }));
        if !self.stands(over, &it.place) {
            self.answer(asker, Answer::Done);
        } else if !self.yields.has_to(over, &it.place, it.to)
            || self.is_held_off(by.unwrap_or(peer), over, Kind::Write)
        {
            // It came late, or what was yielded was forgotten: then it is asked to yield again.
            self.answer(asker, Answer::Later);
        } else if let Some(before) = self.yielding.loses.insert(over, asker) {
            self.answer(before, Answer::Later);
        } else {
            self.changing(by, &[over], move |node| node.lose(&it));
        }
    }

    fn lose(&mut self, it: &Yield) {
        let Some(asker) = self.yielding.loses.remove(&it.over) else { return };
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
        self.yields(Event::Lost(over, left.clone()));
        self.announce(over, version, left);
        self.answer(asker, Answer::Done);
    }

    /// What has its home at a peer that starts, and is to lose names to objects here or has just now.
    pub(crate) fn replaced_of(&self, peer: Peer) -> Vec<Yield> {
        let all = self.disk.replacing.iter().map(|(to, (place, over))| Yield {
            over: *over,
            place: place.clone(),
            to: *to,
            number: 0,
        });
        let all = all.filter(|it| self.homes.of(it.over) == Some(peer));
        // If it has left the place again, what it replaced may be there.
        let lately = self.home.replaced_lately(peer);
        all.chain(lately.filter(|it| self.stands(it.to, &it.place)).cloned()).collect()
    }

    /// What has its home here is to lose names to objects of a peer, as that says when this one starts.
    pub(crate) fn had_yielded(&mut self, replaced: Vec<Yield>) {
        for it in replaced {
            let stands = self.stands(it.over, &it.place);
            self.yields(if stands { Event::Yielded(it) } else { Event::Lost(it.over, it.place) });
        }
    }

    /// What has replaced something has done so for good.
    pub(crate) fn has_replaced(&mut self, object: FileId) {
        let record = Record::Replaces(object, None);
        self.append(core::slice::from_ref(&record), Urgency::Soon, None);
        self.disk.take(record);
    }

    /// Goes on with what a start finds.
    pub(crate) fn go_on_replacing(&mut self) {
        for (object, (place, over)) in self.disk.replacing.clone() {
            let metafile = self.disk.metafiles.get(&object);
            let (Some(version), Some(peer)) =
                (metafile.map(|metafile| metafile.version), self.homes.of(over))
            else {
                self.has_replaced(object);
                continue;
            };
            // It could not yield the place, nor leave it, if it had not replaced that.
            if self.yields.has(object) || !self.stands(object, &place) {
                self.has_replaced(object);
                continue;
            }
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
