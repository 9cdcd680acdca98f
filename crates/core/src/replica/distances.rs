//! The distances of other metaservers, for a search that asks the nearest first.
//!
//! Criteria in order of weight:
//! - A search first asks the peer that replies soonest, even after the network has changed.
//! - Random delays of networks and busy machines do not change the order of the peers.
//! - The measurement costs almost no messages, and none without searches.
//!
//! Rules:
//! 1. The distance of a peer is its shortest response time in the current and the previous span.
//!    Only requests that the peer can answer without a wait are measured. So a peer that becomes
//!    nearer counts as near at once, and a single slow reply changes nothing.
//! 2. The distance that is used for ordering stays unchanged until the measured distance is more
//!    than twice or less than half of it. Peers below 250 microseconds are equally near.
//! 3. Peers that are at most twice as far as the nearest peer of their group are equally near, and
//!    are ordered by their peer numbers.
//! 4. A peer that did not reply to the last request, or has never replied, comes after all other
//!    peers until it replies.
//! 5. When a search begins, each peer that has neither replied nor received a request for one span
//!    is sent a request.

use core::time::Duration;
use std::collections::BTreeMap;

use leasehold_base::units::Time;

use super::Peer;

/// The length of a span: long compared with random delays, and short compared with the time between
/// changes of a network.
const SPAN: Duration = Duration::from_secs(10);

/// The shortest distance: below this time the load of machines, and not the network, determines the
/// response time.
const NEAREST: Duration = Duration::from_micros(250);

/// The ratio of distances up to which two peers are equally near.
const TIMES: u32 = 2;

/// An event for the distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A peer replied after this time to a request that it can answer without a wait.
    Answered(Peer, Duration),
    /// A peer did not reply to a request that it can answer without a wait.
    Silent(Peer),
    /// A search begins.
    Search,
}

/// An action that the owner of this state machine must perform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send the peer a request that it can answer without a wait.
    Ask(Peer),
}

/// The measured distance of a peer.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// The time at which the span began.
    began: Time,
    /// The shortest response time in the current span (`quickest`) and in the previous span
    /// (`before`).
    quickest: Duration,
    before: Duration,
    /// The distance that is used for ordering.
    counts_as: Duration,
}

impl Way {
    const fn new(now: Time, took: Duration) -> Self {
        Self { began: now, quickest: took, before: took, counts_as: took }
    }

    /// Rule 1: returns the shortest response time in the current and the previous span.
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
        // Rule 2: the distance for ordering changes only if the measured distance is more than
        // twice or less than half of it.
        if is > self.counts_as * TIMES || is * TIMES < self.counts_as {
            self.counts_as = is;
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Other {
    way: Option<Way>,
    is_silent: bool,
    /// The time of the last reply, request or timeout.
    looked: Option<Time>,
}

/// The distances of all other peers.
#[derive(Clone, Debug)]
pub struct Distances {
    others: BTreeMap<Peer, Other>,
}

impl Distances {
    /// Creates the state without measurements of these peers.
    #[must_use]
    pub fn new(others: impl IntoIterator<Item = Peer>) -> Self {
        Self { others: others.into_iter().map(|peer| (peer, Other::default())).collect() }
    }

    /// Handles one event, and appends the resulting actions.
    pub fn step(&mut self, now: Time, event: Event, effects: &mut Vec<Effect>) {
        match event {
            Event::Answered(peer, took) => {
                let Some(other) = self.others.get_mut(&peer) else { return };
                (other.is_silent, other.looked) = (false, Some(now));
                // Rule 2: peers that are nearer than the shortest distance are equally near.
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
                    // Rule 5: a search sends a request to each peer that has neither replied nor
                    // received a request for one span.
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

    /// Returns all other peers in the order of their peer numbers, each with its rank: equally near
    /// peers have the same rank.
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
            // Rule 3: a peer that is more than twice as far as the nearest peer of its group begins
            // a new group.
            if counts_as > of_them * TIMES {
                (distance, nearest) = (distance + 1, Some(counts_as));
            }
            distances.insert(peer, distance);
        }
        // Rule 4: a peer that is silent or has never replied comes after all other peers.
        let farthest = |peer| distances.get(peer).copied().unwrap_or(u64::MAX);
        self.others.keys().map(|peer| (*peer, farthest(peer))).collect()
    }

    /// Audits the whole state.
    ///
    /// # Panics
    /// Panics if the state is inconsistent.
    pub fn check(&self) {
        for way in self.others.values().filter_map(|other| other.way) {
            assert!(way.is() >= NEAREST, "no peer is nearer than the minimum");
            assert!(way.is() <= way.counts_as * TIMES && way.counts_as <= way.is() * TIMES);
        }
    }
}

#[cfg(test)]
mod tests;
