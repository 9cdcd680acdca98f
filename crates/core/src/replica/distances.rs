//! How far other metaservers are, for a search that asks the nearest first.
//!
//! Criteria in order of weight:
//! - Who is asked first is who answers soonest, also after the network has changed.
//! - What a network and busy machines do by chance changes no order.
//! - It costs next to no messages, and none where nothing is searched for.
//!
//! Rules:
//! 1. A peer is as far as the quickest of its answers took in a span and in the one before, to
//!    questions that wait for nothing. So one that comes nearer is near at once, and one that was
//!    slow for once is where it was.
//! 2. It counts as being where it was found, until it is more than twice as far or less than half;
//!    below a quarter of a millisecond all are equally near.
//! 3. Those that are at most twice as far as the nearest of them are equally near, and go by
//!    number.
//! 4. Who did not answer is behind all others until it does, as is who was never heard.
//! 5. When a search begins, who was neither heard nor asked for a span is asked beside it.

use core::time::Duration;
use std::collections::BTreeMap;

use leasehold_base::units::Time;

use super::Peer;

/// Long beside what is slow by chance, and short beside changes of a network.
const SPAN: Duration = Duration::from_secs(10);

/// What is nearer than this is told apart by the load of machines rather than by the way.
const NEAREST: Duration = Duration::from_micros(250);

/// Up to so many times as far is equally far.
const TIMES: u32 = 2;

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A peer has answered a question that waits for nothing, after so long.
    Answered(Peer, Duration),
    /// A peer did not answer such a one.
    Silent(Peer),
    /// A search begins.
    Search,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The peer is asked something that waits for nothing.
    Ask(Peer),
}

/// What is known of the way to a peer.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// When the span began.
    began: Time,
    /// The quickest answer in it, and in the one before.
    quickest: Duration,
    before: Duration,
    /// What the peer counts as.
    counts_as: Duration,
}

impl Way {
    const fn new(now: Time, took: Duration) -> Self {
        Self { began: now, quickest: took, before: took, counts_as: took }
    }

    fn is(self) -> Duration {
        self.quickest.min(self.before)
    }

    fn took(&mut self, now: Time, took: Duration) {
        if now < self.began + SPAN {
            self.quickest = self.quickest.min(took);
        } else {
            (self.began, self.before, self.quickest) = (now, self.quickest, took);
        }
        let is = self.is();
        if is > self.counts_as * TIMES || is * TIMES < self.counts_as {
            self.counts_as = is;
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Other {
    way: Option<Way>,
    is_silent: bool,
    /// When it was last heard, or asked.
    looked: Option<Time>,
}

/// How far all other peers are.
#[derive(Clone, Debug)]
pub struct Distances {
    others: BTreeMap<Peer, Other>,
}

impl Distances {
    /// Starts with nothing known of these.
    #[must_use]
    pub fn new(others: impl IntoIterator<Item = Peer>) -> Self {
        Self { others: others.into_iter().map(|peer| (peer, Other::default())).collect() }
    }

    /// Takes one event, and appends what is to be done.
    pub fn step(&mut self, now: Time, event: Event, effects: &mut Vec<Effect>) {
        match event {
            Event::Answered(peer, took) => {
                let Some(other) = self.others.get_mut(&peer) else { return };
                (other.is_silent, other.looked) = (false, Some(now));
                let took = took.max(NEAREST);
                match &mut other.way {
                    Some(way) => way.took(now, took),
                    None => other.way = Some(Way::new(now, took)),
                }
            }
            Event::Silent(peer) => {
                let Some(other) = self.others.get_mut(&peer) else { return };
                (other.is_silent, other.looked) = (true, Some(now));
            }
            Event::Search => {
                for (peer, other) in &mut self.others {
                    if other.looked.is_none_or(|looked| looked + SPAN <= now) {
                        other.looked = Some(now);
                        effects.push(Effect::Ask(*peer));
                    }
                }
            }
        }
        if cfg!(debug_assertions) {
            self.check();
        }
    }

    /// All others by number, each with its distance: those that are equally near have the same.
    #[must_use]
    pub fn all(&self) -> Vec<(Peer, u64)> {
        let heard = self.others.iter().filter(|(_, other)| !other.is_silent);
        let heard = heard.filter_map(|(peer, other)| Some((other.way?.counts_as, *peer)));
        let mut heard: Vec<(Duration, Peer)> = heard.collect();
        heard.sort_unstable();
        let mut distances = BTreeMap::new();
        let (mut distance, mut nearest) = (0, None);
        for (counts_as, peer) in heard {
            let of_them = *nearest.get_or_insert(counts_as);
            if counts_as > of_them * TIMES {
                (distance, nearest) = (distance + 1, Some(counts_as));
            }
            distances.insert(peer, distance);
        }
        let farthest = |peer| distances.get(peer).copied().unwrap_or(u64::MAX);
        self.others.keys().map(|peer| (*peer, farthest(peer))).collect()
    }

    /// Audits the whole state.
    ///
    /// # Panics
    /// When it contradicts itself.
    pub fn check(&self) {
        for way in self.others.values().filter_map(|other| other.way) {
            assert!(way.is() >= NEAREST, "nobody is nearer than that");
            assert!(way.is() <= way.counts_as * TIMES && way.counts_as <= way.is() * TIMES);
        }
    }
}

#[cfg(test)]
mod tests;
