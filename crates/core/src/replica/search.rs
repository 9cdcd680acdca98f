//! The search for a name without a local object: the peers to ask, and the result of their replies.
//!
//! The cost with `n` metaservers, including this one:
//!
//! | order | calls | in series |
//! | --- | --- | --- |
//! | sequential | up to n - 1 | up to n - 1 |
//! | nearest | up to n - 1, usually fewer | up to n - 1, nearest first |
//! | tree | up to n - 1, by all peers together | log2 n |
//! | constant | up to 2 | up to 2 |
//!
//! Rules:
//! 1. In the sequential and nearest orders, peers are asked one by one until a peer has the name.
//! 2. In the tree order, two peers are asked at once, and each receives half of the other peers as
//!    a list. A peer that is asked searches its own objects first, and then asks the peers of its
//!    list in the same way.
//! 3. In constant order, the directory's home is asked which object has claimed the name, and that
//!    object's home is asked for the metadata file. If that object does not have the name, no
//!    object has it.
//! 4. The first positive reply ends the search. No object has the name if all peers that were asked
//!    reported so. If a peer did not reply and no other peer has the name, the result is unknown.

use std::collections::VecDeque;

use leasehold_base::units::FileId;

use super::Peer;

/// The order in which a search asks peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// One peer after the other, by peer number.
    Sequential,
    /// One peer after the other, the nearest first.
    Nearest,
    /// A binary tree: two peers at once, each with half of the other peers.
    Tree,
    /// First the directory's home, then the home of the object that has claimed the name.
    Constant,
}

/// The reply of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The object that has the name, with its metadata file.
    Found(FileId),
    /// The object that has claimed the name.
    Claimed(FileId),
    /// The peer knows no object with the name.
    Nowhere,
    /// No reply, or a reply that the result is unknown.
    Unknown,
}

/// An action that the owner of this state machine must perform, or the result of the search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Ask the peer to search its own objects, and then the listed peers.
    Search(Peer, Vec<Peer>),
    /// Ask the directory's home which object has claimed the name.
    Named(Peer),
    /// Ask the object's home for the metadata file.
    Fetch(FileId),
    /// The object has the name.
    Found(FileId),
    /// No object has the name.
    Nowhere,
    /// The result is unknown.
    Unknown,
}

/// A pending search.
#[derive(Clone, Debug)]
pub struct Search {
    /// The peers that were not asked yet.
    to_ask: VecDeque<Peer>,
    /// The number of missing replies.
    asked: usize,
    /// True if a peer did not reply, or reported that the result is unknown.
    is_unknown: bool,
    #[cfg(feature = "mutants")]
    gives_up: bool,
}

impl Search {
    /// Starts a search among the other peers, given with their distances, for a name in a directory
    /// of another home.
    #[must_use]
    pub fn start(
        order: Order,
        directory: Peer,
        others: &[(Peer, u64)],
        effects: &mut Vec<Effect>,
    ) -> Self {
        let mut others = others.to_vec();
        match order {
            Order::Sequential => others.sort_by_key(|(peer, _)| *peer),
            Order::Nearest => others.sort_by_key(|(peer, distance)| (*distance, *peer)),
            Order::Tree => {
                let peers: Vec<Peer> = others.iter().map(|(peer, _)| *peer).collect();
                return Self::among(&peers, effects);
            }
            // Rule 3: the directory's home is asked which object has claimed the name.
            Order::Constant => {
                effects.push(Effect::Named(directory));
                return Self::asking(VecDeque::new(), 1);
            }
        }
        let mut search = Self::asking(others.into_iter().map(|(peer, _)| peer).collect(), 0);
        search.go_on(effects);
        search
    }

    /// Rule 2: starts a part of a tree search, which asks all of these peers: the first peer of
    /// each half receives the rest of the half as a list.
    #[must_use]
    pub fn among(peers: &[Peer], effects: &mut Vec<Effect>) -> Self {
        let halves = peers.split_at(peers.len().div_ceil(2));
        let halves = [halves.0, halves.1].into_iter().filter_map(<[Peer]>::split_first);
        let mut search = Self::asking(VecDeque::new(), 0);
        for (first, behind) in halves {
            search.asked += 1;
            effects.push(Effect::Search(*first, behind.to_vec()));
        }
        if search.asked == 0 {
            effects.push(Effect::Nowhere);
        }
        search
    }

    /// Injects a fault: a peer that does not reply counts as not having the name.
    #[cfg(feature = "mutants")]
    pub const fn give_up(&mut self) {
        self.gives_up = true;
    }

    /// Handles a reply; returns false when the search has ended.
    pub fn step(&mut self, answer: Answer, effects: &mut Vec<Effect>) -> bool {
        match answer {
            // Rule 4: the first positive reply ends the search.
            Answer::Found(object) => {
                effects.push(Effect::Found(object));
                return false;
            }
            // Rule 3: the home of the object that has claimed the name is asked for the metadata
            // file.
            Answer::Claimed(object) => {
                effects.push(Effect::Fetch(object));
                return true;
            }
            Answer::Unknown => self.is_unknown = true,
            Answer::Nowhere => {}
        }
        #[cfg(feature = "mutants")]
        if self.gives_up {
            self.is_unknown = false;
        }
        self.asked = self.asked.saturating_sub(1);
        self.go_on(effects)
    }

    const fn asking(to_ask: VecDeque<Peer>, asked: usize) -> Self {
        Self {
            to_ask,
            asked,
            is_unknown: false,
            #[cfg(feature = "mutants")]
            gives_up: false,
        }
    }

    fn go_on(&mut self, effects: &mut Vec<Effect>) -> bool {
        if self.asked > 0 {
            return true;
        }
        // Rule 1: the next peer is asked after the previous peer did not have the name.
        if let Some(next) = self.to_ask.pop_front() {
            self.asked = 1;
            effects.push(Effect::Search(next, Vec::new()));
            return true;
        }
        // Rule 4: the result is unknown if a peer did not reply, and otherwise no object has the
        // name.
        effects.push(if self.is_unknown { Effect::Unknown } else { Effect::Nowhere });
        false
    }
}

#[cfg(test)]
mod tests;
