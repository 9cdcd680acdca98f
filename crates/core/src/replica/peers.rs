//! The peers of a metaserver, and the decision whether this metaserver may serve.
//!
//! Rules:
//! 1. A metaserver that starts asks each peer for the peer's record of this metaserver, each second
//!    until the peer replies.
//! 2. If a reply contains a later epoch or version number than the storage of this metaserver, the
//!    metadata of this metaserver is out of date (for example, restored from a backup), and this
//!    metaserver never serves.
//! 3. The metaserver serves when all peers have replied and no reply contained a later record. An
//!    administrator may exclude a peer from this wait.
//! 4. The record of a peer contains the last epoch that the peer began, the epoch before it, and
//!    the peer's greatest known version number. The record is stored on stable storage whenever one
//!    of the values grows. A starting peer has already begun its new epoch, so the reply contains
//!    the previous epoch.
//! 5. A call is admitted if it names the epoch of this peer and the last epoch of its caller.
//! 6. All peers use the same consistency mode. A peer that starts and receives a different mode
//!    never serves.
//! 7. A serving metaserver that receives a later epoch of itself is superseded, for example by a
//!    copy on another machine: it stops serving.

use std::collections::BTreeMap;

use leasehold_base::limits::durations::PEER_RETRY_DELAY;
use leasehold_base::units::Time;

use super::{Peer, Stamp};

/// A point in a peer's history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The epoch at that point.
    pub epoch: u64,
    /// The last version number at that point.
    pub stamp: Stamp,
}

impl Known {
    /// Returns true if the epoch or the version number is later than the stored value.
    fn is_beyond(self, stored: Self) -> bool {
        self.epoch > stored.epoch || self.stamp > stored.stamp
    }
}

/// A peer's record of another peer, which is on stable storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Noted {
    /// The last epoch that the peer began.
    pub epoch: u64,
    /// The epoch before the last epoch. A peer finds this epoch in its storage while it starts the
    /// last epoch.
    pub before: u64,
    /// The greatest known version number.
    pub stamp: Stamp,
}

impl Noted {
    /// Records an epoch; returns true if it is a later one.
    const fn began(&mut self, epoch: u64) -> bool {
        let is_later = epoch > self.epoch;
        if is_later {
            self.before = self.epoch;
            self.epoch = epoch;
        }
        is_later
    }
}

/// An event for the peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A peer has started this epoch, and asks for this metaserver's record of the peer.
    Hello(Peer, u64),
    /// A peer in this epoch replied with its record of this metaserver.
    Answered(Peer, u64, Known),
    /// A peer replied to a call or refused a call. The reply contains the peer's epoch and version
    /// number.
    Heard(Peer, Known),
    /// A peer replied that it uses another consistency mode.
    Unlike(Peer),
    /// The administrator has excluded this peer from the wait at the start.
    Away(Peer),
    /// Time has passed.
    Tick,
}

/// An action that the owner of this state machine must perform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Ask the peer for its record of this metaserver.
    Hello(Peer),
    /// Reply to the peer with this record.
    Answer(Peer, Known),
    /// Store this record of the peer on stable storage.
    Note(Peer, Noted),
    /// This metaserver may serve now.
    Open,
    /// The peer's record is later than the storage: this metaserver does not serve.
    Older(Peer, Known),
    /// The peer knows a later epoch of this metaserver, which is superseded and stops serving.
    Over(Peer, Known),
    /// The peer uses another consistency mode, so this metaserver does not serve.
    Unlike(Peer),
}

/// The reason for which a call is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The call names an epoch that is not current. The value is the current epoch of this
    /// metaserver.
    Epoch(u64),
    /// This metaserver does not serve now.
    Later,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The metaserver waits for the records of its peers.
    Asking,
    Open,
    /// The metaserver must not serve.
    Refused,
}

#[derive(Clone, Copy, Debug)]
struct Other {
    noted: Noted,
    /// The time of the next request; `None` if the peer has replied or is excluded from the wait.
    ask: Option<Time>,
}

/// The state of this metaserver and its records of its peers.
#[derive(Clone, Debug)]
pub struct Peers {
    epoch: u64,
    stored: Known,
    others: BTreeMap<Peer, Other>,
    state: State,
    #[cfg(feature = "mutants")]
    mutant: Option<Mutant>,
}

/// A deliberate fault.
#[cfg(feature = "mutants")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Calls of every epoch are admitted.
    IgnoresEpochs,
    /// A metaserver with older metadata serves.
    ServesOlder,
}

impl Peers {
    /// Starts an epoch, with the stored state of this metaserver and its records of the other
    /// metaservers.
    #[must_use]
    pub fn new(now: Time, epoch: u64, stored: Known, others: BTreeMap<Peer, Noted>) -> Self {
        let other = |noted| Other { noted, ask: Some(now) };
        Self {
            epoch,
            stored,
            others: others.into_iter().map(|(peer, noted)| (peer, other(noted))).collect(),
            state: State::Asking,
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }

    /// Injects a fault.
    #[cfg(feature = "mutants")]
    pub const fn plant(&mut self, mutant: Mutant) {
        self.mutant = Some(mutant);
    }

    /// Handles one event, and appends the resulting actions in order.
    pub fn step(&mut self, now: Time, event: Event, effects: &mut Vec<Effect>) {
        match event {
            Event::Hello(peer, epoch) => {
                let Some(other) = self.others.get_mut(&peer) else { return };
                if other.noted.began(epoch) {
                    effects.push(Effect::Note(peer, other.noted));
                }
                let Noted { epoch: last, before, stamp } = other.noted;
                // Rule 4: the starting peer has already begun its new epoch, so the reply contains
                // the previous epoch.
                let epoch = if epoch == last { before } else { last };
                effects.push(Effect::Answer(peer, Known { epoch, stamp }));
            }
            Event::Answered(peer, epoch, known) => self.answered(peer, epoch, known, effects),
            Event::Heard(peer, known) => self.heard(peer, known, effects),
            Event::Unlike(peer) => {
                // Rule 6: a peer uses a different consistency mode, so this starting metaserver
                // never serves.
                if self.state == State::Asking {
                    self.state = State::Refused;
                    effects.push(Effect::Unlike(peer));
                }
            }
            Event::Away(peer) => {
                self.others.get_mut(&peer).into_iter().for_each(|other| other.ask = None);
            }
            Event::Tick => {}
        }
        if self.state == State::Asking {
            for (peer, other) in &mut self.others {
                // Rule 1: each peer is asked for its record each second until it replies.
                if other.ask.is_some_and(|time| time <= now) {
                    other.ask = Some(now + PEER_RETRY_DELAY);
                    effects.push(Effect::Hello(*peer));
                }
            }
            // Rule 3: all peers have replied or are excluded from the wait, and no record was
            // later.
            if self.others.values().all(|other| other.ask.is_none()) {
                self.state = State::Open;
                effects.push(Effect::Open);
            }
        }
    }

    /// Rule 5: admits a call of this caller that names the caller's epoch and the epoch of this
    /// metaserver.
    ///
    /// # Errors
    /// Returns a refusal if the call must have no effect.
    pub fn admit(&self, caller: Peer, epoch: u64, callee_epoch: u64) -> Result<(), Refusal> {
        if self.state != State::Open {
            return Err(Refusal::Later);
        }
        #[cfg(feature = "mutants")]
        if self.mutant == Some(Mutant::IgnoresEpochs) {
            return Ok(());
        }
        let is_last = self.others.get(&caller).is_some_and(|other| other.noted.epoch == epoch);
        if callee_epoch == self.epoch && is_last { Ok(()) } else { Err(Refusal::Epoch(self.epoch)) }
    }

    /// Returns true if this metaserver serves.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// Returns the epoch.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the last known epoch of a peer.
    #[must_use]
    pub fn epoch_of(&self, peer: Peer) -> u64 {
        self.others.get(&peer).map_or(0, |other| other.noted.epoch)
    }

    /// Returns the next time at which a peer is asked again.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        let asking = self.state == State::Asking;
        self.others.values().filter(|_| asking).filter_map(|other| other.ask).min()
    }

    fn answered(&mut self, peer: Peer, epoch: u64, known: Known, effects: &mut Vec<Effect>) {
        let Some(other) = self.others.get_mut(&peer) else { return };
        match self.state {
            State::Asking => {}
            // Rule 7: a later epoch of this metaserver exists, so this epoch is superseded.
            State::Open if known.epoch > self.epoch => {
                self.state = State::Refused;
                effects.push(Effect::Over(peer, known));
                return;
            }
            State::Open | State::Refused => return,
        }
        other.ask = None;
        let is_older = known.is_beyond(self.stored);
        #[cfg(feature = "mutants")]
        let is_older = is_older && self.mutant != Some(Mutant::ServesOlder);
        // Rule 2: the record of a peer is later than the storage, so this metaserver never serves.
        if is_older {
            self.state = State::Refused;
            effects.push(Effect::Older(peer, known));
        }
        self.heard(peer, Known { epoch, stamp: Stamp::default() }, effects);
    }

    fn heard(&mut self, peer: Peer, heard: Known, effects: &mut Vec<Effect>) {
        let Some(other) = self.others.get_mut(&peer) else { return };
        let is_later = other.noted.began(heard.epoch);
        // Rule 4: the record is stored whenever one of its values grows.
        if is_later || heard.stamp > other.noted.stamp {
            other.noted.stamp = other.noted.stamp.max(heard.stamp);
            effects.push(Effect::Note(peer, other.noted));
        }
    }
}

#[cfg(test)]
mod tests;
