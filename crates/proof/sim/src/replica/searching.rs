//! The searches of a metaserver for a name, for its own client or on behalf of a peer.

use leasehold_core::replica::search::{self, Search};
use leasehold_core::replica::{Call, Peer, Place, copies};

use super::ReplicaMutant;
use super::message::{Answer, Ask, Metafile};
use super::node::{Asker, Node, Why};

/// The requester of the search.
#[derive(Clone, Copy, Debug)]
enum For {
    Copies(Call),
    Peer(Asker),
}

#[derive(Clone, Debug)]
pub(super) struct Searching {
    search: Search,
    place: Place,
    of: For,
    found: Option<Metafile>,
    is_claimed: bool,
}

impl Node {
    /// Searches for a name, for the state machine `copies`.
    pub(super) fn search(&mut self, call: Call, place: Place) {
        let others = (0..self.count).filter(|peer| *peer != self.me.0);
        let others = others.map(|peer| (Peer(peer), u64::from(peer.abs_diff(self.me.0))));
        let home = self.home_of(place.directory);
        let mut effects = Vec::new();
        let others: Vec<(Peer, u64)> = others.collect();
        let search = Search::start(self.order, home, &others, &mut effects);
        self.begin(search, place, For::Copies(call), effects);
    }

    /// Searches for a name on behalf of a peer, among the metaservers that the peer assigned to
    /// this metaserver (`behind`).
    pub(super) fn search_behind(&mut self, asker: Asker, place: Place, behind: &[Peer]) {
        let mut effects = Vec::new();
        let search = Search::among(behind, &mut effects);
        self.begin(search, place, For::Peer(asker), effects);
    }

    fn begin(&mut self, mut search: Search, place: Place, of: For, effects: Vec<search::Effect>) {
        if self.mutant == Some(ReplicaMutant::GivesUp) {
            search.give_up();
        }
        let id = self.number();
        self.live
            .searches
            .insert(id, Searching { search, place, of, found: None, is_claimed: false });
        self.seek(id, effects);
    }

    fn seek(&mut self, id: u64, effects: Vec<search::Effect>) {
        for effect in effects {
            let Some(searching) = self.live.searches.get(&id) else { return };
            let place = searching.place.clone();
            match effect {
                search::Effect::Search(peer, behind) => {
                    self.call(peer, Ask::Search(place, behind), Why::Search(id));
                }
                search::Effect::Named(peer) => self.call(peer, Ask::Named(place), Why::Named(id)),
                // The record of the name may be for another object with the same home, so ask that
                // home for the object that has the name.
                search::Effect::Fetch(object) => {
                    let home = self.home_of(object);
                    self.call(home, Ask::Search(place, Vec::new()), Why::SearchFetch(id));
                }
                search::Effect::Found(_) | search::Effect::Nowhere | search::Effect::Unknown => {
                    let searching =
                        self.live.searches.remove(&id).expect("the search is in progress");
                    self.search_ended(searching, &effect);
                }
            }
        }
    }

    fn search_ended(&mut self, searching: Searching, effect: &search::Effect) {
        let Searching { of, found, is_claimed, place, .. } = searching;
        // If the name is claimed, or has its directory's home here, no lease announces when the
        // name is assigned. So the answer "not found" holds only now, and must not be cached.
        let is_for_now = is_claimed || self.home_of(place.directory) == self.me;
        // While the search queried peers, an object of this home may have got or lost the name.
        // Then the answer is not "not found".
        let was_lost = self.live.yields.was_lost(self.now, &place);
        let misses_home =
            self.mutant == Some(ReplicaMutant::MissesHome) && matches!(of, For::Copies(_));
        let may_stand = (self.disk.standing_at(&place).is_some() || was_lost) && !misses_home;
        let is_nowhere = *effect == search::Effect::Nowhere && !may_stand;
        match (of, found) {
            (For::Peer(asker), Some(found)) => self.answer(asker, Answer::Metafile(found)),
            (For::Peer(asker), None) => {
                self.answer(asker, if is_nowhere { Answer::Nowhere } else { Answer::Later });
            }
            (For::Copies(call), Some(found)) if self.home_of(found.object) != self.me => {
                let (object, version) = (found.object, found.version);
                self.live.brought = Some(found);
                self.copies(copies::Event::Found(call, object, version));
            }
            (For::Copies(call), None) if is_nowhere && is_for_now && self.strict => {
                self.copies(copies::Event::Vacant(call));
            }
            (For::Copies(call), None) if is_nowhere => self.copies(copies::Event::Nowhere(call)),
            // The object has its home here: report a failure, and the repeated search finds the
            // object without a query.
            (For::Copies(call), _) => self.copies(copies::Event::Failed(call)),
        }
    }

    /// Handles a peer's answer to a query of a search. `why` is the kind of the query.
    pub(super) fn searched(&mut self, id: u64, why: Why, answer: Answer) {
        let Some(searching) = self.live.searches.get_mut(&id) else { return };
        let named = match answer {
            Answer::Metafile(found) => {
                if found.place.as_ref() == Some(&searching.place) {
                    let object = found.object;
                    searching.found = Some(found);
                    search::Answer::Found(object)
                } else {
                    search::Answer::Nowhere
                }
            }
            Answer::Named(Some(object)) => {
                searching.is_claimed = true;
                search::Answer::Claimed(object)
            }
            Answer::Named(None) | Answer::Nowhere => search::Answer::Nowhere,
            Answer::Gone if !matches!(why, Why::Search(_)) => search::Answer::Nowhere,
            Answer::Gone
            | Answer::Known(..)
            | Answer::Same
            | Answer::Is(_)
            | Answer::Listed(_)
            | Answer::Version(_)
            | Answer::Done
            | Answer::Epoch(_)
            | Answer::Later
            | Answer::Exists
            | Answer::Full
            | Answer::Loop => search::Answer::Unknown,
        };
        let mut effects = Vec::new();
        searching.search.step(named, &mut effects);
        self.seek(id, effects);
    }
}
