//! Renames in which an object replaces an object of another home. The other home first prepares
//! ("yields") its object: it hides the object before the rename commits.

use leasehold_base::units::FileId;
use leasehold_core::replica::peers::{self, Known};
use leasehold_core::replica::yields::{Effect, Event, Yield};
use leasehold_core::replica::{Peer, Place, Stamp, Ticket, home};

use super::leasing::Turns;
use super::message::{Answer, Ask};
use super::node::{Asker, Chore, Node, Why};

impl Node {
    pub(super) fn yields(&mut self, event: Event) {
        let mut effects = Vec::new();
        self.live.yields.step(self.now, event, &mut effects);
        for Effect::Ask(call, place, to) in effects {
            let home = self.home_of(to);
            self.call(home, Ask::Stands(place, to, None), Why::YieldedTo(call));
        }
    }

    /// Executes the steps of a replacement that concern another home, such as the request to
    /// prepare the object for the replacement.
    pub(super) fn replaces_elsewhere(&mut self, effect: home::Effect) {
        let of = |over, place, to, ticket: Ticket| Yield { over, place, to, number: ticket.0 };
        if let home::Effect::Turn(ticket, object) = effect {
            self.changing(&[object], Chore::Turn(ticket));
        } else if let home::Effect::Yield(ticket, to, place, over) = effect {
            let ask = Ask::Yield(of(over, place, to, ticket));
            self.call(self.home_of(over), ask, Why::Yield(ticket));
        } else if let home::Effect::Keep(ticket, to, place, over) = effect {
            let ask = Ask::Replaced(of(over, place, to, ticket), None);
            self.call(self.home_of(over), ask, Why::Announce);
        } else if let home::Effect::Replace(ticket, to, place, over, version) = effect {
            let ask = Ask::Replaced(of(over, place, to, ticket), Some(version));
            self.call(self.home_of(over), ask, Why::Claim(ticket));
        } else if let home::Effect::Replaced(object) = effect {
            self.disk.replacing.remove(&object);
        }
    }

    /// Continues a rename after no peer has a lease on the replacing object. The operation guards
    /// last until the rename is done.
    pub(super) fn has_turn(&mut self, ticket: Ticket, turns: Turns) {
        self.live.first.insert(ticket, turns);
        if self.live.home.is_moving(ticket) {
            self.home(home::Event::Had(ticket, Ok(())));
        } else {
            self.gives_turns_back(ticket);
        }
    }

    /// Ends the operation guards of a rename that is not done.
    pub(super) fn gives_turns_back(&mut self, ticket: Ticket) {
        for (object, turn) in self.live.first.remove(&ticket).unwrap_or_default() {
            self.has_changed(object, turn);
        }
    }

    /// Changes the names of objects that have their home at this metaserver.
    pub(super) fn change_names(&mut self, ticket: Ticket, change: home::Change) {
        let had = self.live.first.remove(&ticket).unwrap_or_default();
        let is_had = |object: &FileId| had.iter().any(|(it, _)| it == object);
        let objects: Vec<_> = change.objects().filter(|object| !is_had(object)).collect();
        self.changing_with(&objects, had, Chore::Store(ticket, change));
    }

    /// Handles the request of another home to prepare an object of this home for its replacement.
    pub(super) fn asked_to_yield(&mut self, asker: Asker, it: Yield) {
        if self.stands(it.over, &it.place) {
            self.home(home::Event::Wanted(it.over, it.to));
        }
        match self.why_not_yielded(&it) {
            Some(answer) => self.answer(asker, answer),
            None => self.changing(&[it.over], Chore::Yield(asker, it)),
        }
    }

    fn why_not_yielded(&self, it: &Yield) -> Option<Answer> {
        if !self.stands(it.over, &it.place) {
            return Some(Answer::Gone);
        }
        let is_free = !self.live.home.is_under(it.over) && self.live.yields.may(it);
        (!is_free).then_some(Answer::Later)
    }

    /// Prepares an object for its replacement, after no peer has a copy of the object under a
    /// lease.
    pub(super) fn yield_to(&mut self, asker: Asker, it: Yield) {
        let answer = self.why_not_yielded(&it).unwrap_or(Answer::Done);
        if answer == Answer::Done {
            self.yields(Event::Yielded(it));
        }
        self.answer(asker, answer);
    }

    /// Handles the end of a replacement: another home has stored its object under the name, with
    /// this version, or gives the replacement up.
    pub(super) fn asked_to_lose(&mut self, asker: Asker, it: Yield, version: Option<Stamp>) {
        let Some(stamp) = version else {
            self.yields(Event::Kept(it.over, it.number));
            self.answer(asker, Answer::Done);
            return;
        };
        let known = Known { epoch: asker.epoch, stamp };
        self.peers(peers::Event::Heard(asker.peer, known));
        if !self.stands(it.over, &it.place) {
            self.answer(asker, Answer::Done);
        } else if self.live.yields.has_to(it.over, &it.place, it.to) {
            self.changing(&[it.over], Chore::Lose(asker, it));
        } else {
            // The request is late, or a restart has lost the preparation. The other home retries
            // and then repeats its first request.
            self.answer(asker, Answer::Later);
        }
    }

    pub(super) fn has_lost(&mut self, asker: Asker, it: Yield, version: Option<Stamp>) {
        if let Some(version) = version {
            self.yields(Event::Lost(it.over, it.place.clone()));
            self.announce(it.over, version, it.place);
        }
        self.answer(asker, Answer::Done);
    }

    /// Returns true if this metaserver hides the object of a name, or has hidden it until a short
    /// time ago.
    pub(super) fn is_hidden(&self, place: &Place) -> bool {
        match self.disk.standing_at(place) {
            Some(there) => self.live.yields.hides(there.object).is_some(),
            None => self.live.yields.was_lost(self.now, place),
        }
    }

    /// Returns the objects of a starting peer that objects of this home replace, or have just
    /// replaced.
    pub(super) fn replaced_of(&self, peer: Peer) -> Vec<Yield> {
        let all = self.disk.replacing.iter().map(|(to, (place, over))| Yield {
            over: *over,
            place: place.clone(),
            to: *to,
            number: 0,
        });
        let all = all.filter(|it| self.home_of(it.over) == peer);
        // An object of this home that has replaced another may have left the name since. Then the
        // replaced object may exist again under it, so omit this replacement.
        let lately = self.live.home.replaced_lately(peer);
        all.chain(lately.filter(|it| self.stands(it.to, &it.place)).cloned()).collect()
    }

    /// Handles the list of objects of this home that objects of a peer are replacing. The
    /// metaserver receives the list at its start.
    pub(super) fn had_yielded(&mut self, replaced: Vec<Yield>) {
        for it in replaced {
            let stands = self.stands(it.over, &it.place);
            self.yields(if stands { Event::Yielded(it) } else { Event::Lost(it.over, it.place) });
        }
    }

    /// Continues the incomplete replacements that the disk contains at a start.
    pub(super) fn go_on_replacing(&mut self) {
        for (object, (place, over)) in self.disk.replacing.clone() {
            // An object must complete its replacement before it can leave the name or be prepared
            // to lose it. So if either has happened, the replacement is complete: drop its record.
            if self.live.yields.has(object) || !self.stands(object, &place) {
                self.disk.replacing.remove(&object);
                continue;
            }
            let version = self.disk.metafiles[&object].version;
            let (is_directory, from, to) = (false, None, Some(place));
            let over = Some(home::Over::There(over, self.home_of(over)));
            let change = home::Change { object, is_directory, from, to, over };
            let ticket = Ticket(self.number());
            self.home(home::Event::Found(ticket, change, version));
        }
    }
}
