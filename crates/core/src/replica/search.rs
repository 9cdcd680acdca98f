//! Whom to ask for a name that is not here, and what follows from the answers.
//!
//! With `n` metaservers, of which this is one:
//!
//! | order | calls | one after the other |
//! | --- | --- | --- |
//! | sequential | up to n - 1 | up to n - 1 |
//! | nearest | up to n - 1, sooner found | up to n - 1, the nearer first |
//! | tree | up to n - 1, by all together | log2 n |
//! | constant | up to 2 | up to 2 |
//!
//! Rules:
//! 1. In sequence peers are asked one by one, by number or the nearest first, until one has it.
//! 2. In a tree two are asked at once, each with half of the others behind it. Who is asked looks at
//!    home first, and searches so among those behind it.
//! 3. With constant calls the directory's home is asked which object has claimed the name, and that
//!    object's home for its metafile. If it does not stand there, nobody does.
//! 4. The first that has it ends the search. It is nowhere if all that were asked said so. If one
//!    did not answer and nobody has it, it is not known.

use std::collections::VecDeque;

use leasehold_base::units::FileId;

use super::Peer;

/// The order in which peers are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By number.
    Sequential,
    /// The nearest first.
    Nearest,
    /// Two halves at once.
    Tree,
    /// The directory's home, and then the object's.
    Constant,
}

/// What a peer answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The object that has the name, with its metafile.
    Found(FileId),
    /// The object that has claimed the name.
    Claimed(FileId),
    /// Nothing that it knows of.
    Nowhere,
    /// None, or that it does not know.
    Unknown,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The peer is asked, and asks those behind it.
    Search(Peer, Vec<Peer>),
    /// The directory's home is asked.
    Named(Peer),
    /// The object's home is asked.
    Fetch(FileId),
    /// The object has the name.
    Found(FileId),
    /// Nobody has it.
    Nowhere,
    /// That is not known.
    Unknown,
}

/// A search that is under way.
#[derive(Clone, Debug)]
pub struct Search {
    to_ask: VecDeque<Peer>,
    asked: usize,
    is_unknown: bool,
    #[cfg(feature = "mutants")]
    gives_up: bool,
}

impl Search {
    /// Starts among the other peers, of which each is said how far it is, for a name in a directory
    /// of another's.
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
            Order::Constant => {
                effects.push(Effect::Named(directory));
                return Self::asking(VecDeque::new(), 1);
            }
        }
        let mut search = Self::asking(others.into_iter().map(|(peer, _)| peer).collect(), 0);
        search.go_on(effects);
        search
    }

    /// Starts as part of a tree: all of these are to be asked.
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

    /// Plants a fault: who does not answer does not have it.
    #[cfg(feature = "mutants")]
    pub const fn give_up(&mut self) {
        self.gives_up = true;
    }

    /// Takes an answer; false when the search is over.
    pub fn step(&mut self, answer: Answer, effects: &mut Vec<Effect>) -> bool {
        match answer {
            Answer::Found(object) => {
                effects.push(Effect::Found(object));
                return false;
            }
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
        if let Some(next) = self.to_ask.pop_front() {
            self.asked = 1;
            effects.push(Effect::Search(next, Vec::new()));
            return true;
        }
        effects.push(if self.is_unknown { Effect::Unknown } else { Effect::Nowhere });
        false
    }
}

#[cfg(test)]
mod tests;
