//! Searches for the object of a name: searches of this metaserver itself, and its part in the
//! search of a peer.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "an answer of any other kind is no result of the request"
)]

use leasehold_core::replica::distances;
use leasehold_core::replica::search::{self, Order, Search};
use leasehold_core::replica::{Call, Peer, Place, copies};

use crate::message::{Answer, Ask};
use crate::metafile::Metafile;
use crate::node::{Asker, Called, Node, Why};

/// The recipient of the result of a search: a call of `copies`, or a peer.
#[derive(Clone, Copy, Debug)]
enum Of {
    Copies(Call),
    Asker(Asker),
}

/// A search in progress.
#[derive(Clone, Debug)]
pub(crate) struct Searching {
    search: Search,
    place: Place,
    of: Of,
    found: Option<Metafile>,
    /// True if an object has reserved the name.
    is_claimed: bool,
}

impl Node {
    /// Searches for a name on behalf of `copies`.
    pub(crate) fn search(&mut self, call: Call, place: Place) {
        let Some(home) = self.homes.of(place.directory) else {
            self.copies(copies::Event::Nowhere(call));
            return;
        };
        let mut effects = Vec::new();
        let others = self.distances.all();
        let search = Search::start(self.options.order, home, &others, &mut effects);
        self.begin_search(search, place, Of::Copies(call), effects);
        self.measure(distances::Event::Search);
    }

    /// Passes an event to the measurement of distances between metaservers, if the search order is
    /// [`Order::Nearest`].
    fn measure(&mut self, event: distances::Event) {
        if self.options.order != Order::Nearest {
            return;
        }
        let mut effects = Vec::new();
        self.distances.step(self.now, event, &mut effects);
        for distances::Effect::Ask(peer) in effects {
            self.ask_load(peer);
        }
    }

    /// Measures the distance of a peer by the duration of a call that has ended. Ignores calls that
    /// may wait at the peer, because their duration is not the round-trip time.
    pub(crate) fn has_taken(&mut self, called: &Called, is_answered: bool) {
        let waits_for_nothing = match &called.ask {
            Ask::Hello(..) | Ask::Load => true,
            Ask::Search(_, behind) => behind.is_empty(),
            _ => false,
        };
        if waits_for_nothing {
            let took = self.now.since(called.sent);
            self.measure(match is_answered {
                true => distances::Event::Answered(called.peer, took),
                false => distances::Event::Silent(called.peer),
            });
        }
    }

    /// Continues the search of a peer: queries the metaservers that the peer delegates to this
    /// metaserver (`behind`).
    pub(crate) fn search_behind(&mut self, asker: Asker, place: Place, behind: &[Peer]) {
        let all: Vec<Peer> = self.options.peers().collect();
        let behind: Vec<Peer> = behind
            .iter()
            .copied()
            .filter(|peer| all.contains(peer) && *peer != self.me())
            .collect();
        let mut effects = Vec::new();
        let search = Search::among(&behind, &mut effects);
        self.begin_search(search, place, Of::Asker(asker), effects);
    }

    fn begin_search(&mut self, search: Search, place: Place, of: Of, effects: Vec<search::Effect>) {
        let id = self.number();
        self.searches.insert(id, Searching { search, place, of, found: None, is_claimed: false });
        self.seek(id, effects);
    }

    fn seek(&mut self, id: u64, effects: Vec<search::Effect>) {
        for effect in effects {
            let Some(searching) = self.searches.get(&id) else { return };
            let place = searching.place.clone();
            match effect {
                search::Effect::Search(peer, behind) => {
                    self.call(peer, Ask::Search(place, behind), Why::Search(id));
                }
                search::Effect::Named(peer) => self.call(peer, Ask::Named(place), Why::Named(id)),
                // Search at the home of the object that has reserved the name, because another
                // object of that home may have the name.
                search::Effect::Fetch(object) => {
                    let search = Ask::Search(place, Vec::new());
                    self.call_home(object, search, Why::SearchFetch(id));
                }
                search::Effect::Found(_) | search::Effect::Nowhere | search::Effect::Unknown => {
                    if let Some(searching) = self.searches.remove(&id) {
                        self.search_ended(searching, &effect);
                    }
                }
            }
        }
    }

    fn search_ended(&mut self, searching: Searching, effect: &search::Effect) {
        let Searching { of, found, is_claimed, place, .. } = searching;
        // An object of this home may have received the name during the search, or may just have
        // lost it. Then "not found" is not certain.
        let may_stand =
            self.disk.standing_at(&place).is_some() || self.yields.was_lost(self.now, &place);
        let is_nowhere = *effect == search::Effect::Nowhere && !may_stand;
        match (of, found) {
            (Of::Asker(asker), Some(found)) => self.answer(asker, Answer::Metafile(found)),
            (Of::Asker(asker), None) => {
                self.answer(asker, if is_nowhere { Answer::Nowhere } else { Answer::Later });
            }
            (Of::Copies(call), Some(found)) if !self.is_mine(found.object) => {
                let (object, version) = (found.object, found.version);
                self.brought = Some(found);
                self.copies(copies::Event::Found(call, object, version));
            }
            // An object has reserved the name and may receive the name at any time without a recall
            // of a lease. So the absence of the name must not be cached.
            (Of::Copies(call), None) if is_nowhere && is_claimed && self.options.strict => {
                self.copies(copies::Event::Vacant(call));
            }
            (Of::Copies(call), None) if is_nowhere => self.copies(copies::Event::Nowhere(call)),
            // The name belongs to an object of this home now, or the result is uncertain. The next
            // attempt decides.
            (Of::Copies(call), _) => self.copies(copies::Event::Failed(call)),
        }
    }

    /// Handles the answer to a call of a search.
    pub(crate) fn searched(&mut self, why: Why, answer: Answer) {
        let (Why::Search(id) | Why::Named(id) | Why::SearchFetch(id)) = why else { return };
        let Some(searching) = self.searches.get_mut(&id) else { return };
        let named = match answer {
            Answer::Metafile(found) if found.stands_at(&searching.place) => {
                let object = found.object;
                searching.found = Some(found);
                search::Answer::Found(object)
            }
            Answer::Named(Some(object)) => {
                searching.is_claimed = true;
                search::Answer::Claimed(object)
            }
            Answer::Metafile(_) | Answer::Named(None) | Answer::Nowhere => search::Answer::Nowhere,
            Answer::Gone if !matches!(why, Why::Search(_)) => search::Answer::Nowhere,
            _ => search::Answer::Unknown,
        };
        let mut effects = Vec::new();
        searching.search.step(named, &mut effects);
        self.seek(id, effects);
    }
}
