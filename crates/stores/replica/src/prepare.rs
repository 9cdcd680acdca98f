//! A rename over an object of another home, as a two-phase rename: the home of the replaced object
//! first prepares (YIELD), which hides the replaced object, and removes the name after the rename
//! is stored (REPLACED). See rules 30 to 34 of `spec/replica.x`.
//!
//! `core::replica::home` contains the rules for the home of the renamed object, and
//! `core::replica::yields` contains the rules for the home of the replaced object.

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

/// The two-phase renames that wait until the conflicting leases on the renamed object, or on the
/// replaced object, have ended.
#[derive(Default)]
pub(crate) struct Yielding {
    /// The guards on renamed objects, by the ticket of the rename.
    turns: BTreeMap<Ticket, First>,
    yields: BTreeMap<FileId, (Asker, Yield, Option<Peer>)>,
    loses: BTreeMap<FileId, Asker>,
}

/// The guard on a renamed object. The rename acquires this guard first, because clients may take
/// long to return their leases.
pub(crate) struct First {
    pub(crate) object: FileId,
    pub(crate) turn: Turn,
    pub(crate) asked: Asked,
}

/// The time of a request, and the epoch of the requesting metaserver at that time.
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

    /// Acquires the guard on the renamed object. The guard is acquired before the replaced object
    /// is hidden, so that the object is not hidden while clients return leases, and ends when the
    /// rename is stored.
    pub(crate) fn takes_turn_first(&mut self, ticket: Ticket, object: FileId) {
        let (by, asked) = (self.is_for(ticket), self.asked_now(ticket));
        self.changing(by, &[object], move |node| {
            if !node.home.is_moving(ticket) {
                return;
            }
            // Give the rename up if its requester has restarted, since no operation waits for the
            // result.
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

    /// Returns the current time, and the current epoch of the metaserver that requested a change.
    pub(crate) fn asked_now(&self, ticket: Ticket) -> Asked {
        let by = self.is_for(ticket);
        let epoch_of_by = by.map_or(0, |by| self.peers.epoch_of(by));
        Asked { since: self.now, epoch_of_by }
    }

    /// Takes the guard on the renamed object out of the state, if the rename has one.
    pub(crate) fn turn_had(&mut self, ticket: Ticket) -> Option<First> {
        self.yielding.turns.remove(&ticket)
    }

    /// Ends the guard of a rename that is refused.
    pub(crate) fn gives_turn_back(&mut self, ticket: Ticket) {
        if let Some(First { object, turn, .. }) = self.turn_had(ticket) {
            self.has_changed_leased(object, turn);
        }
    }

    /// Handles YIELD, the prepare request: an object of another home is about to replace an object
    /// of this home.
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
            // A retry of YIELD takes the queue position of the earlier request, whose sender no
            // longer waits.
            self.answer(before, Answer::Later);
        } else {
            // Acquire the guard first: when it is granted, no metaserver has a cached copy of the
            // object, so the object can be hidden.
            self.changing(by, &[over], move |node| node.may_yield(over, by));
        }
    }

    /// Prepares: hides the replaced object, once its guard is acquired. `turn_for` is the
    /// metaserver that keeps its leases under this guard.
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

    /// Handles REPLACED, the end of a two-phase rename: the other object has the name since
    /// `version`, or (`None`) the rename was given up.
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
        // Record the version number of the caller, as for any reply of the caller, so that this
        // metaserver detects if the caller is restored from an old backup.
        let epoch = self.peers.epoch_of(peer);
        self.peers(peers::Event::Heard(peer, Known { epoch, stamp }));
        if !self.stands(over, &it.place) {
            self.answer(asker, Answer::Done);
        } else if !self.yields.has_to(over, &it.place, it.to)
            || self.is_held_off(by.unwrap_or(peer), over, Kind::Write)
        {
            // The object is not prepared: the call is late, or this metaserver has lost the
            // preparation in a restart. The caller then repeats YIELD.
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
            // The name is already removed, but the removal may not be on stable storage yet, so the
            // caller must retry.
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

    /// Handles the completion of the stored removal of a replaced object's name.
    pub(crate) fn has_lost(&mut self, (over, version): (FileId, Stamp), left: Place, asker: Asker) {
        self.yields(Event::Lost(over, left.clone()));
        self.announce(over, version, left);
        self.answer(asker, Answer::Done);
    }

    /// Returns the objects of a restarted peer that objects of this home are replacing, or have
    /// replaced within the last window.
    pub(crate) fn replaced_of(&self, peer: Peer) -> Vec<Yield> {
        let all = self.disk.replacing.iter().map(|(to, (place, over))| Yield {
            over: *over,
            place: place.clone(),
            to: *to,
            number: 0,
        });
        let all = all.filter(|it| self.homes.of(it.over) == Some(peer));
        // Skip recent replacements whose new object has lost the name again: the replaced object
        // may have the name now.
        let lately = self.home.replaced_lately(peer);
        all.chain(lately.filter(|it| self.stands(it.to, &it.place)).cloned()).collect()
    }

    /// Restores the preparations (yields) that a peer reports when this metaserver starts.
    pub(crate) fn had_yielded(&mut self, replaced: Vec<Yield>) {
        for it in replaced {
            let stands = self.stands(it.over, &it.place);
            self.yields(if stands { Event::Yielded(it) } else { Event::Lost(it.over, it.place) });
        }
    }

    /// Records that a two-phase rename is complete at both homes.
    pub(crate) fn has_replaced(&mut self, object: FileId) {
        let record = Record::Replaces(object, None);
        self.append(core::slice::from_ref(&record), Urgency::Soon, None);
        self.disk.take(record);
    }

    /// Continues the two-phase renames that the start finds on stable storage.
    pub(crate) fn go_on_replacing(&mut self) {
        for (object, (place, over)) in self.disk.replacing.clone() {
            let metafile = self.disk.metafiles.get(&object);
            let (Some(version), Some(peer)) =
                (metafile.map(|metafile| metafile.version), self.homes.of(over))
            else {
                self.has_replaced(object);
                continue;
            };
            // The new object has lost the name since, or is about to lose it. This is possible only
            // after the replacement was complete, so only its record is left to remove.
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
